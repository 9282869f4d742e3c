"""Embeddings on disk, by model and content, in a file of derived data that may be deleted.

A text is embedded once: its vector and its token states are found again by the digest of the text
and the fingerprint of the model. That is why a replay never calls the model. Vectors are kept as
float16 (768 bytes, equal to the float32 ones to a cosine of 0.999999), token states as
`pack` makes them (2.3 KB for 35 tokens), each behind a CRC; what fails it counts as absent.
They lie in two tables, because an activation reads all vectors of a user, and a query the token
states of a few hundred memories.

Writes follow behind in batches. A crash loses at most the vectors of the last moments, and they are
computed again when they are missed.

In a store that is encrypted each row is its owner's: see key_scopes.py.
"""

import hashlib
import struct
import threading
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt

from eventlog import Environment, EventLogError
from eventlog.core.logs import get_logger
from eventlog.files.datafile import remove_named
from eventlog.files.pages import CHECKED_BYTES_MAX
from eventlog.lmdb.environment import Transaction
from memory_actors.base.errors import StoreBusyError
from memory_actors.search.embedding.key_scopes import EVERYBODY, Owner
from memory_actors.search.embedding.protocol import Embedded, Vectors

WRITE_BEHIND_S = 0.05
DELETE_ROWS = 1_000  # in one transaction: a flush does not wait for long
SHRINK_PART = 10  # of the file must be free before it is copied
WRITE_BEHIND_VECTORS = 512
MATRIX_ROWS = 2_048  # read at once: what is there twice meanwhile stays small

TABLES = ("vectors", "tokens", "facts")
UNIT_ERROR_MAX = 1e-2  # as the batcher allows, before a vector is stored
FILE = "derived.mdb"
DAMAGED = ".damaged"
"""Suffix of a file that was put aside."""
MODEL_BYTES = 8  # of each key: which model made it

_CRC = struct.Struct(">I")
_Waiting = tuple[Owner, bytes, Embedded]
_logger = get_logger("memory_actors.search.embedding")


def damaged_rows(path: Path, *, encrypted: bool) -> dict[bytes, str]:
    """Return the rows of texts whose embeddings are not what was stored, and why. Blocks.

    Of rows that are `encrypted` nothing but size and checksum is looked at.

    :raises EventLogError: the file cannot be read.
    """
    env = Environment(path, TABLES)
    try:
        with env.read() as txn:
            tokens = {key[MODEL_BYTES:]: why for key, why in _bad_tokens(env, txn)}
            vectors = _bad_vectors(env, txn, encrypted=encrypted)
            return tokens | {key[MODEL_BYTES:]: why for key, why in vectors}
    finally:
        env.close()


def _bad_tokens(env: Environment, txn: Transaction) -> Iterator[tuple[bytes, str]]:
    with txn.cursor(env.tables["tokens"]) as cursor:
        for key, value in cursor:
            if _checked(value) is None:
                yield key, "damaged token states"


def _bad_vectors(
    env: Environment, txn: Transaction, *, encrypted: bool
) -> Iterator[tuple[bytes, str]]:
    with txn.cursor(env.tables["vectors"]) as cursor:
        sizes = Counter((key[:MODEL_BYTES], len(value)) for key, value in cursor)
        usual = {model: size for (model, size), _ in reversed(sizes.most_common())}
        cursor.first()
        for key, value in cursor:
            data = _checked(value)
            if data is None or len(value) != usual[key[:MODEL_BYTES]]:
                yield key, "a damaged vector"
            elif not encrypted:
                vector = np.frombuffer(data, np.float16).astype(np.float32)
                if not abs(np.linalg.norm(vector) - 1) < UNIT_ERROR_MAX:  # NaN compares false
                    yield key, "a vector that is not of unit length"


def remove_files(directory: Path) -> None:
    """Remove all embeddings of a store that is closed: they are made again."""
    files = FILE, Path(FILE).with_suffix(DAMAGED).name
    remove_named(directory, lambda name: name in files)


def as_stored(vectors: Vectors) -> Vectors:
    """Return vectors as they come back from disk: answers are the same before and after."""
    return vectors.astype(np.float16).astype(np.float32)


