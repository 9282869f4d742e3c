"""The port of superseding: a class that says which older facts a newer one contradicts."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final, NamedTuple, Protocol

import msgspec

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
        """Return which of the older ones, nearest first, the newer one says otherwise than.

        Whatever it raises is logged, and nothing is superseded.
        """
        ...
