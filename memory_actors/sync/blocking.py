"""Calls without `await`: an event loop in a thread, and classes whose methods run there.

Each class of the async API has one here with the same methods. A method runs the one that it stands
for on the loop, and waits: an awaitable there is a return value here, an async iterator is an
iterator, and an `async with` is open at once. A handle that comes back is wrapped likewise, so
nothing but the loop's thread ever touches the memory, and any number of threads may call.
"""

import asyncio
import os
import threading
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Iterator
from concurrent.futures import Future
from contextlib import AsyncExitStack
from functools import cache, partial, wraps
from inspect import getattr_static, isasyncgenfunction
from typing import Any, Final, ParamSpec, Self, TypeVar

import anyio
from anyio.from_thread import BlockingPortal

from eventlog.core.waiting import OPENING_S_MAX
from eventlog.files.datafile import within_limits
from memory_actors.base.errors import InvalidInputError, SystemClosedError, WrongLoopError
from memory_actors.sharing import remote
from memory_actors.sharing.system import MemorySystem

T = TypeVar("T")
P = ParamSpec("P")
NAME: Final = "memory_actors.sync"
"""The name of the thread, and of the module that has the classes."""

WRAPPED: Final[tuple[type, ...]] = (
    remote.UserMemory, remote.WorkingMemory, remote.ShortTermMemory, remote.EntityGraph,
    remote.Episodes, remote.Documents, remote.ContextDocument, remote.PastMemory,
    remote.UserContext, MemorySystem,
)  # fmt: skip
"""The classes of the async API that have one here; a base before those that are based on it. The
owner's versions of these classes count as instances of them."""


