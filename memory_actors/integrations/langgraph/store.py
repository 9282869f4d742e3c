"""`MemoryActorsStore`: a store of LangGraph that keeps its items in a memory system.

from memory_actors.integrations.langgraph import MemoryActorsStore

with MemoryActorsStore.open("./memory") as store:
    store.put(("ada", "memories"), "m1", {"text": "likes tea"})
    store.search(("ada",), query="what does she drink?")
"""

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar, TypeVarTuple

from langgraph.store.base import BaseStore, IndexConfig, Op, PutOp, Result, TTLConfig

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
        self._stop_sweeping: Callable[[float | None], bool] | None = None

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
        self._joined = None if self._loop is None else Joined(self._operations)

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
        """Carry out operations. See `batch`. On the store's loop, calls at once become one."""
        if self._joined is not None and self._loop is _current_loop():
            return await self._joined.batch(list(ops))
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
        begin = self._sweep_in_thread if self._loop is None else self._sweep_in_task
        self._stop_sweeping = begin(interval_s)

    def stop_ttl_sweeper(self, timeout: float | None = None) -> bool:
        """Stop the sweeper; return whether it has stopped within `timeout` seconds."""
        stop, self._stop_sweeping = self._stop_sweeping, None
        return stop is None or stop(timeout)

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

    def _sweep_in_thread(self, interval_s: float) -> Callable[[float | None], bool]:
        stopped = threading.Event()

        def sweep() -> None:
            while not stopped.wait(interval_s):
                try:
                    self.sweep_ttl()
                except Exception:
                    _logger.exception("sweep_failed")

        thread = threading.Thread(target=sweep, name="langgraph-ttl", daemon=True)
        thread.start()

        def stop(timeout: float | None) -> bool:
            stopped.set()
            thread.join(timeout)
            return not thread.is_alive()

        return stop

    def _sweep_in_task(self, interval_s: float) -> Callable[[float | None], bool]:
        async def sweep() -> None:
            while True:
                await asyncio.sleep(interval_s)
                try:
                    await self.asweep_ttl()
                except Exception:
                    _logger.exception("sweep_failed")

        assert self._loop is not None
        task = self._loop.create_task(sweep())

        def stop(_timeout: float | None) -> bool:
            return task.cancel() or task.done()

        return stop


def _current_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


Call = tuple[Sequence[Op], "asyncio.Future[list[Result]]"]


class Joined:
    """The calls of an event loop: calls at once become one batch, as in LangGraph's own stores.

    While a batch runs, calls wait and become the next one. A read that several ask for is done
    once, and of several puts under one key the last one counts. A batch that fails is done again
    call by call, so that an error is its caller's alone: a put that was carried out already changes
    nothing.
    """

    def __init__(self, operations: Operations):
        self._operations = operations
        self._waiting: list[Call] = []
        self._task: asyncio.Task[None] | None = None

    async def batch(self, given: Sequence[Op]) -> list[Result]:
        """Carry out operations, with those of other calls. See `Operations.batch`."""
        self._operations.check(given)
        loop = asyncio.get_running_loop()
        future: asyncio.Future[list[Result]] = loop.create_future()
        self._waiting.append((given, future))
        if self._task is None or self._task.done():
            self._task = loop.create_task(self._work())
        return await future

    async def _work(self) -> None:
        while self._waiting:
            calls, self._waiting = self._waiting, []
            calls = [call for call in calls if not call[1].done()]  # they were cancelled
            try:
                await self._carry_out(calls)
            except Exception as error:
                if len(calls) == 1:
                    _fail(calls[0][1], error)
                    continue
                for call in calls:
                    try:
                        await self._carry_out([call])
                    except Exception as own:
                        _fail(call[1], own)

    async def _carry_out(self, calls: Sequence[Call]) -> None:
        ops: list[Op] = []
        places: dict[object, int] = {}
        asked = [[_place(op, ops, places) for op in given] for given, _ in calls]
        results = await self._operations.carry_out(ops)
        for (_, future), mine in zip(calls, asked, strict=True):
            if not future.done():
                future.set_result([results[at] for at in mine])


def _place(op: Op, ops: list[Op], places: dict[object, int]) -> int:
    """Return where an operation stands in a batch; it is added if it is not there yet."""
    known = (PutOp, op.namespace, op.key) if isinstance(op, PutOp) else op
    try:
        at = places.setdefault(known, len(ops))
    except TypeError:  # its filter is a dict
        at = len(ops)
    if at == len(ops):
        ops.append(op)
    elif isinstance(op, PutOp):
        ops[at] = op
    return at


def _fail(future: "asyncio.Future[list[Result]]", error: Exception) -> None:
    if not future.done():
        future.set_exception(error)
