"""Erasure on disk: no byte of it is left, the chain verifies, a crash or an error delays it."""

import zlib
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from contracts.stores import Keyed, opened

from eventlog import (
    Checkpoint,
    CorruptLog,
    DiskFull,
    Environment,
    EventLog,
    Snapshot,
    StorageFailed,
)
from eventlog.core import frame
from eventlog.core.rows import U64
from eventlog.lmdb import segment
from eventlog.lmdb.archive import Archive
from eventlog.lmdb.erasing import Erasing
from eventlog.lmdb.tables import TABLES, scan

pytestmark = pytest.mark.anyio

NAME = "a name to be found"


def noted(n: int, size: int = 100) -> Keyed:
    return Keyed(f"canary {n:05d} " * (size // 13), f"canary key {n}")


def canaries_in(path: Path) -> set[str]:
    """Return the names of files that have a canary in them, also one that was compressed."""
    found = set()
    for file in path.rglob("*"):
        data = file.read_bytes() if file.is_file() else b""
        if b"canary " in data or any(b"canary " in part for part in _inflated(data)):
            found.add(file.name)
    return found


def _inflated(data: bytes) -> list[bytes]:
    """Return what decompresses at any place that looks like a beginning."""
    parts = []
    for mark in (b"\x78\x01", b"\x78\x5e", b"\x78\x9c", b"\x78\xda"):
        at = data.find(mark)
        while at >= 0:
            with suppress(zlib.error):
                parts.append(zlib.decompressobj().decompress(data[at:], 1 << 16))
            at = data.find(mark, at + 1)
    return parts


async def fill(log: EventLog, events: int = 40) -> None:
    """Put canaries wherever a stream may have something."""
    await log.append("other", [Keyed("kept")], 0, counters={"n": 1})
    sizes = [100, 3000, 30]
    for n in range(events):
        await log.append(
            NAME, [noted(n, sizes[n % 3])], n, idempotency_key=f"canary {n}", counters={"n": 1},
            meta={"session": f"canary {n}"},
        )  # fmt: skip
    await log.archive(NAME, range(5, 15))
    await log.archive(NAME, range(15, 20))
    await log.save_snapshot(NAME, Snapshot(30, b"canary state" * 10), "canary fingerprint")
    await log.save_checkpoint(Checkpoint("canary view", 5, {b"canary entry": b"canary value"}))
    await log.append("other", [Keyed("kept too")], 1)


async def others_are_whole(log: EventLog) -> bool:
    kept = [event.data for event in await log.read_stream("other")]
    return kept == [Keyed("kept"), Keyed("kept too")]


async def test_no_erased_byte_is_left_in_any_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(segment, "zstandard", None)
    async with opened(tmp_path) as log:
        await fill(log)
        assert len(canaries_in(tmp_path)) >= 3

        erased = await log.erase(NAME, counted={"n": 40}, projections=["canary view"])

        assert canaries_in(tmp_path) == set()
        assert NAME.encode() not in (tmp_path / "log.mdb").read_bytes()
        assert (erased.events, erased.segments) == (40, 2)
        assert erased.after_bytes < erased.before_bytes
        assert (await log.verify()).findings == []
        assert (await log.verify()).erased_events == 40
        assert await log.totals() == {"n": 1}
        assert await others_are_whole(log)
    assert canaries_in(tmp_path) == set()
    async with opened(tmp_path) as log:
        assert (await log.verify()).findings == []
        assert (await log.head(NAME)).is_empty


async def test_no_row_says_what_was_asked_of_an_erased_stream(tmp_path: Path):
    """A request's digest would tell whoever guesses the request that it was made."""
    async with opened(tmp_path) as log:
        await fill(log)
        await log.erase(NAME)
    env = Environment(tmp_path / "log.mdb", TABLES)
    with env.read() as txn:
        left = {
            table: len(list(scan(txn, table, frame.stream_id(NAME))))
            for table in ("keys", "requests", "snapshots")
        }
    env.close()

    assert left == {"keys": 0, "requests": 0, "snapshots": 0}


async def test_an_event_cannot_be_erased_alone(tmp_path: Path):
    """An event may not be erased where its stream is not.

    Or anybody who may write to the file could make events vanish without a finding.
    """
    async with opened(tmp_path) as log:
        await fill(log)
    env = Environment(tmp_path / "log.mdb", TABLES)

    def change(txn: Any) -> None:
        table = txn.tables["events"]
        data = txn.get(U64.pack(1), db=table)
        txn.put(U64.pack(1), frame.erased(1, data, 5), db=table)

    env.write(change)
    env.close()
    (tmp_path / "log.anchor").unlink()

    async with opened(tmp_path) as log:
        assert any("erased up to 0" in found.message for found in (await log.verify()).findings)
        with pytest.raises(CorruptLog, match="erased and its stream is not"):
            await log.read_stream("other")


async def test_from_its_first_transaction_on_the_stream_reads_as_erased(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Every read says erased, also where the payload is still in the file."""
    monkeypatch.setattr(Erasing, "step", failing(DiskFull("no room")))
    async with opened(tmp_path) as log:
        await fill(log)
        with pytest.raises(DiskFull):
            await log.erase(NAME, counted={"n": 40}, projections=["canary view"])

        marked = await log.read_all(0, 1000, dropped="mark")
        assert {event.stream for event in marked} == {
            "other",
            f"erased:{frame.stream_id(NAME).hex()}",
        }
        assert not any("canary" in repr(event) for event in marked)
        assert await log.streams() == ["other"]
        assert await log.versions_about(NAME, "canary key 3") == []
        assert await log.find_request(NAME, "canary 3", b"") is None
        assert await log.load_snapshot(NAME, "canary fingerprint") is None
        assert (await log.verify()).findings == []
        again = await log.append(NAME, [Keyed("new")], 40, idempotency_key="canary 3")
        assert (again.first_version, again.duplicate) == (41, False)


def failing(error: Exception) -> Any:
    def fail(*_: Any, **__: Any) -> Any:
        raise error

    return fail


@pytest.mark.parametrize(
    ("of", "step"),
    [
        (Erasing, "step"),
        (Archive, "remove_stream"),
        (Erasing, "done"),
    ],
)
@pytest.mark.parametrize("how", ["again", "reopen"])
async def test_a_second_call_or_opening_finishes_after_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, of: type, step: str, how: str
):
    """A second call, or the next opening, finishes an erasure that an error broke off."""
    async with opened(tmp_path) as log:
        await fill(log)
        with monkeypatch.context() as patched:
            patched.setattr(of, step, failing(DiskFull("no room")))
            with pytest.raises(DiskFull):
                await log.erase(NAME, projections=["canary view"])
        await log.append(NAME, [Keyed("new", "new")], 40)
        if how == "again":
            await log.erase(NAME)
    async with opened(tmp_path) as log:
        assert canaries_in(tmp_path) == set()
        assert (await log.verify()).findings == []
        assert await others_are_whole(log)
        with log._env.read() as txn:
            assert not log._erasing.pending(txn)
        if how == "reopen":
            assert [event.data.text for event in await log.read_stream(NAME, 40)] == ["new"]


async def test_a_full_disk_at_opening_leaves_the_rest_for_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    async with opened(tmp_path) as log:
        await fill(log)
        with monkeypatch.context() as patched:
            patched.setattr(Erasing, "step", failing(DiskFull("no room")))
            with pytest.raises(DiskFull):
                await log.erase(NAME, projections=["canary view"])
    with monkeypatch.context() as patched:
        patched.setattr(Environment, "shrink", failing(DiskFull("no room")))
        async with opened(tmp_path) as log:
            assert await others_are_whole(log)
            assert (await log.verify()).findings == []
    async with opened(tmp_path) as log:
        await log.erase(NAME)
    assert canaries_in(tmp_path) == set()


async def test_a_segment_that_cannot_be_removed_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    async with opened(tmp_path) as log:
        await fill(log)
        with monkeypatch.context() as patched:
            patched.setattr(Path, "unlink", failing(PermissionError("not yours")))
            with pytest.raises(StorageFailed, match="cannot be removed"):
                await log.erase(NAME)
        assert (await log.erase(NAME)).events == 40
        assert not list((tmp_path / "archive").iterdir())


def archived(path: Path) -> set[str]:
    return {file.name for file in (path / "archive").iterdir()}


async def test_numbers_of_segments_are_never_given_again(tmp_path: Path):
    async with opened(tmp_path) as log:
        await fill(log)
        before = archived(tmp_path)
        await log.erase(NAME)
        await log.append(NAME, [Keyed("new")], 40)
        await log.archive(NAME, [41])

        assert not archived(tmp_path) & before
        assert (await log.read_stream(NAME, 40))[0].data.text == "new"
        assert (await log.verify()).findings == []


async def test_a_log_at_its_size_limit_can_be_erased_from(tmp_path: Path):
    async with opened(tmp_path, size_max_bytes=1 << 20) as log:
        n = await filled_up(log)
        erased = await log.erase(NAME)

        assert erased.events == n
        assert erased.after_bytes < erased.before_bytes
        await log.append("other", [Keyed("room again")], 0)


async def filled_up(log: EventLog) -> int:
    """Append until there is no room; return how many events there are."""
    for n in range(10_000):
        try:
            await log.append(NAME, [noted(n, 3000)], n)
        except DiskFull:
            return n
    raise AssertionError("the limit was not reached")
