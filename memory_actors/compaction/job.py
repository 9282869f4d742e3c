"""A run of compaction: all users or one, their old memories cluster by cluster, one at a time.

For each user: apply retention rules, select old memories, cluster them in batches in order of time
until a pass finds none, replace each cluster by one event, archive the events of the originals,
save a snapshot. At the end drop archived texts and make the files smaller.

A crash leaves each cluster whole or replaced. A user whose log cannot be read, or whose actor takes
no commands, is left for the next run.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import datetime, timedelta
from pathlib import Path

import anyio
import anyio.to_thread

from eventlog import ArchivingStore, EventLogError, ShrinkingStore, require
from eventlog.core.logs import get_logger
from eventlog.core.records import DAY_US, to_datetime
from eventlog.files.datafile import bytes_under
from memory_actors.base.errors import BeingErasedError, MovedError, SystemClosedError
from memory_actors.base.on import On
from memory_actors.base.privacy import reason
from memory_actors.base.reports import CompactionReport, CompactionStats
from memory_actors.base.streams import key_owner, known_user, known_users, stream_of
from memory_actors.base.validation import check_flag, check_maker
from memory_actors.compaction.replacing import Replacing, archive_originals
from memory_actors.compaction.run import CompactionRun, Pace, Progress, short_turns
from memory_actors.compaction.selection import Old, age, clustered, old_memories
from memory_actors.compaction.summarizers import ExtractiveSummarizer, Summarizer
from memory_actors.kinds import episodic, long_term, user_state
from memory_actors.kinds.user_state import COMPACTED
from memory_actors.users.handles.scope import Scope, Services
from memory_actors.users.holds import holds_of
from memory_actors.users.live_user import LiveUser
from memory_actors.users.purges import retained

_logger = get_logger("memory_actors.compaction")


class Compaction:
    """Runs compaction, one run at a time. Close it before the system."""

    def __init__(self, services: Services, summarizer: Summarizer, directory: Path):
        check_maker(summarizer.name, "a summariser")
        self._services = services
        self._settings = services.settings
        self._log = services.log
        self._directory = directory
        self._judge = (
            summarizer if isinstance(summarizer, ExtractiveSummarizer) else ExtractiveSummarizer()
        )
        self._replacing = Replacing(summarizer, services.settings.summarizer_deadline_s)
        self._alone = asyncio.Lock()
        self._under_way: asyncio.Task[CompactionReport] | None = None
        self._halt = asyncio.Event()
        self._closing = False
        self._now: CompactionRun | None = None
        self._at: str | None = None  # the user in hand
        self._left = asyncio.Event()  # set when a user's turn is over
        self._barred: set[str] = set()
        self._bars = asyncio.Event()  # set when the user in hand is to be left alone
        self._own_uses = 0
        """Uses of actors by a run: nobody has to give way to that."""
        self._runs = 0
        self._failed_clusters = 0
        self._last_run_at: datetime | None = None

    async def run(
        self,
        user_id: str | None,
        *,
        dry_run: bool = False,
        older_than: timedelta | str | None = None,
        episodes: bool | None = None,
        progress: Progress | None = None,
        stop: asyncio.Event | None = None,
    ) -> CompactionReport:
        """Compact one user, or all. See `MemorySystem.compact`."""
        check_flag(dry_run, "dry_run")
        if episodes is not None:
            check_flag(episodes, "episodes")
        self._check_open()
        least = None if older_than is None else age(older_than)
        users = await self._users(user_id)
        await self._alone.acquire()
        try:
            self._check_open()
        except SystemClosedError:
            self._alone.release()
            raise
        halt = self._halt = asyncio.Event()

        def stops() -> bool:
            asked = halt.is_set() or (stop is not None and stop.is_set())
            return asked or self._closing or self._at in self._barred

        pace = Pace(lambda: self._services.runtime.uses - self._own_uses, halt)
        if episodes is None:
            episodes = self._settings.compaction_episodes
        kinds = (long_term.KIND, episodic.KIND) if episodes else (long_term.KIND,)
        run = CompactionRun(kinds, dry_run, least, progress, stops, halt, pace)
        task = self._under_way = asyncio.create_task(
            self._run(run, users, everyone=user_id is None)
        )
        task.add_done_callback(self._done)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            halt.set()
            with anyio.CancelScope(shield=True):
                await asyncio.wait([task])
            raise

    async def stats(self, user_id: str | None) -> CompactionStats:
        """Return the totals of compaction. See `MemorySystem.compaction_stats`."""
        self._check_open()
        if user_id is None:
            totals = self._services.totals.now()
        else:
            (known,) = await self._users(user_id)
            async with Scope(self._services, On(known)).live() as live:
                totals = user_state.totals(live.state, COMPACTED)

        def counted(name: str) -> int:
            return sum(totals.get(f"{kind.NAME}.{name}", 0) for kind in COMPACTED)

        return CompactionStats(
            summaries=counted("summaries"),
            originals=counted("originals"),
            bytes_before=counted("summaries_bytes_before"),
            bytes_after=counted("summaries_bytes_after"),
            failed_clusters=self._failed_clusters,
            runs=self._runs,
            last_run_at=self._last_run_at,
            schedule=self._settings.compaction_schedule,
        )

    async def close(self, deadline_s: float) -> None:
        """Let nothing more begin; stop after the cluster in hand, or at the deadline."""
        self._closing = True
        self._halt.set()
        task = self._under_way
        if task is not None and not task.done():
            _, late = await asyncio.wait([task], timeout=deadline_s)
            if late:
                task.cancel()
                await asyncio.wait([task], timeout=deadline_s)

    def _check_open(self) -> None:
        if self._closing:
            raise SystemClosedError("the memory system is closed: open it again")
        self._services.runtime.check_loop()

    @asynccontextmanager
    async def without(self, user_id: str) -> AsyncIterator[None]:
        """Leave a user alone. A cluster of theirs in hand is finished or given up, not reported."""
        self._barred.add(user_id)
        if self._at == user_id:
            self._bars.set()
        try:
            while self._at == user_id:
                self._left.clear()
                await self._left.wait()
            if self._now is not None:
                self._now.forget(user_id)
            yield
        finally:
            self._barred.discard(user_id)

    def _done(self, task: "asyncio.Task[CompactionReport]") -> None:
        self._alone.release()
        self._now = None
        if not task.cancelled():
            task.exception()  # its caller may have gone

    async def _users(self, user_id: str | None) -> list[str]:
        if user_id is None:
            return await known_users(self._log)
        await known_user(self._log, Scope(self._services, On(user_id)).stream)
        return [user_id]

    # --- a run

    async def _run(
        self, run: CompactionRun, users: list[str], *, everyone: bool
    ) -> CompactionReport:
        before = await self._file_bytes()
        run.users_total, self._now = len(users), run
        failure: Exception | None = None
        with short_turns():
            for user_id in users:
                if run.asked_to_stop():
                    break
                try:
                    await self._turn(run, user_id)
                    await run.pace.give_way()
                except MovedError as moved:
                    if everyone:
                        continue  # the process that has them compacts them
                    failure = moved
                    break
                except Exception as error:  # whatever it is, the others have nothing to do with it
                    if not everyone or isinstance(error, SystemClosedError):
                        failure = error
                        break
                    run.leave(user_id, error)
                run.users_done += 1
            cancelled = run.asked_to_stop()
            if not run.dry_run:
                stream = None if everyone else stream_of(users[0])
                await self._finish(run, stream, cancelled=cancelled)
        if failure is not None:
            raise failure
        return run.reported(before, await self._file_bytes(), cancelled=cancelled)

    async def _turn(self, run: CompactionRun, user_id: str) -> None:
        if user_id in self._barred:
            raise BeingErasedError("this user's memory is being erased: try again later")
        self._at, self._bars = user_id, asyncio.Event()
        try:
            await self._user(run, user_id)
        finally:
            self._at = None
            self._left.set()

    async def _user(self, run: CompactionRun, user_id: str) -> None:
        scope = _OwnScope(self._services, user_id, self._used)
        if self._settings.retention and not run.dry_run:
            async with scope.writable() as live:
                await retained(scope, live)
        found = await self._clusters(run, scope)
        await run.tell(user_id, 0, len(found))
        for done, cluster in enumerate(found, start=1):
            if run.asked_to_stop():
                break
            if done == len(found) and not run.dry_run:
                await self._snapshot(scope)  # the log keeps two: neither is to hold the originals
            halts = (run.halt, self._bars)
            run.count(await self._replacing.replace(scope, cluster, halts, dry_run=run.dry_run))
            await run.tell(user_id, done, len(found))
            await run.pace.give_way()
        if not run.dry_run and not run.asked_to_stop() and await archive_originals(scope):
            await self._snapshot(scope)  # or a replay would read the archive

    async def _clusters(self, run: CompactionRun, scope: Scope) -> list[Old]:
        """Return the clusters of what is old, of pass after pass until one finds none."""
        found: list[Old] = []
        state = await scope.state()
        days = self._settings.after_days(state.account.tier)
        least = timedelta(days=days) if run.older_than is None else run.older_than
        before_us = self._services.clock_us() - least // timedelta(microseconds=1)

        def work() -> list[Old]:
            return [
                old
                for kind in run.kinds
                for old in old_memories(kind, state.of(kind), before_us, state.provenance.expires)
            ]

        for old in await anyio.to_thread.run_sync(work):
            run.considered += len(old.rows)
            left = old
            while fresh := await self._pass(run, scope, left):
                found += fresh
                taken = {row.memory_id for cluster in fresh for row in cluster.rows}
                left = Old(old.kind, [row for row in left.rows if row.memory_id not in taken])
        return found

    async def _pass(self, run: CompactionRun, scope: Scope, old: Old) -> list[Old]:
        found: list[Old] = []
        for start in range(0, len(old.rows), self._settings.compaction_batch):
            if run.asked_to_stop():
                break
            batch = Old(old.kind, old.rows[start : start + self._settings.compaction_batch])
            if len(batch.rows) >= self._settings.compaction_min_samples:
                found += await clustered(scope, batch, self._settings, self._judge)
                await run.pace.give_way()
        return found

    def _used(self) -> None:
        self._own_uses += 1

    async def _snapshot(self, scope: Scope) -> None:
        async with scope.writable() as live:
            await live.snapshot()

    # --- at the end of a run

    async def _finish(self, run: CompactionRun, stream: str | None, *, cancelled: bool) -> None:
        """Drop what retention says, and make files smaller; a failure is no reason to fail."""
        self._runs += 1
        self._last_run_at = to_datetime(self._services.clock_us())
        self._failed_clusters += run.failed
        try:
            days = self._settings.archive_retention_days
            if days is not None:
                before_us = self._services.clock_us() - int(days * DAY_US)
                for each in await self._not_held(stream):
                    await require(self._log, ArchivingStore).drop_archived(before_us, each)
            if stream is None:
                await self._services.recalls.trim_all()
            if not cancelled:  # both look first whether a good part is free
                if isinstance(self._log, ShrinkingStore):
                    await self._log.shrink()
                await self._services.embeddings.shrink()
        except EventLogError as error:
            _logger.warning("files not shrunk", error=reason(error))

    async def _not_held(self, stream: str | None) -> list[str | None]:
        """Return the given streams without those under a legal hold; [None] stands for all."""
        streams = await self._log.streams() if stream is None else [stream]
        held = {one for one in streams if await holds_of(self._log, key_owner(one))}
        return [one for one in streams if one not in held] if held else [stream]

    async def _file_bytes(self) -> int:
        return await anyio.to_thread.run_sync(bytes_under, self._directory)


class _OwnScope(Scope):
    """A user as a run reaches them: it says so, for it does not give way to itself."""

    def __init__(self, services: Services, user_id: str, used: Callable[[], None]):
        super().__init__(services, On(user_id))
        self._used = used

    def live(self) -> AbstractAsyncContextManager[LiveUser]:
        """Hold the user's actor live: a run reads as it writes."""
        return self.writable()

    @asynccontextmanager
    async def writable(self) -> AsyncIterator[LiveUser]:
        """Hold the user's actor live. Every use comes this way."""
        self._used()
        async with super().writable() as live:
            yield live
