"""The parts of an open memory system, opened in order and closed in reverse.

The composition root. Each part is closed by the stack that it was pushed on: the schedule first,
then the job it runs, then users, alerts, derived data and, last, the log.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, ExitStack, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import anyio.to_thread

from eventlog import (
    ArchivingStore,
    CappingStore,
    CorruptLog,
    CountingStore,
    DiskFull,
    EventStore,
    Keys,
    LogUnavailable,
    SettingStore,
    require,
    system_clock_us,
)
from eventlog.core.logs import get_logger
from eventlog.core.records import to_datetime
from eventlog.core.requests import checked_clock
from eventlog.core.waiting import opened_in_thread
from eventlog.files.datafile import DIRECTORY_MODE
from eventlog.keys import keyfile
from memory_actors.actors.placement import EVERYWHERE_HERE, Placement
from memory_actors.actors.runtime import Runtime
from memory_actors.api.parts import StoreParts
from memory_actors.api.settings_check import check
from memory_actors.api.user import UserMemory
from memory_actors.base.key_files import key_file_of
from memory_actors.base.on import On
from memory_actors.base.quota import Limits
from memory_actors.base.settings import Settings
from memory_actors.base.streams import key_owner, user_of
from memory_actors.compaction.job import Compaction
from memory_actors.compaction.schedule import FILE_NAME, LastRun, Scheduler
from memory_actors.compaction.summarizers import ExtractiveSummarizer, Summarizer
from memory_actors.extraction.llm import extractor_of
from memory_actors.kinds.account import CRITICAL, AlertChanged
from memory_actors.kinds.user_state import UserState, user_decider
from memory_actors.observing.alerts import Alert, AlertDispatcher, AlertSink, LogSink
from memory_actors.observing.metrics import LatencyWatch, Metrics, NoMetrics
from memory_actors.observing.monitor import MemoryMonitor
from memory_actors.search.embedding.embedder_thread import LEAVE_S_MAX
from memory_actors.search.embedding.named import DEFAULT, embedder_of
from memory_actors.search.embedding.service import EmbeddingService, name_in
from memory_actors.search.embedding.vector_table import DAMAGED, VectorTable
from memory_actors.search.embedding.vector_table import FILE as DERIVED
from memory_actors.search.indexes.files import INDEXES, index_path
from memory_actors.search.reranking import Reranking, reranker_of
from memory_actors.search.superseding import superseding
from memory_actors.upkeep.erasing import UserErasing
from memory_actors.upkeep.store import open_log
from memory_actors.users.handles.redacting import UserRedaction
from memory_actors.users.handles.scope import Scope, Services, new_memory_id
from memory_actors.users.live_user import AlertHandler, LiveUser
from memory_actors.users.recalls import KEY_FILE, HashKey, RecallAudit
from memory_actors.users.totals import Totals

_logger = get_logger("memory_actors.api.wiring")

OpenLog: TypeAlias = Callable[
    [Path, Keys | None, Callable[[], int], Settings], AbstractAsyncContextManager[EventStore]
]
"""Opens the log of a data directory: with the keys of an encrypted one, and a clock."""


Place: TypeAlias = Callable[[EventStore], AbstractAsyncContextManager[Placement]]
"""Says which users may be live in this process, of a log that is open."""


def alone(_log: EventStore) -> AbstractAsyncContextManager[Placement]:
    """Place every user in this process."""
    return nullcontext(EVERYWHERE_HERE)


class _Parts:
    """The parts that a system is made of: those that were chosen, and the defaults of others."""

    def __init__(self, directory: Path, chosen: StoreParts):
        self.directory = directory
        self.settings = chosen.settings or Settings()
        self.embedder = None if chosen.embedder is None else embedder_of(chosen.embedder)
        """None: the store's own."""
        self.embedder_name = chosen.embedder if isinstance(chosen.embedder, str) else None
        self.summarizer: Summarizer = chosen.summarizer or ExtractiveSummarizer()
        self.superseding = superseding(chosen.supersedes)
        self.extractor = extractor_of(chosen.extractor)
        self.reranker = reranker_of(chosen.reranker)
        self.sinks: Sequence[AlertSink] = [LogSink()] if chosen.alerts is None else chosen.alerts
        self.metrics: Metrics = chosen.metrics or NoMetrics()
        self.clock = checked_clock(chosen.clock or system_clock_us)
        self.new_id = chosen.new_id or new_memory_id
        self.reindex = chosen.reindex
        self.key_file = key_file_of(directory, chosen.encrypt)
        """None: the store is not encrypted."""


