"""The outcome of a command where room is short: the exact boundary, and the exact victims.

The oracle lets a command have all the room it wants and counts, row by row, what it would take. Is
that within every limit, nothing may go and nothing be refused. Otherwise it takes away one victim,
or one tenth, after the other until a count of what is left says enough.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from eventlog import Recorded
from memory_actors import ContextLimitError, Limits, MemoryActorsError, QuotaExceededError
from memory_actors.base.quota import SET_BY_TIER
from memory_actors.kinds import entity, episodic, long_term, user_state, working
from memory_actors.kinds.commands import Restore
from memory_actors.kinds.context.commands import (
    AddEntry,
    ChangeDocument,
    EditEntry,
    RenameDocuments,
)
from memory_actors.kinds.context.state import blocks, text
from memory_actors.kinds.effects import Pruned
from memory_actors.kinds.short_term import AddMessage, SessionsExpired
from memory_actors.kinds.structured import PutDocument
from memory_actors.kinds.user_state import UserState
from support import recount
from support.deciding import Decided
from support.done import check_needs_nothing

ENDLESS = Limits(
    **{name: 1 << 50 for name in Limits.__struct_fields__ if name not in SET_BY_TIER}
)  # fmt: skip
Fits = Callable[[set[str]], bool]
"""Say whether there is room once these are gone."""
REFUSED = None
Victims = tuple[str, ...] | None
"""Ids in the order in which they go, or that there is no room."""


class Room:
    """A command that was decided, and what it would take if nothing were limited."""

    def __init__(self, decided: Decided, limits: Limits, full: UserState):
        self.command, self.before, self.full = decided.command, decided.before, full
        self.limits = limits
        was = _uses(self.before, limits)
        self.over = {
            name
            for name, (used, limit) in _uses(full, limits).items()
            if used > max(limit, was.get(name, (0, 0))[0])
        }
        """The limits that it would pass."""

    # --- who goes

    def victims(self) -> Victims:
        """Return the victims of a command that may make room."""
        match self.command:
            case working.SetKey() | working.UpdateKey():
                return self._of_working()
            case AddMessage():
                return self._of_session()
            case episodic.StartEpisode():
                return self._of_agent()
        if not self.over:
            return ()
        return self._tenths(self._candidates()) if self.command.auto_prune else REFUSED

    def _candidates(self) -> list[Any]:
        """Return the rows that may be removed, each of the kind that makes room for its own."""
        command, before = self.command, self.before
        if isinstance(command, long_term.AddMemories):
            held = before.long_term.rows
            seen = _changed(held, self._counted().long_term.rows)  # said again: needed
            return [row for row in held.values() if row.memory_id not in seen]
        if isinstance(command, PutDocument):
            key = (command.document.collection, command.document.key)
            rows = before.structured.rows.values()
            return [row for row in rows if (row.collection, row.key) != key]
        relationships = before.entity.graph.rows
        if isinstance(command, entity.Relate):
            # One that only ends because of the new one may go for it.
            full = self.full.entity.graph.rows
            grown = _changed(_unended(relationships), _unended(full))
            return [row for row in relationships.values() if row.memory_id not in grown]
        entities = before.entity.rows
        stay = _changed(entities, self.full.entity.rows)
        for row in relationships.values():
            stay |= {row.source_id, row.target_id} if row.pinned else set()
        return [row for row in entities.values() if row.memory_id not in stay]

    def _counted(self) -> UserState:
        """Return the state if repeated facts were counted, where they are skipped."""
        if self.command.on_duplicate != "skip":
            return self.full
        counting = msgspec.structs.replace(self.command, on_duplicate="count")
        return _decided(Decided(counting, self.before, (), self.before), ENDLESS, 0).after

    def _held(self) -> int:
        """Return how many there are of what goes by tenths."""
        before = self.before
        match self.command:
            case long_term.AddMemories():
                return len(before.long_term.rows)
            case PutDocument():
                return len(before.structured.rows)
            case entity.Relate():
                return len(before.entity.graph.rows)
            case entity.AddEntity():
                return len(before.entity.rows)
        return len(before.episodic.rows)

    def _tenths(self, candidates: Iterable[Any], fits: Fits | None = None) -> Victims:
        """Return tenths of the oldest that are not pinned, until there is room."""
        unpinned = [row for row in candidates if not row.pinned]
        unpinned.sort(key=lambda row: (_last_true_us(row), row.version))
        tenth, fits = max(1, self._held() // 10), fits or self._fits
        for count in range(0, len(unpinned) + tenth, tenth):
            gone = tuple(row.memory_id for row in unpinned[:count])
            if fits(set(gone)):
                return gone
        return REFUSED

    def _fits(self, gone: set[str]) -> bool:
        return all(self._left(name, gone) <= _uses(self.full, self.limits)[name][1]
                   for name in self.over)  # fmt: skip

    def _left(self, name: tuple[str, ...], gone: set[str]) -> int:
        """Return how much of a limit is used when these have gone, and what hangs on them."""
        kind = user_state.KIND_BY_NAME[name[0]]
        rows = [row for row in kind.rows(self.full.of(kind)) if not _went(row, gone)]
        if name[1] == "bytes":
            return sum(row.size_bytes for row in rows)
        if name[1] in ("entities", "relationships"):
            wanted = entity.EntityRow if name[1] == "entities" else entity.RelationshipRow
            rows = [row for row in rows if isinstance(row, wanted)]
        return len(rows)

    def _of_working(self) -> Victims:
        states, limits = (self.before.working, self.full.working), self.limits
        held, full = ({row.key: row for row in working.KIND.rows(one)} for one in states)
        changed = [key for key, row in full.items() if held.get(key) != row]
        if not changed:
            return ()
        (key,) = changed
        if full[key].size_bytes > limits.working_bytes:
            return REFUSED
        may_go = getattr(self.command, "auto_prune", False) and limits.working_keys > 0
        if key not in held and len(full) > limits.working_keys and not may_go:
            return REFUSED
        keys_max = limits.working_keys if key not in held else len(held)
        used = [one for one in self.command.least_recent or () if one in held]
        order = [one for one in dict.fromkeys([*used, *held]) if one != key]
        for count in range(len(order) + 1):
            left = [row for one, row in full.items() if one not in order[:count]]
            if (
                len(left) <= keys_max
                and sum(row.size_bytes for row in left) <= limits.working_bytes
            ):
                return tuple(held[one].memory_id for one in order[:count])
        raise AssertionError("what fits by itself fits when all else has gone")

    def _of_session(self) -> Victims:
        limits, message = self.limits, self.command.message
        name = message.session_id
        there = self.before.at(self.command.now_us).short_term
        living, full = there.sessions, self.full.at(self.command.now_us).short_term
        if set(full.rows) <= set(there.rows):
            return ()  # it is there, or was
        none = 0 in (limits.short_term_messages, limits.short_term_sessions)
        if none or message.size_bytes > limits.short_term_bytes:
            return REFUSED
        gone: list[str] = []
        others = sorted(living, key=lambda one: (living[one].expires_at_us, one))
        if name not in living:
            over = max(0, len(living) + 1 - limits.short_term_sessions)
            gone += [row.memory_id for one in others[:over] for row in there.session(one)]
        rows = full.session(name)
        first = 0
        while (
            len(rows) - first > limits.short_term_messages
            or sum(row.size_bytes for row in rows[first:]) > limits.short_term_bytes
        ):
            first += 1
        return (*gone, *(row.memory_id for row in rows[:first]))

    def _of_agent(self) -> Victims:
        """Return the ended episode of the agent that goes by itself, or who is pruned."""
        command, limits, held = self.command, self.limits, self.before.episodic.rows
        if len(self.full.episodic.rows) == len(held):
            return ()  # it is there, or was
        mine = [row for row in held.values() if row.agent_id == command.episode.agent_id]
        over = max(0, len(mine) + 1 - limits.episodes)
        status = ("done", "failed", "running")
        may_go = [row for row in mine if not row.pinned]
        may_go.sort(key=lambda row: (status.index(row.status), row.occurred_at_us, row.version))
        by_itself = over == 1 and bool(may_go) and may_go[0].status != "running"
        if over > len(may_go) or (over and not by_itself and not command.auto_prune):
            return REFUSED
        first = tuple(row.memory_id for row in may_go[:over])

        def fits(gone: set[str]) -> bool:
            return self._left(("episodic", "bytes"), {*first, *gone}) <= limits.episodic_bytes

        if fits(set()):
            return first
        if not command.auto_prune:
            return REFUSED
        others = [r for r in held.values() if r.status != "running" and r.memory_id not in first]
        more = self._tenths(others, fits)
        if more is None:
            return REFUSED
        # A prune is an event before the one that begins an episode, which names who left by itself.
        return (*more, *first) if by_itself else (*first, *more)


MAY_TAKE_LESS = (Restore, ChangeDocument, AddEntry, EditEntry, RenameDocuments)
"""Steps of what comes back, and entries of a document, may leave for the rest; a document that is
too large since a limit was lowered keeps its size under another name."""
MAKE_ROOM = (
    working.SetKey, working.UpdateKey, AddMessage, long_term.AddMemories, PutDocument,
    entity.AddEntity, entity.Relate, episodic.StartEpisode,
)  # fmt: skip


def check(decided: Decided, limits: Limits, version: int) -> None:
    """Assert that a command was refused exactly where there is no room, and made who must go go.

    Then that it is so one above and one below each limit that it comes closer to, and where each
    limit of its kind has been lowered below what there is.
    """
    full = _decided(decided, ENDLESS, version)
    check_needs_nothing(decided.command, full.refusal)
    if full.refusal is not None:
        assert decided.refusal is not None
        by_tokens = isinstance(full.refusal, ContextLimitError)
        assert by_tokens or not isinstance(full.refusal, QuotaExceededError), "room is endless"
        return
    _check(decided, full.after, limits)
    for name, limit in sorted(_close(full)):
        close = msgspec.structs.replace(ENDLESS, **{name: limit})
        _check(_decided(full, close, version), full.after, close)


def _close(full: Decided) -> set[tuple[str, int]]:
    """Return limits that a command would meet or pass by one, and some below what there is."""
    was, uses = _uses(full.before, ENDLESS), _uses(full.after, ENDLESS)
    close: set[tuple[str, int]] = set()
    for name in [name for name in was | uses if name[:2] in LIMITS]:
        (before, _), (after, _) = was.get(name, (0, 0)), uses.get(name, (0, 0))
        limits = {after, after - 1} if after > before else set()
        if before and isinstance(full.command, user_state.KIND_BY_NAME[name[0]].COMMANDS):
            limits.add(before - 1)
        close |= {(LIMITS[name[:2]], limit) for limit in limits}
    return close


def _last_true_us(row: Any) -> int:
    """Return when a row was true last: a fact that was said again is as old as its last time."""
    return max(row.occurred_at_us, getattr(row, "last_seen_us", 0))


LIMITS = {
    ("working", "keys"): "working_keys",
    ("working", "bytes"): "working_bytes",
    ("short_term", "sessions"): "short_term_sessions",
    ("short_term", "messages"): "short_term_messages",
    ("short_term", "bytes"): "short_term_bytes",
    ("long_term", "memories"): "long_term_memories",
    ("long_term", "bytes"): "long_term_bytes",
    ("entity", "entities"): "entities",
    ("entity", "relationships"): "relationships",
    ("entity", "bytes"): "entity_bytes",
    ("episodic", "episodes"): "episodes",
    ("episodic", "steps"): "episode_steps",
    ("episodic", "bytes"): "episodic_bytes",
    ("structured", "documents"): "documents",
    ("structured", "bytes"): "structured_bytes",
    ("context", "documents"): "context_documents",
    ("context", "document bytes"): "context_document_bytes",
    ("context", "entries"): "context_entries",
    ("context", "bytes"): "context_bytes",
}
"""The names that limits have in a use, and in `Limits`."""


def _check(decided: Decided, full: UserState, limits: Limits) -> None:
    was = recount.uses(decided.before, limits)
    for name, (used, limit) in recount.uses(decided.after, limits).items():
        assert used <= max(limit, was.get(name, (0, 0))[0]), name
    room, refused = Room(decided, limits, full), isinstance(decided.refusal, QuotaExceededError)
    if isinstance(decided.refusal, ContextLimitError):
        return  # by tokens
    if refused and room.over:
        _check_named(decided.refusal, room, full)
    if isinstance(decided.command, MAKE_ROOM):
        expected = room.victims()
        assert refused == (expected is REFUSED), (expected, decided.refusal)
        if expected is not None:
            _compare(decided, expected)
    elif isinstance(decided.command, episodic.AddStep):
        _check_step(decided, room, limits)
    elif refused or not isinstance(decided.command, MAY_TAKE_LESS):
        assert refused == bool(room.over), (room.over, decided.refusal)


def _check_named(refusal: Any, room: Room, full: UserState) -> None:
    """The refusal is about a limit that would be passed, and says how much of it is used.

    Steps are refused where none may be kept: those that an episode has would leave for a new one.
    """
    limits = {name: limit for name, (_, limit) in _uses(full, room.limits).items()}
    was = _uses(room.before.at(room.command.now_us), room.limits)
    used = {name: 0 if name[1] == "steps" else was.get(name, (0, 0))[0] for name in room.over}
    assert any(
        (refusal.kind, refusal.limit, refusal.unit == "bytes", refusal.used)
        == (name[0], limits[name], "bytes" in name[1], used[name])
        for name in room.over
    ), (refusal, used)


def _compare(decided: Decided, expected: tuple[str, ...]) -> None:
    gone = [one for entry in decided.events for one in _made_to_go(entry.data)]
    hanging = {one for one in gone if one in decided.before.entity.graph.rows}
    if not isinstance(decided.command, entity.Relate):  # they go with their ends
        gone = [one for one in gone if one not in hanging]
        assert hanging == {
            row.memory_id
            for row in decided.before.entity.graph.rows.values()
            if {row.source_id, row.target_id} & set(expected)
        }
    assert tuple(gone) == expected


def _check_step(decided: Decided, room: Room, limits: Limits) -> None:
    """The oldest step between first and newest is removed, errors last; then the first."""
    row = decided.before.episodic.rows[decided.command.step.memory_id]
    over = max(0, len(row.steps) + 1 - limits.episode_steps)
    order = sorted(row.steps[1:], key=lambda step: step.failed)
    gone = [*order, *row.steps[:1]][:over]
    freed = sum(step.size_bytes for step in gone)
    used = decided.before.episodic.size_bytes
    grown = used + decided.command.step.size_bytes - freed
    refused = isinstance(decided.refusal, QuotaExceededError)
    assert refused == (not limits.episode_steps or grown > max(limits.episodic_bytes, used))
    if not refused:
        (event,) = [e.data for e in decided.events if isinstance(e.data, episodic.StepAdded)]
        assert [one.number for one in event.evicted] == [step.number for step in gone]


def without_limits(decided: Decided, command: Any) -> UserState:
    """Return the state after another command in endless room."""
    return _decided(decided._replace(command=command), ENDLESS, 0).after


def _decided(decided: Decided, limits: Limits, version: int) -> Decided:
    """Return the result of a command with these limits."""
    command, before = decided.command, decided.before
    decider = user_state.user_decider({before.account.tier: limits})
    try:
        events = decider.decide(command, before)
    except MemoryActorsError as refusal:
        return Decided(command, before, (), before, refusal)
    recorded = tuple(
        Recorded("", number, 0, command.now_us, "", event, 0, 0, b"")
        for number, event in enumerate(events, start=version + 1)
    )
    return Decided(command, before, recorded, decider.fold(recorded, before))


def _uses(state: UserState, limits: Limits) -> recount.Uses:
    """Return how full every limit is, that of each document's bytes included."""
    sizes = {
        ("context", "document bytes", name): (
            len(text(blocks(state.context, name)).encode()), limits.context_document_bytes,
        )
        for name in state.context.documents
    }  # fmt: skip
    return recount.uses(state, limits) | sizes


def _made_to_go(event: Any) -> Sequence[str]:
    """Return the ids that an event takes away for want of room."""
    if isinstance(event, Pruned) or (isinstance(event, SessionsExpired) and event.cause == "quota"):
        return event.memory_ids
    return getattr(event, "evicted_ids", ())


def _went(row: Any, gone: set[str]) -> bool:
    ends = {getattr(row, "source_id", None), getattr(row, "target_id", None)}
    return row.memory_id in gone or bool(ends & gone)


def _unended(relationships: Any) -> Any:
    """Return relationships without what their end changes."""
    unended = {"valid_to_us": None, "stored_bytes": 0}
    return {one: msgspec.structs.replace(row, **unended) for one, row in relationships.items()}


def _changed(before: Any, after: Any) -> set[str]:
    """Return the ids of rows that are there before and after, and not the same."""
    return {one for one, row in before.items() if one in after and after[one] != row}
