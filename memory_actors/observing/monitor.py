"""The memory of this process, against two limits.

At the soft limit work goes on, but something is let go: a warning, and `on_soft`. Both come once
for each crossing; the next crossing counts after use fell to 95 % of the soft limit, because
a process that hovers at a limit would otherwise warn all the time. Over the hard limit new work is
refused (`admit`), so that the operating system does not kill the work already taken on.

Reading costs some 10 microseconds, so it is done at most every `interval_s`: between two readings
the last one counts.
"""

import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import anyio

from eventlog.core.logs import get_logger
from memory_actors.base.errors import InvalidInputError, MemoryLimitError
from memory_actors.base.privacy import reason
from memory_actors.base.quota import MIB
from memory_actors.base.statistics import Level, MemoryStatistics

SOFT_AGAIN = 0.95  # of the soft limit: 5 points below it the next crossing counts

_logger = get_logger("memory_actors.observing.monitor")


def resident_bytes() -> int:
    """Return the resident memory of this process."""
    if sys.platform != "linux":
        import psutil

        return int(psutil.Process().memory_info().rss)
    return int(Path("/proc/self/statm").read_bytes().split()[1]) * resource.getpagesize()


class MemoryMonitor:
    """Watches the memory of this process. For one thread. A limit of None is no limit.

    `read` gives the bytes held, `clock` seconds that only rise. `on_soft` is called once at each
    crossing of the soft limit, by whoever samples: it should be quick; what it raises is logged.

    :raises InvalidInputError: a limit or interval that is not positive, or soft above hard.
    """

    def __init__(
        self,
        soft_limit_bytes: int | None = None,
        hard_limit_bytes: int | None = None,
        *,
        interval_s: float = 0.25,
        read: Callable[[], int] = resident_bytes,
        on_soft: Callable[[], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ):
        _check(soft_limit_bytes, hard_limit_bytes, interval_s)
        self._soft_bytes = soft_limit_bytes
        self._hard_bytes = hard_limit_bytes
        self._interval_s = interval_s
        self._read = read
        self._on_soft = on_soft
        self._clock = clock
        self._current_bytes = 0
        self._peak_bytes = 0
        self._read_at_s = float("-inf")
        self._above_soft = False

    @property
    def current_bytes(self) -> int:
        """Memory held, as of at most `interval_s` ago."""
        return self.sample()

    def sample(self) -> int:
        """Read, unless that was done within `interval_s`; return the last reading."""
        now_s = self._clock()
        if now_s - self._read_at_s >= self._interval_s:
            self._read_at_s = now_s
            self._current_bytes = self._read()
            self._peak_bytes = max(self._peak_bytes, self._current_bytes)
            self._heed_soft()
        return self._current_bytes

    def admit(self) -> None:
        """Let new work in.

        :raises MemoryLimitError: the process is over its hard limit.
        """
        used, limit = self.sample(), self._hard_bytes
        if limit is not None and used > limit:
            raise MemoryLimitError(
                f"the process holds {_mib(used)} of memory (hard limit: {_mib(limit)}): wait for "
                "work in hand to end and try again, give live users a smaller budget, "
                "or raise the hard limit",
                used_bytes=used,
                limit_bytes=limit,
            )

    async def watch(self) -> NoReturn:
        """Sample forever: for a task in the background, cancelled when it is no longer wanted."""
        while True:
            self.sample()
            await anyio.sleep(self._interval_s)

    def statistics(self) -> MemoryStatistics:
        """Return the current memory use, and the limits."""
        held = self.sample()
        level: Level = "ok"
        if self._hard_bytes is not None and held > self._hard_bytes:
            level = "hard"
        elif self._soft_bytes is not None and held >= self._soft_bytes:
            level = "soft"
        return MemoryStatistics(
            current_bytes=held,
            peak_bytes=self._peak_bytes,
            soft_limit_bytes=self._soft_bytes,
            hard_limit_bytes=self._hard_bytes,
            level=level,
        )

    def _heed_soft(self) -> None:
        used, limit = self._current_bytes, self._soft_bytes
        if limit is None:
            return
        if used <= limit * SOFT_AGAIN:
            self._above_soft = False
        if used < limit or self._above_soft:
            return
        self._above_soft = True
        _logger.warning("memory at its soft limit", used_bytes=used, soft_limit_bytes=limit)
        try:
            if self._on_soft is not None:
                self._on_soft()
        except Exception as error:  # whoever sampled is not to blame
            _logger.error("making room failed", error=reason(error))


def _check(soft: int | None, hard: int | None, interval_s: float) -> None:
    for name, limit in (("soft_limit_bytes", soft), ("hard_limit_bytes", hard)):
        if limit is not None and limit <= 0:
            raise InvalidInputError(f"{name} must be above 0 or None, not {limit!r}")
    if soft is not None and hard is not None and soft > hard:
        raise InvalidInputError(
            f"soft_limit_bytes {soft:,} is above hard_limit_bytes {hard:,}: lower it"
        )
    if not interval_s > 0:
        raise InvalidInputError(f"interval_s must be above 0, not {interval_s!r}")


def _mib(size_bytes: int) -> str:
    return f"{size_bytes / MIB:,.1f} MiB"
