"""An audit of reads, if it is asked for: the memories that were returned to whom for which query.

Each search is one event in a stream beside the user's own, `recall:user:<id>`, appended relaxed:
the read waits for no disk, and a crash may lose the last 50 ms of it. A record that cannot be
written is logged and counted (`SystemStatistics`), and the read goes on. The stream is nobody's
memory: it is in no total and makes no user.

By default (`hashed`) query and ids are kept as HMAC-SHA256 under a key: in `recall.key` beside the
store, or in the database that several processes share. With the key, you can test whether a query
or a memory was recorded, but nobody can read them out. That is a pseudonym and no more: a short
query can be guessed by who has the key. Without the key the old hashes say nothing to anybody.

Recalls older than `recall_audit_days` are hidden, then deleted, unless the user is under a legal
hold: their payload goes to the archive and out of it, after every 512 recalls of a user and at the
end of each run of compaction over all users. Their place in the log and their digest stay.
"""

import asyncio
import hashlib
import hmac
import secrets
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from functools import partial
from itertools import takewhile
from pathlib import Path
from weakref import WeakValueDictionary

import msgspec

from eventlog import (
    ArchivingStore,
    Checkpoint,
    Dropped,
    EventLogError,
    EventRegistry,
    EventStore,
    KeyGone,
    KeysUnavailable,
    SettingStore,
    WrongExpectedVersion,
    require,
)
from eventlog.core.logs import get_logger
from eventlog.core.records import DAY_US, AnyRecorded
from eventlog.files.datafile import read_bytes, write_whole
from memory_actors.base.background_tasks import BackgroundTasks
from memory_actors.base.privacy import reason
from memory_actors.base.reports import Recall
from memory_actors.base.settings import Settings
from memory_actors.base.streams import RECALL_PREFIX, key_owner
from memory_actors.kinds.rows import derived
from memory_actors.users.holds import holds_of

KEY_FILE, SETTING = "recall.key", "recall key"
KEY_BYTES = 32
STREAMS_MAX = 1_024  # whose versions are held: what leaves is read from the log again
TRIM_EVERY = 512  # recalls of a user
PAGE = 512  # events read at a time

_logger = get_logger("memory_actors.users.recalls")

registry = EventRegistry()


