"""Properties of structured memory under any sequence of commands, clocks that jump included."""

from typing import Any

import msgspec
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from support.given import recorded
from support.proposing import proposing

from memory_actors.base.errors import MemoryActorsError
from memory_actors.base.quota import Limits
from memory_actors.kinds import structured
from memory_actors.kinds.kind import Tally
from memory_actors.kinds.structured import (
    DeleteDocument,
    DocumentsPruned,
    PutDocument,
    RestoreDocuments,
    UpdateDocument,
    document_text,
    value_json,
)

LIMITS = Limits(documents=6, structured_bytes=120)
LOWERED = Limits(documents=3, structured_bytes=50)
NAMES = st.sampled_from([f"d{i}" for i in range(8)])
COLLECTIONS = st.sampled_from(["b", "c", "d"])
KEYS = st.sampled_from(["k", "l", "m"])
VALUES = st.sampled_from(
    [None, True, 1, 1.5, "text", [], {}, {"a": 1, "b": 2}, {"b": 2, "a": 1}, {"a": True}]
) | st.integers(0, 130).map("x".__mul__)
RARELY = st.sampled_from([False] * 9 + [True])
METADATA = st.none() | st.sampled_from([{}, {"a": 1}, {"a": True}])

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(structured.KIND.Dump).decode


def some_are_living(machine: Any) -> bool:
    return len(machine.state.held) > 0


def some_have_gone(machine: Any) -> bool:
    return len(machine.ever) > len(machine.state.held)


def dumped(state: Any) -> bytes:
    return _encode(structured.KIND.dump(state))


def of_value(value: Any) -> dict[str, Any]:
    """Return what a caller says about a value."""
    text = document_text("c", "k", value).encode()
    as_json = value_json(value).encode()
    return {
        "value": value, "size_bytes": len(as_json), "digest": text, "value_digest": as_json,
    }  # fmt: skip


