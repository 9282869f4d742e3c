"""Copies of a log in another directory: a backup of an open log, or any closed log, in its place.

Copying an encrypted log needs no keys, and a copy contains none. Copies in a database are in
to_database.py.

A backup is made while the log is in use, from one read transaction: tables, the archive's segments,
an anchor. It is a log like any other: it can be opened, verified and copied.

`copy_log` believes nothing of its source. It takes the files that a log can have, and no others.
The copy has to be a log without findings that ends where its anchor says. Only then it is put in
the place of what is there, which is moved aside and never deleted. If the process dies in between,
the next opening finishes it (log_directory.py).
"""

import hashlib
import os
from collections.abc import Collection, Iterator
from contextlib import nullcontext
from pathlib import Path

from eventlog.core.capabilities import Also, Progress
from eventlog.core.codec import EventRegistry
from eventlog.core.errors import CorruptLog, LogUnavailable
from eventlog.core.keys import NO_KEYS
from eventlog.core.records import Copied, to_datetime
from eventlog.core.requests import system_clock_us
from eventlog.files import datafile, log_directory
from eventlog.lmdb.file import MAP_BYTES, Transaction
from eventlog.lmdb.opening import Files, put_shrunk
from eventlog.lmdb.segment import parse_name
from eventlog.lmdb.tables import all_segments
from eventlog.upkeep.verification import Verification

READ_BYTES = 1 << 20


# --- of an open log


def write_backup(files: Files, directory: Path, now_us: int, also: Also | None) -> Copied:
    """Write a backup of an open log. Blocks; nobody may archive or drop meanwhile.

    Raises as `EventLog.backup` does.
    """
    if datafile.is_there(directory):
        raise LogUnavailable(f"{directory} is there already: give the backup another name")
    with log_directory.written(directory, ".partial") as scratch:
        _copy_tables(files, scratch)
        _copy_segments(files, scratch / log_directory.ARCHIVE)
        if also is not None:
            also(scratch)
        position = verify_copy(scratch, files.registry, now_us)
        log_directory.put_in_place(scratch, directory)
    return Copied(str(directory), position, datafile.bytes_under(directory))


def _copy_tables(files: Files, scratch: Path) -> None:
    tails = []

    def store(txn: Transaction, transactions: int) -> None:
        put_shrunk(txn, transactions)
        tails.append(files.ledger.tail(txn))

    transaction = files.env.copy_to(scratch / log_directory.LOG, store)
    (tail,) = tails
    anchor = log_directory.Anchor(scratch / log_directory.ANCHOR)
    anchor.write(tail._replace(transaction=transaction))
    anchor.close()


def _copy_segments(files: Files, directory: Path) -> None:
    with files.env.read() as txn:
        kept = [found for found in all_segments(txn) if found[1].dropped_at_us is None]
    for segment, record in kept:
        digest = copied(files.archive.directory / segment.name, directory / segment.name)
        if digest != record.sha256:
            raise CorruptLog(f"{segment.name} is not the file that was sealed: verify the log")


def verify_copy(
    directory: Path, registry: EventRegistry, now_us: int, progress: Progress | None = None
) -> int:
    """Open a copy and verify it; return the position of its last event.

    :raises CorruptLog: it is not whole.
    """
    files = Files.open(directory, registry, now_us, MAP_BYTES, MAP_BYTES, keys=NO_KEYS)
    try:
        report = Verification(files, progress).run()
    finally:
        files.close()
    for suffix in (".lock", "-lock"):
        datafile.beside(directory / log_directory.LOG, suffix).unlink(missing_ok=True)
    if not report.ok:
        raise CorruptLog(
            f"the copy has {len(report.findings)} findings, the first of them: "
            f"{report.findings[0].message}: verify the log, then repair it or restore a backup"
        )
    return files.position


# --- of a closed log


def copy_log(
    source: Path,
    directory: Path,
    registry: EventRegistry,
    *,
    also: Collection[str] = (),
    kept: Collection[str] = (),
    progress: Progress | None = None,
) -> Copied:
    """Put a copy of a closed log, or of a backup, in the place of another log, or of none. Blocks.

    `also` names files that are copied too, if they are beside the log. An existing log is moved to
    `<directory>.before-<time>`; files of it named in `kept` are copied into the new one. If
    `directory` is a symbolic link, that is done where it leads. The copy is verified before
    anything changes; `progress(done, total)` counts its events.

    :raises LogUnavailable: `source` has no log, or is `directory`, or cannot be read; or
        `directory` holds something else or cannot be used.
    :raises LogLocked: one of the two is open.
    :raises CorruptLog: `source` is damaged.
    :raises UnknownEvent: another version wrote it.
    :raises DiskFull, StorageFailed: nothing was changed, or see the message.
    """
    directory = log_directory.link_target(directory)
    _check_source(source, directory)
    is_writable = os.access(source, os.W_OK)  # else nobody can open it
    with (
        log_directory.held(source) if is_writable else nullcontext(),
        log_directory.held(directory) as replaces,
        log_directory.written(directory, log_directory.RESTORING) as scratch,
    ):
        for name in _names(source, also):
            copied(source / name, scratch / name)
        if not log_directory.read_anchor(scratch / log_directory.ANCHOR).is_known:
            raise CorruptLog(f"{source / log_directory.ANCHOR} is damaged: copy another backup")
        now_us = system_clock_us()
        position = verify_copy(scratch, registry, now_us, progress)
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
    size_bytes = datafile.bytes_under(directory)
    return Copied(str(directory), position, size_bytes, None if aside is None else str(aside))


def _check_source(source: Path, directory: Path) -> None:
    try:
        if not (source / log_directory.LOG).is_file():
            raise LogUnavailable(f"there is no store in {source}: name a store or a backup")
        for place in (directory, datafile.beside(directory, log_directory.RESTORING)):
            if datafile.is_there(place) and source.samefile(place):  # it would be moved aside
                raise LogUnavailable(
                    f"{source} is the directory that it would be copied to: name another one"
                )
    except OSError as error:
        raise LogUnavailable(f"cannot read {source}: {error.strerror}") from error


def _names(source: Path, also: Collection[str]) -> Iterator[str]:
    """Yield the files of a log, and those of others that are there."""
    yield log_directory.LOG
    yield log_directory.ANCHOR
    archive = source / log_directory.ARCHIVE
    for path in sorted(archive.iterdir()) if archive.is_dir() else ():
        if (segment := parse_name(path.name)) is not None and not segment[1]:
            yield f"{log_directory.ARCHIVE}/{path.name}"
    yield from (name for name in also if datafile.is_there(source / name))


def copied(source: Path, target: Path) -> bytes:
    """Copy a file, synced and for its owner only; return its SHA-256.

    :raises CorruptLog: it is missing.
    :raises LogUnavailable: it cannot be read.
    """
    digest = hashlib.sha256()
    try:
        file = datafile.opened(source)
    except FileNotFoundError as error:
        raise CorruptLog(f"{source} is missing: copy a backup that has it") from error
    except OSError as error:
        raise LogUnavailable(f"cannot read {source}: {error.strerror}") from error
    target.parent.mkdir(datafile.DIRECTORY_MODE, parents=True, exist_ok=True)
    with file, datafile.opened(target, datafile.ANEW | os.O_EXCL) as copy:
        while data := file.read(READ_BYTES):
            digest.update(data)
            copy.write(data)
        copy.flush()
        os.fsync(copy.fileno())
    return digest.digest()
