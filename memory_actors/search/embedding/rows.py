"""The rows of `derived.mdb`: its tables, embeddings as bytes, and whose they are.

A row has the vector as int8 and the token states as `pack` makes them, behind a CRC that is bound
to what the row is of. A row that fails the check counts as absent.

In a store that is not encrypted embeddings are everybody's: they lie in the clear, under the digest
of their text. In an encrypted store each user has their own, encrypted and under a keyed hash of
the digest, so that neither the row nor its name reveals anything without the user's key. If the
store keeps them beside each user's stream (shared.py), each user has their own in any case: in the
clear they lie under a hash of the user and the digest.

A user without a key has no rows on disk. The first text of a new user may be embedded before the
log has made the key: then it is made here, and is durable with the first event (keyfile.py). Only a
live user writes, so nobody whose key is gone gets another one this way.
"""

import hashlib
import struct
import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, TypeVar

import numpy as np
import numpy.typing as npt

from eventlog import Cipher, CorruptLog, Environment, KeyGone, Keys
from eventlog.core.frame import stream_id
from eventlog.files.pages import copy_values
from eventlog.lmdb.file import Transaction
from memory_actors.base.streams import derived_of
from memory_actors.search.dot_products import Bytes, coded_units, units_of
from memory_actors.search.embedding.protocol import Embedded, Vectors
from memory_actors.search.embedding.token_states import unpack

B = TypeVar("B", bytes, memoryview)
ROW_BYTES = 16  # of a keyed hash: as long as a digest


class KeyScope:
    """The rows of an owner that lie in the clear: of everybody, or of one user, under a prefix."""

    def __init__(self, prefix: bytes = b""):
        self._prefix = prefix

    def row(self, digest: bytes) -> bytes:
        """Return the key of a text's row."""
        if not self._prefix:
            return digest
        return hashlib.sha256(self._prefix + digest).digest()[:ROW_BYTES]

    def written(self, data: bytes, place: bytes) -> bytes:  # noqa: ARG002 - in the clear
        """Encode `data` for a place."""
        return data

    def read(self, data: B, place: bytes) -> B | bytes | None:  # noqa: ARG002 - in the clear
        """Decode the bytes of a place, or return None if they are not readable."""
        return data


class _EncryptedScope(KeyScope):
    def __init__(self, cipher: Cipher):
        self._cipher = cipher

    def row(self, digest: bytes) -> bytes:
        return self._cipher.blind(digest)[:ROW_BYTES]

    def written(self, data: bytes, place: bytes) -> bytes:
        return self._cipher.encrypt(data, place)

    def read(self, data: B, place: bytes) -> bytes | None:
        try:
            return self._cipher.decrypt(bytes(data), place)
        except (CorruptLog, KeyGone):  # derived data: it is as good as absent
            return None


class Owner:
    """The owner of rows: everybody, or one user, under a `name`; encrypted, if there are `keys`."""

    def __init__(self, name: str | None = None, keys: Keys | None = None):
        self.is_everybody = name is None
        """True if rows are shared."""
        self.is_encrypted = keys is not None
        """True if nobody can read the rows without the user's key."""
        self.prefix = b"" if name is None else stream_id(name)
        """Keeps rows of different owners apart in memory."""
        self._name, self._keys = name or "", keys
        self._plain = KeyScope(self.prefix)

    def scope(self) -> KeyScope | None:
        """Return where the rows are, None if there can be none."""
        if self._keys is None:
            return self._plain
        has = self._keys.has(self._name)
        return _EncryptedScope(self._keys.cipher(self._name)) if has else None

    def scope_to_write(self) -> KeyScope:
        """Return where rows go."""
        return self._plain if self._keys is None else _EncryptedScope(self._keys.make(self._name))


EVERYBODY: Final = Owner()


def owner_of(keys: Keys | None, stream: str, *, apart: bool = False) -> Owner:
    """Return the owner of what is derived from a user's stream.

    In a store that is not encrypted that is everybody, unless users' rows are kept `apart`.
    """
    return Owner(derived_of(stream), keys) if keys is not None or apart else EVERYBODY


