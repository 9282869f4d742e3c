"""Backup and restore: a directory that holds a log as it was at one moment.

Of a log that is encrypted both are made without its keys, and no keys are in a backup.

A backup is made while the log is in use: the tables are copied row by row in one read transaction,
then the archive's segments that these tables name, then an anchor of their own. It is written under
another name, opened and verified like any log, synced, and renamed: a directory of the wanted name
is a whole backup. `backup.json` in it has the digest of every file.

A restore compares the digests, copies, verifies the copy, and only then puts it in the place of
what is there. That is moved aside and never deleted: nobody wants to learn afterwards that the
backup was of another log. Both directories are on disk before the first rename, and a rename is
atomic; if the process dies between the two, who opens the log next does the second (placing.py).
"""

import hashlib
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeAlias

import anyio.to_thread
import msgspec

from eventlog.anchor import Anchor, Tail
from eventlog.codec import EventRegistry
from eventlog.datafile import DIRECTORY_MODE, beside, is_there, named, new_file, sync_to_disk
from eventlog.environment import MAP_BYTES, Transaction
from eventlog.errors import CorruptLog, LogUnavailable
from eventlog.keys import NO_KEYS
from eventlog.opening import Files
from eventlog.placing import (
    ANCHOR,
    ARCHIVE,
    LOG,
    RESTORING,
    files_in,
    held,
    put_in_place,
    say_ready,
    written,
)
from eventlog.records import to_datetime
from eventlog.requests import system_clock_us
from eventlog.segment_table import all_segments
from eventlog.store_format import put_shrunk
from eventlog.verification import Verification

MANIFEST = "backup.json"
FORMAT = 1
READ_BYTES = 1 << 20

Also: TypeAlias = Callable[[Path], object]


class BackupFile(msgspec.Struct, frozen=True):
    """A file of a backup."""

    name: str
    """Its path in the backup, with slashes."""
    size_bytes: int
    sha256: str


class Manifest(msgspec.Struct, frozen=True):
    """What a backup consists of."""

    format: int
    made_at_us: int
    position: int
    chain: str
    """Of the last event, in hex digits."""
    files: list[BackupFile]


class BackedUp(msgspec.Struct, frozen=True):
    """A backup that was written and verified."""

    directory: str
    position: int
    """Of its last event."""
    events: int
    files: int
    size_bytes: int


class Restored(msgspec.Struct, frozen=True):
    """A log that was put in its place."""

    directory: str
    position: int
    replaced: str | None
    """Where the log is now that was there before."""


# --- backup


def write_backup(files: Files, directory: Path, now_us: int, also: Also | None) -> BackedUp:
    """Write a backup of an open log. Blocks; nobody may archive or drop meanwhile.

    Raises as `EventLog.backup` does.
    """
    if is_there(directory):
        raise LogUnavailable(f"{directory} is there already: give the backup another name")
    with written(directory, ".partial") as scratch:
        tail = _copy_log(files, scratch)
        _copy_segments(files, scratch / ARCHIVE)
        if also is not None:
            also(scratch)
        events = verify_copy(scratch, files.registry, now_us)
        manifest = Manifest(FORMAT, now_us, tail.position, tail.chain.hex(), _listed(scratch))
        _write(scratch / MANIFEST, msgspec.json.format(msgspec.json.encode(manifest)))
        _sync_all(scratch)
        put_in_place(scratch, directory)
    size = sum(file.size_bytes for file in manifest.files)
    return BackedUp(str(directory), tail.position, events, len(manifest.files), size)


def _copy_log(files: Files, scratch: Path) -> Tail:
    """Copy the tables as of one moment, and write the anchor that belongs to the copy."""
    tails = []

    def store(txn: Transaction, transactions: int) -> None:
        put_shrunk(files.env, txn, transactions)
        tails.append(files.ledger.tail(txn))

    transaction = files.env.copy_to(scratch / LOG, store)
    (tail,) = tails
    anchor = Anchor(scratch / ANCHOR)
    anchor.write(tail._replace(transaction=transaction))
    anchor.close()
    return tail


def _copy_segments(files: Files, directory: Path) -> None:
    with files.env.read() as txn:
        kept = [found for found in all_segments(files.env, txn) if found[1].dropped_at_us is None]
    if kept:
        directory.mkdir(DIRECTORY_MODE)
    for segment, record in kept:
        digest = _copy(files.archive.directory / segment.name, directory / segment.name)
        if digest != record.sha256.hex():
            raise CorruptLog(f"{segment.name} is not the file that was sealed: verify the log")


