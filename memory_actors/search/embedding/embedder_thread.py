"""The thread that an embedder is called in, and how it ends.

It is a daemon: a call that hangs must not keep a process. But a daemon that comes back out of a
library in C++ while the interpreter is taken down aborts the process. Closing therefore waits for
the running call, and so does the exit of the interpreter, for `LEAVE_S_MAX` altogether.
"""

import asyncio
import atexit
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from queue import SimpleQueue
from typing import Any, TypeAlias, TypeVar
from weakref import WeakSet

from eventlog.core.waiting import settle
from memory_actors.base.errors import EmbedderClosedError, EmbedderError
from memory_actors.search.embedding.protocol import Embedded

T = TypeVar("T")
Done: TypeAlias = Callable[[Any], object]
"""Takes what a call has returned, or the exception that it raised."""
_Call: TypeAlias = tuple[Callable[[], object], Done, asyncio.AbstractEventLoop]
LEAVE_S_MAX = 5.0  # for a call in hand: a full batch takes 0.2 s, on a slow machine some seconds

_started: "WeakSet[EmbedderThread]" = WeakSet()


class EmbedderThread:
    """One thread that runs calls in turn, started with the first."""

    def __init__(self) -> None:
        self._calls = SimpleQueue[_Call | None]()
        self._thread: threading.Thread | None = None
        self._given_up_at_s: float | None = None
        """Until when it is waited for. None: it is to go on."""
        self._begun_at_s: float | None = None

    @property
    def busy_s(self) -> float:
        """For how long it has been at the call in hand; 0 if there is none."""
        since_s = self._begun_at_s
        return 0.0 if since_s is None else time.monotonic() - since_s

    def submit(self, call: Callable[[], object], done: Done) -> None:
        """Begin a call; `done` is given what it returns or raises, on the loop.

        :raises EmbedderError: the thread was stopped.
        """
        if self._given_up_at_s is not None:
            raise closed()
        if self._thread is None:
            thread = threading.Thread(target=self._work, name="embedder", daemon=True)
            thread.start()  # where no thread can be started, the next call tries again
            self._thread = thread
            _started.add(self)
        self._calls.put((call, done, asyncio.get_running_loop()))

    async def run(self, call: Callable[[], T]) -> T:
        """Make a call; return or raise what it does.

        :raises EmbedderError: the thread was stopped.
        """
        result: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self.submit(call, partial(settle, result))
        return await result

    def stop(self) -> None:
        """End the thread after the call it is at; those behind it fail."""
        if self._given_up_at_s is None:
            self._given_up_at_s = time.monotonic() + LEAVE_S_MAX
            self._calls.put(None)

    def join(self, wait_s: float = LEAVE_S_MAX) -> None:
        """Wait until the stopped thread has ended, or all the time that it is given is up."""
        if self._thread is not None and self._given_up_at_s is not None:
            left_s = self._given_up_at_s - time.monotonic()
            self._thread.join(max(0.0, min(wait_s, left_s)))

    def _work(self) -> None:
        while (taken := self._calls.get()) is not None:
            call, done, loop = taken
            self._begun_at_s = time.monotonic()
            try:
                if self._given_up_at_s is not None:
                    raise closed()
                outcome = call()
            except Exception as error:
                outcome = error
            except BaseException as error:  # a panic of a library in Rust is none of Exception
                outcome = failed(error)
            self._begun_at_s = None
            with suppress(RuntimeError):  # the loop has gone, and with it whoever waited
                loop.call_soon_threadsafe(done, outcome)
            del taken, call, done, outcome  # not to be held until the next call comes


@atexit.register
def _leave() -> None:
    """Stop what nobody has closed, and wait for all that runs."""
    threads = list(_started)
    for thread in threads:
        thread.stop()
    for thread in threads:
        thread.join()


def closed() -> EmbedderClosedError:
    """Return the error for calls after shutdown."""
    return EmbedderClosedError("the memory system is closed: open it again")


def failed(error: BaseException) -> EmbedderError:
    """Convert an embedder's exception to an error of ours."""
    if isinstance(error, EmbedderError):
        return error
    failure = EmbedderError(f"the embedder failed: {error!r}")
    failure.__cause__ = error
    return failure


Outcome: TypeAlias = Embedded | EmbedderError


def late(deadline_s: float) -> EmbedderError:
    """Return the error for a call whose deadline has passed."""
    return EmbedderError(
        f"the embedder gave no answer within {deadline_s:g} s: see whether it hangs"
    )
