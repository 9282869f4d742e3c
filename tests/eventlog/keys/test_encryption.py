"""An encrypted log: what is on disk, what is refused, what goes with a key."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from contracts.stores import Keyed, changed, registry

from eventlog import (
    NO_KEYS,
    BeingErased,
    CorruptLog,
    DiskFull,
    Environment,
    EventLog,
    KeyGone,
    Prepared,
    Snapshot,
    StorageFailed,
    UnknownEvent,
    copy_log,
    repair,
)
from eventlog.core import frame
from eventlog.core.rows import U64
from eventlog.keys import keyfile
from eventlog.keys.keyfile import KeyFile
from eventlog.lmdb import ledger
from eventlog.lmdb.archive import Archive
from eventlog.lmdb.erasing import Erasing
from eventlog.lmdb.opening import STORE_FORMAT

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def opened(path: Path, key_file: Path | None = None) -> AsyncIterator[EventLog]:
    """Open an encrypted log, its keys beside it."""
    with keyfile.opened(key_file or path.with_name(path.name + ".keys")) as keys:
        async with EventLog.open(path, registry, keys=keys) as log:
            yield log


async def fill(log: EventLog, stream: str = "s", events: int = 6, after: int = 0) -> None:
    for n in range(after, after + events):
        text = f"canary {n} " * (200 if n % 2 else 1)
        await log.append(
            stream, [Keyed(text, f"key {n}")], n, meta={"by": "canary"},
            idempotency_key=f"canary {n}", counters={"n": 1},
        )  # fmt: skip


async def texts(log: EventLog, stream: str = "s") -> list[str]:
    events = await log.read_stream(stream, (await log.head(stream)).erased_version)
    return [event.data.text[:8] for event in events]


def row(env: Environment, txn: Any, position: int) -> bytes:
    data: bytes = txn.get(U64.pack(position), db=txn.tables["events"])
    return data


# --- the format


async def test_earlier_versions_refuse_an_encrypted_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Earlier versions know the formats up to 4, and check that before anything else."""
    async with opened(tmp_path / "log") as log:
        await fill(log)
    monkeypatch.setattr("eventlog.lmdb.opening.ENCRYPTED_FORMAT", STORE_FORMAT)

    with pytest.raises(UnknownEvent, match="format 5"):
        async with EventLog.open(tmp_path / "log", registry):
            pass


async def test_sizes_and_totals_are_those_of_plain_logs(tmp_path: Path) -> None:
    """Sizes and totals are those of a log that is not encrypted.

    Or a state that counts bytes would depend on how it is kept.
    """

    async def sizes(log: EventLog) -> list[Any]:
        await fill(log)
        each = [(e.raw_bytes, e.stored_bytes, e.meta) for e in await log.read_all()]
        return [each, (await log.head("s")).stored_bytes]

    async with opened(tmp_path / "with") as log:
        encrypted = await sizes(log)
    async with EventLog.open(tmp_path / "without", registry) as log:
        assert await sizes(log) == encrypted


# --- what somebody without the key can do


async def test_an_event_that_is_not_encrypted_is_refused(tmp_path: Path) -> None:
    """Whoever has no key cannot put words into anybody's mouth."""
    async with opened(tmp_path / "log") as log:
        await fill(log)
        prepared = registry.prepare(Keyed("forged"))

    def forge(env: Environment, txn: Any) -> None:
        taken = frame.unpack(2, row(env, txn, 2))
        before = frame.chain_of(row(env, txn, 1))
        data, _ = frame.pack(
            prepared, position=2, sid=taken.stream_id, version=2, recorded_at_us=0, prev=before
        )
        txn.put(U64.pack(2), data, db=txn.tables["events"])

    changed(tmp_path / "log", forge)
    async with opened(tmp_path / "log") as log:
        with pytest.raises(CorruptLog, match="encrypted and its log is not, or the reverse"):
            await log.read_event(2)


async def test_a_snapshot_of_another_stream_or_version_is_passed_over(tmp_path: Path) -> None:
    async with opened(tmp_path / "log") as log:
        await fill(log)
        await fill(log, "t")
        await log.save_snapshot("s", Snapshot(3, b"state of s"), "1")
        assert await log.load_snapshot("s", "1") == Snapshot(3, b"state of s")

    def move(env: Environment, txn: Any) -> None:
        table, at = txn.tables["snapshots"], U64.pack(3)
        value = txn.get(frame.stream_id("s") + at, db=table)
        assert b"state of s" not in value
        txn.put(frame.stream_id("t") + at, value, db=table)
        txn.put(frame.stream_id("s") + U64.pack(4), value, db=table)

    changed(tmp_path / "log", move)
    async with opened(tmp_path / "log") as log:
        assert await log.load_snapshot("s", "1") == Snapshot(3, b"state of s")
        with pytest.raises(KeyGone):
            await log.load_snapshot("t", "1")


# --- a key that is missing or damaged


async def test_verification_reports_each_stream_without_a_key(
    tmp_path: Path,
) -> None:
    key_file = tmp_path / "log.keys"
    async with opened(tmp_path / "log") as log:
        await fill(log, "s")
    old = key_file.read_bytes()
    async with opened(tmp_path / "log") as log:
        await fill(log, "t")
        await fill(log, "u")
        await log.archive("u", range(1, 7))
    key_file.write_bytes(old)

    async with opened(tmp_path / "log") as log:
        report = await log.verify()

    assert {found.stream for found in report.findings} == {
        frame.stream_id(stream).hex() for stream in ("t", "u")
    }
    assert all("cannot be read: 6" in found.message for found in report.findings)
    assert report.unread_events == 12


# --- without keys


