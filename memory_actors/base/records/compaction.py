"""What a run of compaction did, would do, and has come to."""

from datetime import datetime

from eventlog.core.records import Returned


class Saving(Returned, frozen=True, kw_only=True):
    """Bytes of contents: of originals, and of the summaries in their place."""

    bytes_before: int
    bytes_after: int

    @property
    def bytes_saved(self) -> int:
        """Bytes of content that went, or would go."""
        return self.bytes_before - self.bytes_after

    @property
    def compression_ratio(self) -> float:
        """Bytes after to a byte before; 0 if nothing was compressed."""
        return self.bytes_after / self.bytes_before if self.bytes_before else 0.0


class ClusterReport(Returned, frozen=True, kw_only=True):
    """What came of one cluster of old memories, or of old episodes."""

    user_id: str
    memory_type: str = "long_term"
    memory_id: str | None
    """Of the summary, where there is one now."""
    original_count: int
    sample: tuple[str, ...]
    """Three of the originals at most, 200 characters each at most."""
    summary: str | None
    bytes_before: int
    """Of the originals' contents."""
    bytes_after: int
    """Of the summary; as before where there is none."""
    time_range_start: datetime
    time_range_end: datetime
    outcome: str
    """compressed, would_compress (dry run), failed, or changed (an original did meanwhile)."""
    reason: str | None = None


class CompactionReport(Saving, frozen=True, kw_only=True):
    """What a run of compaction did, or would do."""

    dry_run: bool
    users: int
    users_failed: int = 0
    """Whose memory could not be read or written; they are tried again with the next run."""
    memories_considered: int
    clusters: tuple[ClusterReport, ...]
    """The first 1,000; the numbers are of all."""
    compressed: int
    """Summaries made; with `dry_run`, that would be."""
    originals: int
    """Memories they stand for."""
    failed: int
    """Clusters that stay as they are and are tried again with the next run."""
    file_bytes_before: int
    """Of all files of the store."""
    file_bytes_after: int
    took_s: float
    cancelled: bool = False


class CompactionProgress(Returned, frozen=True, kw_only=True):
    """How far a run has come."""

    users_done: int
    users_total: int
    user_id: str
    clusters_done: int
    """Of this user."""
    clusters_total: int


class CompactionStats(Saving, frozen=True, kw_only=True):
    """What compaction has come to, of one user or of all."""

    summaries: int
    """Living ones."""
    originals: int
    """Memories they stand for."""
    failed_clusters: int
    """This and the next two: of this process, all users."""
    runs: int
    last_run_at: datetime | None
    schedule: str | None
    """When it runs by itself, a cron expression; None: only when asked."""
