"""Copies of a log: one moment of it, whole or not there; putting one back loses nothing."""

import errno
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from contracts.stores import Keyed, opened, registry

from eventlog import (
    ANY_VERSION,
    Checkpoint,
    CorruptLog,
    DiskFull,
    EventLog,
    LogLocked,
    LogUnavailable,
    Snapshot,
    StorageFailed,
    copy_log,
)
from eventlog.files import log_directory
from eventlog.upkeep import copying

pytestmark = [pytest.mark.anyio, pytest.mark.user]


async def fill(log: EventLog, stream: str = "s", events: int = 30) -> None:
    notes = [Keyed(f"{n} {stream} " * (300 if n % 7 == 0 else 1)) for n in range(events)]
    await log.append(stream, notes, ANY_VERSION, counters={"n": events})


async def filled(log: EventLog) -> None:
    """Put something everywhere."""
    await fill(log)
    await log.append("t", [Keyed("once")], 0, idempotency_key="k")
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

    restored = copy_log(tmp_path / "backup", tmp_path / "new", registry)

    assert made.position == 61
    assert (restored.position, restored.replaced) == (61, None)
    async with opened(tmp_path / "new") as log:
        assert await everything(log) == before
        assert (await log.append("t", [Keyed("once")], 0, idempotency_key="k")).duplicate
        await log.append("t", [Keyed("on")], 1)
        await log.shrink(force=True)
    async with opened(tmp_path / "new") as log:
        assert (await log.verify()).findings == []


async def test_more_may_be_put_into_a_backup_and_comes_back(tmp_path: Path):
    def also(path: Path) -> None:
        (path / "extra").mkdir()
        (path / "extra" / "file").write_bytes(b"more")

    async with opened(tmp_path / "log") as log:
        await fill(log)
        await log.backup(tmp_path / "backup", also=also)

    copy_log(tmp_path / "backup", tmp_path / "new", registry, also=["extra/file"])

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

    restored = copy_log(tmp_path / "backup", tmp_path / "log", registry, kept=["keys", "none"])

    assert restored.replaced is not None
    async with opened(tmp_path / "log") as log:
        assert await everything(log) == before
    async with opened(Path(restored.replaced)) as log:
        assert await everything(log) == later
    assert (tmp_path / "log" / "keys").read_text() == "secret"


DIES_RESTORING = """
import os, sys
from pathlib import Path
from contracts.stores import registry
from eventlog import copy_log
from eventlog.files import log_directory
log_directory.put_in_place = lambda scratch, directory: os._exit(9)
copy_log(Path(sys.argv[1]), Path(sys.argv[2]), registry)
"""


@pytest.mark.parametrize("empty", [False, True])
async def test_opening_finishes_a_restore_that_died(tmp_path: Path, empty: bool):
    """Also where a directory was made for the log since then, and nothing put into it."""
    async with opened(tmp_path / "log") as log:
        await fill(log)
        before = await everything(log)
        await log.backup(tmp_path / "backup")
        await fill(log, "later")
        later = await everything(log)

    command = [sys.executable, "-c", DIES_RESTORING, tmp_path / "backup", tmp_path / "log"]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    assert subprocess.run(command, check=False, timeout=60, env=env).returncode == 9
    assert not (tmp_path / "log").exists()
    if empty:
        (tmp_path / "log").mkdir()

    async with opened(tmp_path / "log") as log:
        assert await everything(log) == before
    (aside,) = tmp_path.glob("log.before-*")
    async with opened(aside) as log:
        assert await everything(log) == later
    assert {path.name for path in tmp_path.iterdir()} == {"log", "backup", aside.name}


@pytest.mark.parametrize("place", ["log", "empty", "none"])
async def test_a_symbolic_link_stays_and_leads_to_the_restored_log(tmp_path: Path, place: str):
    """Also if the process died before the new log was in its place."""
    async with opened(tmp_path / "log") as log:
        await fill(log)
        before = await everything(log)
        await log.backup(tmp_path / "backup")
    (tmp_path / "empty").mkdir()
    link = tmp_path / "link"
    link.symlink_to(place)

    command = [sys.executable, "-c", DIES_RESTORING, tmp_path / "backup", link]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    assert subprocess.run(command, check=False, timeout=60, env=env).returncode == 9
    async with opened(link) as log:
        assert await everything(log) == before

    copy_log(tmp_path / "backup", link, registry)

    assert link.readlink() == Path(place)
    async with opened(tmp_path / place) as log:
        assert await everything(log) == before


