"""Properties of a whole memory system: reopened at any moment, retried, replayed in full."""

import asyncio
import tempfile
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from support.fakes import FakeClock, FakeEmbedder, FakeIds
from support.given import pro

from memory_actors import Item, Limits, MemoryActorsError, MemorySystem, Settings, live_user

LIMITS = Limits(working_keys=3, short_term_messages=3, long_term_memories=10)
USERS = st.sampled_from(["ada", "bob"])
WORDS = st.sampled_from(["red apple", "blue car", "green tree", "red car", "x " * 700])
IDS = st.sampled_from([f"id{n}" for n in range(14)])


class SystemMachine(RuleBasedStateMachine):
    """Two users on one store, with a model of what each of their long-term memories holds."""

    @initialize()
    def start(self) -> None:
        live_user.SNAPSHOT_MIN_EVENTS = 1  # every passivation leaves a snapshot to start from
        self.directory = tempfile.TemporaryDirectory()
        self.runner = asyncio.Runner()
        self.clock, self.embedder, self.ids = FakeClock(), FakeEmbedder(), FakeIds()
        self.model: dict[str, dict[str, str]] = {"ada": {}, "bob": {}}
        self.ever: dict[str, set[str]] = {"ada": set(), "bob": set()}
        self.keyed: dict[tuple[str, str], tuple[str, str]] = {}
        self.run(self.open())

    def teardown(self) -> None:
        self.run(self.stack.aclose())
        self.runner.close()
        self.directory.cleanup()
        live_user.SNAPSHOT_MIN_EVENTS = 100

    def run(self, call: Any) -> Any:
        return self.runner.run(call)

    def attempt(self, call: Any) -> Any:
        """Run a call that may be refused; None if it was."""
        try:
            return self.run(call)
        except MemoryActorsError:
            return None

    async def open(self) -> None:
        self.stack = AsyncExitStack()
        self.memory = await self.stack.enter_async_context(
            MemorySystem.open(
                Path(self.directory.name), embedder=self.embedder, clock=self.clock,
                new_id=self.ids, settings=Settings(tiers=pro(LIMITS), check_replay=True),
            )
        )  # fmt: skip

    def note(self, name: str, receipt: Any, content: str) -> None:
        """Follow a receipt; a repeated one names a memory that has had its add before."""
        added = receipt.operation in ("add", "add_with_prune")
        if added and receipt.memory_id in self.ever[name]:
            return
        for gone in receipt.evicted:
            del self.model[name][gone]
        if added or receipt.operation == "update":
            self.model[name][receipt.memory_id] = content
            self.ever[name].add(receipt.memory_id)

    @rule()
    def reopens(self) -> None:
        self.run(self.stack.aclose())
        self.run(self.open())

    @rule(seconds=st.integers(-5_000, 5_000))
    def clock_jumps(self, seconds: int) -> None:
        self.clock.move(seconds)

    @rule(name=USERS, content=WORDS, memory_id=st.none() | IDS, prune=st.booleans())
    def adds(self, name: str, content: str, memory_id: str | None, prune: bool) -> None:
        item = Item(content=content, memory_id=memory_id)
        user = self.memory.user(name)
        receipts = self.attempt(user.add_many([item], auto_prune=prune))
        if receipts:
            self.note(name, receipts[0], content)

    @rule(name=USERS, content=WORDS, key=st.sampled_from(["k1", "k2"]))
    def adds_with_a_key_twice(self, name: str, content: str, key: str) -> None:
        user = self.memory.user(name)
        receipt = self.attempt(user.add(content, idempotency_key=key))
        if receipt is None:
            return
        first = self.keyed.setdefault((name, key), (content, receipt.memory_id))
        assert first == (content, receipt.memory_id), "a key stands for one request, for ever"
        before = self.memory.statistics().log.last_position
        again = self.run(user.add(content, idempotency_key=key))
        assert again.memory_id == receipt.memory_id
        assert self.memory.statistics().log.last_position == before, "a retry changes nothing"
        self.note(name, receipt, content)

    @rule(name=USERS, content=WORDS, data=st.data())
    def updates_or_deletes(self, name: str, content: str, data: Any) -> None:
        if not self.model[name]:
            return
        memory_id = data.draw(st.sampled_from(sorted(self.model[name])))
        user = self.memory.user(name)
        if data.draw(st.booleans()):
            receipt = self.run(user.update(memory_id, content=content))
            self.note(name, receipt, content)
            return
        self.run(user.delete(memory_id))
        del self.model[name][memory_id]

    @rule(name=USERS, key=st.sampled_from("abcd"), value=st.integers(0, 3), prune=st.booleans())
    def sets_a_key(self, name: str, key: str, value: int, prune: bool) -> None:
        self.attempt(self.memory.user(name).working.set(key, value, auto_prune=prune))

    @rule(name=USERS, content=WORDS, session=st.sampled_from(["s", "t"]))
    def adds_a_message(self, name: str, content: str, session: str) -> None:
        self.attempt(self.memory.user(name).short_term.add_message(content, session_id=session))

    @invariant()
    def what_is_kept_is_found_and_nothing_else(self) -> None:
        for name, held in self.model.items():
            user = self.memory.user(name)
            hits = self.run(user.retrieve("red", memory_types=["long_term"], top_k=50))
            assert {hit.memory_id: hit.content for hit in hits} == held

    @invariant()
    def no_limit_is_passed(self) -> None:
        for name in self.model:
            for usage in self.run(self.memory.user(name).usage()).kinds.values():
                if usage.count_limit != LIMITS.short_term_messages:  # a session's, not a user's
                    assert usage.count <= usage.count_limit

    @invariant()
    def live_is_replay(self) -> None:
        assert self.run(self.memory.check_replay()) == []


TestMemorySystem = SystemMachine.TestCase
TestMemorySystem.settings = settings(max_examples=30, stateful_step_count=25, deadline=None)
