"""The log on LMDB: who may open it, what it notices about its files, and how it fails."""

import asyncio
import errno
import os
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import anyio
import pytest
from contracts.stores import Noted, registry
from support.disks import file_system

from eventlog import (
    Checkpoint,
    CorruptLog,
    DiskFull,
    Environment,
    EventLog,
    EventRegistry,
    LogClosed,
    LogLocked,
    LogUnavailable,
    Snapshot,
    UnknownEvent,
    WrongExpectedVersion,
)
from eventlog.core.rows import seal_record
from eventlog.lmdb.opening import ENCRYPTED_FORMAT, FormatRecord
from eventlog.lmdb.tables import TABLES

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).parents[2]
META_PAGES = (0, 4096)
TXN_ID_AT = 144  # within a meta page


async def fill(path: Path, count: int = 3) -> None:
    async with EventLog.open(path, registry) as log:
        for n in range(count):
            await log.append("s", [Noted(str(n))], n)


async def texts(log: EventLog, stream: str = "s") -> list[str]:
    return [event.data.text for event in await log.read_stream(stream)]


async def opens(path: Path) -> None:
    async with EventLog.open(path, registry):
        pass


PRELUDE = """
import asyncio, os, sys, threading, time
import msgspec
from eventlog import *
registry = EventRegistry()
@registry.event("test.noted")
class Noted(msgspec.Struct, frozen=True):
    text: str
path = sys.argv[1]
"""


