"""Calls that take longer than they should: each is counted, and now and then one is told of.

What calls of a kind may take is a setting, `latency_targets_ms`. A violation is logged once a
minute and kind at most, in words that can be searched for, with how many there were since.
"""

import time
from collections.abc import Callable, Mapping, Sequence

from eventlog.core.logs import get_logger

SAY_AGAIN_S = 60.0  # often enough to be seen, and a slow disk does not fill the log

_logger = get_logger("memory_actors.observing.latency")


class LatencyWatch:
    """Holds calls to their targets. For one thread; `clock` gives seconds that only rise."""

    def __init__(
        self, targets_ms: Mapping[str, float], clock: Callable[[], float] = time.monotonic
    ):
        self._targets_ms = targets_ms
        self._clock = clock
        self._violations: dict[str, int] = {}
        self._said: dict[str, tuple[float, int]] = {}
        """By kind: when it was told last, and how many there were by then."""

    @property
    def violations(self) -> Mapping[str, int]:
        """The number of calls that took longer than they should, by kind."""
        return dict(self._violations)

    def note(self, operation: str, kinds: Sequence[str], seconds: float) -> None:
        """Hold a call about these kinds to the most lenient of their targets, if they have one."""
        targets = [
            (self._targets_ms[kind], str(kind)) for kind in kinds if kind in self._targets_ms
        ]
        if not targets:
            return
        (target_ms, kind), took_ms = max(targets), seconds * 1e3
        if took_ms > target_ms:
            self._violations[kind] = self._violations.get(kind, 0) + 1
            self._tell(operation, kind, took_ms, target_ms)

    def _tell(self, operation: str, kind: str, took_ms: float, target_ms: float) -> None:
        now_s, count = self._clock(), self._violations[kind]
        said_s, said = self._said.get(kind, (float("-inf"), 0))
        if now_s - said_s < SAY_AGAIN_S:
            return
        self._said[kind] = (now_s, count)
        took = f"{took_ms:,.0f}" if took_ms >= 10 else f"{took_ms:.1f}"
        _logger.warning(
            f"Latency violation: {kind} took {took} ms (target: {target_ms:g} ms)",
            operation=operation,
            violations=count - said,
        )
