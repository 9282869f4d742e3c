"""After any sequence of requests and upkeep the log on LMDB agrees with the one in memory."""

import asyncio
import tempfile
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, TypeAlias
from unittest.mock import patch

import msgspec
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from support.in_memory_log import InMemoryLog

from eventlog import (
    ANY_VERSION,
    Archived,
    Checkpoint,
    DroppedPayloads,
    Erased,
    EventLog,
    EventLogError,
    EventRegistry,
    PayloadDropped,
    Recorded,
    Snapshot,
)
from eventlog.lmdb import erasing, segment

registry = EventRegistry()
NOW_US = 1_700_000_000_000_000

STREAMS = ["u1", "u10", "u1\0", "\0", "e\u0301", "\u00e9", "\U0001f9e0", "x" * 1024, "../u1"]
KEYS = ["", "a", "a\0", "k" * 600]
PLACES = [-5, -1, 0, 1, 2, 5, 1000, 2**64]


@registry.event("test.noted", keys=lambda event: event.about)
class Noted(msgspec.Struct, frozen=True):
    text: str
    about: tuple[str, ...] = ()


streams = st.sampled_from(STREAMS)
keys = st.sampled_from(KEYS)
places = st.sampled_from(PLACES)
texts = st.one_of(st.sampled_from(["", "a", "b", "x" * 3000]), st.text(max_size=8))
events = st.lists(
    st.builds(Noted, texts, st.lists(keys, max_size=2).map(tuple)), min_size=1, max_size=4
)
# Far from the truth, one off, and right: as what has to be added to the stream's version.
offsets = st.sampled_from([0, 0, 0, 0, 1, -1, 7])
epochs = st.sampled_from([0, 0, 0, 1, 2, 3])
Counters: TypeAlias = dict[str, int] | None
deltas = st.sampled_from([0, 1, 5, -1, -3, 2**62, -(2**62), 2**63 - 1])
counters = st.one_of(
    st.none(), st.dictionaries(st.sampled_from(["n", "m", "é" * 512]), deltas, max_size=3)
)


def comparable(result: Any) -> Any:
    """Return the part of a result that must be equal in both stores, without frames and files."""
    if isinstance(result, list):
        return [comparable(item) for item in result]
    if isinstance(result, Recorded):
        return msgspec.structs.astuple(result)
    if isinstance(result, Archived | DroppedPayloads):
        return result.events
    if isinstance(result, Erased):
        return result.events, result.erased_at_us
    if isinstance(result, PayloadDropped):
        return "dropped", result.stream, result.version, result.since_us
    if isinstance(result, EventLogError):
        return type(result), getattr(result, "actual", None), getattr(result, "current", None)
    return result


class AgreeingStores(RuleBasedStateMachine):
    """Sends each request to both stores, and compares what comes back."""

    def __init__(self) -> None:
        super().__init__()
        self.now_us = NOW_US
        self.runner = asyncio.Runner()
        self.directory = tempfile.TemporaryDirectory()
        self.memory = InMemoryLog(registry, clock=lambda: self.now_us)
        self.stack = AsyncExitStack()

    @initialize()
    def open(self) -> None:
        path = Path(self.directory.name)
        opening = EventLog.open(path, registry, clock=lambda: self.now_us)
        self.lmdb = self.runner.run(self.stack.enter_async_context(opening))

    def teardown(self) -> None:
        try:
            if hasattr(self, "lmdb"):
                self.runner.run(self.check())
        finally:
            self.runner.run(self.stack.aclose())
            self.runner.close()
            self.directory.cleanup()

    async def check(self) -> None:
        assert (await self.lmdb.verify()).findings == []
        assert self.lmdb.statistics().relaxed_lost == 0

    def both(self, method: str, *arguments: Any, **options: Any) -> Any:
        """Return what both stores answer, once it is the same."""

        async def ask(store: Any) -> Any:
            try:
                return await getattr(store, method)(*arguments, **options)
            except EventLogError as error:
                return error

        of_lmdb, of_memory = self.runner.run(ask(self.lmdb)), self.runner.run(ask(self.memory))
        assert comparable(of_lmdb) == comparable(of_memory)
        return of_lmdb

    def version(self, stream: str) -> int:
        """Return the version of a stream with everything accepted so far."""
        return self.runner.run(self.memory.head(stream)).version

    @rule()
    def reopen(self) -> None:
        self.runner.run(self.stack.aclose())
        self.stack = AsyncExitStack()
        self.open()

    @invariant()
    def the_whole_log_is_the_same(self) -> None:
        if not hasattr(self, "lmdb"):
            return
        self.runner.run(self.lmdb.flush())
        self.both("read_all", 0, 1000, dropped="mark")
        assert self.both("totals") == self.lmdb.totals_nowait() == self.memory.totals_nowait()
        assert sorted(self.runner.run(self.lmdb.streams())) == sorted(
            self.runner.run(self.memory.streams())
        )


