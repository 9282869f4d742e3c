"""The memory of the process during one run."""

from memory_actors.base.errors import InvalidInputError
from memory_actors.base.quota import MIB
from memory_actors.improve.limits import MemoryLimits
from memory_actors.observing.monitor import SOFT_AGAIN, MemoryMonitor

INTERVAL_S = 0.01  # a reading takes some 10 us, a round of even a fast pair a hundred times that


class Watch:
    """Looks at a monitor that others may use too: crossings and peak are this run's own."""

    def __init__(self, monitor: MemoryMonitor):
        self._monitor = monitor
        self._warned = False
        self._peak_bytes = 0

    def look(self) -> str | None:
        """Return a warning if the soft limit was crossed since the last look.

        :raises MemoryLimitError: the process is over its hard limit.
        """
        now = self._monitor.statistics()
        self._peak_bytes = max(self._peak_bytes, now.current_bytes)
        self._monitor.admit()
        soft = now.soft_limit_bytes
        if soft is None or self._warned:
            self._warned = (
                self._warned and soft is not None and now.current_bytes > SOFT_AGAIN * soft
            )
            return None
        self._warned = now.current_bytes >= soft
        if not self._warned:
            return None
        used = f"{now.current_bytes / MIB:,.1f} MiB"
        return f"the process holds {used} of memory (soft limit: {soft / MIB:,.1f} MiB)"

    @property
    def peak_mb(self) -> float:
        """The most that a look has seen, in MB of 1024 KB."""
        self._peak_bytes = max(self._peak_bytes, self._monitor.current_bytes)
        return round(self._peak_bytes / MIB, 3)


def watch(limits: MemoryLimits, monitor: MemoryMonitor | None) -> Watch:
    """Return a watch over the monitor given, or over one with the limits of the run.

    :raises InvalidInputError: both are given, or the soft limit is above the hard one.
    """
    soft, hard = limits.soft_limit_bytes, limits.hard_limit_bytes
    if monitor is None:
        return Watch(MemoryMonitor(soft, hard, interval_s=INTERVAL_S))
    if soft is not None or hard is not None:
        raise InvalidInputError("give limits of the process to the monitor or to memory_limits")
    return Watch(monitor)
