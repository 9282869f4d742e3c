"""The port of superseding: a class that says which older facts a newer one contradicts."""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import datetime
from typing import Final, NamedTuple, Protocol

import msgspec

from memory_actors.base.watching import CallersFunction

NEAR_MAX: Final = 8
"""In the development sets the fact that is meant is among the first three."""


class Statement(msgspec.Struct, frozen=True, kw_only=True):
    """A long-term memory as it is compared."""

    memory_id: str
    text: str
    occurred_at: datetime
    """The time it was true."""
    similarity: float = 1.0
    """Cosine to the one that has just been added."""


class Verdict(NamedTuple):
    """An older memory that holds no more, and why."""

    memory_id: str
    evidence: str


class Reach(NamedTuple):
    """With which facts to compare a text."""

    count_max: int
    """The nearest of them; `NEAR_MAX` at most, 0 if the text changes nothing."""
    older_has: tuple[frozenset[str], ...] | None = None
    """Only older facts that have all words of one of these sets, as stems; None: any fact."""
    similarity_min: float = -1.0
    """Cosine."""


class Superseding(Protocol):
    """Decides which of some older memories hold no more, since a newer one says otherwise."""

    def reach(self, text: str) -> Reach:
        """Return with which facts to compare a text."""
        ...

    async def superseded(self, newer: Statement, older: Sequence[Statement]) -> Sequence[Verdict]:
        """Return the older facts, nearest first, that the newer one contradicts.

        Whatever it raises is logged, and nothing is superseded.
        """
        ...


# --- a decision by a function of yours

Supersedes = (
    Callable[[Statement, Sequence[Statement]], Iterable[str]]
    | Callable[[Statement, Sequence[Statement]], Awaitable[Iterable[str]]]
)
"""Takes the newer fact and the older ones, nearest first; returns the ids of those that are no
longer true."""


class CallableSuperseding(CallersFunction[Supersedes]):
    """Decides with a callable that is asked about every text."""

    maker = "what decides what is superseded"
    takes = "supersedes= takes a function of (newer, older), or False"

    def reach(self, text: str) -> Reach:  # noqa: ARG002 - who knows what a function knows
        """Return as many as there may be: any text may change something."""
        return Reach(NEAR_MAX)

    async def superseded(self, newer: Statement, older: Sequence[Statement]) -> Sequence[Verdict]:
        """Return the older facts that the callable names."""
        said = await self._returned(newer, older)
        if isinstance(said, str) or not isinstance(said, Iterable):
            raise TypeError(f"{self._name} returned {type(said).__name__}: return a list of ids")
        named = set(said)
        return [
            Verdict(one.memory_id, f"{self._name} says so")
            for one in older
            if one.memory_id in named
        ]
