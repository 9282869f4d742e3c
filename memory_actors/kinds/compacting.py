"""Kinds whose old memories become summaries: what is the same for all of them.

A summary is a memory of the kind, but it is never compressed again and never reworded. A fold skips
events about a missing memory: it was an original whose payloads retention dropped.
"""

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, ClassVar, TypeAlias, TypeVar

import msgspec
from immutables import Map
from msgspec.structs import replace

from eventlog.core.records import AnyRecorded
from memory_actors.base.errors import InvalidInputError, NotFoundError
from memory_actors.base.quota import Limits
from memory_actors.base.records import Metadata, Origin
from memory_actors.kinds.commands import Add, Command, Restore, is_known
from memory_actors.kinds.effects import Decision
from memory_actors.kinds.kind import BaseKind, Decide, Tally
from memory_actors.kinds.passages import Passage, index_of, label, spans, text_digest
from memory_actors.kinds.past import Events
from memory_actors.kinds.rows import Draft, Keyed, Place, Row, derived, new_row, record_data

_HEADING = ("[Summary of ", "]: ")

# --- events


class SummaryPassage(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A part of a summary that is found on its own: `content[start:end]`."""

    start: int
    end: int
    digest: bytes


class Summary(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A text that stands for memories, and what it was made of."""

    memory_id: str
    content: str
    size_bytes: int
    digest: bytes
    """Digest of the content. Its passages are indexed."""
    passages: tuple[SummaryPassage, ...]
    occurred_at_us: int
    """The time at which the last of the originals was true."""
    compressed_from_ids: tuple[str, ...]
    """In order of time."""
    original_count: int
    time_range_start_us: int
    time_range_end_us: int
    compression_method: str
    """The name of the summariser."""
    session_ids: tuple[str, ...] = ()
    bytes_before: int
    """Bytes of the originals' contents."""
    bytes_after: int
    metadata: Metadata = {}
    origins: tuple[Origin, ...] = ()
    """Origins of the originals."""


class Compressed(Summary, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A summary took the place of memories, which went."""


class SummaryPut(Summary, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A summary came back, or from another store; no memory went for it."""

    created_at_us: int | None = None
    """The time at which it was first there; None: now."""


class CompressionUndone(msgspec.Struct, frozen=True, kw_only=True):
    """A summary went, because its originals are to come back: their events follow this one."""

    memory_id: str


# --- what a summary's data are, as `Memory.data` has them


class SummaryData(msgspec.Struct, frozen=True, kw_only=True):
    """The content of `Memory.data` of a summary."""

    original_count: int
    compressed_from_ids: tuple[str, ...]
    time_range_start: datetime
    time_range_end: datetime
    compression_method: str
    session_ids: tuple[str, ...] = ()
    bytes_before: int
    bytes_after: int


# --- state


class Compactable(Row, frozen=True, kw_only=True, array_like=True, gc=False):
    """A row that may be compressed, or be a summary."""

    pinned: bool
    keep: bool = False
    """It came back out of a summary: it is not compressed again."""
    original_count: int = 0
    """Above 0: this is a summary of so many memories."""
    bytes_before: int = 0
    """Bytes of the originals of a summary."""
    digests: tuple[bytes, ...] = ()
    """Digests of the passages, if it has several: of a summary, and of a long text."""
    since_us: int = 0
    """Time of the first original of a summary; `occurred_at_us` is that of the last."""


class Summaries(msgspec.Struct, frozen=True):
    """The living summaries, and the sums of their originals."""

    ids: Map[str, None] = Map()
    originals: int = 0
    bytes_before: int = 0
    bytes_after: int = 0

    def counted(self, row: Compactable, sign: int) -> "Summaries":
        """Return them with a summary more (+1), or less (-1)."""
        ids, memory_id = self.ids, row.memory_id
        return Summaries(
            ids.set(memory_id, None) if sign > 0 else ids.delete(memory_id),
            self.originals + sign * row.original_count,
            self.bytes_before + sign * row.bytes_before,
            self.bytes_after + sign * row.size_bytes,
        )


R = TypeVar("R", bound=Compactable)
A = TypeVar("A", bound=SummaryPut)


class Compacted(Keyed[R], frozen=True):
    """The living memories of a kind, summaries among them."""

    summaries: Summaries = Summaries()


class CompactedDraft(Draft[R]):
    """Rows that change in place, summaries among them."""

    __slots__ = ("summaries",)

    def __init__(self, state: Compacted[R], place: Place[R] | None = None):
        super().__init__(state, place)
        self.summaries = state.summaries

    def fields(self) -> tuple[Any, ...]:
        """Return the fields of the state as they have become, in their order."""
        return (*super().fields(), self.summaries)

    def _count(self, row: R, sign: int) -> None:
        self.size_bytes += sign * row.size_bytes
        self.stored_bytes += sign * row.stored_bytes
        if row.original_count:
            self.summaries = self.summaries.counted(row, sign)


S = TypeVar("S", bound=Compacted[Any])


def summary_row(cls: type[R], recorded: AnyRecorded, **fields: object) -> R:
    """Return the row of a summary, with these fields of its kind."""
    digests = tuple(passage.digest for passage in recorded.data.passages)
    fields["since_us"] = recorded.data.time_range_start_us
    return new_row(cls, recorded, pinned=False, digests=digests, **fields)


# --- summaries that come back


def summary_again(cls: type[A], began: Summary, row: Compactable) -> A:
    """Return the event that brings a summary back, of the one it began with and its last row."""
    return derived(cls, began, created_at_us=row.created_at_us, metadata=row.metadata)


# --- what a summary is found by


def passages_of(content: str) -> tuple[SummaryPassage, ...]:
    """Return the parts of a summary that are found on their own, its heading left out.

    A summary is longer than a model reads, and one vector for a hundred memories is near to none.
    """
    opening, closing = _HEADING
    end = content.find(closing) + len(closing)
    has_heading = content.startswith(opening) and end >= len(closing) and content[end:].strip()
    return tuple(
        SummaryPassage(start, end, text_digest(content[start:end]))
        for start, end in spans(content, end if has_heading else 0)
    )


# --- commands


class PutSummary(Add, frozen=True, kw_only=True):
    """Add a summary as another store has made it."""

    rewords: ClassVar[tuple[str, ...]] = ("summary",)
    summary: SummaryPut


class Compress(Command, frozen=True, kw_only=True):
    """Put a summary in the place of memories, if they are still what it was made of."""

    background: ClassVar[bool] = True
    summary: Compressed
    originals: tuple[tuple[str, int], ...]
    """Id and version of each, as they were read."""


class UndoCompression(Restore, frozen=True, kw_only=True):
    """Take a summary away and bring back its originals, `memory_ids`, all that do not live."""

    memory_id: str
    """Id of the summary."""


# --- the kind


class CompactedBase(BaseKind[S, R]):
    """A kind whose old memories may become summaries."""

    COMPRESS: ClassVar[type[Compress]]
    UNDO: ClassVar[type[UndoCompression]]
    ADD_SUMMARY: ClassVar[type[PutSummary]]
    UNDONE: ClassVar[type[CompressionUndone]]
    """The event by which a summary goes."""
    SUMMARIES: ClassVar[tuple[type[Summary], ...]]
    """The events that a summary begins with."""

    DRAFT = CompactedDraft

    # --- what a kind says

    @abstractmethod
    def told(self, row: R, events: Events) -> str:
        """Return the text of a memory for a summariser."""

    @abstractmethod
    def is_own(self, event: object) -> bool:
        """Say whether an event has a text of one memory, and is about nothing but that memory."""

    @abstractmethod
    def compressed(self, rows: Sequence[R], fields: Mapping[str, object]) -> Compressed:
        """Return the event that puts a summary with these fields in the place of rows."""

    def whose(self, _one: object) -> str | None:
        """Return the one owner of a row or a summary; None: the user."""
        return None

    def compressible(self, row: R) -> bool:
        """Say whether a memory may be compressed, however old it is."""
        return not (row.pinned or row.keep or row.original_count)

    def behind_summary(self, _summary: Any, _state: S) -> Decision:
        """Return the events that follow from putting a summary in the place of memories."""
        return ()

    # --- decide

    def decisions(self) -> Mapping[type[Command], Decide]:
        """Return the decision function for each command type."""
        return {
            **super().decisions(),
            self.COMPRESS: self._compress,
            self.UNDO: self._undo,
            self.ADD_SUMMARY: self._add_summary,
        }

    def check_reworded(self, row: R) -> None:
        """Refuse a new text for a summary."""
        if row.original_count:
            raise InvalidInputError(
                f"{row.memory_id!r} is a summary of {row.original_count} memories, which is "
                "not reworded: undo the compaction, or delete it"
            )

    def check_back(self, came: Sequence[Any], state: S) -> None:
        """Refuse to bring back a summary of which every original lives, or comes back too."""
        back = {event.memory_id for event in came}
        for event in came:
            ids = event.compressed_from_ids if isinstance(event, SummaryPut) else ()
            if ids and all(one in state.rows or one in back for one in ids):
                raise InvalidInputError(
                    f"{event.memory_id!r} is a summary of {event.original_count} memories, and its "
                    "originals live: it would say again what they say; restore it when they are "
                    "deleted"
                )

    def _compress(self, command: Compress, state: S, limits: Limits) -> Decision:
        summary = command.summary
        rows = [(self.find(state, memory_id), version) for memory_id, version in command.originals]
        gone = [
            row
            for row, version in rows
            if row is not None and row.version == version and self.compressible(row)
            if self.whose(row) == self.whose(summary)
        ]
        if len(gone) < len(rows) or self.find(state, summary.memory_id) is not None:
            return []
        self.check_room([summary], state, limits, gone)
        return [summary, *self.behind_summary(summary, state)]

    def _undo(self, command: UndoCompression, state: S, limits: Limits) -> Decision:
        row = self.find(state, command.memory_id)
        if row is None or not row.original_count:
            raise NotFoundError(f"no compressed memory {command.memory_id!r}: it may have gone")
        back = self._bring_back(command, state, limits, [row])
        return [self.UNDONE(memory_id=command.memory_id), *back]

    def _add_summary(self, command: PutSummary, state: S, limits: Limits) -> Decision:
        summary = command.summary
        row = self.find(state, summary.memory_id)
        like: tuple[type, ...] = (Compactable, *self.SUMMARIES)
        if is_known(
            command, summary.memory_id, row, like,
            lambda one: one.original_count and one.digest, summary.digest,
        ):  # fmt: skip
            return []
        self.check_room([summary], state, limits)
        return [summary]

    # --- reads

    def summaries(self, state: S) -> Iterable[R]:
        """Return the living summaries."""
        return map(state.rows.__getitem__, state.summaries.ids)

    def tally(self, state: S) -> Tally:
        """Return the counts and sizes, those of summaries among them."""
        sums = state.summaries
        return replace(
            super().tally(state),
            summaries=len(sums.ids),
            originals=sums.originals,
            summaries_bytes_before=sums.bytes_before,
            summaries_bytes_after=sums.bytes_after,
        )

    def summary_passages(self, row: R) -> list[Passage]:
        """Return the parts that a summary is found by."""
        return [Passage(label(row.version, n), digest) for n, digest in enumerate(row.digests)]

    def summary_text(self, row: R, passage_label: int, events: Events) -> str:
        """Return the text of one part of a summary."""
        summary: Summary = events[row.version].data
        part = summary.passages[index_of(passage_label)]
        return summary.content[part.start : part.end]

    def summary_data(self, row: R, events: Events) -> dict[str, object]:
        """Return the data of a summary about its originals, as JSON."""
        summary: Summary = events[row.version].data
        count: dict[str, object] = {"original_count": summary.original_count}
        return count | record_data(SummaryData, summary)


CompactedKind: TypeAlias = CompactedBase[Any, Any]
"""Any kind whose old memories may become summaries."""
