"""The event log on LMDB: the public face of this package's store.

One directory holds one log: `log.mdb` (the tables), `log.anchor` (where it ended, see
log_directory.py), `log.mdb.lock` (who has it open) and, once there is one, `archive` (payloads that
were moved out of the tables, see archive.py). An `EventLog` belongs to the loop that opened it.

The way of an append: encode on the loop (requests.py), wait for room (intake.py), commit with
others in the writer's thread (writer.py) by the rules (ledger.py), wake up when it is on disk.
Reads go to LMDB's memory map directly: a few rows on the loop (microseconds), many in a thread.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from functools import partial
from pathlib import Path
from typing import Self, TypeVar

import anyio.to_thread

from eventlog.core import records, requests
from eventlog.core.capabilities import Fold, Progress
from eventlog.core.codec import EventRegistry
from eventlog.core.errors import CorruptLog, LogBusy
from eventlog.core.frame import chain_of, stream_id
from eventlog.core.keys import Keys
from eventlog.core.rules import cipher_to_read
from eventlog.core.waiting import Block, opened_in_thread
from eventlog.files.datafile import named
from eventlog.files.pages import CHECKED_BYTES_MAX
from eventlog.lmdb import tables
from eventlog.lmdb.archive import NotInMemory
from eventlog.lmdb.file import MAP_BYTES, Transaction
from eventlog.lmdb.intake import Intake
from eventlog.lmdb.ledger import load_totals
from eventlog.lmdb.opening import Files
from eventlog.upkeep.upkeep import LogUpkeep
from eventlog.upkeep.verification import Verification, read_heads

INLINE_ROWS_MAX = 32  # rows read on the loop: about 0.1 ms, what a hop to a thread would cost
FOLDED_AT_ONCE = 128  # events that stay in the cache of a processor that others use, too
SIZE_MAX_BYTES = MAP_BYTES // 2

T = TypeVar("T")
State = TypeVar("State")


class EventLog(LogUpkeep, requests.TakesAppends):
    """An append-only log of streams in one directory. Open it with `EventLog.open`.

    upkeep/upkeep.py has the operations on the whole log (archive, erase, back up, shrink, ...).
    """

    def __init__(
        self,
        registry: EventRegistry,
        files: Files,
        clock: Callable[[], int],
        queue_events_max: int,
    ):
        requests.TakesAppends.__init__(self, registry, clock)
        LogUpkeep.__init__(self, files, Intake(files, queue_events_max), clock)
        self._reading = files.reading
        files.archive.never_block_this_thread()
        self.is_encrypted = files.keys is not None
        """True if payloads are encrypted: see keys.py."""

    @classmethod
    def open(
        cls,
        directory: str | Path,
        registry: EventRegistry,
        *,
        clock: Callable[[], int] = requests.system_clock_us,
        size_max_bytes: int = SIZE_MAX_BYTES,
        checked_bytes_max: int = CHECKED_BYTES_MAX,
        queue_events_max: int = requests.QUEUE_EVENTS_MAX,
        keys: Keys | None = None,
        busy: type[LogBusy] = LogBusy,
    ) -> AbstractAsyncContextManager[Self]:
        """Open the log in `directory`, made if missing, and close it at the end of the block.

        `clock` gives microseconds since 1970; `size_max_bytes` limits the pages in use.
        With `keys` a new log is encrypted, and one that is is opened: see keys.py. Whoever has
        made them closes them, after the log.
        A file of up to `checked_bytes_max` is checked page by page before it is used: a larger one
        may end the process, if a page of it is damaged.
        `busy` is the error of readers who come between a write that failed and the reopening of the
        file: one of your own, so that your callers know it.

        :raises LogLocked: it is open elsewhere (at once, without waiting).
        :raises CorruptLog: the file is cut short, its last commits were rolled back, or its totals
            are damaged.
        :raises LogUnavailable: the directory cannot be used.
        :raises UnknownEvent: it was made by another version; it is left untouched.
        :raises ClockOutOfRange: `clock` says a time that no date can have.
        :raises EncryptionMismatch: it is encrypted and there are no `keys`, or the reverse.
        :raises KeysUnavailable: these are not its keys, or they cannot be read; see the message.
        """

        async def opened() -> Self:
            if queue_events_max < 1:
                raise ValueError(
                    f"queue_events_max is {queue_events_max}: let at least one event in"
                )
            now = requests.checked_clock(clock)
            open_files = partial(
                Files.open,
                named(directory),
                registry,
                now(),
                size_max_bytes,
                checked_bytes_max,
                keys,
                busy,
            )
            files = await opened_in_thread(open_files, Files.close)
            return cls(registry, files, now, queue_events_max)

        return Block(opened, cls._close)

    async def _close(self) -> None:
        try:
            self._is_closing = True
            await asyncio.gather(*self._under_way, return_exceptions=True)
        finally:
            self._intake.close()
            await anyio.to_thread.run_sync(self.release)

    def release(self) -> None:
        """Finish the writes that were accepted and close the files. Blocks.

        For an event loop that has ended, where nothing can be awaited. Idempotent.
        """
        try:
            self._intake.stop()
        finally:
            self._files.close()

    # --- write

    def _append(self, request: requests.AppendRequest) -> Awaitable[records.Appended]:
        if request.durability == "relaxed":
            return self._intake.append_relaxed(request)
        return self._intake.append(request)

    async def acquire(self, stream: str, epoch: int) -> records.StreamHead:
        """Raise the stream's epoch. See `EventStore.acquire`."""
        requests.check_stream_name(stream)
        requests.check_int("epoch", epoch, 0, requests.I64_MAX)
        return await self._intake.submit(lambda txn: self._ledger.acquire(txn, stream, epoch))

    async def save_snapshot(
        self, stream: str, snapshot: records.Snapshot, fingerprint: str
    ) -> None:
        """Keep a snapshot and the newest one before it; not one ahead of its stream."""
        requests.check_snapshot(stream, snapshot, fingerprint)

        def save(txn: Transaction) -> None:
            record = self._ledger.stream(txn, stream)
            if snapshot.version <= record.version:
                cipher = self._ledger.cipher_to_write(txn, record)
                tables.put_snapshot(txn, stream, snapshot, fingerprint, cipher)

        await self._intake.submit(save, payload_bytes=len(snapshot.data))

    async def save_checkpoint(self, checkpoint: records.Checkpoint) -> None:
        """Store a subscriber's position and entries in one transaction."""
        requests.check_checkpoint(checkpoint)
        size = sum(len(key) + len(value or b"") for key, value in checkpoint.writes.items())
        await self._intake.submit(
            lambda txn: tables.put_checkpoint(txn, checkpoint), payload_bytes=size
        )

    async def flush(self) -> None:
        """Return when everything accepted so far is durable."""
        await self._intake.flush()

    # --- read

    async def head(self, stream: str) -> records.StreamHead:
        """Return the end of a stream; version 0 if it never was."""
        requests.check_stream_name(stream)
        with self._env.read() as txn:
            return self._ledger.stream(txn, stream).head()

    async def streams(self) -> list[str]:
        """Return the name of every stream."""

        def read(txn: Transaction) -> list[str]:
            return [record.name for _, record in tables.stream_records(txn) if record.name]

        return await self._read_in_thread(read)

    async def read_stream(
        self, stream: str, after: int = 0, limit: int = 512, *, dropped: records.OnDropped = "raise"
    ) -> list[records.AnyRecorded]:
        """Return up to `limit` events of a stream behind version `after`."""
        requests.check_stream_name(stream)
        events, after = self._reading.stream_events, max(after, 0)
        return await self._read(limit, lambda txn: events(txn, stream, after, limit, dropped))

    async def fold_stream(
        self, stream: str, fold: Fold[State], state: State, after: int, limit: int,
        *, dropped: records.OnDropped = "raise",
    ) -> tuple[State, int]:  # fmt: skip
        """Return a state after events of a stream, and their number. See `FoldingStore`."""
        requests.check_stream_name(stream)

        def run() -> tuple[State, int]:
            folded, done = state, 0
            while done < limit:
                count = min(FOLDED_AT_ONCE, limit - done)
                with self._env.read() as txn:
                    events = self._reading.stream_events(txn, stream, after + done, count, dropped)
                folded, done = fold(events, folded), done + len(events)
                if len(events) < count:
                    break
            return folded, done

        return await anyio.to_thread.run_sync(run)

    async def read_all(
        self, after: int = 0, limit: int = 512, *, dropped: records.OnDropped = "raise"
    ) -> list[records.AnyRecorded]:
        """Return up to `limit` events of the log behind position `after`."""
        if after >= self._intake.end.position:
            return []
        events, after = self._reading.events, max(after, 0)
        return await self._read(limit, lambda txn: events(txn, after, limit, dropped))

    async def read_event(
        self, position: int, *, dropped: records.OnDropped = "raise"
    ) -> records.AnyRecorded | None:
        """Return the event at a position, None if there is none."""
        if not 0 < position <= requests.U64_MAX:
            return None
        return await self._read(1, lambda txn: self._reading.event(txn, position, dropped))

    async def read_versions(
        self, stream: str, versions: Sequence[int], *, dropped: records.OnDropped = "raise"
    ) -> list[records.AnyRecorded]:
        """Return these events of a stream, in the order asked for."""
        requests.check_stream_name(stream)
        events = self._reading.stream_versions
        return await self._read(len(versions), lambda txn: events(txn, stream, versions, dropped))

    async def chain_at(self, stream: str, version: int) -> bytes:
        """Return the chain value of an event of a stream. See `ChainedStore`."""
        requests.check_stream_name(stream)
        if not 0 < version <= requests.U64_MAX:
            return b""
        with self._env.read() as txn:
            return chain_of(tables.event_at(txn, stream_id(stream), version)[1])

    async def versions_about(self, stream: str, key: str) -> list[int]:
        """Return the versions of a stream's events about `key`."""
        requests.check_stream_name(stream)
        requests.check_text("key", key)
        with self._env.read() as txn:
            return self._reading.versions_about(txn, stream, key)

    async def find_request(
        self, stream: str, idempotency_key: str, request: bytes
    ) -> records.Appended | None:
        """Return the first result of this request's idempotency key, or None if it is new."""
        requests.check_stream_name(stream)
        requests.check_text("idempotency key", idempotency_key)
        digest = requests.given_digest(request)
        with self._env.read() as txn:
            record = self._ledger.stream(txn, stream)
            return self._ledger.first_result(txn, record, idempotency_key, digest)

    async def load_snapshot(
        self, stream: str, fingerprint: str, *, until: int | None = None
    ) -> records.Snapshot | None:
        """Return the newest snapshot of this schema, not beyond `until`, if any."""
        requests.check_stream_name(stream)
        requests.check_text("snapshot's fingerprint", fingerprint)

        def load(txn: Transaction) -> records.Snapshot | None:
            record = self._ledger.stream(txn, stream)
            if record.is_empty:
                return None
            version = record.version if until is None else min(record.version, until)
            cipher = cipher_to_read(self._files.keys, stream)
            return tables.load_snapshot(txn, stream, fingerprint, version, cipher)

        return await self._read_in_thread(load)

    async def load_checkpoint(self, name: str) -> int:
        """Return a subscriber's position, 0 if it has none."""
        requests.check_text("checkpoint's name", name)
        with self._env.read() as txn:
            return tables.load_checkpoint(txn, name)

    async def load_entry(self, name: str, key: bytes) -> bytes | None:
        """Return one entry that a subscriber stored."""
        requests.check_entry(name, key)
        with self._env.read() as txn:
            return tables.load_entry(txn, name, key)

    async def totals(self) -> dict[str, int]:
        """Return the committed totals, read from the store."""
        with self._env.read() as txn:
            return load_totals(txn)

    def totals_nowait(self) -> dict[str, int]:
        """Return the committed totals, with relaxed appends that are accepted, from memory."""
        self._env.check_process()
        return self._intake.tally.now()

    async def wait_beyond(self, position: int) -> int:
        """Wait for an event behind `position`; return that of the last one, 0 at the close."""
        return await self._intake.wait_beyond(position)

    # --- the log itself

    def statistics(self) -> records.LogStatistics:
        """Return counters and sizes."""
        with self._env.read() as txn:
            used = self._env.used_bytes(txn)
        return records.LogStatistics(
            last_position=self._intake.end.position,
            queued_events=self._intake.room.events,
            events_appended=self._intake.counts["events"],
            batches=self._intake.counts["batches"],
            relaxed_lost=self._intake.counts["relaxed_lost"],
            used_bytes=used,
        )

    async def heads(self) -> records.Heads:
        """Return where the log and its streams stand, to be published. Reads all of it."""
        await self.flush()
        return await anyio.to_thread.run_sync(read_heads, self._env, self._clock())

    async def verify(
        self, progress: Progress | None = None, *, against: records.Heads | None = None
    ) -> records.VerifyReport:
        """Check every event, chain and index. See `VerifyingStore`."""
        with suppress(CorruptLog):  # the writer met damage; the report will name it
            await self.flush()
        verification = Verification(self._files, progress, against)
        return await anyio.to_thread.run_sync(verification.run)

    async def _read(self, rows: int, read: Callable[[Transaction], T]) -> T:
        if rows <= INLINE_ROWS_MAX:
            with suppress(NotInMemory), self._env.read() as txn:
                return read(txn)
        return await self._read_in_thread(read)
