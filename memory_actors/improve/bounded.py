"""Collections that never hold more than they may: `BoundedList`, `BoundedDict`.

The size of a collection is the sum over its items of `max(1, size_fn(item))`, plus its markers. It
is at most `max_size` at every moment: room is made first, then the item is added. Markers take at
most an eighth of it; the oldest gives way to a new one, and all of them to an item, before anything
that is protected does.

Everything takes constant time: keys are in linked lists (`OrderedDict`: unlike that of a plain
`dict`, its beginning is found in constant time after any number of deletions).
"""

import hashlib
import heapq
from collections import OrderedDict
from collections.abc import (
    Callable,
    Hashable,
    ItemsView,
    Iterable,
    Iterator,
    Mapping,
    MutableMapping,
    ValuesView,
)
from enum import StrEnum
from itertools import islice
from types import MappingProxyType
from typing import Any, Final, Generic, TypeVar

from eventlog.core.logs import get_logger
from eventlog.core.records import Returned
from memory_actors.base.errors import InvalidInputError
from memory_actors.base.privacy import reason
from memory_actors.base.validation import check_choice, check_count

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
T = TypeVar("T")

MARKERS_PART: Final = 8
"""Markers take at most one of so many parts: they are for audits, items are for use."""
LARGE_SIZE_MIN: Final = 1024
"""A marker of a smaller text would not be much smaller than the text."""
SNIPPET_CHARACTERS: Final = 80
_FRAME_SIZE: Final = 64
"""The size of a marker besides its snippet: the digest as hexadecimal."""

_logger = get_logger("memory_actors.improve.bounded")


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


class _Bounded(Generic[K, V]):
    """Items by key, in the order in which they were added, and markers of some that left."""

    def __init__(
        self,
        max_size: int,
        size_fn: Callable[[V], int] = len,  # type: ignore[assignment]  # unsized items need theirs
        *,
        eviction: Eviction | str = Eviction.FIFO,
        is_error: Callable[[V], bool] | None = None,
        text_fn: Callable[[V], str | None] | None = None,
        on_evict: Callable[..., object] | None = None,
    ):
        self._eviction = Eviction(check_choice(eviction, tuple(Eviction), "eviction"))
        if is_error is None and self._protects:
            raise InvalidInputError(f"{self._eviction} needs is_error=, which tells what is one")
        self._max_size = check_count(max_size, "max_size", 1)
        self._size_fn = size_fn
        self._is_error = is_error
        self._text_fn = text_fn
        self._on_evict = on_evict
        self._order: OrderedDict[K, None] = OrderedDict()
        """All keys, also the one that is being added: the next to leave is first."""
        self._plain: OrderedDict[K, None] = OrderedDict()
        self._errors: OrderedDict[K, None] = OrderedDict()
        self._items: OrderedDict[K, V] = OrderedDict()
        self._sizes: dict[K, int] = {}
        self._markers: OrderedDict[K, Marker] = OrderedDict()
        self._markers_size = 0
        self._size = 0
        self._evicted = 0

    def __len__(self) -> int:
        return len(self._items)

    def clear(self) -> None:
        """Remove all that is there, markers too. It counts as removed, not as evicted."""
        for key in [*self._items, *self._markers]:
            self._remove(key)

    @property
    def size(self) -> int:
        """The sizes of all items and markers together: never more than `max_size`."""
        return self._size

    @property
    def max_size(self) -> int:
        """The limit of `size`."""
        return self._max_size

    @property
    def evicted(self) -> int:
        """The number of items that made room for others so far."""
        return self._evicted

    @property
    def _protects(self) -> bool:
        return self._eviction is Eviction.KEEP_FIRST_LAST_ERRORS

    def _put(self, key: K, item: V) -> None:
        """Add an item under a key, behind all others; the one that was there under it goes."""
        given: object = self._size_fn(item)
        if not isinstance(given, int) or isinstance(given, bool) or given < 0:
            raise InvalidInputError(f"size_fn gave {given!r:.80}: a size is a whole number from 0")
        if given > self._max_size:
            raise InvalidInputError(
                f"the item has size {given:,} (max_size: {self._max_size:,}): shorten it, or "
                "raise the limit"
            )
        size = max(1, given)
        error = self._is_error is not None and self._is_error(item)
        self._remove(key)
        self._order[key] = (self._errors if error else self._plain)[key] = None
        gone = list(self._make_room(size))
        self._items[key], self._sizes[key] = item, size
        self._size += size
        for left, evicted in gone:  # last, so that a hook sees a collection that is in order
            self._tell(left, evicted)

    def _use(self, key: K) -> V:
        item = self._items[key]
        if self._eviction is Eviction.LEAST_RECENTLY_USED:
            self._order.move_to_end(key)
        return item

    def _remove(self, key: K) -> None:
        """Take an entry away, or its marker, if there is one. That is no eviction."""
        if key in self._items:
            self._take(key)
        elif key in self._markers:
            self._drop_marker(key)

    def _take(self, key: K) -> V:
        for keys in (self._order, self._plain, self._errors):
            keys.pop(key, None)
        self._size -= self._sizes.pop(key)
        return self._items.pop(key)

    def _make_room(self, wanted: int) -> Iterator[tuple[K, V]]:
        while self._size + wanted > self._max_size:
            first = list(islice(self._order, 1))
            leaving = self._oldest_between(self._plain) if self._protects else first
            if not leaving and not self._markers:
                leaving = self._oldest_between(self._errors) or first
            if leaving and leaving[0] in self._items:
                yield leaving[0], self._evict(leaving[0])
            else:  # all that could go is protected, or the one that comes
                self._drop_marker(next(iter(self._markers)))

    def _oldest_between(self, keys: OrderedDict[K, None]) -> list[K]:
        """Return the oldest of some keys, but for the first and the last of all."""
        ends = (*islice(self._order, 1), *islice(reversed(self._order), 1))
        return [key for key in islice(keys, 3) if key not in ends][:1]

    def _evict(self, key: K) -> V:
        size = self._sizes[key]
        item = self._take(key)
        self._evicted += 1
        text = self._text(item) if size >= LARGE_SIZE_MIN else None
        if text is not None:
            snippet = text[:SNIPPET_CHARACTERS]
            marker = Marker(sha256=sha256(text), snippet=snippet, text_size=size)
            room = self._max_size // MARKERS_PART
            if marker.size <= room:
                while self._markers_size + marker.size > room:
                    self._drop_marker(next(iter(self._markers)))
                self._markers[key] = marker
                self._markers_size += marker.size
                self._size += marker.size
        return item

    def _text(self, item: V) -> str | None:
        if self._text_fn is None:
            return item if isinstance(item, str) else None
        return self._called("an evicted item gave no text", self._text_fn, item)

    def _drop_marker(self, key: K) -> None:
        size = self._markers.pop(key).size
        self._markers_size -= size
        self._size -= size

    def _tell(self, *evicted: object) -> None:
        if self._on_evict is not None:
            self._called("an eviction hook failed", self._on_evict, *evicted)

    def _called(self, failure: str, hook: Callable[..., T], *about: object) -> T | None:
        try:
            return hook(*about)
        except Exception as error:  # whoever added an item is not to blame, and others leave
            _logger.error(failure, error=reason(error))
            return None


