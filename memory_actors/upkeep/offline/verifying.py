"""Verification of a closed store, in a process of its own.

A child reads (child.py), for a damaged file can end whoever does. If it crashes, that is a finding.

Beside what the log checks of itself (`EventLog.verify`), the child replays every user: a state that
begins with the snapshot must be the one that begins with nothing, and the totals over all users
must be the sum of their states. Index files and vectors are compared with the states, too
(index_verification.py).

A store that is encrypted is verified without its keys where they are not given and not beside it:
checksums, chains and archive, but no state. So it is with a user whose key is gone.
"""

import asyncio
import sys
from contextlib import nullcontext
from pathlib import Path

import msgspec

from eventlog import (
    NO_KEYS,
    CountingStore,
    EncryptionMismatch,
    EventLogError,
    EventStore,
    Finding,
    Heads,
    KeyGone,
    Keys,
    KeysUnavailable,
    LogLocked,
    LogUnavailable,
    PoisonedStream,
    Progress,
    UnknownEvent,
    VerifyReport,
    replay,
    require,
    stream_id,
)
from eventlog.keys import keyfile
from memory_actors.base.streams import is_user_stream, key_owner
from memory_actors.kinds import user_state
from memory_actors.kinds.user_state import FOLD, UserState
from memory_actors.upkeep.default_log import open_log
from memory_actors.upkeep.encryption import known_key_file
from memory_actors.upkeep.offline.child import ChildDied, heard, tell
from memory_actors.upkeep.offline.index_verification import IndexCheck
from memory_actors.users.totals import Summed

FOUND_IN_STREAMS_MAX = 1_000
_REFUSED = (EncryptionMismatch, KeysUnavailable, LogLocked, LogUnavailable, UnknownEvent)
"""Errors that are no damage."""


def verify_store(
    directory: str | Path,
    progress: Progress | None = None,
    *,
    against: Heads | None = None,
    key_file: str | Path | None = None,
) -> VerifyReport:
    """Verify a closed store in a child process; whatever is wrong with it is in the report.

    Blocks. `progress(done, total)` is called in this thread. With `against`, heads that were
    published, also whether history up to them is unchanged. `key_file` has the keys of an encrypted
    store; None: they are in `<directory>.keys`, or there are none.

    :raises LogLocked: it is open.
    :raises LogUnavailable: it cannot be opened.
    :raises UnknownEvent: another version made it.
    :raises EncryptionMismatch, KeysUnavailable: the keys are not its own, or not to be used.
    :raises ReaderFailedError: the child failed by itself; that says nothing about the store.
    """
    keys = known_key_file(directory, key_file)
    try:
        return heard(
            __name__,
            [directory] if keys is None else [directory, keys],
            VerifyReport,
            given=msgspec.json.encode(against),
            progress=progress,
        )
    except ChildDied as how:
        return _damaged(
            f"the process that read it has died ({how}): the file is damaged; restore a backup"
        )


def _damaged(message: str) -> VerifyReport:
    return VerifyReport(0, 0, [Finding(0, "", message)])


# --- in the child


async def verified(
    directory: Path, progress: Progress, against: Heads | None, key_file: Path | None
) -> VerifyReport:
    """Open a store and check all of it."""
    keys = nullcontext(NO_KEYS) if key_file is None else keyfile.opened(key_file, key_owner)
    with keys as given:
        return await _verified(directory, progress, against, given)


async def _verified(
    directory: Path, progress: Progress, against: Heads | None, keys: Keys
) -> VerifyReport:
    async with open_log(directory, keys) as log:
        report = await log.verify(progress, against=against)
        checks = IndexCheck(log, directory, keys if log.is_encrypted else None)
        await checks.begin()
        found = await _replayed(log, checks) + list(checks.of_nobody())
        return msgspec.structs.replace(report, findings=report.findings + found)


async def _replayed(log: EventStore, checks: IndexCheck) -> list[Finding]:
    """Replay every user; return what does not agree with snapshots, indexes and totals."""
    found: list[Finding] = []
    derived: list[Finding] = []
    summed, unread = Summed(), 0
    for stream in filter(is_user_stream, await log.streams()):
        if len(found) >= FOUND_IN_STREAMS_MAX:
            break
        sid = stream_id(stream).hex()
        try:
            state, version = await replay(log, FOLD, stream, dropped="mark")
        except KeyGone:
            unread += 1
            continue
        except PoisonedStream as error:
            found.append(Finding(0, sid, f"replay ends at version {error.version}"))
            continue
        summed.add(state)
        if not await _fits_snapshot(log, stream, state, version):
            found.append(Finding(0, sid, "its snapshot is not what a replay gives"))
        derived += await checks.of_user(stream, state, version)
    if not found and not unread and summed.totals() != await require(log, CountingStore).totals():
        found.append(Finding(0, "", "the totals are not the sum over all users"))
    return found + derived


async def _fits_snapshot(log: EventStore, stream: str, state: UserState, version: int) -> bool:
    try:
        kept = await user_state.load_snapshot(log, stream)
    except ValueError:
        return False
    if kept is None:
        return True
    begin, after = kept
    shortened, _ = await replay(
        log, FOLD, stream, state=begin, after=after, until=version, dropped="mark"
    )
    return user_state.fingerprint(shortened) == user_state.fingerprint(state)


def main() -> None:
    """Verify the store that the command line names, and say what came of it."""
    against = msgspec.json.decode(sys.stdin.read(), type=Heads | None)
    directory, *keys = map(Path, sys.argv[1:])
    key_file = keys[0] if keys else None

    def work(progress: Progress) -> VerifyReport:
        try:
            return asyncio.run(verified(directory, progress, against, key_file))
        except _REFUSED:
            raise
        except EventLogError as error:
            return _damaged(str(error))

    tell(work)
