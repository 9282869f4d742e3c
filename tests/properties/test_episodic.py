"""Properties of episodic memory under any sequence of commands, clocks that jump included."""

import itertools
from collections import Counter
from typing import Any

import msgspec
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from support.given import recorded

from memory_actors.base.errors import MemoryActorsError
from memory_actors.base.quota import Limits
from memory_actors.kinds import episodic
from memory_actors.kinds.episodic import (
    AddStep,
    CompressEpisodes,
    DeleteEpisode,
    FinishEpisode,
    RestoreEpisodes,
    StartEpisode,
    UndoEpisodeCompaction,
    UpdateEpisode,
)
from memory_actors.kinds.episodic.events import (
    EpisodeCompactionUndone,
    EpisodeFinished,
    EpisodesCompressed,
    EpisodesPruned,
    EpisodeStarted,
    StepAdded,
)
from memory_actors.kinds.episodic.state import EpisodeRow
from memory_actors.kinds.kind import Tally
from memory_actors.kinds.summaries import Compressed, passages_of

LIMITS = Limits(episodes=3, episode_steps=4, episodic_bytes=150)
LOWERED = Limits(episodes=2, episode_steps=2, episodic_bytes=60)
NAMES = st.sampled_from([f"e{i}" for i in range(8)])
PAST = st.lists(NAMES, min_size=1, max_size=4)
AGENTS = st.sampled_from(["a", "a", "a", "b", "c"])
SIZES = st.integers(0, 20) | st.integers(0, 160)
ERRORS = st.sampled_from([None, "", "it broke"])
RARELY = st.sampled_from([False] * 9 + [True])
METADATA = st.none() | st.sampled_from([{}, {"a": 1}, {"a": True}])

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(episodic.KIND.Dump).decode


def some_are_living(machine: Any) -> bool:
    return len(machine.state.held) > 0


def some_have_gone(machine: Any) -> bool:
    return len(machine.ever) > len(machine.state.held)


def dumped(state: Any) -> bytes:
    return _encode(episodic.KIND.dump(state))


