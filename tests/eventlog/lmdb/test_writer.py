"""The writer thread: the limits of a batch, and that no job's failure is another's."""

import asyncio
import os
import threading
from pathlib import Path
from typing import Any

import pytest
from contracts.stores import Noted, registry

from eventlog import EventLog

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("appends", "events", "random_bytes"), [(25, 100, 1), (18, 1, 1 << 19)], ids=["events", "bytes"]
)
async def test_a_batch_ends_at_1024_events_or_4_mib(
    tmp_path: Path, appends: int, events: int, random_bytes: int
):
    holding, go_on = threading.Event(), threading.Event()

    def hold(_txn: object) -> None:
        holding.set()
        go_on.wait(10)

    async with EventLog.open(tmp_path, registry) as log:
        note = log.registry.prepare(Noted(os.urandom(random_bytes).hex()))
        held = asyncio.ensure_future(log._intake.submit(hold))
        await asyncio.to_thread(holding.wait)
        queued = [log.append(f"s{n}", [note] * events, 0) for n in range(appends)]
        asyncio.get_running_loop().call_later(0.1, go_on.set)
        await asyncio.gather(held, *queued)

        assert log.statistics().batches == 1 + 3


async def test_a_job_failing_half_way_fails_alone(tmp_path: Path):
    def fail(txn: Any) -> None:
        txn.put(b"half", b"", db=txn.tables["meta"])
        raise ZeroDivisionError

    async with EventLog.open(tmp_path, registry) as log:
        outcomes = await asyncio.gather(
            log.append("a", [Noted("a")], 0),
            log._intake.submit(fail),
            log.append("b", [Noted("b")], 0),
            return_exceptions=True,
        )

        assert isinstance(outcomes[1], ZeroDivisionError)
        assert sorted(await log.streams()) == ["a", "b"]
        with log._env.read() as txn:
            assert txn.get(b"half", db=txn.tables["meta"]) is None


async def test_releasing_the_log_waits_for_what_is_queued(tmp_path: Path):
    go_on = threading.Event()
    async with EventLog.open(tmp_path, registry) as log:
        held = asyncio.ensure_future(log._intake.submit(lambda _txn: go_on.wait(10)))
        queued = asyncio.ensure_future(log.append("a", [Noted("a")], 0))
        asyncio.get_running_loop().call_later(0.1, go_on.set)
        await asyncio.gather(held, queued, asyncio.to_thread(log.release))
    async with EventLog.open(tmp_path, registry) as log:
        assert len(await log.read_all()) == 1