async def test_a_log_without_keys_is_verified_and_not_read(
    tmp_path: Path,
) -> None:
    async with opened(tmp_path / "log") as log:
        await fill(log)
        await log.archive("s", [1, 2])
        heads = await log.heads()
    async with EventLog.open(tmp_path / "log", registry, keys=NO_KEYS) as log:
        report = await log.verify(against=heads)
        assert (report.findings, report.unread_events) == ([], 6)
        assert msgspec.structs.replace(
            await log.heads(), published_at_us=heads.published_at_us
        ) == (heads)
        await log.backup(tmp_path / "backup")
        with pytest.raises(KeyGone):
            await log.read_all()
        with pytest.raises(KeyGone):
            await log.append("s", [Keyed("x")], 6)
        with pytest.raises(KeyGone):
            await log.append("new", [Keyed("x")], 0)
        with pytest.raises(KeyGone):
            await log.append("s", [Keyed("x")], 6, durability="relaxed")
    copy_log(tmp_path / "backup", tmp_path / "log", registry)
    async with opened(tmp_path / "log") as log:
        assert len(await texts(log)) == 6


async def test_a_repaired_log_is_under_the_same_keys(
    tmp_path: Path,
) -> None:
    """A repaired log is under the same keys, also if it lost the names of their owners."""
    async with opened(tmp_path / "log") as log:
        await fill(log)
        await log.archive("s", [2, 3])
        await fill(log, "t")
    changed(tmp_path / "log", lambda env, txn: txn.delete(b"keys", db=txn.tables["meta"]))
    with pytest.raises(CorruptLog, match="lost the identity of its keys"):
        async with opened(tmp_path / "log"):
            pass

    with keyfile.opened(tmp_path / "log.keys") as keys:
        report = repair(tmp_path / "log", tmp_path / "new", registry, 5, keys=keys)

    assert (report.events, report.left_behind) == (12, [])
    async with opened(tmp_path / "new", tmp_path / "log.keys") as log:
        assert len(await texts(log)) == 6
        assert await log.versions_about("s", "key 4") == [5]
        assert (await log.verify()).findings == []


# --- keys are made and deleted


async def test_a_key_is_on_disk_before_its_first_event(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also of a relaxed append. A disk that keeps no key takes no event, and others go on."""
    synced: list[str] = []
    real = KeyFile.sync
    async with opened(tmp_path / "log") as log:
        await fill(log, "before")

        def sync(keys: KeyFile) -> None:
            real(keys)
            synced.extend(stream for stream in ("new", "relaxed") if keys.has(stream))

        monkeypatch.setattr(KeyFile, "sync", sync)
        await log.append("new", [Keyed("x")], 0)
        assert synced == ["new"]
        await log.append("relaxed", [Keyed("x")], 0, durability="relaxed")
        assert synced[-1] == "relaxed"

        def fail(_keys: KeyFile, _fresh: object) -> None:
            raise OSError(28, "full")

        monkeypatch.setattr(KeyFile, "_append", fail)
        with pytest.raises(DiskFull):
            await log.append("refused", [Keyed("x")], 0)
        await log.append("before", [Keyed("x")], 6)
        assert (await log.head("refused")).version == 0
        monkeypatch.undo()
        await log.append("refused", [Keyed("taken")], 0)
    async with opened(tmp_path / "log") as log:
        assert await texts(log, "refused") == ["taken"]
        assert (await log.verify()).ok


async def test_a_repeated_append_reads_as_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An append that was tried again reads as it was asked.

    The same version is encrypted twice, with different content: never under one nonce.
    """
    bodies: list[bytes] = []
    real = frame.pack

    def pack(prepared: Prepared, **given: Any) -> tuple[bytes, bytes]:
        data, chain = real(prepared, **given)
        bodies.append(frame.unpack(given["position"], data).payload.data)
        return data, chain

    async with opened(tmp_path / "log") as log:
        await fill(log)
        monkeypatch.setattr(frame, "pack", pack)
        with monkeypatch.context() as patched:
            patched.setattr(ledger, "put_events", lambda *_: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                await log.append("s", [Keyed("first")], 6)
        await log.append("s", [Keyed("second")], 6)
        assert (await texts(log))[-1] == "second"
    assert len({body[8:20] for body in bodies}) == len(bodies) == 2


@pytest.mark.parametrize("broken", ["forget", "key_gone", "step", "remove_stream", "done"])
async def test_opening_finishes_an_erasure_that_broke_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    async with opened(tmp_path / "log") as log:
        await fill(log)
        await fill(log, "other")
        of = {"forget": KeyFile, "remove_stream": Archive}.get(broken, Erasing)

        def fail(*_: Any, **__: Any) -> None:
            raise StorageFailed("no")

        with monkeypatch.context() as patched:
            patched.setattr(of, broken, fail)
            with pytest.raises(StorageFailed):
                await log.erase("s", counted={"n": 6})
        if broken in ("forget", "key_gone"):
            with pytest.raises(BeingErased):
                await log.append("s", [Keyed("too early")], 6)
        else:
            await log.append("s", [Keyed("back")], 6)
    keys = (tmp_path / "log.keys").stat().st_size
    async with opened(tmp_path / "log") as log:
        if broken in ("forget", "key_gone"):
            assert (await log.head("s")).is_empty
            assert not log._files.keys.has("s")  # type: ignore[union-attr]
        else:
            assert (await texts(log))[-1] == "back"
            assert (tmp_path / "log.keys").stat().st_size == keys
        assert (await log.verify()).findings == []
        assert await log.totals() == {"n": 6}
        await log.append("s", [Keyed("goes on")], (await log.head("s")).version)