class BoundedList(_Bounded[int, V]):
    """Items in the order in which they were added, with a limit to the sum of their sizes.

    `size_fn` gives the size of an item (an empty one counts as 1); for a limit by count give
    `lambda _: 1`. Adding, evicting and both ends take constant time, other places their distance
    from the nearer end. `eviction` says who makes room for a new item; `is_error` is for
    `keep_first_last_errors`. An evicted item of size 1,024 or more whose text is known (`text_fn`;
    a `str` is its own) leaves a `Marker`, which counts for some of the size. `on_evict` gets each
    evicted item, after the new one was added; what it raises is logged. For one thread.

    :raises InvalidInputError: `max_size` is not above 0, or the eviction makes no sense.
    """

    _next = 0

    # --- change

    def append(self, item: V) -> None:
        """Add an item at the end.

        :raises InvalidInputError: it is larger than the limit.
        """
        self._next += 1  # first: a hook of this eviction may add as well
        self._put(self._next, item)

    def extend(self, items: Iterable[V]) -> None:
        """Add items at the end, one after the other.

        :raises InvalidInputError: one is larger than the limit; those before it were added.
        """
        for item in items:
            self.append(item)

    def _tell(self, *evicted: object) -> None:
        super()._tell(evicted[-1])  # without its number

    # --- read

    def __iter__(self) -> Iterator[V]:
        return iter(self._items.values())

    def __reversed__(self) -> Iterator[V]:
        return reversed(self._items.values())

    def __contains__(self, item: object) -> bool:
        return any(one == item for one in self)

    def __getitem__(self, index: int) -> V:
        """Return the item at a place; that counts as a use of it."""
        count, keys = len(self), self._items
        place = index if index >= 0 else index + count
        if not 0 <= place < count:
            raise IndexError(f"there are {count} items: no place {index}")
        near_end = place >= count // 2
        ahead = islice(reversed(keys), count - 1 - place, None) if near_end else None
        return self._use(next(ahead if ahead is not None else islice(keys, place, None)))

    def __repr__(self) -> str:
        return f"BoundedList({list(self)!r}, max_size={self.max_size})"

    def entries(self) -> list[V | Marker]:
        """Return the items, and markers in the places of those that left one."""
        both: Iterable[tuple[int, Any]] = heapq.merge(
            self._items.items(), sorted(self._markers.items()), key=lambda one: one[0]
        )
        return [entry for _, entry in both]


class BoundedDict(_Bounded[K, V], MutableMapping[K, V]):
    """Values by key, in the order in which they were set, with a limit to the sum of their sizes.

    As `BoundedList`, where that has places; `size_fn` and the others are given values, keys count
    for nothing, and `on_evict` gets key and value. Setting a key again makes it the newest: the old
    value goes without being evicted. Reading a value by its key counts as a use (`dict(...)` reads
    each); iterating, comparing, `items()` and `values()` do not.

    :raises InvalidInputError: `max_size` is not above 0, or the eviction makes no sense.
    """

    def __setitem__(self, key: K, value: V) -> None:
        """Set a value; it is the newest then.

        :raises InvalidInputError: it is larger than the limit; what was there stays.
        """
        self._put(key, value)

    def __getitem__(self, key: K) -> V:
        return self._use(key)

    def __delitem__(self, key: K) -> None:
        if key not in self._items:
            raise KeyError(key)
        self._remove(key)

    def __contains__(self, key: object) -> bool:
        return key in self._items  # without being a use

    def __iter__(self) -> Iterator[K]:
        return iter(self._items)

    def items(self) -> ItemsView[K, V]:
        """Return a view of keys and values; looking at them is no use."""
        return self._items.items()

    def values(self) -> ValuesView[V]:
        """Return a view of the values; looking at them is no use."""
        return self._items.values()

    def __repr__(self) -> str:
        return f"BoundedDict({dict(self._items)!r}, max_size={self.max_size})"

    @property
    def markers(self) -> Mapping[K, Marker]:
        """Markers of the large values that were evicted, oldest first. A view."""
        return MappingProxyType(self._markers)
