"""`MemoryActorsStore`: a store of LangGraph that keeps its items in a memory system.

from memory_actors.integrations.langgraph import MemoryActorsStore

with MemoryActorsStore.open("./memory") as store:
    store.put(("ada", "memories"), "m1", {"text": "likes tea"})
    store.search(("ada",), query="what does she drink?")
"""

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar, TypeVarTuple

from langgraph.store.base import BaseStore, IndexConfig, Op, Result, TTLConfig

from eventlog import system_clock_us
from eventlog.core.logs import get_logger
from memory_actors import sync
from memory_actors.base.errors import InvalidInputError
from memory_actors.integrations.adapting import AnyMemory, checked_memory
from memory_actors.integrations.langgraph.items import Index, NamespaceNames
from memory_actors.integrations.langgraph.operations import AT_ONCE, Operations
from memory_actors.sharing.system import MemorySystem

if TYPE_CHECKING:
    from concurrent.futures import Future

SWEEP_MINUTES = 5.0  # the interval where nothing is said of one

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

_logger = get_logger("memory_actors.langgraph")


class MemoryActorsStore(BaseStore):
    """A LangGraph store in a memory system, with or without `await`.

    Over a `memory_actors.sync.MemorySystem` any thread may call it, and the asynchronous methods
    run in a thread. Over a `memory_actors.MemorySystem` it belongs to the event loop that it was
    made on: the synchronous methods are for other threads, and raise `asyncio.InvalidStateError`
    on that loop.

    `user` says which label of a namespace is the user, from 0, or is the id of the one user who has
    all namespaces; items.py has the rule. By default the retrieval of the memory system answers a
    `query`. With `index` (`dims`, `embed`, `fields`), the caller's embeddings answer it, and their
    vectors are kept in the memory of the process.

    `ttl` has `default_ttl`, `refresh_on_read`, `omit_expired` and `sweep_interval_minutes`, as
    LangGraph documents them. `sweep_ttl` or the sweeper deletes expired items. `clock` gives
    microseconds since 1970.
    """

    supports_ttl = True

    def __init__(
        self,
        memory: AnyMemory,
        *,
        user: int | str = 0,
        index: IndexConfig | None = None,
        ttl: TTLConfig | None = None,
        clock: Callable[[], int] | None = None,
    ):
        self._sync = memory if isinstance(memory, sync.MemorySystem) else None
        self._loop = None if self._sync is not None else _current_loop()
        if self._sync is None and self._loop is None:
            raise InvalidInputError(
                "make the store on the event loop that the memory system was opened on, or give a "
                "memory_actors.sync.MemorySystem, which needs none"
            )
        self.index_config = index
        self.ttl_config = ttl
        self._turns = asyncio.Semaphore(AT_ONCE)
        self._stop_sweeping: threading.Event | None = None

        async def itself(found: MemorySystem) -> MemorySystem:
            return found

        given = checked_memory(memory)
        self._operations = Operations(
            sync.on_loop(given, itself) if isinstance(given, sync.MemorySystem) else given,
            NamespaceNames(user),
            None if index is None else Index(index),
            clock or system_clock_us,
            lambda: self.ttl_config or {},
        )

    @classmethod
    @contextmanager
    def open(
        cls,
        directory: str | Path,
        *,
        user: int | str = 0,
        index: IndexConfig | None = None,
        ttl: TTLConfig | None = None,
        **parts: Any,
    ) -> Iterator[Self]:
        """Open a data directory as a store, and close it at the end of the block.

        If `ttl` has `sweep_interval_minutes`, expired items are deleted at that interval. `parts`
        are the options of `MemorySystem.open`, which names what it raises.
        """
        with sync.MemorySystem.open(directory, **parts) as memory:
            store = cls(memory, user=user, index=index, ttl=ttl, clock=parts.get("clock"))
            with store._swept():
                yield store

    @classmethod
    @asynccontextmanager
    async def aopen(
        cls,
        directory: str | Path,
        *,
        user: int | str = 0,
        index: IndexConfig | None = None,
        ttl: TTLConfig | None = None,
        **parts: Any,
    ) -> AsyncIterator[Self]:
        """Open a data directory as a store for the running event loop. See `open`."""
        async with MemorySystem.open(directory, **parts) as memory:
            store = cls(memory, user=user, index=index, ttl=ttl, clock=parts.get("clock"))
            with store._swept():
                yield store

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Carry out operations: reads see what was there before the puts.

        A batch with a bad namespace, or a value that no document can hold, does nothing. Each put
        is a command of its own: where one is refused for a quota, others may be carried out.

        :raises InvalidNamespaceError: a label that is empty, no string, or has a dot.
        :raises InvalidInputError: a value, a key, a time to live or a filter that cannot be.
        :raises QuotaExceededError: the user has no room for it.
        :raises asyncio.InvalidStateError: this is the store's own event loop.
        """
        return self._run(self._operations.batch, list(ops))

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """Carry out operations. See `batch`."""
        return await self._arun(self._operations.batch, list(ops))

    def sweep_ttl(self) -> int:
        """Delete what has expired, of all users; return how many items were.

        :raises asyncio.InvalidStateError: this is the store's own event loop.
        """
        return self._run(self._operations.sweep)

    async def asweep_ttl(self) -> int:
        """Delete what has expired. See `sweep_ttl`."""
        return await self._arun(self._operations.sweep)

    def start_ttl_sweeper(self, sweep_interval_minutes: float | None = None) -> None:
        """Delete what has expired again and again, until `stop_ttl_sweeper`.

        The interval is this one, or that of `ttl`, or 5 minutes. Does nothing without `ttl`, or if
        the sweeper already runs.
        """
        if self.ttl_config is None or self._stop_sweeping is not None:
            return
        minutes = sweep_interval_minutes or self.ttl_config.get("sweep_interval_minutes")
        interval_s = 60 * float(minutes or SWEEP_MINUTES)
        stopped = self._stop_sweeping = threading.Event()

        def sweep() -> None:
            while not stopped.wait(interval_s):
                try:
                    self.sweep_ttl()
                except Exception:
                    if not stopped.is_set():  # else the store is about to close
                        _logger.exception("sweep_failed")

        self._sweeper = threading.Thread(target=sweep, name="langgraph-ttl", daemon=True)
        self._sweeper.start()

    def stop_ttl_sweeper(self, timeout: float | None = None) -> bool:
        """Stop the sweeper; return whether it has stopped within `timeout` seconds.

        On the store's own event loop, which a sweep needs, it is told to stop and not waited for.
        """
        if self._stop_sweeping is None:
            return True
        self._stop_sweeping.set()
        self._stop_sweeping = None
        if self._loop is not None and self._loop is _current_loop():
            return True
        self._sweeper.join(timeout)
        return not self._sweeper.is_alive()

    # --- how

    def _run(self, function: Callable[[*Ts], Awaitable[T]], *args: *Ts) -> T:
        if self._sync is not None:
            return sync.on_loop(self._sync, lambda _memory: self._in_turn(function, *args))
        if self._loop is _current_loop():
            raise asyncio.InvalidStateError(
                "a synchronous call on the store's own event loop would wait for itself: use "
                "`await store.aget(...)` and the like, or call it from another thread"
            )
        return self._elsewhere(function, *args).result()

    async def _arun(self, function: Callable[[*Ts], Awaitable[T]], *args: *Ts) -> T:
        if self._sync is not None:
            return await asyncio.to_thread(lambda: self._run(function, *args))
        if self._loop is asyncio.get_running_loop():
            return await self._in_turn(function, *args)
        return await asyncio.wrap_future(self._elsewhere(function, *args))

    def _elsewhere(self, function: Callable[[*Ts], Awaitable[T]], *args: *Ts) -> "Future[T]":
        assert self._loop is not None
        return asyncio.run_coroutine_threadsafe(self._in_turn(function, *args), self._loop)

    async def _in_turn(self, function: Callable[[*Ts], Awaitable[T]], *args: *Ts) -> T:
        """Run it with at most so many others: what waits its turn here is not timed out there."""
        async with self._turns:
            return await function(*args)

    @contextmanager
    def _swept(self) -> Iterator[None]:
        if self.ttl_config is not None and self.ttl_config.get("sweep_interval_minutes"):
            self.start_ttl_sweeper()
        try:
            yield
        finally:
            self.stop_ttl_sweeper()


def _current_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
