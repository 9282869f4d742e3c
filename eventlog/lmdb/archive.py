"""The archive: a directory of segments, beside the log.

A segment is there for good once `write` has returned: it was written under a temporary name,
synced, renamed, and the directory synced. Its record in the log (tables.py), which is committed
afterwards, makes it valid. A crash in between leaves a file without a record, which
`remove_unnamed` deletes at the next opening. It touches nothing whose name is not a segment's.

Blocks that were read are kept decompressed, the last used of them, up to `CACHE_BYTES`. A file is
never read on the event loop: there `entry` raises `NotInMemory`, and the caller reads in a thread.
"""

import hashlib
import os
import threading
from collections import OrderedDict
from collections.abc import Collection, Container, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from eventlog.core.frame import Place
from eventlog.core.logs import get_logger
from eventlog.files import datafile
from eventlog.lmdb import segment as segments
from eventlog.lmdb.segment import ArchiveBlock, Entry, SegmentId

CACHE_BYTES = 16 << 20  # some 100 blocks: a scan over many streams meets each in turn

_logger = get_logger("eventlog")


class NotInMemory(Exception):
    """The block has to be read from its file, and this is the event loop."""


class WrittenSegment(msgspec.Struct, frozen=True):
    """A segment that is on disk."""

    segment: SegmentId
    places: list[Place]
    file_bytes: int
    sha256: bytes


class Archive:
    """The segments of a log. May be used from any thread."""

    def __init__(self, directory: Path, cache_bytes: int = CACHE_BYTES):
        self.directory = directory
        self._cache_bytes = cache_bytes
        self._cached_bytes = 0
        self._blocks: OrderedDict[tuple[SegmentId, int], ArchiveBlock] = OrderedDict()
        self._lock = threading.Lock()
        self._loop_thread: int | None = None

    def never_block_this_thread(self) -> None:
        """Raise `NotInMemory` in this thread rather than read a file."""
        self._loop_thread = threading.get_ident()

    # --- read

    def entry(self, sid: bytes, place: Place) -> Entry:
        """Return the entry at a place of a stream's archive.

        :raises NotInMemory: see `never_block_this_thread`.
        Raises as `segment.read_block` does, too.
        """
        segment = SegmentId(sid, place.number)
        key = segment, place.offset
        with self._lock:
            found = self._blocks.get(key)
            if found is not None:
                self._blocks.move_to_end(key)
        if found is None:
            if threading.get_ident() == self._loop_thread:
                raise NotInMemory
            found = segments.read_block(self.directory, segment, place.offset)
            self._keep(key, found)
        return found.entry(place.slot)

    def _keep(self, key: tuple[SegmentId, int], found: ArchiveBlock) -> None:
        with self._lock:
            if key in self._blocks or len(found.raw) > self._cache_bytes:
                return
            self._blocks[key] = found
            self._cached_bytes += len(found.raw)
            while self._cached_bytes > self._cache_bytes:
                self._cached_bytes -= len(self._blocks.popitem(last=False)[1].raw)

    def sha256(self, segment: SegmentId) -> bytes:
        """Return the digest of a segment's file; empty if it cannot be read."""
        path = self.directory / segment.name
        with suppress(OSError), os.fdopen(datafile.open_regular(path), "rb") as file:
            return hashlib.file_digest(file, "sha256").digest()
        return b""

    # --- write

    def write(self, sid: bytes, number: int, entries: Sequence[Entry]) -> WrittenSegment:
        """Write a segment, for good. Its number is `number`, or the next that has no file.

        :raises DiskFull: the disk is full; no file remains.
        :raises StorageFailed: a write failed; no file remains.
        """
        with datafile.storing(self.directory):
            if not self.directory.is_dir():
                self.directory.mkdir(datafile.DIRECTORY_MODE)
                datafile.sync_to_disk(self.directory.parent)
            while (self.directory / SegmentId(sid, number).name).exists():
                number += 1
            segment = SegmentId(sid, number)
            data, places = segments.build(segment, entries)
            path = self.directory / segment.name
            try:
                datafile.write_whole(path, data)
            except BaseException:
                with suppress(OSError):
                    path.unlink(missing_ok=True)  # it is there, and not for good
                raise
        return WrittenSegment(segment, places, len(data), hashlib.sha256(data).digest())

    def remove(self, gone: Collection[SegmentId]) -> None:
        """Remove the files of segments, and what is remembered of them."""
        self._forget(gone)
        self._remove([segment.name for segment in gone])

    def _forget(self, gone: Container[SegmentId]) -> None:
        with self._lock:
            for key in [key for key in self._blocks if key[0] in gone]:
                self._cached_bytes -= len(self._blocks.pop(key).raw)

    def remove_stream(self, sid: bytes, kept: Container[SegmentId]) -> int:
        """Remove every file of a stream but these segments; return how many there were.

        :raises StorageFailed: the directory cannot be looked into, or a file cannot be removed.
        """

        def is_gone(segment: SegmentId) -> bool:
            return segment.sid == sid and segment not in kept

        with self._lock:
            read = {segment for segment, _ in self._blocks if is_gone(segment)}
        self._forget(read)
        return datafile.remove_named(
            self.directory,
            lambda name: (of := segments.parse_name(name)) is not None and is_gone(of[0]),
        )

    def remove_unnamed(self, named: Container[SegmentId]) -> None:
        """Remove every segment that is not one of these, and those that were never finished."""
        try:
            names = [path.name for path in self.directory.iterdir()]
        except FileNotFoundError:
            return
        except OSError as error:
            _logger.warning("archive not cleared", error=str(error))
            return
        files = [(name, segments.parse_name(name)) for name in names]
        self._remove([name for name, of in files if of and (of[1] or of[0] not in named)])

    def _remove(self, names: Sequence[str]) -> None:
        """Remove files. A failure is logged: no record names them, so the next opening tries."""
        if not names:
            return
        try:
            for name in names:
                (self.directory / name).unlink(missing_ok=True)
            datafile.sync_to_disk(self.directory)
        except OSError as error:
            _logger.warning("segment not removed", error=str(error))
