"""context show, add, edit, remove, touch, pin, size, list, documents, archive, restore, search."""

from collections.abc import Mapping, Sequence
from typing import Any

import click

from memory_actors.api.user import UserMemory
from memory_actors.base.reports import (
    DEFAULT_DOCUMENT,
    ContextEntry,
    ContextReceipt,
    ContextSize,
    DocumentInfo,
)
from memory_actors.cli import options
from memory_actors.cli.deriving import mirrors
from memory_actors.cli.options import App, Group
from memory_actors.cli.output import (
    counted,
    local,
    note,
    print_table,
    say,
    shortened,
    size,
    table,
    text,
)
from memory_actors.cli.running import ensure_model
from memory_actors.cli.showing import short_id
from memory_actors.kinds.context.commands import FREE_MAX, FREE_MIN

TEXT_CHARACTERS_MAX = 100

document = click.option(
    "--document",
    metavar="NAME",
    default=DEFAULT_DOCUMENT,
    show_default=True,
    help="Which document.",
)
said = click.argument("text", default="-", metavar="[TEXT|-]", type=options.given_text)
entry_ids = click.argument("entry_ids", nargs=-1, required=True, metavar="ID...")


@click.group(cls=Group)
def context() -> None:
    """Keep the small document that goes into every prompt, and its archive."""


def _say_written(receipt: ContextReceipt) -> None:
    done = ", ".join(receipt.entry_ids)
    say(f"{receipt.operation}: {done}" if done else receipt.operation)
    if receipt.archived:
        say(f"Archived: {', '.join(receipt.archived)}")
    _say_size(receipt)


def _say_size(told: ContextReceipt | ContextSize) -> None:
    say(told.message)
    if told.warning is not None:
        note(told.warning, "yellow")
    if told.note is not None:
        say(told.note, "dim")


def _with_model(app: App, given: Mapping[str, Any]) -> None:
    """See that the model is there, if entries may go to the archive."""
    if given.get("auto_archive", True):
        ensure_model(app)


# --- write


@mirrors(
    "context.add", context, new=True, check=_with_model, more=[document, options.said_by],
    section=click.option(
        "--section", default="", help="The heading it goes under.  [default: before the first]"
    ),
    text=said,
    pinned=click.option(
        "--pin", "pinned", is_flag=True, help="Never archive it to make room."
    ),
    metadata=None,
)  # fmt: skip
def add(receipt: ContextReceipt) -> None:
    """Put TEXT, or what stands on stdin, at the end of a section."""
    _say_written(receipt)


@mirrors("context.edit", context, text=said, more=[document, options.said_by])
def edit(receipt: ContextReceipt) -> None:
    """Let an entry say TEXT, or what stands on stdin."""
    _say_written(receipt)


@mirrors("context.remove", context, more=[document])
def remove(receipt: ContextReceipt) -> None:
    """Remove an entry. `restore` brings it back."""
    _say_written(receipt)


@mirrors("context.touch", context, more=[document])
def touch(receipt: ContextReceipt) -> None:
    """Say that entries were of use: the stalest are archived first."""
    _say_written(receipt)


@mirrors(
    "context.pin", context, more=[document],
    pinned=click.option(
        "--off", "pinned", is_flag=True, help="Let them be archived again.",
        callback=lambda _context, _option, off: not off,
    ),
)  # fmt: skip
def pin(receipt: ContextReceipt) -> None:
    """Keep entries from being archived to make room."""
    _say_written(receipt)


@mirrors(
    "context.archive", context, check=_with_model, more=[document],
    entry_ids=click.argument("entry_ids", nargs=-1, metavar="[ID...]"),
    free=click.option(
        "--free", type=click.FloatRange(FREE_MIN, FREE_MAX), default=0.4, show_default=True,
        help="Which part of the document is to go.",
    ),
)  # fmt: skip
def archive(receipt: ContextReceipt) -> None:
    """Move entries to the archive: those named, or the stalest, a good part of it."""
    _say_written(receipt)


@mirrors("context.restore", context, entry_ids=entry_ids, more=[document])
def restore(receipt: ContextReceipt) -> None:
    """Bring archived or removed entries back to their place."""
    _say_written(receipt)


# --- read


@mirrors(
    "context.render", context, "show", more=[document],
    as_json=lambda said, document: {"document": document, "text": said},
)  # fmt: skip
def show(said: str, document: str) -> None:
    """Print the document."""
    if said.strip():
        say(said.removesuffix("\n"))
    else:
        note(f"{document} is empty.")


@mirrors("context.size", context, "size", more=[document], as_json=lambda found: {
    name: getattr(found, name)
    for name in ("document", "tokens", "soft_limit", "hard_limit", "remaining", "note")
})  # fmt: skip
def size_(found: ContextSize) -> None:
    """Say how many tokens the document has, and how many it may have."""
    _say_size(found)


async def _listed(user: UserMemory, document: str, archived: bool) -> list[ContextEntry]:
    its = user.context.document(document)
    return await (its.archived() if archived else its.entries())


@mirrors(
    "context.entries", context, "list", work=_listed,
    more=[
        click.option("--archived", is_flag=True, help="Those in the archive instead."), document
    ],
)  # fmt: skip
def list_(found: Sequence[ContextEntry], app: App, document: str) -> None:
    """List the entries of the document with their ids."""
    _print_entries(found, f"Nothing in {document} of user {app.user_id}.")


@mirrors("context.search_archive", context, "search", embeds=True, more=[document])
def search(found: Sequence[Any], app: App, document: str) -> None:
    """Find archived entries by meaning."""
    nothing = f"Nothing found in the archive of {document} of user {app.user_id}."
    _print_entries(found, nothing)


def _print_entries(found: Sequence[Any], nothing: str) -> None:
    if not found:
        say(nothing)
        return
    shown = table("id", "section", "pinned", "used", "entry", whole=("id",))
    for one in found:
        shown.add_row(
            text(short_id(one.entry_id)), text(one.section), text("pinned" if one.pinned else ""),
            text(local(one.touched_at)), text(shortened(one.text, TEXT_CHARACTERS_MAX)),
        )  # fmt: skip
    print_table(shown)


@mirrors("context.documents", context)
def documents(found: Sequence[DocumentInfo]) -> None:
    """List the documents."""
    shown = table("document", "tokens", "size", "entries", "archived", "changed", right=("tokens",))
    for one in found:
        shown.add_row(
            text(one.name), f"{one.tokens:,}", size(one.size_bytes), f"{one.entries:,}",
            f"{one.archived:,}", text(local(one.updated_at)),
        )  # fmt: skip
    print_table(shown)
    say(counted(len(found), "document"))
