"""Repair of a closed store: what is whole of it, in a new one. In a process of its own.

A child reads the damaged files (eventlog/repair.py), counts the totals over all users anew from
what was kept, and prints a report. API keys are copied; vectors and indexes are made again.
"""

import asyncio
import subprocess
import sys
from collections import Counter
from contextlib import suppress
from pathlib import Path

import msgspec

from eventlog import (
    CorruptLog,
    DiskFull,
    Environment,
    EventLog,
    EventLogError,
    KeyGone,
    Keys,
    KeysUnavailable,
    LogLocked,
    LogUnavailable,
    RepairReport,
    StorageFailed,
    UnknownEvent,
    keyfile,
    repair,
    replay,
)
from eventlog.keyfile import KeyFile
from eventlog.requests import system_clock_us
from eventlog.tables import TABLES
from eventlog.totals import put_totals
from memory_actors import user_state
from memory_actors.api_keys.store import FILE as API_KEYS
from memory_actors.encryption import default_key_file
from memory_actors.settings import Settings
from memory_actors.streams import STREAM_PREFIX, key_owner
from memory_actors.verifying import how_it_died, surroundings

_CHILD = "from memory_actors.repairing import main; main()"
_ERRORS = (
    CorruptLog, DiskFull, KeysUnavailable, LogLocked, LogUnavailable, StorageFailed, UnknownEvent,
)  # fmt: skip


class _Outcome(msgspec.Struct):
    report: RepairReport | None = None
    refused: str | None = None
    message: str = ""


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
    """
    keys = default_key_file(source) if key_file is None else key_file
    child = subprocess.run(  # noqa: S603 - our own module, and paths as arguments
        [sys.executable, "-c", _CHILD, str(source), str(target), str(keys)],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, env=surroundings(), check=False,
    )  # fmt: skip
    if child.returncode:
        how = how_it_died(child.returncode)
        raise CorruptLog(f"the process that read {source} has died ({how}): restore a backup")
    outcome = msgspec.json.decode(child.stdout, type=_Outcome)
    if outcome.report is None:
        kinds = {kind.__name__: kind for kind in _ERRORS}
        raise kinds.get(outcome.refused or "", CorruptLog)(outcome.message)
    return outcome.report


# --- in the child


async def _totals(directory: Path, keys: Keys | None) -> dict[str, int]:
    """Return what all users of a store add to the totals, those whose key is gone left out."""
    decider = user_state.user_decider(Settings().limits_by_tier())
    summed = Counter[str]()
    async with EventLog.open(directory, user_state.event_registry(), keys=keys) as log:
        for stream in await log.streams():
            if stream.startswith(STREAM_PREFIX):
                with suppress(KeyGone):
                    state, _ = await replay(log, decider, stream, dropped="mark")
                    summed.update(user_state.totals(state))
    return {name: total for name, total in summed.items() if total}


def _put_totals(directory: Path, keys: KeyFile) -> None:
    totals = asyncio.run(_totals(directory, keys if keys.is_attached else None))
    env = Environment(directory / "log.mdb", TABLES)
    try:
        env.write(lambda txn: put_totals(env, txn, totals))
    finally:
        env.close()


def repair_here(source: Path, target: Path, key_file: Path | None = None) -> RepairReport:
    """Repair in this process, which a damaged file may end. See `repair_store`."""
    with keyfile.opened(key_file or default_key_file(source), key_owner) as keys:

        def complete(new: Path) -> None:
            _put_totals(new, keys)
            if (source / API_KEYS).exists():
                (new / API_KEYS).touch(0o600)
                (new / API_KEYS).write_bytes((source / API_KEYS).read_bytes())

        registry, now_us = user_state.event_registry(), system_clock_us()
        return repair(source, target, registry, now_us, keys=keys, also=complete)


def main() -> None:
    """Repair the store that the command line names first into the second."""
    out, sys.stdout = sys.stdout, sys.stderr  # a log line must not come between
    try:
        outcome = _Outcome(repair_here(*map(Path, sys.argv[1:])))
    except EventLogError as error:
        outcome = _Outcome(None, type(error).__name__, str(error))
    out.write(msgspec.json.encode(outcome).decode())