class Loop:
    """An event loop in a thread of its own. The thread ends with the program, or by `close`."""

    def __init__(self) -> None:
        self._closing, self._closed = threading.Lock(), False
        self._start()

    def _start(self) -> None:
        started: Future[BlockingPortal] = Future()
        self._pid = os.getpid()
        self._thread = threading.Thread(target=_run, args=(started,), name=NAME, daemon=True)
        self._thread.start()
        self._portal = started.result()

    def call(self, function: Callable[P, Awaitable[T]], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a function on the loop, await what it returns if that can be awaited, and return it.

        An interruption, as by Ctrl-C, cancels it there.

        In a forked child it is a loop of the child's own.

        :raises SystemClosedError: the loop has been closed.
        :raises WrongLoopError: this is the loop's own thread.
        """
        if self._closed:
            raise SystemClosedError("the memory system is closed: open it again")
        if os.getpid() != self._pid:  # a child has no thread of its parent's
            self._start()
        future: Future[T] | None = None
        try:
            future = self._portal.start_task_soon(lambda: function(*args, **kwargs))
            return future.result()
        except BaseException as error:
            if future is not None:
                future.cancel()
            elif isinstance(error, RuntimeError):
                raise WrongLoopError(
                    "a function that the memory system calls cannot call it back in this way, as "
                    "it would wait for itself: use the async API there"
                ) from error
            raise

    def iterate(
        self, function: Callable[P, AsyncGenerator[T]], *args: P.args, **kwargs: P.kwargs
    ) -> Iterator[T]:
        """Yield what an async generator on the loop does."""
        items = function(*args, **kwargs)
        try:
            while True:
                try:
                    yield self.call(items.__anext__)
                except StopAsyncIteration:
                    return
        finally:
            if not self._closed:  # else they are closed already
                self.call(items.aclose)

    def close(self, first: Callable[[], Awaitable[object]] | None = None) -> None:
        """End the thread, once; `first` is called on the loop before that.

        An interruption ends the wait for it, and no more.
        """

        async def end() -> None:
            self._closed = True
            try:
                if first is not None:
                    await first()
            finally:
                await self._portal.stop()

        with self._closing:
            if not self._closed:
                try:
                    self.call(end)
                    self._thread.join()
                except BaseException:
                    _left.add(self._thread)
                    raise


_left: Final[set[threading.Thread]] = set()
"""Threads that nobody waits for, as that was interrupted: they may have a store until they end."""


def _run(started: "Future[BlockingPortal]") -> None:
    async def serve() -> None:
        async with BlockingPortal() as portal:
            started.set_result(portal)
            await portal.sleep_until_stopped()

    try:
        anyio.run(serve)
    except BaseException as error:
        if started.done():
            raise
        started.set_exception(error)  # the system gives it no loop


class Blocking:
    """A handle whose methods run on a loop in another thread, and are waited for."""

    def __init__(self, loop: Loop, handle: Any):
        self._loop = loop
        self._handle = handle

    def __getattr__(self, name: str) -> Any:
        """Return a public attribute of the handle: another handle, say."""
        if name.startswith("_"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return self._wrapped(getattr(self._handle, name))

    def __dir__(self) -> set[str]:
        """Return the names of the handle's public attributes, too, for completion."""
        return {*super().__dir__(), *(one for one in dir(self._handle) if not one.startswith("_"))}

    def __repr__(self) -> str:
        return f"<{type(self).__module__}.{type(self).__name__}>"

    def _wrapped(self, value: object) -> Any:
        its: object = type(value)
        kind = blocking_class(its)
        return value if kind is None else kind(self._loop, value)


class BlockingResource(ABC):
    """A resource that is open until its block ends, or until it is closed."""

    @abstractmethod
    def close(self) -> None:
        """Close it, once; more does no harm."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class ClosableHandle(BlockingResource, Blocking):
    """A handle that is open until its block ends, or until it is closed."""


class System(ClosableHandle):
    """A memory system that has a loop of its own."""

    @classmethod
    @wraps(vars(MemorySystem)["open"].__func__)
    def open(cls, *args: Any, **kwargs: Any) -> Self:  # noqa: D102 - it is that of the other
        return cls._opened(partial(MemorySystem.open, *args, **kwargs))

    @classmethod
    @wraps(vars(MemorySystem)["connect"].__func__)
    def connect(cls, *args: Any, **kwargs: Any) -> Self:  # noqa: D102 - as well
        return cls._opened(partial(MemorySystem.connect, *args, **kwargs))

    @classmethod
    def _opened(cls, open_: Callable[[], Awaitable[MemorySystem]]) -> Self:
        """Open it on a loop of its own; an interruption leaves nothing open, whenever it comes."""
        for thread in set(_left):
            thread.join(OPENING_S_MAX)
            _left.discard(thread)
        with within_limits("a memory system"):
            loop, turn, opened = Loop(), asyncio.Lock(), AsyncExitStack()

        async def opening() -> MemorySystem:
            async with turn:
                memory = await open_()
                opened.push_async_callback(memory.close)
                return memory

        async def leave() -> None:
            async with turn:
                await opened.aclose()

        try:
            return cls(loop, loop.call(opening))
        except BaseException:
            loop.close(leave)
            raise

    def close(self) -> None:
        """Close the system, as the end of its block does; once is enough, and more does no harm."""
        self._loop.close(self._handle.close)


def on_loop(handle: object, function: Callable[[Any], Awaitable[T]]) -> T:
    """Call an async function with what a handle stands for in the async API, and wait.

    `handle` is a memory, a user's memory or any other object of this API; the function is called on
    its loop, so what is written for the async API works with it: `on_loop(user, function)`.

    :raises InvalidInputError: it is no object of this API.
    """
    if not isinstance(handle, Blocking):
        raise InvalidInputError(
            f"on_loop takes an object of memory_actors.sync, not {type(handle).__name__}"
        )
    found: T = handle._loop.call(function, handle._handle)  # noqa: SLF001 - of this module
    return found


def blocking(kind: type) -> type[Blocking]:
    """Return the class whose methods call those of a class of the async API, and wait."""
    bases = [CLASSES[base] for base in kind.__bases__ if base in CLASSES]
    bases += [
        System if kind is MemorySystem else ClosableHandle if hasattr(kind, "close") else Blocking
    ]
    members = dict(own_members(kind))
    methods = {name: _method(name, each) for name, each in members.items() if callable(each)}
    methods = {name: method for name, method in methods.items() if name not in vars(bases[-1])}
    about = {"__doc__": kind.__doc__, "__module__": NAME}
    return type(kind.__name__, tuple(bases), {**methods, **about})


def own_members(kind: type, given: Collection[type] = WRAPPED) -> Iterator[tuple[str, object]]:
    """Yield the public members of a class that no base among `given` has, those of bases first."""
    known = {name for base in kind.__mro__[1:] if base in given for name in dir(base)}
    names = [name for base in reversed(kind.__mro__[:-1]) for name in vars(base)]
    for name in dict.fromkeys(names):
        if (name == "__call__" or not name.startswith("_")) and name not in known:
            yield name, getattr_static(kind, name)


def _method(name: str, method: Any) -> object:
    if isinstance(method, staticmethod):
        return _static(method.__func__)
    if isasyncgenfunction(method):

        @wraps(method)
        def iterated(self: Blocking, *args: object, **kwargs: object) -> Iterator[object]:
            return self._loop.iterate(getattr(self._handle, name), *args, **kwargs)

        return iterated

    @wraps(method)
    def called(self: Blocking, *args: object, **kwargs: object) -> object:
        return self._wrapped(self._loop.call(getattr(self._handle, name), *args, **kwargs))

    return called


def _static(function: Callable[P, Awaitable[T]]) -> "staticmethod[P, T]":
    """Return a function that needs no open system: it runs on a loop of its own."""

    @wraps(function)
    def called(*args: P.args, **kwargs: P.kwargs) -> T:
        loop = Loop()
        try:
            return loop.call(function, *args, **kwargs)
        finally:
            loop.close()

    return staticmethod(called)


CLASSES: Final[dict[type, type[Blocking]]] = {}
for _kind in WRAPPED:
    CLASSES[_kind] = blocking(_kind)


@cache
def blocking_class(kind: type) -> type[Blocking] | None:
    """Return the class here for objects of a class; None: it has none, as it needs no loop."""
    found = [blocking for each, blocking in CLASSES.items() if issubclass(kind, each)]
    return found[-1] if found else None