@dataclass(frozen=True, slots=True)
class Wired:
    """An open system."""

    services: Services
    alerts: AlertDispatcher
    compaction: Compaction
    erasing: UserErasing


async def wired(
    directory: Path,
    chosen: StoreParts,
    stack: AsyncExitStack,
    orphaned: ExitStack,
    open_log: OpenLog = open_log,
    place: Place = alone,
    scheduled: Callable[[], Awaitable[object]] | None = None,
) -> Wired:
    """Open all parts; `stack` closes them in reverse.

    `orphaned` releases files, locks and threads where the event loop has ended without that.
    `scheduled` is what runs by the schedule: if None, the compaction of all users in this process.

    :raises InvalidInputError: a setting is not what it must be; nothing was opened.
    :raises MissingCapability: the log cannot do what every memory, or a setting, needs.
    """
    parts = _Parts(directory, chosen)
    check(parts.settings)
    keys = None
    if parts.key_file is not None:  # the log reads them, and closes before
        keys = stack.enter_context(keyfile.opened(parts.key_file, key_owner))
        orphaned.callback(keys.close)
    log = await stack.enter_async_context(
        open_log(parts.directory, keys, parts.clock, parts.settings)
    )
    if (release := getattr(log, "release", None)) is not None:
        orphaned.callback(release)
    require(log, CountingStore)  # it limits all users together
    if parts.settings.recall_audit is not None or parts.settings.archive_retention_days is not None:
        require(log, ArchivingStore)
    embeddings = await _embeddings(parts, log, keys, stack, orphaned)
    alerts = AlertDispatcher(parts.sinks)
    placement = await stack.enter_async_context(place(log))
    services = _services(parts, log, placement, embeddings, alerts)
    _start(services, alerts, stack)
    for asked in (parts.superseding, parts.summarizer, parts.extractor):
        if (aclose := getattr(asked, "aclose", None)) is not None:
            stack.push_async_callback(aclose)
    compaction = Compaction(services, parts.summarizer, parts.directory)
    stack.push_async_callback(compaction.close, parts.settings.shutdown_s)
    if (expression := parts.settings.compaction_schedule) is not None:
        last = LastRun(log if isinstance(log, SettingStore) else parts.directory / FILE_NAME)
        run = scheduled or partial(compaction.run, None)
        scheduler = Scheduler(run, expression, parts.clock, last)
        scheduler.start()
        stack.push_async_callback(scheduler.close, parts.settings.shutdown_s)
    erasing = UserErasing(services, alerts, compaction, parts.directory)
    return Wired(services, alerts, compaction, erasing)


async def _embeddings(
    parts: _Parts,
    log: EventStore,
    keys: Keys | None,
    stack: AsyncExitStack,
    orphaned: ExitStack,
) -> EmbeddingService:
    embeddings = await opened_in_thread(
        partial(_open_embeddings, parts, log, keys), EmbeddingService.release
    )
    stack.push_async_callback(embeddings.close, min(parts.settings.shutdown_s, LEAVE_S_MAX))
    orphaned.callback(embeddings.release)
    await embeddings.probe()  # before the store is marked as this model's
    await anyio.to_thread.run_sync(lambda: embeddings.check_model(reindex=parts.reindex))
    return embeddings


def _open_derived(path: Path, checked_bytes_max: int) -> VectorTable:
    """Open the derived data, in memory where the disk has no room: all of it can be made again."""
    opened = partial(VectorTable, path, checked_bytes_max=checked_bytes_max)
    try:
        try:
            return opened()
        except CorruptLog as error:
            _logger.warning("derived data is damaged and made anew", error=str(error))
            path.replace(path.with_suffix(DAMAGED))
            return opened()
    except DiskFull as error:
        _logger.warning("derived data is in memory until the next open", error=str(error))
        return VectorTable.in_memory()


def _open_embeddings(parts: _Parts, log: EventStore, keys: Keys | None) -> EmbeddingService:
    settings = parts.settings
    disk = _open_derived(parts.directory / DERIVED, settings.checked_bytes_max)
    try:
        embedder, name = parts.embedder, parts.embedder_name
        if embedder is None:
            name = name_in(disk) or DEFAULT
            embedder = embedder_of(name)
        return EmbeddingService(
            embedder,
            disk,
            name=name,
            deadline_s=settings.embedder_deadline_s,
            cache_texts_max=settings.embedding_cache_texts,
            keys=keys,
            log=log,
        )
    except BaseException:
        disk.close()
        raise


