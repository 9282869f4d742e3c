"""The base of the handles of all kinds: input to commands, events to receipts."""

from abc import ABCMeta, abstractmethod
from collections.abc import Sequence
from time import perf_counter
from typing import Any, ClassVar, NamedTuple, TypeVar

import msgspec

from eventlog import Recorded
from eventlog.core.records import to_us
from memory_actors.base import validation
from memory_actors.base.errors import InvalidInputError
from memory_actors.base.filters import Predicate
from memory_actors.base.records import (
    Item,
    JsonObject,
    Memory,
    Metadata,
    OnDuplicate,
    Receipt,
    Time,
    as_record,
)
from memory_actors.base.validation import check_name, content_bytes, own_metadata, plain
from memory_actors.kinds.commands import Command, Condition, Restore
from memory_actors.kinds.compacting import (
    CompactedKind,
    Compressed,
    Summary,
    SummaryData,
    SummaryPut,
    passages_of,
)
from memory_actors.kinds.context.commands import DocumentRoom
from memory_actors.kinds.kind import Found
from memory_actors.kinds.passages import text_digest
from memory_actors.kinds.provenance import Provenance
from memory_actors.kinds.review import MemoryHeld, approving, pending_row
from memory_actors.kinds.rows import Row
from memory_actors.search.reading import memories
from memory_actors.users.handles.scope import Scope
from memory_actors.users.handles.writing import C, Writing, Written

T = TypeVar("T", bound=msgspec.Struct)

OPTIONAL = {
    field.name: field
    for field in msgspec.structs.fields(Item)
    if field.name not in {"content", "metadata", "memory_id"}
}
"""The fields of an item that not every kind has."""
_IN_EVENTS = {"occurred_at": "occurred_at_us", "last_seen_at": "last_seen_us"}
"""The names that times have in events, which count them in microseconds."""


def taken(event: type[msgspec.Struct], *others: str) -> frozenset[str]:
    """Return the optional fields of an item that an event keeps, and others that a kind takes."""
    kept = (name for name in OPTIONAL if _IN_EVENTS.get(name, name) in event.__struct_fields__)
    return frozenset((*kept, *others))


class Adding(NamedTuple):
    """The way in which memories are to be added."""

    auto_prune: bool | None = None
    """None: as the handle says."""
    idempotency_key: str | None = None
    on_duplicate: OnDuplicate | None = None


class New(NamedTuple):
    """The identity and the times of a memory that is to be added."""

    now_us: int
    memory_id: str
    own_ids: tuple[str, ...]
    """The id, if it is the caller's own: it may have been used before."""
    occurred_at_us: int


