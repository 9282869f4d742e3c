"""Items of LangGraph as documents.

An item is a document: its value is the item's, its key the item's key; names.py says whose it is
and in which collection. What else an item has is in the document's metadata, under `langgraph`:

    namespace   the labels, so that a search filters by a prefix
    ttl         minutes, and expires_us: microseconds since 1970, from the clock of the command
    index       what its put said of searching: false, or fields

The time of the last put is the document's `occurred_at`. A put, a refresh and a deletion are one
command each, with their times in them, so a replay needs no clock and comes to the same.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Final

import msgspec
from langgraph.store.base import Item, SearchItem

from memory_actors.base.errors import InvalidInputError
from memory_actors.integrations.langgraph.names import Namespace, namespace_of

VALUE_BYTES_MAX: Final = 256 * 1024  # of a document


class Found(msgspec.Struct, frozen=True):
    """A document that is an item."""

    memory_id: str
    user_id: str
    collection: str
    namespace: Namespace
    key: str
    value: dict[str, Any]
    metadata: dict[str, Any]
    created_at: datetime
    updated_at: datetime

    @property
    def about(self) -> dict[str, Any]:
        """What the item has beside its value."""
        about: dict[str, Any] = self.metadata.get("langgraph", {})
        return about

    def is_over(self, now_us: int) -> bool:
        """Tell whether its time is over."""
        return bool(self.about.get("expires_us", now_us + 1) <= now_us)

    def item(self) -> Item:
        """Return it as `get` does."""
        return Item(**self._fields())

    def search_item(self, score: float | None) -> SearchItem:
        """Return it as `search` does."""
        return SearchItem(**self._fields(), score=score)

    def _fields(self) -> dict[str, Any]:
        fields = ("namespace", "key", "value", "created_at", "updated_at")
        return {name: getattr(self, name) for name in fields}


def checked_value(value: Mapping[str, Any]) -> dict[str, Any]:
    """Return a value as JSON holds it: times, ids and the like as text.

    :raises InvalidInputError: something in it cannot be JSON, or it is too large.
    """
    try:
        made: dict[str, Any] = msgspec.to_builtins(dict(value), str_keys=True)
        size_bytes = len(msgspec.json.encode(made))
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInputError(f"the value of an item must be JSON: {error}") from error
    if size_bytes > VALUE_BYTES_MAX:
        raise InvalidInputError(
            f"the value takes {size_bytes:,} bytes (max: {VALUE_BYTES_MAX:,}): put it as several"
        )
    return made


def item_of(user_id: str, collection: str, key: str, value: Any, memory: Any) -> Found | None:
    """Return an item; None: the document is none, but another's with metadata that looks so."""
    namespace = namespace_of(user_id, collection)
    if namespace is None:
        return None
    return Found(
        memory_id=memory.memory_id,
        user_id=user_id,
        collection=collection,
        namespace=namespace,
        key=key,
        value=value,
        metadata=memory.metadata,
        created_at=memory.created_at,
        updated_at=max(memory.created_at, memory.occurred_at),
    )


def items_of(user_id: str, memories: Iterable[Any]) -> list[Found]:
    """Return the items among memories that are documents."""
    found = (
        item_of(user_id, one.data["collection"], one.data["key"], one.data["value"], one)
        for one in memories
    )
    return [one for one in found if one is not None]
