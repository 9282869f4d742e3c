"""Measurements for Prometheus, and calls held to their targets.

The only importer of prometheus_client (extra `metrics`).

Operations are counted and timed as they end; everything that merely is (live actors, queues, bytes)
is read when a scrape asks. Labels hold names from the code, never a user's id or content: each new
label value is a series that lives as long as the process.
"""

import asyncio
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Protocol

from msgspec.structs import replace

from eventlog.core.logs import get_logger
from memory_actors.base.errors import InvalidInputError, importing
from memory_actors.base.privacy import reason
from memory_actors.base.statistics import Calls, Minute

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry
    from prometheus_client.core import Metric

BUCKETS_S = (
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025,
    0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0,
)  # fmt: skip
"""From a working-memory read to a write that waits for a busy disk."""
LABELS: Mapping[str, str] = {
    "quota_use_ratio": "quota",
    "global_quota_use_ratio": "quota",
    "latency_violations_total": "kind",
}
LABEL = "name"  # of a metric with labels that nobody named

Statistics = Callable[[], Mapping[str, float | Mapping[str, float]]]
"""Gives a number for each name, or a number for each value of the name's label."""

HELP: Mapping[str, str] = {
    "live_actors": "Users in memory",
    "live_bytes": "Bytes that users in memory hold, estimated",
    "mailbox_depth": "Commands that wait in the mailboxes of all users",
    "writer_queue_depth": "Appends that wait for the writer of the log",
    "embedder_queue_depth": "Texts that wait for the embedding model",
    "passages_wanting": "Texts of live users that are not indexed yet",
    "log_bytes": "Bytes of the log on disk",
    "resident_bytes": "Resident memory of the process in bytes",
    "embeddings_computed_total": "Texts that the model embedded",
    "embeddings_cached_total": "Texts whose embedding was found in a cache",
    "alerts_posted_total": "Quota alerts raised",
    "recalls_failed_total": "Recalls that the audit of reads could not keep",
    "latency_violations_total": "Calls that took longer than their target",
    "quota_use_ratio": "Used part of a quota, from 0 to 1, of the live user with the least room",
    "global_quota_use_ratio": "Used part of a quota over all users, from 0 to 1",
}

_logger = get_logger("memory_actors.observing.metrics")


class Metrics(Protocol):
    """A receiver of measurements."""

    def observe(self, operation: str, kind: str, seconds: float, outcome: str) -> None:
        """Note that an operation on a kind of memory ended, how long it took, and how."""

    def watch(self, statistics: Statistics) -> Callable[[], None]:
        """Show the numbers that `statistics` gives whenever asked; return what ends that."""


class NoMetrics:
    """Measurements that nobody wants."""

    def observe(self, operation: str, kind: str, seconds: float, outcome: str) -> None:
        """Do nothing."""

    def watch(self, statistics: Statistics) -> Callable[[], None]:  # noqa: ARG002 - nobody looks
        """Do nothing."""
        return lambda: None


class PrometheusMetrics:
    """Measurements for Prometheus, in `registry` or in the client's default one.

    One of these serves one memory system.

    :raises MissingExtraError: prometheus-client is not installed.
    :raises InvalidInputError: the registry already has metrics of this namespace.
    """

    def __init__(
        self, registry: "CollectorRegistry | None" = None, namespace: str = "memory_actors"
    ):
        with importing("metrics need prometheus-client", "metrics"):
            import prometheus_client as client
        self._registry = client.REGISTRY if registry is None else registry
        self._namespace = namespace
        self._watched: _Collector | None = None
        try:
            self._operations = client.Counter(
                "operations", "Operations that ended", ["operation", "kind", "outcome"],
                namespace=namespace, registry=self._registry,
            )  # fmt: skip
            self._seconds = client.Histogram(
                "operation_seconds", "Time that operations took", ["operation", "kind"],
                namespace=namespace, registry=self._registry, buckets=BUCKETS_S,
            )  # fmt: skip
        except ValueError as error:
            raise InvalidInputError(
                f"cannot register metrics as {namespace!r}: {error}. Make one PrometheusMetrics, "
                "or give each its own registry or namespace"
            ) from error

    def observe(self, operation: str, kind: str, seconds: float, outcome: str) -> None:
        """Count an operation and its time. Never pass a user's id or content."""
        self._operations.labels(operation, kind, outcome).inc()
        self._seconds.labels(operation, kind).observe(seconds)

    def watch(
        self, statistics: Statistics, labels: Mapping[str, str] = LABELS
    ) -> Callable[[], None]:
        """Show numbers that are read at each scrape; return what ends it.

        `statistics` is called in the thread of the scrape, and should be quick; when it raises,
        that is logged and the scrape goes without. Names that end in `_total` are counters, all
        others gauges. `labels` names the label of a name with a number for each of its values.

        :raises InvalidInputError: something is watched already.
        """
        if self._watched is not None:
            raise InvalidInputError(
                "these metrics watch a system already: make others for this one"
            )
        self._watched = collector = _Collector(self._namespace, statistics, labels)
        self._registry.register(collector)
        return lambda: self._unwatch(collector)

    def _unwatch(self, collector: "_Collector") -> None:
        if self._watched is collector:
            self._registry.unregister(collector)
            self._watched = None


