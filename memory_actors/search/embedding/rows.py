"""The rows of `derived.mdb`: its tables, and embeddings as bytes.

A row has the vector as int8 and the token states as `pack` makes them, behind a CRC that is bound
to what the row is of. A row that fails the check counts as absent.
"""

import struct
import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from eventlog import Environment
from eventlog.lmdb.file import Transaction
from memory_actors.search.dot_products import Bytes, coded_units, units_of
from memory_actors.search.embedding.key_scopes import KeyScope
from memory_actors.search.embedding.protocol import Embedded, Vectors
from memory_actors.search.embedding.token_states import unpack

PLACES, ROWS, FACTS = "places", "embeddings", "facts"
"""Rows are found by number, and their numbers by what they are of. Rows are therefore appended one
after another, and fill their pages: in the order of digests a third of each page stays empty."""
OLD_VECTORS, OLD_TOKENS = "vectors", "tokens"
"""Tables of older stores."""
BY_DIGEST = (PLACES, OLD_VECTORS, OLD_TOKENS)
TABLES = (*BY_DIGEST, ROWS, FACTS)
UNIT_ERROR_MAX = 1e-2  # as the batcher allows, before a vector is stored
MODEL_BYTES = 8  # of each key: which model made it

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
    return seal(scope.written(row, place_of(ROWS, key)), key)


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


def read_rows(
    values: Iterable[bytes], keys: Iterable[bytes], scope: KeyScope
) -> list[bytes | None]:
    """Return the rows that were written under keys, None for one that is not readable."""
    # Written out: there may be a hundred thousand, and each call of ours takes as long as the CRC.
    crc, size, read, place = zlib.crc32, _CRC.size, scope.read, place_of(ROWS, b"")
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


def present(found: Sequence[bytes | None], start: int) -> tuple[npt.NDArray[np.intp], list[bytes]]:
    """Return the places of those rows that are there, counted from `start`, and these rows."""
    there = [row for row in found if row is not None]
    places = np.arange(start, start + len(found))
    if len(there) < len(found):
        places = places[[row is not None for row in found]]
    return places, there


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


def old_vector(data: bytes) -> Vectors | None:
    """Return the vector of an older row, None if it is not one."""
    if len(data) % 2:
        return None
    return np.frombuffer(data, np.float16).astype(np.float32)


def delete_keys(names: Sequence[str], keys: Iterable[bytes], txn: Transaction) -> None:
    """Delete what tables have under keys."""
    for name in names:
        for key in keys:
            if name == PLACES and (number := txn.get(key, db=txn.tables[name])) is not None:
                txn.delete(number, db=txn.tables[ROWS])
            txn.delete(key, db=txn.tables[name])


def place_of(table: str, key: bytes) -> bytes:
    """Return the name that an encrypted row is bound to."""
    return table.encode() + key


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
    for name in BY_DIGEST:
        with txn.cursor(txn.tables[name]) as cursor:
            for key, value in cursor:
                stored = txn.get(value, db=txn.tables[ROWS]) if name == PLACES else value
                bound = key if name == PLACES else b""
                data = None if stored is None else checked(stored, bound)
                if data is None:
                    yield key, "a damaged embedding"
                elif not encrypted and name != OLD_TOKENS:
                    vector = _vector(data) if name == PLACES else old_vector(data)
                    if vector is None:
                        yield key, "a damaged embedding"
                    elif not abs(np.linalg.norm(vector) - 1) < UNIT_ERROR_MAX:  # NaN compares false
                        yield key, "a vector that is not of unit length"