class Handle(Writing, metaclass=ABCMeta):
    """Reads, adds, changes and deletes memories of one kind for one user.

    Its public methods are operations. `UserMemory` finds the kind of a memory and calls the private
    methods that all kinds have (`_add`, `_update`, `_delete`, `_restoring`).
    """

    takes: ClassVar[frozenset[str]]
    """The optional fields of an `Item` that mean something for this kind."""
    _content_bytes_max: ClassVar[int] = validation.CONTENT_BYTES_MAX

    def __init__(self, scope: Scope):
        self._scope = scope

    @abstractmethod
    async def _add(self, item: Item, adding: Adding) -> Receipt:
        """Add one memory, given as a text. See `_check_item`."""

    def _updating(
        self, row: Any, content: str | None, metadata: dict[str, object] | None, pinned: bool | None
    ) -> tuple[Command, list[str]]:
        """Return the command that changes what is not None of a memory, and its new texts."""
        texts = [] if content is None else [self._found_by(row, content)]
        command = self.kind.UPDATE(
            now_us=self._scope.now_us(),
            memory_id=row.memory_id,
            content=content,
            size_bytes=0 if content is None else len(content.encode()),
            digest=text_digest(texts[0]) if texts else b"",
            metadata=metadata,
            pinned=pinned,
        )
        return command, texts if self.kind.NATURE.is_indexed else []

    def _found_by(self, _row: Any, content: str) -> str:
        """Return the text that a memory is found by when it says this."""
        return content

    async def _update(
        self,
        row: Any,
        content: str | None,
        metadata: Metadata | None,
        pinned: bool | None,
        matches: Predicate | None = None,
    ) -> Receipt:
        """Replace what a memory says or its metadata, or pin it, if it `matches` when decided."""
        if pinned is not None:
            self._check_pinnable(row)
            validation.check_flag(pinned, "pinned")
        if content is not None:
            validation.content_bytes(content, self._content_bytes_max)
            content = validation.plain(content)
        if metadata is not None:
            metadata = validation.own_metadata(metadata, shown=row.compressed)
        command, texts = self._updating(row, content, metadata, pinned)
        command = _on_condition(command, row, matches)
        return self._updated(row, await self._write(command, texts))

    def _check_pinnable(self, row: Any) -> None:
        """See that a memory can be pinned: of some kinds, none is pruned."""
        if not hasattr(row, "pinned"):
            raise InvalidInputError(f"{self.kind.NAME} memory cannot be pinned so: none is pruned")

    def _updated(self, row: Row, written: Written) -> Receipt:
        return self._receipt(row.memory_id, "update", written, whose=self._whose(row))

    def _new(self, memory_id: str | None, occurred_at: Time | None = None) -> New:
        """Return the identity of a new memory: its id, the caller's own or a new one."""
        now_us, at_us = self._scope.now_us(), validation.time_us(occurred_at, "occurred_at")
        own_id = validation.check_optional_name(memory_id, "memory_id")
        return New(
            now_us=now_us,
            memory_id=own_id or self._scope.new_id(now_us),
            own_ids=() if own_id is None else (own_id,),
            occurred_at_us=now_us if at_us is None else at_us,
        )

    async def _read_rows(self, rows: Sequence[Row], origins: Provenance) -> list[Memory]:
        found = [Found(self.kind, row) for row in rows]
        return await memories(self._scope.services.log, self._scope.stream, found, origins)

    async def _read_as(self, kind: type[T], rows: Sequence[Row], origins: Provenance) -> list[T]:
        return [as_record(kind, one) for one in await self._read_rows(rows, origins)]

    async def _delete(self, row: Row, matches: Predicate | None = None) -> Receipt:
        command = self.kind.DELETE(now_us=self._scope.now_us(), memory_id=row.memory_id)
        command = _on_condition(command, row, matches)
        written = await self._write(command)
        return self._receipt(row.memory_id, "delete", written, whose=self._whose(row))

    def _restoring(self, memory_ids: Sequence[str]) -> Restore:
        """Return the command that brings memories back."""
        if self.kind.RESTORE is None:
            raise InvalidInputError(f"{self.kind.NAME} memory cannot be restored: it is not kept")
        return self.kind.RESTORE(now_us=self._scope.now_us(), memory_ids=tuple(memory_ids))

    async def _approve(self, held: Recorded[MemoryHeld]) -> Receipt:
        """Add a pending memory, on behalf of the one who had added it."""
        room = DocumentRoom(budget=self._scope.services.settings.context_budget())
        command = approving(held.data, self._scope.on.origins, self._scope.now_us(), room)
        row, events = pending_row(self.kind, held)
        parts = self.kind.passages(row)
        texts = [self.kind.passage_text(row, one.label, events) for one in parts]
        written = await self._write(command, texts)
        about = [getattr(event, "memory_id", row.memory_id) for event in written.events]
        # An entity may be there by now, or a fact.
        memory_id = row.memory_id if row.memory_id in about[1:] else about[-1]
        return self._receipt(memory_id, "approve", written)

    async def _restored(self, command: Restore) -> list[Receipt]:
        written = await self._write(command)
        came = dict.fromkeys(getattr(event, "memory_id", "") for event in written.events)
        state = written.reply.state.of(self.kind)
        rows = (self.kind.find(state, memory_id) for memory_id in came)
        return [
            self._receipt(row.memory_id, "restore", written, whose=self._whose(row))
            for row in rows
            if row is not None
        ]

    # --- what comes in and goes out

    def _check_item(self, item: Item, adding: Adding = Adding()) -> None:  # noqa: B008 - a tuple
        """Refuse what means nothing for this kind: dropping it in silence would lose data.

        :raises InvalidInputError: something of the item, or of the way to add it.
        """
        given = [name for name in OPTIONAL if getattr(item, name) != OPTIONAL[name].default]
        given += [name for name in adding._fields[1:] if getattr(adding, name) is not None]
        for name in given:
            if name not in self.takes:
                raise InvalidInputError(f"{self.kind.NAME} memory has no {name}: leave it out")

    def _taken(self, item: Item) -> dict[str, Any]:
        names = {"metadata", "memory_id", *self.takes.intersection(OPTIONAL)}
        return {name: getattr(item, name) for name in names}

    def _receipt(
        self,
        memory_id: str,
        operation: str,
        written: Written,
        *,
        whose: str | None = None,
        quota: int = 0,
    ) -> Receipt:
        """Return a receipt; it is about the quota of this number: the user's, or `whose`."""
        if operation == "add" and written.pruned:
            operation = "add_with_prune"
        if memory_id in written.pending:
            operation = "pending"
        state = written.reply.state
        use = state.quotas(self.kind, self._scope.limits(state), whose)[quota]
        marks = written.marks
        by = [mark.superseded_by_id for mark in marks if mark.memory_id == memory_id]
        return Receipt(
            memory_id=memory_id,
            operation=operation if written.events else "unchanged",
            memory_type=self.kind.NAME,
            latency_ms=(perf_counter() - written.started_s) * 1e3,
            quota_remaining=max(0, use.limit - use.used),
            evicted=written.evicted,
            pruned=written.pruned,
            indexed=written.unindexed is None,
            unindexed_reason=written.unindexed,
            supersedes=tuple(m.memory_id for m in marks if m.superseded_by_id == memory_id),
            superseded_by=by[-1] if by else None,
        )

    def _receipt_of_put(
        self, memory_id: str, was: Row | None, row: Row | None, written: Written, quota: int = 0
    ) -> Receipt:
        """Return the receipt of a new memory, or of the one that was there and says the same."""
        operation = "add" if was is None else "update"
        if row is not None and memory_id not in written.pending:
            memory_id = row.memory_id
        return self._receipt(memory_id, operation, written, quota=quota)

    def _whose(self, _row: Any) -> str | None:
        """Return the session or agent whose quota a row counts for; None: the user's."""
        return None


