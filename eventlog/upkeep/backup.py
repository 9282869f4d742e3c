"""Backup and restore: a directory that holds a log as it was at one moment.

Backing up and restoring an encrypted log needs no keys, and a backup contains none.

A backup is made while the log is in use, from one read transaction: tables, the archive's segments,
an anchor. It is opened and verified like any log, synced, and renamed.

A restore believes nothing of that. It takes the files that a backup can have, and no others; a copy
has to have the listed digests, and to be a log without findings that ends where the manifest and
the anchor say. Only then it is put in the place of what is there, which is moved aside and never
deleted. If the process dies in between, who opens the log next finishes it (log_directory.py).
"""

import hashlib
import os
from collections.abc import Callable, Collection
from pathlib import Path

import anyio.to_thread
import msgspec

from eventlog.core.capabilities import Also
from eventlog.core.codec import EventRegistry
from eventlog.core.errors import CorruptLog, LogUnavailable
from eventlog.core.keys import NO_KEYS
from eventlog.core.records import BackedUp, Restored, to_datetime
from eventlog.core.requests import system_clock_us
from eventlog.files import datafile, log_directory
from eventlog.lmdb.file import MAP_BYTES, Transaction
from eventlog.lmdb.opening import Files, put_shrunk
from eventlog.lmdb.segment import parse_name
from eventlog.lmdb.tables import all_segments
from eventlog.upkeep.verification import Verification

MANIFEST = "backup.json"
FORMAT = 1
READ_BYTES = 1 << 20
MANIFEST_BYTES_MAX = 256 << 20  # a million segments of the archive


class BackupFile(msgspec.Struct, frozen=True):
    """A file of a backup."""

    name: str
    """Its path in the backup, with slashes."""
    size_bytes: int
    sha256: str


class Manifest(msgspec.Struct, frozen=True):
    """The list of what is in a backup."""

    format: int
    made_at_us: int
    position: int
    chain: str
    """Chain of the last event, in hex digits."""
    files: list[BackupFile]


# --- backup


def write_backup(files: Files, directory: Path, now_us: int, also: Also | None) -> BackedUp:
    """Write a backup of an open log. Blocks; nobody may archive or drop meanwhile.

    Raises as `EventLog.backup` does.
    """
    if datafile.is_there(directory):
        raise LogUnavailable(f"{directory} is there already: give the backup another name")
    with log_directory.written(directory, ".partial") as scratch:
        tail = _copy_log(files, scratch)
        _copy_segments(files, scratch / log_directory.ARCHIVE)
        if also is not None:
            also(scratch)
        verify_copy(scratch, files.registry, now_us)
        manifest = Manifest(FORMAT, now_us, tail.position, tail.chain.hex(), _listed(scratch))
        with datafile.opened(scratch / MANIFEST, datafile.ANEW | os.O_EXCL) as file:
            file.write(msgspec.json.format(msgspec.json.encode(manifest)))
        log_directory.put_in_place(scratch, directory)
    size = sum(listed.size_bytes for listed in manifest.files)
    return BackedUp(str(directory), tail.position, tail.position, len(manifest.files), size)


def _copy_log(files: Files, scratch: Path) -> log_directory.Tail:
    tails = []

    def store(txn: Transaction, transactions: int) -> None:
        put_shrunk(txn, transactions)
        tails.append(files.ledger.tail(txn))

    transaction = files.env.copy_to(scratch / log_directory.LOG, store)
    (tail,) = tails
    anchor = log_directory.Anchor(scratch / log_directory.ANCHOR)
    anchor.write(tail._replace(transaction=transaction))
    anchor.close()
    return tail


def _copy_segments(files: Files, directory: Path) -> None:
    with files.env.read() as txn:
        kept = [found for found in all_segments(txn) if found[1].dropped_at_us is None]
    if kept:
        directory.mkdir(datafile.DIRECTORY_MODE)
    for segment, record in kept:
        _, digest = copied(files.archive.directory / segment.name, directory / segment.name)
        if digest != record.sha256.hex():
            raise CorruptLog(f"{segment.name} is not the file that was sealed: verify the log")


def verify_copy(directory: Path, registry: EventRegistry, now_us: int) -> log_directory.Tail:
    """Open a copy and verify it; return where it ends, which is how many events it has.

    :raises CorruptLog: it is not whole.
    """
    files = Files.open(directory, registry, now_us, MAP_BYTES, keys=NO_KEYS)
    try:
        report = Verification(files, None).run()
        with files.env.read() as txn:
            tail = files.ledger.tail(txn)
    finally:
        files.close()
    for suffix in (".lock", "-lock"):
        datafile.beside(directory / log_directory.LOG, suffix).unlink(missing_ok=True)
    if not report.ok:
        raise CorruptLog(
            f"the copy has {len(report.findings)} findings, the first of them: "
            f"{report.findings[0].message}: verify the log, then repair it or restore a backup"
        )
    return tail


# --- restore


def read_manifest(backup: Path) -> Manifest:
    """Return the manifest of a backup.

    :raises LogUnavailable: there is no backup, or of a newer format.
    """
    try:
        with datafile.opened(backup / MANIFEST) as file:
            data = file.read(MANIFEST_BYTES_MAX)
        manifest = msgspec.json.decode(data, type=Manifest)
    except (OSError, ValueError, RecursionError) as error:
        raise LogUnavailable(f"{backup} is no backup: it has no readable {MANIFEST}") from error
    if manifest.format != FORMAT:
        raise LogUnavailable(f"{backup} has format {manifest.format}, not {FORMAT}: upgrade")
    return manifest


