"""Copies of closed stores: import of an export, move to a database, repair of a damaged store.

The log copies its own events (eventlog/upkeep). API keys, the key of hashed recalls and the time of
the last scheduled compaction are copied too; vectors and indexes are made again.
"""

import asyncio
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Final

import anyio.to_thread

from eventlog import (
    CorruptLog,
    EncryptionMismatch,
    Imported,
    KeyGone,
    Keys,
    Moved,
    Progress,
    RepairReport,
    repair,
    replay,
    system_clock_us,
)
from eventlog.files.datafile import is_there, named, read_bytes
from eventlog.keys import keyfile
from eventlog.upkeep.backup import copied
from eventlog.upkeep.exporting import Begin, Event, Stream, read_export, unpacked
from eventlog.upkeep.importing import gap
from memory_actors.base import api_keys
from memory_actors.base.api_keys import KeyStore
from memory_actors.base.errors import NotFoundError
from memory_actors.base.key_files import default_key_file, known_key_file
from memory_actors.base.streams import is_user_stream, key_owner, user_of
from memory_actors.compaction import schedule
from memory_actors.kinds.user_state import FOLD, totals
from memory_actors.search.embedding.vector_table import remove_files
from memory_actors.search.indexes.files import index_path, remove_indexes
from memory_actors.upkeep.offline.child import ChildDied, answer_parent, result_of_child
from memory_actors.upkeep.store import event_registry, has_log, open_log
from memory_actors.users import recalls

# --- from an export
#
# An export also erases here the users that were erased there. As in erasing.py, data beside the log
# goes first: index files, vectors and API keys. Vectors are stored under digests of texts, and the
# log is about to forget the texts, so the whole file of vectors goes.


async def import_events(
    file: Path, directory: Path, progress: Progress | None, key_file: Path | None
) -> Imported:
    """Append an export. See `MemorySystem.import_events`."""

    def forget(streams: Sequence[str]) -> None:
        _forget(directory, streams)

    path = known_key_file(directory, key_file)
    await anyio.to_thread.run_sync(_check_new, file, directory, path)
    with nullcontext() if path is None else keyfile.opened(path, key_owner) as keys:
        async with open_log(directory, keys) as log:
            return await log.import_events(file, progress=progress, erasing=forget)


def _check_new(file: Path, directory: Path, key_file: Path | None) -> None:
    """Refuse what would leave an empty store behind, where there is none yet."""
    if has_log(directory):
        return
    names: dict[bytes, str] = {}
    encrypted: dict[str, bool] = {}
    for message in read_export(file):
        if isinstance(message, Begin) and message.since:
            raise gap(file, message.since, 0)
        if isinstance(message, Stream):
            names[message.sid] = message.name
        if isinstance(message, Event):
            taken = unpacked(file, message)
            if taken.gone is None and taken.stream_id in names:
                encrypted[names[taken.stream_id]] = taken.is_encrypted
    _check_keys(file, encrypted, key_file)


def _check_keys(file: Path, encrypted: Mapping[str, bool], key_file: Path | None) -> None:
    """See that a new store has the keys of the streams in a file, or none if it needs none."""
    needed = [stream for stream, is_encrypted in encrypted.items() if is_encrypted]
    if needed and key_file is None:
        raise EncryptionMismatch(
            f"{file} is of a store that is encrypted: name a copy of that store's file of keys"
        )
    if encrypted and not needed and key_file is not None:
        raise EncryptionMismatch(
            f"{file} is of a store that is not encrypted: import it without {key_file}"
        )
    if needed and key_file is not None:
        with keyfile.opened(key_file, key_owner) as keys:
            keys.attach(b"")
            for stream in needed:
                keys.cipher(stream)


def _forget(directory: Path, streams: Sequence[str]) -> None:
    remove_files(directory)
    for stream in streams:
        remove_indexes(index_path(directory, stream))
        if is_user_stream(stream):
            KeyStore(directory).revoke_all(user_of(stream))


# --- to a database, whose settings take the files beside the log

SETTINGS: Final = {
    api_keys.FILE: api_keys.SETTING,
    recalls.KEY_FILE: recalls.SETTING,
    schedule.FILE_NAME: schedule.SETTING,
}
"""The file that each setting is in, where a store is in a directory."""


