"""Embeddings on disk, by model and content, in a file of derived data that may be deleted.

A text is embedded once: its vector and its token states are found again by the digest of the text
and the fingerprint of the model. That is why a replay never calls the model. rows.py says what a
row is. As int8 a vector of length 1 is equal to the float32 one to a cosine of 0.0001.

Writes follow behind in batches. A crash loses at most the vectors of the last moments, and they are
computed again when they are missed.
"""

import hashlib
import secrets
import threading
import zlib
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from copy import copy
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple, Self

import numpy as np
import numpy.typing as npt

from eventlog import Environment, EventLogError
from eventlog.core.logs import get_logger
from eventlog.files.datafile import remove_named, storing
from eventlog.files.pages import CHECKED_BYTES_MAX
from eventlog.lmdb.file import Transaction
from memory_actors.base.errors import StoreBusyError
from memory_actors.search.dot_products import Bytes, Coded, units_of
from memory_actors.search.embedding.protocol import Embedded
from memory_actors.search.embedding.rows import (
    EVERYBODY,
    FACTS,
    HEADER,
    MODEL_BYTES,
    NO_NUMBER,
    PLACES,
    ROWS,
    TABLES,
    Numbers,
    Owner,
    checked,
    codes_of,
    delete_keys,
    embedded_in,
    fits,
    numbers_of,
    put_row,
    read_codes,
    read_rows,
    row_of,
    rows_at,
    seal,
    stored_numbers,
    written,
)

WRITE_BEHIND_S = 0.05
DELETE_ROWS = 1_000  # in one transaction: a flush does not wait for long
SHRINK_PART = 10  # of the file must be free before it is copied
WRITE_BEHIND_VECTORS = 512
MATRIX_ROWS = 512  # read at once: half a megabyte, all of which stays in the processor's cache
IDENTITY, IDENTITY_BYTES = "identity", 16

FILE = "derived.mdb"
MEMORY = "/dev/shm"  # noqa: S108 - its directory has a random name, and is the owner's
DAMAGED = ".damaged"
"""Suffix of a file that was put aside."""
_logger = get_logger("memory_actors.search.embedding")


class _Unwritten(NamedTuple):
    owner: Owner
    digest: bytes
    embedded: Embedded