class _Collector:
    def __init__(self, namespace: str, statistics: Statistics, labels: Mapping[str, str]):
        self._namespace = namespace
        self._statistics = statistics
        self._labels = labels

    def describe(self) -> "Iterator[Metric]":
        """Name nothing beforehand: the registry would call `collect` to find out."""
        return iter(())

    def collect(self) -> "Iterator[Metric]":
        try:
            found = [self._metric(name, held) for name, held in self._statistics().items()]
        except Exception as error:  # or the whole scrape would fail, of the application too
            _logger.warning("statistics could not be read", error=reason(error))
            found = []
        return iter(found)

    def _metric(self, name: str, held: "float | Mapping[str, float]") -> "Metric":
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        family = CounterMetricFamily if name.endswith("_total") else GaugeMetricFamily
        full_name, about = f"{self._namespace}_{name}", HELP.get(name, name.replace("_", " "))
        if not isinstance(held, Mapping):
            return family(full_name, about, value=held)
        metric = family(full_name, about, labels=[self._labels.get(name, LABEL)])
        for value, number in held.items():
            metric.add_metric([value], number)
        return metric


# --- calls that take longer than they should: all are counted, and some are logged
#
# The setting `latency_targets_ms` has the target of each kind of call. A violation is logged at
# most once a minute and kind, in words that can be searched for, with the count since then.

SAY_LATER_S = 0.05
MINUTES_KEPT = 120
SEARCH = "Retrieve"
NOT_COUNTED = frozenset({"Get", "GetKey", "Items", "Messages", "SearchArchive"})
"""The reads that are no searches."""
SAY_AGAIN_S = 60.0  # often enough to be seen, and a slow disk does not fill the log


class LatencyWatch:
    """Holds calls to their targets. For one thread; `clock` gives seconds that only rise.

    `warns` None logs violations unless the standard error is a terminal.
    """

    def __init__(
        self,
        targets_ms: Mapping[str, float],
        clock: Callable[[], float] = time.monotonic,
        *,
        warns: bool | None = None,
    ):
        self._targets_ms = targets_ms
        self._warns = not (sys.stderr and sys.stderr.isatty()) if warns is None else warns
        self._clock = clock
        self._violations: dict[str, int] = {}
        self._said: dict[str, tuple[float, int]] = {}
        """By kind: when it was told last, and how many there were by then."""
        self._minutes = deque[Minute](maxlen=MINUTES_KEPT)

    @property
    def violations(self) -> Mapping[str, int]:
        """The number of calls that took longer than they should, by kind."""
        return dict(self._violations)

    @property
    def recent(self) -> tuple[Minute, ...]:
        """The last minutes with calls, oldest first."""
        return tuple(self._minutes)

    def count(self, operation: str, took_ms: float, calls: int = 1) -> None:
        """Count calls in the current minute; `took_ms` is what they took together."""
        if operation in NOT_COUNTED:
            return
        now = datetime.now(UTC).replace(second=0, microsecond=0)
        if not self._minutes or self._minutes[-1].at != now:
            self._minutes.append(Minute(at=now))
        minute, field = self._minutes[-1], "searches" if operation == SEARCH else "writes"
        old: Calls = getattr(minute, field)
        slowest_ms = max(old.slowest_ms, took_ms / calls)
        new = Calls(old.count + calls, old.total_ms + took_ms, slowest_ms)
        self._minutes[-1] = replace(minute, **{field: new})

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
            now_s, count = self._clock(), self._violations[kind]
            said_s, said = self._said.get(kind, (float("-inf"), 0))
            if not self._warns or now_s - said_s < SAY_AGAIN_S:
                return
            self._said[kind] = (now_s, count)
            took = f"{took_ms:,.0f}" if took_ms >= 10 else f"{took_ms:.1f}"
            warn = partial(
                _logger.warning,
                f"Latency violation: {kind} took {took} ms (target: {target_ms:g} ms)",
                operation=operation,
                violations=count - said,
            )
            # Behind the call: its caller may measure it, too, and the first line may load a logger.
            asyncio.get_running_loop().call_later(SAY_LATER_S, warn)
