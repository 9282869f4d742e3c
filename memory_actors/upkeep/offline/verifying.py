"""Verification of a closed store, in a process of its own.

A child reads (child.py), for a damaged file can end whoever does. If it crashes, that is a finding.

The log checks itself (`EventLog.verify`), and the child replays every user: a state that begins
with the snapshot must be the one that begins with nothing, and the totals over all users must be
the sum of their states. Without the keys of an encrypted store, only its log is verified.

Index files and vectors are derived, and damaged ones are rebuilt, never served. They are compared
with the states all the same: a disk that damages one file damages others. A file may be older than
the state, so passages that have come or gone since are no finding.

A store in a directory that nobody may write to is copied first: opening a log locks it and may
finish an erasure.
"""

import asyncio
import os
import shutil
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, TypeAlias

import anyio.to_thread
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
from eventlog.files.datafile import DIRECTORY_MODE, bytes_under, check_disk
from eventlog.keys import keyfile
from memory_actors.base.key_files import known_key_file
from memory_actors.base.streams import is_user_stream, key_owner
from memory_actors.kinds import snapshots
from memory_actors.kinds.kind import Found, Kind
from memory_actors.kinds.passages import Passage, version_of
from memory_actors.kinds.rows import Row
from memory_actors.kinds.user_state import FOLD, KINDS, UserState, totals
from memory_actors.search.embedding.rows import Owner, damaged_rows, owner_of
from memory_actors.search.embedding.vector_table import FILE
from memory_actors.search.indexes.files import RECIPE, index_path, of_kind, read_whole, words_beside
from memory_actors.search.indexes.lexical import LexicalIndex
from memory_actors.search.indexes.parts import indexed
from memory_actors.search.indexes.postings import counted
from memory_actors.search.indexes.words import words
from memory_actors.search.reading import texts
from memory_actors.upkeep.offline.child import ChildDied, answer_parent, result_of_child
from memory_actors.upkeep.store import closed_log, open_log

