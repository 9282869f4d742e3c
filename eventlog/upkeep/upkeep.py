"""Upkeep of a log while it is in use: archiving, retention, erasure, and a smaller file.

One piece of upkeep is under way at a time. Each goes on to its end once it has begun: a cancelled
caller only stops work that has not begun. Closing the log waits for it.

A log whose file is being replaced commits nothing for as long as the copy takes. Appends wait in
their queue, and relaxed ones are answered when they are on disk, because what is acknowledged at
once must be there 50 ms later.
"""

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial, wraps
from operator import add
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

import anyio.to_thread
from msgspec.structs import astuple

from eventlog.core import records
from eventlog.core.capabilities import Also, Progress
from eventlog.core.errors import CorruptLog, DiskFull, LogClosed
from eventlog.core.frame import stream_id
from eventlog.core.requests import check_int, check_stream_name, check_text
from eventlog.files.datafile import named
from eventlog.lmdb.file import Transaction
from eventlog.lmdb.intake import Intake
from eventlog.lmdb.opening import Files, add_slack, load_format, put_shrunk
from eventlog.lmdb.tables import archive_statistics
from eventlog.upkeep.copying import write_backup
from eventlog.upkeep.verification import read_heads

SHRINK_PART = 10  # a file is shrunk if at least a tenth of it would go
STUB_BYTES = 200  # a stub and its row: what a job for the writer is taken to weigh

P = ParamSpec("P")
T = TypeVar("T")


def _alone(
    work: Callable[Concatenate["LogUpkeep", P], Coroutine[object, object, T]],
) -> Callable[Concatenate["LogUpkeep", P], Coroutine[object, object, T]]:
    """Do a piece of upkeep when no other is under way, to its end once it has begun."""

    @wraps(work)
    async def alone(self: "LogUpkeep", /, *args: P.args, **kwargs: P.kwargs) -> T:
        self._intake.check_loop()
        await self._upkeep_lock.acquire()
        if self._is_closing:
            self._upkeep_lock.release()
            raise LogClosed("the log is closed: open it again")
        task = asyncio.ensure_future(work(self, *args, **kwargs))
        self._under_way.add(task)
        task.add_done_callback(self._done)
        return await asyncio.shield(task)

    return alone


