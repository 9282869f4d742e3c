"""Extractions: what an extractor proposed of messages becomes events of long-term memory.

All proposals are one command and one append. Each is decided as the command that it stands for; one
that no longer fits is refused by itself. Undoing an extraction is one append, too, and leaves
memories alone that were changed since.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Self

import msgspec
from msgspec.structs import replace

from eventlog import Recorded
from memory_actors.base.errors import NotFoundError
from memory_actors.base.origins import Origins, meta_of
from memory_actors.base.quota import Limits
from memory_actors.kinds import long_term, review
from memory_actors.kinds.commands import Command, Outside, Restore
from memory_actors.kinds.effects import Decision, Event
from memory_actors.kinds.long_term import AddMemories, LongTerm, MemoryAdded, MemoryRow
from memory_actors.kinds.provenance import Extracted, ExtractionUndone, Outcome, Provenance, of_past
from memory_actors.kinds.purging import standing
from memory_actors.kinds.rows import derived, is_summary
from memory_actors.kinds.tombstones import MARK

_NONE: object = object()
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
    """The facts that are proposed: those that are not known are added, all of them or none."""
    within: Mapping[str, Any] = {}
    """The metadata that a fact must have to be the same as a proposed one."""
    proposed: tuple[Proposed, ...]

    @property
    def waits(self) -> bool:
        """True where what was found needs a review."""
        return self.add.waits

    def meta(self, origins: Origins) -> dict[str, str]:  # noqa: ARG002 - its words are the messages'
        """Return the origins of the messages, and the extraction as the cause."""
        cause = {"extraction": self.extraction_id, "cause": f"extraction {self.extraction_id}"}
        return {**meta_of(self.add.origins), **cause}


class UndoExtraction(Restore, frozen=True, kw_only=True):
    """Take back what an extraction has done."""

    extraction_id: str
    memory_ids: tuple[str, ...] = ()
    done: Sequence[Recorded[Event]] = ()
    """Every event of the extraction itself."""

    async def informed(self, state: object, outside: Outside) -> Self:
        """Return the command with what the extraction did, and the past of what it forgot."""
        about = await outside.events_about([self.extraction_id])
        done = about[self.extraction_id]
        added = ids_of(done, "added")  # what a later batch forgot again
        ids = tuple(one for one in ids_of(done, "forgotten") if one not in added)
        known = await Restore.informed(replace(self, done=done, memory_ids=ids), state, outside)
        adders = {
            one: past[0].meta.get("extraction", "") if past else ""
            for one, past in known.past.items()
        }
        by_adder = await outside.events_about(adder for adder in adders.values() if adder)
        left = (
            one for one in ids if not _taken_back(known.past[one], by_adder.get(adders[one], ()))
        )
        return replace(known, memory_ids=tuple(left))

    def meta(self, origins: Origins) -> dict[str, str]:  # noqa: ARG002 - it has no words
        """Return the extraction that is undone as the cause."""
        return {"cause": f"undoing extraction {self.extraction_id}"}


# --- extract


def extract(command: Extract, state: LongTerm, provenance: Provenance, limits: Limits) -> Decision:
    """Turn the proposals into events.

    :raises QuotaExceededError: what is new has no room.
    """
    same = _same(command, state, provenance)
    new = tuple(one for one in command.add.memories if same[one.memory_id] is one)
    add = replace(command.add, memories=new)
    events = [*long_term.KIND.decide(add, state, limits)]
    state = _after(state, events)
    if command.waits:
        targets = {one.memory_id: one.target for one in command.proposed}
        replaced = {
            new: (old.memory_id, old.digest)
            for new, old in targets.items()
            if new is not None and old is not None
        }
        events = [*review.held(add, events, replaced)]
    outcomes = []
    for proposed in command.proposed:
        outcome = _outcome(proposed, same)
        if command.waits:
            outcomes.append(_waiting(outcome))
            continue
        done = _changes(outcome, proposed, state, limits)
        events, state = [*events, *done], _after(state, done)
        outcomes.append(_in_truth(outcome, proposed, done))
    return [*events, derived(Extracted, command, outcomes=tuple(outcomes))]


def _waiting(outcome: Outcome) -> Outcome:
    """Return an outcome as it is where facts wait for a review: nothing changes before."""
    if outcome.came == "added":
        return replace(outcome, came="pending")
    if outcome.came == "forgotten":
        why = "extractions are reviewed, and only a new fact can wait"
        return replace(outcome, came="refused", memory_id=None, reason=why)
    return replace(outcome, replaces=None)


def _same(
    command: Extract, state: LongTerm, provenance: Provenance
) -> dict[str, MemoryRow | MemoryAdded]:
    """Return the duplicate of each proposed fact, by its id: a known fact or the first one."""
    add = replace(command.add, origins_of=provenance.origins)
    wanted = {text for one in add.memories for text in _texts(one)}
    living = (row for row in state.rows.values() if not is_summary(row))
    rows = [row for row in living if (row.same or row.digest) in wanted]
    known: dict[bytes, list[MemoryRow]] = {}
    for row in sorted(rows, key=lambda row: row.began):
        is_within = all(row.metadata.get(k, _NONE) == v for k, v in command.within.items())
        if is_within and provenance.of(row.memory_id) == add.origins:
            known.setdefault(row.same or row.digest, []).append(row)
    first: dict[bytes, MemoryAdded] = {}
    same: dict[str, MemoryRow | MemoryAdded] = {}
    for one in add.memories:
        found = (row for text in _texts(one) for row in known.get(text, ()))
        holding = (row for row in found if not long_term.is_true_anew(add, one, row, state))
        same[one.memory_id] = next(holding, None) or first.setdefault(one.same or one.digest, one)
    return same


def _texts(one: MemoryAdded) -> tuple[bytes, ...]:
    """Return the digests of a text normalised, which older memories lack, and as it is."""
    return (one.same, one.digest) if one.same else (one.digest,)


def _after(state: LongTerm, events: Sequence[Event]) -> LongTerm:
    return long_term.KIND.after(state, events, version=_BEHIND)


def _outcome(proposed: Proposed, same: Mapping[str, MemoryRow | MemoryAdded]) -> Outcome:
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
    fact = same[proposed.memory_id]
    came = "added" if fact.memory_id == proposed.memory_id else "known"
    return replace(
        outcome, came=came, memory_id=fact.memory_id, replaces=target, digest=fact.digest
    )


def _changes(outcome: Outcome, proposed: Proposed, state: LongTerm, limits: Limits) -> Decision:
    """Return the events by which an older fact is superseded or forgotten; none if it is not."""
    target, rows = proposed.target, state.rows
    row = None if target is None else rows.get(target.memory_id)
    if proposed.refused or target is None or row is None or row.digest != target.digest:
        return []
    if outcome.came == "forgotten":
        free = not row.pinned and not is_summary(row)
        delete = long_term.DeleteMemory(now_us=0, memory_id=row.memory_id)
        return long_term.KIND.decide(delete, state, limits) if free else []
    newer = rows.get(outcome.memory_id or "")
    if newer is None or newer.memory_id == row.memory_id:
        return []
    pair = long_term.Pair(
        memory_id=row.memory_id,
        superseded_by_id=newer.memory_id,
        older_digest=row.digest,
        newer_digest=newer.digest,
        similarity=0.0,
        evidence=outcome.reason or "an extractor says so",
    )
    return long_term.KIND.decide(
        long_term.SupersedeMemories(now_us=0, pairs=(pair,)), state, limits
    )


def _in_truth(outcome: Outcome, proposed: Proposed, changed: Sequence[Event]) -> Outcome:
    if changed or proposed.target is None or outcome.came == "refused":
        return outcome
    why = "the older fact is pinned, newer, or not what it was"
    if outcome.came == "forgotten":
        return replace(outcome, came="refused", memory_id=None, reason=why)
    return replace(outcome, replaces=None, reason=f"{outcome.reason}; {why}".removeprefix("; "))


# --- undo


def _outcomes(done: Sequence[Recorded[Event]]) -> list[Outcome]:
    return [one for each in done if isinstance(each.data, Extracted) for one in each.data.outcomes]


def ids_of(done: Sequence[Recorded[Event]], came: str) -> list[str]:
    """Return the ids of the facts of which this came."""
    return [one.memory_id for one in _outcomes(done) if one.came == came and one.memory_id]


def undo(command: UndoExtraction, state: LongTerm, limits: Limits) -> Decision:
    """Turn an undo into events.

    :raises QuotaExceededError: what comes back has no room.
    :raises NotFoundError: there is no such extraction.
    """
    records = [
        one.data for one in command.done if isinstance(one.data, Extracted | ExtractionUndone)
    ]
    if not records or any(one.extraction_id != command.extraction_id for one in records):
        raise NotFoundError(f"no extraction {command.extraction_id!r}: `extractions` lists them")
    if any(isinstance(one, ExtractionUndone) for one in records):
        return []
    outcomes = _outcomes(command.done)
    added = [one for one in outcomes if one.came in ("added", "pending")]
    # Facts that were reworded since then stay.
    found = [(one, state.rows.get(one.memory_id or "")) for one in added]
    unchanged = [row for one, row in found if row is not None and row.digest == one.digest]
    gone = tuple(row.memory_id for row in unchanged)
    went = [long_term.MemoryDeleted(memory_id=one) for one in gone]
    left = _after(state, went)
    back, lost = _back(command, left, limits)
    left = _after(left, back)
    again = _unmarked([one for one in outcomes if one.memory_id not in gone], left)
    said = ExtractionUndone(
        extraction_id=command.extraction_id,
        gone=gone,
        came_back=tuple(event.memory_id for event in back),
        reinstated=tuple(dict.fromkeys(event.memory_id for event in again)),
        left=tuple(
            one
            for one in (outcome.memory_id or "" for outcome in added)
            if one not in gone and one in state.rows
        ),
        lost=tuple(lost),
    )
    return [*went, *back, *again, said]


def _back(
    command: UndoExtraction, state: LongTerm, limits: Limits
) -> tuple[list[long_term.MemoryRestored], list[str]]:
    """Return the events by which the forgotten facts come back, and the ids of lost ones."""
    back: list[long_term.MemoryRestored] = []
    lost: list[str] = []
    for memory_id in command.memory_ids:
        past = command.past.get(memory_id, ())
        ended_by = past[-1].meta.get("extraction") if past else None
        if memory_id in state.rows or ended_by != command.extraction_id:
            continue  # somebody brought it back, or deleted it again since
        one = long_term.RestoreMemories(
            now_us=command.now_us, memory_ids=(memory_id,), past=command.past
        )
        try:
            (event,) = long_term.KIND.decide(one, state, limits)
        except NotFoundError:
            lost.append(memory_id)
            continue
        assert isinstance(event, long_term.MemoryRestored), "no summary is forgotten"
        if event.content == MARK:  # its words were taken out of the log since
            lost.append(memory_id)
            continue
        event = replace(event, origins=of_past(memory_id, standing(memory_id, past)))
        state = _after(state, [event])
        back.append(event)
    return back, lost


def _taken_back(past: Sequence[Recorded[Event]], by_adder: Sequence[Recorded[Event]]) -> bool:
    """Say whether the extraction that added a fact was undone after the fact had gone."""
    return any(
        isinstance(one.data, ExtractionUndone) and one.version > past[-1].version
        for one in by_adder
    )


def _unmarked(outcomes: Sequence[Outcome], state: LongTerm) -> list[long_term.MemoryUnmarked]:
    """Return the events that undo the marks that known facts put on others."""
    rows = state.rows
    marks = {
        # Older records did not store the digest of a known fact.
        (one.replaces, one.memory_id, one.digest or getattr(known, "digest", b"")): None
        for one in outcomes
        if one.came == "known" and one.memory_id and one.replaces and one.replaces in rows
        for known in [rows.get(one.memory_id)]
    }
    return [
        long_term.MemoryUnmarked(memory_id=older, superseded_by_id=newer, digest=digest)
        for older, newer, digest in marks
        if (newer, digest) in [(mark.by, mark.digest) for mark in rows[older].superseded]
    ]