def _on_condition(command: C, row: Row, matches: Predicate | None) -> C:
    if matches is None:
        return command
    return msgspec.structs.replace(command, condition=Condition(row.memory_id, matches))


D = TypeVar("D", bound=SummaryData)


class Summarized(Handle):
    """The handle of a kind whose old memories summaries can replace."""

    kind: ClassVar[CompactedKind]

    async def _compress(self, summary: Compressed, originals: Sequence[Row]) -> Written:
        """Put a summary in the place of memories; no events if one of them has changed meanwhile.

        It is embedded first: memories do not make room for what cannot be found yet.

        :raises QuotaExceededError: there would be more bytes than before, and no room for them.
        :raises EmbedderError: it could not be embedded; nothing was done.
        """
        passages = _passages(summary)
        await self._scope.embeddings.embed(passages, background=True)
        command = self.kind.COMPRESS(
            now_us=self._scope.now_us(),
            summary=summary,
            originals=tuple((row.memory_id, row.version) for row in originals),
        )
        return await self._write(command, passages)

    async def _undo_compaction(self, memory_id: str, originals: Sequence[str]) -> list[Receipt]:
        """Take a summary away and bring its originals back; return a receipt for each that came.

        :raises QuotaExceededError: there is no room for all of them; nothing was done.
        :raises NotFoundError: there is no such summary, or an original is in the log no more.
        """
        command = self.kind.UNDO(
            now_us=self._scope.now_us(), memory_id=memory_id, memory_ids=tuple(originals)
        )
        return await self._restored(command)

    async def _put_summary(self, memory: Memory) -> Receipt:
        """Add a summary as another store has it; its originals stay where they are."""
        now_us, summary = self._scope.now_us(), self._checked_summary(memory)
        own_ids = (memory.memory_id,)
        command = self.kind.ADD_SUMMARY(now_us=now_us, summary=summary, own_ids=own_ids)
        written = await self._write(command, _passages(summary))
        return self._receipt(memory.memory_id, "add", written, whose=self._whose(summary))

    @abstractmethod
    def _checked_summary(self, memory: Memory) -> SummaryPut:
        """Return a summary as an export has it, ready to be added.

        :raises InvalidInputError: it does not say what it was made of.
        """


def summary_text(content: str) -> dict[str, object]:
    """Return the fields that follow from the text of a summary."""
    size_bytes = content_bytes(content)
    content = plain(content)
    return {
        "content": content,
        "size_bytes": size_bytes,
        "bytes_after": size_bytes,
        "digest": text_digest(content),
        "passages": passages_of(content),
    }


def checked_summary(memory: Memory, said: type[D]) -> tuple[D, JsonObject]:
    """Return the exported data of a summary, and the fields of the `SummaryPut` of it.

    :raises InvalidInputError: it does not say what it was made of.
    """
    try:
        data = msgspec.convert(memory.data, said)
        start_us, end_us = to_us(data.time_range_start), to_us(data.time_range_end)
    except (TypeError, msgspec.ValidationError) as error:
        raise InvalidInputError(f"a summary says what it was made of in `data`: {error}") from error
    ids = tuple(check_name(one, "original's id") for one in data.compressed_from_ids)
    if not 0 < data.original_count == len(ids):
        raise InvalidInputError("a summary names its originals, as many as it says it has")
    return data, {
        "memory_id": check_name(memory.memory_id, "memory_id"),
        "occurred_at_us": end_us,
        "compressed_from_ids": ids,
        "original_count": data.original_count,
        "time_range_start_us": start_us,
        "time_range_end_us": end_us,
        "compression_method": check_name(data.compression_method, "compression_method"),
        "session_ids": tuple(check_name(one, "session_id") for one in data.session_ids),
        "bytes_before": data.bytes_before,
        "metadata": own_metadata(memory.metadata, shown=True),
        **summary_text(memory.content),
    }


def _passages(summary: Summary) -> list[str]:
    return [summary.content[part.start : part.end] for part in summary.passages]