class LogUpkeep:
    """The upkeep of `EventLog`, as callers see it. Belongs to the event loop."""

    def __init__(self, files: Files, intake: Intake, clock: Callable[[], int]):
        self._files = files
        self._env = files.env
        self._ledger = files.ledger
        self._intake = intake
        self._clock = clock
        self._erasing = files.erasing
        self._upkeep_lock = asyncio.Lock()
        self._under_way: set[asyncio.Task[object]] = set()  # at most one
        self._is_closing = False

    async def archive(self, stream: str, versions: Sequence[int]) -> records.Archived:
        """Move the payloads of these events of a stream to the archive. See `ArchivingStore`.

        The versions are archived in segments of up to 512 events, one by one: a caller who is
        cancelled, or gets an error, has archived whole segments, and asks again for the rest.

        :raises DiskFull: no room for a segment.
        :raises CorruptLog: a payload is damaged; its segment is not archived.
        """
        check_stream_name(stream)
        await self._intake.flush()
        with self._env.read() as txn:
            last = self._ledger.stream(txn, stream).version
        for version in versions:
            check_int(f"version of stream {stream!r}", version, 1, last)
        left, moved = sorted(set(versions)), records.Archived()
        while left:
            asked, segment = await self._archive_segment(stream, left)
            left = left[asked:]
            moved = records.Archived(*map(add, astuple(moved), astuple(segment)))
        return moved

    @_alone
    async def _archive_segment(
        self, stream: str, versions: Sequence[int]
    ) -> tuple[int, records.Archived]:
        """Archive a segment's worth of these versions; return how many of them it looked at."""
        write = self._erasing.write_segment
        asked, hot, written = await anyio.to_thread.run_sync(write, stream, versions)
        if written is None:
            return asked, records.Archived()
        now_us = self._clock()

        def replace(txn: Transaction) -> records.Archived:
            moved, slack_bytes = self._erasing.replace(txn, hot, written, now_us)
            add_slack(txn, slack_bytes)
            return moved

        try:
            moved = await self._intake.submit(
                replace, payload_bytes=STUB_BYTES * len(hot), use_reserve=True
            )
        except (CorruptLog, DiskFull):  # after any other error it may be named: opening will tell
            await anyio.to_thread.run_sync(self._files.archive.remove, {written.segment})
            raise
        return asked, moved

    @_alone
    async def drop_archived(
        self, before_us: int, stream: str | None = None
    ) -> records.DroppedPayloads:
        """Delete payloads archived before a time, for good. See `ArchivingStore`."""
        check_int("time", before_us, None, None)
        if stream is not None:
            check_stream_name(stream)
        sid = b"" if stream is None else stream_id(stream)
        sealed_before = self._erasing.sealed_before
        segments = await self._read_in_thread(lambda txn: sealed_before(txn, before_us, sid))
        drop = partial(self._erasing.drop, segments=segments, now_us=self._clock())
        dropped = await self._intake.submit(drop, use_reserve=True)
        await anyio.to_thread.run_sync(self._files.archive.remove, segments)
        return dropped

    @_alone
    async def erase(
        self,
        stream: str,
        *,
        counted: Mapping[str, int] | None = None,
        projections: Sequence[str] = (),
        epoch: int | None = None,
    ) -> records.Erased:
        """Erase a stream, for good. See `ErasingStore`.

        The stream reads as erased from the first transaction on; then payloads, index rows and
        files of the archive go piece by piece, and the log's file is replaced, as by `shrink`. A
        caller who is cancelled does not stop it. After a crash or an error the next opening of the
        log, or a second call, does what is left.

        :raises DiskFull: there is no room for a copy of the file: the erasure is under way.
        :raises CorruptLog: an event or a table is damaged: likewise.
        :raises StorageFailed: the disk failed: likewise.
        """
        check_stream_name(stream)
        for name in projections:
            check_text("projection's name", name)
        sid, now_us = stream_id(stream), self._clock()
        erasure = await self._intake.submit(
            lambda txn: self._erasing.mark(txn, stream, now_us, counted or {}, projections, epoch),
            use_reserve=True,
            counters=counted,
        )
        if erasure is None:
            keys = self._files.keys
            if keys is None:
                return records.Erased()
            # other streams may have been under its key
            return records.Erased(key_deleted=await anyio.to_thread.run_sync(keys.forget, sid))
        key_deleted, segments = await anyio.to_thread.run_sync(self._erasing.carry_out, sid)
        shrunk = await self._shrink(force=True)
        await self._intake.submit(partial(self._erasing.done, sids=[sid]), use_reserve=True)
        return records.Erased(
            erasure.events, erasure.at_us, segments, shrunk.before_bytes, shrunk.after_bytes,
            key_deleted,
        )  # fmt: skip

    async def redact(self, stream: str, rewrite: records.Rewrite) -> int:
        """Replace the data of events of a stream. See `RedactingStore`.

        Other payloads of a segment in which one is replaced are archived anew: for retention they
        count as archived now. Then the log's file is replaced, as by `shrink`. After a crash or an
        error, repeat it.

        :raises DiskFull: there is no room for a copy of the file, or for a segment.
        :raises CorruptLog: an event is damaged; nothing was replaced.
        :raises StorageFailed: the disk failed.
        """
        check_stream_name(stream)
        redacted, left = await self._redact(stream, rewrite)
        await self.archive(stream, left)
        return redacted

    @_alone
    async def _redact(self, stream: str, rewrite: records.Rewrite) -> tuple[int, list[int]]:
        """Return how many events were replaced, and the versions that left the archive for it."""
        await self._intake.flush()
        found = await anyio.to_thread.run_sync(self._erasing.to_redact, stream, rewrite)
        redact = partial(self._erasing.redact, found=found, now_us=self._clock())
        size = sum(len(one.data) for one in found.frames)
        await self._intake.submit(redact, payload_bytes=size, use_reserve=True)
        await anyio.to_thread.run_sync(self._files.archive.remove, found.segments)
        await self._shrink(force=True)
        return len(found.frames) - len(found.refilled), found.refilled

    @_alone
    async def backup(self, directory: str | Path, *, also: Also | None = None) -> records.Copied:
        """Write a backup to a new directory, and verify it. See `BackupStore`.

        Appends and reads go on; archiving, erasing and shrinking wait. `copy_log` puts a backup in
        the place of a log.
        """
        path = named(directory)
        await self._intake.flush()
        write = partial(write_backup, self._files, path, self._clock(), also)
        return await anyio.to_thread.run_sync(write)

    @_alone
    async def copy_to(
        self, url: str, *, settings: Mapping[str, bytes], progress: Progress | None = None
    ) -> records.Copied:
        """Copy the whole log to an empty schema of a PostgreSQL database, with settings in it.

        No append may run meanwhile, and this log stays unchanged. Until the copy is whole and
        verified, the schema opens as no store; repeat a copy that was cut off.
        `progress(done, total)` is called from a thread. It needs the extra `postgres`.

        :raises LogUnavailable: the database cannot be reached or used, or has something else there.
        :raises CorruptLog: this log is damaged, or the copy is another one than this.
        """
        from eventlog.upkeep.to_database import CopyToDatabase  # imports psycopg

        await self._intake.flush()
        heads = await anyio.to_thread.run_sync(read_heads, self._env, self._clock())
        return await CopyToDatabase(self._files, heads, settings, progress).run(url)

    async def archive_statistics(self, stream: str | None = None) -> records.ArchiveStatistics:
        """Return statistics of the archive, of one stream or of all."""
        sid = b"" if stream is None else stream_id(stream)
        return await self._read_in_thread(lambda txn: archive_statistics(txn, sid))

    @_alone
    async def shrink(self, *, force: bool = False) -> records.Shrunk:
        """Replace the file of the log by one that holds nothing but what is there.

        Reads go on. Appends wait, relaxed ones too: 5 to 10 ms for each MB that is left. A crash at
        any point leaves the old file or the new one, whole. Unless `force`d, it does nothing if
        less than a tenth of the file would be freed.

        :raises DiskFull: there is no room for a copy; nothing was changed.
        :raises CorruptLog: a table is damaged; nothing was changed.
        :raises StorageFailed: the disk failed: nothing was changed, or the log has to be opened
            again.
        """
        return await self._shrink(force=force)

    async def _shrink(self, *, force: bool) -> records.Shrunk:
        file_bytes = self._env.file_bytes()
        if not force and self.reclaimable_bytes() * SHRINK_PART < file_bytes:
            return records.Shrunk(file_bytes, file_bytes)
        self._intake.is_stalled = True
        try:
            await self._intake.flush()
            shrunk = await anyio.to_thread.run_sync(self._env.shrink, put_shrunk)
        finally:
            self._intake.is_stalled = False
        await self._intake.flush()  # anchors the new file, so that the old one cannot come back
        return shrunk

    def reclaimable_bytes(self) -> int:
        """Return by how much `shrink` would at least make the file smaller."""
        with self._env.read() as txn:
            return self._env.free_bytes(txn) + load_format(txn).slack_bytes

    async def _read_in_thread(self, read: Callable[[Transaction], T]) -> T:
        def run() -> T:
            with self._env.read() as txn:
                return read(txn)

        return await anyio.to_thread.run_sync(run)

    def _done(self, task: "asyncio.Task[object]") -> None:
        self._upkeep_lock.release()
        self._under_way.discard(task)
        if not task.cancelled():
            task.exception()  # its caller may have gone
