"""An HNSW graph of vectors. The only file that imports hnswlib.

hnswlib is fast and unforgiving, so:

- One lock around everything: an add, a resize and a query at once end in a segmentation fault.
- Adds go in small chunks, so that a query never waits long for the lock.
- `k` never exceeds what is in the graph: asking for more raises, and leaks.
- A file is loaded only if its length, checksum, dimension and count are those written beside it: a
  damaged one crashes the process, one of another shape loads silently.
- ef and thread count are set again after each load, which resets them.
"""

import threading
import zlib
from pathlib import Path

import hnswlib
import msgspec
import numpy as np
import numpy.typing as npt

from eventlog.files.datafile import ANEW, opened
from memory_actors.search.dot_products import Coded
from memory_actors.search.embedding.protocol import Vectors

M = 16
EF_CONSTRUCTION = 100  # 200 doubles the build for nothing measurable
EF_SEARCH = 100
CHUNK_ROWS = 32  # about 4 ms at 10,000 rows: how long a query may wait for an add
GROWTH = 1.5
BYTES_PER_ROW = 2_050  # measured, resident, at 384 dimensions; 1,536 of it is the vector
READ_BYTES = 1 << 20

Rows = npt.NDArray[np.intp]


class GraphFacts(msgspec.Struct, frozen=True):
    """Facts that must hold of a graph's file before it is loaded."""

    dimension: int
    count: int
    length_bytes: int
    crc: int


class HnswGraph:
    """Vectors as nodes 0 to `count` - 1, searchable by inner product."""

    def __init__(self, dimension: int, index: hnswlib.Index, rows: Rows):
        self.rows = rows
        """The caller's number of each node."""
        self._dimension = dimension
        self._lock = threading.Lock()
        self._index = index
        index.set_ef(EF_SEARCH)
        index.set_num_threads(1)

    @classmethod
    def empty(cls, dimension: int, capacity: int) -> "HnswGraph":
        """Return a graph without rows, with room for `capacity`."""
        index = hnswlib.Index(space="ip", dim=dimension)
        index.init_index(max_elements=capacity, M=M, ef_construction=EF_CONSTRUCTION, random_seed=1)
        return cls(dimension, index, np.empty(0, np.intp))

    @property
    def count(self) -> int:
        """Nodes."""
        return len(self.rows)

    @property
    def size_bytes(self) -> int:
        """Memory of the graph, roughly."""
        return self.count * BYTES_PER_ROW

    def extend(self, vectors: Coded, rows: Rows) -> None:
        """Add these rows of `vectors` as the next nodes. Slow: call it off the loop."""
        for start in range(0, len(rows), CHUNK_ROWS):
            chunk = rows[start : start + CHUNK_ROWS]
            with self._lock:
                first, until = self.count, self.count + len(chunk)
                if until > self._index.get_max_elements():
                    self._index.resize_index(int(until * GROWTH))
                added = vectors.at(chunk).decoded()
                self._index.add_items(added, np.arange(first, until))
                self.rows = np.concatenate([self.rows, chunk])

    def search(self, query: Vectors, k: int) -> Rows:
        """Return about the `k` rows with the largest inner product with `query`.

        None at all where the graph cannot reach `k`, as among many identical vectors.
        """
        with self._lock:
            k = min(k, self.count)
            self._index.set_ef(max(EF_SEARCH, k))
            try:
                nodes, _ = self._index.knn_query(query, k=k, num_threads=1)
            except RuntimeError:  # hnswlib's only word for "fewer than k"
                return np.empty(0, np.intp)
            return np.asarray(self.rows[nodes[0]], np.intp)

    def save(self, path: Path) -> tuple[GraphFacts, Rows]:
        """Write the graph; return what to check before loading it, and its rows. Holds the GIL."""
        with self._lock:
            opened(path, ANEW).close()  # hnswlib itself would wait for the reader of a pipe
            self._index.save_index(str(path))
            facts = GraphFacts(self._dimension, self.count, path.stat().st_size, _crc(path))
            return facts, self.rows

    @classmethod
    def load(cls, path: Path, facts: GraphFacts, rows: Rows) -> "HnswGraph | None":
        """Return the graph in a file, None if it is not the one that `facts` describe."""
        if not is_whole(path, facts):
            return None
        index = hnswlib.Index(space="ip", dim=facts.dimension)
        index.load_index(str(path), max_elements=int(facts.count * GROWTH))
        if index.get_current_count() != facts.count:
            return None
        return cls(facts.dimension, index, rows)


def is_whole(path: Path, facts: GraphFacts) -> bool:
    """Say whether a file is the one that was written. Reads all of it."""
    try:
        return path.stat().st_size == facts.length_bytes and _crc(path) == facts.crc
    except OSError:
        return False


def _crc(path: Path) -> int:
    crc = 0
    with opened(path) as file:
        while chunk := file.read(READ_BYTES):
            crc = zlib.crc32(chunk, crc)
    return crc
