"""Rows by id, most of them as bytes: a row takes what a snapshot has of it and a place in a table.

One byte string holds the rows in the order of their texts' versions, and each is decoded on access,
in a microsecond. A persistent map beside it has the rows that changed since. Snapshots have this
byte string, compressed in pieces, and a piece is decompressed when one of its rows is first read. A
row is found by its id, through a table of open addressing, and by a key that several rows may
share, as duplicates do.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from itertools import chain, repeat
from typing import Any, Final, Generic, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt
from immutables import Map

from memory_actors.base.compressing import Pieces
from memory_actors.base.interning import addressed, hashes_of, places_for, probed
from memory_actors.kinds.rows import Row

R = TypeVar("R", bound=Row)

NO_KEY: Final = 0
CHANGED_BYTES: Final = 900  # measured: a row with a small metadata dict, its place in a map
_UNCHANGED: Final[Any] = object()

_encode = msgspec.msgpack.Encoder().encode


class Packed(msgspec.Struct, frozen=True):
    """Rows as bytes, in the order of their texts' versions, then of their ids."""

    rows: bytes = b""
    """MessagePack, one row after another; `Pieces` in a snapshot that was loaded."""
    ends: bytes = b""
    """uint32 a row."""
    ids: bytes = b""
    """UTF-8, one behind another."""
    id_ends: bytes = b""
    """uint32 a row."""
    keys: bytes = b""
    """uint64 a row."""


class Form(Generic[R]):
    """The type of some rows, and what key a row has; `NO_KEY` for none."""

    def __init__(self, row: type[R], key: Callable[[R], int]):
        self.decode = msgspec.msgpack.Decoder(row).decode
        self.key = key
        self.nothing = _Base(self, Packed())


class _Base(Generic[R]):
    """Rows as bytes, with the ways to them. Never changes."""

    def __init__(self, form: Form[R], packed: Packed):
        self._packed = packed
        self._decode = form.decode
        rows: Any = packed.rows
        self._rows = rows if isinstance(rows, Pieces) else memoryview(rows)
        self.ends = np.frombuffer(packed.ends, np.uint32)
        self.id_ends = np.frombuffer(packed.id_ends, np.uint32)
        self.keys = np.frombuffer(packed.keys, np.uint64)
        self.count = len(self.ends)
        # One number of a view is an int; one of an array is an object, to be made an int of.
        self._ends, self._id_ends = self.ends.data, self.id_ends.data
        starts = np.append(np.uint32(0), self.id_ends)[:-1]
        self._table = addressed(hashes_of(packed.ids, starts, self.id_ends), places_for(self.count))

    @property
    def packed(self) -> Packed:
        if not isinstance(self._rows, Pieces):
            return self._packed
        return msgspec.structs.replace(self._packed, rows=bytes(self._rows))

    @property
    def size_bytes(self) -> int:
        rows = self._rows.size_bytes if isinstance(self._rows, Pieces) else len(self._rows)
        columns = (self.ends, self.keys, self.id_ends)
        tables = 4 * (self.count + len(self._table))
        return rows + len(self._packed.ids) + sum(column.nbytes for column in columns) + tables

    @cached_property
    def _by_key(self) -> npt.NDArray[np.int32]:
        """The rows in the order of their keys: no search wants it."""
        return np.argsort(self.keys).astype(np.int32)

    def at(self, number: int) -> R:
        start = self._ends[number - 1] if number else 0
        row: R = self._decode(self._rows[start : self._ends[number]])
        return row

    def every(self) -> Iterator[R]:
        data, begin = self._rows, 0
        for end in self.ends.tolist():
            yield self._decode(data[begin:end])
            begin = end

    def place(self, number: int) -> tuple[int, str]:
        row = self.at(number)
        return row.version, row.memory_id

    def id_at(self, number: int) -> bytes:
        start = self._id_ends[number - 1] if number else 0
        return self._packed.ids[start : self._id_ends[number]]

    def number_of(self, memory_id: str) -> int | None:
        if not self.count:
            return None
        return probed(self._table, memory_id.encode(), lambda at, name: self.id_at(at) == name)[1]

    def has(self, memory_id: str) -> bool:
        return self.number_of(memory_id) is not None

    def get(self, memory_id: str) -> R | None:
        number = self.number_of(memory_id)
        return None if number is None else self.at(number)

    def with_key(self, key: int) -> list[str]:
        first = self.keys.searchsorted(np.uint64(key), sorter=self._by_key)
        if first == self.count or self.keys[self._by_key[first]] != key:
            return []
        behind = self.keys.searchsorted(np.uint64(key), "right", sorter=self._by_key)
        return [self.id_at(number).decode() for number in self._by_key[first:behind].tolist()]