class VectorTable:
    """The vectors of one model, in `derived.mdb`."""

    def __init__(self, path: Path, *, checked_bytes_max: int = CHECKED_BYTES_MAX):
        self._env = Environment(
            path, TABLES, checked_bytes_max=checked_bytes_max, busy=StoreBusyError
        )
        self._waiting: dict[bytes, _Waiting] = {}
        """By the owner's prefix and the digest: whose it is, the digest, what is to be written."""
        self._lock = threading.Lock()
        self._model = b""

    def use_model(self, fingerprint: str) -> None:
        """Read and write the vectors of this model from now on."""
        self._model = hashlib.sha256(fingerprint.encode()).digest()[:MODEL_BYTES]

    def get(
        self, digests: Sequence[bytes], dimension: int, owner: Owner = EVERYBODY
    ) -> dict[bytes, Vectors]:
        """Return the vectors that are there, as float32, by digest."""
        waiting = self._waiting_of(digests, owner)
        missing = [digest for digest in digests if digest not in waiting]
        (stored,) = self._stored(["vectors"], missing, owner)
        found = {digest: one.vector for digest, one in waiting.items()}
        return found | _as_vectors(stored, dimension)

    def embedded(
        self, digests: Sequence[bytes], dimension: int, owner: Owner = EVERYBODY
    ) -> dict[bytes, Embedded]:
        """Return the vectors that are there, each with its token states at the same moment."""
        waiting = self._waiting_of(digests, owner)
        missing = [digest for digest in digests if digest not in waiting]
        stored, tokens = self._stored(["vectors", "tokens"], missing, owner)
        vectors = _as_vectors(stored, dimension)
        return waiting | {d: Embedded(one, tokens.get(d)) for d, one in vectors.items()}

    def _waiting_of(self, digests: Sequence[bytes], owner: Owner) -> dict[bytes, Embedded]:
        waiting, prefix = dict(self._waiting), owner.prefix  # a flush in another thread empties it
        return {d: one[2] for d in digests if (one := waiting.get(prefix + d)) is not None}

    def matrix(
        self, digests: Sequence[bytes], dimension: int, owner: Owner = EVERYBODY
    ) -> tuple[Vectors, npt.NDArray[np.bool_]]:
        """Return the vectors, float32 [n, d], and which are there; the others are zeros."""
        vectors = np.zeros((len(digests), dimension), np.float32)
        there = np.zeros(len(digests), np.bool_)
        for start in range(0, len(digests), MATRIX_ROWS):
            chunk = digests[start : start + MATRIX_ROWS]
            found = self.get(chunk, dimension, owner)
            rows = [row for row, digest in enumerate(chunk, start) if digest in found]
            if rows:
                vectors[rows] = np.stack([found[digests[row]] for row in rows])
                there[rows] = True
        return vectors, there

    def tokens(self, digests: Sequence[bytes], owner: Owner = EVERYBODY) -> dict[bytes, bytes]:
        """Return the packed token states that are there, by digest."""
        waiting = self._waiting_of(digests, owner)
        missing = [digest for digest in digests if digest not in waiting]
        (stored,) = self._stored(["tokens"], missing, owner)
        return stored | {d: one.tokens for d, one in waiting.items() if one.tokens is not None}

    def _stored(
        self, tables: Sequence[str], digests: Sequence[bytes], owner: Owner
    ) -> list[dict[bytes, bytes]]:
        """Return the stored values that are whole, by digest, of each table, in one transaction."""
        found = [dict[bytes, bytes]() for _ in tables]
        scope = owner.scope()
        if scope is None:
            return found
        keys = {digest: self._model + scope.row(digest) for digest in digests}
        with self._env.read() as txn:
            for table, values in zip(tables, found, strict=True):
                db = self._env.tables[table]  # of the file that this transaction reads
                for digest, key in keys.items():
                    value = txn.get(key, db=db)
                    data = None if value is None else _checked(value)
                    data = None if data is None else scope.read(data, _place(table, key))
                    if data is not None:
                        values[digest] = data
        return found

    def put(self, embedded: Mapping[bytes, Embedded], owner: Owner = EVERYBODY) -> bool:
        """Take embeddings to be written soon; say whether there are enough to write at once."""
        self._waiting |= {owner.prefix + d: (owner, d, one) for d, one in embedded.items()}
        return len(self._waiting) >= WRITE_BEHIND_VECTORS

    @property
    def waiting(self) -> int:
        """The number of vectors that wait to be written."""
        return len(self._waiting)

    def flush(self) -> None:
        """Write what waits. Blocks: call it off the loop."""
        with self._lock:
            batch = dict(self._waiting)
            if batch:
                self._write(batch)
            for name in batch:
                self._waiting.pop(name, None)

    def delete(self, digests: Sequence[bytes], owner: Owner = EVERYBODY) -> None:
        """Delete embeddings, where they are there. Blocks: call it off the loop."""
        for start in range(0, len(digests), DELETE_ROWS):
            with self._lock:
                self._delete(digests[start : start + DELETE_ROWS], owner)

    def _delete(self, digests: Sequence[bytes], owner: Owner) -> None:
        for digest in digests:
            self._waiting.pop(owner.prefix + digest, None)
        scope = owner.scope()
        if scope is None:
            return
        keys = sorted(self._model + scope.row(digest) for digest in digests)

        try:
            self._env.write(partial(_delete_keys, self._env, ("vectors", "tokens"), keys))
        except EventLogError as error:  # derived data: what stays is only in the way
            _logger.warning("embeddings not deleted", count=len(keys), error=str(error))

    def erase(self, digests: Set[bytes], owner: Owner = EVERYBODY) -> int:
        """Delete the embeddings of texts under every model, and every byte of them; count them.

        Reads all keys and copies the file. Blocks: call it off the loop.

        :raises EventLogError: the disk is full or failed; it can be repeated.
        """
        scope, prefix = owner.scope(), owner.prefix
        rows = {} if scope is None else {scope.row(digest): digest for digest in digests}
        with self._lock:
            known = {d for d in digests if self._waiting.pop(prefix + d, None) is not None}
            if not owner.is_everybody:  # what was never in the log must not be written any more
                for place in [place for place in self._waiting if place.startswith(prefix)]:
                    self._waiting.pop(place, None)
            found = {name: self._keys_of(name, rows.keys()) for name in ("vectors", "tokens")}
            for name, keys in found.items():
                self._env.write(partial(_delete_keys, self._env, [name], keys))
            self._env.shrink()
        damaged = self._env.path.with_suffix(DAMAGED)
        remove_named(damaged.parent, lambda name: name == damaged.name)
        return len(known.union(rows[key[MODEL_BYTES:]] for key in found["vectors"]))

    def _keys_of(self, table: str, rows: Set[bytes]) -> list[bytes]:
        with self._env.read() as txn, txn.cursor(self._env.tables[table]) as cursor:
            keys = cursor.iternext(keys=True, values=False)
            return [key for key in keys if key[MODEL_BYTES:] in rows]

    def shrink(self) -> None:
        """Make the file smaller, where a good part of it is free. Blocks: call it off the loop."""
        with self._env.read() as txn:
            free = self._env.free_bytes(txn)
        if free * SHRINK_PART < self._env.file_bytes():
            return
        try:
            with self._lock:
                self._env.shrink()
        except EventLogError as error:
            _logger.warning("file of embeddings not shrunk", error=str(error))

    def copy_to(self, path: Path) -> None:
        """Copy what is there into a new file, while it is in use. Blocks.

        :raises EventLogError: as `Environment.copy_to` does.
        """
        self.flush()
        self._env.copy_to(path, lambda _txn, _transactions: None)

    def fact(self, name: str) -> bytes | None:
        """Return a small fact about the derived data, such as which model made it."""
        with self._env.read() as txn:
            value = txn.get(name.encode(), db=self._env.tables["facts"])
        return None if value is None else _checked(value)

    def set_fact(self, name: str, value: bytes) -> None:
        """Store a small fact. Blocks: call it off the loop."""

        def put(txn: Transaction) -> None:
            txn.put(name.encode(), _sealed(value), db=self._env.tables["facts"])

        self._env.write(put)

    def close(self) -> None:
        """Write what waits and close the file."""
        self.flush()
        self._env.close()

    def _write(self, batch: Mapping[bytes, _Waiting]) -> None:
        scopes = {owner: owner.scope_to_write() for owner, _, _ in batch.values()}
        rows: list[tuple[str, bytes, bytes]] = []
        for owner, digest, one in batch.values():
            scope = scopes[owner]
            key = self._model + scope.row(digest)
            data = {"vectors": one.vector.astype(np.float16).tobytes(), "tokens": one.tokens}
            rows += [
                (name, key, _sealed(scope.written(each, _place(name, key))))
                for name, each in data.items()
                if each is not None
            ]

        def put(txn: Transaction) -> None:
            for name, key, value in sorted(rows):
                txn.put(key, value, db=self._env.tables[name])

        try:
            self._env.write(put)
        except EventLogError as error:  # derived data: missed later, and computed again
            _logger.warning("embeddings not kept", count=len(batch), error=str(error))


def _as_vectors(stored: Mapping[bytes, bytes], dimension: int) -> dict[bytes, Vectors]:
    """Return stored vectors of this dimension as float32."""
    whole = {digest: data for digest, data in stored.items() if len(data) == 2 * dimension}
    rows = np.frombuffer(b"".join(whole.values()), np.float16).reshape(-1, dimension)
    return dict(zip(whole, rows.astype(np.float32), strict=True))


def _delete_keys(
    env: Environment, names: Sequence[str], keys: Sequence[bytes], txn: Transaction
) -> None:
    for name in names:
        for key in keys:
            txn.delete(key, db=env.tables[name])


def _place(table: str, key: bytes) -> bytes:
    """Return what a row is bound to where it is encrypted."""
    return table.encode() + key


def _sealed(data: bytes) -> bytes:
    return _CRC.pack(zlib.crc32(data)) + data


def _checked(value: bytes) -> bytes | None:
    data = value[_CRC.size :]
    whole = len(value) >= _CRC.size and zlib.crc32(data) == _CRC.unpack_from(value)[0]
    return data if whole else None
