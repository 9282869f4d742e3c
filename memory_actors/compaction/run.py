"""One run of compaction: the request, its progress, and its report."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from time import perf_counter

from eventlog.core.logs import get_logger
from memory_actors.base.privacy import hashed, reason
from memory_actors.base.reports import ClusterReport, CompactionProgress, CompactionReport
from memory_actors.base.watching import tell
from memory_actors.compaction.throttling import Pace
from memory_actors.kinds.compacting import CompactedKind

CLUSTERS_REPORTED = 1_000  # with their texts: 4 MB; the numbers are of all
Progress = Callable[[CompactionProgress], object]

_logger = get_logger("memory_actors.compaction")


@dataclass(slots=True)
class CompactionRun:
    """A run that is under way."""

    kinds: Sequence[CompactedKind]
    dry_run: bool
    older_than: timedelta | None
    progress: Progress | None
    asked_to_stop: Callable[[], bool]
    halt: asyncio.Event
    """The caller or the system has gone: a summary that is not there soon is given up."""
    pace: Pace
    started_s: float = field(default_factory=perf_counter)
    users_total: int = 0
    users_done: int = 0
    users_failed: int = 0
    considered: int = 0
    clusters: list[ClusterReport] = field(default_factory=list)
    compressed: int = 0
    originals: int = 0
    failed: int = 0
    bytes_before: int = 0
    bytes_after: int = 0

    def count(self, cluster: ClusterReport) -> None:
        """Take in what came of a cluster."""
        if len(self.clusters) < CLUSTERS_REPORTED:
            self.clusters.append(cluster)
        self.failed += cluster.outcome == "failed"
        if cluster.outcome in ("compressed", "would_compress"):
            self.compressed += 1
            self.originals += cluster.original_count
            self.bytes_before += cluster.bytes_before
            self.bytes_after += cluster.bytes_after

    def leave(self, user_id: str, error: Exception) -> None:
        """Leave a user for the next run."""
        self.users_failed += 1
        _logger.warning("user not compacted", user=hashed(user_id), error=reason(error))

    def forget(self, user_id: str) -> None:
        """Report nothing of a user's memories."""
        self.clusters = [each for each in self.clusters if each.user_id != user_id]

    async def tell(self, user_id: str, done: int, total: int) -> None:
        """Report the progress to the caller."""
        if self.progress is None:
            return
        told = CompactionProgress(
            users_done=self.users_done,
            users_total=self.users_total,
            user_id=user_id,
            clusters_done=done,
            clusters_total=total,
        )
        try:
            await tell(self.progress, told)
        except Exception as error:  # who watches must not harm what is watched
            _logger.warning("progress not told", error=reason(error))
            self.progress = None

    def reported(
        self, file_bytes_before: int, file_bytes_after: int, *, cancelled: bool
    ) -> CompactionReport:
        """Return the report of the run."""
        return CompactionReport(
            dry_run=self.dry_run,
            users=self.users_done,
            users_failed=self.users_failed,
            memories_considered=self.considered,
            clusters=tuple(self.clusters),
            compressed=self.compressed,
            originals=self.originals,
            failed=self.failed,
            bytes_before=self.bytes_before,
            bytes_after=self.bytes_after,
            file_bytes_before=file_bytes_before,
            file_bytes_after=file_bytes_after,
            took_s=perf_counter() - self.started_s,
            cancelled=cancelled,
        )
