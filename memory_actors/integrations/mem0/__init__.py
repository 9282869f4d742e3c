"""mem0's classes over this memory: `from memory_actors.integrations.mem0 import Memory`.

mem0 itself is not needed. docs/integrations/mem0.md says how its scopes become users and sessions,
and lists each difference.
"""

import weakref
from collections.abc import Callable, Coroutine, Mapping
from functools import wraps
from pathlib import Path
from typing import Any, ParamSpec, Self, TypeVar

from memory_actors.integrations.mem0.memory import AsyncMemory
from memory_actors.integrations.mem0.shapes import MemoryError, ValidationError  # noqa: A004
from memory_actors.sync.blocking import BlockingResource, Loop

__all__ = ["AsyncMemory", "Memory", "MemoryError", "ValidationError"]

P = ParamSpec("P")
R = TypeVar("R")


def _blocking(
    method: Callable[P, Coroutine[object, object, R]],
) -> Callable[P, R]:
    @wraps(method)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        memory: Any = args[0]
        result: R = memory._loop.call(method, memory._memory, *args[1:], **kwargs)  # noqa: SLF001
        return result

    return call


class Memory(BlockingResource):
    """mem0's `Memory`: what `AsyncMemory` does, without `await`, from any thread.

    It takes what `AsyncMemory` takes. The store is closed by `close`, at the end of a `with` block,
    or when the program ends.
    """

    def __init__(self, config: str | Path | Mapping[str, Any] | None = None, **parts: object):
        self._memory = AsyncMemory(config, **parts)
        self._loop = Loop()
        self._end = weakref.finalize(self, self._loop.close, self._memory.aclose)

    @classmethod
    def from_config(cls, config_dict: Mapping[str, object]) -> Self:
        """Return one for a configuration of mem0's."""
        return cls(config_dict)

    def close(self) -> None:
        """Close the store, once; it cannot be used any more."""
        self._end()

    add = _blocking(AsyncMemory.add)
    get = _blocking(AsyncMemory.get)
    get_all = _blocking(AsyncMemory.get_all)
    search = _blocking(AsyncMemory.search)
    update = _blocking(AsyncMemory.update)
    delete = _blocking(AsyncMemory.delete)
    delete_all = _blocking(AsyncMemory.delete_all)
    history = _blocking(AsyncMemory.history)
    reset = _blocking(AsyncMemory.reset)