PLACES, ROWS, FACTS = "places", "embeddings", "facts"
"""Rows are found by number, and their numbers by what they are of. Rows are therefore appended one
after another, and fill their pages: in the order of digests a third of each page stays empty."""
TABLES = (PLACES, ROWS, FACTS)
UNIT_ERROR_MAX = 1e-2  # as the batcher allows, before a vector is stored
MODEL_BYTES = 8  # of each key: which model made it

_PLACE = ROWS.encode()
"""Begins the name that an encrypted row is bound to; its key comes next."""
_CRC = struct.Struct(">I")
_NUMBER = struct.Struct(">Q")
HEADER = struct.Struct("<I")
"""Of a row: the dimension. The codes of the vector come next, int8, then the token states."""

Numbers = npt.NDArray[np.uint32]
"""Of rows; 0 where it is not known."""
NO_NUMBER = bytes(_NUMBER.size)


def put_row(txn: Transaction, key: bytes, value: bytes) -> None:
    """Write a row in the place of the one that there is, or behind all others."""
    places, rows = txn.tables[PLACES], txn.tables[ROWS]
    number = txn.get(key, db=places)
    if number is not None:
        txn.put(number, value, db=rows)
        return
    with txn.cursor(rows) as cursor:
        last = _NUMBER.unpack(cursor.key())[0] if cursor.last() else 0
    txn.put(key, number := _NUMBER.pack(last + 1), db=places)
    txn.put(number, value, db=rows, append=True)


def written(row: bytes, key: bytes, scope: KeyScope) -> bytes:
    """Return the bytes to write for a row under a key."""
    return seal(scope.written(row, _PLACE + key), key)


def numbers_of(stored: Iterable[bytes]) -> Numbers:
    """Return numbers of rows; 0 for one that is too high to be kept."""
    numbers = np.frombuffer(b"".join(stored), ">u8")
    return np.where(numbers > np.iinfo(np.uint32).max, 0, numbers).astype(np.uint32)


def stored_numbers(numbers: Numbers) -> list[bytes]:
    """Return numbers of rows as the tables have them."""
    found: list[bytes] = numbers.astype(">u8").view(np.dtype((np.void, _NUMBER.size))).tolist()
    return found


def rows_at(
    txn: Transaction, numbers: Sequence[bytes], keys: Sequence[bytes], scope: KeyScope,
    dimension: int,
) -> list[bytes | None]:  # fmt: skip
    """Return the rows of this dimension that have these numbers and were written under these keys.

    A row that is missing, belongs to another key, or is not readable, gives None.
    """
    with txn.cursor(txn.tables[ROWS]) as cursor:
        stored = cursor.getmulti(numbers)
    if len(stored) == len(numbers):
        rows = read_rows([value for _, value in stored], keys, scope)
    else:
        found = dict(stored)
        rows = read_rows([found.get(number, b"") for number in numbers], keys, scope)
    head = HEADER.pack(dimension)
    least = len(head) + dimension
    return [row if row and row.startswith(head) and len(row) >= least else None for row in rows]


def read_codes(txn: Transaction, numbers: Numbers, into: Bytes) -> bool:
    """Read the codes of rows in the order of their numbers, unchecked; say whether all are there.

    `txn` has buffers. The numbers differ.
    """
    first = txn.get(_NUMBER.pack(numbers[0]), db=txn.tables[ROWS])
    begin = _CRC.size + HEADER.size
    return first is not None and copy_values(
        first, txn.file.page_bytes, txn.id(), ROWS, numbers, begin, into
    )


def read_rows(
    values: Iterable[bytes], keys: Iterable[bytes], scope: KeyScope
) -> list[bytes | None]:
    """Return the rows that were written under keys, None for one that is not readable."""
    # Written out: there may be a hundred thousand, and each call of ours takes as long as the CRC.
    crc, size, read, place = zlib.crc32, _CRC.size, scope.read, _PLACE
    return [
        read(row, place + key)
        if crc(row := value[size:], crc(key)).to_bytes(size, "big") == value[:size]
        else None
        for key, value in zip(keys, values, strict=True)
    ]


