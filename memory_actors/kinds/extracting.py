"""Extractions: what an extractor proposed of messages becomes events of long-term memory.

All that was proposed of some messages is one command and one append: facts are added, older ones
are superseded by them, others are forgotten. Each proposal is decided as the command that it stands
for; one that fits no longer what is there is refused by itself. An event behind theirs says which
messages were read and what became of each proposal, so a replay asks nobody.

Nothing is overwritten: a fact that is superseded or forgotten is in the log as it was, and undoing
an extraction brings it back, again in one append. What somebody has changed since is left alone.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Self

import msgspec
from msgspec.structs import replace

from eventlog import Recorded
from memory_actors.base.errors import NotFoundError
from memory_actors.base.origins import meta_of
from memory_actors.base.quota import Limits
from memory_actors.kinds import long_term
from memory_actors.kinds.kind import Command, Outside, Restore, is_summary
from memory_actors.kinds.long_term import (
    AddMemories,
    DeleteMemory,
    LongTerm,
    MemoryAdded,
    MemoryDeleted,
    MemoryReinstated,
    MemoryRestored,
    Pair,
    RestoreMemories,
    SupersedeMemories,
    newer_ones,
)
from memory_actors.kinds.long_term.state import identity
from memory_actors.kinds.provenance import (
    Extracted,
    ExtractionUndone,
    Outcome,
    Provenance,
    of_past,
)
from memory_actors.kinds.purging.pasts import standing

_BEHIND = 1 << 62  # the version of what is decided, until the log gives one: behind all there is

# --- commands


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """A fact as the extractor was shown it."""

    memory_id: str
    digest: bytes


class Proposed(msgspec.Struct, frozen=True, kw_only=True):
    """A proposal that was checked against what the extractor was shown."""

    action: str
    memory_id: str | None = None
    """The one of the memories to add that it is about; None: it adds none."""
    target: Target | None = None
    """The fact that is to be superseded or forgotten."""
    message_ids: tuple[str, ...] = ()
    reason: str = ""
    refused: str = ""
    """Why it is not carried out; "": it is."""


class Extract(Command, frozen=True, kw_only=True):
    """Carry out what an extractor proposed, and record what it has read."""

    extraction_id: str
    extractor: str
    message_ids: tuple[str, ...]
    add: AddMemories
    """The facts that are new: all of them, or none."""
    proposed: tuple[Proposed, ...]

    @property
    def meta(self) -> dict[str, str]:
        """The meta of its events: the origins of the messages, and the extraction as the cause."""
        return {**meta_of(self.add.origins), **_cause(self.extraction_id)}


class UndoExtraction(Restore, frozen=True, kw_only=True):
    """Take back what an extraction has done."""

    extraction_id: str
    memory_ids: tuple[str, ...] = ()
    done: Sequence[Recorded[Any]] = ()
    """Every event of the extraction itself."""

    async def informed(self, state: Any, outside: Outside) -> Self:
        """Return the command with what the extraction did, and the past of what it forgot."""
        about = await outside.events_about([self.extraction_id])
        done = about[self.extraction_id]
        ids = tuple(one.memory_id for one in _outcomes(done) if one.came == "forgotten")
        known = replace(self, done=done, memory_ids=tuple(filter(None, ids)))
        return await Restore.informed(known, state, outside)

    @property
    def meta(self) -> dict[str, str]:
        """The meta of its events."""
        return {"cause": f"undoing extraction {self.extraction_id}"}


def _cause(extraction_id: str) -> dict[str, str]:
    return {"extraction": extraction_id, "cause": f"extraction {extraction_id}"}


# --- extract


class _Decided(NamedTuple):
    events: Sequence[Any]
    state: LongTerm


def _extract(
    command: Extract, state: LongTerm, provenance: Provenance, limits: Limits
) -> Sequence[Any]:
    add = replace(command.add, origins_of=provenance.origins)
    added = _then(state, long_term.decide(add, state, limits))
    new = {event.memory_id: event for event in added.events if isinstance(event, MemoryAdded)}
    ids = {one.memory_id: _stands_for(add, one, state) for one in add.memories}
    events, state = [*added.events], added.state
    outcomes = []
    for proposed in command.proposed:
        outcome = _outcome(proposed, ids, new)
        done = _then(state, _changes(outcome, proposed, state, limits))
        events, state = [*events, *done.events], done.state
        outcomes.append(_in_truth(outcome, proposed, done.events))
    said = Extracted(
        extraction_id=command.extraction_id,
        extractor=command.extractor,
        message_ids=command.message_ids,
        outcomes=tuple(outcomes),
    )
    return [*events, said]


def _stands_for(add: AddMemories, memory: MemoryAdded, state: LongTerm) -> str:
    """Return the id of a new fact, or of the one in its words that is there or comes with it."""
    first = next(one for one in add.memories if identity(one) == identity(memory))
    return long_term.duplicate_of(add, memory, state) or first.memory_id


def _then(state: LongTerm, events: Sequence[Any]) -> _Decided:
    tentative = [
        Recorded("", _BEHIND + n, 0, 0, "", event, 0, 0, b"") for n, event in enumerate(events)
    ]
    return _Decided(events, long_term.fold(state, tentative))


def _outcome(proposed: Proposed, ids: Mapping[str, str], new: Mapping[str, MemoryAdded]) -> Outcome:
    """Return what becomes of a proposal, if what it changes can be changed."""
    outcome = Outcome(
        action=proposed.action,
        came="refused",
        message_ids=proposed.message_ids,
        reason=proposed.refused or proposed.reason,
    )
    target = None if proposed.target is None else proposed.target.memory_id
    if proposed.refused:
        return outcome
    if proposed.memory_id is None:
        return replace(outcome, came="forgotten", memory_id=target)
    memory_id = ids[proposed.memory_id]
    event = new.get(memory_id) if memory_id == proposed.memory_id else None
    if event is None:
        return replace(outcome, came="known", memory_id=memory_id, replaces=target)
    return replace(outcome, came="added", memory_id=memory_id, replaces=target, digest=event.digest)


def _changes(
    outcome: Outcome, proposed: Proposed, state: LongTerm, limits: Limits
) -> Sequence[Any]:
    """Return the events by which an older fact is superseded or forgotten; none if it is not."""
    target, rows = proposed.target, state.held.rows
    row = None if target is None else rows.get(target.memory_id)
    if proposed.refused or target is None or row is None or row.digest != target.digest:
        return []
    if outcome.came == "forgotten":
        free = not row.pinned and not is_summary(row)
        delete = DeleteMemory(now_us=0, memory_id=row.memory_id)
        return long_term.decide(delete, state, limits) if free else []
    newer = rows.get(outcome.memory_id or "")
    if newer is None or newer is row:
        return []
    pair = Pair(
        memory_id=row.memory_id,
        superseded_by_id=newer.memory_id,
        older_digest=row.digest,
        newer_digest=newer.digest,
        similarity=0.0,
        evidence=outcome.reason or "an extractor says so",
    )
    return long_term.decide(SupersedeMemories(now_us=0, pairs=(pair,)), state, limits)


def _in_truth(outcome: Outcome, proposed: Proposed, changed: Sequence[Any]) -> Outcome:
    """Return an outcome as it is where the older fact could not be changed."""
    if changed or proposed.target is None or outcome.came == "refused":
        return outcome
    why = "the older fact is pinned, newer, or not what it was"
    if outcome.came == "forgotten":
        return replace(outcome, came="refused", memory_id=None, reason=why)
    return replace(outcome, replaces=None, reason=f"{outcome.reason}; {why}".removeprefix("; "))


# --- undo


def _outcomes(done: Sequence[Recorded[Any]]) -> list[Outcome]:
    return [one for each in done if isinstance(each.data, Extracted) for one in each.data.outcomes]


def _undo(command: UndoExtraction, state: LongTerm, limits: Limits) -> Sequence[Any]:
    records = [
        one.data for one in command.done if isinstance(one.data, Extracted | ExtractionUndone)
    ]
    if not records or any(one.extraction_id != command.extraction_id for one in records):
        raise NotFoundError(f"no extraction {command.extraction_id!r}: `extractions` lists them")
    if any(isinstance(one, ExtractionUndone) for one in records):
        return []
    outcomes = _outcomes(command.done)
    added = [one for one in outcomes if one.came == "added"]
    went = _then(state, [MemoryDeleted(memory_id=one) for one in _unchanged(added, state)])
    gone = tuple(event.memory_id for event in went.events)
    back, lost = _back(command, went.state, limits)
    returned = _then(went.state, back)
    again = [MemoryReinstated(memory_id=id_) for id_ in _still_marked(outcomes, returned.state)]
    said = ExtractionUndone(
        extraction_id=command.extraction_id,
        gone=gone,
        came_back=tuple(event.memory_id for event in back),
        reinstated=tuple(event.memory_id for event in again),
        left=tuple(
            one
            for one in (outcome.memory_id or "" for outcome in added)
            if one not in gone and one in state.held.rows
        ),
        lost=tuple(lost),
    )
    return [*went.events, *back, *again, said]


def _unchanged(added: Sequence[Outcome], state: LongTerm) -> list[str]:
    """Return those of the facts that were added which live and say what they said."""
    rows = state.held.rows
    found = [(one, rows.get(one.memory_id or "")) for one in added]
    return [row.memory_id for one, row in found if row is not None and row.digest == one.digest]


def _back(
    command: UndoExtraction, state: LongTerm, limits: Limits
) -> tuple[list[MemoryRestored], list[str]]:
    """Return the events by which the forgotten facts come back, and those that cannot.

    :raises QuotaExceededError: there is no room for all of them.
    """
    back: list[MemoryRestored] = []
    lost: list[str] = []
    for memory_id in command.memory_ids:
        past = command.past.get(memory_id, ())
        if memory_id in state.held.rows or not _ended_by(past, command.extraction_id):
            continue  # somebody brought it back, or deleted it again since
        one = RestoreMemories(now_us=command.now_us, memory_ids=(memory_id,), past=command.past)
        try:
            (event,) = long_term.decide(one, state, limits)
        except NotFoundError:
            lost.append(memory_id)
            continue
        event = replace(event, origins=of_past(memory_id, standing(memory_id, past)))
        state = _then(state, [event]).state
        back.append(event)
    return back, lost


def _ended_by(past: Sequence[Recorded[Any]], extraction_id: str) -> bool:
    return bool(past) and past[-1].meta.get("extraction") == extraction_id


def _still_marked(outcomes: Sequence[Outcome], state: LongTerm) -> list[str]:
    """Return the superseded facts whose newer one was there before the extraction, and stays."""
    rows = state.held.rows
    marked = dict.fromkeys(
        one.replaces
        for one in outcomes
        if one.replaces is not None
        and one.came == "known"
        and (row := rows.get(one.replaces)) is not None
        and one.memory_id in [newer.memory_id for newer in newer_ones(row, rows)]
    )
    return list(marked)


# --- decide


def decide(
    command: Extract | UndoExtraction, state: LongTerm, provenance: Provenance, limits: Limits
) -> Sequence[Any]:
    """Turn a command into events.

    :raises QuotaExceededError: what is new, or comes back, has no room.
    :raises NotFoundError: there is no such extraction to undo.
    """
    if isinstance(command, Extract):
        return _extract(command, state, provenance, limits)
    return _undo(command, state, limits)
