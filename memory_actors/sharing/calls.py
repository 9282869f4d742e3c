"""What a call of an operation is, whoever carries it out."""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol

import msgspec

from memory_actors.base.records import Origin
from memory_actors.base.reports import Moment


class Then(msgspec.Struct, frozen=True, array_like=True):
    """The moment of a replay, and what to do about texts that retention has dropped."""

    as_of: int | datetime
    dropped: str


class On(msgspec.Struct, frozen=True, array_like=True):
    """The handle that an operation is called on; without a user, the system."""

    user_id: str | None = None
    agent_id: str | None = None
    session_id: str | None = None
    origins: tuple[Origin, ...] = ()
    auto_prune: bool = False
    document: str | None = None
    then: Then | None = None


class Caller(Protocol):
    """Carries out operations somewhere else."""

    async def call(self, name: str, on: On, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Carry out an operation, and return its result."""
        ...

    def iterate(
        self, name: str, on: On, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> AsyncIterator[Any]:
        """Yield what an operation does."""
        ...

    def at_once(self, name: str, on: On, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Carry out an operation that is not awaited, and return its result."""
        ...

    async def replay(self, on: On, kwargs: Mapping[str, Any]) -> tuple[On, Moment, int]:
        """Open a replay; return its handle, its moment, and how much of then is lost."""
        ...

    async def end_replay(self, on: On) -> None:
        """Let go of a replay."""
        ...

    def watch_erasures(self, forget: Callable[[str], object]) -> None:
        """Have a function called when a user is erased."""
        ...

    async def close(self) -> None:
        """End the connection."""
        ...