def row_of(one: Embedded) -> bytes:
    """Return an embedding as a row."""
    codes = (one.coded or coded_units(one.vector[None])).codes
    return HEADER.pack(len(one.vector)) + codes.tobytes() + (one.tokens or b"")


def codes_of(rows: Sequence[bytes], dimension: int) -> Bytes:
    """Return the codes of the vectors of rows of this dimension, [n, d]."""
    joined = b"".join([row[HEADER.size : HEADER.size + dimension] for row in rows])
    return np.frombuffer(joined, np.int8).reshape(-1, dimension)


def embedded_in(rows: Sequence[bytes], dimension: int) -> list[Embedded]:
    """Decode rows of this dimension."""
    coded, body = units_of(codes_of(rows, dimension)), HEADER.size + dimension
    vectors = coded.decoded()
    return [  # of copies: one that is kept must not keep them all
        Embedded(vectors[place].copy(), row[body:] or None, coded=coded.copied(place))
        for place, row in enumerate(rows)
    ]


def fits(row: bytes, dimension: int) -> bool:
    """Say whether a row is one of this dimension."""
    head = HEADER.size + dimension
    return len(row) >= head and HEADER.unpack_from(row)[0] == dimension


def _vector(row: bytes) -> Vectors | None:
    """Return the vector of a row of any dimension, None if the row is not whole."""
    dimension = HEADER.unpack_from(row)[0] if len(row) >= HEADER.size else 0
    if not fits(row, dimension):
        return None
    (one,) = embedded_in([row], dimension)
    try:
        unpack(one.tokens or b"")
    except ValueError:
        return None if one.tokens else one.vector
    return one.vector


def delete_keys(keys: Iterable[bytes], txn: Transaction) -> None:
    """Delete the rows that have these keys."""
    for key in keys:
        if (number := txn.get(key, db=txn.tables[PLACES])) is not None:
            txn.delete(number, db=txn.tables[ROWS])
            txn.delete(key, db=txn.tables[PLACES])


def seal(data: bytes, key: bytes = b"") -> bytes:
    """Return data behind a checksum, bound to a key: a damaged number finds the row of another."""
    return _CRC.pack(zlib.crc32(data, zlib.crc32(key))) + data


def checked(value: bytes, key: bytes = b"") -> bytes | None:
    """Return sealed data, or None if it is damaged or was sealed for another key."""
    data = value[_CRC.size :]
    return data if value[: _CRC.size] == _CRC.pack(zlib.crc32(data, zlib.crc32(key))) else None


# --- damage


def damaged_rows(path: Path, *, encrypted: bool) -> dict[bytes, str]:
    """Return the rows of texts whose embeddings are not what was stored, and why. Blocks.

    If rows are `encrypted`, only their size and checksum are checked.

    :raises EventLogError: the file cannot be read.
    """
    env = Environment(path, TABLES)
    try:
        with env.read() as txn:
            found = dict(_bad_rows(txn, encrypted=encrypted))
            return {key[MODEL_BYTES:]: why for key, why in found.items()}
    finally:
        env.close()


def _bad_rows(txn: Transaction, *, encrypted: bool) -> Iterator[tuple[bytes, str]]:
    with txn.cursor(txn.tables[PLACES]) as cursor:
        for key, number in cursor:
            stored = txn.get(number, db=txn.tables[ROWS])
            row = None if stored is None else checked(stored, key)
            if row is not None and encrypted:
                continue
            vector = None if row is None else _vector(row)
            if vector is None:
                yield key, "a damaged embedding"
            elif not abs(np.linalg.norm(vector) - 1) < UNIT_ERROR_MAX:  # NaN compares false
                yield key, "a vector that is not of unit length"