async def test_an_open_log_is_not_restored_over(tmp_path: Path):
    async with opened(tmp_path / "log") as log:
        await fill(log)
        await log.backup(tmp_path / "backup")
        with pytest.raises(LogLocked):
            copy_log(tmp_path / "backup", tmp_path / "log", registry)
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
        copy_log(tmp_path / "backup", tmp_path / "mine", registry)
    assert (tmp_path / "mine" / "letter").read_text() == "dear"
    assert copy_log(tmp_path / "backup", tmp_path / "empty", registry).replaced is None


# --- damage and errors


async def test_a_read_only_disk_is_said_to_be_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    async with opened(tmp_path / "log") as log:
        await fill(log)
        await log.backup(tmp_path / "backup")

    def refuse(*_: Any) -> int:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr("eventlog.files.datafile.lock", refuse)
    with pytest.raises(LogUnavailable, match="Read-only file system: make it writable, or name"):
        copy_log(tmp_path / "backup", tmp_path / "log", registry)


@pytest.mark.parametrize("kind", [".mdb", ".anchor", ".segment"])
async def test_a_damaged_backup_is_refused_and_nothing_changed(tmp_path: Path, kind: str):
    before = await two_logs(tmp_path)
    (file,) = [path for path in (tmp_path / "backup").rglob("*") if path.suffix == kind][:1]
    whole = file.read_bytes()
    flipped = whole.replace(b"29 s ", b"29 t ") if kind == ".mdb" else whole[::-1]
    assert flipped != whole
    for data in (b"", flipped):
        file.write_bytes(data)
        await is_refused(tmp_path, before)
    file.unlink()
    await is_refused(tmp_path, before)


FOREIGN = [
    "api_keys.json", "evil.so", "archive/evil.so", f"{'0' * 32}-00000001.segment", "log.mdb.lock",
    f"archive/{'0' * 32}-00000001.segment", f"archive/{'0' * 32}-00000001.segment.tmp", ".ready",
    "indexes/x.words",
]  # fmt: skip


async def test_a_file_foreign_to_logs_is_not_copied(tmp_path: Path):
    """Nor is it in the copy once that has been opened, if it has the name of a segment."""
    await two_logs(tmp_path)
    (tmp_path / "backup" / "indexes").mkdir()
    for name in FOREIGN:
        (tmp_path / "backup" / name).write_bytes(b"{}")

    copy_log(tmp_path / "backup", tmp_path / "new", registry)

    async with opened(tmp_path / "new") as log:
        assert (await log.verify()).findings == []
    assert set(FOREIGN) & set(files_under(tmp_path / "new")) == {"log.mdb.lock"}


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
            copy_log(path / "backup", path / name, registry)
    assert files_under(path / "log") == before
    assert set(path.iterdir()) == there


async def test_an_older_log_behind_a_newer_anchor_is_refused(tmp_path: Path):
    before = await two_logs(tmp_path)
    async with opened(tmp_path / "other") as log:
        await fill(log, "later")
        await log.backup(tmp_path / "second")
    shutil.copyfile(tmp_path / "second" / "log.anchor", tmp_path / "backup" / "log.anchor")

    await is_refused(tmp_path, before)


@pytest.mark.parametrize("name", ["backup", "backup/../backup", "link"])
async def test_a_backup_is_not_restored_onto_itself(tmp_path: Path, name: str):
    await two_logs(tmp_path)
    (tmp_path / "link").symlink_to(tmp_path / "backup")
    before = files_under(tmp_path / "backup")

    with pytest.raises(LogUnavailable, match="is the directory that it would be copied to"):
        copy_log(tmp_path / "backup", tmp_path / name, registry)

    assert files_under(tmp_path / "backup") == before


async def test_a_backup_named_like_an_unfinished_restore_stays(
    tmp_path: Path,
):
    """A backup that has the name of an unfinished restore is not cleared away."""
    await two_logs(tmp_path)
    (tmp_path / "backup").rename(tmp_path / "log.restoring")
    (tmp_path / "log.restoring" / ".unfinished").touch()
    before = files_under(tmp_path / "log.restoring")

    with pytest.raises(LogUnavailable, match="is the directory that it would be copied to"):
        copy_log(tmp_path / "log.restoring", tmp_path / "log", registry)

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

    harms = {(copying, "copied"): fail, (log_directory, "put_in_place"): fail}
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
