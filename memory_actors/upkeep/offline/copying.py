"""Copies of closed stores: to a directory or a database, and what is readable of a damaged one.

The log copies its own events (eventlog/upkeep). Settings that are in files beside it go to a
database, too. Vectors are copied to a directory if they are there, and indexes are made again.
"""

import asyncio
import sys
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Final

from eventlog import (
    Copied,
    CorruptLog,
    EncryptionMismatch,
    KeyGone,
    Keys,
    Progress,
    RepairReport,
    copy_log,
    repair,
    replay,
    system_clock_us,
)
from eventlog.files.datafile import is_there, named, read_bytes
from eventlog.keys import keyfile
from eventlog.upkeep.copying import copied
from memory_actors.base import api_keys
from memory_actors.base.errors import NotFoundError
from memory_actors.base.key_files import default_key_file
from memory_actors.base.streams import is_user_stream, key_owner
from memory_actors.compaction import schedule
from memory_actors.kinds.user_state import FOLD, totals
from memory_actors.search.embedding.vector_table import FILE as DERIVED
from memory_actors.upkeep.offline.child import ChildDied, answer_parent, result_of_child
from memory_actors.upkeep.store import event_registry, has_log, open_log
from memory_actors.users import recalls

SETTINGS: Final = {
    api_keys.FILE: api_keys.SETTING,
    recalls.KEY_FILE: recalls.SETTING,
    schedule.FILE_NAME: schedule.SETTING,
}
"""The file that each setting is in, where a store is in a directory."""


def copy_store(
    source: str | Path, target: str | Path, *, progress: Progress | None = None
) -> Copied:
    """Copy a closed store, such as a backup, to a directory or a database. Blocks.

    `source` is a directory, and is not changed. `target` is another one, or the URL of a database,
    as for `MemorySystem.open`. The copy is verified before anybody can open it; repeat one that was
    cut off. `progress(done, total)` may be called from a thread.

    In a directory, the copy takes the place of the store that is there, which must be closed. That
    is moved aside and never deleted: see the result. Its API keys are kept, and none are copied.
    Users erased since a backup was made exist again: erase them again.

    In a database, the schema must be empty. API keys are copied, and vectors are computed again.

    :raises NotFoundError: there is no store in `source`.
    :raises LogLocked: it is open, or the store in `target` is.
    :raises LogUnavailable: `target` is `source`, or holds something else; or the database cannot be
        reached or used, or the schema is not empty.
    :raises EncryptionMismatch: it is encrypted, and `target` is a database, which has no file of
        keys.
    :raises CorruptLog: the store is damaged.
    :raises DiskFull: the disk is full; see the message.
    :raises StorageFailed: a file cannot be read or written; see the message.
    """
    directory = named(source)
    if not has_log(directory):
        raise NotFoundError(f"there is no store in the directory {str(directory)!r} to be copied")
    scheme, _, rest = str(target).strip().partition("://")
    if rest and scheme.lower() in ("postgresql", "postgres"):
        return asyncio.run(_to_database(directory, f"{scheme.lower()}://{rest}", progress))
    return copy_log(
        directory, named(target), event_registry(), also=[DERIVED], kept=[api_keys.FILE],
        progress=progress,
    )  # fmt: skip


async def _to_database(directory: Path, url: str, progress: Progress | None) -> Copied:
    settings = {
        name: read_bytes(directory / file)
        for file, name in SETTINGS.items()
        if is_there(directory / file)
    }
    try:
        async with open_log(directory, None) as log:
            return await log.copy_to(url, settings=settings, progress=progress)
    except EncryptionMismatch as error:
        raise EncryptionMismatch(
            f"the store in {str(directory)!r} is encrypted, and a database has no file of keys: "
            "export its users and import them there, and encrypt the disk of the database"
        ) from error


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
