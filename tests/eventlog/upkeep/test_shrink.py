"""A smaller file in the place of a large one: what is kept, who waits, what a crash leaves."""

import asyncio
import errno
import shutil
import struct
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import lmdb
import pytest
from contracts.stores import Keyed, registry
from support.disks import file_size_limit

from eventlog import (
    Checkpoint,
    CorruptLog,
    DiskFull,
    Environment,
    EventLog,
    LogClosed,
    LogLocked,
    Snapshot,
    StorageFailed,
)
from eventlog.files import datafile
from eventlog.lmdb import file as lmdb_file
from eventlog.lmdb.file import Transaction

NAMES = ("one", "two")
META_PAGES = (0, 4096)
TXN_ID_AT = 144  # within a meta page


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "log.mdb"


@contextmanager
def opened(path: Path, names: tuple[str, ...] = NAMES) -> Iterator[Environment]:
    env = Environment(path, names)
    try:
        yield env
    finally:
        env.close()


def fill(env: Environment, rows: int = 500, size: int = 300, table: str = "one") -> None:
    def put(txn: Transaction) -> None:
        for n in range(rows):
            txn.put(b"%06d" % n, b"%06d" % n * (size // 6), db=txn.tables[table])

    env.write(put)


def rows_of(env: Environment, table: str = "one") -> list[tuple[bytes, bytes]]:
    with env.read() as txn, txn.cursor(txn.tables[table]) as cursor:
        return list(cursor)


def cut(env: Environment) -> None:
    """Make every row short: its page stays."""
    env.write(lambda txn: [txn.put(k, b"short", db=txn.tables["one"]) for k, _ in rows_of(env)])


def maps(path: Path) -> list[str]:
    """Return the mappings of files of this name into this process, removed ones included."""
    lines = Path("/proc/self/maps").read_text().splitlines()
    return [line.split(maxsplit=5)[5] for line in lines if str(path.parent) in line]


# --- one environment


def test_pages_are_packed_full(path: Path):
    """LMDB's own compacting copy keeps half-empty pages as they are."""
    with opened(path) as env:
        fill(env, 5000)
        cut(env)
        env.shrink()

        needed = sum(8 + 2 + len(k) + len(v) for k, v in rows_of(env))
        assert env.file_bytes() < 1.15 * needed + 20 * 4096


def test_entries_stored_with_a_copy_are_in_it_alone(path: Path):
    """Entries that are stored with a copy are in it, and not in the file before."""
    with opened(path) as env:
        fill(env, 3)
        aside = path.with_name("aside")
        shutil.copy(path, aside)
        env.shrink(lambda txn, _: txn.put(b"note", b"stored", db=txn.tables["two"]))

        assert rows_of(env, "two") == [(b"note", b"stored")]
    with opened(aside) as env:
        assert rows_of(env, "two") == []


# --- who is in


def test_a_reader_finishes_in_the_old_file(path: Path):
    """A reader finishes in the old file while others use the new one."""
    with opened(path) as env:
        fill(env)
        before = rows_of(env)
        with env.read() as txn:
            assert in_thread(env.shrink).after_bytes
            in_thread(lambda: cut(env))
            with txn.cursor(txn.tables["one"]) as cursor:
                assert list(cursor) == before
            assert in_thread(lambda: rows_of(env))[0][1] == b"short"
            assert any("deleted" in name for name in maps(path))
            assert rows_of(env)[0][1] == b"short"  # a transaction within another
            assert txn.get(b"000001", db=txn.tables["one"]) == before[1][1]
        assert not any("deleted" in name for name in maps(path))


def in_thread(run: Any) -> Any:
    outcome: list[Any] = []
    thread = threading.Thread(target=lambda: outcome.append(run()))
    thread.start()
    thread.join(20)
    return outcome[0]


def test_writes_and_reads_from_many_threads_lose_nothing(path: Path):
    stop = threading.Event()
    written: set[bytes] = set()

    def write(n: int) -> None:
        key = b"%d-%06d" % (n, len(written))
        env.write(lambda txn: txn.put(key, key * 20, db=txn.tables["one"]))
        written.add(key)

    def read(_: int) -> None:
        assert all(value == key * 20 for key, value in rows_of(env))

    with opened(path) as env:
        with ThreadPoolExecutor(4) as pool:
            jobs = [pool.submit(repeat, stop, run, n) for run in (write, read) for n in range(2)]
            for _ in range(25):
                env.shrink()
            stop.set()
            assert [job.result(20) for job in jobs] == [None] * 4
        assert {key for key, _ in rows_of(env)} == written != set()
        assert not any("deleted" in name for name in maps(path))


def repeat(stop: threading.Event, run: Callable[[int], None], n: int) -> None:
    while not stop.is_set():
        run(n)


def test_closing_waits_for_a_reader_of_the_old_file(path: Path):
    reading, may_leave = threading.Event(), threading.Event()
    seen: list[int] = []

    def read() -> None:
        with env.read() as txn:
            reading.set()
            may_leave.wait(10)
            seen.append(txn.stat(txn.tables["one"])["entries"])

    env = Environment(path, NAMES)
    fill(env)
    reader = threading.Thread(target=read)
    reader.start()
    assert reading.wait(10)
    env.shrink()
    closer = threading.Thread(target=env.close)
    closer.start()
    closer.join(0.1)
    assert closer.is_alive()
    may_leave.set()
    closer.join(10)
    reader.join(10)

    assert seen == [500]
    assert maps(path) == []


def test_lock_and_readers_table_are_the_new_files(path: Path):
    with opened(path) as env:
        fill(env)
        readers = path.with_name("log.mdb-lock").stat().st_ino
        env.shrink()

        now = path.with_name("log.mdb-lock")
        assert now.stat().st_ino != readers
        assert sorted(maps(path)) == sorted([str(path), str(now)])
        with pytest.raises(LogLocked):
            Environment(path, NAMES)
        with env.read():
            assert len(env._files.file.env.readers().splitlines()) == 2  # a heading, and this one
        assert sorted(p.name for p in path.parent.iterdir()) == [
            "log.mdb", "log.mdb-lock", "log.mdb.lock",
        ]  # fmt: skip
    with opened(path) as env:
        assert len(rows_of(env)) == 500


def test_pages_seen_by_a_reader_are_not_reused(path: Path):
    """Pages that a reader of the new file sees are not reused.

    Its table of readers is the one that the writer looks at.
    """
    with opened(path) as env:
        fill(env)
        env.shrink()
        with env.read() as txn:
            for _ in range(20):
                in_thread(lambda: (cut(env), fill(env)))
            with txn.cursor(txn.tables["one"]) as cursor:
                assert all(value == key * 50 for key, value in cursor)


# --- failures


def test_without_room_nothing_is_touched(path: Path, monkeypatch: pytest.MonkeyPatch):
    with opened(path) as env:
        fill(env)
        before = path.read_bytes()
        monkeypatch.setattr(datafile, "free_bytes", lambda _directory: 100_000)

        with pytest.raises(DiskFull, match="100,000 free"):
            env.shrink()

        assert path.read_bytes() == before
        assert len(list(path.parent.iterdir())) == 3


@pytest.mark.parametrize("size", [0, 16_384, 20_000, 60_000, 150_000])
def test_a_disk_that_fills_up_meanwhile_leaves_the_old_file(path: Path, size: int):
    with opened(path) as env:
        fill(env, 2000)
        before = rows_of(env)

        with file_size_limit(size), pytest.raises((DiskFull, StorageFailed)):
            env.shrink()

        assert rows_of(env) == before
        assert len(list(path.parent.iterdir())) == 3
        env.shrink()
        assert rows_of(env) == before


class NoMemory:
    """An environment of LMDB that cannot allocate a transaction."""

    def __init__(self, env: Any):
        self._env = env

    def begin(self) -> None:
        raise lmdb.MemoryError("mdb_txn_begin: Cannot allocate memory")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._env, name)


def test_where_lmdb_finds_no_memory_the_old_file_stays(path: Path):
    with opened(path) as env:
        fill(env)
        before, file = rows_of(env), env._files.file
        file.env = NoMemory(file.env)  # type: ignore[assignment]
        with pytest.raises(StorageFailed, match="nothing was changed"):
            env.shrink()
        file.env = file.env._env  # type: ignore[attr-defined]

        assert rows_of(env) == before
        env.shrink()
        assert rows_of(env) == before


def test_a_rename_that_fails_leaves_the_old_file(path: Path, monkeypatch: pytest.MonkeyPatch):
    with opened(path) as env:
        fill(env)
        with monkeypatch.context() as failing:
            failing.setattr(Path, "replace", refuse)
            with pytest.raises(StorageFailed, match="nothing was changed"):
                env.shrink()

        assert len(rows_of(env)) == 500
        assert len(list(path.parent.iterdir())) == 3
        assert (
            maps(path) == [str(path.with_name("log.mdb-lock")), str(path)] or len(maps(path)) == 2
        )


def refuse(*_: Any) -> None:
    raise OSError(errno.EIO, "the disk is gone")


def test_a_directory_that_cannot_be_synced_closes_the_environment(
    path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Nobody knows which file comes back after a power loss: nothing more may be acknowledged."""
    env = Environment(path, NAMES)
    fill(env)
    with monkeypatch.context() as failing:
        failing.setattr("eventlog.files.datafile.sync_to_disk", refuse)
        with pytest.raises(StorageFailed, match="open it again"):
            env.shrink()
    with pytest.raises(LogClosed):
        fill(env)
    with pytest.raises(LogClosed):
        rows_of(env)
    assert maps(path) == []
    env.close()
    with opened(path) as env:
        assert len(rows_of(env)) == 500


@pytest.mark.parametrize("entries", [-1, 1])
def test_a_table_missing_rows_is_not_copied(
    path: Path, monkeypatch: pytest.MonkeyPatch, entries: int
):
    class Lying:
        def __init__(self, txn: Any):
            self.txn = txn

        def stat(self, table: Any) -> Any:
            stat = self.txn.stat(table)
            return {**stat, "entries": max(0, stat["entries"] + entries)}

        def cursor(self, table: Any) -> Any:
            return self.txn.cursor(table)

    with opened(path) as env:
        fill(env)
        before = path.read_bytes()
        copy = lmdb_file.copy_table
        monkeypatch.setattr(
            lmdb_file, "copy_table", lambda source, *rest: copy(Lying(source), *rest)
        )

        with pytest.raises(CorruptLog):
            env.shrink()

        assert path.read_bytes() == before
        assert len(list(path.parent.iterdir())) == 3


def test_what_a_crash_has_left_of_a_copy_is_removed(path: Path):
    with opened(path) as env:
        fill(env)
    for name in ("log.mdb.shrunk", "log.mdb.shrunk-lock"):
        path.with_name(name).write_bytes(b"half a copy")
    with opened(path) as env:
        assert len(rows_of(env)) == 500
        assert len(list(path.parent.iterdir())) == 3
        env.shrink()


# --- a log


@asynccontextmanager
async def log_in(path: Path, **options: Any) -> AsyncIterator[EventLog]:
    async with EventLog.open(path, registry, **options) as log:
        yield log


async def write(log: EventLog, count: int = 300) -> None:
    for n in range(0, count, 50):
        await log.append("s", [Keyed(f"{n + i} " * 60) for i in range(50)], n, counters={"n": 50})
    await log.append("t", [Keyed("x")], 0, idempotency_key="k", epoch=3)
    await log.save_snapshot("s", Snapshot(100, b"state" * 2000), "f")
    await log.save_checkpoint(Checkpoint("p", 7, {b"k": b"v"}))


@pytest.mark.anyio
async def test_where_there_is_little_to_gain_nothing_is_done(tmp_path: Path):
    async with log_in(tmp_path) as log:
        await write(log, 1000)
        inode = (tmp_path / "log.mdb").stat().st_ino

        await log.shrink(force=True)
        forced = (tmp_path / "log.mdb").stat().st_ino
        skipped = await log.shrink()

        assert inode != forced == (tmp_path / "log.mdb").stat().st_ino
        assert skipped.before_bytes == skipped.after_bytes == (tmp_path / "log.mdb").stat().st_size


@pytest.mark.anyio
async def test_what_archiving_has_freed_is_known_and_gained(tmp_path: Path):
    async with log_in(tmp_path) as log:
        await write(log, 2000)
        little = log.reclaimable_bytes()
        await log.archive("s", range(1, 1801))
        much = log.reclaimable_bytes()

        shrunk = await log.shrink()

        assert little < 0.2 * shrunk.before_bytes < much
        assert shrunk.before_bytes - shrunk.after_bytes > 0.8 * much
        assert log.reclaimable_bytes() < 0.1 * shrunk.after_bytes
        assert (await log.verify()).ok


@pytest.mark.anyio
async def test_a_relaxed_append_is_on_disk_when_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """A relaxed append is on disk when it is answered while commits are stalled."""
    stalled, go_on = threading.Event(), threading.Event()
    async with log_in(tmp_path) as log:
        await write(log)
        real = log._env._copied

        def copied(*arguments: Any) -> Any:
            stalled.set()
            assert go_on.wait(10)
            return real(*arguments)

        monkeypatch.setattr(log._env, "_copied", copied)
        shrinking = asyncio.create_task(log.shrink(force=True))
        await asyncio.to_thread(stalled.wait)
        relaxed = asyncio.create_task(log.append("r", [Keyed("n")], 0, durability="relaxed"))
        await asyncio.sleep(0.1)
        assert not relaxed.done()
        assert len(await log.read_stream("s")) == 300
        go_on.set()
        await shrinking

        assert (await relaxed).last_version == 1
        assert (await log.head("r")).version == 1


# --- the anchor


async def shrunk_between(path: Path) -> None:
    """Leave `before/` as it was before a log was shrunk, and `path` as it was after."""
    async with log_in(path) as log:
        await write(log)
    shutil.copytree(path, path.with_name("before"))
    async with log_in(path) as log:
        await log.shrink(force=True)


@pytest.mark.anyio
async def test_a_crash_before_the_anchor_is_no_damage(tmp_path: Path):
    """A crash between the swap and the anchor is no damage."""
    path = tmp_path / "log"
    await shrunk_between(path)
    shutil.copy(tmp_path / "before" / "log.anchor", path / "log.anchor")

    async with log_in(path) as log:
        assert (await log.verify()).ok
        await log.append("s", [Keyed("more")], 300)
    async with log_in(path) as log:
        assert (await log.head("s")).version == 301


@pytest.mark.anyio
async def test_the_old_file_cannot_come_back(tmp_path: Path):
    path = tmp_path / "log"
    await shrunk_between(path)
    shutil.copy(tmp_path / "before" / "log.mdb", path / "log.mdb")

    with pytest.raises(CorruptLog, match="later commits are missing"):
        async with log_in(path):
            pass


@pytest.mark.anyio
@pytest.mark.parametrize("appends", [0, 1, 2])
async def test_a_rolled_back_commit_of_the_new_file_is_noticed(tmp_path: Path, appends: int):
    path = tmp_path / "log"
    await shrunk_between(path)
    async with log_in(path) as log:
        for n in range(appends):
            await log.acquire("s", n)
    data = bytearray((path / "log.mdb").read_bytes())
    at = max(META_PAGES, key=lambda at: struct.unpack_from("=Q", data, at + TXN_ID_AT)[0])
    data[at + TXN_ID_AT : at + TXN_ID_AT + 8] = bytes(8)
    (path / "log.mdb").write_bytes(data)

    with pytest.raises(CorruptLog):
        async with log_in(path):
            pass
