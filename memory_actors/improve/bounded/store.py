"""What a bounded list and a bounded dictionary have in common: entries by key, within a size.

Theory. The size of a collection is the sum over its items of `max(1, size_fn(item))`, taken when an
item is added (an empty one counts as 1, or there could be any number of them), plus its markers.
It is at most `max_size` at every moment: room is made first, then the item is added.

An evicted item that is large leaves a `Marker`. Markers take at most an eighth of the size; the
oldest gives way to a new one, and all of them to an item, before anything that is protected does.
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from typing import Any, Final, Generic, TypeVar

from eventlog.core.logs import get_logger
from memory_actors.base.errors import InvalidInputError
from memory_actors.base.privacy import reason
from memory_actors.improve.bounded.eviction import Eviction, Order, order_of
from memory_actors.improve.bounded.marker import LARGE_SIZE_MIN, Marker, marker

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

MARKERS_PART: Final = 8
"""Markers take at most one of so many parts: they are for audits, items are for use."""

_logger = get_logger("memory_actors.improve.bounded")


class Rules(Generic[V]):
    """How one collection is bounded.

    :raises InvalidInputError: `max_size` is no whole number above 0, an unknown eviction, or errors
        to keep and no way to tell them.
    """

    def __init__(
        self,
        max_size: int,
        size_fn: Callable[[V], int],
        eviction: Eviction | str,
        is_error: Callable[[V], bool] | None,
        text_fn: Callable[[V], str | None] | None,
    ):
        if not isinstance(max_size, int) or isinstance(max_size, bool) or max_size < 1:
            raise InvalidInputError(f"max_size must be a whole number from 1, not {max_size!r:.80}")
        self.max_size = max_size
        self.eviction = _checked(eviction)
        if is_error is None and self.eviction is Eviction.KEEP_FIRST_LAST_ERRORS:
            raise InvalidInputError(f"{self.eviction} needs is_error=, which tells what is one")
        self._size_fn = size_fn
        self._is_error = is_error
        self._text_fn: Callable[[V], str | None] = text_fn or _own_text

    def size(self, item: V) -> int:
        """Return what an item counts for.

        :raises InvalidInputError: more than all items may, less than nothing, or no whole number.
        """
        size: object = self._size_fn(item)
        if not isinstance(size, int) or isinstance(size, bool) or size < 0:
            raise InvalidInputError(f"size_fn gave {size!r:.80}: a size is a whole number from 0")
        if size > self.max_size:
            raise InvalidInputError(
                f"the item has size {size:,} (max_size: {self.max_size:,}): shorten it, or "
                "raise the limit"
            )
        return max(1, size)

    def is_error(self, item: V) -> bool:
        """Tell whether an item is kept because it is an error."""
        return self._is_error is not None and self._is_error(item)

    def marker(self, item: V, size: int) -> Marker | None:
        """Return what an evicted item leaves: something only if it is a large text."""
        text = self._text(item) if size >= LARGE_SIZE_MIN else None
        left = None if text is None else marker(text, size)
        return left if left and left.size <= self.max_size // MARKERS_PART else None

    def _text(self, item: V) -> str | None:
        try:
            return self._text_fn(item)
        except Exception as error:  # the item leaves in any case
            _logger.error("an evicted item gave no text", error=reason(error))
            return None


class Store(Generic[K, V]):
    """Entries by key, in the order in which they were added, and the markers of some that left."""

    def __init__(self, rules: Rules[V], on_evict: Callable[[K, V], object] | None):
        self.rules = rules
        self.items: OrderedDict[K, V] = OrderedDict()
        self.markers: OrderedDict[K, Marker] = OrderedDict()
        self.size = 0
        self.evicted = 0
        self._sizes: dict[K, int] = {}
        self._markers_size = 0
        self._order: Order[K] = order_of(rules.eviction)
        self._on_evict = on_evict

    def put(self, key: K, item: V) -> None:
        """Add an item under a key, behind all others; what was there under it goes first.

        :raises InvalidInputError: it can never fit; nothing has changed.
        """
        size, error = self.rules.size(item), self.rules.is_error(item)
        self.remove(key)
        self._order.add(key, error=error)
        gone = list(self._make_room(size))
        self.items[key], self._sizes[key] = item, size
        self.size += size
        for left, evicted in gone:  # last, so that a hook sees a collection that is in order
            self._tell(left, evicted)

    def use(self, key: K) -> V:
        """Return an item, and take note that it was used.

        :raises KeyError: it is not there.
        """
        item = self.items[key]
        self._order.use(key)
        return item

    def remove(self, key: K) -> None:
        """Take an entry away, or its marker, if there is one. That is no eviction."""
        if key in self.items:
            self._take(key)
        elif key in self.markers:
            self._drop_marker(key)

    def clear(self) -> None:
        """Take everything away. That is no eviction."""
        for key in [*self.items, *self.markers]:
            self.remove(key)

    def _make_room(self, wanted: int) -> Iterator[tuple[K, V]]:
        while self.size + wanted > self.rules.max_size:
            leaving = self._order.expendable()
            if not leaving and not self.markers:
                leaving = self._order.last_resort()
            if leaving and leaving[0] in self.items:
                yield leaving[0], self._evict(leaving[0])
            else:  # all that could go is protected, or the one that comes
                self._drop_marker(next(iter(self.markers)))

    def _evict(self, key: K) -> V:
        size = self._sizes[key]
        item = self._take(key)
        self.evicted += 1
        left = self.rules.marker(item, size)
        if left is not None:
            self._leave(key, left)
        return item

    def _take(self, key: K) -> V:
        self._order.remove(key)
        self.size -= self._sizes.pop(key)
        return self.items.pop(key)

    def _leave(self, key: K, left: Marker) -> None:
        room = self.rules.max_size // MARKERS_PART
        while self._markers_size + left.size > room:
            self._drop_marker(next(iter(self.markers)))
        self.markers[key] = left
        self._markers_size += left.size
        self.size += left.size

    def _drop_marker(self, key: K) -> None:
        size = self.markers.pop(key).size
        self._markers_size -= size
        self.size -= size

    def _tell(self, key: K, item: V) -> None:
        if self._on_evict is None:
            return
        try:
            self._on_evict(key, item)
        except Exception as error:  # whoever added an item is not to blame
            _logger.error("an eviction hook failed", error=reason(error))


class Bounded(Generic[K, V]):
    """What can be asked of every bounded collection."""

    _store: Store[K, V]

    def clear(self) -> None:
        """Remove all that is there, markers too. It counts as removed, not as evicted."""
        self._store.clear()

    @property
    def size(self) -> int:
        """The sizes of all items and markers together: never more than `max_size`."""
        return self._store.size

    @property
    def max_size(self) -> int:
        """The limit."""
        return self._store.rules.max_size

    @property
    def evicted(self) -> int:
        """How many items made room for others so far."""
        return self._store.evicted


def _checked(eviction: Eviction | str) -> Eviction:
    try:
        return Eviction(eviction)
    except ValueError as error:
        known = ", ".join(Eviction)
        raise InvalidInputError(f"unknown eviction {eviction!r:.80}: use one of {known}") from error


def _own_text(item: Any) -> str | None:
    return item if isinstance(item, str) else None
