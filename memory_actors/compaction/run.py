"""One run of compaction: the request, its pace, its progress, and its report.

A run takes a tenth of the time while others are at work. It shortens the turns of threads, since a
search has to get the interpreter's lock back after every product (that took searches from 10 to 20
ms), and limits BLAS to one thread. The only file that imports threadpoolctl.
"""

import asyncio
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from functools import cache, partial
from time import perf_counter
from typing import TYPE_CHECKING

import msgspec

from eventlog.core.logs import get_logger
from memory_actors.base.privacy import hashed, reason
from memory_actors.base.reports import ClusterReport, CompactionProgress, CompactionReport
from memory_actors.base.watching import tell
from memory_actors.kinds.compacting import CompactedKind
from memory_actors.kinds.rows import derived

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController


REST = 9  # times as long as the work it follows
REST_S_MAX = 0.25  # a summary that was waited for has burdened nobody; a second gains nothing
TURN_S_MAX = 0.0005  # of a thread that has the interpreter's lock while another wants it

Restore = Callable[[], object]


class Pace:
    """Rests after each piece of work if somebody else has used the memory meanwhile.

    `uses` says how often others have; `halt` ends a rest.
    """

    def __init__(self, uses: Callable[[], int], halt: asyncio.Event):
        self._uses = uses
        self._halt = halt
        self._seen = uses()
        self._since_s = perf_counter()

    async def give_way(self) -> None:
        """Rest if others have used the memory."""
        before, worked_s = self._uses(), perf_counter() - self._since_s
        await self._rest(min(REST * worked_s, REST_S_MAX) if before > self._seen else 0)
        self._seen, self._since_s = before, perf_counter()  # who came meanwhile is still about

    async def _rest(self, rest_s: float) -> None:
        await asyncio.sleep(0)
        with suppress(TimeoutError):
            async with asyncio.timeout(rest_s):
                await self._halt.wait()


class ProcessSetting:
    """A setting of the process: the first who needs it changed changes it, the last restores it.

    `change` changes it and returns what restores the value before. From any thread.
    """

    def __init__(self, change: Callable[[], Restore]):
        self._change = change
        self._lock = threading.Lock()
        self._inside = 0
        self._restore: Restore | None = None

    @contextmanager
    def changed(self) -> Iterator[None]:
        """Keep the setting changed inside the block."""
        with self._lock:
            if self._inside == 0:
                self._restore = self._change()
            self._inside += 1
        try:
            yield
        finally:
            with self._lock:
                self._inside -= 1
                if self._inside == 0 and self._restore is not None:
                    self._restore()


def _shorten_turns() -> Restore:
    before_s = sys.getswitchinterval()
    sys.setswitchinterval(min(TURN_S_MAX, before_s))
    return partial(sys.setswitchinterval, before_s)


@cache
def _blas() -> "ThreadpoolController":
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController().select(user_api="blas")


def _limit_blas() -> Restore:
    restore: Restore = _blas().limit(limits=1).restore_original_limits
    return restore


short_turns = ProcessSetting(_shorten_turns).changed
"""Lets threads pass the interpreter's lock on soon inside a `with` block."""
one_thread = ProcessSetting(_limit_blas).changed
"""Lets BLAS use one thread inside a `with` block."""

CLUSTERS_REPORTED = 1_000  # with their texts: 4 MB; the numbers are of all
Progress = Callable[[CompactionProgress], object]

_logger = get_logger("memory_actors.compaction")


class CompactionRun(msgspec.Struct):
    """A run that is under way."""

    kinds: Sequence[CompactedKind]
    dry_run: bool
    older_than: timedelta | None
    progress: Progress | None
    asked_to_stop: Callable[[], bool]
    halt: asyncio.Event
    """The caller or the system has gone: a summary that is not there soon is given up."""
    pace: Pace
    started_s: float = msgspec.field(default_factory=perf_counter)
    users_total: int = 0
    users_done: int = 0
    users_failed: int = 0
    considered: int = 0
    clusters: list[ClusterReport] = []
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
        return derived(
            CompactionReport,
            self,
            users=self.users_done,
            memories_considered=self.considered,
            clusters=tuple(self.clusters),
            file_bytes_before=file_bytes_before,
            file_bytes_after=file_bytes_after,
            took_s=perf_counter() - self.started_s,
            cancelled=cancelled,
        )