class StructuredMachine(RuleBasedStateMachine):
    """The decider, run as an actor would, beside a replay, a snapshot and a dict of values."""

    def __init__(self) -> None:
        super().__init__()
        self.limits = LIMITS
        self.state = structured.KIND.initial
        self.log: list[Any] = []
        self.snapshot = (dumped(self.state), 0)
        self.now_us = 1_000_000_000
        self.ever: set[str] = set()
        self.values: dict[tuple[str, str], str] = {}

    def ask(self, command: Any) -> bool:
        """Return whether a command was carried out."""
        before = self.state
        bytes_before = dumped(before)
        try:
            events = structured.KIND.decide(command, before, self.limits)
        except MemoryActorsError:
            assert dumped(self.state) == bytes_before, "a refused command changes nothing"
            return False
        assert dumped(before) == bytes_before, "a decision changes nothing"
        for event in events:
            self.record(event)
        limits, held = self.limits, self.state.held
        assert len(held) <= max(limits.documents, len(before.held))
        assert held.size_bytes <= max(limits.structured_bytes, before.held.size_bytes)
        return True

    def record(self, event: Any) -> None:
        if isinstance(event, DocumentsPruned):
            rows = [self.state.held.rows[memory_id] for memory_id in event.memory_ids]
            assert not any(row.pinned for row in rows)
            for row in rows:
                del self.values[row.collection, row.key]
        entry = recorded(event, len(self.log) + 1, stored_bytes=7 + len(self.log) % 5)
        self.log.append(entry)
        self.state = structured.KIND.fold(self.state, [entry])
        self.ever |= set(self.state.held.rows)

    def past(self, names: list[str]) -> dict[str, list[Any]]:
        keys = structured.KIND.registry.keys
        return {name: [one for one in self.log if name in keys(one.data)] for name in names}

    def any_name(self, data: Any) -> str:
        """Return the id of a living one mostly, or any."""
        living = sorted(self.state.held.rows)
        return data.draw(NAMES if data.draw(RARELY) else st.sampled_from(living))

    def any_gone(self, data: Any) -> str:
        """Return the id of one that has gone mostly, or any."""
        gone = sorted(self.ever - set(self.state.held.rows))
        return data.draw(NAMES if data.draw(RARELY) else st.sampled_from(gone))

    @rule(seconds=st.integers(-30, 30))
    def clock_jumps(self, seconds: int) -> None:
        self.now_us = max(0, self.now_us + seconds * 1_000_000)

    @rule(
        name=NAMES, collection=COLLECTIONS, key=KEYS, value=VALUES, metadata=METADATA,
        pinned=st.none() | st.sampled_from([False, False, True]), auto_prune=st.booleans(),
        own=st.booleans(),
    )  # fmt: skip
    def puts(
        self, name: str, collection: str, key: str, value: Any, metadata: Any,
        pinned: bool | None, auto_prune: bool, own: bool,
    ) -> None:  # fmt: skip
        name = name if own else f"n{len(self.log)}"
        past = self.past([name])[name]
        used = {name: past[0].data} if past else {}
        old = self.state.held.named(collection, key)
        done = self.ask(
            proposing(
                PutDocument, now_us=self.now_us, memory_id=name, collection=collection, key=key,
                occurred_at_us=self.now_us, metadata=metadata, pinned=pinned,
                auto_prune=auto_prune, own_ids=(name,), used=used, **of_value(value),
            )
        )  # fmt: skip
        if not done:
            return
        self.values[collection, key] = value_json(value)
        new = self.state.held.named(collection, key)
        assert new is not None
        if old is not None:
            assert (new.memory_id, new.created_at_us) == (old.memory_id, old.created_at_us)

    @precondition(some_are_living)
    @rule(data=st.data(), value=VALUES, metadata=METADATA)
    def updates(self, data: Any, value: Any, metadata: Any) -> None:
        name = self.any_name(data)
        words = {} if value is None else of_value(value)
        command = proposing(
            UpdateDocument, now_us=self.now_us, memory_id=name, metadata=metadata, **words
        )
        if self.ask(command) and value is not None:
            row = self.state.held.rows[name]
            self.values[row.collection, row.key] = value_json(value)

    @precondition(some_are_living)
    @rule(data=st.data())
    def deletes(self, data: Any) -> None:
        row = structured.KIND.find(self.state, name := self.any_name(data))
        if self.ask(DeleteDocument(now_us=self.now_us, memory_id=name)):
            assert row is not None
            del self.values[row.collection, row.key]

    @precondition(some_have_gone)
    @rule(data=st.data(), count=st.integers(1, 3))
    def restores(self, data: Any, count: int) -> None:
        names = [self.any_gone(data) for _ in range(count)]
        living = set(self.state.held.rows)
        command = RestoreDocuments(
            now_us=self.now_us, memory_ids=tuple(names), past=self.past(names)
        )
        if self.ask(command):
            events = {entry.version: entry for entry in self.log}
            for name in set(names) - living:
                row = self.state.held.rows[name]
                assert (row.collection, row.key) not in self.values
                self.values[row.collection, row.key] = structured.KIND.content(row, events)

    @rule()
    def limits_change(self) -> None:
        self.limits = LOWERED if self.limits is LIMITS else LIMITS

    @rule()
    def takes_a_snapshot(self) -> None:
        self.snapshot = dumped(self.state), len(self.log)

    @invariant()
    def every_value_is_the_last_that_was_put(self) -> None:
        events = {entry.version: entry for entry in self.log}
        found = {
            (row.collection, row.key): structured.KIND.content(row, events)
            for row in structured.KIND.rows(self.state)
        }
        assert found == self.values

    @invariant()
    def counters_equal_a_recount(self) -> None:
        events = {entry.version: entry for entry in self.log}
        rows = list(structured.KIND.rows(self.state))
        sources = [events[version] for row in rows for version in structured.KIND.sources(row)]
        prunes = [e.data for e in self.log if isinstance(e.data, DocumentsPruned)]
        assert structured.KIND.tally(self.state) == Tally(
            count=len(rows),
            size_bytes=sum(len(value_json(entry.data.value).encode()) for entry in sources),
            stored_bytes=sum(entry.stored_bytes for entry in sources),
            pruned=sum(len(prune.memory_ids) for prune in prunes),
        )

    @invariant()
    def secondary_maps_equal_a_recount(self) -> None:
        collections: dict[str, dict[str, str]] = {}
        for row in structured.KIND.rows(self.state):
            assert self.state.held.named(row.collection, row.key) is row
            collections.setdefault(row.collection, {})[row.key] = row.memory_id
        assert {name: dict(ids) for name, ids in self.state.held.groups.items()} == collections

    @precondition(lambda self: len(self.log) % 5 == 0)
    @invariant()
    def live_is_replay_is_snapshot_and_tail(self) -> None:
        assert structured.KIND.fold(structured.KIND.initial, self.log) == self.state
        data, version = self.snapshot
        assert (
            structured.KIND.fold(structured.KIND.load(_decode(data)), self.log[version:])
            == self.state
        )
        assert dumped(structured.KIND.load(_decode(dumped(self.state)))) == dumped(self.state)

    @invariant()
    def every_event_survives_the_codec(self) -> None:
        for entry in self.log[-6:]:
            prepared = structured.KIND.registry.prepare(entry.data)
            decoded = structured.KIND.registry.decode(prepared.tag, prepared.schema, prepared.raw)
            assert decoded[0] == entry.data


TestStructured = StructuredMachine.TestCase
TestStructured.settings = settings(max_examples=60, stateful_step_count=50, deadline=None)
