"""One cluster of old memories: its summary, and the event that puts it in their place.

Whatever a summariser does, its cluster stays as it is unless there is a good summary. The actor
replaces memories only if each of them is still as it was read.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import anyio.to_thread

from eventlog import ArchivingStore, Checkpoint
from eventlog.core.logs import get_logger
from eventlog.core.records import to_datetime
from memory_actors.base.errors import (
    EmbedderError,
    MemoryActorsError,
    SummarizerError,
    SystemClosedError,
)
from memory_actors.base.privacy import hashed, reason
from memory_actors.base.reports import ClusterReport
from memory_actors.compaction.selection import Old, said_by, vectors_of
from memory_actors.compaction.summarizers import Cluster, Summarizer
from memory_actors.compaction.summarizers.protocol import checked_body
from memory_actors.kinds import episodic, long_term
from memory_actors.kinds.compacting import Compressed
from memory_actors.kinds.user_state import COMPACTED
from memory_actors.search.reading import pages, versions_about
from memory_actors.users.handles.episodes import Episodes
from memory_actors.users.handles.handle import Summarized, summary_text
from memory_actors.users.handles.long_term import LongTermMemory
from memory_actors.users.handles.scope import Scope

GRACE_S = 3.0  # for the current summary, after a run is cancelled
SAVED_MIN: Final = 0.5  # share of the originals' bytes: a summary that saves less is no gain
SAMPLES = 3
SAMPLE_CHARACTERS = 200
REASON_CHARACTERS = 300

HANDLES: Final[Mapping[str, type[Summarized]]] = {
    long_term.KIND.NAME: LongTermMemory,
    episodic.KIND.NAME: Episodes,
}

_logger = get_logger("memory_actors.compaction")


class Replacing:
    """Summarises clusters and replaces them, one after another."""

    def __init__(self, summarizer: Summarizer, deadline_s: float):
        self._summarizer = summarizer
        self._deadline_s = deadline_s
        self._embedder_failed = False
        """With the last summary: it is asked again before another one is paid for."""

    async def replace(
        self, scope: Scope, old: Old, halts: Sequence[asyncio.Event], *, dry_run: bool
    ) -> ClusterReport:
        """Replace a cluster by its summary, or say why not; `dry_run` only says what would be.

        Each of `halts` gives up a summary that is not there soon.
        """
        told = _Told(scope, old, await said_by(scope, old))
        try:
            cluster = await told.cluster()
            if self._embedder_failed:
                await scope.embeddings.embed([cluster.heading], background=True)
            content = await scope.masked(await self._summary(cluster, halts))
            size_max = min((1 - SAVED_MIN) * cluster.content_bytes, told.bytes_before - 1)
            if (size := len(content.encode())) > size_max:
                before = f"{told.bytes_before:,}"
                why = f"the summary takes {size:,} bytes and the originals {before}: they stay"
                return told.report("kept", why=why)
            fields = summary_text(content)
            if dry_run:
                return told.report("would_compress", summary=content)
            summary = self._event(told, fields)
            written = await HANDLES[old.kind.NAME](scope)._compress(summary, old.rows)  # noqa: SLF001 - no operation: compaction's alone
        except SystemClosedError:
            raise
        except Exception as error:  # of a summariser of the caller's own, anything
            self._embedder_failed = isinstance(error, EmbedderError)
            return told.failed(error)
        self._embedder_failed = False
        if not written.reply.events:
            return told.report("changed")
        return told.report("compressed", content, summary.memory_id)

    async def _summary(self, cluster: Cluster, halts: Sequence[asyncio.Event]) -> str:
        # In a task of its own, which may hang or be cancelled without harm to this one.
        work = asyncio.ensure_future(self._summarizer.summarize(cluster))
        work.add_done_callback(lambda task: task.cancelled() or task.exception())
        halted = [asyncio.ensure_future(halt.wait()) for halt in halts]
        try:
            done, _ = await asyncio.wait(
                {work, *halted}, timeout=self._deadline_s, return_when=asyncio.FIRST_COMPLETED
            )
            if done and work not in done:
                done, _ = await asyncio.wait({work}, timeout=GRACE_S)
        finally:
            for each in (work, *halted):
                each.cancel()
        if work not in done:
            stopped = any(halt.is_set() for halt in halts)
            why = "before the run was stopped" if stopped else f"within {self._deadline_s:g} s"
            raise SummarizerError(f"no summary {why}")
        if work.cancelled():
            raise SummarizerError("the summariser was cancelled by what it waited for")
        return cluster.heading + checked_body(work.result(), self._summarizer.name)

    def _event(self, told: "_Told", fields: Mapping[str, object]) -> Compressed:
        kind, rows = told.old
        sessions = dict.fromkeys(row.session_id for row in rows if row.session_id is not None)
        made_of = {
            "memory_id": told.scope.new_id(told.scope.now_us()),
            "occurred_at_us": rows[-1].occurred_at_us,
            "compressed_from_ids": tuple(row.memory_id for row in rows),
            "original_count": len(rows),
            "time_range_start_us": rows[0].occurred_at_us,
            "time_range_end_us": rows[-1].occurred_at_us,
            "compression_method": self._summarizer.name,
            "session_ids": tuple(sessions),
            "bytes_before": told.bytes_before,
        }
        return kind.compressed(rows, {**made_of, **fields})


class _Told(NamedTuple):
    scope: Scope
    old: Old
    said: Sequence[str]

    @property
    def bytes_before(self) -> int:
        """The size of the originals' contents."""
        return sum(row.size_bytes for row in self.old.rows)

    async def cluster(self) -> Cluster:
        """Return the cluster in the form that a summariser takes."""
        return self.old.cluster(self.said, await vectors_of(self.scope, self.old))

    def failed(self, error: Exception) -> ClusterReport:
        """Return the report of a cluster without a summary; the log gets no content."""
        _logger.warning(
            "cluster not compressed",
            user=hashed(self.scope.user_id),
            count=len(self.old.rows),
            error=reason(error),
        )
        why = str(error) if isinstance(error, MemoryActorsError) else type(error).__name__
        return self.report("failed", why=why[:REASON_CHARACTERS])

    def report(
        self,
        outcome: str,
        summary: str | None = None,
        memory_id: str | None = None,
        *,
        why: str | None = None,
    ) -> ClusterReport:
        """Return the report of the cluster."""
        kind, rows = self.old
        return ClusterReport(
            user_id=self.scope.user_id,
            memory_type=kind.NAME,
            memory_id=memory_id,
            original_count=len(rows),
            sample=tuple(text[:SAMPLE_CHARACTERS] for text in self.said[:SAMPLES]),
            summary=summary,
            bytes_before=self.bytes_before,
            bytes_after=self.bytes_before if summary is None else len(summary.encode()),
            time_range_start=to_datetime(rows[0].occurred_at_us),
            time_range_end=to_datetime(rows[-1].occurred_at_us),
            outcome=outcome,
            reason=why,
        )


