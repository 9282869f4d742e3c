"""Backup and restore: one moment of a log in use, whole or not there; restoring loses nothing."""

import asyncio
import errno
import hashlib
import json
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest

from eventlog import (
    ANY_VERSION,
    Checkpoint,
    CorruptLog,
    DiskFull,
    EventLog,
    EventRegistry,
    LogLocked,
    LogUnavailable,
    Snapshot,
    StorageFailed,
    restore,
)
from eventlog.files import datafile, log_directory
from eventlog.upkeep import backup

pytestmark = [pytest.mark.anyio, pytest.mark.user]

registry = EventRegistry()


@registry.event("test.noted", keys=lambda event: [event.text[:2]])
class Noted(msgspec.Struct, frozen=True):
    text: str


@asynccontextmanager
async def opened(path: Path) -> AsyncIterator[EventLog]:
    async with EventLog.open(path, registry) as log:
        yield log


async def fill(log: EventLog, stream: str = "s", events: int = 30) -> None:
    notes = [Noted(f"{n} {stream} " * (300 if n % 7 == 0 else 1)) for n in range(events)]
    await log.append(stream, notes, ANY_VERSION, counters={"n": events})


async def filled(log: EventLog) -> None:
    """Put something everywhere."""
    await fill(log)
    await log.append("t", [Noted("once")], 0, idempotency_key="k")
    await log.archive("s", range(1, 11))
    await log.archive("s", range(11, 15))
    await log.drop_archived(2**62, "t")
    await log.save_snapshot("s", Snapshot(20, b"state"), "f")
    await log.save_checkpoint(Checkpoint("view", 5, {b"a": b"1"}))
    await fill(log, "gone")
    await log.erase("gone", counted={"n": 30})


async def everything(log: EventLog) -> dict[str, Any]:
    return {
        "all": await log.read_all(0, 1000, dropped="mark"),
        "about": await log.versions_about("s", "0 "),
        "heads": [await log.head(stream) for stream in ("s", "t", "gone")],
        "streams": sorted(await log.streams()),
        "snapshot": await log.load_snapshot("s", "f"),
        "view": (await log.load_checkpoint("view"), await log.load_entry("view", b"a")),
        "totals": await log.totals(),
        "archive": await log.archive_statistics(),
        "verified": (await log.verify()).findings,
    }


async def test_a_restored_backup_reads_as_the_log_did(tmp_path: Path):
    async with opened(tmp_path / "log") as log:
        await filled(log)
        before = await everything(log)
        made = await log.backup(tmp_path / "backup")
        assert await everything(log) == before
        await fill(log, "later")

    restored = await restore(tmp_path / "backup", tmp_path / "new", registry)

    assert (made.position, made.events) == (61, 61)
    assert (restored.position, restored.replaced) == (61, None)
    async with opened(tmp_path / "new") as log:
        assert await everything(log) == before
        assert (await log.append("t", [Noted("once")], 0, idempotency_key="k")).duplicate
        await log.append("t", [Noted("on")], 1)
        await log.shrink(force=True)
    async with opened(tmp_path / "new") as log:
        assert (await log.verify()).findings == []