def verify_copy(directory: Path, registry: EventRegistry, now_us: int) -> int:
    """Open a copy and verify it; return how many events it has, which is its last position.

    :raises CorruptLog: it is not whole.
    """
    files = Files.open(directory, registry, now_us, MAP_BYTES, keys=NO_KEYS)
    try:
        report = Verification(files.env, files.ledger, files.reading, files.archive, None).run()
    finally:
        files.close()
    for suffix in (".lock", "-lock"):
        beside(directory / LOG, suffix).unlink(missing_ok=True)
    if not report.ok:
        raise CorruptLog(
            f"the copy has {len(report.findings)} findings, the first of them: "
            f"{report.findings[0].message}: verify the log, then repair it or restore a backup"
        )
    return report.events


# --- restore


def read_manifest(backup: Path) -> Manifest:
    """Return what a backup says that it is.

    :raises LogUnavailable: there is no backup, or of a newer format.
    """
    try:
        manifest = msgspec.json.decode((backup / MANIFEST).read_bytes(), type=Manifest)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise LogUnavailable(f"{backup} is no backup: it has no readable {MANIFEST}") from error
    if manifest.format != FORMAT:
        raise LogUnavailable(f"{backup} has format {manifest.format}, not {FORMAT}: upgrade")
    return manifest


def check_files(backup: Path) -> Manifest:
    """Compare every file of a backup with the digest in its manifest. Blocks.

    :raises CorruptLog: one is missing, or is not what was written.
    """
    manifest = read_manifest(backup)
    for file in manifest.files:
        path = backup / file.name
        if Path(file.name).is_absolute() or ".." in Path(file.name).parts:
            raise CorruptLog(f"{backup} names a file outside of it: {file.name!r}")
        if not path.is_file() or _digest(path) != file.sha256:
            raise CorruptLog(f"{path} is missing or damaged: use another backup")
    return manifest


def restore_files(
    backup: Path,
    directory: Path,
    registry: EventRegistry,
    now_us: int,
    kept: Sequence[str] = (),
) -> Restored:
    """Put a backup in the place of a log that is closed, or of none. Blocks.

    What is there is moved to `<directory>.before-<time>`; files of it named in `kept` are copied
    into the new one. Nothing is changed before the copy of the backup has been verified.

    :raises LogUnavailable: `backup` is none, or `directory` holds something else or cannot be used.
    :raises LogLocked: the log that is there is open.
    :raises CorruptLog: the backup is damaged.
    :raises DiskFull, StorageFailed: nothing was changed, or see the message.
    """
    manifest = check_files(backup)
    with held(directory) as is_there, written(directory, RESTORING) as scratch:
        for file in manifest.files:
            _copy(backup / file.name, scratch / file.name)
        position = verify_copy(scratch, registry, now_us)
        for name in kept:
            if (directory / name).exists():
                _copy(directory / name, scratch / name)
        _sync_all(scratch)
        say_ready(scratch)
        aside = _moved_aside(directory, now_us) if is_there else None
        _take_its_place(scratch, directory, aside)
    return Restored(str(directory), position, None if aside is None else str(aside))


def _moved_aside(directory: Path, now_us: int) -> Path:
    aside = beside(directory, f".before-{to_datetime(now_us):%Y%m%dT%H%M%S%f}")
    directory.rename(aside)
    return aside


def _take_its_place(scratch: Path, directory: Path, aside: Path | None) -> None:
    try:
        put_in_place(scratch, directory)
    except OSError:
        if aside is not None and not directory.exists():
            aside.rename(directory)
        raise


# --- files


def _copy(source: Path, target: Path) -> str:
    """Copy a file, synced and for its owner only; return its digest."""
    digest = hashlib.sha256()
    target.parent.mkdir(DIRECTORY_MODE, parents=True, exist_ok=True)
    with new_file(target) as copy, source.open("rb") as file:
        while data := file.read(READ_BYTES):
            digest.update(data)
            copy.write(data)
        copy.flush()
        os.fsync(copy.fileno())
    return digest.hexdigest()


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _listed(directory: Path) -> list[BackupFile]:
    return [
        BackupFile(path.relative_to(directory).as_posix(), path.stat().st_size, _digest(path))
        for path in files_in(directory)
    ]


def _write(path: Path, data: bytes) -> None:
    with new_file(path) as file:
        file.write(data)


def _sync_all(directory: Path) -> None:
    """Make everything in a directory durable."""
    for path in [*directory.rglob("*"), directory]:
        sync_to_disk(path)


async def restore(
    backup: str | Path,
    directory: str | Path,
    registry: EventRegistry,
    *,
    clock: Callable[[], int] = system_clock_us,
    kept: Sequence[str] = (),
) -> Restored:
    """Put a backup in the place of a log. See `restore_files`, which it runs in a thread."""
    return await anyio.to_thread.run_sync(
        restore_files, Path(backup), named(directory), registry, clock(), kept
    )