FOUND_IN_STREAMS_MAX = 1_000
_NOT_COPIED: Final = ("*.lock", "*-lock", "owner.*")
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
    store; None: they are in `<directory>.keys`, or there are none. If the directory is read-only, a
    copy in a temporary directory is verified.

    :raises DiskFull: there is no room for that copy.
    :raises LogLocked: it is open.
    :raises LogUnavailable: it cannot be opened.
    :raises UnknownEvent: another version made it.
    :raises EncryptionMismatch, KeysUnavailable: the keys are not its own, or not to be used.
    :raises ReaderFailedError: the child failed by itself; that says nothing about the store.
    """
    keys = known_key_file(directory, key_file)
    usable = keys is not None and (key_file is not None or os.access(keys.parent, os.W_OK))
    given = [keys] if keys is not None and usable else []
    with _openable(Path(directory)) as place:
        try:
            return result_of_child(
                __name__, [place, *given], VerifyReport, given=msgspec.json.encode(against),
                progress=progress,
            )  # fmt: skip
        except ChildDied as how:
            return _damaged(
                f"the process that read it has died ({how}): the file is damaged; restore a backup"
            )


def _damaged(message: str) -> VerifyReport:
    return VerifyReport(0, 0, [Finding(0, "", message)])


@contextmanager
def _openable(directory: Path) -> Iterator[Path]:
    """Give a directory whose log can be opened: a copy, where nobody may write to this one."""
    if os.access(directory, os.W_OK) or not directory.is_dir():
        yield directory
        return
    with TemporaryDirectory(prefix="memory-actors-") as temporary:
        copy = Path(temporary) / "store"
        _check_closed(directory)
        check_disk(Path(temporary), bytes_under(directory), f"a copy of {directory}")
        try:
            shutil.copytree(
                directory, copy, ignore=shutil.ignore_patterns(*_NOT_COPIED),
                copy_function=shutil.copyfile,
            )  # fmt: skip
        except OSError as error:
            raise LogUnavailable(f"cannot copy {directory} to verify it: {error}") from error
        for place in (copy, *filter(Path.is_dir, copy.rglob("*"))):
            place.chmod(DIRECTORY_MODE)
        _check_closed(directory)
        yield copy


def _check_closed(directory: Path) -> None:
    """Refuse to copy what changes.

    :raises LogLocked: a process has the store open.
    """
    if (who := closed_log(directory).owner()) is not None:
        raise LogLocked(f"{directory} is open in {who}: close it there, then verify it")


# --- in the child


async def verified(
    directory: Path, progress: Progress, against: Heads | None, key_file: Path | None
) -> VerifyReport:
    """Open a store and check all of it."""
    given = nullcontext(NO_KEYS) if key_file is None else keyfile.opened(key_file, key_owner)
    with given as keys:
        async with open_log(directory, keys) as log:
            report = await log.verify(progress, against=against)
            checks = IndexCheck(log, directory, keys if log.is_encrypted else None)
            await checks.begin()
            found = await _replayed(log, checks) + list(checks.of_nobody())
            return msgspec.structs.replace(report, findings=report.findings + found)


async def _replayed(log: EventStore, checks: "IndexCheck") -> list[Finding]:
    """Replay every user; return what does not agree with snapshots, indexes and totals."""
    found: list[Finding] = []
    derived: list[Finding] = []
    summed, unread = Counter[str](), 0
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
        summed.update(totals(state))
        if not await _fits_snapshot(log, stream, state, version):
            found.append(Finding(0, sid, "its snapshot is not what a replay gives"))
        derived += await checks.of_user(stream, state, version)
    if not found and not unread and dict(+summed) != await require(log, CountingStore).totals():
        found.append(Finding(0, "", "the totals are not the sum over all users"))
    return found + derived


async def _fits_snapshot(log: EventStore, stream: str, state: UserState, version: int) -> bool:
    try:
        kept = await snapshots.load_snapshot(log, stream)
    except ValueError:
        return False
    if kept is None:
        return True
    begin, after = kept
    shortened, _ = await replay(
        log, FOLD, stream, state=begin, after=after, until=version, dropped="mark"
    )
    return snapshots.fingerprint(shortened) == snapshots.fingerprint(state)


# --- what is derived

MADE_ANEW = "it is made anew when its user is next active"
READ_AT_ONCE = 512  # passages whose texts are in memory at a time

Places: TypeAlias = Mapping[int, tuple[Row, Passage]]
"""Passages of one kind by label, each behind its row."""
Counted: TypeAlias = Mapping[int, Mapping[str, int]]
"""Words and how often, by label."""


@dataclass(eq=False)
class IndexCheck:
    """Checks what is derived, of one user after the other. The store is closed otherwise."""

    _log: EventStore
    _directory: Path
    _keys: Keys | None
    """Of an encrypted store."""
    _bad_rows: dict[bytes, str] = field(default_factory=dict)
    _unreadable: str = ""

    async def begin(self) -> None:
        """Look through the file of vectors."""
        path = self._directory / FILE
        if path.exists():
            try:
                bad = partial(damaged_rows, path, encrypted=self._keys is not None)
                self._bad_rows = await anyio.to_thread.run_sync(bad)
            except EventLogError as error:
                self._unreadable = str(error)

    def of_nobody(self) -> Iterator[Finding]:
        """Yield what belongs to no user who was looked at: to be asked for last."""
        if self._unreadable:
            yield Finding(0, "", f"{self._unreadable}; or go on without it: it is made anew")
        for row, why in self._bad_rows.items():
            yield Finding(0, "", f"{why}, in row {row.hex()[:12]}: it is made anew")

    async def of_user(self, stream: str, state: UserState, version: int) -> list[Finding]:
        """Return the findings in a user's derived data, compared with this state."""
        found: list[Finding] = []
        for kind in KINDS:
            places = {
                passage.label: (row, passage)
                for row in kind.rows(state.of(kind))
                for passage in indexed(kind, row)
            }
            found += await self._vectors(stream, places)
            found += await self._files(stream, kind, places, version)
        return found

    async def _vectors(self, stream: str, places: Places) -> list[Finding]:
        """Return the damaged vectors of these passages, which then belong to somebody."""
        found: list[Finding] = []
        scope = owner_of(self._keys, stream).scope()
        if scope is None or not self._bad_rows:
            return found
        for _, passage in places.values():
            why = self._bad_rows.pop(scope.row(passage.digest), None)
            if why is not None:
                found.append(await self._about(stream, passage, why))
        return found

    async def _files(self, stream: str, kind: Kind, places: Places, version: int) -> list[Finding]:
        path = words_beside(of_kind(index_path(self._directory, stream), kind.NAME))
        found: list[Finding] = []
        if not path.exists():
            return found
        there = await anyio.to_thread.run_sync(_words_in, path, owner_of(self._keys, stream))
        why = ""
        if there is None:
            why = f"its index of {kind.NAME} is damaged: {MADE_ANEW}"
        elif any(version_of(label) > version for label in there):
            why = f"its index of {kind.NAME} has memories that it never had: {MADE_ANEW}"
        if why:
            found.append(Finding(0, stream_id(stream).hex(), why))
        return found + await self._other_words(stream, kind, places, there or {})

    async def _other_words(
        self, stream: str, kind: Kind, places: Places, there: Counted
    ) -> list[Finding]:
        """Return the passages that are indexed under words that are not theirs."""
        found, known = [], [places[label] for label in there if label in places]
        for start in range(0, len(known), READ_AT_ONCE):
            chunk = known[start : start + READ_AT_ONCE]
            try:
                events = await texts(self._log, stream, [Found(kind, row) for row, _ in chunk])
            except EventLogError:
                continue  # the events are damaged: that is a finding of the log's own
            for row, passage in chunk:
                said = words(kind.passage_text(row, passage.label, events))
                if there[passage.label] != counted(said):
                    why = f"its index of {kind.NAME} has other words than this memory"
                    found.append(await self._about(stream, passage, why))
        return found

    async def _about(self, stream: str, passage: Passage, why: str) -> Finding:
        versions = [version_of(passage.label)]
        (event,) = await self._log.read_versions(stream, versions, dropped="mark")
        return Finding(event.position, stream_id(stream).hex(), f"{why}: {MADE_ANEW}")


def _words_in(path: Path, owner: Owner) -> Counted | None:
    """Return a file's words: None if it is damaged, empty if its recipe is older."""
    file = read_whole(path, owner)
    if file is None:
        return None
    if not file.recipe.startswith(RECIPE):
        return {}
    try:
        index = LexicalIndex.restored(file.words)
    except (ValueError, IndexError):
        return None
    return {label: index.postings.words_of(row) for row, label in enumerate(index.rows.there())}


# --- the child


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

    answer_parent(work)
