"""`user.documents`: JSON documents in collections, queried by field."""

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, ClassVar

import anyio.to_thread
import msgspec

from memory_actors.base import validation
from memory_actors.base.errors import InvalidInputError, NotFoundError
from memory_actors.base.filters import Predicate, predicate
from memory_actors.base.paths import SortKey, ordering
from memory_actors.base.records import Document, Item, Metadata, Receipt, Time
from memory_actors.kinds import structured
from memory_actors.kinds.commands import Command
from memory_actors.kinds.kind import Kind
from memory_actors.kinds.provenance import Provenance
from memory_actors.kinds.structured import (
    DocumentPut,
    DocumentRow,
    Structured,
    document_text,
    value_fields,
    value_json,
)
from memory_actors.kinds.user_state import UserState
from memory_actors.search.reading import READ_AT_ONCE, common_fields
from memory_actors.users.handles.handle import Adding, Handle, taken

DEFAULT_COLLECTION = "default"

Valued = tuple[DocumentRow, object]


class Documents(Handle):
    """JSON objects by collection and key, at most 5,000 and 50 MB by default."""

    kind: ClassVar[Kind] = structured.KIND
    takes = taken(DocumentPut)
    _content_bytes_max = validation.LONG_BYTES_MAX

    async def put(
        self,
        collection: str,
        document: Mapping[str, object],
        *,
        key: str | None = None,
        metadata: Metadata | None = None,
        occurred_at: Time | None = None,
        memory_id: str | None = None,
        pinned: bool | None = None,
        auto_prune: bool | None = None,
        ttl_s: float | None = None,
    ) -> Receipt:
        """Put a document under a key of a collection, in place of the one that is there.

        It expires after `ttl_s` seconds; by default (None) the settings decide.

        Without a key it is kept under its own memory id. `metadata` and `pinned` None keep what
        was. With `auto_prune` the oldest tenth of all documents makes room if there is none.

        :raises QuotaExceededError: too many documents, or too many bytes.
        :raises InvalidInputError: it is not a JSON object, or over 15 MiB.
        """
        new = self._new(memory_id, occurred_at)
        collection = validation.check_name(collection, "collection")
        key = new.memory_id if key is None else validation.check_name(key, "key")
        copy, _ = checked_document(document)
        optional = {"metadata": metadata, "pinned": pinned}
        command = structured.PutDocument(
            now_us=new.now_us,
            own_ids=new.own_ids,
            document=DocumentPut(
                memory_id=new.memory_id,
                collection=collection,
                key=key,
                occurred_at_us=new.occurred_at_us,
                metadata=validation.own_metadata(metadata),
                pinned=bool(pinned),
                **value_fields(collection, key, copy),
            ),
            keeps=tuple(name for name, given in optional.items() if given is None),
            auto_prune=self._scope.prunes(auto_prune),
        )
        written = await self.lasting(ttl_s)._write(command, [document_text(collection, key, copy)])  # noqa: SLF001 - this handle
        known = written.reply.before.structured.named(collection, key)
        row = written.reply.state.structured.named(collection, key)
        return self._receipt_of_put(new.memory_id, known, row, written)

    async def get(self, key: str, collection: str = DEFAULT_COLLECTION) -> Document:
        """Return a document by key, or by memory id whatever its collection.

        :raises NotFoundError: there is none.
        """
        async with self._scope.live() as live:
            state = live.state
            row = _row(state.structured, collection, key)
            (value,) = await live.values.of([row])
        return _document(row, value, state.provenance)

    async def find(
        self,
        collection: str = DEFAULT_COLLECTION,
        filters: Mapping[str, object] | None = None,
        *,
        order_by: str | Sequence[str] | None = None,
        limit: int = 100,
        offset: int = 0,
    ) -> list[Document]:
        """Return the documents of a collection that match, a page of them.

        `filters` are those of docs/reference.md, on the fields of the documents. `order_by` names
        fields, `-price` for descending; without one, in the order they were first put.

        :raises InvalidInputError: a bad filter, field or page.
        """
        matches, by = predicate(filters), None if order_by is None else ordering(order_by)
        first = validation.check_count(offset, "offset")
        until = first + validation.check_count(limit, "limit")
        found, state = await self._found(collection, matches, by)
        documents: list[Document] = []
        for start in range(first, min(until, len(found)), READ_AT_ONCE):
            page = found[start : min(until, start + READ_AT_ONCE)]
            documents += [_document(row, value, state.provenance) for row, value in page]
            await asyncio.sleep(0)
        return documents

    async def count(
        self,
        collection: str = DEFAULT_COLLECTION,
        filters: Mapping[str, object] | None = None,
    ) -> int:
        """Return how many documents of a collection match: `filters` is as in `find`.

        :raises InvalidInputError: a bad filter.
        """
        found, _ = await self._found(collection, predicate(filters), None)
        return len(found)

    async def delete(self, key: str, collection: str = DEFAULT_COLLECTION) -> Receipt:
        """Delete a document by key, or by memory id whatever its collection.

        :raises NotFoundError: there is none.
        """
        self._scope.check_writable()
        state = await self._scope.state()
        return await self._delete(_row(state.structured, collection, key))

    async def collections(self) -> dict[str, int]:
        """Return how many documents each collection has, by name."""
        return dict(structured.KIND.collections((await self._scope.state()).structured))

    # --- as all kinds

    async def _add(self, item: Item, adding: Adding) -> Receipt:
        """Put a document given as JSON text; what is no JSON object becomes {"text": …}."""
        self._check_item(item, adding)
        validation.content_bytes(item.content, validation.LONG_BYTES_MAX)
        given = self._taken(item) | {"pinned": item.pinned or None}
        document = _as_document(item.content)
        return await self.put(DEFAULT_COLLECTION, document, **given, auto_prune=adding.auto_prune)

    def _updating(
        self,
        row: DocumentRow,
        content: str | None,
        metadata: dict[str, object] | None,
        pinned: bool | None,
    ) -> tuple[Command, list[str]]:
        command, _ = super()._updating(row, None, metadata, pinned)
        if content is None:
            return command, []
        value, said = checked_document(_as_document(content))
        fields = value_fields(row.collection, row.key, value)
        command = msgspec.structs.replace(command, content=said, **fields)
        return command, [document_text(row.collection, row.key, value)]

    # --- how

    async def _found(
        self, collection: str, matches: Predicate | None, by: SortKey | None
    ) -> tuple[list[Valued], UserState]:
        async with self._scope.live() as live:
            state = live.state
            rows = list(state.structured.of_group(validation.check_name(collection, "collection")))
            values = await live.values.of(rows)
        choose = partial(_chosen, rows, values, matches, by)
        return await anyio.to_thread.run_sync(choose), state


