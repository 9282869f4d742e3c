"""The required effect of each accepted command, defined by kind and without asking its decider.

The oracle of room compares a decision with the same decision in endless room, so a decider that
does nothing, or refuses always, agrees with itself. Here a command is held against the state.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from eventlog import Recorded
from memory_actors import NotFoundError, text_digest
from memory_actors.kinds import (
    context,
    entity,
    episodic,
    long_term,
    short_term,
    structured,
    working,
)
from memory_actors.kinds.account import SetTier
from memory_actors.kinds.commands import Delete
from memory_actors.kinds.context.commands import DeleteEntry
from memory_actors.kinds.entity.graph import name_key
from memory_actors.kinds.episodic import AddStep, FinishEpisode
from memory_actors.kinds.rows import last_true_us, same_json
from memory_actors.kinds.structured import document_text
from memory_actors.kinds.user_state import UserState
from support.deciding import Decided, living
from support.user_rules import RESTORES

SECOND_US = 1_000_000
NEEDS_NOTHING = (
    working.SetKey, short_term.AddMessage, long_term.AddMemories, entity.AddEntity,
    episodic.StartEpisode, structured.PutDocument,
)  # fmt: skip
"""Adds that are refused for want of room alone, where they have no ids of the caller's own."""


def check_done(decided: Decided) -> None:
    """Assert that an accepted command has done what it says."""
    command, after = decided.command, living(decided.after)
    if type(command) in RESTORES.values():
        _check_restored(decided)
    elif isinstance(command, Delete | DeleteEntry) and getattr(command, "memory_id", None):
        assert command.memory_id not in after
    if type(command) in CHECKS:
        CHECKS[type(command)](command, decided)


def check_refused(decided: Decided) -> None:
    """Assert that a memory which is there was not said to be missing."""
    assert not isinstance(decided.command, SetTier)
    if not isinstance(decided.refusal, NotFoundError):
        return
    now = decided.before.at(decided.command.now_us)
    if isinstance(decided.command, entity.RemoveObservation):
        assert decided.command.digest not in _observed(decided.command, now)
    change = getattr(decided.command, "change", decided.command)
    if isinstance(decided.command, Delete | episodic.UpdateEpisode | AddStep | FinishEpisode):
        about = getattr(change, "step", getattr(change, "end", change))
        kind, _ = living(now).get(getattr(about, "memory_id", ""), (None, None))
        assert kind is None or not isinstance(decided.command, kind.COMMANDS)


def check_needs_nothing(command: Any, refusal: Exception | None) -> None:
    """Assert that an add of something new is not refused where room is endless."""
    if isinstance(command, NEEDS_NOTHING) and not command.own_ids:
        assert refusal is None, refusal


def _check_restored(decided: Decided) -> None:
    """A restore adds exactly those that had gone, and takes nothing away.

    With an entry of a document comes the heading of its section, where that has gone.
    """
    before, after = living(decided.before), living(decided.after)
    wanted, born = set(decided.command.memory_ids), after.keys() - before.keys()
    assert before.keys() <= after.keys()
    past = decided.command.past
    headings = {one for one in wanted if _is_heading(past.get(one, ()))}
    assert wanted - headings <= after.keys()
    assert [one for one in born - wanted if after[one][0] is not context.KIND] == []


def _is_heading(past: Sequence[Recorded[Any]]) -> bool:
    return any(getattr(entry.data, "heading", None) is not None for entry in past)


def _check_tier(command: Any, decided: Decided) -> None:
    assert decided.after.account.tier == command.tier
    assert living(decided.before) == living(decided.after)


def _check_key(command: Any, decided: Decided) -> None:
    told, row = command.entry, decided.after.working.named(working.KEYS, command.entry.key)
    assert same_json([row.value, row.metadata], [told.value, told.metadata])


def _check_message(command: Any, decided: Decided) -> None:
    """A new message is there, the newest of its session, which lives for as long as all do."""
    told, before = command.message, decided.before.at(command.now_us).short_term
    if told.memory_id in command.used or told.memory_id in before.rows:
        return
    *others, last = decided.after.short_term.session(told.session_id)
    assert last.memory_id == told.memory_id
    kept = [row.memory_id for row in others]
    earlier = [row.memory_id for row in before.session(told.session_id)]
    assert kept == earlier[len(earlier) - len(kept) :]


