"""One thread of BLAS for clustering. The only file that imports threadpoolctl.

Clustering runs beside the agent's own work. With all threads of BLAS it would take every core from
the event loop and the embedder, and gain little: on a busy machine threads wait for each other.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import cache

from threadpoolctl import ThreadpoolController

from memory_actors.compaction.process_setting import ProcessSetting


@cache
def _blas() -> ThreadpoolController:
    return ThreadpoolController().select(user_api="blas")


def _limit() -> Callable[[], object]:
    restore: Callable[[], object] = _blas().limit(limits=1).restore_original_limits
    return restore


_threads = ProcessSetting(_limit)


def one_thread() -> AbstractContextManager[None]:
    """Let BLAS use one thread meanwhile."""
    return _threads.changed()
