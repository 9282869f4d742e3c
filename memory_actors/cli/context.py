"""context show, add, edit, remove, touch, pin, size, list, documents, archive, restore, search."""

from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import click

from memory_actors.api.user import UserMemory
from memory_actors.base.reports import DEFAULT_DOCUMENT, ContextEntry, ContextReceipt, ContextSize
from memory_actors.cli import options
from memory_actors.cli.options import App, Command, Group, given_text, pass_app
from memory_actors.cli.output import (
    counted,
    local,
    note,
    print_json,
    print_table,
    say,
    shortened,
    size,
    table,
    text,
)
from memory_actors.cli.running import ensure_model, whole_id, with_user
from memory_actors.cli.showing import short_id
from memory_actors.kinds.context.commands import FREE_MAX, FREE_MIN
from memory_actors.users.handles.context_document import ContextDocument

TEXT_CHARACTERS_MAX = 100

document = click.option(
    "--document",
    metavar="NAME",
    default=DEFAULT_DOCUMENT,
    show_default=True,
    help="Which document.",
)
auto_archive = click.option(
    "--auto-archive", is_flag=True, help="Let the stalest entries make room if there is none."
)
entry_ids = click.argument("entry_ids", nargs=-1, required=True, metavar="ID...")


@click.group(cls=Group)
def context() -> None:
    """Keep the small document that goes into every prompt, and its archive."""


def _write(
    app: App,
    name: str,
    work: Callable[[ContextDocument, list[str]], Awaitable[ContextReceipt]],
    ids: Iterable[str] = (),
    *,
    create: bool = False,
) -> None:
    """Carry out a write on a document and the entries whose ids begin so; say how large it is."""

    async def on_document(user: UserMemory) -> ContextReceipt:
        whole = [await whole_id(user, one) for one in ids]
        return await work(user.context.document(name), whole)

    receipt = with_user(app, on_document, create=create)
    if app.json:
        print_json(receipt)
        return
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


# --- write


@context.command("add", cls=Command, shared=options.OF_NEW)
@click.argument("content", default="-", metavar="[TEXT|-]")
@click.option(
    "--section", default="", help="The heading it goes under.  [default: before the first]"
)
@click.option("--pin", is_flag=True, help="Never archive it to make room.")
@auto_archive
@document
@options.said_by
@pass_app
def add(app: App, /, content: str, document: str, section: str, **given: bool) -> None:
    """Put TEXT, or what stands on stdin, at the end of a section."""
    said = given_text(content)
    if given["auto_archive"]:
        ensure_model(app)
    _write(
        app,
        document,
        lambda its, _ids: its.add(
            section, said, pinned=given["pin"], auto_archive=given["auto_archive"]
        ),
        create=True,
    )


@context.command("edit", cls=Command)
@click.argument("entry_id", metavar="ID")
@click.argument("content", default="-", metavar="[TEXT|-]")
@auto_archive
@document
@options.said_by
@pass_app
def edit(app: App, /, entry_id: str, content: str, document: str, auto_archive: bool) -> None:
    """Let an entry say TEXT, or what stands on stdin."""
    said = given_text(content)
    _write(
        app,
        document,
        lambda its, ids: its.edit(ids[0], said, auto_archive=auto_archive),
        [entry_id],
    )


@context.command("remove", cls=Command)
@click.argument("entry_id", metavar="ID")
@document
@pass_app
def remove(app: App, /, entry_id: str, document: str) -> None:
    """Remove an entry. `restore` brings it back."""
    _write(app, document, lambda its, ids: its.remove(*ids), [entry_id])


@context.command("touch", cls=Command)
@entry_ids
@document
@pass_app
def touch(app: App, /, entry_ids: tuple[str, ...], document: str) -> None:
    """Say that entries were of use: the stalest are archived first."""
    _write(app, document, lambda its, ids: its.touch(*ids), entry_ids)


@context.command("pin", cls=Command)
@entry_ids
@click.option("--off", is_flag=True, help="Let them be archived again.")
@document
@pass_app
def pin(app: App, /, entry_ids: tuple[str, ...], document: str, off: bool) -> None:
    """Keep entries from being archived to make room."""
    _write(app, document, lambda its, ids: its.pin(*ids, pinned=not off), entry_ids)


