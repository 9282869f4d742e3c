"""context: show, add, edit, remove, touch, pin, size, list, documents, archive, restore, sync …."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from memory_actors.api.operations import SAYS
from memory_actors.api.user import UserMemory
from memory_actors.base.context_documents import (
    DEFAULT_DOCUMENT,
    ContextEntry,
    ContextReceipt,
    ContextSize,
    DocumentInfo,
)
from memory_actors.base.errors import NotFoundError
from memory_actors.cli import options
from memory_actors.cli.deriving import mirrors
from memory_actors.cli.options import App, Group
from memory_actors.cli.output import (
    counted,
    local,
    note,
    print_json_line,
    print_result,
    print_table,
    say,
    shortened,
    size,
    table,
    text,
)
from memory_actors.cli.running import ensure_model, with_user
from memory_actors.cli.showing import CONTENT_CHARACTERS_MAX, short_id
from memory_actors.integrations.context_files.syncing import SyncReport, watch
from memory_actors.integrations.context_files.syncing import sync as sync_file
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


def _with_model(app: App, given: Mapping[str, object]) -> None:
    if given.get("auto_archive", True):
        ensure_model(app)


# --- write


def _writes(name: str, help: str, *more: Any, **how: Any) -> None:  # noqa: A002 - click's own word
    """Add the command of an operation that answers with a receipt."""
    operation = f"context.{name}"
    mirrors(operation, context, name, help=help, more=[document, *more], **how)(_say_written)


_writes(
    "add", "Append TEXT or stdin to a section.", options.said_by, new=True, check=_with_model,
    section=click.option(
        "--section", default="", help="The heading it goes under.  [default: before the first]"
    ),
    text=said,
    pinned=click.option(
        "--pin", "pinned", is_flag=True, help="Never archive it to make room."
    ),
    metadata=None,
)  # fmt: skip
_writes("edit", "Replace an entry's text with TEXT or stdin.", options.said_by, text=said)
_writes("remove", "Remove an entry. `restore` brings it back.")
_writes("touch", "Mark entries as recently used: the stalest are archived first.")
_writes(
    "pin", "Keep entries from being archived to make room.",
    pinned=click.option(
        "--off", "pinned", is_flag=True, help="Let them be archived again.",
        callback=lambda _context, _option, off: not off,
    ),
)  # fmt: skip
_writes(
    "archive", "Move entries to the archive: those named, or the stalest, a good part of it.",
    check=_with_model,
    entry_ids=click.argument("entry_ids", nargs=-1, metavar="[ID...]"),
    free=click.option(
        "--free", type=click.FloatRange(FREE_MIN, FREE_MAX), default=0.4, show_default=True,
        help="Which part of the document is to go.",
    ),
)  # fmt: skip
_writes(
    "restore", "Bring archived or removed entries back to their place.",
    entry_ids=click.argument("entry_ids", nargs=-1, required=True, metavar="ID..."),
)  # fmt: skip


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
        click.option("--archived", is_flag=True, help="List the archive instead."), document
    ],
)  # fmt: skip
def list_(found: Sequence[ContextEntry], app: App, document: str) -> None:
    """List the entries of the document with their ids."""
    _print_entries(found, f"Nothing in {document} of user {app.user_id}.")


@mirrors("context.search_archive", context, "search", embeds=True, more=[document])
def search(found: Sequence[object], app: App, document: str) -> None:
    """Find archived entries by meaning."""
    nothing = f"Nothing found in the archive of {document} of user {app.user_id}."
    _print_entries(found, nothing)


def _print_entries(found: Sequence[Any], nothing: str) -> None:
    shown = table("id", "section", "pinned", "used", "entry", whole=("id",))
    for one in found:
        shown.add_row(
            text(short_id(one.entry_id)), text(one.section), text("pinned" if one.pinned else ""),
            text(local(one.touched_at)), text(shortened(one.text, TEXT_CHARACTERS_MAX)),
        )  # fmt: skip
    print_table(shown, nothing)


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


KEPT = {
    "edited in both": "both were kept",
    "edited here, removed in the file": "it was kept",
    "edited in the file, gone here": "the file's was kept",
}


@options.command("sync", context, shared=options.OF_NEW)
@click.argument("file", type=click.Path(path_type=Path))
@document
@click.option("--watch", "keep_on", is_flag=True, help="Go on until interrupted.")
@click.option("--auto-archive", is_flag=True, help=SAYS["auto_archive"])
def sync(app: App, /, file: Path, document: str, *, keep_on: bool, auto_archive: bool) -> None:
    """Bring the context document and FILE in step, both ways.

    Entries that were edited on one side are taken over; edited on both, they are both kept and
    named. FILE is replaced in one step, never over an edit made meanwhile; if it is not there, it
    is made. Archived entries are mirrored in FILE-archive.md beside it, which is not read.

    With --watch and --json, each sync that did something is one line of JSON.
    """

    async def work(user: UserMemory) -> SyncReport | None:
        its = user.context.document(document)
        if not keep_on:
            return await sync_file(its, file, auto_archive=auto_archive)
        async for report in watch(its, file, auto_archive=auto_archive):
            print_json_line(report) if app.json else _tell(report)
        return None

    if auto_archive:
        ensure_model(app)
    report = with_user(app, work, create=file.exists())
    if report is not None:
        if report.quiet and not file.exists():  # it would have been made
            raise NotFoundError(f"there is neither a file {file} nor a document {document}")
        print_result(app, report, _tell)


def _tell(report: SyncReport) -> None:
    changes = [counted(report.changes, "change") + " of the document"] if report.changes else []
    written = ["the file was written"] if report.file_changed else []
    done = "nothing to do" if report.quiet else ", ".join([*changes, *written])
    say(f"File {report.path} and document {report.document} are in step: {done}.")
    if report.archived:
        say(f"Archived to make room: {', '.join(report.archived)}.")
    if report.warning is not None:
        note(report.warning, "yellow")
    for conflict in report.conflicts:
        said = [
            f"  {side}: {shortened(text, CONTENT_CHARACTERS_MAX)}"
            for side, text in (("document", conflict.document), ("file", conflict.file))
            if text is not None
        ]
        note("\n".join([f"Conflict: {conflict.reason}; {KEPT[conflict.reason]}.", *said]), "yellow")