def move_store(directory: str | Path, url: str, *, progress: Progress | None = None) -> Moved:
    """Move the store in a directory to an empty schema of a database. Blocks.

    `url` is that of `MemorySystem.open`. The directory must be closed, and is not changed. A move
    that was cut off goes on when it is repeated; until it is whole and verified nobody can open the
    target. `progress(done, total)` is called from a thread.

    :raises NotFoundError: there is no store in the directory.
    :raises LogLocked: it is open.
    :raises EncryptionMismatch: it is encrypted: a database has no file of keys.
    :raises LogUnavailable: the database cannot be reached or used, or the schema is not empty.
    :raises CorruptLog: the store is damaged; or what came of it is not what is in it.
    """
    return asyncio.run(_moved(named(directory), url, progress))


async def _moved(directory: Path, url: str, progress: Progress | None) -> Moved:
    if not has_log(directory):
        raise NotFoundError(f"there is no store in the directory {str(directory)!r} to be moved")
    try:
        async with open_log(directory, None) as log:
            return await log.move_to(url, settings=_settings(directory), progress=progress)
    except EncryptionMismatch as error:
        raise EncryptionMismatch(
            f"the store in {str(directory)!r} is encrypted, and a database has no file of keys: "
            "export its users and import them there, and encrypt the disk of the database"
        ) from error


def _settings(directory: Path) -> dict[str, bytes]:
    found = {name: directory / file for file, name in SETTINGS.items()}
    return {name: read_bytes(path) for name, path in found.items() if path.exists()}


# --- from a damaged store
#
# A child process reads the damaged files, which may end it. It recounts the totals over all users
# from the kept events, and reports the losses.


def repair_store(
    source: str | Path, target: str | Path, *, key_file: str | Path | None = None
) -> RepairReport:
    """Copy the readable data of the damaged store in `source` to a new store in `target`. Blocks.

    `source` must be closed, and is not changed. The report says what was left behind, by the ids of
    streams: look at it before you use the new store. `key_file` has the keys of an encrypted store;
    None: they are in `<source>.keys`. The new store is under the same keys, which stay where they
    are: open it with the path of that file, or move it to `<target>.keys`.

    :raises LogLocked: `source` is open.
    :raises LogUnavailable: it is no store, or there is something at `target`.
    :raises UnknownEvent: another version made it.
    :raises KeysUnavailable: it is encrypted, and its keys are missing or not to be used.
    :raises CorruptLog: nothing of it can be read, or its files end the process that reads them.
    :raises DiskFull: the disk is full; no new store remains.
    :raises StorageFailed: a write failed; no new store remains.
    :raises ReaderFailedError: the child failed by itself; that says nothing about `source`.
    """
    keys = default_key_file(source) if key_file is None else key_file
    try:
        return result_of_child(__name__, [source, target, keys], RepairReport)
    except ChildDied as how:
        raise CorruptLog(
            f"the process that read {source} has died ({how}): restore a backup"
        ) from None


async def _totals(directory: Path, keys: Keys | None) -> dict[str, int]:
    """Return the summed totals of all users of a store, without users whose key is deleted."""
    summed = Counter[str]()
    async with open_log(directory, keys) as log:
        for stream in filter(is_user_stream, await log.streams()):
            with suppress(KeyGone):
                state, _ = await replay(log, FOLD, stream, dropped="mark")
                summed.update(totals(state))
    return dict(+summed)


def repair_here(source: Path, target: Path, key_file: Path | None = None) -> RepairReport:
    """Repair in this process, which a damaged file may end. See `repair_store`."""
    with keyfile.opened(key_file or default_key_file(source), key_owner) as keys:

        def recount(new: Path) -> dict[str, int]:
            return asyncio.run(_totals(new, keys if keys.is_attached else None))

        def copy_keys(new: Path) -> None:
            if is_there(source / api_keys.FILE):
                copied(source / api_keys.FILE, new / api_keys.FILE)

        registry, now_us = event_registry(), system_clock_us()
        return repair(source, target, registry, now_us, keys=keys, recount=recount, also=copy_keys)


def main() -> None:
    """Repair the store that the command line names first into the second."""
    answer_parent(lambda _: repair_here(*map(Path, sys.argv[1:])))
