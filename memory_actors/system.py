"""The memory system: where everything is put together, and the way in.

A data directory holds `log.mdb` with its anchor and lock (the truth), and `derived.mdb` and
`indexes/` (made again when they are missing or damaged; delete them at will while it is closed).
"""

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Self

import anyio
import anyio.to_thread
import msgspec
import structlog

from eventlog import CorruptLog, EventLog, LogStatistics, VerifyReport
from eventlog.audit import Progress
from eventlog.frame import stream_id
from eventlog.requests import system_clock_us
from memory_actors.embedding.default import DefaultEmbedder
from memory_actors.embedding.protocol import Embedder
from memory_actors.embedding.service import EmbeddingService, EmbeddingStatistics
from memory_actors.handles.scope import STREAM_PREFIX, stream_of
from memory_actors.handles.user import UserMemory
from memory_actors.live_user import LiveUser, StateDivergedError
from memory_actors.runtime import Runtime, RuntimeStatistics
from memory_actors.services import Services, new_memory_id
from memory_actors.settings import Settings
from memory_actors.user import event_registry, user_decider

_logger = structlog.get_logger("memory_actors.system")


class SystemStatistics(msgspec.Struct, frozen=True):
    """What the parts of a memory system have done."""

    log: LogStatistics
    runtime: RuntimeStatistics
    embeddings: EmbeddingStatistics


class MemorySystem:
    """The memories of all users in one data directory. Open it with `MemorySystem.open`."""

    def __init__(self, log: EventLog, services: Services):
        self._log = log
        self._services = services

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        directory: str | Path,
        *,
        embedder: Embedder | None = None,
        clock: Callable[[], int] = system_clock_us,
        new_id: Callable[[int], str] = new_memory_id,
        settings: Settings | None = None,
        reindex: bool = False,
    ) -> AsyncIterator[Self]:
        """Open a data directory, made if missing, and close it at the end of the block.

        `embedder` defaults to all-MiniLM-L6-v2, which is loaded on first use, and installed if it
        is not there yet. `clock` gives microseconds since 1970, `new_id` an unused memory id.
        `reindex=True` accepts another model than the one the store was indexed with; each user's
        memories are then embedded again when that user is next active.

        :raises LogLocked: another process has it open.
        :raises CorruptLog: its files are damaged.
        :raises ModelMismatchError: it was indexed with another model.
        """
        settings = settings or Settings()
        directory = Path(directory)
        async with AsyncExitStack() as stack:
            log = await stack.enter_async_context(
                EventLog.open(
                    directory, event_registry(), clock=clock, size_max_bytes=settings.log_bytes_max
                )
            )
            embeddings = await anyio.to_thread.run_sync(
                lambda: _open_embeddings(directory, embedder or DefaultEmbedder(), settings)
            )
            stack.push_async_callback(embeddings.close)
            await anyio.to_thread.run_sync(lambda: embeddings.check_model(reindex=reindex))
            services = _wire(directory, log, embeddings, clock, new_id, settings)
            services.runtime.start()
            stack.push_async_callback(services.runtime.close, settings.shutdown_s)
            try:
                yield cls(log, services)
            finally:
                with anyio.CancelScope(shield=True):
                    await stack.aclose()

    def user(
        self, user_id: str, *, agent_id: str | None = None, session_id: str | None = None
    ) -> UserMemory:
        """Return a handle on one user's memory, for one agent and session. No I/O.

        :raises InvalidInputError: a name that is empty, over 512 bytes, or not Unicode.
        """
        return UserMemory(self._services, user_id, agent_id=agent_id, session_id=session_id)

    async def users(self) -> list[str]:
        """Return the id of every user who ever had a memory, sorted."""
        streams = await self._log.streams()
        prefix = STREAM_PREFIX
        return sorted(s.removeprefix(prefix) for s in streams if s.startswith(prefix))

    async def verify(self, progress: Progress | None = None) -> VerifyReport:
        """Check every event, chain and index of the log; `progress(done, total)` in a thread."""
        return await self._log.verify(progress)

    async def check_replay(self) -> list[str]:
        """Return the users whose live state is not what a replay of their stream gives: none.

        Activates every user and reads every event: for audits and tests.
        """
        diverged = []
        for user_id in await self.users():
            async with self._services.runtime.use(stream_of(user_id)) as live:
                try:
                    await live.check_replay()
                except StateDivergedError:
                    diverged.append(user_id)
        return diverged

    def statistics(self) -> SystemStatistics:
        """Return what the parts have done since the system was opened."""
        services = self._services
        return SystemStatistics(
            log=self._log.statistics(),
            runtime=services.runtime.statistics(),
            embeddings=services.embeddings.statistics(),
        )


def _open_embeddings(directory: Path, embedder: Embedder, settings: Settings) -> EmbeddingService:
    """Open the derived data; put a damaged file aside, for all of it can be made again."""
    path, deadline_s = directory / "derived.mdb", settings.embedder_deadline_s
    try:
        return EmbeddingService(embedder, path, deadline_s=deadline_s)
    except CorruptLog as error:
        _logger.warning("derived data is damaged and made anew", error=str(error))
        path.replace(path.with_suffix(".damaged"))
        return EmbeddingService(embedder, path, deadline_s=deadline_s)


def _wire(
    directory: Path,
    log: EventLog,
    embeddings: EmbeddingService,
    clock: Callable[[], int],
    new_id: Callable[[int], str],
    settings: Settings,
) -> Services:
    decider = user_decider(settings.limits)
    indexes = directory / "indexes"
    indexes.mkdir(exist_ok=True)

    async def activate(stream: str) -> LiveUser:
        live = LiveUser(
            stream,
            log=log,
            decider=decider,
            embeddings=embeddings,
            index_path=indexes / f"{stream_id(stream).hex()}.index",
        )
        await live.activate(clock)
        return live

    runtime = Runtime(activate, budget_bytes=settings.live_bytes_max, idle_s=settings.idle_s)
    return Services(log, runtime, embeddings, decider, settings, clock, new_id)