@context.command("archive", cls=Command)
@click.argument("entry_ids", nargs=-1, metavar="[ID...]")
@click.option(
    "--free", type=click.FloatRange(FREE_MIN, FREE_MAX), default=0.4, show_default=True,
    help="Which part of the document is to go.",
)  # fmt: skip
@document
@pass_app
def archive(app: App, /, entry_ids: tuple[str, ...], document: str, free: float) -> None:
    """Move entries to the archive: those named, or the stalest, a good part of it."""
    ensure_model(app)
    _write(app, document, lambda its, ids: its.archive(ids or None, free=free), entry_ids)


@context.command("restore", cls=Command)
@entry_ids
@document
@pass_app
def restore(app: App, /, entry_ids: tuple[str, ...], document: str) -> None:
    """Bring archived or removed entries back to their place."""
    _write(app, document, lambda its, ids: its.restore(ids), entry_ids)


# --- read


@context.command("show", cls=Command)
@document
@pass_app
def show(app: App, /, document: str) -> None:
    """Print the document."""

    async def work(user: UserMemory) -> str:
        return await user.context.document(document).render()

    said = with_user(app, work)
    if app.json:
        print_json({"document": document, "text": said})
    elif said.strip():
        say(said.removesuffix("\n"))
    else:
        note(f"{document} is empty.")


@context.command("size", cls=Command)
@document
@pass_app
def size_(app: App, /, document: str) -> None:
    """Say how many tokens the document has, and how many it may have."""

    async def work(user: UserMemory) -> Any:
        return await user.context.document(document).size()

    found = with_user(app, work)
    if app.json:
        print_json(
            {
                "document": found.document,
                "tokens": found.tokens,
                "soft_limit": found.soft_limit,
                "hard_limit": found.hard_limit,
                "remaining": found.remaining,
                "note": found.note,
            }
        )
        return
    _say_size(found)


@context.command("list", cls=Command)
@click.option("--archived", is_flag=True, help="Those in the archive instead.")
@document
@pass_app
def list_(app: App, /, document: str, archived: bool) -> None:
    """List the entries of the document with their ids."""

    async def work(user: UserMemory) -> list[ContextEntry]:
        its = user.context.document(document)
        return await (its.archived() if archived else its.entries())

    _print_entries(app, with_user(app, work), document, "Nothing in {}")


@context.command("search", cls=Command)
@click.argument("query")
@click.option("--top-k", type=options.Count(min=1), default=5, show_default=True)
@document
@pass_app
def search(app: App, /, query: str, document: str, top_k: int) -> None:
    """Find archived entries by meaning."""
    ensure_model(app)

    async def work(user: UserMemory) -> list[Any]:
        return await user.context.document(document).search_archive(query, top_k)

    _print_entries(app, with_user(app, work), document, "Nothing found in the archive of {}")


def _print_entries(app: App, found: list[Any], document: str, nothing: str) -> None:
    if app.json:
        print_json(found)
        return
    if not found:
        say(f"{nothing.format(document)} of user {app.user_id}.")
        return
    shown = table("id", "section", "pinned", "used", "entry", whole=("id",))
    for one in found:
        shown.add_row(
            text(short_id(one.entry_id)), text(one.section), text("pinned" if one.pinned else ""),
            text(local(one.touched_at)), text(shortened(one.text, TEXT_CHARACTERS_MAX)),
        )  # fmt: skip
    print_table(shown)


@context.command("documents", cls=Command)
@options.pass_app
def documents(app: App, /) -> None:
    """List the documents."""

    async def work(user: UserMemory) -> Any:
        return await user.context.documents()

    found = with_user(app, work)
    if app.json:
        print_json(found)
        return
    shown = table("document", "tokens", "size", "entries", "archived", "changed", right=("tokens",))
    for one in found:
        shown.add_row(
            text(one.name), f"{one.tokens:,}", size(one.size_bytes), f"{one.entries:,}",
            f"{one.archived:,}", text(local(one.updated_at)),
        )  # fmt: skip
    print_table(shown)
    say(counted(len(found), "document"))
