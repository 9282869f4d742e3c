"""The numbers that a scrape shows, from the statistics of a memory system."""

from collections.abc import Mapping

from memory_actors.base.statistics import SystemStatistics
from memory_actors.kinds.user_state import KINDS
from memory_actors.users.services import Services


def gauges(
    services: Services, statistics: SystemStatistics
) -> dict[str, float | Mapping[str, float]]:
    """Return the numbers that a scrape shows, by name. See `metrics.PrometheusMetrics.watch`."""
    embeddings = statistics.embeddings
    return {
        "live_actors": statistics.runtime.live,
        "live_bytes": statistics.runtime.live_bytes,
        "mailbox_depth": sum(live.actor.waiting for live in services.runtime.lives()),
        "writer_queue_depth": statistics.log.queued_events,
        "embedder_queue_depth": embeddings.waiting,
        "passages_wanting": statistics.passages_wanting,
        "log_bytes": statistics.log.used_bytes,
        "resident_bytes": statistics.memory.current_bytes,
        "embeddings_computed_total": embeddings.computed,
        "embeddings_cached_total": embeddings.from_memory + embeddings.from_disk,
        "alerts_posted_total": statistics.alerts.posted,
        "recalls_failed_total": statistics.recalls_failed,
        "latency_violations_total": {**statistics.latency_violations},
        "quota_use_ratio": _quota_use(services),
        "global_quota_use_ratio": {u.quota: u.percent / 100 for u in services.totals.quotas()},
    }


def _quota_use(services: Services) -> dict[str, float]:
    """Return how full each quota is for the live user with the least room in it."""
    fullest: dict[str, float] = {}
    for live in services.runtime.lives():
        limits = services.limits[live.state.account.tier]
        for kind in KINDS:
            for use in kind.quotas(live.state.of(kind), limits, None):
                name = f"{kind.NAME}.{use.quota}"
                fullest[name] = max(fullest.get(name, 0.0), use.percent / 100)
    return fullest
