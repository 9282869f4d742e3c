"""The archive of a log on disk: its files, what a crash leaves of them, and what damage does."""

import errno
import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from contracts.stores import Keyed, opened

from eventlog import (
    CorruptLog,
    DiskFull,
    Environment,
    EventLog,
    EventLogError,
    LogUnavailable,
    MissingCodec,
    PayloadDropped,
    StorageFailed,
)
from eventlog.core import frame
from eventlog.core.rows import U64
from eventlog.lmdb import archive, segment, tables
from eventlog.lmdb.archive import Archive
from eventlog.lmdb.segment import SegmentId
from eventlog.lmdb.tables import TABLES

pytestmark = pytest.mark.anyio

FOREVER = 2**62
S = frame.stream_id("s")
FIRST = SegmentId(S, 1)


def text(n: int) -> str:
    """Return 300 bytes that tell one event from another."""
    return (f"{n:05d} a canary in the log " * 12)[:300]


async def fill(log: EventLog, count: int = 40, stream: str = "s") -> None:
    await log.append(stream, [Keyed(text(n)) for n in range(count)], 0)


async def texts(log: EventLog, stream: str = "s") -> list[str]:
    return [event.data.text for event in await log.read_stream(stream, 0, 10_000)]


def segments(path: Path) -> list[Path]:
    return sorted((path / "archive").glob("*"))


def in_files(path: Path, wanted: str) -> set[str]:
    """Return the names of the files that have these bytes in them."""
    files = [file for file in path.rglob("*") if file.is_file()]
    return {file.name for file in files if wanted.encode() in file.read_bytes()}


def without_codec(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment, "zstandard", None)


# --- what lies where


async def test_shrinking_leaves_a_payload_in_the_archive_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """A payload is in the archive alone once the file has shrunk."""
    without_codec(monkeypatch)
    monkeypatch.setattr(segment, "ZLIB_LEVEL", 0)  # so that content is found in it
    async with opened(tmp_path) as log:
        await fill(log)
        await log.archive("s", range(1, 31))
        await log.shrink(force=True)

        assert in_files(tmp_path, text(3)) == {SegmentId(S, 1).name}
        assert in_files(tmp_path, text(35)) == {"log.mdb"}
        await log.drop_archived(FOREVER)
        assert in_files(tmp_path, text(3)) == set()
        assert (await log.verify()).ok


async def test_without_zstandard_it_is_zlib_and_both_are_read(tmp_path: Path, monkeypatch: Any):
    async with opened(tmp_path) as log:
        await fill(log)
        await log.archive("s", range(1, 11))
        with monkeypatch.context() as without:
            without_codec(without)
            await log.archive("s", range(11, 21))
        assert await texts(log) == [text(n) for n in range(40)]
    without_codec(monkeypatch)
    async with opened(tmp_path) as log:
        with pytest.raises(MissingCodec, match="pip install zstandard"):
            await log.read_stream("s")
        assert len(await log.read_versions("s", range(11, 21))) == 10
        assert not (await log.verify()).ok


# --- reading


async def test_a_block_is_decompressed_once_for_many_reads(tmp_path: Path, monkeypatch: Any):
    async with opened(tmp_path) as log:
        await fill(log, 2000)
        await log.archive("s", range(1, 2001))
        read = count_reads(monkeypatch)

        await log.read_stream("s", 0, 4096)
        blocks = len(read)
        await log.read_versions("s", range(1, 2001))

        assert blocks == len(read) == len(set(read)) < 10


def count_reads(monkeypatch: Any) -> list[Any]:
    """Return a list that grows by what is read from the archive's files, and by which thread."""
    reads: list[Any] = []
    real = archive.segments.read_block

    def read_block(directory: Path, of: SegmentId, offset: int) -> Any:
        assert threading.current_thread() is not threading.main_thread()
        reads.append((of, offset))
        return real(directory, of, offset)

    monkeypatch.setattr(archive.segments, "read_block", read_block)
    return reads


async def test_the_event_loop_never_reads_a_file(tmp_path: Path, monkeypatch: Any):
    """The few rows of a small read come from memory, or the whole read goes to a thread."""
    async with opened(tmp_path) as log:
        await fill(log)
        await log.archive("s", range(1, 11))
        reads = count_reads(monkeypatch)

        for read in (log.read_event(3), log.read_versions("s", [2, 3]), log.read_stream("s", 0, 5)):
            assert await read
        assert len(reads) == 1


