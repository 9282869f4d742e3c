"""Markers of what has left a bounded collection, and three orders in which entries leave.

Each order takes constant time: it keeps keys in linked lists (`OrderedDict`: unlike that of a plain
`dict`, its beginning is found in constant time after any number of deletions).
"""

import hashlib
from collections import OrderedDict
from collections.abc import Hashable, Mapping
from enum import StrEnum
from itertools import islice
from typing import Any, Final, Generic, TypeVar

from eventlog.core.records import Returned

K = TypeVar("K", bound=Hashable)

SNIPPET_CHARACTERS: Final = 80
_FRAME_SIZE: Final = 64
"""The size of a marker besides its snippet: the digest as hexadecimal."""


class Marker(Returned, frozen=True, kw_only=True):
    """Stands where a large text was: proves what it was, and says what it was about."""

    sha256: str
    """Hex, of the text as UTF-8: it proves what the text was, to one who has it."""
    snippet: str
    """The first 80 characters."""
    text_size: int
    """The size that the item counted for."""

    @property
    def size(self) -> int:
        """The size that the marker itself counts for: at most 384."""
        return _FRAME_SIZE + len(self.snippet.encode(errors="surrogatepass"))


def sha256(text: str) -> str:
    """Return the SHA-256 of a text as hexadecimal."""
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()


class Eviction(StrEnum):
    """The entry that leaves first when there is no room."""

    FIFO = "fifo"
    """The one that was added first."""
    LEAST_RECENTLY_USED = "least_recently_used"
    """The one that was neither added nor read for the longest time."""
    KEEP_FIRST_LAST_ERRORS = "keep_first_last_errors"
    """The oldest of what lies between the first and the last and is no error; when all of that has
    gone, the oldest error; then the first. For histories."""


class FirstInFirstOut(Generic[K]):
    """Keys as they were added. Reading does not count, and nothing is protected."""

    def __init__(self) -> None:
        self._keys: OrderedDict[K, None] = OrderedDict()

    def add(self, key: K, *, error: bool) -> None:  # noqa: ARG002 - all are alike
        """Take a new key: it is the newest."""
        self._keys[key] = None

    def use(self, key: K) -> None:
        """Take note that an entry was read."""

    def remove(self, key: K) -> None:
        """Forget a key."""
        del self._keys[key]

    def expendable(self) -> list[K]:
        """Return the key that leaves next; none if all that are left are protected."""
        return list(islice(self._keys, 1))

    def last_resort(self) -> list[K]:
        """Return the protected key that leaves if it must be; none if nothing is protected."""
        return []


class LeastRecentlyUsed(FirstInFirstOut[K]):
    """Keys as they were added or read."""

    def use(self, key: K) -> None:
        """Put a key behind all others."""
        self._keys.move_to_end(key)


class KeepFirstLastErrors(FirstInFirstOut[K]):
    """Protects the first, the last and the errors. The newest never leaves."""

    def __init__(self) -> None:
        super().__init__()
        self._plain: OrderedDict[K, None] = OrderedDict()
        self._errors: OrderedDict[K, None] = OrderedDict()

    def add(self, key: K, *, error: bool) -> None:
        """Take a new key: it is the last now."""
        super().add(key, error=error)
        (self._errors if error else self._plain)[key] = None

    def remove(self, key: K) -> None:
        """Forget a key. If it was the first, the oldest of the others takes its place."""
        super().remove(key)
        self._plain.pop(key, None)
        self._errors.pop(key, None)

    def expendable(self) -> list[K]:
        """Return the oldest that is neither an error, nor the first, nor the last."""
        return self._oldest_between(self._plain)

    def last_resort(self) -> list[K]:
        """Return the oldest error in between, or else the first."""
        return self._oldest_between(self._errors) or super().expendable()

    def _oldest_between(self, keys: OrderedDict[K, None]) -> list[K]:
        ends = (*islice(self._keys, 1), *islice(reversed(self._keys), 1))
        return [key for key in islice(keys, 3) if key not in ends][:1]


ORDERS: Final[Mapping[Eviction, type[FirstInFirstOut[Any]]]] = {
    Eviction.FIFO: FirstInFirstOut,
    Eviction.LEAST_RECENTLY_USED: LeastRecentlyUsed,
    Eviction.KEEP_FIRST_LAST_ERRORS: KeepFirstLastErrors,
}
