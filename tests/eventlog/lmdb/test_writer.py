"""The writer thread: batches, their limits, and that no job's failure is another's."""

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from eventlog import DiskFull, Environment
from eventlog.files.log_directory import Tail
from eventlog.lmdb.ledger import Landed
from eventlog.lmdb.writer import WriteJob, Writer

pytestmark = pytest.mark.anyio


class FakeEnvironment:
    """Carries out writes in memory, each when the test lets it, up to a size per transaction."""

    committed = 0

    def __init__(self, room: int = 1 << 60):
        self.gate = threading.Event()
        self.began = threading.Event()
        self.room = room
        self.batches: list[list[Any]] = []
        self.sizes: dict[Any, int] = {}

    def write(self, change: Callable[[Any], Any]) -> Any:
        self.began.set()
        assert self.gate.wait(10)
        transaction: list[Any] = []
        result = change(transaction)
        self.batches.append(transaction)
        return result

    def bytes_near_limit(self, txn: Any, _incoming_bytes: int = 0) -> int:
        return sum(self.sizes.get(name, 0) for name in txn)

    def check_room(self, txn: Any, before_bytes: int, *, reserve: bool = False) -> None:
        if self.bytes_near_limit(txn) > max(before_bytes, self.room):
            raise DiskFull("no room")


class FakeLedger:
    """Collects nothing of what jobs put."""

    def begin(self) -> None:
        pass

    def finish(self, _txn: Any) -> Landed:
        return Landed(Tail(), None)


class FakeAnchor:
    """Remembers nothing."""

    def write(self, _tail: Tail) -> None:
        pass


class Harness:
    """A writer over a fake environment, and what it told the loop."""

    def __init__(self, env: Any):
        self.env = env
        self.deliveries: list[int] = []
        self.writer = Writer(
            env,
            FakeLedger(),
            anchor=FakeAnchor(),
            deliver=self.deliver,
        )

    def deliver(self, batch: list[WriteJob], outcomes: list[Any], _state: Any) -> None:
        self.deliveries.append(len(batch))
        for job, outcome in zip(batch, outcomes, strict=True):
            job.done(outcome)

    def put(
        self, name: Any, *, events: int = 1, size: int = 1, error: Exception | None = None
    ) -> asyncio.Future[Any]:
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

        def run(txn: list[Any]) -> Any:
            if error is not None:
                raise error
            txn.append(name)
            return name

        self.env.sizes[name] = size
        self.writer.put(WriteJob(run, events, size, future.set_result))
        return future

    async def hold(self) -> asyncio.Future[Any]:
        """Put a job and return when its transaction has begun: what follows has to queue."""
        first = self.put("first")
        await anyio.to_thread.run_sync(self.env.began.wait)
        return first

    async def finish(self, *futures: asyncio.Future[Any]) -> list[Any]:
        self.env.gate.set()
        with anyio.fail_after(5):
            outcomes = [await future for future in futures]
            await anyio.to_thread.run_sync(self.writer.stop)
        return outcomes


async def test_the_loop_is_woken_once_a_batch():
    harness = Harness(FakeEnvironment())
    futures = [await harness.hold(), *(harness.put(n) for n in range(100))]

    await harness.finish(*futures)

    assert harness.deliveries == [1, 100]


async def test_a_batch_ends_at_1024_events():
    harness = Harness(FakeEnvironment())
    futures = [await harness.hold(), *(harness.put(n, events=100) for n in range(25))]

    await harness.finish(*futures)

    assert harness.env.batches == [
        ["first"], list(range(10)), list(range(10, 20)), list(range(20, 25)),
    ]  # fmt: skip


async def test_a_batch_ends_at_4_mib():
    harness = Harness(FakeEnvironment())
    futures = [await harness.hold(), *(harness.put(n, size=1 << 20) for n in range(9))]

    await harness.finish(*futures)

    assert [len(batch) for batch in harness.env.batches] == [1, 4, 4, 1]


async def test_a_job_failing_half_way_fails_alone(tmp_path: Path):
    env = Environment(tmp_path / "log.mdb", ("rows",))
    writer = Writer(
        env, FakeLedger(), anchor=FakeAnchor(),
        deliver=lambda batch, outcomes, _tail: [
            job.done(outcome) for job, outcome in zip(batch, outcomes, strict=True)
        ],
    )  # fmt: skip
    futures = [asyncio.get_running_loop().create_future() for _ in range(3)]
    jobs = [
        lambda txn: txn.put(b"1", b"", db=txn.tables["rows"]),
        lambda txn: txn.put(b"2", b"", db=txn.tables["rows"]) and txn.put(b"", 1 / 0),
        lambda txn: txn.put(b"3", b"", db=txn.tables["rows"]),
    ]
    for run, future in zip(jobs, futures, strict=True):
        writer.put(WriteJob(run, 1, 1, future.set_result))

    with anyio.fail_after(5):
        outcomes = [await future for future in futures]
        await anyio.to_thread.run_sync(writer.stop)

    with env.read() as txn, txn.cursor(txn.tables["rows"]) as cursor:
        rows = [key for key, _ in cursor]
    env.close()
    assert rows == [b"1", b"3"]
    assert (outcomes[0], outcomes[2]) == (True, True)
    assert isinstance(outcomes[1], ZeroDivisionError)


def test_a_loop_that_has_gone_does_not_break_the_writer():
    """Nobody is left to tell, but what is queued still reaches the disk."""
    env = FakeEnvironment()
    env.gate.set()

    async def start() -> Harness:
        return Harness(env)

    harness = asyncio.run(start())
    for name in ("a", "b"):
        harness.writer.put(WriteJob(lambda txn, name=name: txn.append(name), 1, 1, print))
    harness.writer.stop()

    assert [name for batch in env.batches for name in batch] == ["a", "b"]
