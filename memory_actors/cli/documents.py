"""document put, get, find, delete."""

from collections.abc import Sequence
from typing import Any

import click
import msgspec

from memory_actors.api.user import UserMemory
from memory_actors.base.records import Document, Memory, Receipt
from memory_actors.cli import options
from memory_actors.cli.memories import say_more
from memory_actors.cli.options import App, Command, Group, all_of, given_text, json_object, pass_app
from memory_actors.cli.output import print_json, print_table, say, shortened, table, text
from memory_actors.cli.running import ensure_model, with_user
from memory_actors.cli.showing import CONTENT_CHARACTERS_MAX, print_memory, say_added
from memory_actors.users.handles.documents import DEFAULT_COLLECTION

collection_of = click.option("--collection", default=DEFAULT_COLLECTION, show_default=True)


@click.group(cls=Group)
def document() -> None:
    """Put JSON documents into collections, find them by field."""


@document.command("put", cls=Command, shared=options.OF_NEW)
@click.argument("collection")
@click.argument("value", default="-", metavar="[JSON|-]")
@click.option("--key", help="Its key in the collection.  [default: its memory id]")
@options.metadata
@options.at
@click.option("--pin/--no-pin", default=None, help="Whether it is never pruned.")
@options.prune
@options.said_by
@pass_app
def put(app: App, /, collection: str, value: str, key: str | None, **given: Any) -> None:
    """Put a JSON object, or the one on stdin, in place of what COLLECTION has under its key."""
    document = _object(value)
    ensure_model(app)

    async def work(user: UserMemory) -> Receipt:
        return await user.documents.put(
            collection,
            document,
            key=key,
            metadata=given["metadata"],
            occurred_at=given["at"],
            pinned=given["pin"],
            auto_prune=given["prune"],
        )

    receipt = with_user(app, work, create=True)
    if app.json:
        print_json(receipt)
    else:
        say_added(receipt, "document")


def _object(value: str) -> dict[str, Any]:
    try:
        return json_object(given_text(value))
    except click.BadParameter as error:
        raise click.BadParameter(error.message, param_hint="JSON") from error


@document.command("get", cls=Command)
@click.argument("key")
@collection_of
@pass_app
def get(app: App, /, key: str, collection: str) -> None:
    """Show the document that has KEY in a collection, or that has this memory id."""

    async def work(user: UserMemory) -> tuple[Document, Memory]:
        found = await user.documents.get(key, collection)
        return found, await user.get(found.memory_id)

    found, memory = with_user(app, work)
    if app.json:
        print_json(found)
    else:
        print_memory(memory)


@document.command("find", cls=Command)
@click.argument("collection", default=DEFAULT_COLLECTION)
@options.filters("fields of the document")
@click.option(
    "--order", multiple=True, metavar="FIELD",
    help="Sort by a field, -FIELD for downwards; may be repeated.  [default: as they came]",
)  # fmt: skip
@options.limit
@options.offset
@pass_app
def find(
    app: App,
    /,
    collection: str,
    filters: Sequence[dict[str, Any]],
    order: Sequence[str],
    limit: int,
    offset: int,
) -> None:
    """List the documents of COLLECTION (the one named default, if none is named)."""

    async def work(user: UserMemory) -> list[Document]:
        return await user.documents.find(
            collection, all_of(filters), order_by=order or None, limit=limit, offset=offset
        )

    found = with_user(app, work)
    if app.json:
        print_json(found)
    elif found:
        _print_documents(found)
        say_more(len(found), limit, offset)
    else:
        say(f"Nothing found for user {app.user_id} in collection {collection}.")


def _print_documents(found: Sequence[Document]) -> None:
    shown = table("key", "document")
    for one in found:
        value = msgspec.json.encode(one.value).decode()
        shown.add_row(text(one.key), text(shortened(value, CONTENT_CHARACTERS_MAX)))
    print_table(shown)


@document.command("delete", cls=Command)
@click.argument("key")
@collection_of
@pass_app
def delete(app: App, /, key: str, collection: str) -> None:
    """Delete the document that has KEY in a collection, or that has this memory id."""

    async def work(user: UserMemory) -> Receipt:
        return await user.documents.delete(key, collection)

    receipt = with_user(app, work)
    if app.json:
        print_json(receipt)
    else:
        say(f"Deleted: {receipt.memory_id}")