class PackedRows(Mapping[str, R]):
    """Living rows by id. Never changes: `mutate` begins the next one."""

    __slots__ = ("_base", "_form", "_keys", "_len", "changes")

    def __init__(
        self,
        form: Form[R],
        base: _Base[R] | None = None,
        changes: "Map[str, R | None] | None" = None,
        keys: "Map[int, tuple[str, ...]] | None" = None,
        count: int = 0,
    ):
        self._form = form
        self._base = form.nothing if base is None else base
        self.changes = Map[str, R | None]() if changes is None else changes
        """The rows that are not as in the base, by id; None: it has gone."""
        self._keys = keys
        """The ids of changed rows by their key; None until somebody asks: a replay never does."""
        self._len = count

    @classmethod
    def unpacked(cls, form: Form[R], packed: Packed) -> "PackedRows[R]":
        """Return rows that were packed."""
        base = _Base(form, packed)
        return cls(form, base, count=base.count)

    def __len__(self) -> int:
        return self._len

    def __getitem__(self, memory_id: str) -> R:
        row: R | None = self.get(memory_id)
        if row is None:
            raise KeyError(memory_id)
        return row

    def get(self, memory_id: str, default: object = None) -> Any:
        """Return a row by its id, None if it is not there."""
        row: R | None = self.changes.get(memory_id, _UNCHANGED)
        if row is _UNCHANGED:
            row = self._base.get(memory_id)
        return default if row is None else row

    def __contains__(self, memory_id: object) -> bool:
        return isinstance(memory_id, str) and self.get(memory_id) is not None

    def __iter__(self) -> Iterator[str]:
        ids = (self._base.id_at(number).decode() for number in range(self._base.count))
        yield from (memory_id for memory_id in ids if memory_id not in self.changes)
        yield from (memory_id for memory_id, row in self.changes.items() if row is not None)

    def values(self) -> Any:
        """Return the rows, in no order that means anything. Each is decoded, once."""
        if not self.changes:
            return self._base.every()
        kept = (row for row in self._base.every() if row.memory_id not in self.changes)
        return chain(kept, (row for row in self.changes.values() if row is not None))

    def with_key(self, key: int) -> list[str]:
        """Return the ids of the rows that have a key, in order."""
        if self._keys is None:
            self._keys = self._keyed()
        found = [one for one in self._base.with_key(key) if one not in self.changes]
        return sorted([*found, *self._keys.get(key, ())])

    def _keyed(self) -> "Map[int, tuple[str, ...]]":
        ids: dict[int, tuple[str, ...]] = {}
        for memory_id, row in self.changes.items():
            if row is not None and (key := self._form.key(row)) != NO_KEY:
                ids[key] = (*ids.get(key, ()), memory_id)
        return Map(ids)

    @property
    def changed(self) -> int:
        """The number of rows that are not in one piece with the others."""
        return len(self.changes)

    @property
    def size_bytes(self) -> int:
        """Memory held, roughly."""
        return self._base.size_bytes + CHANGED_BYTES * self.changed

    def mutate(self) -> "RowsMutation[R]":
        """Return a copy that changes in place."""
        return RowsMutation(self._form, self._base, self.changes, self._keys, self._len)

    def packed(self) -> Packed:
        """Return all rows as bytes: the same ones for the same rows."""
        if not self.changes:
            return self._base.packed
        fresh = sorted(filter(None, self.changes.values()), key=_place)
        found = (self._base.number_of(memory_id) for memory_id in self.changes)
        gone = sorted(number for number in found if number is not None)
        return _merged(self._form, self._base, fresh, gone)

    def in_one_piece(self) -> "PackedRows[R]":
        """Return the same rows, all of them packed. Slow: for a thread."""
        return PackedRows.unpacked(self._form, self.packed()) if self.changes else self

    def over(self, then: "PackedRows[R]", packed: "PackedRows[R]") -> "PackedRows[R]":
        """Return these rows as changes of `packed`, which are those that there were `then`."""
        if self._base is not then._base:  # noqa: SLF001 - of the same class
            return self  # it was made anew meanwhile
        rows = packed.mutate()
        before = then.changes
        for memory_id in before:
            if memory_id not in self and memory_id in packed:
                rows.pop(memory_id)
        for memory_id, row in self.changes.items():
            if row is not None and before.get(memory_id) is not row:
                rows[memory_id] = row
            elif row is None and memory_id in rows:
                rows.pop(memory_id)
        return rows.finish()


