"""After any sequence of appends and upkeep the log on LMDB reads as the one in memory."""

import asyncio
import tempfile
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any
from unittest.mock import patch

import msgspec
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from support.in_memory_log import InMemoryLog

from eventlog import (
    ANY_VERSION,
    Archived,
    DroppedPayloads,
    Erased,
    EventLog,
    EventLogError,
    EventRegistry,
    PayloadDropped,
)
from eventlog.lmdb import erasing, segment

registry = EventRegistry()


@registry.event("test.noted", keys=lambda event: event.about)
class Noted(msgspec.Struct, frozen=True):
    text: str
    about: tuple[str, ...] = ()


streams = st.sampled_from(["u1", "u10", "../u1"])
sizes = st.sampled_from([0, 1, 300, 2100, 9000])
texts = st.builds(lambda letter, size: letter * size, st.sampled_from("ab"), sizes)
events = st.lists(
    st.builds(Noted, texts, st.lists(st.sampled_from("kl"), max_size=2).map(tuple)),
    min_size=1,
    max_size=6,
)
# Of the stream's versions, by how far behind its end; some of none.
behind = st.lists(st.integers(0, 12), max_size=9)
marks = st.sampled_from(["raise", "mark"])


def comparable(result: Any) -> Any:
    """Return what the two stores must agree on: one of them has no files."""
    if isinstance(result, PayloadDropped):
        return "dropped", result.stream, result.version, result.since_us
    if isinstance(result, EventLogError):
        return type(result)
    if isinstance(result, list) and all(isinstance(name, str) for name in result):
        return sorted(result)
    if isinstance(result, Archived | DroppedPayloads):
        return result.events
    if isinstance(result, Erased):
        return result.events, result.erased_at_us
    return result


class AgreeingStores(RuleBasedStateMachine):
    """Sends each request to both stores, and compares what comes back."""

    def __init__(self) -> None:
        super().__init__()
        self.now_us = 1000
        self.runner = asyncio.Runner()
        self.directory = tempfile.TemporaryDirectory()
        self.memory = InMemoryLog(registry, clock=lambda: self.now_us)
        self.stack = AsyncExitStack()
        self.small = [
            patch.object(erasing, "STUBS_AT_ONCE", 3),
            patch.object(segment, "BLOCK_BYTES", 500),
        ]
        for limit in self.small:
            limit.start()

    @initialize()
    def open(self) -> None:
        opening = EventLog.open(Path(self.directory.name), registry, clock=lambda: self.now_us)
        self.lmdb = self.runner.run(self.stack.enter_async_context(opening))

    def teardown(self) -> None:
        try:
            if hasattr(self, "lmdb"):
                report = self.runner.run(self.lmdb.verify())
                assert report.findings == []
                held = self.runner.run(self.lmdb.archive_statistics())
                assert (held.events, held.dropped_events) == (
                    report.archived_events, report.dropped_events,
                )  # fmt: skip
        finally:
            self.runner.run(self.stack.aclose())
            self.runner.close()
            self.directory.cleanup()
            for limit in self.small:
                limit.stop()

    def both(self, method: str, *arguments: Any, **options: Any) -> Any:
        async def ask(store: Any) -> Any:
            try:
                return await getattr(store, method)(*arguments, **options)
            except EventLogError as error:
                return error

        answers = [comparable(self.runner.run(ask(store))) for store in (self.lmdb, self.memory)]
        assert answers[0] == answers[1]
        return answers[0]

    def versions(self, stream: str, behind: list[int]) -> list[int]:
        last = self.runner.run(self.memory.head(stream)).version
        return [last - n for n in behind]

    @rule(stream=streams, events=events)
    def append(self, stream: str, events: list[Noted]) -> None:
        self.both("append", stream, events, ANY_VERSION)

    @rule(stream=streams, events=events)
    def append_relaxed(self, stream: str, events: list[Noted]) -> None:
        version = self.runner.run(self.memory.head(stream)).version
        self.both("append", stream, events, version, durability="relaxed")

    @rule(stream=streams, behind=behind)
    def archive(self, stream: str, behind: list[int]) -> None:
        self.both("archive", stream, self.versions(stream, behind))

    @rule(stream=streams)
    def archive_all(self, stream: str) -> None:
        last = self.runner.run(self.memory.head(stream)).version
        self.both("archive", stream, range(1, last + 1))

    @rule(ago=st.sampled_from([0, 1, 5, 1000]), stream=st.one_of(st.none(), streams))
    def drop(self, ago: int, stream: str | None) -> None:
        self.both("drop_archived", self.now_us - ago, stream)

    @rule(stream=streams)
    def erase(self, stream: str) -> None:
        self.both("erase", stream)

    @rule(force=st.booleans())
    def shrink(self, force: bool) -> None:
        before = self.lmdb.reclaimable_bytes()
        shrunk = self.runner.run(self.lmdb.shrink(force=force))
        assert before >= 0
        assert shrunk.after_bytes > 0

    @rule(
        stream=streams, behind=behind, events=events,
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

    @rule(stream=streams, behind=behind, dropped=marks)
    def read(self, stream: str, behind: list[int], dropped: Any) -> None:
        self.runner.run(self.lmdb.flush())
        self.both("read_stream", stream, 0, 1000, dropped=dropped)
        self.both("read_stream", stream, 3, 2, dropped=dropped)
        self.both("read_versions", stream, self.versions(stream, behind), dropped=dropped)
        self.both("versions_about", stream, "k")
        self.both("streams")
        for position in range(1, 12):
            self.both("read_event", position, dropped=dropped)

    @rule()
    def reopen(self) -> None:
        self.runner.run(self.stack.aclose())
        self.stack = AsyncExitStack()
        self.open()

    @invariant()
    def the_whole_log_is_the_same(self) -> None:
        if hasattr(self, "lmdb"):
            self.runner.run(self.lmdb.flush())
            self.both("read_all", 0, 1000, dropped="mark")
            self.both("read_all", 0, 1000)


TestUpkeep = AgreeingStores.TestCase
TestUpkeep.settings = settings(
    max_examples=15,
    stateful_step_count=20,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