def _services(
    parts: _Parts,
    log: EventStore,
    placement: Placement,
    embeddings: EmbeddingService,
    alerts: AlertDispatcher,
) -> Services:
    settings, limits = parts.settings, parts.settings.limits_by_tier()
    totals = Totals(require(log, CountingStore), settings.global_limits)
    if isinstance(log, CappingStore):  # others write to it, too
        log.cap_totals(totals.caps())
    _make_indexes(parts.directory / INDEXES)

    def raise_alert(stream: str, change: AlertChanged, state: UserState) -> None:
        if change.raised:
            alerts.post(_alert(stream, change, limits[state.account.tier], parts.clock()))

    runtime = Runtime(
        lambda stream, epoch: _activated(services, parts.directory, raise_alert, stream, epoch),
        budget_bytes=settings.live_bytes_max,
        idle_s=settings.idle_s,
        placement=placement,
    )

    async def here(operation: str, on: On, given: Mapping[str, Any]) -> Any:
        return await getattr(UserMemory(Scope(services, on)), operation)(**given)

    key = HashKey(log if isinstance(log, SettingStore) else parts.directory / KEY_FILE)
    services = Services(
        log=log,
        runtime=runtime,
        embeddings=embeddings,
        decider=user_decider(limits),
        limits=limits,
        totals=totals,
        monitor=MemoryMonitor(
            settings.memory_soft_bytes, settings.memory_hard_bytes, on_soft=runtime.relieve
        ),
        recalls=RecallAudit(log, settings, key, parts.clock),
        superseding=parts.superseding,
        extractor=parts.extractor,
        reranking=None if parts.reranker is None else Reranking(parts.reranker, settings),
        elsewhere=here,
        redaction=None if settings.redact is None else UserRedaction(settings.redact, key),
        metrics=parts.metrics,
        latency=LatencyWatch(settings.latency_targets_ms, warns=settings.latency_warnings),
        settings=settings,
        clock_us=parts.clock,
        new_id=parts.new_id,
    )
    return services


async def _activated(
    services: Services, directory: Path, on_alert: AlertHandler, stream: str, epoch: int | None
) -> LiveUser:
    live = LiveUser(
        stream,
        log=services.log,
        decider=services.decider,
        embeddings=services.embeddings.of(stream),
        index_path=index_path(directory, stream),
        totals=services.totals,
        on_alert=on_alert,
        on_fenced=services.runtime.moved,
    )
    await live.activate(services.clock_us, epoch)
    return live


def _make_indexes(path: Path) -> None:
    try:
        path.mkdir(DIRECTORY_MODE, exist_ok=True)
        path.chmod(path.stat().st_mode & DIRECTORY_MODE)
    except OSError as error:
        raise LogUnavailable(
            f"cannot make {path}: {error.strerror}: move away what is in its place"
        ) from error


def _start(services: Services, alerts: AlertDispatcher, stack: AsyncExitStack) -> None:
    shutdown_s = services.settings.shutdown_s
    stack.push_async_callback(services.recalls.close)
    alerts.start()
    stack.push_async_callback(alerts.close, shutdown_s)
    if services.reranking is not None:
        services.reranking.prepare()
        stack.callback(services.reranking.stop)
    services.runtime.start()
    stack.push_async_callback(services.runtime.close, shutdown_s)
    stack.callback(services.embeddings.stop_background)
    watch = asyncio.create_task(services.monitor.watch())
    stack.callback(watch.cancel)


def _alert(stream: str, change: AlertChanged, limits: Limits, now_us: int) -> Alert:
    names = {change.quota.replace(".", "_"), change.quota.partition(".")[2]}
    return Alert(
        user_id=user_of(stream),
        kind=change.quota.partition(".")[0],
        quota=change.quota,
        level="critical" if change.level == CRITICAL else "warning",
        used=change.used,
        limit=change.limit,
        unit=change.unit,
        percent=100.0 * change.used / change.limit if change.limit else 100.0,
        tier=limits.tier.value,
        at=to_datetime(now_us),
        upgradable=not limits.more_in_a_tier.isdisjoint(names),
    )
