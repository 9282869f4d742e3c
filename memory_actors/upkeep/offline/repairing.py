"""Repair of a closed store: what is whole of it, in a new one. In a process of its own.

A child (child.py) reads the damaged files (eventlog/upkeep/repair.py), counts the totals over all
users anew from what was kept, and tells what it left behind. API keys are copied; vectors and
indexes are made again.
"""

import asyncio
import sys
from contextlib import suppress
from pathlib import Path

from eventlog import (
    CorruptLog,
    KeyGone,
    Keys,
    RepairReport,
    repair,
    replay,
    system_clock_us,
)
from eventlog.files.datafile import is_there
from eventlog.keys import keyfile
from eventlog.upkeep.backup import copied
from memory_actors.base.api_keys import FILE as API_KEYS
from memory_actors.base.key_files import default_key_file
from memory_actors.base.streams import is_user_stream, key_owner
from memory_actors.kinds.user_state import FOLD, event_registry
from memory_actors.upkeep.offline.child import ChildDied, answer_parent, result_of_child
from memory_actors.upkeep.store import open_log
from memory_actors.users.totals import Summed


def repair_store(
    source: str | Path, target: str | Path, *, key_file: str | Path | None = None
) -> RepairReport:
    """Write what is whole of the store in `source` to a new one in `target`. Blocks.

    `source` must be closed, and is not changed. The report says what was left behind, by the ids of
    streams: look at it before you use the new store. `key_file` has the keys of an encrypted store;
    None: they are in `<source>.keys`. The new store is under the same keys, which stay where they
    are: open it with the path of that file, or move it to `<target>.keys`.

    :raises LogLocked: `source` is open.
    :raises LogUnavailable: it is no store, or there is something at `target`.
    :raises UnknownEvent: another version made it.
    :raises KeysUnavailable: it is encrypted, and its keys are missing or not to be used.
    :raises CorruptLog: nothing of it can be read, or its files end the process that reads them.
    :raises DiskFull, StorageFailed: there is nothing of the new store.
    :raises ReaderFailedError: the child failed by itself; that says nothing about `source`.
    """
    keys = default_key_file(source) if key_file is None else key_file
    try:
        return result_of_child(__name__, [source, target, keys], RepairReport)
    except ChildDied as how:
        raise CorruptLog(
            f"the process that read {source} has died ({how}): restore a backup"
        ) from None


# --- in the child


async def _totals(directory: Path, keys: Keys | None) -> dict[str, int]:
    """Return what all users of a store add to the totals, those whose key is gone left out."""
    summed = Summed()
    async with open_log(directory, keys) as log:
        for stream in filter(is_user_stream, await log.streams()):
            with suppress(KeyGone):
                state, _ = await replay(log, FOLD, stream, dropped="mark")
                summed.add(state)
    return summed.totals()


def repair_here(source: Path, target: Path, key_file: Path | None = None) -> RepairReport:
    """Repair in this process, which a damaged file may end. See `repair_store`."""
    with keyfile.opened(key_file or default_key_file(source), key_owner) as keys:

        def recount(new: Path) -> dict[str, int]:
            return asyncio.run(_totals(new, keys if keys.is_attached else None))

        def copy_keys(new: Path) -> None:
            if is_there(source / API_KEYS):
                copied(source / API_KEYS, new / API_KEYS)

        registry, now_us = event_registry(), system_clock_us()
        return repair(source, target, registry, now_us, keys=keys, recount=recount, also=copy_keys)


def main() -> None:
    """Repair the store that the command line names first into the second."""
    answer_parent(lambda _: repair_here(*map(Path, sys.argv[1:])))
