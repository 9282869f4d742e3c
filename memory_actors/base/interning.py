"""Names by number, in one buffer: words, memories, sessions, speakers.

A name of ten letters takes some 25 bytes: its letters, where they end, its place in a table. A list
and a dictionary of strings take 250. Names are only added, and keep their numbers for ever.

The table is one of open addressing: a name's number is in the first free place from its hash on.
Python salts its hashes, so that nobody can choose names that meet, and the table is not written.
"""

import threading
from array import array
from collections.abc import Callable, Iterable, Iterator
from typing import Final, Self

import numpy as np
import numpy.typing as npt

_PLACES_MIN: Final = 8
_FREE: Final = 0
_FULL: Final = 2 / 3  # of the places: from here on the next free one is far

Ends = npt.NDArray[np.uint32]


class Names:
    """Names by number. Written on the loop; found and read from any thread."""

    def __init__(self) -> None:
        self._letters = bytearray()  # UTF-8
        self._ends = array("I")
        self._table = array("I", bytes(4 * _PLACES_MIN))
        """Number + 1 in each place. It is empty until a restored name is first looked for."""
        self._making = threading.Lock()

    @classmethod
    def of_bytes(cls, letters: bytes, ends: bytes) -> Self:
        """Return names as `letters` and `ends` gave them: the ends are uint32.

        :raises ValueError: they do not fit each other.
        """
        names = cls()
        names._letters += letters
        names._ends.frombytes(ends)
        numbers = np.frombuffer(ends, np.uint32)
        last = int(numbers[-1]) if len(numbers) else 0
        if last != len(letters) or not (numbers[1:] >= numbers[:-1]).all():
            raise ValueError("the letters of names do not fit their ends: build them anew")
        names._table = array("I")
        return names

    @classmethod
    def listed(cls, names: Iterable[str]) -> Self:
        """Return different names, numbered as they come."""
        data = [name.encode() for name in names]
        ends = np.cumsum([len(one) for one in data], dtype=np.uint32)
        return cls.of_bytes(b"".join(data), ends.tobytes())

    def __iter__(self) -> Iterator[str]:
        return map(self.__getitem__, range(len(self)))

    def saved(self) -> tuple[bytes, bytes]:
        """Return what `of_bytes` takes. From any thread: names may come meanwhile."""
        ends = self._ends.tobytes()
        count = int(np.frombuffer(ends, np.uint32)[-1]) if ends else 0
        return bytes(self._letters[:count]), ends

    @property
    def size_bytes(self) -> int:
        """Memory held."""
        return len(self._letters) + 4 * (len(self._ends) + len(self._table))

    def __len__(self) -> int:
        return len(self._ends)

    def __getitem__(self, number: int) -> str:
        start = self._ends[number - 1] if number else 0
        return bytes(self._letters[start : self._ends[number]]).decode()

    def of(self, name: str) -> int:
        """Return the number of a name, a new one if need be."""
        data = name.encode()
        place, number = self._place(data)
        if number is not None:
            return number
        number = len(self._ends)
        self._letters += data
        self._ends.append(len(self._letters))
        self._table[place] = number + 1  # last: a search may look from another thread
        if len(self._ends) > _FULL * len(self._table):
            self._make_table()
        return number

    def find(self, name: str) -> int | None:
        """Return the number of a name, None if it has none."""
        return self._place(name.encode())[1]

    def _place(self, data: bytes) -> tuple[int, int | None]:
        if not self._table:
            with self._making:  # a table that another thread made has newer names, too
                if not self._table:
                    self._make_table()
        return probed(self._table, data, self._is_at)

    def _is_at(self, number: int, data: bytes) -> bool:
        start = self._ends[number - 1] if number else 0
        same_length = self._ends[number] - start == len(data)
        return same_length and self._letters.startswith(data, start)

    def _make_table(self) -> None:
        letters, ends = bytes(self._letters), np.frombuffer(self._ends.tobytes(), np.uint32)
        hashes = hashes_of(letters, np.append(np.uint32(0), ends[:-1])[: len(ends)], ends)
        self._table = addressed(hashes, places_for(len(hashes)))


# --- open addressing


def places_for(count: int) -> int:
    """Return the size of a table for so many names, with room for half as many again."""
    size = _PLACES_MIN
    while count > _FULL * size / 1.5:
        size *= 2
    return size


def hashes_of(data: bytes, begins: Ends, ends: Ends) -> npt.NDArray[np.int64]:
    """Return the hashes of names that lie in some bytes."""
    sizes = ends - begins
    hashes = np.empty(len(sizes), np.int64)
    for size in set(sizes.tolist()):  # at once: slices take twice as long
        some, name = np.flatnonzero(sizes == size), np.dtype((np.void, size))
        every = np.ndarray((len(data) - size + 1,), name, data, strides=(1,))
        names = every.take(begins[some], mode="clip").tolist()
        hashes[some] = np.fromiter(map(hash, names), np.int64, len(some))
    return hashes


def addressed(hashes: npt.NDArray[np.int64], size: int) -> "array[int]":
    """Return a table with every number + 1 in the first free place from its hash on."""
    table = np.full(size, _FREE, np.uint32)
    left, places = np.arange(1, len(hashes) + 1, dtype=np.uint32), hashes & (size - 1)
    while len(left):
        free = table[places] == _FREE
        table[places[free]] = left[free]  # of several one stays, and the others go on
        waiting = table[places] != left
        left, places = left[waiting], (places[waiting] + 1) & (size - 1)
    return array("I", table.tobytes())


def probed(
    table: "array[int]", name: bytes, is_at: Callable[[int, bytes], bool]
) -> tuple[int, int | None]:
    """Return the place of a name in a table and its number, or a free place and None.

    `is_at(number, name)` says whether the name is the one with a number.
    """
    mask = len(table) - 1
    place = hash(name) & mask
    while (held := table[place]) != _FREE:
        if is_at(held - 1, name):
            return place, held - 1
        place = (place + 1) & mask
    return place, None