def _check_names(backup: Path, manifest: Manifest, also: Collection[str]) -> None:
    names = [file.name for file in manifest.files]
    for name in names:
        segment = parse_name(name.removeprefix(f"{log_directory.ARCHIVE}/"))
        is_segment = segment is not None and name == f"{log_directory.ARCHIVE}/{segment[0].name}"
        if not (is_segment or name in (log_directory.LOG, log_directory.ANCHOR) or name in also):
            raise CorruptLog(
                f"{backup} names a file that does not belong in a backup, {name!r:.80}: it is not "
                "as it was written, use another one"
            )
    missing = {log_directory.LOG, log_directory.ANCHOR}.difference(names)
    if missing or len(set(names)) < len(names):
        what = f"does not name {min(missing)}" if missing else "names a file twice"
        raise CorruptLog(f"{backup} {what}: it is not as it was written, use another one")


def _check_end(backup: Path, manifest: Manifest, scratch: Path, tail: log_directory.Tail) -> None:
    known = log_directory.read_anchor(scratch / log_directory.ANCHOR)
    ends = {(end.position, end.chain.hex()) for end in (known, tail)}
    if not known.is_known or ends != {(manifest.position, manifest.chain)}:
        raise CorruptLog(
            f"{backup} says that it ends at position {manifest.position}, its anchor at "
            f"{known.position}, and its log does at {tail.position}, or with another event: they "
            "are not of one backup, use another one"
        )


def _restore(
    backup: Path,
    directory: Path,
    registry: EventRegistry,
    now_us: int,
    also: Collection[str],
    kept: Collection[str],
) -> Restored:
    manifest = read_manifest(backup)
    _check_names(backup, manifest, also)
    for place in (
        directory,
        datafile.beside(directory, log_directory.RESTORING),
    ):  # aside with it, or cleared away
        if datafile.is_there(place) and backup.samefile(place):
            raise LogUnavailable(
                f"{backup} is the directory that it would be restored to: name another directory, "
                "or open it where it is"
            )
    with (
        log_directory.held(directory) as replaces,
        log_directory.written(directory, log_directory.RESTORING) as scratch,
    ):
        for listed in manifest.files:
            source = backup / listed.name
            if copied(source, scratch / listed.name) != (listed.size_bytes, listed.sha256):
                raise CorruptLog(f"{source} is damaged: use another backup")
        tail = verify_copy(scratch, registry, now_us)
        _check_end(backup, manifest, scratch, tail)
        for name in kept:
            if datafile.is_there(directory / name):
                copied(directory / name, scratch / name)
        log_directory.say_ready(scratch)
        aside = None
        if replaces:
            aside = datafile.beside(directory, f".before-{to_datetime(now_us):%Y%m%dT%H%M%S%f}")
            directory.rename(aside)
        try:
            log_directory.put_in_place(scratch, directory)
        except OSError:
            if aside is not None and not directory.exists():
                aside.rename(directory)
            raise
    return Restored(str(directory), tail.position, None if aside is None else str(aside))


# --- files


def copied(source: Path, target: Path) -> tuple[int, str]:
    """Copy a file, synced and for its owner only; return its size and digest.

    :raises CorruptLog: it is missing.
    :raises LogUnavailable: it cannot be read.
    """
    digest = hashlib.sha256()
    try:
        file = datafile.opened(source)
    except FileNotFoundError as error:
        raise CorruptLog(f"{source} is missing: restore a backup that has it") from error
    except OSError as error:
        raise LogUnavailable(f"cannot read {source}: {error.strerror}") from error
    target.parent.mkdir(datafile.DIRECTORY_MODE, parents=True, exist_ok=True)
    with file, datafile.opened(target, datafile.ANEW | os.O_EXCL) as copy:
        while data := file.read(READ_BYTES):
            digest.update(data)
            copy.write(data)
        copy.flush()
        os.fsync(copy.fileno())
        return copy.tell(), digest.hexdigest()


def _listed(directory: Path) -> list[BackupFile]:
    found = []
    for path in log_directory.files_in(directory):
        with os.fdopen(datafile.open_regular(path), "rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
            name = path.relative_to(directory).as_posix()
            found.append(BackupFile(name, file.tell(), digest))
    return found


async def restore(
    backup: str | Path,
    directory: str | Path,
    registry: EventRegistry,
    *,
    clock: Callable[[], int] = system_clock_us,
    also: Collection[str] = (),
    kept: Collection[str] = (),
) -> Restored:
    """Put a backup in the place of a log that is closed, or of none.

    `also` names what a backup may have beside the log: what was put there by who made it. An
    existing log is moved to `<directory>.before-<time>`; files of it named in `kept` are copied
    into the new one. A copy of the backup is verified before anything changes.

    :raises LogUnavailable: `backup` is none, or `directory` itself, or cannot be read; or
        `directory` holds something else or cannot be used.
    :raises LogLocked: the log that is there is open.
    :raises CorruptLog: the backup is damaged, or not what it says that it is.
    :raises DiskFull, StorageFailed: nothing was changed, or see the message.
    """
    return await anyio.to_thread.run_sync(
        _restore, datafile.named(backup), datafile.named(directory), registry, clock(), also, kept
    )
