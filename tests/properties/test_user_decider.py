"""Properties of a user's memory under any sequence of commands, clocks that jump included."""

from typing import Any

import msgspec
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from support.given import recorded

from memory_actors import user
from memory_actors.errors import MemoryActorsError
from memory_actors.kinds import long_term, short_term, working
from memory_actors.quota import Limits

LIMITS = Limits(
    working_keys=4,
    working_bytes=60,
    short_term_messages=4,
    short_term_bytes=50,
    short_term_ttl_s=10,
    long_term_memories=12,
    long_term_bytes=100,
)
NAMES = st.sampled_from([f"n{i}" for i in range(18)])
SESSIONS = st.sampled_from(["s", "t", "u"])
SIZES = st.integers(1, 70)
METADATA = st.sampled_from([{}, {"a": 1}, {"a": True}, {"b": [1, None]}])


class UserMachine(RuleBasedStateMachine):
    """A user's decider, run as an actor would, beside a replay and a snapshot."""

    def __init__(self) -> None:
        super().__init__()
        self.decider = user.user_decider(LIMITS)
        self.state = user.UserState()
        self.log: list[Any] = []
        self.snapshot = (user.dump(self.state), 0)
        self.used: dict[str, bytes] = {}
        self.now_us = 1_000_000_000

    @rule(seconds=st.integers(-30, 30))
    def clock_jumps(self, seconds: int) -> None:
        self.now_us = max(0, self.now_us + seconds * 1_000_000)

    def ask(self, command: Any) -> None:
        before = user.fingerprint(self.state)
        try:
            events = self.decider.decide(command, self.state)
        except MemoryActorsError:
            assert user.fingerprint(self.state) == before, "a refused command changes nothing"
            return
        for event in events:
            entry = recorded(event, version=len(self.log) + 1)
            self.log.append(entry)
            self.state = self.decider.evolve(self.state, entry)
        again = user.fingerprint(self.state)
        assert again == before or events, "a state changes by events alone"

    @rule(key=NAMES, value=st.integers(0, 3), size=SIZES, prune=st.booleans(), data=st.data())
    def sets_a_key(self, key: str, value: int, size: int, prune: bool, data: Any) -> None:
        order = data.draw(st.permutations(list(self.state.working.rows)))
        self.ask(
            working.SetKey(
                now_us=self.now_us,
                memory_id=f"w-{len(self.log)}",
                key=key,
                value=value,
                size_bytes=size,
                auto_prune=prune,
                least_recent=tuple(order),
            )
        )

    @rule(key=NAMES)
    def deletes_a_key(self, key: str) -> None:
        self.ask(working.DeleteKey(now_us=self.now_us, key=key))

    @rule(name=NAMES, session=SESSIONS, size=SIZES)
    def adds_a_message(self, name: str, session: str, size: int) -> None:
        self.ask(
            short_term.AddMessage(
                now_us=self.now_us,
                memory_id=name,
                session_id=session,
                content="c",
                size_bytes=size,
                occurred_at_us=self.now_us,
            )
        )

    @rule(name=NAMES, size=SIZES, metadata=st.none() | METADATA)
    def updates_a_message(self, name: str, size: int, metadata: Any) -> None:
        self.ask(
            short_term.UpdateMessage(
                now_us=self.now_us, memory_id=name, content="d", size_bytes=size, metadata=metadata
            )
        )

    @rule(name=NAMES)
    def deletes_a_message(self, name: str) -> None:
        self.ask(short_term.DeleteMessage(now_us=self.now_us, memory_id=name))

    @rule(
        names=st.lists(NAMES, min_size=1, max_size=5),
        size=SIZES,
        at=st.integers(0, 5),
        pinned=st.booleans(),
        prune=st.booleans(),
        metadata=METADATA,
    )
    def adds_memories(
        self, names: list[str], size: int, at: int, pinned: bool, prune: bool, metadata: Any
    ) -> None:
        memories = tuple(
            long_term.NewMemory(
                memory_id=f"l-{name}",
                content=name,
                size_bytes=size,
                digest=name.encode(),
                occurred_at_us=at,
                pinned=pinned and name < "n12",
                metadata=metadata,
            )
            for name in names
        )
        before = len(self.log)
        self.ask(
            long_term.AddMemories(
                now_us=self.now_us,
                memories=memories,
                auto_prune=prune,
                used=dict(self.used),
            )
        )
        for entry in self.log[before:]:
            if isinstance(entry.data, long_term.MemoryAdded):
                self.used[entry.data.memory_id] = entry.data.digest

    @rule(name=NAMES, size=SIZES, metadata=st.none() | METADATA)
    def updates_a_memory(self, name: str, size: int, metadata: Any) -> None:
        self.ask(
            long_term.UpdateMemory(
                now_us=self.now_us,
                memory_id=f"l-{name}",
                content=f"u{size}",
                size_bytes=size,
                digest=f"u{size}".encode(),
                metadata=metadata,
            )
        )

    @rule(name=NAMES)
    def deletes_a_memory(self, name: str) -> None:
        self.ask(long_term.DeleteMemory(now_us=self.now_us, memory_id=f"l-{name}"))

    @rule()
    def takes_a_snapshot(self) -> None:
        self.snapshot = user.dump(self.state), len(self.log)

    @invariant()
    def no_limit_is_ever_passed(self) -> None:
        state = self.state
        assert len(state.working.rows) <= LIMITS.working_keys
        assert state.working.size_bytes <= LIMITS.working_bytes
        for session in state.short_term.sessions.values():
            assert len(session.rows) <= LIMITS.short_term_messages
            assert session.size_bytes <= LIMITS.short_term_bytes
        assert len(state.long_term.rows) <= LIMITS.long_term_memories
        assert state.long_term.size_bytes <= LIMITS.long_term_bytes

    @invariant()
    def counters_equal_a_recount(self) -> None:
        state = self.state
        for part in (state.working, state.long_term):
            assert part.size_bytes == sum(row.size_bytes for row in part.rows.values())
        long_rows = state.long_term.rows.values()
        assert state.long_term.stored_bytes == sum(row.stored_bytes for row in long_rows)
        for session in state.short_term.sessions.values():
            assert session.size_bytes == sum(row.size_bytes for row in session.rows)
        named = {r.memory_id: s for s, x in state.short_term.sessions.items() for r in x.rows}
        assert named == dict(state.short_term.session_of)

    @precondition(lambda self: len(self.log) % 7 == 0)
    @invariant()
    def live_is_replay_is_snapshot_and_tail(self) -> None:
        live = user.fingerprint(self.state)
        assert user.fingerprint(self.decider.fold(self.log)) == live
        data, version = self.snapshot
        tail = self.decider.fold(self.log[version:], user.load(data))
        assert user.fingerprint(tail) == live

    @invariant()
    def every_event_survives_the_codec(self) -> None:
        if self.log:
            event = self.log[-1].data
            prepared = REGISTRY.prepare(event)
            assert REGISTRY.decode(prepared.tag, prepared.schema, prepared.raw)[0] == event
            assert isinstance(event, msgspec.Struct)


REGISTRY = user.event_registry()

TestUserDecider = UserMachine.TestCase
TestUserDecider.settings = settings(max_examples=100, stateful_step_count=50, deadline=None)