class Requests(AgreeingStores):
    """Everything that a caller can ask for."""

    @rule(stream=streams, events=events, offset=offsets, epoch=epochs, counters=counters)
    def append(
        self, stream: str, events: list[Noted], offset: int, epoch: int, counters: Counters
    ) -> None:
        expected = self.version(stream) + offset
        self.both("append", stream, events, expected, epoch=epoch, counters=counters)

    @rule(stream=streams, events=events, epoch=epochs)
    def append_anywhere(self, stream: str, events: list[Noted], epoch: int) -> None:
        self.both("append", stream, events, ANY_VERSION, epoch=epoch)

    @rule(stream=streams, events=events, offset=offsets, epoch=epochs, counters=counters)
    def append_relaxed(
        self, stream: str, events: list[Noted], offset: int, epoch: int, counters: Counters
    ) -> None:
        expected = self.version(stream) + offset
        self.both(
            "append", stream, events, expected, epoch=epoch, durability="relaxed",
            counters=counters,
        )  # fmt: skip
        assert self.lmdb.totals_nowait() == self.memory.totals_nowait()

    @rule(
        requests=st.lists(
            st.tuples(streams, offsets, counters, st.sampled_from(["commit", "relaxed"])),
            max_size=6,
        )
    )
    def append_at_once(self, requests: list[tuple[str, int, Counters, Any]]) -> None:
        """Accepted appends are there and have counted; so they are told to the other log."""
        versions = {stream: self.version(stream) for stream, *_ in requests}
        position = len(self.runner.run(self.memory.read_all(0, 10_000)))

        async def race() -> list[Any]:
            appending = (
                self.lmdb.append(
                    stream, [Noted(str(n))], versions[stream] + offset, epoch=9,
                    counters=counted, durability=durability,
                )
                for n, (stream, offset, counted, durability) in enumerate(requests)
            )  # fmt: skip
            outcomes = await asyncio.gather(*appending, return_exceptions=True)
            await self.lmdb.flush()
            return outcomes

        outcomes = self.runner.run(race())
        accepted = {n for n, it in enumerate(outcomes) if not isinstance(it, EventLogError)}
        landed = self.runner.run(self.lmdb.read_all(position, 10_000))
        assert {int(event.data.text) for event in landed} == accepted
        for event in landed:
            counted = requests[int(event.data.text)][2]
            self.runner.run(
                self.memory.append(
                    event.stream, [event.data], event.version - 1, epoch=9, counters=counted
                )
            )

    @rule(
        stream=streams,
        event=st.sampled_from([Noted("same"), Noted("other")]),
        key=keys,
        request=st.sampled_from([None, b"", b"one", b"two"]),
        offset=offsets,
        counters=counters,
    )
    def append_with_a_key(
        self,
        stream: str,
        event: Noted,
        key: str,
        request: bytes | None,
        offset: int,
        counters: Counters,
    ) -> None:
        self.both(
            "append", stream, [event], self.version(stream) + offset, epoch=9,
            idempotency_key=key, request=request, counters=counters,
        )  # fmt: skip

    @rule(stream=streams, event=events, position=st.integers(0, 50), key=st.binary(max_size=400))
    def append_with_a_checkpoint(
        self, stream: str, event: list[Noted], position: int, key: bytes
    ) -> None:
        checkpoint = Checkpoint("p", position, {key: b"value", b"old": None})
        self.both("append", stream, event, ANY_VERSION, epoch=9, checkpoint=checkpoint)
        self.both("load_checkpoint", "p")
        self.runner.run(self.lmdb.flush())
        self.both("load_entry", "p", key)

    @rule(stream=streams, epoch=st.sampled_from([-1, 0, 1, 2, 3, 2**63 - 1]))
    def acquire(self, stream: str, epoch: int) -> None:
        def outcome(result: Any) -> Any:
            return result if isinstance(result, EventLogError) else (result.version, result.epoch)

        async def ask(store: Any) -> Any:
            try:
                return await store.acquire(stream, epoch)
            except EventLogError as error:
                return error

        of_both = [self.runner.run(ask(store)) for store in (self.lmdb, self.memory)]
        assert comparable(outcome(of_both[0])) == comparable(outcome(of_both[1]))

    @rule(stream=streams, offset=st.integers(-2, 2), fingerprint=st.sampled_from("fg"))
    def save_snapshot(self, stream: str, offset: int, fingerprint: str) -> None:
        version = max(0, self.version(stream) + offset)
        data = f"{version}{fingerprint}".encode()
        self.both("save_snapshot", stream, Snapshot(version, data), fingerprint)

    @rule(stream=streams, after=places, limit=st.sampled_from([-1, 0, 1, 3, 100]))
    def read(self, stream: str, after: int, limit: int) -> None:
        self.runner.run(self.lmdb.flush())
        self.both("read_stream", stream, after, limit)
        self.both("read_all", after, limit)
        self.both("read_event", after)
        self.both("read_versions", stream, [after])

    @rule(stream=streams, key=keys, fingerprint=st.sampled_from("fg"))
    def look_up(self, stream: str, key: str, fingerprint: str) -> None:
        self.runner.run(self.lmdb.flush())
        self.both("versions_about", stream, key)
        self.both("find_request", stream, key, b"one")
        self.both("load_snapshot", stream, fingerprint)


