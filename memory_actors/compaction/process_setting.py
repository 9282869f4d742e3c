"""A setting of the whole process that several may need changed at the same time."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Restore = Callable[[], object]


class ProcessSetting:
    """The first who needs it changed changes it, the last one restores it; from any thread.

    `change` changes it and returns what restores what was there before.
    """

    def __init__(self, change: Callable[[], Restore]):
        self._change = change
        self._lock = threading.Lock()
        self._inside = 0
        self._restore: Restore | None = None

    @contextmanager
    def changed(self) -> Iterator[None]:
        """Have it changed meanwhile."""
        with self._lock:
            if self._inside == 0:
                self._restore = self._change()
            self._inside += 1
        try:
            yield
        finally:
            with self._lock:
                self._inside -= 1
                if self._inside == 0 and self._restore is not None:
                    self._restore()