# --- originals of summaries: their texts go to the archive, and what is derived of them goes
#
# A checkpoint per user names the newest summary whose originals are archived; the next run goes on
# there. Only events of one original alone are archived, and only those before it was
# compressed: no living memory rests on them (see kinds/compacting.py). The start of an episode that
# took the place of another is about that one, too, and stays.


def checkpoint_name(stream: str) -> str:
    """Return the name of the checkpoint of a user's archived originals."""
    return f"archived originals of {stream}"


async def archive_originals(scope: Scope) -> int:
    """Archive the events of all originals of a user that have not been; return how many moved."""
    log, name = scope.services.log, checkpoint_name(scope.stream)
    done = await log.load_checkpoint(name)
    state = await scope.state()
    living = [row.version for kind in COMPACTED for row in kind.summaries(state.of(kind))]
    summaries = sorted(version for version in living if version > done)
    if not summaries:
        return 0
    versions, digests = await _originals(scope, summaries)
    moved = 0
    if versions and isinstance(log, ArchivingStore):  # else they stay where they are
        moved = (await log.archive(scope.stream, versions)).events
    async with scope.writable() as live:  # the texts of others are embedded again when needed
        needed = await anyio.to_thread.run_sync(live.state.digests)
        await live.embeddings.forget(sorted(digests - needed))
    await log.save_checkpoint(Checkpoint(name, summaries[-1]))
    return moved


async def _originals(scope: Scope, summaries: Sequence[int]) -> tuple[list[int], set[bytes]]:
    log, stream, about = scope.services.log, scope.stream, set[int]()
    async for page in pages(log, stream, summaries, "raise"):
        for recorded in page:
            if isinstance(recorded.data, Compressed):  # not one that came back
                ids = recorded.data.compressed_from_ids
                before = await versions_about(log, stream, ids, before=recorded.version)
                about.update(version for each in before.values() for version in each)
    versions, digests = list[int](), set[bytes]()
    async for page in pages(log, stream, about):
        for recorded in page:
            digests.add(getattr(recorded.data, "digest", b""))
            event = getattr(recorded.data, "words", recorded.data)  # of one that was pending
            if any(kind.is_own(event) for kind in COMPACTED):
                versions.append(recorded.version)
    return versions, digests - {b""}