async def test_a_drill_under_load(tmp_path: Path):
    """Each stream of a backup is a beginning of the stream, and all of it is of one moment."""
    async with opened(tmp_path / "log") as log:
        await filled(log)
        stopped = asyncio.Event()

        async def write(stream: str) -> int:
            version = 0
            while not stopped.is_set():
                await log.append(stream, [Noted(f"{version + 1}")], version)
                version += 1
            return version

        async def keep_up() -> None:
            while not stopped.is_set():
                last = (await log.head("a")).version
                await log.archive("a", range(1, last // 2))
                await log.shrink(force=True)

        writing = [asyncio.create_task(write(stream)) for stream in "abc"]
        keeping = asyncio.create_task(keep_up())
        acknowledged = []
        for n in range(3):
            await asyncio.sleep(0.05)
            acknowledged.append([(await log.head(stream)).version for stream in "abc"])
            await log.backup(tmp_path / f"backup {n}")
        stopped.set()
        await keeping
        versions = await asyncio.gather(*writing)
        whole = await log.read_all(0, 100_000, dropped="mark")
    assert min(versions) > max(acknowledged[0])

    for n, known in enumerate(acknowledged):
        await restore(tmp_path / f"backup {n}", tmp_path / f"restored {n}", registry)
        async with opened(tmp_path / f"restored {n}") as log:
            assert (await log.verify()).findings == []
            there = [(await log.head(stream)).version for stream in "abc"]
            assert all(after >= before for after, before in zip(there, known, strict=True))
            events = await log.read_all(0, 100_000, dropped="mark")
            assert events == whole[: len(events)]


async def test_more_may_be_put_into_a_backup_and_comes_back(tmp_path: Path):
    def also(path: Path) -> None:
        (path / "extra").mkdir()
        (path / "extra" / "file").write_bytes(b"more")

    async with opened(tmp_path / "log") as log:
        await fill(log)
        await log.backup(tmp_path / "backup", also=also)

    await restore(tmp_path / "backup", tmp_path / "new", registry, also=["extra/file"])

    assert (tmp_path / "new" / "extra" / "file").read_bytes() == b"more"
    assert (tmp_path / "new" / "extra" / "file").stat().st_mode & 0o777 == 0o600


# --- what is there already


async def test_a_backup_replaces_nothing(tmp_path: Path):
    (tmp_path / "backup").mkdir()
    async with opened(tmp_path / "log") as log:
        await fill(log)
        with pytest.raises(LogUnavailable, match="another name"):
            await log.backup(tmp_path / "backup")
    assert not list((tmp_path / "backup").iterdir())


async def test_what_is_restored_over_is_kept_beside_it(tmp_path: Path):
    async with opened(tmp_path / "log") as log:
        await filled(log)
        before = await everything(log)
        await log.backup(tmp_path / "backup")
        await fill(log, "later")
        (tmp_path / "log" / "keys").write_text("secret")
        later = await everything(log)

    restored = await restore(tmp_path / "backup", tmp_path / "log", registry, kept=["keys", "none"])

    assert restored.replaced is not None
    async with opened(tmp_path / "log") as log:
        assert await everything(log) == before
    async with opened(Path(restored.replaced)) as log:
        assert await everything(log) == later
    assert (tmp_path / "log" / "keys").read_text() == "secret"


DIES_RESTORING = """
import asyncio, os, sys
import msgspec
from eventlog import EventRegistry, restore
from eventlog.files import log_directory
registry = EventRegistry()
noted = registry.event("test.noted", keys=lambda event: [event.text[:2]])
noted(msgspec.defstruct("Noted", [("text", str)], frozen=True))
log_directory.put_in_place = lambda scratch, directory: os._exit(9)
asyncio.run(restore(sys.argv[1], sys.argv[2], registry))
"""


async def test_opening_finishes_a_restore_that_died(
    tmp_path: Path,
):
    """A restore that died with the old log aside is finished by the next opening."""
    async with opened(tmp_path / "log") as log:
        await fill(log)
        before = await everything(log)
        await log.backup(tmp_path / "backup")
        await fill(log, "later")
        later = await everything(log)

    command = [sys.executable, "-c", DIES_RESTORING, tmp_path / "backup", tmp_path / "log"]
    assert subprocess.run(command, check=False, timeout=60).returncode == 9
    assert not (tmp_path / "log").exists()

    async with opened(tmp_path / "log") as log:
        assert await everything(log) == before
    (aside,) = tmp_path.glob("log.before-*")
    async with opened(aside) as log:
        assert await everything(log) == later
    assert {path.name for path in tmp_path.iterdir()} == {"log", "backup", aside.name}


async def test_an_open_log_is_not_restored_over(tmp_path: Path):
    async with opened(tmp_path / "log") as log:
        await fill(log)
        await log.backup(tmp_path / "backup")
        with pytest.raises(LogLocked):
            await restore(tmp_path / "backup", tmp_path / "log", registry)
        await fill(log)
    assert {path.name for path in tmp_path.iterdir()} == {"log", "backup"}


async def test_a_directory_that_holds_something_else_is_not_restored_over(tmp_path: Path):
    async with opened(tmp_path / "log") as log:
        await fill(log)
        await log.backup(tmp_path / "backup")
    (tmp_path / "empty").mkdir()
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter").write_text("dear")

    with pytest.raises(LogUnavailable, match="no log"):
        await restore(tmp_path / "backup", tmp_path / "mine", registry)
    assert (tmp_path / "mine" / "letter").read_text() == "dear"
    assert (await restore(tmp_path / "backup", tmp_path / "empty", registry)).replaced is None


# --- damage and errors


async def test_a_read_only_disk_is_said_to_be_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A disk that is read only is said to be so."""
    async with opened(tmp_path / "log") as log:
        await fill(log)
        await log.backup(tmp_path / "backup")

    def refuse(*_: Any) -> int:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr("eventlog.files.datafile.lock", refuse)
    with pytest.raises(LogUnavailable, match="Read-only file system: make it writable, or name"):
        await restore(tmp_path / "backup", tmp_path / "log", registry)


async def damaged_files(tmp_path: Path) -> list[Path]:
    async with opened(tmp_path / "log") as log:
        await filled(log)
        await log.backup(tmp_path / "backup")
    return [path for path in (tmp_path / "backup").rglob("*") if path.is_file()]


async def test_a_damaged_backup_is_refused_and_nothing_changed(tmp_path: Path):
    files = await damaged_files(tmp_path)
    assert {file.suffix for file in files} == {".mdb", ".anchor", ".segment", ".json"}
    for file in files:
        whole = file.read_bytes()
        flipped = bytearray(whole)
        flipped[len(whole) // 2] ^= 0xFF
        for data in (whole[:-1], bytes(flipped)):
            file.write_bytes(data)
            with pytest.raises((CorruptLog, LogUnavailable)):
                await restore(tmp_path / "backup", tmp_path / "new", registry)
        file.unlink()
        with pytest.raises((CorruptLog, LogUnavailable)):
            await restore(tmp_path / "backup", tmp_path / "new", registry)
        file.write_bytes(whole)
    assert {path.name for path in tmp_path.iterdir()} == {"log", "backup"}
    await restore(tmp_path / "backup", tmp_path / "new", registry)


async def test_a_manifest_that_names_files_elsewhere_is_refused(tmp_path: Path):
    await damaged_files(tmp_path)
    manifest = backup.read_manifest(tmp_path / "backup")
    outside = backup.BackupFile("../log/log.mdb", 1, "")
    changed = msgspec.structs.replace(manifest, files=[*manifest.files, outside])
    (tmp_path / "backup" / "backup.json").write_bytes(msgspec.json.encode(changed))

    with pytest.raises(CorruptLog, match="does not belong in a backup"):
        await restore(tmp_path / "backup", tmp_path / "new", registry)


ELSEWHERE = {
    "an api key": "api_keys.json",
    "a library": "evil.so",
    "a library in the archive": "archive/evil.so",
    "above it": "../evil",
    "absolute": "/tmp/evil",
    "a segment outside the archive": f"{'0' * 32}-00000001.segment",
    "an unfinished segment": f"archive/{'0' * 32}-00000001.segment.tmp",
    "a segment by a detour": f"archive/./{'0' * 32}-00000001.segment",
    "the log by a detour": "./log.mdb",
    "the lock": "log.mdb.lock",
    "its own mark": ".ready",
    "empty": "",
    "with a zero byte": "log\0mdb",
    "of 5,000 characters": "n" * 5000,
    "no Unicode": "\udcff",
}


def lying(change: str) -> Callable[[backup.Manifest, Path], Any]:
    """Return what makes a manifest one that no backup wrote; it gets the whole one, and where."""
    replaced = msgspec.structs.replace

    def without(name: str) -> Callable[[backup.Manifest, Path], Any]:
        return lambda its, _path: replaced(
            its, files=[file for file in its.files if file.name != name]
        )

    def emptied(name: str) -> Callable[[backup.Manifest, Path], Any]:
        def empty(its: backup.Manifest, path: Path) -> backup.Manifest:
            (path / name).write_bytes(b"")
            nothing = backup.BackupFile(name, 0, hashlib.sha256(b"").hexdigest())
            return replaced(its, files=[nothing if f.name == name else f for f in its.files])

        return empty

    return {
        "no file": lambda its, _path: replaced(its, files=[]),
        "no log": without("log.mdb"),
        "no anchor": without("log.anchor"),
        "an empty log": emptied("log.mdb"),
        "an empty anchor": emptied("log.anchor"),
        "a file twice": lambda its, _path: replaced(its, files=[*its.files, its.files[-1]]),
        "a later position": lambda its, _path: replaced(its, position=10**9),
        "an earlier position": lambda its, _path: replaced(its, position=its.position - 1),
        "another chain": lambda its, _path: replaced(its, chain="00" * 32),
        "another size": lambda its, _path: replaced(
            its, files=[replaced(file, size_bytes=file.size_bytes + 1) for file in its.files]
        ),
        "endless lists": lambda its, _path: msgspec.Raw(
            msgspec.json.encode(its)[:-1] + b',"x":' + b"[" * 100_000 + b"}"
        ),
    }[change]


LIES = [
    "no file", "no log", "no anchor", "an empty log", "an empty anchor", "a file twice",
    "a later position", "an earlier position", "another chain", "another size", "endless lists",
]  # fmt: skip


async def two_logs(path: Path) -> dict[str, Any]:
    """Make a backup, and a log that it could replace; return what is in that."""
    async with opened(path / "other") as log:
        await filled(log)
        await log.backup(path / "backup")
    async with opened(path / "log") as log:
        await fill(log, "mine")
    return files_under(path / "log")


def files_under(directory: Path) -> dict[str, Any]:
    """Return what is in each file; but for the lock, which says who had the log last and when."""
    return {
        str(path.relative_to(directory)): path.suffix == ".lock" or path.read_bytes()
        for path in directory.rglob("*")
        if path.is_file()
    }


async def is_refused(path: Path, before: dict[str, Any]) -> None:
    """See that a backup is refused over a log, and where there is none, and nothing has changed."""
    there = set(path.iterdir())
    for name in ("log", "new"):
        with pytest.raises((CorruptLog, LogUnavailable)):
            await restore(path / "backup", path / name, registry)
    assert files_under(path / "log") == before
    assert set(path.iterdir()) == there


@pytest.mark.parametrize("change", LIES)
async def test_an_untrue_manifest_is_refused(tmp_path: Path, change: str):
    """A manifest that is not true is refused, and nothing is changed."""
    before = await two_logs(tmp_path)
    manifest = backup.read_manifest(tmp_path / "backup")
    changed = lying(change)(manifest, tmp_path / "backup")
    (tmp_path / "backup" / "backup.json").write_bytes(msgspec.json.encode(changed))

    await is_refused(tmp_path, before)


@pytest.mark.parametrize("name", ELSEWHERE.values(), ids=ELSEWHERE)
async def test_a_file_foreign_to_backups_is_not_put_back(tmp_path: Path, name: str):
    """A file that no backup has is not put into place."""
    before = await two_logs(tmp_path)
    manifest = backup.read_manifest(tmp_path / "backup")
    data = b"{}"
    with suppress(OSError, ValueError):
        (tmp_path / "backup" / name).write_bytes(data)
    planted = backup.BackupFile("?", len(data), hashlib.sha256(data).hexdigest())
    changed = msgspec.structs.replace(manifest, files=[*manifest.files, planted])
    written = msgspec.json.encode(changed).replace(b'"?"', json.dumps(name).encode())
    (tmp_path / "backup" / "backup.json").write_bytes(written)

    try:
        await is_refused(tmp_path, before)
    finally:
        Path("/tmp/evil").unlink(missing_ok=True)


async def test_files_of_two_backups_are_no_backup(tmp_path: Path):
    """Each file is whole and listed with its digest; the anchor is of an earlier moment."""
    before = await two_logs(tmp_path)
    async with opened(tmp_path / "other") as log:
        await fill(log, "later")
        await log.backup(tmp_path / "second")
    shutil.copyfile(tmp_path / "backup" / "log.anchor", tmp_path / "second" / "log.anchor")
    first = {file.name: file for file in backup.read_manifest(tmp_path / "backup").files}
    second = backup.read_manifest(tmp_path / "second")
    files = [first[f.name] if f.name == "log.anchor" else f for f in second.files]
    changed = msgspec.structs.replace(second, files=files)
    (tmp_path / "second" / "backup.json").write_bytes(msgspec.json.encode(changed))
    shutil.rmtree(tmp_path / "backup")
    (tmp_path / "second").rename(tmp_path / "backup")

    await is_refused(tmp_path, before)


@pytest.mark.parametrize("name", ["backup", "backup/../backup", "link"])
async def test_a_backup_is_not_restored_onto_itself(tmp_path: Path, name: str):
    await two_logs(tmp_path)
    (tmp_path / "link").symlink_to(tmp_path / "backup")
    before = files_under(tmp_path / "backup")

    with pytest.raises(LogUnavailable, match="is the directory that it would be restored to"):
        await restore(tmp_path / "backup", tmp_path / name, registry)

    assert files_under(tmp_path / "backup") == before


async def test_a_backup_named_like_an_unfinished_restore_stays(
    tmp_path: Path,
):
    """A backup that has the name of an unfinished restore is not cleared away."""
    await two_logs(tmp_path)
    (tmp_path / "backup").rename(tmp_path / "log.restoring")
    (tmp_path / "log.restoring" / ".unfinished").touch()
    before = files_under(tmp_path / "log.restoring")

    with pytest.raises(LogUnavailable, match="is the directory that it would be restored to"):
        await restore(tmp_path / "log.restoring", tmp_path / "log", registry)

    assert files_under(tmp_path / "log.restoring") == before


async def test_a_damaged_log_is_not_backed_up(tmp_path: Path):
    async with opened(tmp_path / "log") as log:
        await fill(log)
        await log.archive("s", range(1, 11))
        (segment,) = (tmp_path / "log" / "archive").iterdir()
        whole = segment.read_bytes()
        segment.write_bytes(whole[:-1] + b"?")
        with pytest.raises(CorruptLog, match="sealed"):
            await log.backup(tmp_path / "backup")
        segment.write_bytes(whole)
        await log.backup(tmp_path / "backup")
    assert {path.name for path in tmp_path.iterdir()} == {"log", "backup"}


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
async def test_a_disk_that_fails_leaves_nothing_of_a_backup(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
):
    def fail(*_: Any) -> None:
        raise OSError(code, "no")

    open_file = datafile.opened

    def fail_at_manifest(path: Path, *flags: int) -> Any:
        return fail() if path.name == "backup.json" else open_file(path, *flags)

    harms = {
        (backup, "copied"): fail,
        (backup, "_listed"): fail,
        (datafile, "opened"): fail_at_manifest,
        (log_directory, "put_in_place"): fail,
    }
    async with opened(tmp_path / "log") as log:
        await filled(log)
        for (module, name), harm in harms.items():
            with monkeypatch.context() as patched:
                patched.setattr(module, name, harm)
                with pytest.raises(DiskFull if code == errno.ENOSPC else StorageFailed):
                    await log.backup(tmp_path / "backup")
            assert {path.name for path in tmp_path.iterdir()} == {"log"}
        await log.backup(tmp_path / "backup")


async def test_leftovers_of_a_dead_process_are_removed(tmp_path: Path):
    """The leftovers of a dead process are taken away, and nothing else."""
    async with opened(tmp_path / "log") as log:
        await fill(log)
        (tmp_path / "one.partial").mkdir()
        (tmp_path / "one.partial" / ".unfinished").touch()
        (tmp_path / "one.partial" / "log.mdb").write_bytes(b"half")
        (tmp_path / "other.partial").mkdir()
        (tmp_path / "other.partial" / "mine").touch()

        await log.backup(tmp_path / "one")
        with pytest.raises(LogUnavailable):
            await log.backup(tmp_path / "other")

    assert (tmp_path / "other.partial" / "mine").exists()
    assert not (tmp_path / "one.partial").exists()
