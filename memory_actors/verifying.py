"""Verification of a closed store, in a process of its own.

LMDB can end the process that reads a damaged tree (SIGBUS, SIGSEGV, an assertion). So a child
reads, and tells its parent by lines of JSON how far it is, what it found, or what it could not do.
If it dies, that is a finding.

Beside what the log checks of itself (`EventLog.verify`), the child replays every user: a state that
begins with the snapshot must be the one that begins with nothing, and the totals over all users
must be the sum of their states. Index files and vectors are compared with the states, too
(index_audit.py).

A store that is encrypted is verified without its keys where they are not given and not beside it:
checksums, chains and archive, but no state. So it is with a user whose key is gone.
"""

import asyncio
import os
import signal
import subprocess
import sys
from collections import Counter
from contextlib import nullcontext
from pathlib import Path
from typing import IO

import msgspec

from eventlog import (
    NO_KEYS,
    EncryptionMismatch,
    EventLog,
    EventLogError,
    Finding,
    Heads,
    KeyGone,
    Keys,
    KeysUnavailable,
    LogLocked,
    LogUnavailable,
    PoisonedStream,
    UnknownEvent,
    VerifyReport,
    keyfile,
    replay,
)
from eventlog.audit import Progress
from eventlog.frame import stream_id
from memory_actors import user_state
from memory_actors.encryption import default_key_file
from memory_actors.index_audit import IndexAudit
from memory_actors.settings import Settings
from memory_actors.streams import STREAM_PREFIX, key_owner
from memory_actors.user_state import UserState

FOUND_IN_STREAMS_MAX = 1_000
_CHILD = "from memory_actors.verifying import main; main()"
ROOT = Path(__file__).resolve().parents[1]

_REFUSED = (EncryptionMismatch, KeysUnavailable, LogLocked, LogUnavailable, UnknownEvent)
_REFUSALS = {cls.__name__: cls for cls in _REFUSED}


class _Line(msgspec.Struct, omit_defaults=True):
    """What a child says: one of these."""

    done: int = 0
    total: int = 0
    report: VerifyReport | None = None
    refused: str | None = None
    """The type of an error that is no damage."""
    message: str = ""


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
    """
    command = [sys.executable, "-c", _CHILD, str(directory), *key_argument(directory, key_file)]
    with subprocess.Popen(  # noqa: S603 - our own module, and a path as one argument
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=surroundings()
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdin.write(msgspec.json.encode(against).decode())
        child.stdin.close()
        report = _heard(child.stdout, progress)
    return report or _died(child.returncode)


def key_argument(directory: str | Path, key_file: str | Path | None) -> list[str]:
    """Return the path of a store's keys for a child's command line; nothing if there are none."""
    beside = default_key_file(directory)
    if key_file is None and not beside.exists():
        return []
    return [str(key_file or beside)]


def surroundings() -> dict[str, str]:
    """Return an environment in which a child imports this package, wherever it is run from."""
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}


def _heard(lines: IO[str], progress: Progress | None) -> VerifyReport | None:
    """Return the report in what a child says, None if there is none."""
    for text in lines:
        line = msgspec.json.decode(text, type=_Line)
        if line.refused is not None:
            raise _REFUSALS[line.refused](line.message)
        if line.report is not None:
            return line.report
        if progress is not None:
            progress(line.done, line.total)
    return None


def how_it_died(code: int) -> str:
    """Return what a child's return code says of its end."""
    return signal.Signals(-code).name if code < 0 else f"exit code {code}"


def _died(code: int) -> VerifyReport:
    how = how_it_died(code)
    message = f"the process that read it has died ({how}): the file is damaged; restore a backup"
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
    async with EventLog.open(directory, user_state.event_registry(), keys=keys) as log:
        report = await log.verify(progress, against=against)
        audit = IndexAudit(log, directory, keys)
        await audit.begin()
        found = await _replayed(log, audit) + list(audit.of_nobody())
        return msgspec.structs.replace(report, findings=report.findings + found)


async def _replayed(log: EventLog, audit: IndexAudit) -> list[Finding]:
    """Replay every user; return what does not agree with snapshots, indexes and totals."""
    decider = user_state.user_decider(Settings().limits_by_tier())
    found: list[Finding] = []
    derived: list[Finding] = []
    summed, unread = Counter[str](), 0
    for stream in await log.streams():
        if not stream.startswith(STREAM_PREFIX) or len(found) >= FOUND_IN_STREAMS_MAX:
            continue
        sid = stream_id(stream).hex()
        try:
            state, version = await replay(log, decider, stream, dropped="mark")
        except KeyGone:
            unread += 1
            continue
        except PoisonedStream as error:
            found.append(Finding(0, sid, f"replay ends at version {error.version}"))
            continue
        summed.update(user_state.totals(state))
        if not await _fits_snapshot(log, stream, state, version):
            found.append(Finding(0, sid, "its snapshot is not what a replay gives"))
        derived += await audit.of_user(stream, state, version)
    totals = {name: total for name, total in summed.items() if total}
    if not found and not unread and totals != await log.totals():
        found.append(Finding(0, "", "the totals are not the sum over all users"))
    return found + derived


async def _fits_snapshot(log: EventLog, stream: str, state: UserState, version: int) -> bool:
    try:
        kept = await user_state.load_snapshot(log, stream)
    except ValueError:
        return False
    if kept is None:
        return True
    decider, (begin, after) = user_state.user_decider(Settings().limits_by_tier()), kept
    shortened, _ = await replay(
        log, decider, stream, state=begin, after=after, until=version, dropped="mark"
    )
    return user_state.fingerprint(shortened) == user_state.fingerprint(state)


def _say(out: IO[str], line: _Line) -> None:
    out.write(msgspec.json.encode(line).decode() + "\n")
    out.flush()


def main() -> None:
    """Verify the store that the command line names, and say what came of it."""
    out, sys.stdout = sys.stdout, sys.stderr  # a log line must not come between
    against = msgspec.json.decode(sys.stdin.read(), type=Heads | None)
    directory, *keys = map(Path, sys.argv[1:])
    key_file = keys[0] if keys else None
    _say(out, _outcome(directory, lambda *at: _say(out, _Line(*at)), against, key_file))


def _outcome(
    directory: Path, progress: Progress, against: Heads | None, key_file: Path | None
) -> _Line:
    try:
        return _Line(report=asyncio.run(verified(directory, progress, against, key_file)))
    except tuple(_REFUSALS.values()) as error:
        return _Line(refused=type(error).__name__, message=str(error))
    except EventLogError as error:
        return _Line(report=VerifyReport(0, 0, [Finding(0, "", str(error))]))
