"""Which entry leaves: three orders, each constant time.

Each keeps keys in linked lists (`OrderedDict`: unlike that of a plain `dict`, its beginning is
found in constant time after any number of deletions). A key is `expendable`, or leaves only as a
`last_resort`, when nothing expendable is left; the newest never leaves.
"""

from collections import OrderedDict
from collections.abc import Hashable
from enum import StrEnum
from itertools import islice
from typing import Generic, Protocol, TypeVar

K = TypeVar("K", bound=Hashable)


class Eviction(StrEnum):
    """Who leaves first when there is no room."""

    FIFO = "fifo"
    """What was added first."""
    LEAST_RECENTLY_USED = "least_recently_used"
    """What was neither added nor read for the longest time."""
    KEEP_FIRST_LAST_ERRORS = "keep_first_last_errors"
    """The oldest of what lies between the first and the last and is no error; when all of that has
    gone, the oldest error; then the first. For histories."""


class Order(Protocol[K]):
    """The keys of a collection, in the order in which they would leave."""

    def add(self, key: K, *, error: bool) -> None:
        """Take a new key: it is the newest."""
        ...

    def use(self, key: K) -> None:
        """Take note that an entry was read."""
        ...

    def remove(self, key: K) -> None:
        """Forget a key."""
        ...

    def expendable(self) -> list[K]:
        """Return the key that leaves next; none if all that are left are protected."""
        ...

    def last_resort(self) -> list[K]:
        """Return the protected key that leaves if it must be; none if nothing is protected."""
        ...


class Fifo(Generic[K]):
    """First in, first out. Protects nothing."""

    def __init__(self) -> None:
        self._keys: OrderedDict[K, None] = OrderedDict()

    def add(self, key: K, *, error: bool) -> None:  # noqa: ARG002 - all are alike
        """Take a new key."""
        self._keys[key] = None

    def use(self, key: K) -> None:
        """Do nothing: reading does not count."""

    def remove(self, key: K) -> None:
        """Forget a key."""
        del self._keys[key]

    def expendable(self) -> list[K]:
        """Return the oldest."""
        return list(islice(self._keys, 1))

    def last_resort(self) -> list[K]:
        """Return nothing: nothing is protected."""
        return []


class LeastRecentlyUsed(Fifo[K]):
    """Whatever was read is as good as new."""

    def use(self, key: K) -> None:
        """Put a key behind all others."""
        self._keys.move_to_end(key)


class KeepFirstLastErrors(Generic[K]):
    """Protects the first, the last and the errors."""

    def __init__(self) -> None:
        self._all: OrderedDict[K, None] = OrderedDict()
        self._plain: OrderedDict[K, None] = OrderedDict()
        self._errors: OrderedDict[K, None] = OrderedDict()

    def add(self, key: K, *, error: bool) -> None:
        """Take a new key: it is the last now, and the last before it only what it is itself."""
        self._all[key] = None
        (self._errors if error else self._plain)[key] = None

    def use(self, key: K) -> None:
        """Do nothing: reading does not count."""

    def remove(self, key: K) -> None:
        """Forget a key. If it was the first, the oldest of the others takes its place."""
        del self._all[key]
        self._plain.pop(key, None)
        self._errors.pop(key, None)

    def expendable(self) -> list[K]:
        """Return the oldest that is neither an error, nor the first, nor the last."""
        return self._oldest_between(self._plain)

    def last_resort(self) -> list[K]:
        """Return the oldest error in between, or else the first."""
        return self._oldest_between(self._errors) or list(islice(self._all, 1))

    def _oldest_between(self, keys: OrderedDict[K, None]) -> list[K]:
        ends = (*islice(self._all, 1), *islice(reversed(self._all), 1))
        return [key for key in islice(keys, 3) if key not in ends][:1]


def order_of(eviction: Eviction) -> Order[K]:
    """Return the order of an empty collection."""
    if eviction is Eviction.KEEP_FIRST_LAST_ERRORS:
        return KeepFirstLastErrors()
    return LeastRecentlyUsed() if eviction is Eviction.LEAST_RECENTLY_USED else Fifo()
