"""A file that many threads use, and that may be replaced while they do.

A thread that enters gets the current file and keeps it until it leaves, even if the file is
replaced meanwhile. One that was replaced is closed by the last who leaves it.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Generic, TypeVar

from eventlog.core.errors import LogClosed

F = TypeVar("F")


@dataclass(slots=True, eq=False)
class _Held(Generic[F]):
    file: F
    users: int = 0


class Shared(Generic[F]):
    """The current file, and those before it that somebody is still in."""

    def __init__(self, name: str, close: Callable[[F], None]):
        self._name = name
        self._close = close
        self._lock = threading.RLock()  # a condition's own methods take longer, for each read
        self._gate = threading.Condition(self._lock)
        self._waiting = 0  # threads in `alone`, which wait until nobody is in any file
        self._users = 0  # of all files
        self._current: _Held[F] | None = None
        self._here = threading.local()

    @property
    def file(self) -> F:
        """The file that this thread is in, else the current one.

        :raises LogClosed: there is none.
        """
        file: F | None = getattr(self._here, "file", None)
        return self._held().file if file is None else file

    def _held(self) -> _Held[F]:
        held = self._current
        if held is None:
            raise LogClosed(f"{self._name} is closed: open it again")
        return held

    @contextmanager
    def use(self) -> Iterator[F]:
        """Be in the current file.

        :raises LogClosed: there is none.
        """
        held, before = self.enter()
        try:
            yield held.file
        finally:
            self.leave(held, before)

    def enter(self) -> tuple[_Held[F], F | None]:
        """Be in the current file; return it and the one that this thread was in."""
        with self._lock:
            held = self._held()
            held.users += 1
            self._users += 1
        before, self._here.file = getattr(self._here, "file", None), held.file
        return held, before

    def leave(self, held: _Held[F], before: F | None) -> None:
        """Leave a file for the one that this thread was in before."""
        self._here.file = before
        with self._lock:
            held.users -= 1
            if held.users == 0 and held is not self._current:
                self._close(held.file)  # in here: who waits for all users waits for this too
            self._users -= 1
            if self._waiting:
                self._gate.notify_all()

    @contextmanager
    def within(self, file: F) -> Iterator[None]:
        """Let `file` be the one that this thread is in, without counting it as a user."""
        before, self._here.file = getattr(self._here, "file", None), file
        try:
            yield
        finally:
            self._here.file = before

    def replace(self, file: F | None) -> None:
        """Let everyone who comes from now on use another file, or none."""
        with self._lock:
            before, self._current = self._current, None if file is None else _Held(file)
            if before is not None and before.users == 0:
                self._close(before.file)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Wait until nobody is in any file, and keep everybody out."""
        with self._gate:
            self._waiting += 1
            self._gate.wait_for(lambda: self._users == 0)
            self._waiting -= 1
            yield
