"""The upkeep of `EventLog` as callers see it: what is done to all of a log in use."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from eventlog.core.capabilities import Also, OfErased, Progress
from eventlog.core.records import (
    Archived,
    ArchiveStatistics,
    BackedUp,
    DroppedPayloads,
    Erased,
    Exported,
    Imported,
    Shrunk,
)
from eventlog.files.datafile import named
from eventlog.upkeep.upkeep import Upkeep


class EventLogUpkeep:
    """What `EventLog` does by its `Upkeep`."""

    _upkeep: Upkeep

    async def archive(self, stream: str, versions: Sequence[int]) -> Archived:
        """Move the payloads of these events of a stream to the archive. See `ArchivingStore`.

        What is asked goes in segments of up to 512 events, each for itself: a caller who is
        cancelled, or gets an error, has archived whole segments, and asks again for the rest.

        :raises DiskFull: no room for a segment.
        :raises CorruptLog: a payload is damaged; its segment is not archived.
        """
        return await self._upkeep.archive(stream, versions)

    async def drop_archived(self, before_us: int, stream: str | None = None) -> DroppedPayloads:
        """Delete payloads archived before a time, for good. See `ArchivingStore`."""
        return await self._upkeep.drop_archived(before_us, stream)

    async def erase(
        self,
        stream: str,
        *,
        counted: Mapping[str, int] | None = None,
        projections: Sequence[str] = (),
    ) -> Erased:
        """Erase a stream, for good. See `ErasingStore`.

        The stream reads as erased from the first transaction on; then payloads, index rows and
        files of the archive go piece by piece, and the log's file is replaced, as by `shrink`. A
        caller who is cancelled does not stop it. After a crash or an error the next opening of the
        log, or a second call, does what is left.

        :raises DiskFull: there is no room for a copy of the file: the erasure is under way.
        :raises CorruptLog: an event or a table is damaged: likewise.
        :raises StorageFailed: the disk failed: likewise.
        """
        return await self._upkeep.erase(stream, counted or {}, projections)

    async def backup(self, directory: str | Path, *, also: Also | None = None) -> BackedUp:
        """Write a copy of the log as it is at one moment to a new directory, and verify it.

        Appends and reads go on; archiving, erasing and shrinking wait. `also(path)` is called in a
        thread to put more into the directory. It appears whole, or not at all. `restore` puts a
        backup in the place of a log.

        :raises LogUnavailable: there is something at `directory` already, or it cannot be made.
        :raises DiskFull, StorageFailed: there is nothing of it.
        :raises CorruptLog: the log, and so its copy, is damaged; there is nothing of it.
        """
        return await self._upkeep.backup(named(directory), also)

    async def export_since(
        self, position: int, file: str | Path, *, progress: Progress | None = None
    ) -> Exported:
        """Write what came behind a position to a new file, for `import_events` of another log.

        `progress(done, total)` is called in a thread; it counts the events of the whole log.
        Upkeep waits meanwhile; appends and reads go on. Streams that were erased, whenever that
        was, are named in it by their ids, so that they are erased there too.

        :raises LogUnavailable: there is such a file, or the log has not got so far.
        :raises PayloadDropped: retention has dropped a payload behind that position.
        :raises DiskFull, StorageFailed, CorruptLog: there is nothing of it.
        """
        return await self._upkeep.export_since(position, Path(file), progress)

    async def import_events(
        self,
        file: str | Path,
        *,
        progress: Progress | None = None,
        erasing: OfErased | None = None,
    ) -> Imported:
        """Append what another log exported, if this one has the very same past.

        What it has already is passed over, so an import that was interrupted can be repeated.
        Nobody else may append meanwhile. Nothing is written before the whole file has been checked.
        `progress(done, total)` counts the events that are new. `erasing(names)` is called in a
        thread before streams are erased, for what is kept of them elsewhere.

        :raises WrongExpectedVersion: there is a gap between the log and the file, or the log has
            more than the file.
        :raises CorruptLog: the file is damaged, or continues another log.
        :raises LogUnavailable: it cannot be read.
        """
        return await self._upkeep.import_events(Path(file), progress, erasing)

    async def archive_statistics(self, stream: str | None = None) -> ArchiveStatistics:
        """Return what is in the archive, of one stream or of all."""
        return await self._upkeep.statistics(stream)

    async def shrink(self, *, force: bool = False) -> Shrunk:
        """Replace the file of the log by one that holds nothing but what is there.

        Reads go on. Appends wait, relaxed ones too: 5 to 10 ms for each MB that is left. A crash at
        any point leaves the old file or the new one, whole. Nothing is done, unless `force`d, where
        less than a tenth of the file is known to go.

        :raises DiskFull: there is no room for a copy; nothing was changed.
        :raises CorruptLog: a table is damaged; nothing was changed.
        :raises StorageFailed: the disk failed: nothing was changed, or the log has to be opened
            again.
        """
        return await self._upkeep.shrink(force=force)

    def reclaimable_bytes(self) -> int:
        """Return by how much `shrink` would at least make the file smaller."""
        return self._upkeep.reclaimable_bytes()
