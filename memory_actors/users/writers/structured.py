"""The way of a JSON document into the log and the index."""

from collections.abc import Mapping
from typing import Any, ClassVar

import msgspec

from memory_actors.base.errors import InvalidInputError
from memory_actors.base.records import Item, Metadata, Receipt, Time
from memory_actors.base.validation import (
    CONTENT_BYTES_MAX,
    check_name,
    check_optional_name,
    content_bytes,
    json_copy,
    own_metadata,
    plain,
    time_us,
)
from memory_actors.kinds import structured
from memory_actors.kinds.kind import Kind
from memory_actors.kinds.phrasing import text_digest
from memory_actors.kinds.structured.state import document_text, value_json
from memory_actors.users.writers.writer import Writer

DEFAULT_COLLECTION = "default"


class StructuredWriter(Writer):
    """Puts, changes and deletes documents."""

    kind: ClassVar[Kind] = structured
    takes = frozenset({"occurred_at", "pinned", "key"})
    delete_command = structured.DeleteDocument
    restore_command = structured.RestoreDocuments

    async def put(
        self,
        collection: str,
        value: Mapping[str, Any],
        *,
        key: str | None = None,
        metadata: Metadata | None = None,
        occurred_at: Time | None = None,
        memory_id: str | None = None,
        pinned: bool | None = None,
        auto_prune: bool = False,
    ) -> Receipt:
        """Put a document under a key of a collection; without one, under its own memory id."""
        now_us, occurred_at_us = self.scope.now_us(), time_us(occurred_at, "occurred_at")
        own_id = check_optional_name(memory_id, "memory_id")
        new_id = own_id or self.scope.new_id(now_us)
        collection = check_name(collection, "collection")
        key = new_id if key is None else check_name(key, "key")
        copy, said = checked_document(value)
        text = document_text(collection, key, copy)
        command = structured.PutDocument(
            now_us=now_us,
            memory_id=new_id,
            own_ids=() if own_id is None else (own_id,),
            collection=collection,
            key=key,
            value=copy,
            size_bytes=len(said.encode()),
            digest=text_digest(text),
            value_digest=text_digest(said),
            occurred_at_us=now_us if occurred_at_us is None else occurred_at_us,
            metadata=None if metadata is None else own_metadata(metadata),
            pinned=pinned,
            auto_prune=auto_prune,
        )
        written = await self.write(command, [text])
        known = structured.find_key(written.reply.before.structured, collection, key)
        row = structured.find_key(written.reply.state.structured, collection, key)
        memory_id = new_id if row is None else row.memory_id
        return self.receipt(memory_id, "add" if known is None else "update", written)

    async def add(
        self, item: Item, *, auto_prune: bool = False, idempotency_key: str | None = None
    ) -> Receipt:
        """Put a document given as JSON text; what is no JSON object becomes {"text": …}."""
        self.check_fields(item, idempotency_key)
        content_bytes(item.content)
        return await self.put(
            DEFAULT_COLLECTION,
            _as_document(item.content),
            key=item.key,
            metadata=item.metadata,
            occurred_at=item.occurred_at,
            memory_id=item.memory_id,
            pinned=item.pinned or None,
            auto_prune=auto_prune,
        )

    async def update(
        self, row: structured.Row, content: str | None, metadata: Metadata | None
    ) -> Receipt:
        """Replace a document (given as for `add`), its metadata, or both."""
        value, said, texts = None, "", []
        if content is not None:
            content_bytes(content)
            value, said = checked_document(_as_document(content))
            texts = [document_text(row.collection, row.key, value)]
        command = structured.UpdateDocument(
            now_us=self.scope.now_us(),
            memory_id=row.memory_id,
            value=value,
            size_bytes=len(said.encode()),
            digest=text_digest(texts[0]) if texts else b"",
            value_digest=text_digest(said) if texts else b"",
            metadata=None if metadata is None else own_metadata(metadata, shown=row.compressed),
        )
        return self.receipt(row.memory_id, "update", await self.write(command, texts))


def checked_document(value: object) -> tuple[dict[str, Any], str]:
    """Return a copy of a document, and its JSON.

    :raises InvalidInputError: it is not a JSON object, or over 256 KiB.
    """
    if not isinstance(value, Mapping):
        raise InvalidInputError(f"a document must be a dict, not {type(value).__name__}")
    copy: dict[str, Any] = json_copy(value, "document")
    said = value_json(copy)
    if len(said.encode()) > CONTENT_BYTES_MAX:
        raise InvalidInputError(
            f"document takes {len(said.encode()):,} bytes (max: {CONTENT_BYTES_MAX:,}): "
            "put it as several"
        )
    return copy, said


def _as_document(content: str) -> dict[str, Any]:
    try:
        value = msgspec.json.decode(plain(content))
    except (msgspec.DecodeError, RecursionError):
        value = None
    return value if isinstance(value, dict) else {"text": content}
