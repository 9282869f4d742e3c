"""The memory system: the way in.

A data directory holds

    log.mdb, its anchor and lock, archive/    the truth
    recall.key                                the key of hashed recalls: without it nobody can tell
                                              what they are about
    api_keys.json                             who may come in over HTTP
    compaction.json                           when compaction last ran by itself
    derived.mdb, indexes/                     made again when they are missing or damaged

Only the last line may be deleted at will, while it is closed. See docs/operations.md.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from datetime import timedelta
from pathlib import Path
from typing import Final, NoReturn, get_args

from msgspec.structs import replace

from eventlog import MeasuredStore, OnDropped, require, to_datetime
from eventlog.core.waiting import SharedExitStack, at_loop_end, to_the_end
from memory_actors.api.parts import Opening, StoreParts
from memory_actors.api.system_upkeep import SystemUpkeep
from memory_actors.api.user import UserMemory
from memory_actors.api.wiring import OpenLog, Place, Wired, alone, wired
from memory_actors.base.background_tasks import end_tasks
from memory_actors.base.errors import InvalidInputError
from memory_actors.base.on import On, Then
from memory_actors.base.origins import origin
from memory_actors.base.records import AsOf, Time, Trust
from memory_actors.base.reports import (
    CompactionProgress,
    CompactionReport,
    CompactionStats,
    Diff,
    LogEntry,
    Moment,
    Recall,
)
from memory_actors.base.statistics import SystemStatistics, SystemUsage
from memory_actors.base.streams import known_user, known_users, recall_stream_of, stream_of
from memory_actors.base.validation import (
    check_choice,
    check_count,
    check_name,
    check_optional_name,
    check_subjects,
    time_us,
)
from memory_actors.history.diff import diff
from memory_actors.history.events import EntryFilter, entries
from memory_actors.history.past_user import PastScope, PastUser, state_then
from memory_actors.kinds.user_state import KINDS
from memory_actors.upkeep.store import open_log
from memory_actors.users.handles.scope import Scope, Services
from memory_actors.users.totals import system_usage


class PastMemory(UserMemory):
    """One user's memory as it was. It is read like any other, and takes no writes.

    Expiry is computed at `moment`; limits and prices come from today's settings. Every write raises
    `ReadOnlyError`. A read whose answer rests on a text that retention has dropped raises
    `PayloadDropped`.
    """

    _scope: PastScope
    moment: Moment
    """The moment that is read."""
    lost: int
    """The number of events about memories of then whose payload retention has dropped."""

    def __init__(self, scope: PastScope, lost: int):
        super().__init__(scope)
        self.moment = scope.moment
        self.lost = lost

    def reads(self, *_scopes: str) -> NoReturn:
        """Refuse.

        :raises InvalidInputError: always.
        """
        raise InvalidInputError("a replay is of one user: replay the scopes one by one")

    async def close(self) -> None:
        """Let go of it, as the end of its block does. It answers nothing more."""
        await self._scope.close()


ON_DROPPED: Final[tuple[str, ...]] = get_args(OnDropped)


async def past_memory(services: Services, on: On, as_of: AsOf, dropped: OnDropped) -> PastMemory:
    """Return a user's memory as it was. See `MemorySystem.replay`."""
    check_choice(dropped, ON_DROPPED, "dropped")
    stream = stream_of(check_name(on.user_id, "user_id"))
    head = await known_user(services.log, stream)
    moment, state, lost = await state_then(services, stream, head, as_of, dropped)
    on = replace(on, then=Then(moment.at, "mark"))
    past = PastUser(services, stream, state)
    return PastMemory(PastScope(services, on, past=past, moment=moment), lost)