def test_what_is_kept_decompressed_is_bounded(tmp_path: Path):
    kept = Archive(tmp_path, cache_bytes=300_000)
    entries = [segment.Entry(n, bytes(16), bytes(140_000)) for n in range(5)]
    written = kept.write(S, 1, entries)

    for _ in range(3):
        for entry, place in zip(entries, written.places, strict=True):
            assert kept.entry(S, place) == entry
            assert kept._cached_bytes == sum(len(b.raw) for b in kept._blocks.values()) <= 300_000
    assert len(kept._blocks) == 2

    kept.remove({written.segment})
    assert (kept._cached_bytes, kept._blocks, segments(tmp_path)) == (0, {}, [])


# --- retention


async def test_a_read_is_told_of_a_payload_dropped_meanwhile(tmp_path: Path):
    """A read under way is told that a payload went meanwhile.

    Its transaction still sees the record of a segment whose file is gone.
    """
    async with opened(tmp_path) as log:
        await fill(log)
        await log.archive("s", range(1, 11))
        with log._env.read() as txn:
            await log.drop_archived(FOREVER)
            log._files.archive._loop_thread = None
            with pytest.raises(PayloadDropped):
                log._reading.stream_versions(txn, "s", [3])


# --- crashes and full disks


async def test_unnamed_files_are_removed_at_opening(tmp_path: Path):
    """Files that no record names are removed at the next opening."""
    async with opened(tmp_path) as log:
        await fill(log)
        await log.archive("s", range(1, 11))
    (named,) = segments(tmp_path)
    directory = named.parent
    orphans = [SegmentId(S, 2).name, SegmentId(b"\7" * 16, 1).name, SegmentId(S, 3).name + ".tmp"]
    others = ["notes.txt", "00.segment", named.name + ".bak"]
    for name in orphans + others:
        (directory / name).write_bytes(b"content")

    async with opened(tmp_path) as log:
        assert {file.name for file in segments(tmp_path)} == {named.name, *others}
        assert await texts(log) == [text(n) for n in range(40)]


async def test_nothing_is_removed_where_the_records_are_damaged(tmp_path: Path):
    """The file of a record that cannot be read looks as if nothing named it."""
    async with opened(tmp_path) as log:
        await fill(log)
        await log.archive("s", range(1, 11))
    key = S + (1).to_bytes(4, "big")

    def damage(env: Environment, txn: Any) -> None:
        value = txn.get(key, db=txn.tables["segments"])
        txn.put(key, value[:-1] + bytes([value[-1] ^ 1]), db=txn.tables["segments"])

    change(tmp_path, damage)
    async with opened(tmp_path) as log:
        assert len(segments(tmp_path)) == 1
        with pytest.raises(CorruptLog):
            await log.read_stream("s")
        with pytest.raises(CorruptLog):
            await log.archive("s", [20])
        assert not (await log.verify()).ok


def change(path: Path, how: Callable[[Environment, Any], object]) -> None:
    """Change the tables of a closed log."""
    env = Environment(path / "log.mdb", TABLES)
    env.write(lambda txn: how(env, txn))
    env.close()


async def test_a_file_in_the_way_is_not_written_over(tmp_path: Path):
    async with opened(tmp_path) as log:
        await fill(log)
        (tmp_path / "archive").mkdir()
        there = tmp_path / "archive" / SegmentId(S, 1).name
        there.write_bytes(b"somebody's")

        await log.archive("s", [1])

        assert there.read_bytes() == b"somebody's"
        assert await texts(log) == [text(n) for n in range(40)]
        assert (await log.verify()).ok


@pytest.mark.parametrize("call", ["open", "fsync", "replace"])
@pytest.mark.parametrize(
    ("number", "error"), [(errno.ENOSPC, DiskFull), (errno.EIO, StorageFailed)]
)
async def test_a_system_call_that_fails_leaves_all_as_it_was(
    tmp_path: Path, monkeypatch: Any, call: str, number: int, error: type[EventLogError]
):
    def fail(*_: Any, **__: Any) -> None:
        raise OSError(number, os.strerror(number))

    async with opened(tmp_path) as log:
        await fill(log)
        await log.archive("s", [1])  # the directory is there
        before = await log.read_all()
        with monkeypatch.context() as failing:
            where = Path if call == "replace" else os
            failing.setattr(where, call, fail)
            with pytest.raises(error):
                await log.archive("s", range(2, 11))

        assert [file.name for file in segments(tmp_path)] == [SegmentId(S, 1).name]
        assert await log.read_all() == before
        assert (await log.archive("s", range(1, 11))).events == 9
        assert (await log.verify()).ok