class EpisodicMachine(RuleBasedStateMachine):
    """The decider, run as an actor would, beside a replay and a snapshot."""

    def __init__(self) -> None:
        super().__init__()
        self.limits = LIMITS
        self.state = episodic.KIND.initial
        self.log: list[Any] = []
        self.snapshot = (dumped(self.state), 0)
        self.now_us = 1_000_000_000
        self.ever: set[str] = set()
        self.originals: dict[str, list[Any]] = {}
        """The compressed episodes, by their summary."""

    def ask(self, command: Any) -> None:
        before = self.state
        bytes_before = dumped(before)
        try:
            events = episodic.KIND.decide(command, before, self.limits)
        except MemoryActorsError:
            assert dumped(self.state) == bytes_before, "a refused command changes nothing"
            return
        assert dumped(before) == bytes_before, "a decision changes nothing"
        for event in events:
            self.check_promises(event)
            if isinstance(event, EpisodesCompressed):
                self.originals[event.memory_id] = self.say(event.compressed_from_ids)
            entry = recorded(event, len(self.log) + 1, stored_bytes=7 + len(self.log) % 5)
            self.log.append(entry)
            self.state = episodic.KIND.fold(self.state, [entry])
            self.ever |= set(self.state.held.rows)
        self.check_limits(before)
        for event in events:
            self.check_compaction(event, before)

    def check_limits(self, before: Any) -> None:
        """Nothing is above its limit but what was so when the limit was lowered."""
        limits, state = self.limits, self.state
        for agent_id, ids in state.held.groups.items():
            assert len(ids) <= max(limits.episodes, len(before.held.groups.get(agent_id, ())))
        for row in episodic.KIND.rows(state):
            was = episodic.KIND.find(before, row.memory_id)
            unchanged = was is not None and was.steps == row.steps
            assert unchanged or len(row.steps) <= limits.episode_steps
        assert state.held.size_bytes <= max(limits.episodic_bytes, before.held.size_bytes)

    def check_promises(self, event: Any) -> None:
        """Only episodes that may leave do so, in their order."""
        if isinstance(event, EpisodeStarted):
            self.check_left(event, [self.state.held.rows[one] for one in event.evicted_ids])
        elif isinstance(event, EpisodesPruned):
            assert not any(self.state.held.rows[one].pinned for one in event.memory_ids)
        elif isinstance(event, StepAdded):
            self.check_steps_left(self.state.held.rows[event.memory_id], event)

    def check_compaction(self, event: Any, before: Any) -> None:
        """A summary takes the place of what it names, and gives it back: not twice."""
        rows, was = self.state.held.rows, before.held.rows
        if isinstance(event, EpisodesCompressed):
            gone = set(event.compressed_from_ids)
            assert set(was) - set(rows) == gone
            assert set(rows) - set(was) == {event.memory_id}
            assert {was[one].agent_id for one in gone} == {event.agent_id}
            assert all(episodic.KIND.compressible(was[one]) for one in gone)
        elif isinstance(event, EpisodeCompactionUndone):
            back = [one[0] for one in self.originals[event.memory_id]]
            assert event.memory_id not in rows
            assert set(back) <= set(rows)
            assert all(rows[one].keep for one in set(back) - set(was))
            if self.limits is LIMITS and self.untouched(back, event):
                assert self.say(back) == self.originals[event.memory_id]

    def untouched(self, memory_ids: list[str], undone: EpisodeCompactionUndone) -> bool:
        """Say whether nothing happened to originals while their summary stood for them."""
        before = itertools.takewhile(lambda entry: entry.data is not undone, self.log)
        last = {
            key: entry.data for entry in before for key in episodic.KIND.registry.keys(entry.data)
        }
        return all(isinstance(last[one], EpisodesCompressed) for one in memory_ids)

    def say(self, memory_ids: Any) -> list[Any]:
        """Return what episodes are, wherever their texts lie."""
        events = {entry.version: entry for entry in self.log}
        rows = [self.state.held.rows[memory_id] for memory_id in memory_ids]
        return [
            (row.memory_id, row.created_at_us, row.occurred_at_us, row.metadata, row.evicted,
             episodic.KIND.data(row, events))
            for row in rows
        ]  # fmt: skip

    def check_left(self, event: EpisodeStarted, left: list[EpisodeRow]) -> None:
        candidates = [
            row
            for row in self.state.held.of_group(event.agent_id)
            if not row.pinned and row.status != "running"
        ]
        best = sorted(candidates, key=lambda row: (row.status == "failed", row.occurred_at_us))
        for row in left:
            assert row in candidates
            assert (row.status, row.occurred_at_us) == (best[0].status, best[0].occurred_at_us)

    def check_steps_left(self, row: EpisodeRow, event: StepAdded) -> None:
        left = {marker.number for marker in event.evicted}
        between = row.steps[1:]
        errors = [step.number for step in between if step.failed]
        others = [step.number for step in between if not step.failed]
        order = [*others, *errors, *[step.number for step in row.steps[:1]]]
        assert left == set(order[: len(left)])
        assert all(event.number > step.number for step in row.steps)
        if self.limits.episode_steps > 1:
            assert not row.steps or row.steps[0].number not in left, "the first step stays"

    def past(self, names: list[str]) -> dict[str, list[Any]]:
        keys = episodic.KIND.registry.keys
        return {name: [one for one in self.log if name in keys(one.data)] for name in names}

    def any_gone(self, data: Any) -> str:
        """Return the id of one that has gone mostly, or any."""
        gone = sorted(self.ever - set(self.state.held.rows))
        return data.draw(NAMES if data.draw(RARELY) else st.sampled_from(gone))

    @rule(seconds=st.integers(-30, 30))
    def clock_jumps(self, seconds: int) -> None:
        self.now_us = max(0, self.now_us + seconds * 1_000_000)

    @rule(agent=AGENTS, errors=st.lists(ERRORS, max_size=6), failed=st.none() | st.booleans())
    def lives(self, agent: str, errors: list[str | None], failed: bool | None) -> None:
        name = f"n{len(self.log)}"
        self.start(name, agent)
        for error in errors:
            self.step(name, 2, error)
        if failed is not None:
            self.ask(
                FinishEpisode(
                    now_us=self.now_us,
                    end=EpisodeFinished(memory_id=name, failed=failed, size_bytes=2),
                )
            )

    @rule(
        name=NAMES, agent=AGENTS, goal=st.sampled_from([b"g", b"g", b"h"]), size=SIZES,
        pinned=st.sampled_from([False, False, False, True]), auto_prune=st.booleans(),
        own=st.booleans(),
    )  # fmt: skip
    def starts(
        self, name: str, agent: str, goal: bytes, size: int, pinned: bool, auto_prune: bool,
        own: bool,
    ) -> None:  # fmt: skip
        how = {"goal": goal, "size": size, "pinned": pinned, "auto_prune": auto_prune}
        self.start(name if own else f"n{len(self.log)}", agent, **how)

    def start(
        self, name: str, agent: str, goal: bytes = b"g", size: int = 2, *, pinned: bool = False,
        auto_prune: bool = True,
    ) -> None:  # fmt: skip
        past = self.past([name])[name]
        self.ask(
            StartEpisode(
                now_us=self.now_us, auto_prune=auto_prune,
                own_ids=(name,), used={name: past[0].data} if past else {},
                episode=EpisodeStarted(
                    memory_id=name, agent_id=agent, goal="goal", size_bytes=size,
                    digest=goal, occurred_at_us=self.now_us, pinned=pinned,
                ),
            )
        )  # fmt: skip

    def step(self, name: str, size: int, error: str | None) -> None:
        self.ask(
            AddStep(
                now_us=self.now_us,
                step=StepAdded(
                    memory_id=name, number=0, action="act", size_bytes=size,
                    digest=b"d", sha256=b"%d" % len(self.log), error=error,
                ),
            )
        )  # fmt: skip

    def any_name(self, data: Any) -> str:
        """Return the id of a living one mostly, or any."""
        living = sorted(self.state.held.rows)
        return data.draw(NAMES if data.draw(RARELY) else st.sampled_from(living))

    @precondition(some_are_living)
    @rule(data=st.data(), size=SIZES, error=ERRORS, count=st.integers(1, 5))
    def takes_steps(self, data: Any, size: int, error: str | None, count: int) -> None:
        name = self.any_name(data)
        for _ in range(count):
            self.step(name, size, error)

    @precondition(some_are_living)
    @rule(data=st.data(), size=SIZES, failed=st.booleans(), silent=st.booleans())
    def finishes(self, data: Any, size: int, failed: bool, silent: bool) -> None:
        words = {} if silent else {"result": "r", "size_bytes": size, "digest": b"r"}
        name = self.any_name(data)
        self.ask(
            FinishEpisode(
                now_us=self.now_us, end=EpisodeFinished(memory_id=name, failed=failed, **words)
            )
        )

    @precondition(some_are_living)
    @rule(data=st.data(), size=st.none() | SIZES, metadata=METADATA)
    def updates(self, data: Any, size: int | None, metadata: Any) -> None:
        words = {} if size is None else {"content": "u", "size_bytes": size, "digest": b"%d" % size}
        name = self.any_name(data)
        self.ask(UpdateEpisode(now_us=self.now_us, memory_id=name, metadata=metadata, **words))

    @precondition(some_are_living)
    @rule(data=st.data())
    def deletes(self, data: Any) -> None:
        self.ask(DeleteEpisode(now_us=self.now_us, memory_id=self.any_name(data)))

    @precondition(some_have_gone)
    @rule(data=st.data(), count=st.integers(1, 3))
    def restores(self, data: Any, count: int) -> None:
        names = [self.any_gone(data) for _ in range(count)]
        self.ask(
            RestoreEpisodes(now_us=self.now_us, memory_ids=tuple(names), past=self.past(names))
        )

    @precondition(some_are_living)
    @rule(agent=AGENTS, size=st.integers(1, 10), stale=RARELY, careless=RARELY)
    def compresses(self, agent: str, size: int, stale: bool, careless: bool) -> None:
        held = sorted(
            episodic.KIND.rows(self.state), key=lambda row: (row.occurred_at_us, row.version)
        )
        rows = [
            row for row in held
            if careless or (row.agent_id == agent and episodic.KIND.compressible(row))
        ]  # fmt: skip
        if rows:
            command = CompressEpisodes(
                now_us=self.now_us,
                summary=episodic.KIND.compressed(rows, self.fields(rows, size)),
                originals=tuple((row.memory_id, row.version - stale) for row in rows),
            )
            self.ask(command)
            if command.summary.memory_id in self.state.held.rows:
                assert not episodic.KIND.decide(command, self.state, self.limits), "never twice"

    def fields(self, rows: list[EpisodeRow], size: int) -> dict[str, Any]:
        return {
            "memory_id": f"s{len(self.log)}", "content": "said", "size_bytes": size,
            "digest": b"s", "passages": passages_of("said"),
            "occurred_at_us": rows[-1].occurred_at_us,
            "compressed_from_ids": tuple(row.memory_id for row in rows),
            "original_count": len(rows), "compression_method": "fake",
            "time_range_start_us": rows[0].occurred_at_us,
            "time_range_end_us": rows[-1].occurred_at_us,
            "bytes_before": sum(row.size_bytes for row in rows), "bytes_after": size,
        }  # fmt: skip

    @precondition(lambda self: self.state.summaries.ids)
    @rule(data=st.data())
    def undoes(self, data: Any) -> None:
        memory_id = data.draw(st.sampled_from(sorted(self.state.summaries.ids)))
        ids = [one[0] for one in self.originals[memory_id]]
        self.ask(
            UndoEpisodeCompaction(
                now_us=self.now_us, memory_id=memory_id, memory_ids=tuple(ids), past=self.past(ids)
            )
        )

    @rule()
    def limits_change(self) -> None:
        self.limits = LOWERED if self.limits is LIMITS else LIMITS

    @rule()
    def takes_a_snapshot(self) -> None:
        self.snapshot = dumped(self.state), len(self.log)

    @invariant()
    def counters_equal_a_recount(self) -> None:
        events = {entry.version: entry for entry in self.log}
        named = [event.data for event in self.log]
        rows = list(episodic.KIND.rows(self.state))
        sources = [events[version] for row in rows for version in episodic.KIND.sources(row)]
        assert episodic.KIND.tally(self.state) == Tally(
            count=len(rows),
            size_bytes=sum(entry.data.size_bytes for entry in sources),
            stored_bytes=sum(entry.stored_bytes for entry in sources),
            evicted=sum(len(e.evicted_ids) for e in named if isinstance(e, EpisodeStarted)),
            pruned=sum(len(e.memory_ids) for e in named if isinstance(e, EpisodesPruned)),
            summaries=sum(row.original_count > 0 for row in rows),
            originals=sum(row.original_count for row in rows),
            summaries_bytes_before=sum(row.bytes_before for row in rows),
            summaries_bytes_after=sum(row.size_bytes for row in rows if row.original_count),
        )
        for row in rows:
            assert row.size_bytes == sum(
                events[v].data.size_bytes for v in episodic.KIND.sources(row)
            )

    @invariant()
    def secondary_maps_equal_a_recount(self) -> None:
        agents: dict[str, dict[str, str]] = {}
        for row in episodic.KIND.rows(self.state):
            agents.setdefault(row.agent_id, {})[row.memory_id] = row.memory_id
        assert {agent: dict(ids) for agent, ids in self.state.held.groups.items()} == agents
        assert dict(self.state.agents_by_count) == Counter(map(len, agents.values()))
        assert self.state.fullest == max(map(len, agents.values()), default=0)

    @invariant()
    def steps_are_numbered_without_gaps(self) -> None:
        for row in episodic.KIND.rows(self.state):
            numbers = [step.number for step in row.steps]
            gone = [marker.number for marker in row.evicted]
            assert numbers == sorted(numbers)
            if len(gone) == row.steps_evicted:
                assert sorted(numbers + gone) == list(range(1, row.next_number))

    @precondition(lambda self: len(self.log) % 5 == 0)
    @invariant()
    def live_is_replay_is_snapshot_and_tail(self) -> None:
        assert episodic.KIND.fold(episodic.KIND.initial, self.log) == self.state
        data, version = self.snapshot
        assert (
            episodic.KIND.fold(episodic.KIND.load(_decode(data)), self.log[version:]) == self.state
        )
        assert dumped(episodic.KIND.load(_decode(dumped(self.state)))) == dumped(self.state)
        assert episodic.KIND.fold(episodic.KIND.initial, self.kept()) == self.state

    def kept(self) -> list[Any]:
        """Return the log without what retention may drop of it."""
        gone: set[int] = set()
        for entry in self.log:
            if isinstance(entry.data, Compressed):
                ids = list(entry.data.compressed_from_ids)
                past = [one for about in self.past(ids).values() for one in about]
                gone |= {
                    one.version for one in past
                    if one.version < entry.version and episodic.KIND.is_own(one.data)
                }  # fmt: skip
        return [entry for entry in self.log if entry.version not in gone]

    @invariant()
    def every_row_reads(self) -> None:
        events = {entry.version: entry for entry in self.log}
        for row in episodic.KIND.rows(self.state):
            data, says = episodic.KIND.data(row, events), episodic.KIND.content(row, events)
            assert says == data["goal"] if row.original_count else says.startswith("Goal: ")
            labels = [passage.label for passage in episodic.KIND.passages(row)]
            assert len(set(labels)) == len(labels) == 1 + len(row.steps) + bool(row.result)
            assert all(episodic.KIND.passage_text(row, label, events) for label in labels)

    @invariant()
    def every_event_survives_the_codec(self) -> None:
        for entry in self.log[-6:]:
            prepared = episodic.KIND.registry.prepare(entry.data)
            decoded = episodic.KIND.registry.decode(prepared.tag, prepared.schema, prepared.raw)
            assert decoded[0] == entry.data


TestEpisodic = EpisodicMachine.TestCase
TestEpisodic.settings = settings(max_examples=60, stateful_step_count=50, deadline=None)
