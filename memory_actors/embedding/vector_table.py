"""Vectors on disk, by model and content, in a file of derived data that may be deleted at any time.

A text is embedded once: its vector is found again by the digest of the text and the fingerprint of
the model. That is why a replay never calls the model. Vectors are kept as float16 (768 bytes, equal
to the float32 ones to a cosine of 0.999999), each behind a CRC; one that fails it counts as absent.

Writes follow behind in batches. A crash loses at most the vectors of the last moments, and they are
computed again when they are missed.
"""

import hashlib
import struct
import threading
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import structlog

from eventlog import Environment, EventLogError
from memory_actors.embedding.protocol import Vectors

DIGEST_BYTES = 16
WRITE_BEHIND_S = 0.05
WRITE_BEHIND_VECTORS = 512

_CRC = struct.Struct(">I")
_logger = structlog.get_logger("memory_actors.embedding")


def text_digest(text: str) -> bytes:
    """Return what a text's vector is found under."""
    return hashlib.sha256(text.encode()).digest()[:DIGEST_BYTES]


def as_stored(vectors: Vectors) -> Vectors:
    """Return vectors as they come back from disk: answers are the same before and after."""
    return vectors.astype(np.float16).astype(np.float32)


class VectorTable:
    """The vectors of one model, in `derived.mdb`."""

    def __init__(self, path: Path):
        self._env = Environment(path, ("vectors", "facts"))
        self._waiting: dict[bytes, Vectors] = {}
        self._lock = threading.Lock()
        self._model = b""

    def use_model(self, fingerprint: str) -> None:
        """Read and write the vectors of this model from now on."""
        self._model = hashlib.sha256(fingerprint.encode()).digest()[:8]

    def get(self, digests: Sequence[bytes], dimension: int) -> dict[bytes, Vectors]:
        """Return the vectors that are there, as float32, by digest."""
        waiting = dict(self._waiting)  # a flush in another thread may empty it meanwhile
        found = {digest: waiting[digest] for digest in digests if digest in waiting}
        stored = dict(self._stored([d for d in digests if d not in found], 2 * dimension))
        if stored:
            rows = np.frombuffer(b"".join(stored.values()), np.float16)
            matrix = rows.reshape(len(stored), dimension).astype(np.float32)
            found |= zip(stored, matrix, strict=True)
        return found

    def _stored(self, digests: Sequence[bytes], size: int) -> Iterator[tuple[bytes, bytes]]:
        """Yield digest and bytes of each stored vector that is whole."""
        table, model = self._env.tables["vectors"], self._model
        with self._env.read() as txn:
            for digest in digests:
                value = txn.get(model + digest, db=table)
                data = None if value is None else _checked(value)
                if data is not None and len(data) == size:
                    yield digest, data

    def put(self, vectors: Mapping[bytes, Vectors]) -> bool:
        """Take vectors to be written soon; say whether there are enough to write at once."""
        self._waiting |= vectors
        return len(self._waiting) >= WRITE_BEHIND_VECTORS

    @property
    def waiting(self) -> int:
        """How many vectors wait to be written."""
        return len(self._waiting)

    def flush(self) -> None:
        """Write what waits. Blocks: call it off the loop."""
        with self._lock:
            batch = dict(self._waiting)
            if batch:
                self._write(batch)
            for digest in batch:
                self._waiting.pop(digest, None)

    def fact(self, name: str) -> bytes | None:
        """Return a small fact about the derived data, such as which model made it."""
        with self._env.read() as txn:
            value = txn.get(name.encode(), db=self._env.tables["facts"])
        return None if value is None else _checked(value)

    def set_fact(self, name: str, value: bytes) -> None:
        """Store a small fact. Blocks: call it off the loop."""
        sealed = _CRC.pack(zlib.crc32(value)) + value
        table = self._env.tables["facts"]
        self._env.write(lambda txn: txn.put(name.encode(), sealed, db=table))

    def close(self) -> None:
        """Write what waits and close the file."""
        self.flush()
        self._env.close()

    def _write(self, batch: Mapping[bytes, Vectors]) -> None:
        rows = sorted((self._model + digest, _pack(vector)) for digest, vector in batch.items())
        table = self._env.tables["vectors"]
        try:
            self._env.write(lambda txn: [txn.put(key, row, db=table) for key, row in rows])
        except EventLogError as error:  # derived data: missed later, and computed again
            _logger.warning("vectors not kept", count=len(rows), error=str(error))


def _pack(vector: Vectors) -> bytes:
    data = vector.astype(np.float16).tobytes()
    return _CRC.pack(zlib.crc32(data)) + data


def _checked(value: bytes) -> bytes | None:
    data = value[_CRC.size :]
    whole = len(value) >= _CRC.size and zlib.crc32(data) == _CRC.unpack_from(value)[0]
    return data if whole else None