async def test_without_room_in_the_tables_the_segment_goes_again(tmp_path: Path):
    def refuse(*_: Any, **__: Any) -> None:
        raise DiskFull("no room")

    async with opened(tmp_path) as log:
        await fill(log)
        log._erasing.replace = refuse
        with pytest.raises(DiskFull):
            await log.archive("s", range(1, 11))

        assert segments(tmp_path) == []
        assert await texts(log) == [text(n) for n in range(40)]


async def test_when_the_commits_outcome_is_unknown_the_file_stays(tmp_path: Path):
    """The stubs of the archive may be in the file; the next opening finds out."""

    def fail(*_: Any, **__: Any) -> None:
        raise StorageFailed("who knows")

    async with opened(tmp_path) as log:
        await fill(log)
        log._erasing.replace = fail
        with pytest.raises(StorageFailed):
            await log.archive("s", range(1, 11))
        assert len(segments(tmp_path)) == 1
    async with opened(tmp_path) as log:
        assert segments(tmp_path) == []
        assert await texts(log) == [text(n) for n in range(40)]


async def test_an_event_changed_during_archiving_is_left_alone(tmp_path: Path):
    async with opened(tmp_path) as log:
        await fill(log)
        real = log._erasing.write_segment

        def write_segment(*arguments: Any) -> Any:
            moving = real(*arguments)
            moving.hot[3] = moving.hot[3]._replace(header=bytes(113))
            return moving

        log._erasing.write_segment = write_segment
        with pytest.raises(CorruptLog, match="event 4 has changed"):
            await log.archive("s", range(1, 11))

        assert segments(tmp_path) == []
        assert await texts(log) == [text(n) for n in range(40)]


async def test_a_full_log_can_be_archived_and_shrunk(tmp_path: Path):
    """A log at its size limit can still be archived and shrunk."""
    async with opened(tmp_path, size_max_bytes=300_000) as log:
        version = 0
        with pytest.raises(DiskFull):  # noqa: PT012 - the one that is too many
            while True:
                await log.append("s", [Keyed(text(version))], version)
                version += 1

        await log.archive("s", range(1, version + 1))
        await log.shrink()

        for n in range(version, version + 20):
            await log.append("s", [Keyed(text(n))], n)
        assert await texts(log) == [text(n) for n in range(version + 20)]


# --- damage


async def examined(path: Path) -> tuple[str, bool]:
    """Open a log, read everything, verify; return how the read went, and what was verified."""
    try:
        async with opened(path) as log:
            report = await log.verify()
            try:
                right = await texts(log) == [text(n) for n in range(40)]
            except EventLogError:
                return "refused", report.ok
            return ("right" if right else "wrong"), report.ok
    except EventLogError:
        return "refused", False


