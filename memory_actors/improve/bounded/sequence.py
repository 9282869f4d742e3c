"""A list that never holds more than it may."""

import heapq
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any, TypeVar

from memory_actors.improve.bounded.eviction import Eviction
from memory_actors.improve.bounded.marker import Marker
from memory_actors.improve.bounded.store import Bounded, Rules, Store

T = TypeVar("T")


class BoundedList(Bounded[int, T]):
    """Items in the order in which they were added, with a limit to the sum of their sizes.

    `size_fn` gives the size of an item (an empty one counts as 1); for a limit by count give
    `lambda _: 1`. Adding, evicting and both ends take constant time, other places their distance
    from the nearer end. `eviction` says who makes room for a new item; `is_error` is for
    `keep_first_last_errors`. An evicted item of size 1,024 or more whose text is known (`text_fn`;
    a `str` is its own) leaves a `Marker`, which counts for some of the size. `on_evict` gets each
    evicted item, after the new one was added; what it raises is logged. For one thread.

    :raises InvalidInputError: `max_size` is not above 0, or the eviction makes no sense.
    """

    def __init__(
        self,
        max_size: int,
        size_fn: Callable[[T], int] = len,  # type: ignore[assignment]  # unsized items need theirs
        *,
        eviction: Eviction | str = Eviction.FIFO,
        is_error: Callable[[T], bool] | None = None,
        text_fn: Callable[[T], str | None] | None = None,
        on_evict: Callable[[T], object] | None = None,
    ):
        rules = Rules(max_size, size_fn, eviction, is_error, text_fn)
        hook = None if on_evict is None else lambda _number, item: on_evict(item)
        self._store: Store[int, T] = Store(rules, hook)
        self._next = 0

    # --- change

    def append(self, item: T) -> None:
        """Add an item at the end.

        :raises InvalidInputError: it is larger than the limit.
        """
        self._next += 1  # first: a hook of this eviction may add as well
        self._store.put(self._next, item)

    def extend(self, items: Iterable[T]) -> None:
        """Add items at the end, one after the other.

        :raises InvalidInputError: one is larger than the limit; those before it were added.
        """
        for item in items:
            self.append(item)

    # --- read

    def __len__(self) -> int:
        return len(self._store.items)

    def __iter__(self) -> Iterator[T]:
        return iter(self._store.items.values())

    def __reversed__(self) -> Iterator[T]:
        return reversed(self._store.items.values())

    def __contains__(self, item: object) -> bool:
        return any(one == item for one in self)

    def __getitem__(self, index: int) -> T:
        """Return the item at a place; that counts as a use of it."""
        count, keys = len(self), self._store.items
        place = index if index >= 0 else index + count
        if not 0 <= place < count:
            raise IndexError(f"there are {count} items: no place {index}")
        near_end = place >= count // 2
        ahead = islice(reversed(keys), count - 1 - place, None) if near_end else None
        return self._store.use(next(ahead if ahead is not None else islice(keys, place, None)))

    def __repr__(self) -> str:
        return f"BoundedList({list(self)!r}, max_size={self.max_size})"

    def entries(self) -> list[T | Marker]:
        """Return the items, and markers in the places of those that left one."""
        both: Iterable[tuple[int, Any]] = heapq.merge(
            self._store.items.items(), sorted(self._store.markers.items()), key=lambda one: one[0]
        )
        return [entry for _, entry in both]
