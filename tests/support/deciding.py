"""One user's decider, run as an actor runs it: decide, fold, follow up; the log is a list."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from eventlog import Recorded
from memory_actors import MemoryActorsError
from memory_actors.kinds import user_state
from memory_actors.kinds.commands import Add, Command, Restore
from memory_actors.kinds.kind import Kind
from memory_actors.kinds.purging import ApplyRetention
from memory_actors.kinds.user_state import KINDS, UserState
from memory_actors.upkeep.store import event_registry

REGISTRY = event_registry()
Rows = dict[str, tuple[Kind, Any]]


class Decided(NamedTuple):
    """The outcome of a command."""

    command: Command
    before: UserState
    events: tuple[Recorded[Any], ...]
    after: UserState
    refusal: MemoryActorsError | None = None

    @property
    def named(self) -> set[str]:
        """The ids that its events are about."""
        return {key for entry in self.events for key in REGISTRY.keys(entry.data)}


class Deciding:
    """A user's state with the log it comes from, and what it adds to the totals of all users."""

    def __init__(self, limits: user_state.LimitsByTier):
        self.decider = user_state.user_decider(limits)
        self.state = UserState()
        self.log: list[Recorded[Any]] = []
        """The state as it comes back from disk: every event has been encoded and decoded."""
        self.about: defaultdict[str, list[Recorded[Any]]] = defaultdict(list)
        self.totals: Counter[str] = Counter()

    def ask(self, command: Command) -> Decided:
        """Carry out a command, or keep why it was refused."""
        command, before, first = self.enriched(command), self.state, len(self.log)
        try:
            decided = self.decider.decide(command, before)
        except MemoryActorsError as refusal:
            return Decided(command, before, (), before, refusal)
        self._record(decided, command.now_us)
        assert self.decider.follow_up is not None
        self._record(self.decider.follow_up(before, self.state), command.now_us)
        self.totals.update(user_state.totals_changed(before, self.state))
        return Decided(command, before, tuple(self.log[first:]), self.state)

    def enriched(self, command: Command) -> Command:
        """Return a command with what the log knows of the ids in it."""
        if isinstance(command, Add):
            known = [one for one in command.own_ids if one in self.about]
            used = {memory_id: self.about[memory_id][0].data for memory_id in known}
            return msgspec.structs.replace(command, used=used)
        if isinstance(command, Restore):
            past = {one: self.about[one] for one in command.memory_ids if one in self.about}
            return msgspec.structs.replace(command, past=past)
        if isinstance(command, ApplyRetention):
            return msgspec.structs.replace(command, past=self.about)
        return command

    def _record(self, events: Sequence[Any], now_us: int) -> None:
        for event in events:
            live, kept = _recorded(event, len(self.log) + 1, now_us)
            self.log.append(kept)
            self.state = self.decider.evolve(self.state, live)
            for key in REGISTRY.keys(event):
                self.about[key].append(kept)


def _recorded(event: Any, version: int, now_us: int) -> tuple[Recorded[Any], Recorded[Any]]:
    """Return an event as the actor folds it, and as the log gives it back."""
    prepared = REGISTRY.prepare(event)
    decoded, _ = REGISTRY.decode(prepared.tag, prepared.schema, prepared.raw)
    assert decoded == event, "every event survives the codec"
    live = Recorded(
        "user:u", version, 0, now_us, prepared.tag, event, len(prepared.raw),
        prepared.stored_bytes, b"",
    )  # fmt: skip
    return live, msgspec.structs.replace(live, data=decoded, position=version)


def living(state: UserState) -> Rows:
    """Return every row of every kind by id: no two kinds share one."""
    rows = [(kind, row) for kind in KINDS for row in kind.rows(state.of(kind))]
    by_id = {row.memory_id: (kind, row) for kind, row in rows}
    assert len(by_id) == len(rows), "an id stands for one memory"
    return by_id