async def test_a_flipped_bit_in_a_segment_is_never_served(tmp_path: Path):
    source, damaged = tmp_path / "source", tmp_path / "damaged"
    async with opened(source) as log:
        await fill(log)
        await log.archive("s", range(1, 31))
    (path,) = segments(source)
    data = path.read_bytes()
    shutil.copytree(source, damaged)
    for bit in range(5, 8 * len(data), 61):
        changed = bytearray(data)
        changed[bit // 8] ^= 1 << bit % 8
        (damaged / "archive" / path.name).write_bytes(changed)

        how, verified = await examined(damaged)

        assert how == "refused" or (how == "right" and bit < 8 * 32), bit  # its own header
        assert not verified, bit


@pytest.mark.parametrize("size", [0, 31, 32, 100])
async def test_a_segment_cut_short_is_never_served(tmp_path: Path, size: int):
    async with opened(tmp_path) as log:
        await fill(log)
        await log.archive("s", range(1, 31))
    (path,) = segments(tmp_path)
    os.truncate(path, size)

    assert await examined(tmp_path) == ("refused", False)


async def test_a_missing_segment_is_named_with_stream_and_event(tmp_path: Path):
    async with opened(tmp_path) as log:
        await fill(log)
        await log.archive("s", range(11, 21))
        (path,) = segments(tmp_path)
        path.unlink()

        with pytest.raises(CorruptLog, match=rf"event 11 of stream 's': {path.name} is missing"):
            await log.read_stream("s")
        assert len(await log.read_stream("s", 0, 10)) == 10
        report = await log.verify()

    assert [path.name in found.message for found in report.findings] == [True]
    assert report.findings[0].stream == S.hex()


async def test_an_older_segment_of_the_same_name_is_never_served(tmp_path: Path):
    """Place, CRC and versions are right: only the digest in the stub tells."""
    for path in (tmp_path / "a", tmp_path / "b"):
        async with opened(path) as log:
            await fill(log)
            await log.archive("s", range(1, 31))
    (mine,), (other,) = segments(tmp_path / "a"), segments(tmp_path / "b")
    mine.write_bytes(other.read_bytes())

    assert await examined(tmp_path / "a") == ("refused", False)


async def test_an_unreadable_file_is_unavailable_not_damaged(tmp_path: Path, monkeypatch: Any):
    """A file that may not be read is unavailable, not damaged."""
    async with opened(tmp_path) as log:
        await fill(log)
        await log.archive("s", range(1, 11))

        def refuse(*_: Any) -> None:
            raise OSError(errno.EMFILE, "too many open files")

        with monkeypatch.context() as failing:
            failing.setattr(archive.segments.os, "open", refuse)
            with pytest.raises(LogUnavailable, match="too many open files"):
                await log.read_stream("s")
        assert len(await log.read_stream("s")) == 40


def stub_elsewhere(env: Environment, txn: Any) -> None:
    """Point an event's stub to its neighbour's payload, with a right CRC."""
    rows = [txn.get(U64.pack(position), db=txn.tables["events"]) for position in (2, 3)]
    place = frame.unpack(2, rows[0]).place
    txn.put(U64.pack(3), frame.stub(3, rows[1], place), db=txn.tables["events"])


def stub_nowhere(env: Environment, txn: Any) -> None:
    row = txn.get(U64.pack(3), db=txn.tables["events"])
    txn.put(U64.pack(3), frame.stub(3, row, frame.Place(9, 32, 0)), db=txn.tables["events"])


def lose_record(env: Environment, txn: Any) -> None:
    txn.delete(S + (1).to_bytes(4, "big"), db=txn.tables["segments"])


@pytest.mark.parametrize("damage", [stub_elsewhere, stub_nowhere, lose_record])
async def test_damaged_archive_tables_are_never_served(
    tmp_path: Path, damage: Callable[[Environment, Any], object]
):
    """Damage to the tables about the archive is found, and never served."""
    async with opened(tmp_path) as log:
        await fill(log)
        await log.archive("s", range(1, 31))
    change(tmp_path, damage)

    how, verified = await examined(tmp_path)

    assert (how, verified) == ("refused", False)


async def messages(path: Path) -> list[str]:
    async with opened(path) as log:
        return [found.message for found in (await log.verify()).findings]


async def test_a_remade_file_is_not_the_sealed_one(tmp_path: Path, monkeypatch: Any):
    """A file made anew of the same payloads is not the one that was sealed."""
    async with opened(tmp_path) as log:
        await fill(log)
        await log.archive("s", range(1, 31))
    (path,) = segments(tmp_path)
    entries = [block.entry(n) for _, block in segment.walk(path.parent, FIRST) for n in range(30)]
    without_codec(monkeypatch)
    path.write_bytes(segment.build(FIRST, entries)[0])

    assert await messages(tmp_path) == [f"{path.name} is not the file that was sealed"]
    assert (await examined(tmp_path))[0] == "right"


async def test_a_record_with_a_wrong_count_is_found(tmp_path: Path):
    """Only the record says how many events a dropped segment had."""
    async with opened(tmp_path) as log:
        await fill(log)
        await log.archive("s", range(1, 31))
        await log.drop_archived(FOREVER)

    def count(env: Environment, txn: Any) -> None:
        record = tables.load_segment(txn, FIRST)
        other = msgspec.structs.replace(record, events=29)
        tables.put_segment(txn, FIRST, other)

    change(tmp_path, count)

    assert await messages(tmp_path) == [f"30 events are in {FIRST.name}, not 29"]