@registry.event("recall.made", keys=lambda event: event.memory_ids)
class RecallMade(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Memories were returned for a query."""

    query: str
    """The text that was asked, or a keyed hash of it."""
    memory_ids: tuple[str, ...]
    """In the order they were returned; as the query."""
    hashed: bool


class RecallAudit:
    """Keeps and reads recalls. If the settings ask for none, it only reads earlier ones.

    The key of the hashes is made when it is first needed.
    """

    def __init__(
        self, log: EventStore, settings: Settings, key: "HashKey", clock: Callable[[], int]
    ):
        self._log = log
        self._mode = settings.recall_audit
        self._keep_us = int(settings.recall_audit_days * DAY_US)
        self._key = key
        self._clock = clock
        self._tasks = BackgroundTasks()
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._versions: dict[str, int] = {}
        """The last version of each stream that was written lately."""
        self.failed = 0
        """Recalls that could not be written."""

    # --- write

    async def keep(
        self,
        stream: str,
        query: str,
        memory_ids: Sequence[str],
        meta: dict[str, str],
        epoch: int,
    ) -> None:
        """Record that these memories were returned for a query; never fail.

        `epoch` is the one that the user is live under: where another process has taken the user
        over, and may have erased them, nothing is kept.
        """
        if self._mode is None:
            return
        try:
            made = await self._made(query, memory_ids)
            version = await self._append(stream, made, meta, epoch)
            if version % TRIM_EVERY == 0:
                self._tasks.start(f"trim {stream}", lambda: self.trim(stream))
        except EventLogError as error:
            self.failed += 1
            _logger.warning("recall not kept", error=reason(error))

    async def _made(self, query: str, memory_ids: Sequence[str]) -> RecallMade:
        if self._mode != "hashed":
            return RecallMade(query=query, memory_ids=tuple(memory_ids), hashed=False)
        said = partial(_hashed, await self._key.made())
        return RecallMade(query=said(query), memory_ids=tuple(map(said, memory_ids)), hashed=True)

    def _turn(self, stream: str) -> asyncio.Lock:
        return self._turns.setdefault(stream, asyncio.Lock())

    async def _append(self, stream: str, made: RecallMade, meta: dict[str, str], epoch: int) -> int:
        async with self._turn(stream):
            known, version = self._versions.pop(stream, None), None
            if known is not None:
                with suppress(WrongExpectedVersion):  # another process had the user in between
                    version = await self._appended(stream, made, meta, epoch, known)
            if version is None:
                await self._log.flush()
                end = (await self._log.head(stream)).version
                version = await self._appended(stream, made, meta, epoch, end)
            if len(self._versions) >= STREAMS_MAX:
                del self._versions[next(iter(self._versions))]
            self._versions[stream] = version
            return version

    async def _appended(
        self, stream: str, made: RecallMade, meta: dict[str, str], epoch: int, version: int
    ) -> int:
        await self._log.append(
            stream, [made], version, epoch=epoch, durability="relaxed", meta=meta,
            recorded_at_us=self._clock(),
        )  # fmt: skip
        return version + 1

    async def leave(self, stream: str) -> str:
        """Forget a stream that is to be erased; return the name of its checkpoint."""
        async with self._turn(stream):  # what is under way is in the log
            self._versions.pop(stream, None)
            return _checkpoint(stream)

    async def close(self) -> None:
        """Stop what runs in the background."""
        await self._tasks.cancel()

    # --- what is too old

    async def trim(self, stream: str) -> None:
        """Delete recalls that are older than the limit: all before the first that is not."""
        await self._log.flush()
        before_us = await self._kept_from_us(stream)
        done = await self._log.load_checkpoint(_checkpoint(stream))
        while page := await self._log.read_stream(stream, done, PAGE, dropped="mark"):
            old = list(takewhile(lambda one: one.recorded_at_us < before_us, page))
            if old:
                done = old[-1].version
                store = require(self._log, ArchivingStore)
                await store.archive(stream, [one.version for one in old])
                await store.drop_archived(self._clock() + 1, stream)
                await self._log.save_checkpoint(Checkpoint(_checkpoint(stream), done))
            if len(old) < len(page):
                return

    async def _kept_from_us(self, stream: str) -> int:
        """Return the time before which recalls are too old: none is under a legal hold."""
        held = await holds_of(self._log, key_owner(stream))
        return 0 if held else self._clock() - self._keep_us

    async def trim_all(self) -> None:
        """Trim the recalls of every user."""
        for stream in await self._log.streams():
            if stream.startswith(RECALL_PREFIX):
                with suppress(KeyGone):  # of a user who was erased before a backup was restored
                    await self.trim(stream)

    # --- read

    async def read(
        self,
        stream: str,
        *,
        query: str | None = None,
        memory_id: str | None = None,
        since_us: int | None = None,
        until_us: int | None = None,
        limit: int = 100,
    ) -> list[Recall]:
        """Return recalls, the newest first; of a query or a memory only, if one is given."""
        await self._log.flush()
        oldest_us = max(await self._kept_from_us(stream), since_us or 0)
        wanted = None if query is None else await self._spellings(query)
        found: deque[AnyRecorded] = deque(maxlen=limit)
        async for recorded in self._events(stream, memory_id):
            if (
                not isinstance(recorded.data, Dropped)
                and oldest_us <= recorded.recorded_at_us
                and (until_us is None or recorded.recorded_at_us < until_us)
                and (wanted is None or recorded.data.query in wanted)
            ):
                found.append(recorded)
        return [
            derived(
                Recall,
                one.data,
                position=one.position,
                at=one.recorded_at,
                agent_id=one.meta.get("agent_id"),
                session_id=one.meta.get("session_id"),
            )
            for one in reversed(found)
        ]

    async def _events(self, stream: str, memory_id: str | None) -> AsyncIterator[AnyRecorded]:
        if memory_id is not None:
            versions = set[int]()
            for one in await self._spellings(memory_id):
                versions.update(await self._log.versions_about(stream, one))
            for recorded in await self._log.read_versions(stream, sorted(versions), dropped="mark"):
                yield recorded
            return
        done = await self._log.load_checkpoint(_checkpoint(stream))
        while page := await self._log.read_stream(stream, done, PAGE, dropped="mark"):
            for recorded in page:
                yield recorded
            done = page[-1].version

    async def _spellings(self, said: str) -> tuple[str, ...]:
        """Return how something may be kept: as it is, and hashed, if there is a key."""
        key = await self._key.found()
        return (said,) if key is None else (said, _hashed(key, said))


def _hashed(key: bytes, said: str) -> str:
    return hmac.new(key, said.encode(), hashlib.sha256).hexdigest()


class HashKey:
    """The key of the hashes: in a file, or in a store that several processes share."""

    def __init__(self, where: Path | SettingStore):
        self._where = where
        self._key: bytes | None = None

    async def found(self) -> bytes | None:
        """Return the key, None if there is none yet.

        :raises KeysUnavailable: it cannot be read.
        """
        if isinstance(self._where, Path):
            return _in_file(self._where) if self._where.exists() else None
        if self._key is None:
            self._key = await self._where.load_setting(SETTING)
        return self._key

    async def made(self) -> bytes:
        """Return the key, or create it. Concurrent creators all use the first key.

        :raises KeysUnavailable: it cannot be read, or not be made.
        """
        where = self._where
        if self._key is None and isinstance(where, Path):
            self._key = _in_file(where)
        elif self._key is None and not isinstance(where, Path):
            await where.save_setting(SETTING, secrets.token_bytes(KEY_BYTES), expected=None)
            self._key = await where.load_setting(SETTING)
        assert self._key is not None
        return self._key


def _checkpoint(stream: str) -> str:
    return f"recalls dropped of {stream}"


def _in_file(path: Path) -> bytes:
    """Return the key in a file; a new one, for its owner's eyes only, if there is none."""
    try:
        if not path.exists():
            write_whole(path, secrets.token_bytes(KEY_BYTES))
        return read_bytes(path)
    except OSError as error:
        raise KeysUnavailable(f"cannot use {path}: {error.strerror}") from error
