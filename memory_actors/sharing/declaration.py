"""The declaration of an operation, a call of one, and the protocol of those that carry it out."""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from enum import Enum
from types import MappingProxyType
from typing import Any, Final, NamedTuple, Protocol

import msgspec

from eventlog.core.records import OnDropped
from memory_actors.base.on import On
from memory_actors.base.records import AsOf
from memory_actors.base.reports import Moment
from memory_actors.sharing.values import decoder


class Invocation(NamedTuple):
    """An operation, the handle that it is called on, and its arguments."""

    name: str
    on: On = On()
    args: Sequence[object] = ()
    kwargs: Mapping[str, object] = MappingProxyType({})


class Caller(Protocol):
    """Carries out operations somewhere else."""

    async def call(self, invocation: Invocation) -> Any:
        """Carry out an operation, and return its result."""

    def iterate(self, invocation: Invocation) -> AsyncIterator[object]:
        """Yield what an operation does."""

    def at_once(self, invocation: Invocation) -> Any:
        """Carry out an operation that is not awaited, and return its result."""

    async def replay(self, on: On, as_of: AsOf, dropped: OnDropped) -> tuple[On, Moment, int]:
        """Open a replay of a user; return its handle, its moment, and how much of then is lost."""

    async def end_replay(self, on: On) -> None:
        """Let go of a replay."""

    def watch_erasures(self, forget: Callable[[str], object]) -> None:
        """Have a function called when a user is erased."""

    async def close(self) -> None:
        """End the connection."""


class How(Enum):
    """The way in which a caller gets a result."""

    AWAITED = "awaited"
    ITERATED = "iterated"
    AT_ONCE = "at once"
    """Not awaited: the caller waits for the answer."""


AWAITED: Final = How.AWAITED
ITERATED: Final = How.ITERATED
AT_ONCE: Final = How.AT_ONCE
TYPE_PREFIX: Final = "urn:problem-type:memory-actors:"
"""The beginning of the type of every problem of a server."""


class Problem(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Problem details of RFC 9457; what is below `instance` comes with a quota error."""

    type: str
    """The kind of problem: a name to compare with, not an address."""
    title: str
    status: int
    detail: str
    instance: str
    """Names this one occurrence, here and in the server's log."""
    kind: str | None = None
    used: int | None = None
    limit: int | None = None
    unit: str | None = None
    tier: str | None = None


class Declared(NamedTuple):
    """An operation."""

    how: How
    result: object
    """The type of its result, or of each item."""
    takes: Callable[..., object]
    """A function that has the same parameters and the same plain defaults, and does nothing."""
    path: tuple[int, str] | None = None
    """The parameter that is a path, by place and name: a relative one is the caller's."""
    doc: str = ""
    """The docstring of the method."""
    types: Mapping[str, str] = MappingProxyType({})
    """The types of its parameters and of its result, as people write them."""

    @property
    def decoded(self) -> Callable[[bytes], object]:
        """Read a result."""
        return decoder(self.result)


class Offered(NamedTuple):
    """A route of a server that carries out an operation."""

    method: str
    path: str
    """With the names of those arguments that are parts of it."""
    given: Mapping[str, str]
    """The arguments that it takes besides, and the names that it has for them."""
    in_body: bool
    """True: they are a JSON object in the body. False: they are in the query."""
    within: str | None
    """The field of the answer that is the result; None: the answer is."""
    reads: bool
    """It changes nothing, so it may be asked for again."""
