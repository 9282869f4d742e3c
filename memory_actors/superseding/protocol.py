"""Who decides whether a newer fact says otherwise than older ones: what it is given and answers."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple, Protocol

import msgspec


class Statement(msgspec.Struct, frozen=True, kw_only=True):
    """A long-term memory as it is compared."""

    memory_id: str
    text: str
    occurred_at: datetime
    """When it was true."""
    similarity: float = 1.0
    """Cosine to the one that has just been added."""


class Verdict(NamedTuple):
    """An older memory that holds no more, and why."""

    memory_id: str
    evidence: str


class Superseding(Protocol):
    """Decides which of some older memories hold no more, since a newer one says otherwise."""

    def concerns(self, text: str) -> bool:
        """Say whether a text may change anything: else nothing near it is looked for."""
        ...

    async def superseded(self, newer: Statement, older: Sequence[Statement]) -> Sequence[Verdict]:
        """Return which of the older ones, nearest first, the newer one says otherwise than.

        Whatever it raises is logged, and nothing is superseded.
        """
        ...