class MemorySystem(SystemUpkeep):
    """The memories of all users in one data directory, in the process that owns it."""

    def __init__(self, made: Wired, held: AsyncExitStack):
        super().__init__(made)
        self._held = held
        self._is_shared = False
        self._closing: asyncio.Future[None] | None = None
        self._alerts = made.alerts
        self._compaction = made.compaction

    async def close(self) -> None:
        """Close the system, as the end of its block does; once is enough, and more does no harm.

        It takes nothing new on, waits for work in hand and closes the files. If the caller is
        cancelled, closing continues, and the cancellation is raised at the end.

        :raises WrongLoopError: it was opened on another event loop.
        """
        self._services.runtime.check_loop()
        if self._closing is None:
            self._closing = asyncio.ensure_future(self._held.aclose())
        await to_the_end(self._closing)

    def user(
        self,
        user_id: str,
        *,
        agent_id: str | None = None,
        session_id: str | None = None,
        source: str | None = None,
        trust: Trust | str | None = None,
        auto_prune: bool = False,
        by: str | Sequence[str] | None = None,
    ) -> UserMemory:
        """Return a handle on one user's memory, for one agent and session. No I/O.

        `source` and `trust` say where all that is written with it comes from: see
        `UserMemory.from_source`. With `auto_prune` all that is added with it makes room if there is
        none, as with `add_with_auto_prune`, unless a call says otherwise. `by` says who speaks: a
        person ("ada"), an agent ("agent:planner"), an API key ("key:" and its id) or several of
        them. Their grants are checked, and the first is an origin of all that is written. With
        None, the process itself speaks, and may do everything. See `UserMemory.grant`.

        :raises InvalidInputError: a name that is empty, over 512 bytes, or not Unicode.
        """
        on = On(
            user_id, agent_id, session_id, origin(source, trust), auto_prune, by=check_subjects(by)
        )
        return UserMemory(Scope(self._services, on))

    def replay(
        self,
        user_id: str,
        as_of: AsOf = None,
        *,
        agent_id: str | None = None,
        session_id: str | None = None,
        dropped: OnDropped = "raise",
    ) -> Opening[PastMemory]:
        """Hold a user's memory as it was at a position of the log or at a time (None: now).

        It answers every read as it would have then, searches included; see `PastMemory`. Any
        position will do, also one of another user's event; of a time, all that was recorded by
        then. Opening it reads the nearest snapshot before it and the events since; the first
        search makes its index, in memory. The live user is not touched.

        If retention has dropped the text of a memory that existed then, opening it raises
        `PayloadDropped`. `dropped="mark"` opens what is left, and `lost` counts what is not.

        :raises NotFoundError: there is no such user, or what they had at that moment is erased.
        :raises InvalidInputError: the log has no such position, it is no time, or `dropped` is
            neither "raise" nor "mark".
        :raises PayloadDropped: retention has dropped something that was there then.
        """

        async def opened() -> PastMemory:
            return await past_memory(self._open, On(user_id, agent_id, session_id), as_of, dropped)

        return Opening("memory.replay(...)", opened)

    async def diff(
        self, user_id: str, a: AsOf, b: AsOf = None, *, dropped: OnDropped = "raise"
    ) -> Diff:
        """Return the changes of a user's memories between two moments, `a` the earlier one.

        Each memory that was added, changed or lost, as it was before and after, with every event
        about it in between: by whom, and why. Moments are given as in `replay`.

        :raises NotFoundError: there is no such user, or what they had at a moment is erased.
        :raises InvalidInputError: `a` is later than `b`, or an argument is not what it must be.
        :raises PayloadDropped: retention has dropped something that was there at one of them;
            `dropped="mark"` compares what is left.
        """
        on_dropped = check_choice(dropped, ON_DROPPED, "dropped")
        return await diff(self._open, user_id, a, b, on_dropped)

    async def events(
        self,
        user_id: str | None = None,
        *,
        after: int = 0,
        since: Time | None = None,
        until: Time | None = None,
        follow: bool = False,
    ) -> AsyncIterator[LogEntry]:
        """Yield the events of one user, or of all, behind a position, in the order of the log.

        `since` and `until` are about when the log got them. With `follow` it goes on with each new
        one as it becomes durable, until the system closes.

        :raises InvalidInputError: an argument is not what it must be.
        """
        wanted = EntryFilter(
            user_id=check_optional_name(user_id, "user_id"),
            after=check_count(after, "after"),
            since_us=time_us(since, "since"),
            until_us=time_us(until, "until"),
            follow=follow,
        )
        async for entry in entries(self._log, wanted):
            yield entry

    async def recalls(
        self,
        user_id: str,
        *,
        query: str | None = None,
        memory_id: str | None = None,
        since: Time | None = None,
        until: Time | None = None,
        limit: int = 100,
    ) -> list[Recall]:
        """Return the audit of a user's searches, newest first: query, caller and returned memories.

        Kept by `Settings(recall_audit="hashed")` or "plain", for `recall_audit_days`; see
        docs/audit.md. `query` and `memory_id` ask for one query, as it was written, or one memory,
        also where only hashes were kept. Searches are kept, not reads by id and not lists.

        :raises InvalidInputError: an argument is not what it must be.
        """
        scope = Scope(self._open, On(user_id))
        return await scope.services.recalls.read(
            recall_stream_of(scope.user_id),
            query=await scope.masked(query),
            memory_id=await scope.masked(check_optional_name(memory_id, "memory_id")),
            since_us=time_us(since, "since"),
            until_us=time_us(until, "until"),
            limit=check_count(limit, "limit"),
        )

    async def users(self) -> list[str]:
        """Return the id of every user who ever had a memory, sorted."""
        return await known_users(self._log)

    async def compact(
        self,
        user_id: str | None = None,
        *,
        dry_run: bool = False,
        older_than: timedelta | str | None = None,
        episodes: bool | None = None,
        progress: Callable[[CompactionProgress], object] | None = None,
        stop: asyncio.Event | None = None,
    ) -> CompactionReport:
        """Replace old long-term memories by summaries, of one user or of all.

        Clusters of memories that are about the same thing and were true longer ago than the
        settings say, or `older_than` (a timedelta or "90d"), become one memory each. The originals
        are in the log: `expand` reads them, `undo_compaction` brings them back. A cluster that has
        no good summary stays as it is. With `dry_run` nothing changes. `episodes` says whether
        episodes that have ended are compressed, too, an agent's own together (None: as the settings
        say).

        `progress` is called on the loop after each cluster, and awaited if it is `async`.
        Cancelling, or setting `stop`, ends the run after the cluster in hand; what was replaced
        stays replaced. A second run waits.

        :raises NotFoundError: there is no such user.
        :raises InvalidInputError: `older_than` is no age, or a flag neither True nor False.
        """
        return await self._compaction.run(
            user_id,
            dry_run=dry_run,
            older_than=older_than,
            episodes=episodes,
            progress=progress,
            stop=stop,
        )

    async def compaction_stats(self, user_id: str | None = None) -> CompactionStats:
        """Return the totals of compaction: exact, and for all without looking at any user.

        :raises NotFoundError: there is no such user.
        """
        return await self._compaction.stats(user_id)

    async def usage(self) -> SystemUsage:
        """Return how much all users hold together: exact, and without looking at any of them."""
        counted, now_us = self._services.totals, self._services.clock_us()
        users = len(await self.users())
        return system_usage(counted.now(), users, counted.quotas(), to_datetime(now_us))

    def statistics(self) -> SystemStatistics:
        """Return counters of each part since the system was opened."""
        services = self._services
        return SystemStatistics(
            log=require(self._services.log, MeasuredStore).statistics(),
            runtime=services.runtime.statistics(),
            embeddings=services.embeddings.statistics(),
            passages_wanting=sum(live.indexes.wanting for live in services.runtime.lives()),
            memory=services.monitor.statistics(),
            alerts=self._alerts.statistics(),
            recalls_failed=services.recalls.failed,
            latency_violations=services.latency.violations,
            recent=services.latency.recent,
        )


