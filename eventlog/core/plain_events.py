"""Frames of many events in one call of C, where it is compiled (plain_events.c), else by frame.py.

C packs what is not encrypted. It reads rows that are plain and without fault; the others are left
to Python, which says what is wrong.
"""

import ctypes
import struct
from array import array
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, pairwise, repeat

import msgspec

from eventlog.core import frame
from eventlog.core.compiled import HAS_SHA256, LOG_LIBRARY, LONG, POINTER
from eventlog.core.keys import Cipher
from eventlog.core.records import Prepared
from eventlog.core.rows import KEY_ID_BYTES, U64, key_check, key_rows

FEW = 3  # events: a call of C for fewer costs more than it saves

Row = tuple[bytes, bytes]
_C_U64 = ctypes.c_uint64
_KEY = struct.Struct(f"{frame.STREAM_ID_BYTES + KEY_ID_BYTES + U64.size}s4s")
_READ_EVENT = struct.Struct("=QqIIqqq")
_TYPE = struct.Struct(">HB")
_PACK = POINTER, POINTER, LONG, _C_U64, POINTER, POINTER, POINTER
_READ = POINTER, LONG, POINTER, POINTER, POINTER, POINTER, POINTER, LONG, POINTER
_ROWS_OF_KEYS = POINTER, POINTER, POINTER, POINTER, POINTER, LONG, POINTER


def address(data: bytearray) -> ctypes.c_char:
    """Return a buffer's first byte as a ctypes object, for its address.

    A ctypes array would be a new type for each length.
    """
    return ctypes.c_char.from_buffer(data)


def starts_of(parts: Iterable[bytes]) -> bytes:
    """Return where each part starts when they are joined, and where the last one ends."""
    return array("q", accumulate(map(len, parts), initial=0)).tobytes()


class Run(msgspec.Struct, frozen=True, gc=False):
    """Events of one append."""

    events: Sequence[Prepared]
    sid: bytes
    version: int
    """The version of the stream before them."""
    recorded_at_us: int
    cipher: Cipher | None


def packed_one_by_one(
    run: Run, position: int, chain: bytes
) -> Iterator[tuple[Prepared, int, bytes]]:
    """Yield each event of a run behind a position and a chain value, its version and its frame."""
    for number, prepared in enumerate(run.events, 1):
        version = run.version + number
        data, chain = frame.pack(
            prepared, position=position + number, sid=run.sid, version=version,
            recorded_at_us=run.recorded_at_us, prev=chain, cipher=run.cipher,
        )  # fmt: skip
        yield prepared, version, data


def packed(
    runs: Sequence[Run], position: int, chains: dict[bytes, bytes]
) -> tuple[list[bytes], list[Row]]:
    """Return the frames of events behind a position, and their rows in the index of keys.

    `chains` has the chain value of each stream before them, by stream id, and gets the one behind.
    """
    several = len(runs) >= FEW or len(runs[0].events) >= FEW
    if several and runs[0].cipher is None and LOG_LIBRARY.instruction_set == HAS_SHA256:
        return _packed_in_c(runs, position, chains)
    frames, rows = list[bytes](), list[bytes]()
    for run in runs:
        for prepared, version, data in packed_one_by_one(run, position, chains[run.sid]):
            frames.append(data)
            rows += key_rows(run.sid, prepared.keys, U64.pack(version), run.cipher)
        position += len(run.events)
        chains[run.sid] = frame.chain_of(frames[-1])
    return frames, [(row, key_check(row)) for row in rows]


def _packed_in_c(
    runs: Sequence[Run], position: int, chains: dict[bytes, bytes]
) -> tuple[list[bytes], list[Row]]:
    numbers = {sid: number for number, sid in enumerate(chains)}
    parts: list[bytes] = []
    keys: list[bytes] = []
    streams, of = array("q"), array("q")
    for run in runs:
        sid, version, at_us = run.sid, run.version, run.recorded_at_us
        number = numbers[sid]
        for prepared in run.events:
            version += 1
            tag, raw = prepared.tag.encode(), prepared.raw
            body = prepared.body if prepared.compressed else raw
            fields = frame.FIELDS.pack(
                frame.FORMAT, prepared.compressed, prepared.schema, len(tag), sid, version, at_us,
                len(raw), len(body),
            )  # fmt: skip
            parts += (fields, tag, prepared.salt, raw)
            if prepared.compressed:
                parts.append(body)
            for key in prepared.keys:
                keys.append(key.encode())
                of.append(len(streams))
            streams.append(number)
    count, joined, last = len(streams), b"".join(parts), bytearray().join(chains.values())
    room = bytearray(len(joined) + frame.BESIDE_FIELDS_BYTES * count)
    starts = bytearray((count + 1) * streams.itemsize)
    LOG_LIBRARY.function("pack_events", *_PACK)(
        joined, streams.tobytes(), count, position, ctypes.byref(address(last)),
        ctypes.byref(address(room)), ctypes.byref(address(starts)),
    )  # fmt: skip
    data = bytes(room)
    frames = [data[start:end] for start, end in pairwise(memoryview(starts).cast("q"))]
    for sid, number in numbers.items():
        chains[sid] = bytes(last[number * frame.CHAIN_BYTES : (number + 1) * frame.CHAIN_BYTES])
    return frames, rows_of_keys(keys, of, data, bytes(starts))


# --- reading


def packed_types(types: Iterable[tuple[bytes, int]]) -> bytes:
    """Return types, by tag and schema, as C has them."""
    return b"".join(_TYPE.pack(schema, len(tag)) + tag for tag, schema in types)


ReadEvent = tuple[int, int, int, int, int, int, int]
"""Position, recorded_at_us, raw and stored bytes; the number of the type, -1 for a row that is left
to Python; where in the frame meta and data start."""


def read_plain(
    types: bytes, types_count: int, rows: Sequence[Row], sid: bytes, versions: Sequence[int]
) -> Iterator[ReadEvent]:
    """Yield what the frames of a stream say that are to be these versions, in rows of the log."""
    if len(rows) < FEW or not types_count or not LOG_LIBRARY.instruction_set:
        return repeat((0, 0, 0, 0, -1, 0, 0))
    positions, frames = zip(*rows, strict=True)
    places = b"".join(positions)
    if len(places) != U64.size * len(rows):  # a key is damaged
        return repeat((0, 0, 0, 0, -1, 0, 0))
    read = bytearray(len(rows) * _READ_EVENT.size)
    LOG_LIBRARY.function("read_plain", *_READ)(
        types, types_count, places, b"".join(frames), starts_of(frames), sid,
        array("Q", versions).tobytes(), len(rows), ctypes.byref(address(read)),
    )  # fmt: skip
    return _READ_EVENT.iter_unpack(read)


def rows_of_keys(
    keys: Sequence[bytes], of: "array[int]", frames: bytes, starts: bytes
) -> list[Row]:
    """Return the rows that events have in the index of keys.

    `of` has the number of the event of each key; `starts` where each of their `frames` starts.
    """
    if not keys:
        return []
    rows = bytearray(len(keys) * _KEY.size)
    LOG_LIBRARY.function("rows_of_keys", *_ROWS_OF_KEYS)(
        b"".join(keys), starts_of(keys), frames, starts, of.tobytes(), len(keys),
        ctypes.byref(address(rows)),
    )  # fmt: skip
    return list(_KEY.iter_unpack(rows))
