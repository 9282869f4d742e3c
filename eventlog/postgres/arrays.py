"""Lists as arrays in PostgreSQL's binary format, each as one piece, which psycopg's own are not."""

import struct
from typing import NamedTuple

BYTEA_ARRAY = 1001
INT8_ARRAY = 1016
_BYTEA = 17
_INT8 = 20
_ARRAY = struct.Struct(">iiIii")  # dimensions, has nulls, type, length, first index
_EMPTY = struct.Struct(">iiI")
_LENGTH = struct.Struct(">i")
_INT = struct.Struct(">iq")
_NULL = _LENGTH.pack(-1)


class Bytes(list[bytes | None]):
    """A list that goes to the database as bytea[]."""

    def packed(self) -> bytes:
        """Return it as the database takes it."""
        if not self:
            return _EMPTY.pack(0, 0, _BYTEA)
        parts = [_ARRAY.pack(1, None in self, _BYTEA, len(self), 1)]
        for one in self:
            parts += (_NULL,) if one is None else (_LENGTH.pack(len(one)), one)
        return b"".join(parts)


class Ints(list[int]):
    """A list that goes to the database as bigint[]."""

    def packed(self) -> bytes:
        """Return it as the database takes it."""
        if not self:
            return _EMPTY.pack(0, 0, _INT8)
        parts = [_ARRAY.pack(1, 0, _INT8, len(self), 1)]
        parts += [_INT.pack(8, one) for one in self]
        return b"".join(parts)


class Records(NamedTuple):
    """A list that goes to the database as an array of a composite type."""

    type_oid: int
    """The number of the type in this database."""
    rows: list[bytes]
    """The values, each in the binary format, and its size before it."""

    def packed(self) -> bytes:
        """Return it as the database takes it."""
        if not self.rows:
            return _EMPTY.pack(0, 0, self.type_oid)
        return b"".join((_ARRAY.pack(1, 0, self.type_oid, len(self.rows), 1), *self.rows))