class RowsMutation(Generic[R]):
    """Rows that change in place."""

    __slots__ = ("_base", "_changes", "_form", "_is_whole", "_keys", "_len")

    def __init__(self, form: Form[R], base: _Base[R], changes: Any, keys: Any, count: int):
        self._form = form
        self._base = base
        self._changes = changes.mutate()
        self._keys = None if keys is None else keys.mutate()
        self._is_whole = base.count == 0  # as in a replay: the changes are all rows
        self._len = count

    def __contains__(self, memory_id: str) -> bool:
        row = self._changes.get(memory_id, _UNCHANGED)
        return self._base.has(memory_id) if row is _UNCHANGED else row is not None

    def __getitem__(self, memory_id: str) -> R:
        row = self.get(memory_id)
        if row is None:
            raise KeyError(memory_id)
        return row

    def get(self, memory_id: str) -> R | None:
        """Return a row by its id, None if it is not there."""
        row: R | None = self._changes.get(memory_id, None if self._is_whole else _UNCHANGED)
        return self._base.get(memory_id) if row is _UNCHANGED else row

    def __setitem__(self, memory_id: str, row: R) -> None:
        before = self._changes.get(memory_id, _UNCHANGED)
        if before is _UNCHANGED:
            self._len += self._is_whole or not self._base.has(memory_id)
        elif before is None:
            self._len += 1
        else:
            self._forget(before)
        self._changes[memory_id] = row
        if self._keys is not None and (key := self._form.key(row)) != NO_KEY:
            self._keys[key] = (*self._keys.get(key, ()), memory_id)

    def pop(self, memory_id: str, *default: None) -> Any:
        """Take a row away and return it; the default, if there is one, in the place of none."""
        row = self._changes.get(memory_id, _UNCHANGED)
        is_changed = row is not _UNCHANGED
        row = row if is_changed else self._base.get(memory_id)
        if row is None:
            if default:
                return None
            raise KeyError(memory_id)
        if is_changed:
            self._forget(row)
        if self._base.has(memory_id):
            self._changes[memory_id] = None
        else:
            del self._changes[memory_id]
        self._len -= 1
        return row

    def _forget(self, row: R) -> None:
        if self._keys is None or (key := self._form.key(row)) == NO_KEY:
            return
        left = tuple(one for one in self._keys[key] if one != row.memory_id)
        if left:
            self._keys[key] = left
        else:
            del self._keys[key]

    def finish(self) -> PackedRows[R]:
        """Return the new rows."""
        keys = None if self._keys is None else self._keys.finish()
        return PackedRows(self._form, self._base, self._changes.finish(), keys, self._len)


def _place(row: Row) -> tuple[int, str]:
    return row.version, row.memory_id


def _merged(form: Form[R], base: _Base[R], fresh: list[R], gone: list[int]) -> Packed:
    numbers = range(base.count)
    last = base.place(base.count - 1) if base.count else (-1, "")
    places = [
        base.count if last < _place(row) else bisect_left(numbers, _place(row), key=base.place)
        for row in fresh
    ]
    kept = np.ones(base.count, np.bool_)
    kept[gone] = False
    kept = np.insert(kept, places, True)
    data, ids = [_encode(row) for row in fresh], [row.memory_id.encode() for row in fresh]
    packed = base.packed  # once: it may have to be decompressed
    rows = _spliced(packed.rows, base.ends, places, data, gone, kept)
    names = _spliced(packed.ids, base.id_ends, places, ids, gone, kept)
    keys = np.insert(base.keys, places, np.array([form.key(row) for row in fresh], np.uint64))
    return Packed(*rows, *names, keys[kept].tobytes())


def _spliced(
    data: bytes, ends: npt.NDArray[np.uint32], places: list[int], fresh: list[bytes],
    gone: list[int], kept: npt.NDArray[np.bool_],
) -> tuple[bytes, bytes]:  # fmt: skip
    """Return strings and their ends, with fresh ones in some places and without those that go."""
    starts, view, at = np.append(np.uint32(0), ends), memoryview(data), 0
    cuts = [*zip(places, fresh, repeat(0)), *((number, b"", 1) for number in gone)]
    pieces: list[bytes | memoryview] = []
    for place, one, skipped in sorted(cuts, key=lambda cut: cut[::2]):
        pieces += [view[starts[at] : starts[place]], one]
        at = place + skipped
    pieces.append(view[starts[at] :])
    sizes = np.insert(np.diff(starts), places, [len(one) for one in fresh])[kept]
    return b"".join(pieces), np.cumsum(sizes, dtype=np.uint32).tobytes()
