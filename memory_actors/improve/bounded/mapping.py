"""A dictionary that never holds more than it may."""

from collections.abc import (
    Callable,
    Hashable,
    ItemsView,
    Iterator,
    Mapping,
    MutableMapping,
    ValuesView,
)
from types import MappingProxyType
from typing import TypeVar

from memory_actors.improve.bounded.eviction import Eviction
from memory_actors.improve.bounded.marker import Marker
from memory_actors.improve.bounded.store import Bounded, Rules, Store

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class BoundedDict(Bounded[K, V], MutableMapping[K, V]):
    """Values by key, in the order in which they were set, with a limit to the sum of their sizes.

    As `BoundedList`, where that has places; `size_fn` and the others are given values, keys count
    for nothing, and `on_evict` gets key and value. Setting a key again makes it the newest: the old
    value goes without being evicted. Reading a value by its key counts as a use (`dict(...)` reads
    each); iterating, comparing, `items()` and `values()` do not.

    :raises InvalidInputError: `max_size` is not above 0, or the eviction makes no sense.
    """

    def __init__(
        self,
        max_size: int,
        size_fn: Callable[[V], int] = len,  # type: ignore[assignment]  # unsized values need theirs
        *,
        eviction: Eviction | str = Eviction.FIFO,
        is_error: Callable[[V], bool] | None = None,
        text_fn: Callable[[V], str | None] | None = None,
        on_evict: Callable[[K, V], object] | None = None,
    ):
        rules = Rules(max_size, size_fn, eviction, is_error, text_fn)
        self._store: Store[K, V] = Store(rules, on_evict)

    def __setitem__(self, key: K, value: V) -> None:
        """Set a value; it is the newest then.

        :raises InvalidInputError: it is larger than the limit; what was there stays.
        """
        self._store.put(key, value)

    def __getitem__(self, key: K) -> V:
        return self._store.use(key)

    def __delitem__(self, key: K) -> None:
        if key not in self._store.items:
            raise KeyError(key)
        self._store.remove(key)

    def __contains__(self, key: object) -> bool:
        return key in self._store.items  # without being a use

    def __iter__(self) -> Iterator[K]:
        return iter(self._store.items)

    def items(self) -> ItemsView[K, V]:
        """Return a view of keys and values; looking at them is no use."""
        return self._store.items.items()

    def values(self) -> ValuesView[V]:
        """Return a view of the values; looking at them is no use."""
        return self._store.items.values()

    def __len__(self) -> int:
        return len(self._store.items)

    def __repr__(self) -> str:
        return f"BoundedDict({dict(self._store.items)!r}, max_size={self.max_size})"

    @property
    def markers(self) -> Mapping[K, Marker]:
        """What large values left behind that were evicted, oldest first. A view."""
        return MappingProxyType(self._store.markers)
