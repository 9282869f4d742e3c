"""One LMDB environment: its lock, its checks before opening, and what failed writes leave."""

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from support.disks import file_size_limit, let_a_commit_fail

from eventlog import (
    CorruptLog,
    DiskFull,
    Environment,
    EventLogError,
    LogClosed,
    LogUnavailable,
    StorageFailed,
)
from eventlog.lmdb.file import Transaction

TABLES = ("one", "two")
KEY = b"key"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "log.mdb"


@contextmanager
def opened(path: Path, **options) -> Iterator[Environment]:
    env = Environment(path, TABLES, **options)
    try:
        yield env
    finally:
        env.close()


def put(env: Environment, key: bytes, value: bytes) -> None:
    env.write(lambda txn: txn.put(key, value, db=txn.tables["one"]))


def get(env: Environment, key: bytes) -> bytes | None:
    with env.read() as txn:
        return txn.get(key, db=txn.tables["one"])


def test_an_opening_whose_directory_cannot_be_synced_leaves_nothing_open(
    path: Path, monkeypatch: pytest.MonkeyPatch
):
    def fail(_directory: Path) -> None:
        raise OSError("no sync")

    with monkeypatch.context() as patched:
        patched.setattr("eventlog.files.datafile.sync_to_disk", fail)
        with pytest.raises(LogUnavailable, match="no sync"):
            Environment(path, TABLES)
    with opened(path) as env:
        put(env, KEY, b"value")


def test_two_damaged_meta_pages_are_refused(path: Path):
    with opened(path) as env:
        put(env, KEY, b"value")
    data = bytearray(path.read_bytes())
    for at in (0, 4096):
        data[at + 16 : at + 20] = b"\0" * 4
    path.write_bytes(data)

    with pytest.raises(CorruptLog):
        Environment(path, TABLES)


def test_after_a_write_that_the_system_refused_it_goes_on(path: Path):
    """The outcome is typed, nothing of the write is there, and the next one works."""
    with opened(path) as env:
        put(env, KEY, b"before")
        with file_size_limit(path.stat().st_size), pytest.raises((StorageFailed, DiskFull)):
            put(env, b"large", b"x" * 500_000)

        assert get(env, KEY) == b"before"
        assert get(env, b"large") is None
        put(env, KEY, b"after")
    with opened(path) as env:
        assert get(env, KEY) == b"after"


def test_a_reader_during_reopening_is_told_to_retry(path: Path):
    """A reader between a failed write and its reopening is told to try again.

    LMDB lets nobody begin then: nothing is wrong with the file, so nobody is told so.
    """
    reading, may_leave = threading.Event(), threading.Event()
    failures: list[EventLogError] = []

    def hold_up_the_reopening() -> None:
        with env.read():
            reading.set()
            may_leave.wait(10)

    def fail() -> None:
        try:
            put(env, b"another", b"value")
        except EventLogError as error:
            failures.append(error)

    with opened(path) as env:
        put(env, KEY, b"value")
        threads = [threading.Thread(target=each) for each in (hold_up_the_reopening, fail)]
        threads[0].start()
        assert reading.wait(10)
        let_a_commit_fail(path)
        threads[1].start()
        try:
            with pytest.raises(LogUnavailable, match="try again"):  # noqa: PT012 - when it has failed
                while True:
                    assert get(env, KEY) == b"value"
        finally:
            may_leave.set()
            for thread in threads:
                thread.join(10)

        assert [type(error) for error in failures] == [StorageFailed]
        assert get(env, KEY) == b"value"
        put(env, KEY, b"after")
        assert get(env, KEY) == b"after"


def test_one_reader_too_many_is_told_to_try_again(path: Path):
    with opened(path) as env:
        put(env, KEY, b"value")
        with ExitStack() as readers, pytest.raises(LogUnavailable, match="try again"):  # noqa: PT012 - as above
            while True:
                readers.enter_context(env.read())
        assert get(env, KEY) == b"value"


def test_files_replaced_at_once_are_told_apart():
    """Files that are replaced at the same time do not pass for each other.

    A new file may have the inode of one that another thread is just closing.

    On a disk, that is: a file system in memory gives no inode twice.
    """
    failures: list[Exception] = []

    def shrink_again_and_again(name: str) -> None:
        with opened(Path(directory) / name) as env:
            for _ in range(150):
                try:
                    env.shrink()
                except EventLogError as error:
                    failures.append(error)

    threads = [
        threading.Thread(target=shrink_again_and_again, args=(f"{n}.mdb",)) for n in range(3)
    ]
    with TemporaryDirectory(dir="/var/tmp") as directory:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
    assert failures == []


def test_where_opening_again_fails_the_lock_is_still_given_up(path: Path):
    def lose_the_file(_txn: Transaction) -> None:
        path.rename(path.with_name("aside"))
        path.mkdir()
        raise OSError("the disk is gone")

    env = Environment(path, TABLES)
    put(env, KEY, b"value")
    with pytest.raises(EventLogError):
        env.write(lose_the_file)
    with pytest.raises(LogClosed):
        get(env, KEY)
    env.close()

    path.rmdir()
    path.with_name("aside").rename(path)
    with opened(path) as again:
        assert get(again, KEY) == b"value"


def test_an_impossible_key_is_no_broken_disk(path: Path):
    """A key that LMDB cannot hold does not pass for a broken disk.

    A mistake of the caller aborts the transaction; it does not cost a reopening.
    """
    with opened(path) as env:
        with pytest.raises(EventLogError) as caught:
            put(env, b"x" * 512, b"")
        assert not isinstance(caught.value, StorageFailed | DiskFull)
