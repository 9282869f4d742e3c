"""A decision by a function of yours."""

import inspect
from collections.abc import Awaitable, Callable, Iterable, Sequence

import anyio

from memory_actors.base.errors import InvalidInputError
from memory_actors.search.superseding.protocol import NEAR_MAX, Reach, Statement, Verdict

Supersedes = (
    Callable[[Statement, Sequence[Statement]], Iterable[str]]
    | Callable[[Statement, Sequence[Statement]], Awaitable[Iterable[str]]]
)
"""Takes what was said last and what was said before it, nearest first; returns the ids of those
that hold no more."""


class CallableSuperseding:
    """Asks a callable. An async one is awaited on the loop, any other runs in a worker thread."""

    def __init__(self, function: Supersedes):
        if not callable(function):
            raise InvalidInputError(
                f"supersedes= takes a function of (newer, older), or False, not {function!r:.60}"
            )
        self._function = function
        self._name = str(getattr(function, "__name__", type(function).__name__))

    def reach(self, text: str) -> Reach:  # noqa: ARG002 - who knows what a function knows
        """Return as many as there may be: any text may change something."""
        return Reach(NEAR_MAX)

    async def superseded(self, newer: Statement, older: Sequence[Statement]) -> Sequence[Verdict]:
        """Return those of the older ones that the callable names."""
        said: object
        if inspect.iscoroutinefunction(self._function):
            said = self._function(newer, older)
        else:
            said = await anyio.to_thread.run_sync(
                self._function, newer, older, abandon_on_cancel=True
            )
        if inspect.isawaitable(said):
            said = await said
        if isinstance(said, str) or not isinstance(said, Iterable):
            raise TypeError(f"{self._name} returned {type(said).__name__}: return a list of ids")
        named = set(said)
        return [
            Verdict(one.memory_id, f"{self._name} says so")
            for one in older
            if one.memory_id in named
        ]
