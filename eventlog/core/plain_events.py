"""Rows of events checked many at a time, where `plain_events.c` is compiled.

A row is plain if its frame has the payload as it was encoded: not compressed, encrypted, archived
or erased. This module only accepts plain rows without a fault: whoever verifies looks at the rest
himself, so that nothing is said of damage here.
"""

import ctypes
import struct
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Final

from eventlog.core import frame
from eventlog.core.compiled import LONG, POINTER, CompiledLibrary
from eventlog.core.frame import CHAIN_BYTES, STREAM, STREAM_ID_BYTES
from eventlog.core.rows import KEY_ID_BYTES

LIBRARY: Final = CompiledLibrary(Path(__file__).with_name("libcompiled.so.2"))

Row = tuple[bytes, bytes]
KeysOf = Callable[[bytes], tuple[str, ...]]
"""From the data of an event to what it is about; it may raise anything."""
PlainEvent = tuple[bytes, bytes, int, int]
"""Its row in the index of versions, the number of its type, where its data starts."""
_U64 = ctypes.c_uint64
END = struct.Struct(f"=QQQQ{CHAIN_BYTES}s")
"""The end of a stream: version, stored bytes, number of events, and the last version that is just
being erased; the chain value of the last event."""
_PLAIN_EVENT = struct.Struct(f"={STREAM_ID_BYTES + 8}s8sqq")
_TYPE = struct.Struct(">HB")
_KEY = struct.Struct(f"{STREAM_ID_BYTES + KEY_ID_BYTES + 8}s4s")
_TAKE = POINTER, LONG, POINTER, POINTER, POINTER, POINTER, LONG, LONG, _U64, POINTER
_ROWS_OF_KEYS = POINTER, POINTER, POINTER, POINTER, POINTER, LONG, POINTER


class PackedEnds(dict[bytes, bytearray]):
    """The ends of streams, packed as C has them; of a stream that is not among them, its start."""

    def __init__(self, erasing: Mapping[bytes, int]):
        """`erasing` says until which version streams are just being erased."""
        self._erasing = erasing

    def __missing__(self, sid: bytes) -> bytearray:
        erasing = max(self._erasing.get(sid, 0), 0)  # a record may have been forged
        start = END.pack(0, 0, 0, erasing, frame.chain_start(sid))
        end = self[sid] = bytearray(start)
        return end


class _Addresses(dict[bytes, int]):
    """Memory addresses of the packed ends of streams. Their size never changes, so they stay."""

    def __init__(self, ends: PackedEnds):
        self._ends = ends

    def __missing__(self, sid: bytes) -> int:
        address = self[sid] = ctypes.addressof(_first(self._ends[sid]))
        return address


class PlainEvents:
    """Takes rows of the table of events, and moves the ends of their streams."""

    def __init__(self, ends: PackedEnds, types: Mapping[tuple[bytes, int], KeysOf]):
        self._addresses = _Addresses(ends)
        self._types = b"".join(_TYPE.pack(schema, len(tag)) + tag for tag, schema in types)
        self.keys_of = list(types.values())
        self._take = LIBRARY.function("take_plain", *_TAKE, result=LONG)
        self._rows_of_keys = LIBRARY.function("rows_of_keys", *_ROWS_OF_KEYS)
        self.frames: Sequence[bytes] = ()
        """Frames of the current rows."""
        self._keys = self._joined = self._starts = self._ends = b""

    def look_at(self, keys: Sequence[bytes], frames: Sequence[bytes]) -> None:
        """Let these be the rows that `take` takes of. Each key has the size of a position."""
        self.frames = frames
        self._keys, self._joined = b"".join(keys), b"".join(frames)
        self._starts = _starts(frames)
        addresses = self._addresses
        self._ends = array("Q", [addresses[data[STREAM]] for data in frames]).tobytes()

    def take(self, first: int, position: int) -> list[PlainEvent]:
        """Take rows from the `first` on, if they are at `position` and behind it."""
        rows = len(self.frames)
        room = bytearray((rows - first) * _PLAIN_EVENT.size)
        count = self._take(
            self._types, len(self.keys_of), self._keys, self._joined, self._starts,
            self._ends, first, rows, position, ctypes.byref(_first(room)),
        )  # fmt: skip
        return list(_PLAIN_EVENT.iter_unpack(memoryview(room)[: count * _PLAIN_EVENT.size]))

    def rows_of_keys(self, keys: Iterable[str], of: Sequence[int]) -> list[Row]:
        """Return the rows in the index of keys of events that were taken.

        `of` has the number of the event of each key, among those looked at.
        """
        packed = [key.encode() for key in keys]
        if not packed:
            return []
        rows = bytearray(len(packed) * _KEY.size)
        self._rows_of_keys(
            b"".join(packed), _starts(packed), self._joined,
            self._starts, array("q", of).tobytes(), len(packed), ctypes.byref(_first(rows)),
        )  # fmt: skip
        return list(_KEY.iter_unpack(rows))


def _first(data: bytearray) -> ctypes.c_char:
    """Return a buffer's first byte as a ctypes object, for its address.

    A ctypes array would be a new type for each length.
    """
    return ctypes.c_char.from_buffer(data)


def _starts(parts: Iterable[bytes]) -> bytes:
    """Return where each part starts when they are joined, and where the last one ends."""
    return array("q", accumulate(map(len, parts), initial=0)).tobytes()
