"""How an operation is called from another process: what declared.py has of each."""

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, Final, NamedTuple

from memory_actors.sharing.values import decoder


class How(Enum):
    """The way in which a caller gets a result."""

    AWAITED = "awaited"
    ITERATED = "iterated"
    AT_ONCE = "at once"
    """Not awaited: the caller waits for the answer."""


AWAITED: Final = How.AWAITED
ITERATED: Final = How.ITERATED
AT_ONCE: Final = How.AT_ONCE


class Declared(NamedTuple):
    """An operation."""

    how: How
    result: Any
    """The type of its result, or of each item."""
    takes: Callable[..., object]
    """A function that has the same parameters and the same plain defaults, and does nothing."""
    path: tuple[int, str] | None = None
    """The parameter that is a path, by place and name: a relative one is the caller's."""

    @property
    def decoded(self) -> Callable[[bytes], Any]:
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