def _check_memories(command: Any, decided: Decided) -> None:
    """Each is there, or what says the same: seen once more where that is counted."""
    after = decided.after.long_term.rows
    digests = {row.digest for row in after.values()}
    for memory in command.memories:
        if memory.memory_id in command.used or memory.memory_id in after:
            continue
        assert command.on_duplicate != "keep"
        assert memory.digest in digests
    for event in (entry.data for entry in decided.events):
        if isinstance(event, long_term.MemorySeen):
            row = after[event.memory_id]
            said = [m.metadata for m in command.memories if m.digest == row.digest]
            assert any(same_json(metadata, row.metadata) for metadata in said)
    if command.on_duplicate == "count":
        fresh = [m for m in command.memories if m.memory_id not in command.used]
        pruned = {one for entry in decided.events
                  for one in getattr(entry.data, "memory_ids", ())}  # fmt: skip
        was = sum(row.times_seen for one, row in decided.before.long_term.rows.items()
                  if one not in pruned)  # fmt: skip
        repeated = Counter(m.memory_id for m in fresh)
        known = sum(m in decided.before.long_term.rows for m in repeated)
        for one, row in decided.before.long_term.rows.items():
            assert one in pruned or last_true_us(after[one]) >= last_true_us(row)
        assert sum(row.times_seen for row in after.values()) <= was + len(fresh)
        assert sum(row.times_seen for row in after.values()) >= was + len(repeated) - known


def _check_entity(command: Any, decided: Decided) -> None:
    new = command.entity
    if new.memory_id in command.used:
        return
    key = name_key(new.name), name_key(new.type)
    rows = decided.after.entity.rows.values()
    (row,) = [row for row in rows if (name_key(row.name), name_key(row.type)) == key]
    assert len(row.observations) >= len({one.digest for one in new.observations})


def _check_document(command: Any, decided: Decided) -> None:
    told = command.document
    row = decided.after.structured.named(told.collection, told.key)
    if row is None:
        assert told.memory_id in command.used
        return
    text = document_text(told.collection, told.key, told.value)
    assert text_digest(text) == row.digest or told.memory_id in command.used


def _check_superseded(command: Any, decided: Decided) -> None:
    """A pair is marked exactly where both are as they were compared, and it is news."""
    rows = decided.before.long_term.rows
    for pair in command.pairs:
        older, newer = rows.get(pair.memory_id), rows.get(pair.superseded_by_id)
        is_new = (
            older is not None
            and newer is not None
            and not older.settled
            and long_term.age(older) < long_term.age(newer)
            and (older.digest, newer.digest) == (pair.older_digest, pair.newer_digest)
            and (newer.memory_id, newer.digest) not in [(m.by, m.digest) for m in older.superseded]
        )
        assert bool(decided.events) == is_new
        if is_new:
            after = decided.after.long_term.rows[pair.memory_id]
            assert pair.superseded_by_id in [mark.by for mark in after.superseded]


def _observed(command: entity.RemoveObservation, state: UserState) -> list[bytes]:
    row = state.entity.rows.get(command.memory_id)
    return [] if row is None else [one.digest for one in row.observations]


def _check_removed(command: Any, decided: Decided) -> None:
    before, after = (_observed(command, state) for state in (decided.before, decided.after))
    assert after == [one for one in before if one != command.digest] != before


def _check_relationship(command: Any, decided: Decided) -> None:
    rows = decided.after.entity.graph.rows.values()
    ends = {(row.source_id, row.target_id) for row in rows}
    new = command.relationship
    assert new.memory_id in command.used or (new.source_id, new.target_id) in ends


def _check_started(command: Any, decided: Decided) -> None:
    told = command.episode
    row = decided.after.episodic.rows.get(told.memory_id)
    assert row is not None or told.memory_id in command.used
    if row is not None:
        assert row.agent_id == told.agent_id


def _check_step(command: Any, decided: Decided) -> None:
    rows = (state.episodic.rows for state in (decided.before, decided.after))
    before, after = (held[command.step.memory_id] for held in rows)
    taken = len(before.steps) + before.steps_evicted
    assert len(after.steps) + after.steps_evicted == taken + 1


def _check_finished(command: Any, decided: Decided) -> None:
    row = decided.after.episodic.rows[command.end.memory_id]
    assert row.status == ("failed" if command.end.failed else "done")


CHECKS: dict[type, Callable[[Any, Decided], None]] = {
    SetTier: _check_tier,
    working.SetKey: _check_key,
    short_term.AddMessage: _check_message,
    long_term.AddMemories: _check_memories,
    long_term.SupersedeMemories: _check_superseded,
    entity.AddEntity: _check_entity,
    entity.RemoveObservation: _check_removed,
    entity.Relate: _check_relationship,
    episodic.StartEpisode: _check_started,
    AddStep: _check_step,
    FinishEpisode: _check_finished,
    structured.PutDocument: _check_document,
}
