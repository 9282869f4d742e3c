"""document put, get, find, delete."""

from collections.abc import Sequence

import click
import msgspec

from memory_actors.api.user import UserMemory
from memory_actors.base.records import Document, Memory, Receipt
from memory_actors.cli import options
from memory_actors.cli.deriving import mirrors
from memory_actors.cli.memories import say_more
from memory_actors.cli.options import App, Group, given_text, json_object
from memory_actors.cli.output import print_table, say, shortened, table, text
from memory_actors.cli.showing import CONTENT_CHARACTERS_MAX, print_memory, say_added
from memory_actors.users.handles.documents import DEFAULT_COLLECTION

collection_of = click.option("--collection", default=DEFAULT_COLLECTION, show_default=True)


@click.group(cls=Group)
def document() -> None:
    """Put JSON documents into collections, find them by field."""


def _object(value: str) -> dict[str, object]:
    try:
        return json_object(given_text(value))
    except click.BadParameter as error:
        raise click.BadParameter(error.message, param_hint="JSON") from error


@mirrors(
    "documents.put", document, new=True, embeds=True,
    document=click.argument("document", default="-", metavar="[JSON|-]", type=_object),
    key=click.option("--key", help="Its key in the collection.  [default: its memory id]"),
    pinned=click.option(
        "--pin/--no-pin", "pinned", default=None, help="Whether it is never pruned."
    ),
)  # fmt: skip
def put(receipt: Receipt) -> None:
    """Put a JSON object, or the one on stdin, in place of what COLLECTION has under its key."""
    say_added(receipt, "document")


async def _found(user: UserMemory, key: str, collection: str) -> tuple[Document, Memory]:
    found = await user.documents.get(key, collection)
    return found, await user.get(found.memory_id)


@mirrors(
    "documents.get", document, work=_found, collection=collection_of,
    as_json=lambda found: found[0],
)  # fmt: skip
def get(found: tuple[Document, Memory]) -> None:
    """Show the document that has KEY in a collection, or that has this memory id."""
    print_memory(found[1])


@mirrors(
    "documents.find", document,
    collection=click.argument("collection", default=DEFAULT_COLLECTION),
    filters=options.filters("fields of the document"),
    order_by=click.option(
        "--order", "order_by", multiple=True, metavar="FIELD",
        help="Sort by a field, -FIELD for downwards; may be repeated.  [default: as they came]",
    ),
    limit=options.limit,
)  # fmt: skip
def find(found: Sequence[Document], app: App, collection: str, limit: int, offset: int) -> None:
    """List the documents of COLLECTION (the one named default, if none is named)."""
    shown = table("key", "document")
    for one in found:
        value = msgspec.json.encode(one.value).decode()
        shown.add_row(text(one.key), text(shortened(value, CONTENT_CHARACTERS_MAX)))
    print_table(shown, f"Nothing found for user {app.user_id} in collection {collection}.")
    say_more(len(found), limit, offset)


@mirrors("documents.delete", document, collection=collection_of)
def delete(receipt: Receipt) -> None:
    """Delete the document that has KEY in a collection, or that has this memory id."""
    say(f"Deleted: {receipt.memory_id}")
