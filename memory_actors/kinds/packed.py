"""Rows by id, most of them as bytes: a row takes what a snapshot has of it and a place in a table.

One byte string holds the rows in the order of their texts' versions, and each is decoded on access,
in a microsecond. A persistent map beside it has the rows that changed since. Snapshots have this
byte string. A row is found by its id, its first field, through a table of open addressing, and by a
key that several rows may share, as duplicates do.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from itertools import chain
from typing import Any, Final, Generic, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt
from immutables import Map

from memory_actors.base.interning import addressed, hashes_of, places_for, probed
from memory_actors.kinds.rows import Row

R = TypeVar("R", bound=Row)

NO_KEY: Final = 0
CHANGED_BYTES: Final = 900  # measured: a row with a small metadata dict, its place in a map
_UNCHANGED: Final[Any] = object()
_FEW_FIELDS: Final = 16  # of an array in MessagePack whose header is one byte, and not three
_LETTERS_FEW: Final = 0x1F
_LENGTH_OF_BYTE, _LENGTH_OF_TWO = 0xD9, 0xDA

_encode = msgspec.msgpack.Encoder().encode


class Packed(msgspec.Struct, frozen=True):
    """Rows as bytes, in the order of their texts' versions, then of their ids."""

    rows: bytes = b""
    """MessagePack, one behind another."""
    ends: bytes = b""
    """uint32 a row."""
    keys: bytes = b""
    """uint64 a row."""


class Form(Generic[R]):
    """The type of some rows, and what key a row has; `NO_KEY` for none."""

    def __init__(self, row: type[R], key: Callable[[R], int]):
        self.decode = msgspec.msgpack.Decoder(row).decode
        self.key = key
        self.head_bytes = 1 if len(row.__struct_fields__) < _FEW_FIELDS else 3
        self.nothing = _Base(self, Packed())


class _Base(Generic[R]):
    """Rows as bytes, with the ways to them. Never changes."""

    def __init__(self, form: Form[R], packed: Packed):
        self.packed = packed
        self._decode = form.decode
        self._rows, self._data = packed.rows, memoryview(packed.rows)
        self.ends = np.frombuffer(packed.ends, np.uint32)
        self.keys = np.frombuffer(packed.keys, np.uint64)
        self.count = len(self.ends)
        starts = np.append(np.uint32(0), self.ends)[:-1]
        begins, ends = _ids_in(self._rows, starts + np.uint32(form.head_bytes))
        # One number of a view is an int; one of an array is an object, to be made an int of.
        self._ends, self._ids, self._id_ends = self.ends.data, begins.data, ends.data
        self._table = addressed(hashes_of(self._rows, begins, ends), places_for(self.count))

    @property
    def size_bytes(self) -> int:
        columns = (self._ends, self.keys, self._ids, self._id_ends)
        tables = 4 * (self.count + len(self._table))
        return len(self._rows) + sum(column.nbytes for column in columns) + tables

    @cached_property
    def _by_key(self) -> npt.NDArray[np.int32]:
        """The rows in the order of their keys: no search wants it."""
        return np.argsort(self.keys).astype(np.int32)

    def start(self, number: int) -> int:
        return self._ends[number - 1] if number else 0

    def at(self, number: int) -> R:
        row: R = self._decode(self._data[self.start(number) : self._ends[number]])
        return row

    def every(self) -> Iterator[R]:
        data, begin = self._data, 0
        for end in self.ends.tolist():
            yield self._decode(data[begin:end])
            begin = end

    def place(self, number: int) -> tuple[int, str]:
        row = self.at(number)
        return row.version, row.memory_id

    def id_at(self, number: int) -> bytes:
        return self._rows[self._ids[number] : self._id_ends[number]]

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
    data = [_encode(row) for row in fresh]
    cuts = [*((place, one, 0) for place, one in zip(places, data, strict=True))]
    cuts = sorted([*cuts, *((number, b"", 1) for number in gone)], key=lambda cut: cut[::2])
    pieces: list[bytes | memoryview] = []
    at, rows = 0, memoryview(base.packed.rows)
    for place, one, skipped in cuts:
        pieces += [rows[base.start(at) : base.start(place)], one]
        at = place + skipped
    pieces.append(rows[base.start(at) :])
    kept = np.ones(base.count, np.bool_)
    kept[gone] = False
    kept = np.insert(kept, places, True)
    sizes = np.diff(base.ends, prepend=np.uint32(0))
    sizes = np.insert(sizes, places, [len(one) for one in data])[kept]
    keys = np.insert(base.keys, places, np.array([form.key(row) for row in fresh], np.uint64))
    ends = np.cumsum(sizes, dtype=np.uint32)
    return Packed(b"".join(pieces), ends.tobytes(), keys[kept].tobytes())


Offsets = npt.NDArray[np.uint32]


def _ids_in(rows: bytes, at: Offsets) -> tuple[Offsets, Offsets]:
    """Return where strings of MessagePack that begin at some places have their letters."""
    data = np.frombuffer(rows, np.uint8)
    tags, first, second = (data.take(at + place, mode="clip") for place in range(3))
    of_two = first.astype(np.uint32) * 256 + second
    lengths = np.where(tags == _LENGTH_OF_BYTE, first, tags & _LETTERS_FEW).astype(np.uint32)
    lengths = np.where(tags == _LENGTH_OF_TWO, of_two, lengths)
    header = 1 + (tags == _LENGTH_OF_BYTE) + 2 * (tags == _LENGTH_OF_TWO)
    begins = (at + header).astype(np.uint32)
    return begins, begins + lengths
