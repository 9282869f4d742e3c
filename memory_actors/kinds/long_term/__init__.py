"""Long-term memory: facts with metadata and pinning, found by meaning, kept until deleted.

A newer fact may supersede older ones. `search/superseding` finds which: that needs vectors and
texts. The older fact keeps a mark, which counts as long as the newer one lives and says the same.
Deleting or rewording the newer one undoes the mark, and restoring that memory brings it back. A
reinstated memory is left alone until it is reworded. The summary of a newer one takes its place.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from operator import attrgetter
from types import MappingProxyType
from typing import Any, TypeAlias

from immutables import Map
from msgspec.structs import replace

from eventlog import Dropped
from eventlog.core.records import AnyRecorded
from memory_actors.base.quota import Limits
from memory_actors.base.records import LEVELS, least
from memory_actors.kinds import passages as cut
from memory_actors.kinds.commands import Command, Restore, is_known
from memory_actors.kinds.compacting import (
    CompactedBase,
    Summaries,
    Summary,
    summary_again,
    summary_row,
)
from memory_actors.kinds.effects import Decision, Event
from memory_actors.kinds.kind import Bound, Decide, Nature
from memory_actors.kinds.long_term.state import (
    ROWS,
    SUPERSEDED_MAX,
    AddMemories,
    AddSummary,
    CompactionUndone,
    CompressMemories,
    DeleteMemory,
    Identity,
    LongTerm,
    LongTermDump,
    MemoriesCompressed,
    MemoriesPruned,
    MemoryAdded,
    MemoryDeleted,
    MemoryReinstated,
    MemoryRestored,
    MemoryRow,
    MemorySeen,
    MemorySuperseded,
    MemoryUnmarked,
    MemoryUpdated,
    Pair,
    RestoreMemories,
    SummaryAdded,
    Superseded,
    SupersedeMemories,
    UndoCompaction,
    UpdateMemory,
    age,
    identity,
    newer_ones,
    registry,
)
from memory_actors.kinds.packed import PackedRows
from memory_actors.kinds.passages import Passage, index_of, label, spoken
from memory_actors.kinds.past import Events, Life, Past, TaintedPast
from memory_actors.kinds.rows import Draft, derived, new_row, oldest, updated_row

Restored: TypeAlias = MemoryRestored | SummaryAdded

# --- which say the same


def duplicate_of(
    command: AddMemories,
    memory: MemoryAdded,
    state: LongTerm,
    first: Mapping[Identity, MemoryAdded] = MappingProxyType({}),
) -> str | None:
    """Return the id of the memory that a new one duplicates, or None.

    It exists already, or is the `first` of the command with this text. A superseded memory is no
    duplicate of a later statement, which makes it true again.
    """
    if command.on_duplicate == "keep" or memory.memory_id in command.distinct:
        return None
    said = identity(memory)
    # Memories from before texts were normalised have the digest of the exact text.
    for one in dict.fromkeys((said, (memory.digest, *said[1:]))):
        for known in state.saying(one):
            row = state.rows[known]
            if (
                identity(row) == one
                and (row.pinned or not memory.pinned)
                and command.origins_of.get(known, ()) == command.origins
                and not is_true_anew(command, memory, row, state)
            ):
                return known
    before = first.get(said)
    return None if before is None or (memory.pinned and not before.pinned) else before.memory_id


def is_true_anew(
    command: AddMemories, memory: MemoryAdded, row: MemoryRow, state: LongTerm
) -> bool:
    """Say whether a memory says again what a newer one, not more trusted, has spoken against."""
    newer = next(iter(newer_ones(row, state.rows)), None)
    if newer is None or max(memory.occurred_at_us, memory.last_seen_us) < age(newer)[0]:
        return False
    against = least(command.origins_of.get(newer.memory_id, ()))
    return LEVELS.index(least(command.origins)) >= LEVELS.index(against)


# --- the kind


class LongTermKind(CompactedBase[LongTerm, MemoryRow]):
    """The facts of a user."""

    NAME = "long_term"
    NATURE = Nature(is_reviewed=True)
    MISSING = (
        "it was never there, deleted, or compressed into a summary; `why` tells what became of it"
    )
    UPDATE, DELETE, RESTORE = UpdateMemory, DeleteMemory, RestoreMemories
    COMPRESS, UNDO, ADD_SUMMARY = CompressMemories, UndoCompaction, AddSummary
    DELETED, PRUNED, UNDONE = MemoryDeleted, MemoriesPruned, CompactionUndone
    UPDATED = MemoryUpdated
    SUMMARIES = (MemoriesCompressed, SummaryAdded)
    BOUNDS = (Bound("memories", "long_term_memories"), Bound("bytes", "long_term_bytes", "bytes"))
    Dump = LongTermDump
    registry = registry
    initial = LongTerm()

    # --- fold

    def begun(self, recorded: AnyRecorded, _draft: Draft[MemoryRow]) -> MemoryRow:
        """Return the row of a memory, or of a summary."""
        event, began = recorded.data, recorded.version
        if isinstance(event, Summary):
            return summary_row(MemoryRow, recorded, session_id=None, role=None, began=began)
        parts = cut.digests(event.content, event.role)
        return new_row(MemoryRow, recorded, began=began, digests=parts)

    def changed(self, row: MemoryRow, recorded: AnyRecorded) -> MemoryRow:
        """Return a row after an event about it alone."""
        event = recorded.data
        if isinstance(event, MemoryUpdated):
            # The new text was said once.
            parts = () if event.content is None else cut.digests(event.content, row.role)
            said = {"times_seen": 1, "last_seen_us": 0, "superseded": (), "settled": False}
            said |= {"digest": event.digest, "same": event.same, "digests": parts}
            return updated_row(row, event, recorded, **said)
        if isinstance(event, MemorySeen):
            last_us = max(row.last_seen_us, row.occurred_at_us, event.occurred_at_us)
            return replace(row, times_seen=row.times_seen + 1, last_seen_us=last_us)
        if isinstance(event, MemoryReinstated):
            return replace(row, superseded=(), settled=True)
        if isinstance(event, MemoryUnmarked):
            of = event.superseded_by_id, event.digest
            left = tuple(mark for mark in row.superseded if (mark.by, mark.digest) != of)
            return replace(row, superseded=left)
        mark = Superseded(
            by=event.superseded_by_id, digest=event.digest, at_us=recorded.recorded_at_us
        )
        return replace(row, superseded=(*row.superseded, mark)[-SUPERSEDED_MAX:])

    def dump(self, state: LongTerm) -> LongTermDump:
        """Return the state as plain data."""
        ids = tuple(sorted(state.summaries.ids))
        return derived(
            LongTermDump, state, state.summaries, rows=state.rows.packed(), summaries=ids
        )

    def load(self, dumped: LongTermDump) -> LongTerm:
        """Return the state back."""
        rows = PackedRows.unpacked(ROWS, dumped.rows)
        summaries = derived(Summaries, dumped, ids=Map(dict.fromkeys(dumped.summaries)))
        return derived(LongTerm, dumped, rows=rows, summaries=summaries)

    def in_one_piece(self, state: LongTerm) -> LongTerm:
        """Return the same state with all rows packed, to save memory. Slow: for a thread."""
        return replace(state, rows=state.rows.in_one_piece())

    def over(self, now: LongTerm, then: LongTerm, packed: LongTerm) -> LongTerm:
        """Return a state as changes of a packed one, which is the one that there was `then`."""
        return replace(now, rows=now.rows.over(then.rows, packed.rows))

    # --- decide

    def decisions(self) -> Mapping[type[Command], Decide]:
        """Return the decision function for each command type."""
        return {
            **super().decisions(),
            AddMemories: self._add,
            RestoreMemories: self._restore,
            SupersedeMemories: self._supersede,
        }

    def _add(self, command: AddMemories, state: LongTerm, limits: Limits) -> Decision:
        events, needed = _added_or_seen(command, state)
        fresh = [event.size_bytes for event in events if isinstance(event, MemoryAdded)]
        victims = None
        if command.auto_prune:
            may_go = (row for row in self.rows(state) if row.memory_id not in needed)
            victims = partial(oldest, may_go, len(state.rows))
        return [*self.make_room(state, limits, len(fresh), sum(fresh), victims=victims), *events]

    def _restore(self, command: Restore, state: LongTerm, limits: Limits) -> list[Event]:
        """Bring back memories, and let those hold again that live and were superseded."""
        back, rows = self._bring_back(command, state, limits), state.rows
        found = [rows[one] for one in dict.fromkeys(command.memory_ids) if one in rows]
        marked = [row for row in found if newer_ones(row, rows)]
        return [*back, *(MemoryReinstated(memory_id=row.memory_id) for row in marked)]

    def _supersede(self, command: SupersedeMemories, state: LongTerm, _limits: Limits) -> Decision:
        pairs = {(one.memory_id, one.superseded_by_id): one for one in command.pairs}
        return [
            derived(MemorySuperseded, pair, digest=pair.newer_digest)
            for pair in pairs.values()
            if _is_as_compared(pair, state.rows)
        ]

    # --- compaction

    def compressed(
        self, _rows: Sequence[MemoryRow], fields: Mapping[str, Any]
    ) -> MemoriesCompressed:
        """Return the event that puts a summary with these fields in the place of memories."""
        return MemoriesCompressed(**fields)

    def behind_summary(self, summary: MemoriesCompressed, state: LongTerm) -> Decision:
        """Put the summary in the place of originals that speak against other memories."""
        rows, gone = state.rows, set(summary.compressed_from_ids)
        return [
            MemorySuperseded(
                memory_id=row.memory_id,
                superseded_by_id=summary.memory_id,
                digest=summary.digest,
                similarity=0.0,
                evidence=f"the summary has {newest.memory_id}",
            )
            for row in rows.values()
            if row.superseded
            and row.memory_id not in gone
            and (newest := next(iter(newer_ones(row, rows)), None)) is not None
            and newest.memory_id in gone
        ]

    def told(self, row: MemoryRow, events: Events) -> str:
        """Return a memory as a summariser reads it: with its speaker."""
        return spoken(self.content(row, events), row.role)

    def is_own(self, event: object) -> bool:
        """Say whether an event has the text of one memory, and is about nothing else."""
        return isinstance(event, MemoryAdded | MemoryUpdated)

    # --- the way back, and purges

    def back(self, life: Life[MemoryRow], _limits: Limits) -> tuple[MemoryRow, list[Restored]]:
        """Return the last row of a memory, and the event by which it comes back."""
        row, began = life.row, life.events[0].data
        if isinstance(began, Summary):
            return row, [summary_again(SummaryAdded, began, row)]
        content = life.by_version[row.version].data.content
        keep = row.keep or life.compressed
        return row, [derived(MemoryRestored, row, content=content, keep=keep)]

    def cleaned(self, past: TaintedPast) -> Past:
        """Return the events about a memory without the words of a source."""
        return past.cleaned(MemoryAdded)

    def without(
        self, past: TaintedPast, row: MemoryRow, _state: LongTerm, limits: Limits
    ) -> list[MemoryUpdated] | None:
        """Return the event that makes a memory say what others have said of it last."""
        (then,) = self.told_again(past, limits) or [None]
        if then is None or isinstance(then, SummaryAdded):
            return None
        # Said again even where nothing changes: what is not in its log was not purged.
        if then.digest == row.digest:
            return [MemoryUpdated(memory_id=row.memory_id, metadata=then.metadata)]
        return [derived(MemoryUpdated, then, same=b"", pinned=None)]

    # --- reads

    def held_bytes(self, state: LongTerm) -> int:
        """Return the memory that the state takes: its rows are packed."""
        return state.rows.size_bytes

    def passages(self, row: MemoryRow) -> Sequence[Passage]:
        """Return one passage, the memory; of a summary or a long text, its parts."""
        if row.original_count:
            return self.summary_passages(row)
        digests = row.digests or (row.digest,)
        return [Passage(label(row.version, n), one, row.began) for n, one in enumerate(digests)]

    def passage_text(self, row: MemoryRow, passage_label: int, events: Events) -> str:
        """Return the memory with its speaker; of a summary or a long text, the part."""
        if row.original_count:
            return self.summary_text(row, passage_label, events)
        return cut.passages(self.content(row, events), row.role)[index_of(passage_label)]

    def data(self, row: MemoryRow, events: Events) -> object:
        """Return the data of a summary; None for other memories."""
        return self.summary_data(row, events) if row.original_count else None


_LIKE = (MemoryAdded, MemoryRow)


def _added_or_seen(
    command: AddMemories, state: LongTerm
) -> tuple[list[MemoryAdded | MemorySeen], set[str]]:
    """Return the events for the new memories, and the memories that must stay for them."""
    events: list[MemoryAdded | MemorySeen] = []
    needed: set[str] = set()
    fresh: dict[str, MemoryAdded] = {}
    first: dict[Identity, MemoryAdded] = {}
    for memory in command.memories:
        memory_id = memory.memory_id
        if isinstance(command.used.get(memory_id), Dropped):  # its text cannot be compared
            continue
        known = fresh.get(memory_id) or state.rows.get(memory_id)
        if is_known(command, memory_id, known, _LIKE, attrgetter("digest"), memory.digest):
            continue
        living = duplicate_of(command, memory, state, first)
        if living is None:
            fresh[memory.memory_id] = memory
            first.setdefault(identity(memory), memory)
            events.append(memory)
            continue
        needed.add(living)
        if command.on_duplicate == "count":
            events.append(MemorySeen(memory_id=living, occurred_at_us=memory.occurred_at_us))
    return events, needed


def _is_as_compared(pair: Pair, rows: Mapping[str, MemoryRow]) -> bool:
    """Say whether both are as they were compared, and it is not known yet."""
    older, newer = rows.get(pair.memory_id), rows.get(pair.superseded_by_id)
    if older is None or newer is None or older.settled or age(older) >= age(newer):
        return False
    marks = [(mark.by, mark.digest) for mark in older.superseded]
    same = (older.digest, newer.digest) == (pair.older_digest, pair.newer_digest)
    return same and (newer.memory_id, newer.digest) not in marks


KIND = LongTermKind()