# --- upkeep

few_streams = st.sampled_from(["u1", "u10", "../u1"])
sizes = st.sampled_from([0, 1, 300, 2100, 9000])
sized = st.lists(
    st.builds(
        Noted,
        st.builds(lambda letter, size: letter * size, st.sampled_from("ab"), sizes),
        st.lists(st.sampled_from("kl"), max_size=2).map(tuple),
    ),
    min_size=1,
    max_size=6,
)
# Distances from the end of the stream; some lead to no version.
behind = st.lists(st.integers(0, 12), max_size=9)


class Upkeep(AgreeingStores):
    """Archiving, retention, erasure and shrinking, of small segments and in small steps."""

    def __init__(self) -> None:
        super().__init__()
        self.small = [
            patch.object(erasing, "STUBS_AT_ONCE", 3),
            patch.object(segment, "BLOCK_BYTES", 500),
        ]
        for limit in self.small:
            limit.start()

    async def check(self) -> None:
        await super().check()
        report = await self.lmdb.verify()
        held = await self.lmdb.archive_statistics()
        assert (held.events, held.dropped_events) == (
            report.archived_events, report.dropped_events,
        )  # fmt: skip

    def teardown(self) -> None:
        try:
            super().teardown()
        finally:
            for limit in self.small:
                limit.stop()

    def versions(self, stream: str, behind: list[int]) -> list[int]:
        last = self.runner.run(self.memory.head(stream)).version
        return [last - n for n in behind]

    @rule(stream=few_streams, events=sized)
    def append(self, stream: str, events: list[Noted]) -> None:
        self.both("append", stream, events, ANY_VERSION)

    @rule(stream=few_streams, events=sized)
    def append_relaxed(self, stream: str, events: list[Noted]) -> None:
        version = self.runner.run(self.memory.head(stream)).version
        self.both("append", stream, events, version, durability="relaxed")

    @rule(stream=few_streams, behind=behind)
    def archive(self, stream: str, behind: list[int]) -> None:
        self.both("archive", stream, self.versions(stream, behind))

    @rule(stream=few_streams)
    def archive_all(self, stream: str) -> None:
        last = self.runner.run(self.memory.head(stream)).version
        self.both("archive", stream, range(1, last + 1))

    @rule(ago=st.sampled_from([0, 1, 5, 1000]), stream=st.one_of(st.none(), few_streams))
    def drop(self, ago: int, stream: str | None) -> None:
        self.both("drop_archived", self.now_us - ago, stream)

    @rule(stream=few_streams)
    def erase(self, stream: str) -> None:
        self.both("erase", stream)

    @rule(force=st.booleans())
    def shrink(self, force: bool) -> None:
        before = self.lmdb.reclaimable_bytes()
        shrunk = self.runner.run(self.lmdb.shrink(force=force))
        assert before >= 0
        assert shrunk.after_bytes > 0

    @rule(
        stream=few_streams, behind=behind, events=sized,
        order=st.permutations(["append", "archive", "shrink", "read", "read"]),
    )  # fmt: skip
    def at_once(
        self, stream: str, behind: list[int], events: list[Noted], order: list[str]
    ) -> None:
        """Upkeep beside appends and reads: no read shows it, whenever it comes."""
        versions = [version for version in self.versions(stream, behind) if version > 0]
        known = self.runner.run(self.memory.read_stream(stream, 0, 1000, dropped="mark"))
        work = {
            "append": lambda: self.lmdb.append(stream, events, ANY_VERSION),
            "archive": lambda: self.lmdb.archive(stream, versions),
            "shrink": lambda: self.lmdb.shrink(force=True),
            "read": lambda: self.lmdb.read_stream(stream, 0, 1000, dropped="mark"),
        }

        async def race() -> list[Any]:
            return await asyncio.gather(*(work[what]() for what in order))

        for what, outcome in zip(order, self.runner.run(race()), strict=True):
            if what == "read":
                assert outcome[: len(known)] == known
        self.runner.run(self.memory.append(stream, events, ANY_VERSION))
        self.runner.run(self.memory.archive(stream, versions))

    @rule(ticks=st.integers(1, 5))
    def wait(self, ticks: int) -> None:
        self.now_us += ticks

    @rule(stream=few_streams, behind=behind, dropped=st.sampled_from(["raise", "mark"]))
    def read(self, stream: str, behind: list[int], dropped: Any) -> None:
        self.runner.run(self.lmdb.flush())
        self.both("read_stream", stream, 0, 1000, dropped=dropped)
        self.both("read_stream", stream, 3, 2, dropped=dropped)
        self.both("read_versions", stream, self.versions(stream, behind), dropped=dropped)
        self.both("versions_about", stream, "k")
        for position in range(1, 12):
            self.both("read_event", position, dropped=dropped)


TestRequests = Requests.TestCase
TestRequests.settings = settings(
    max_examples=25,
    stateful_step_count=25,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
TestUpkeep = Upkeep.TestCase
TestUpkeep.settings = settings(TestRequests.settings, max_examples=15, stateful_step_count=20)
