"""Lists as arrays in PostgreSQL's binary format, each as one piece, which psycopg's own are not.

The rows of a batch are such lists too, as `append_batch` takes them (schema.sql): an array for each
kind of row. Every parameter has its price in every call, so an array has whole rows, as values of a
composite type. A row is packed when it is put in: its size, the number of its fields, and type,
size and value of each.
"""

import struct
from dataclasses import dataclass, field
from typing import ClassVar

from eventlog.core.rules import StreamEnd

_BYTEA = 17
_INT8 = 20
_ARRAY = struct.Struct(">iiIii")  # dimensions, has nulls, type, length, first index
_EMPTY = struct.Struct(">iiI")
_LENGTH = struct.Struct(">i")
_INT_ITEM = struct.Struct(">iq")
_NULL = _LENGTH.pack(-1)


class Bytes(list[bytes | None]):
    """A list that goes to the database as bytea[]."""

    TYPE_OID: ClassVar = 1001

    def packed(self) -> bytes:
        """Return the array in the binary format of PostgreSQL."""
        if not self:
            return _EMPTY.pack(0, 0, _BYTEA)
        parts = [_ARRAY.pack(1, None in self, _BYTEA, len(self), 1)]
        for one in self:
            parts += (_NULL,) if one is None else (_LENGTH.pack(len(one)), one)
        return b"".join(parts)


class Ints(list[int]):
    """A list that goes to the database as bigint[]."""

    TYPE_OID: ClassVar = 1016

    def packed(self) -> bytes:
        """Return the array in the binary format of PostgreSQL."""
        if not self:
            return _EMPTY.pack(0, 0, _INT8)
        parts = [_ARRAY.pack(1, 0, _INT8, len(self), 1)]
        parts += [_INT_ITEM.pack(8, one) for one in self]
        return b"".join(parts)


@dataclass(slots=True)
class Records:
    """A list that goes to the database as an array of a composite type."""

    TYPE_OID: ClassVar = 0  # the database knows what the parameter is

    type_oid: int
    """The number of the type in this database."""
    rows: list[bytes]
    """The values, each in the binary format, and its size before it."""

    def packed(self) -> bytes:
        """Return the array in the binary format of PostgreSQL."""
        if not self.rows:
            return _EMPTY.pack(0, 0, self.type_oid)
        return b"".join((_ARRAY.pack(1, 0, self.type_oid, len(self.rows), 1), *self.rows))


# --- the rows of a batch

TYPES = (
    "batch_stream", "batch_event", "batch_key", "batch_request", "batch_checkpoint",
    "batch_entry", "batch_total",
)  # fmt: skip
"""The types of the arrays, in their order."""
_INT = _INT8 << 32 | 8  # type and size of a field, as one number
_ID = _BYTEA << 32 | 16
_HASH = _BYTEA << 32 | 32
_VARYING = _BYTEA << 32  # and its size
_HEAD = struct.Struct(">ii")
_INT_FIELD = struct.Struct(">Qq")
_FIELD = struct.Struct(">Q")
_NULL_FIELD = struct.pack(">Ii", _BYTEA, -1)
# One struct packs the fields that every batch has, which is five times as fast.
_STREAM = struct.Struct(">ii Q16s QqQqQqQ32s QqQqQqQ32sQq Q")
_EVENT = struct.Struct(">ii QqQ16sQq Q")
_KEY = struct.Struct(">ii QqQ16sQ16sQq")
_SIZE_BYTES = 4


@dataclass(slots=True)
class BatchRows:
    """The rows of a batch. Each names its stream by the number that it has in the batch."""

    streams: list[bytes] = field(default_factory=list)
    events: list[bytes] = field(default_factory=list)
    keys: list[bytes] = field(default_factory=list)
    requests: list[bytes] = field(default_factory=list)
    checkpoints: list[bytes] = field(default_factory=list)
    entries: list[bytes] = field(default_factory=list)
    totals: list[bytes] = field(default_factory=list)

    def arrays(self, types: list[int]) -> list[Records]:
        """Return the arrays; `types` are the numbers of `TYPES` in this database."""
        rows = (
            self.streams, self.events, self.keys, self.requests, self.checkpoints, self.entries,
            self.totals,
        )  # fmt: skip
        return [Records(*array) for array in zip(types, rows, strict=True)]

    def put_event(
        self, stream: int, sid: bytes, version: int, header: bytes, payload: bytes
    ) -> None:
        """Put in an event: its frame in two."""
        size = _EVENT.size - _SIZE_BYTES + len(header) + _FIELD.size + len(payload)
        head = _EVENT.pack(size, 5, _INT, stream, _ID, sid, _INT, version, _VARYING | len(header))
        self.events.append(b"".join((head, header, _FIELD.pack(_VARYING | len(payload)), payload)))

    def put_key(self, stream: int, sid: bytes, key: bytes, version: int) -> None:
        """Put in a key of an event."""
        size = _KEY.size - _SIZE_BYTES
        self.keys.append(_KEY.pack(size, 4, _INT, stream, _ID, sid, _ID, key, _INT, version))

    def put_stream(
        self, sid: bytes, name: bytes, was: StreamEnd, now: StreamEnd, recorded_at_us: int
    ) -> None:
        """Put in a stream: where it was believed, and where it is after the batch."""
        head = _STREAM.pack(
            _STREAM.size - _SIZE_BYTES + len(name), 11, _ID, sid,
            _INT, was.version, _INT, was.epoch, _INT, was.erased_version, _HASH, was.chain,
            _INT, now.version, _INT, now.epoch, _INT, now.stored_bytes, _HASH, now.chain,
            _INT, recorded_at_us, _VARYING | len(name),
        )  # fmt: skip
        self.streams.append(head + name)

    @staticmethod
    def row(*values: int | bytes | None) -> bytes:
        """Return a row of any other kind."""
        parts = []
        for value in values:
            if value is None:
                parts.append(_NULL_FIELD)
            elif isinstance(value, int):
                parts.append(_INT_FIELD.pack(_INT, value))
            else:
                parts += (_FIELD.pack(_VARYING | len(value)), value)
        data = b"".join(parts)
        return _HEAD.pack(_SIZE_BYTES + len(data), len(values)) + data
