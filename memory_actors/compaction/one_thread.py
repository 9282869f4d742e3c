"""One thread of BLAS for clustering. The only file that imports threadpoolctl.

Clustering runs beside the agent's own work. With all threads of BLAS it would take every core from
the event loop and the embedder, and gain little: on a busy machine threads wait for each other.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from threadpoolctl import ThreadpoolController

_lock = threading.Lock()
_inside = 0
_limit = None


@cache
def _blas() -> ThreadpoolController:
    return ThreadpoolController().select(user_api="blas")


@contextmanager
def one_thread() -> Iterator[None]:
    """Let BLAS use one thread meanwhile. The setting is the process's: the last one restores it."""
    global _inside, _limit
    with _lock:
        if _inside == 0:
            _limit = _blas().limit(limits=1)
        _inside += 1
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if _inside == 0 and _limit is not None:
                _limit.restore_original_limits()