def python(script: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Run a script in a process of its own."""
    return subprocess.run(
        [sys.executable, "-c", PRELUDE + script, *map(str, arguments)],
        cwd=ROOT, capture_output=True, text=True, timeout=30, check=False,
    )  # fmt: skip


def newest_meta(data: bytes) -> int:
    """Return where the newest meta page of an LMDB file begins."""
    return max(META_PAGES, key=lambda at: struct.unpack_from("=Q", data, at + TXN_ID_AT)[0])


def roll_back(path: Path) -> None:
    """Damage the newest meta page so that LMDB believes the one before it."""
    data = bytearray((path / "log.mdb").read_bytes())
    at = newest_meta(data) + TXN_ID_AT
    data[at : at + 8] = bytes(8)
    (path / "log.mdb").write_bytes(data)


# --- opening


async def test_a_newer_versions_log_is_refused_untouched(tmp_path: Path):
    await fill(tmp_path)
    env = Environment(tmp_path / "log.mdb", TABLES)
    newer = seal_record(FormatRecord(ENCRYPTED_FORMAT + 1, 0))
    env.write(lambda txn: txn.put(b"format", newer, db=txn.tables["meta"]))
    env.close()
    before = (tmp_path / "log.mdb").read_bytes()

    with pytest.raises(UnknownEvent, match=f"format {ENCRYPTED_FORMAT + 1}"):
        await opens(tmp_path)
    assert (tmp_path / "log.mdb").read_bytes() == before


async def test_an_unknown_event_type_is_refused_with_its_place(tmp_path: Path):
    await fill(tmp_path)
    async with EventLog.open(tmp_path, EventRegistry()) as log:
        with pytest.raises(UnknownEvent, match=r"event 1 of stream 's': .*'test.noted'"):
            await log.read_all()
        with pytest.raises(UnknownEvent):
            await log.read_stream("s")
        with pytest.raises(UnknownEvent):
            await log.read_event(2)
    async with EventLog.open(tmp_path, registry) as log:
        assert await texts(log) == ["0", "1", "2"]


@pytest.mark.user
@pytest.mark.skipif(os.geteuid() == 0, reason="root may write to any directory")
async def test_a_directory_that_may_not_be_written_is_unavailable(tmp_path: Path):
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(LogUnavailable):
            await opens(tmp_path)
    finally:
        tmp_path.chmod(0o700)


async def test_failed_openings_leave_no_files_open(tmp_path: Path):
    await fill(tmp_path)
    roll_back(tmp_path)
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(5):
        with pytest.raises(CorruptLog):
            await opens(tmp_path)

    assert len(list(Path("/proc/self/fd").iterdir())) <= before


# --- who has it open


async def test_this_process_is_refused_too(tmp_path: Path):
    async with EventLog.open(tmp_path, registry):
        began = time.monotonic()
        with pytest.raises(LogLocked):
            await opens(tmp_path)
        assert time.monotonic() - began < 1.0


FORK = """
async def use(log):
    for name, attempt in {
        "append": lambda: log.append("s", [Noted("child")], 1),
        "relaxed": lambda: log.append("s", [Noted("child")], 1, durability="relaxed"),
        "read": lambda: log.read_stream("s"),
        "head": lambda: log.head("s"),
        "acquire": lambda: log.acquire("s", 1),
        "flush": lambda: log.flush(),
        "totals": lambda: log.totals(),
        "totals_nowait": lambda: log.totals_nowait(),
    }.items():
        try:
            await asyncio.wait_for(attempt(), 1)
            print(name, "went through", flush=True)
        except Exception as error:
            print(name, type(error).__name__, flush=True)

async def main():
    async with EventLog.open(path, registry) as log:
        await log.append("s", [Noted("a")], 0)
        child = os.fork()
        if child == 0:
            thread = threading.Thread(target=lambda: asyncio.run(use(log)))
            thread.start()
            thread.join()
            os._exit(0)
        os.waitpid(child, 0)
        await log.append("s", [Noted("b")], 1)
        print((await log.verify()).ok, len(await log.read_stream("s")))
asyncio.run(main())
"""


async def test_a_forked_child_is_refused_every_use_and_harms_nothing(tmp_path: Path):
    run = python(FORK, tmp_path)

    assert run.stdout.splitlines() == [
        "append LogClosed", "relaxed LogClosed", "read LogClosed", "head LogClosed",
        "acquire LogClosed", "flush LogClosed", "totals LogClosed", "totals_nowait LogClosed",
        "True 2",
    ], run.stderr  # fmt: skip


async def test_a_forked_child_does_not_keep_the_lock(tmp_path: Path):
    script = """
async def main():
    async with EventLog.open(path, registry) as log:
        child = os.fork()
        if child == 0:
            time.sleep(20)
            os._exit(0)
    try:
        async with EventLog.open(path, registry) as log:
            print("opened")
    finally:
        os.kill(child, 9)
asyncio.run(main())
"""
    run = python(script, tmp_path)

    assert run.stdout == "opened\n", run.stderr


# --- damage that is noticed at opening


async def test_a_tail_that_was_rolled_back_is_noticed(tmp_path: Path):
    await fill(tmp_path)
    roll_back(tmp_path)

    with pytest.raises(CorruptLog, match="ends at position 2, but 3 had been committed"):
        await opens(tmp_path)


@pytest.mark.parametrize("what", ["acquire", "checkpoint", "snapshot"])
async def test_a_rolled_back_commit_without_events_is_noticed(tmp_path: Path, what: str):
    """An epoch that goes back lets a fenced owner write; a checkpoint repeats work."""
    await fill(tmp_path)
    async with EventLog.open(tmp_path, registry) as log:
        if what == "acquire":
            await log.acquire("s", 7)
        elif what == "checkpoint":
            await log.save_checkpoint(Checkpoint("p", 3))
        else:
            await log.save_snapshot("s", Snapshot(3, b""), "f")
    roll_back(tmp_path)

    with pytest.raises(CorruptLog):
        await opens(tmp_path)


async def test_a_file_of_another_log_is_noticed(tmp_path: Path):
    await fill(tmp_path / "a")
    await fill(tmp_path / "b")
    (tmp_path / "b" / "log.mdb").rename(tmp_path / "a" / "log.mdb")

    with pytest.raises(CorruptLog):
        await opens(tmp_path / "a")


async def test_an_anchor_that_lags_or_is_gone_is_no_damage(tmp_path: Path):
    await fill(tmp_path, 2)
    anchor = (tmp_path / "log.anchor").read_bytes()
    async with EventLog.open(tmp_path, registry) as log:
        await log.append("s", [Noted("2")], 2)
    (tmp_path / "log.anchor").write_bytes(anchor)
    await opens(tmp_path)
    (tmp_path / "log.anchor").unlink()
    async with EventLog.open(tmp_path, registry) as log:
        assert await texts(log) == ["0", "1", "2"]


async def test_damage_to_the_tree_is_a_typed_error(tmp_path: Path):
    """Damage that LMDB itself notices while reading is damage like any other."""
    async with EventLog.open(tmp_path, registry) as log:
        await log.append("s", [Noted(str(n) * 50) for n in range(500)], 0)
    data = bytearray((tmp_path / "log.mdb").read_bytes())
    for page in range(2, len(data) // 4096):
        at = page * 4096
        if data[at + 10] & 0x02:  # a leaf
            data[at + 10] = 0x40  # no kind of page
    (tmp_path / "log.mdb").write_bytes(data)

    with pytest.raises(CorruptLog):
        async with EventLog.open(tmp_path, registry) as log:
            await log.read_all()


# --- room


async def fill_up(log: EventLog) -> int:
    """Append until the log is full; return the version."""
    version = 0
    with pytest.raises(DiskFull):  # noqa: PT012 - the one that is too many
        for version in range(10_000):
            await log.append("s", [Noted(os.urandom(1000).hex())], version)
    return version


async def test_a_full_log_answers_what_adds_nothing(tmp_path: Path):
    """In a full log, a request that adds nothing still gets its answer.

    A repeated request, a refusal, a change of owner, a checkpoint that only deletes.
    """
    async with EventLog.open(tmp_path, registry, size_max_bytes=200_000) as log:
        await log.append("t", [Noted("a")], 0, idempotency_key="k")
        await log.save_checkpoint(Checkpoint("p", 1, {b"k": b"v"}))
        await fill_up(log)
        while True:
            try:
                await log.append("u", [Noted("")], (await log.head("u")).version)
            except DiskFull:
                break

        assert (await log.append("t", [Noted("a")], 0, idempotency_key="k")).duplicate
        with pytest.raises(WrongExpectedVersion):
            await log.append("t", [Noted("b")], 0)
        await log.save_checkpoint(Checkpoint("p", 2, {b"k": None}))
        assert await log.load_entry("p", b"k") is None
        assert (await log.acquire("t", 1)).epoch == 1


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Return a directory on a file system of 1 MiB, unmounted at the end."""
    with file_system(tmp_path / "small", "1m") as target:
        yield target


async def test_a_full_disk_is_typed_and_leaves_the_log_readable(small_disk: Path):
    """In a process of its own: a full disk under a memory map could end it by signal."""
    script = """
async def main():
    async with EventLog.open(path, registry) as log:
        version = 0
        try:
            while True:
                await log.append("s", [Noted(os.urandom(2000).hex())], version)
                version += 1
        except DiskFull:
            print("full", version > 10)
        try:
            await log.append("s", [Noted(os.urandom(50_000).hex())], version)
        except DiskFull:
            print("still full")
        print(len(await log.read_stream("s", limit=10_000)) == version, (await log.verify()).ok)
    async with EventLog.open(path, registry) as log:
        print(len(await log.read_stream("s", limit=10_000)) == version, (await log.verify()).ok)
asyncio.run(main())
"""
    run = await anyio.to_thread.run_sync(python, script, small_disk)

    assert run.stdout.splitlines() == ["full True", "still full", "True True", "True True"], run


async def test_a_disk_without_room_for_a_new_log_is_typed(small_disk: Path):
    with (small_disk / "filler").open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(4096))
    script = """
async def main():
    try:
        async with EventLog.open(path, registry) as log:
            await log.append("s", [Noted("a")], 0)
    except EventLogError as error:
        print(type(error).__name__)
asyncio.run(main())
"""
    run = await anyio.to_thread.run_sync(python, script, small_disk / "log")

    assert run.stdout == "DiskFull\n", run


