"""Kinds whose old memories become summaries: what is the same for all of them.

A summary is a memory of the kind, but it is never compressed again and never reworded. A fold skips
events about a missing memory: it was an original whose payloads retention dropped.
"""

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Protocol, TypeAlias, TypeVar

import msgspec

from eventlog.core.records import AnyRecorded, to_datetime
from memory_actors.base.errors import InvalidInputError, NotFoundError
from memory_actors.base.quota import Limits
from memory_actors.base.records import Metadata, Origin
from memory_actors.kinds.commands import Add, Command, Restore, Update, is_known
from memory_actors.kinds.effects import Decision, Event, TaintedPast
from memory_actors.kinds.keyed import Compactable, Keyed, KeyedKind, Sized
from memory_actors.kinds.kind import Decide, Events, Life, Updated
from memory_actors.kinds.passages import Passage, index_of, label, spans, text_digest
from memory_actors.kinds.rows import derived, new_row, update_of

R = TypeVar("R", bound=Compactable)
S = TypeVar("S", bound=Keyed[Any])

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


A = TypeVar("A", bound=SummaryPut)


def summary_row(cls: type[R], recorded: AnyRecorded, **fields: object) -> R:
    """Return the row of a summary, with these fields of its kind."""
    digests = tuple(passage.digest for passage in recorded.data.passages)
    fields["since_us"] = recorded.data.time_range_start_us
    return new_row(cls, recorded, pinned=False, digests=digests, **fields)


# --- summaries that come back


def summary_again(cls: type[A], began: Summary, row: Compactable) -> A:
    """Return the event that brings a summary back, of the one it began with and its last row."""
    return derived(cls, began, created_at_us=row.created_at_us, metadata=row.metadata)


def refuse_beside_originals(events: Sequence[Any], rows: Mapping[str, object]) -> None:
    """Refuse events that bring back a summary of which every original lives, or comes back too.

    :raises InvalidInputError: there is one.
    """
    back = {event.memory_id for event in events}
    for event in events:
        ids = event.compressed_from_ids if isinstance(event, SummaryPut) else ()
        if ids and all(one in rows or one in back for one in ids):
            raise InvalidInputError(
                f"{event.memory_id!r} is a summary of {event.original_count} memories, and its "
                "originals live: it would say again what they say; restore it when they are deleted"
            )


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


class Worded(Sized, Protocol):
    """A text that an update replaces."""

    @property
    def digest(self) -> bytes:
        """Digest of the text."""
        ...


class CompactedBase(KeyedKind[S, R]):
    """A kind whose old memories may become summaries."""

    COMPRESS: ClassVar[type[Compress]]
    UNDO: ClassVar[type[UndoCompression]]
    ADD_SUMMARY: ClassVar[type[PutSummary]]
    RESTORE: ClassVar[type[Restore]]
    UNDONE: ClassVar[type[CompressionUndone]]
    """The event by which a summary goes."""
    UPDATED: ClassVar[type[Updated]]
    SUMMARIES: ClassVar[tuple[type[Summary], ...]]
    """The events that a summary begins with."""

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

    @abstractmethod
    def text_of(self, row: R) -> Worded:
        """Return the text that an update replaces."""

    @abstractmethod
    def back(self, life: Life[R], limits: Limits) -> tuple[R, list[Event]]:
        """Return the last row of a memory, and the events by which it comes back."""

    @abstractmethod
    def returning(self, past: TaintedPast, limits: Limits) -> Decision | None:
        """Return the events that bring an original back with what others than a source have said.

        None if nothing remains.
        """

    def whose(self, _one: object) -> str | None:
        """Return the one owner of a row or a summary; None: the user."""
        return None

    def compressible(self, row: R) -> bool:
        """Say whether a memory may be compressed, however old it is."""
        return not (row.pinned or row.keep or row.original_count)

    def behind_summary(self, _summary: Any, _state: S) -> Decision:
        """Return the events that follow from putting a summary in the place of memories."""
        return ()

    def check_room(
        self, coming: Sequence[Sized], state: S, limits: Limits, instead_of: Sequence[R] = ()
    ) -> None:
        """Refuse rows, or summaries, for which there is no room in the place of others.

        :raises QuotaExceededError: there is none.
        """
        size_bytes = sum(one.size_bytes for one in coming)
        self.make_room(state, limits, len(coming), size_bytes, instead_of=instead_of)

    # --- decide

    def decisions(self) -> Mapping[type[Command], Decide]:
        """Return the decision function for each command type."""
        return {
            **super().decisions(),
            self.UPDATE: self._update,
            self.RESTORE: self._bring_back,
            self.COMPRESS: self._compress,
            self.UNDO: self._undo,
            self.ADD_SUMMARY: self._add_summary,
        }

    def _update(self, command: Update, state: S, limits: Limits) -> Decision:
        row = self.living(state, command.memory_id)
        text = self.text_of(row)
        reworded = command.content is not None and command.digest != text.digest
        if reworded:
            if row.original_count:
                raise InvalidInputError(
                    f"{row.memory_id!r} is a summary of {row.original_count} memories, which is "
                    "not reworded: undo the compaction, or delete it"
                )
            self.make_room(state, limits, 1, command.size_bytes, instead_of=[text])
        updated = update_of(self.UPDATED, command, row, same_content=not reworded)
        return [] if updated is None else [updated]

    def _bring_back(
        self, command: Restore, state: S, limits: Limits, instead_of: Sequence[R] = ()
    ) -> list[Event]:
        """Return the events that restore the deleted memories, in place of others."""
        back = [self.back(life, limits) for life in self.gone(command, state)]
        came = [event for _, events in back for event in events]
        refuse_beside_originals(came, state.held.rows)
        self.check_room([row for row, _ in back], state, limits, instead_of)
        return came

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
        return map(state.held.rows.__getitem__, state.summaries.ids)

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
        return {
            "original_count": summary.original_count,
            "compressed_from_ids": summary.compressed_from_ids,
            "time_range_start": to_datetime(summary.time_range_start_us).isoformat(),
            "time_range_end": to_datetime(summary.time_range_end_us).isoformat(),
            "compression_method": summary.compression_method,
            "session_ids": summary.session_ids,
            "bytes_before": summary.bytes_before,
            "bytes_after": summary.bytes_after,
        }


CompactedKind: TypeAlias = CompactedBase[Any, Any]
"""Any kind whose old memories may become summaries."""