class VectorTable:
    """The embeddings of one model, in `derived.mdb`."""

    def __init__(self, path: Path, *, checked_bytes_max: int = CHECKED_BYTES_MAX):
        self._env = Environment(
            path, TABLES, checked_bytes_max=checked_bytes_max, busy=StoreBusyError
        )
        self._waiting: dict[bytes, _Unwritten] = {}
        """By the owner's prefix and the digest."""
        self._lock = threading.Lock()
        self._model = b""
        try:
            self.identity = self.fact(IDENTITY) or self._new_identity()
            """Tells this table from others, in which the same numbers are those of other rows."""
        except BaseException:  # else the next attempt to create the table would find it locked
            self._env.close()
            raise

    @classmethod
    def in_memory(cls) -> Self:
        """Return a table that goes with the process, in a file that takes memory where it can.

        The file has no name once it is open, so a process that is killed leaves none.

        :raises EventLogError: there is no room for it, either, or it cannot be made.
        """
        place = MEMORY if Path(MEMORY).is_dir() else None
        with storing(Path(MEMORY)), TemporaryDirectory(prefix="memory-actors-", dir=place) as name:
            return cls(Path(name, FILE))

    def _new_identity(self) -> bytes:
        identity = secrets.token_bytes(IDENTITY_BYTES)
        try:
            self.set_facts({IDENTITY: identity})
        except EventLogError as error:  # derived data: then rows are looked up by their digests
            _logger.warning("table of embeddings has no identity", error=str(error))
        return identity

    def use_model(self, fingerprint: str) -> None:
        """Read and write the embeddings of this model from now on."""
        self._model = hashlib.sha256(fingerprint.encode()).digest()[:MODEL_BYTES]

    def of_model(self, fingerprint: str) -> Self:
        """Return the table of another model, in the same file."""
        other = copy(self)
        other._waiting = {}  # noqa: SLF001 - its own
        other.use_model(fingerprint)
        return other

    def get(
        self, digests: Sequence[bytes], dimension: int, owner: Owner = EVERYBODY
    ) -> dict[bytes, Embedded]:
        """Return the embeddings that are there, by digest."""
        found = self._waiting_of(digests, owner)
        rows = self._stored([d for d in digests if d not in found], dimension, owner)
        embedded = embedded_in([*rows.values()], dimension) if rows else []
        return found | dict(zip(rows, embedded, strict=True))

    def tokens(
        self, digests: Sequence[bytes], dimension: int, owner: Owner, numbers: Numbers
    ) -> dict[bytes, bytes]:
        """Return the packed token states that are there, by digest; see `matrix` for `numbers`."""
        rows, body = self._chunk(digests, numbers, dimension, owner), HEADER.size + dimension
        pairs = zip(digests, rows, strict=True)
        return {digest: row[body:] for digest, row in pairs if row and len(row) > body}

    def _waiting_of(self, digests: Sequence[bytes], owner: Owner) -> dict[bytes, Embedded]:
        waiting, prefix = self._waiting, owner.prefix
        if not waiting:
            return {}
        found = ((digest, waiting.get(prefix + digest)) for digest in digests)
        return {digest: one.embedded for digest, one in found if one is not None}

    def matrix(
        self,
        digests: Sequence[bytes],
        dimension: int,
        owner: Owner = EVERYBODY,
        numbers: Numbers | None = None,
        into: Bytes | None = None,
        crc: int = 0,
    ) -> tuple[Coded, npt.NDArray[np.bool_]]:
        """Return the vectors, [n, d], and which are there; the others are zeros.

        `into`, if given, is an array of zeros, int8 [n, d], that takes the codes. Rows are looked
        for under their `numbers` first, which takes half the time; those that are wrong become 0.
        If the codes there have this CRC-32, no row is checked, and it takes a quarter of that.
        """
        known = np.zeros(len(digests), np.uint32) if numbers is None else numbers
        codes = np.zeros((len(digests), dimension), np.int8) if into is None else into
        if self._read_codes(known, crc, codes, owner):
            return units_of(codes), np.ones(len(digests), np.bool_)
        there = np.zeros(len(digests), np.bool_)
        for start in range(0, len(digests), MATRIX_ROWS):
            chunk = digests[start : start + MATRIX_ROWS]
            found = self._chunk(chunk, known[start : start + MATRIX_ROWS], dimension, owner)
            rows = start + np.flatnonzero([row is not None for row in found])
            codes[rows] = codes_of([row for row in found if row is not None], dimension)
            there[rows] = True
        return units_of(codes), there

    def _read_codes(self, numbers: Numbers, crc: int, into: Bytes, owner: Owner) -> bool:
        """Read codes that have a CRC-32 into an array of zeros, or nothing; say whether it did."""
        if not crc or owner.is_encrypted or not numbers.all():
            return False
        ordered, places = np.unique(numbers, return_inverse=True)
        with self._env.read(buffers=True) as txn:
            found = read_codes(txn, ordered, into)
        if found and (places[1:] <= places[:-1]).any():
            into[:] = into.take(places, axis=0)
        found = found and zlib.crc32(into.data) == crc
        if not found:
            into[:] = 0
        return found

    def _chunk(
        self, digests: Sequence[bytes], numbers: Numbers, dimension: int, owner: Owner
    ) -> list[bytes | None]:
        others = {d: row_of(one) for d, one in self._waiting_of(digests, owner).items()}
        rows = self._numbered(digests, numbers, dimension, owner)
        pairs = zip(digests, rows, strict=True)
        lacking = [digest for digest, row in pairs if row is None and digest not in others]
        if lacking:
            others |= self._stored(lacking, dimension, owner)
        if not others:
            return rows
        return [others.get(digest, row) for digest, row in zip(digests, rows, strict=True)]

    def _numbered(
        self, digests: Sequence[bytes], numbers: Numbers, dimension: int, owner: Owner
    ) -> list[bytes | None]:
        """Return the rows that have these numbers; those that are wrong become 0."""
        scope = owner.scope()
        if scope is None or not numbers.any():
            return [None] * len(digests)
        model, row_name = self._model, scope.row
        keys = [model + row_name(digest) for digest in digests]
        with self._env.read() as txn:
            rows = rows_at(txn, stored_numbers(numbers), keys, scope, dimension)
        numbers[[place for place, row in enumerate(rows) if row is None]] = 0
        return rows

    def numbers(self, digests: Sequence[bytes], owner: Owner = EVERYBODY) -> Numbers:
        """Return the numbers of the rows of texts; 0 for one that has none. Blocks."""
        self.flush()
        numbers = np.zeros(len(digests), np.uint32)
        if (scope := owner.scope()) is None:
            return numbers
        for start in range(0, len(digests), MATRIX_ROWS):  # a look-up holds up the interpreter
            chunk = digests[start : start + MATRIX_ROWS]
            keys = [self._model + scope.row(digest) for digest in chunk]
            with self._env.read() as txn, txn.cursor(txn.tables[PLACES]) as cursor:
                found = dict(cursor.getmulti(sorted(keys)))
            numbers[start : start + len(chunk)] = numbers_of(
                found.get(key, NO_NUMBER) for key in keys
            )
        return numbers

    def _stored(self, digests: Sequence[bytes], dimension: int, owner: Owner) -> dict[bytes, bytes]:
        if (scope := owner.scope()) is None:
            return {}
        keys = {self._model + scope.row(digest): digest for digest in digests}
        with self._env.read() as txn:
            with txn.cursor(txn.tables[PLACES]) as cursor:  # read in the order they lie in
                places = sorted((number, key) for key, number in cursor.getmulti(sorted(keys)))
            numbers, known = [number for number, _ in places], [key for _, key in places]
            found = rows_at(txn, numbers, known, scope, dimension) if known else []
        return {keys[key]: row for key, row in zip(known, found, strict=True) if row}

    # --- as they lie in the table, to be kept elsewhere too, and to come back

    def sealed(
        self, embedded: Mapping[bytes, Embedded | None], owner: Owner
    ) -> dict[bytes, bytes | None]:
        """Return embeddings as they lie on disk, by key; None stays None. Slow: for a thread."""
        if (scope := owner.scope()) is None:
            return {}
        keys = {self._model + scope.row(digest): one for digest, one in embedded.items()}
        return {k: one and written(row_of(one), k, scope) for k, one in keys.items()}

    def lacking(self, digests: Collection[bytes], owner: Owner) -> dict[bytes, bytes]:
        """Return the keys of those texts that nothing is known of here, with their digests."""
        if (scope := owner.scope()) is None:
            return {}
        unknown = [d for d in digests if owner.prefix + d not in self._waiting]
        keys = {self._model + scope.row(digest): digest for digest in unknown}
        with self._env.read() as txn, txn.cursor(txn.tables[PLACES]) as cursor:
            for key, _ in cursor.getmulti(sorted(keys)):
                del keys[key]
        return keys

    def opened(
        self, values: Mapping[bytes, bytes], digests: Mapping[bytes, bytes], dimension: int,
        owner: Owner,
    ) -> dict[bytes, Embedded]:  # fmt: skip
        """Decode such values, by digest; `digests` are those of their keys."""
        if (scope := owner.scope()) is None:
            return {}
        rows = zip(values, read_rows(values.values(), values, scope), strict=True)
        whole = {digests[key]: row for key, row in rows if row and fits(row, dimension)}
        return dict(zip(whole, embedded_in(list(whole.values()), dimension), strict=True))

    def take(self, values: Mapping[bytes, bytes]) -> None:
        """Write such values, by key. Blocks: call it off the loop."""
        with self._lock:
            self._write(values.items(), len(values))

    # --- written

    def put(self, embedded: Mapping[bytes, Embedded], owner: Owner = EVERYBODY) -> bool:
        """Take embeddings to be written soon; say whether there are enough to write at once."""
        self._waiting |= {
            owner.prefix + d: _Unwritten(owner, d, one) for d, one in embedded.items()
        }
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
                scoped = [(owner.scope_to_write(), d, one) for owner, d, one in batch.values()]
                rows = (
                    (key := self._model + scope.row(digest), written(row_of(one), key, scope))
                    for scope, digest, one in scoped
                )
                self._write(rows, len(batch))
            for name, one in batch.items():
                if self._waiting.get(name) is one:  # else it was replaced while this was written
                    self._waiting.pop(name, None)

    def delete(self, digests: Sequence[bytes], owner: Owner = EVERYBODY) -> None:
        """Delete embeddings, where they are there. Blocks: call it off the loop."""
        for start in range(0, len(digests), DELETE_ROWS):
            some, scope = digests[start : start + DELETE_ROWS], owner.scope()
            with self._lock:
                for digest in some:
                    self._waiting.pop(owner.prefix + digest, None)
                keys = sorted(self._model + scope.row(digest) for digest in some) if scope else []
                try:
                    if keys:
                        self._env.write(partial(delete_keys, keys))
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
            with self._env.read() as txn, txn.cursor(txn.tables[PLACES]) as cursor:
                every = cursor.iternext(keys=True, values=False)
                keys = [key for key in every if key[MODEL_BYTES:] in rows]
            known |= {rows[key[MODEL_BYTES:]] for key in keys}
            self._env.write(partial(delete_keys, keys))
            self._env.shrink()
        damaged = self._env.path.with_suffix(DAMAGED)
        remove_named(damaged.parent, lambda name: name == damaged.name)
        return len(known)

    def delete_other_models(self) -> None:
        """Delete the embeddings of all models but this one. Blocks: call it off the loop.

        :raises EventLogError: the disk is full or failed; it can be repeated.
        """
        with self._env.read() as txn, txn.cursor(txn.tables[PLACES]) as cursor:
            every = cursor.iternext(keys=True, values=False)
            keys = [key for key in every if not key.startswith(self._model)]
        for start in range(0, len(keys), DELETE_ROWS):
            with self._lock:
                self._env.write(partial(delete_keys, keys[start : start + DELETE_ROWS]))
        self.shrink()

    def clear(self) -> None:
        """Delete all embeddings, and every byte of them. Blocks: call it off the loop.

        :raises EventLogError: the disk is full or failed; it can be repeated.
        """

        def drop(txn: Transaction) -> None:
            for name in (PLACES, ROWS):
                txn.drop(txn.tables[name], delete=False)

        with self._lock:
            self._waiting.clear()
            self.identity = self._new_identity()  # numbers begin anew
            self._env.write(drop)
            self._env.shrink()

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
            value = txn.get(name.encode(), db=txn.tables[FACTS])
        return None if value is None else checked(value)

    def set_facts(self, facts: Mapping[str, bytes]) -> None:
        """Store small facts by name, all or none. Blocks: call it off the loop."""

        def put(txn: Transaction) -> None:
            for name, value in facts.items():
                txn.put(name.encode(), seal(value), db=txn.tables[FACTS])

        self._env.write(put)

    def close(self) -> None:
        """Write pending rows and close the file."""
        self.flush()
        self._env.close()

    def _write(self, rows: Iterable[tuple[bytes, bytes]], count: int) -> None:
        def put(txn: Transaction) -> None:
            for key, row in rows:
                put_row(txn, key, row)

        try:
            self._env.write(put)
        except EventLogError as error:  # derived data: missed later, and computed again
            _logger.warning("embeddings not kept", count=count, error=str(error))