async def test_an_anchor_that_cannot_be_written_stops_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """The events are on disk already; the anchor may lag."""

    def refuse(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    async with EventLog.open(tmp_path, registry) as log:
        with anyio.fail_after(5), monkeypatch.context() as patched:
            patched.setattr("eventlog.files.log_directory.os.pwrite", refuse)
            await log.append("s", [Noted("a")], 0)
            await log.append("s", [Noted("b")], 1)
    (tmp_path / "log.anchor").unlink()

    async with EventLog.open(tmp_path, registry) as log:
        assert await texts(log) == ["a", "b"]


# --- the queue, cancelled callers and closing


async def test_appends_beyond_the_bound_wait_and_all_go_through(tmp_path: Path):
    async with EventLog.open(tmp_path, registry, queue_events_max=4) as log:
        tasks = [asyncio.create_task(log.append(f"s{n}", [Noted("a")], 0)) for n in range(50)]
        await asyncio.sleep(0)
        assert log.statistics().queued_events <= 4
        with anyio.fail_after(5):
            results = await asyncio.gather(*tasks)

        assert sorted(result.last_position for result in results) == list(range(1, 51))


async def test_a_cancelled_caller_takes_nobodys_turn(tmp_path: Path):
    """A caller cancelled in the queue does not take another's turn."""
    async with EventLog.open(tmp_path, registry, queue_events_max=1) as log:
        first, cancelled, waiting = (
            asyncio.create_task(log.append(f"s{n}", [Noted("a")], 0)) for n in range(3)
        )
        await asyncio.sleep(0)
        cancelled.cancel()

        with anyio.fail_after(3):
            await first
            await waiting


async def test_closing_answers_every_caller(tmp_path: Path):
    """Queued appends are kept, waiting ones are refused, nobody hangs."""
    async with EventLog.open(tmp_path, registry, queue_events_max=2) as log:
        tasks = [asyncio.create_task(log.append(f"s{n}", [Noted("a")], 0)) for n in range(20)]
        await asyncio.sleep(0)

    done, pending = await asyncio.wait(tasks, timeout=3)
    for task in pending:
        task.cancel()
    assert not pending
    acknowledged = [task for task in done if task.exception() is None]
    assert {type(task.exception()) for task in done} <= {type(None), LogClosed}
    async with EventLog.open(tmp_path, registry) as log:
        assert len(await log.read_all()) == len(acknowledged) >= 2


async def test_a_bound_that_lets_nothing_in_is_refused(tmp_path: Path):
    with pytest.raises(ValueError, match="queue_events_max"):
        async with EventLog.open(tmp_path, registry, queue_events_max=0):
            pass


async def test_relaxed_appends_still_queued_are_kept_by_closing(tmp_path: Path):
    async with EventLog.open(tmp_path, registry) as log:
        for n in range(500):
            await log.append("s", [Noted(str(n))], n, durability="relaxed")
    async with EventLog.open(tmp_path, registry) as log:
        assert await texts(log) == [str(n) for n in range(500)][:512]


async def test_a_relaxed_append_is_on_disk_within_50_ms(tmp_path: Path):
    async with EventLog.open(tmp_path, registry) as log:
        await log.append("s", [Noted("a")], 0)
        await log.append("s", [Noted("b")], 1, durability="relaxed")
        for _ in range(40):  # twice the promise at most, for a busy machine
            if (await log.head("s")).version == 2:
                break
            await asyncio.sleep(0.0025)

        assert (await log.head("s")).version == 2


async def test_a_lost_relaxed_append_is_counted(
    tmp_path: Path,
):
    """A relaxed append that was lost is counted, and the next one is judged anew."""
    async with EventLog.open(tmp_path, registry, size_max_bytes=200_000) as log:
        await log.append("s", [Noted("a")], 0)
        await log.append("s", [Noted(os.urandom(500_000).hex())], 1, durability="relaxed")
        await log.flush()

        assert log.statistics().relaxed_lost == 1
        with pytest.raises(WrongExpectedVersion):
            await log.append("s", [Noted("c")], 2, durability="relaxed")
        await log.append("s", [Noted("b")], 1, durability="relaxed")
        await log.flush()
        assert await texts(log) == ["a", "b"]


async def test_appends_made_at_once_share_commits(tmp_path: Path):
    async with EventLog.open(tmp_path, registry) as log:
        await asyncio.gather(*(log.append(f"s{n}", [Noted("a")], 0) for n in range(500)))

        assert log.statistics().batches < 50


@pytest.mark.parametrize("count", [1, 3])
async def test_a_stream_with_events_and_no_record_is_damage(tmp_path: Path, count: int) -> None:
    await fill(tmp_path / "log", count)
    env = Environment(tmp_path / "log" / "log.mdb", TABLES)
    with env.read() as txn, txn.cursor(txn.tables["streams"]) as cursor:
        keys = [key for key, _ in cursor]
    env.write(lambda txn: [txn.delete(key, db=txn.tables["streams"]) for key in keys])
    env.close()
    async with EventLog.open(tmp_path / "log", registry) as log:
        with pytest.raises(CorruptLog, match="has events and no record"):
            await log.head("s")