def _row(state: Structured, collection: str, key: str) -> DocumentRow:
    row = state.named(
        validation.check_name(collection, "collection"), validation.check_name(key, "key")
    )
    row = row or structured.KIND.find(state, key)
    if row is None:
        raise NotFoundError(f"no document {key!r} in collection {collection!r}")
    return row


def _chosen(
    rows: Sequence[DocumentRow],
    values: Sequence[Any],
    matches: Predicate | None,
    by: SortKey | None,
) -> list[Valued]:
    """Return the matching documents, sorted. Slow for many: in a thread."""
    found = list(zip(rows, values, strict=True))
    if matches is not None:
        found = [one for one in found if matches(one[1])]
    found.sort(key=lambda one: (one[0].created_at_us, one[0].version))
    if by is not None:
        found.sort(key=lambda one: by(one[1]))
    return found


def _document(row: DocumentRow, value: object, provenance: Provenance) -> Document:
    own = {name: getattr(row, name) for name in Document.__struct_fields__ if hasattr(row, name)}
    said = validation.json_copy(msgspec.to_builtins(value), "value")
    metadata = validation.json_copy(row.metadata, "metadata")
    return Document(
        **{**own, **common_fields(row, provenance), "value": said, "metadata": metadata}
    )


def checked_document(value: object) -> tuple[dict[str, object], str]:
    """Return a copy of a document, and its JSON.

    :raises InvalidInputError: it is not a JSON object, or over 15 MiB.
    """
    if not isinstance(value, Mapping):
        raise InvalidInputError(f"a document must be a dict, not {type(value).__name__}")
    copy: dict[str, object] = validation.json_copy(value, "document")
    said = value_json(copy)
    # The log has it as MessagePack, which takes more than JSON for numbers.
    size_bytes = max(len(said.encode()), len(msgspec.msgpack.encode(copy)))
    if size_bytes > validation.LONG_BYTES_MAX:
        raise InvalidInputError(
            f"document takes {size_bytes:,} bytes (max: {validation.LONG_BYTES_MAX:,}): put it as "
            "several"
        )
    return copy, said


def _as_document(content: str) -> dict[str, object]:
    try:
        value = msgspec.json.decode(validation.plain(content))
    except (msgspec.DecodeError, RecursionError):
        value = None
    return value if isinstance(value, dict) else {"text": content}
