"""Derived data in fewer bytes."""

import struct
import zlib
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

_LEVEL: Final = 3  # of 9: more takes twice as long, for a twentieth less
_PIECE_BYTES: Final = 1 << 16
_READ_BYTES: Final = 1 << 14  # decompressed in 0.02 ms, and stored in 5 % more than large pieces
_NARROW: Final = struct.Struct("<QqqB?")
"""Of a column: its length, the number before it, the least, the width, and whether of steps."""
_WIDTHS: Final = 0, 1, 2, 4, 8


def compressed(data: bytes) -> bytes:
    """Return MessagePack in fewer bytes. Slow for many: then for a thread."""
    # In pieces: at once zlib has room for twice as much as comes of it, four times at worst.
    compressor, view = zlib.compressobj(_LEVEL), memoryview(data)
    starts = range(0, len(data), _PIECE_BYTES)
    pieces = [compressor.compress(view[start : start + _PIECE_BYTES]) for start in starts]
    return b"".join([*pieces, compressor.flush()])


def decompressed(data: bytes | memoryview) -> bytes:
    """Return what was compressed.

    :raises ValueError: it is damaged.
    """
    try:
        return zlib.decompress(data)
    except zlib.error as error:
        raise ValueError(f"compressed data is damaged: {error}") from error


def compressed_pieces(data: bytes) -> tuple[bytes, ...]:
    """Return data in fewer bytes, in pieces for `Pieces`. Slow for many: then for a thread."""
    starts = range(0, len(data), _READ_BYTES)
    return tuple(zlib.compress(data[start : start + _READ_BYTES], _LEVEL) for start in starts)


class Pieces:
    """Data whose pieces are decompressed when they are first read, and kept."""

    def __init__(self, compressed: Sequence[bytes]):
        self._pieces: list[bytes | memoryview] = list(compressed)
        """Bytes are compressed, a view is not: threads replace one by the other in one step."""

    def __getitem__(self, part: slice) -> bytes | memoryview:
        """Return the bytes of a slice with a start and a stop."""
        first, last = part.start // _READ_BYTES, max(part.stop - 1, part.start) // _READ_BYTES
        begin = first * _READ_BYTES
        pieces = [self._plain(number) for number in range(first, last + 1)]
        data = pieces[0] if first == last else memoryview(b"".join(pieces))
        return data[part.start - begin : part.stop - begin]

    def __bytes__(self) -> bytes:
        return b"".join(map(self._plain, range(len(self._pieces))))

    @property
    def size_bytes(self) -> int:
        """Memory held."""
        return sum(map(len, self._pieces))

    def _plain(self, number: int) -> memoryview:
        piece = self._pieces[number]
        if isinstance(piece, bytes):
            piece = self._pieces[number] = memoryview(decompressed(piece))
        return piece


def narrowed(column: npt.NDArray[Any]) -> bytes:
    """Return whole numbers in as few bytes each as their range takes, or that of their steps."""
    numbers = column.astype(np.int64)
    ways = [_narrowed(numbers, 0, of_steps=False)]
    if len(numbers) > 1:
        before = 2 * numbers[:1] - numbers[1:2]  # the first step is as the second
        steps = np.diff(numbers, prepend=before)
        ways.append(_narrowed(steps, int(before[0]), of_steps=True))
    return min(ways, key=len)


def _narrowed(values: npt.NDArray[np.int64], before: int, *, of_steps: bool) -> bytes:
    least = int(values.min()) if len(values) else 0
    beyond = (values - least).view(np.uint64)
    width = next(one for one in _WIDTHS if int(beyond.max(initial=0)) < 1 << 8 * one)
    data = beyond.astype(f"u{width}").tobytes() if width else b""
    return _NARROW.pack(len(values), before, least, width, of_steps) + data


def widened(data: bytes, kind: npt.DTypeLike) -> npt.NDArray[Any]:
    """Return numbers that were narrowed, as an array of their own; of no bytes none.

    :raises ValueError: they are no such numbers.
    """
    if not data:
        return np.empty(0, kind)
    head = data[: _NARROW.size].ljust(_NARROW.size)
    count, before, least, width, of_steps = _NARROW.unpack(head)
    if width not in _WIDTHS or len(data) != _NARROW.size + count * width:
        raise ValueError("the numbers of a column do not fit its size: build it anew")
    numbers = np.full(count, least, np.int64)
    if width:
        numbers += np.frombuffer(data, f"u{width}", count, _NARROW.size).astype(np.int64)
    if of_steps:
        numbers[:1] += before
        np.cumsum(numbers, out=numbers)
    return numbers.astype(kind, copy=False)
