"""A summary by a function of yours."""

import inspect
from collections.abc import Awaitable, Callable

import anyio

from memory_actors.base.errors import SummarizerError
from memory_actors.compaction.summarizers.protocol import Cluster, checked_body, checked_name

Summarize = Callable[[Cluster], str] | Callable[[Cluster], Awaitable[str]]


class CallableSummarizer:
    """Summarises a cluster with a callable that takes it and returns the body of the summary.

    An async callable is awaited on the loop, any other runs in a worker thread; who waits for that
    can be cancelled, the thread goes on to its end. The name is the function's, unless given.

    :raises InvalidInputError: the name cannot stand in an event.
    """

    def __init__(self, function: Summarize, *, name: str | None = None):
        self._function = function
        self._name = checked_name(
            name or str(getattr(function, "__name__", type(function).__name__))
        )

    @property
    def name(self) -> str:
        """Say how the summary was made."""
        return self._name

    async def summarize(self, cluster: Cluster) -> str:
        """Return the body of a summary.

        :raises SummarizerError: the callable raised, or returned no text, or an empty one.
        """
        try:
            body = await self._call(cluster)
        except Exception as error:
            raise SummarizerError(
                f"summariser {self._name} raised {type(error).__name__}: see its cause, and mend it"
            ) from error
        return checked_body(body, self._name)

    async def _call(self, cluster: Cluster) -> object:
        body: object
        if _is_async(self._function):
            body = self._function(cluster)
        else:
            body = await anyio.to_thread.run_sync(self._function, cluster, abandon_on_cancel=True)
        return await body if inspect.isawaitable(body) else body


def _is_async(function: Summarize) -> bool:
    of_object = getattr(type(function), "__call__", None)  # noqa: B004 - which it is
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(of_object)
