"""One thread for the products of a query. The only file that imports threadpoolctl.

The products are small: a second thread of BLAS gains 0.1 ms of one on an idle machine. On a busy
one the first waits for the second to get a core, which was measured to take a query from 2 to 12
ms, and threads that wait for more work burn the core that the embedder needs.
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