async def open_alone(
    directory: Path,
    parts: StoreParts,
    held: AsyncExitStack,
    open_log: OpenLog = open_log,
    place: Place = alone,
    scheduled: Callable[[], Awaitable[object]] | None = None,
    orphaned: SharedExitStack | None = None,
) -> MemorySystem:
    """Open a store in this process alone. See `memory_actors.MemorySystem.open`.

    `held` is closed with it, at the end; `orphaned` instead of it where the event loop ends first.
    Another log, a placement of users and what compacts them all by the schedule make it a node of
    many: see sharing/nodes.
    """
    orphaned = SharedExitStack() if orphaned is None else orphaned
    orphaned.callback(end_tasks, asyncio.get_running_loop())
    held.callback(at_loop_end(orphaned.close))
    try:
        made = await wired(directory, parts, held, orphaned, open_log, place, scheduled)
        memory = MemorySystem(made, held)
        watched = made.services.metrics.watch(lambda: gauges(made.services, memory.statistics()))
    except BaseException:
        await to_the_end(held.aclose())
        raise
    held.callback(watched)
    orphaned.callback(watched)
    return memory


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
            for use in live.state.quotas(kind, limits, None):
                name = f"{kind.NAME}.{use.quota}"
                fullest[name] = max(fullest.get(name, 0.0), use.percent / 100)
    return fullest
