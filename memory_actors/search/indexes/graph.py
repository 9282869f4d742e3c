"""HNSW graphs over the vectors of a large index. Alone imports hnswlib, which an install may lack.

hnswlib builds a graph; `graph.c` searches it. A graph keeps only its links, two bytes each. The
search scores rows from the int8 codes that the index has anyway: by the score that ranks them.
hnswlib's own search needs 512 bytes more per row, cannot search several graphs together, and holds
Python's lock while a graph is loaded.

Rows are in segments of 65,536, each a graph of its own. hnswlib holds Python's lock for 10 ms while
it exports one of this size. A segment exists when it is full, and never changes. Newer rows are in
no graph: `dense.py` scores them all.

A row that was removed stays in its graph: a search passes it, but does not return it.

Threads. `grow` runs in one worker thread at a time. Segments are immutable, so searches need no
lock. A segment depends only on the rows up to its end, in their order.
"""

import ctypes
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from typing import Any, Final

import msgspec
import numpy as np
import numpy.typing as npt

from eventlog.core.compiled import FLOAT, INT, LONG, POINTER
from eventlog.core.logs import get_logger
from memory_actors.search.dot_products import LIBRARY, Floats, coded, float_dots
from memory_actors.search.embedding.protocol import Vectors
from memory_actors.search.indexes.labels import Labels, Rows
from memory_actors.search.indexes.rows import View

SEGMENT_ROWS: Final = 1 << 16
DIMENSIONS: Final = 128
"""Principal components of a sample, by which a graph is built: three times as fast as by all."""
M: Final = 12  # links of a row, twice as many at the ground
EF_CONSTRUCTION: Final = 100
SEED: Final = 1
SAMPLE_ROWS: Final = 4_096
ASKED_FOR_ONE: Final = 4  # rows that a search keeps for each that is wanted
EXPANDED_MIN: Final = 48  # rows of each segment whose links are followed
GROWN_ROWS: Final = 128  # 30 ms: a closing store waits for them
CHUNK_ROWS: Final = 8  # 2 ms
DEAD_SHARE_MAX: Final = 0.2
_BUILDS: Final = "chroma-hnswlib", "hnswlib"
_ARGUMENTS: Final = (
    INT, POINTER, LONG, LONG, POINTER, POINTER, POINTER, POINTER, FLOAT, FLOAT,
    POINTER, LONG, LONG, LONG, LONG, POINTER,
)  # fmt: skip

_logger = get_logger("memory_actors.search.indexes")


@cache
def hnswlib() -> Any:
    """Return the library; where it is not installed log that once, and return None."""
    try:
        import hnswlib as library
    except ImportError:
        _logger.warning(
            "hnswlib is not installed: vectors of large users are scanned",
            above_memories=SEGMENT_ROWS,
        )
        return None
    return library


def is_usable() -> bool:
    """Return whether graphs can be built and searched here."""
    return bool(LIBRARY.instruction_set) and hnswlib() is not None


@cache
def recipe() -> str:
    """Return the parameters and the version of hnswlib that a file is valid for."""
    from importlib import metadata  # few need it, and it takes 5 ms

    sizes = f"graph/3 {SEGMENT_ROWS} {DIMENSIONS} {M} {EF_CONSTRUCTION}"
    for name in _BUILDS:
        with suppress(metadata.PackageNotFoundError):
            return f"{sizes} {name} {metadata.version(name)}"
    return sizes


class SavedSegment(msgspec.Struct, frozen=True):
    """A segment as it is written. A node is a row, by its number in the segment."""

    recipe: str
    labels: bytes
    """Of each node, int64."""
    levels: bytes
    """Of each node, uint8: how many levels it has above the ground."""
    ground: bytes
    """uint16 [nodes, 1 + 2 M]: the number of links of each node, then the links."""
    upper: bytes
    """uint16 [levels of all nodes, 1 + M]: the same, node by node and level by level."""
    chain: bytes = b""
    """The chain of the event of the newest row: see `IndexFile`."""

    @property
    def newest(self) -> int:
        """The label of the newest row."""
        return int(np.frombuffer(self.labels, np.int64).max())


class _Layout(ctypes.Structure):
    """A `struct segment` of graph.c."""

    _fields_ = (
        ("rows", POINTER), ("ground", POINTER), ("upper", POINTER), ("places", POINTER),
        ("entry", LONG), ("levels", LONG),
    )  # fmt: skip


class Segment:
    """A graph of some rows. It never changes."""

    def __init__(self, saved: SavedSegment, rows: Rows):
        """Take a graph and the row of each node, -1 for one that was removed.

        :raises ValueError: a link leads out of the graph, or all rows were removed.
        """
        self.count = count = len(rows)
        self.saved: SavedSegment | None = saved
        """The content to write, or None after it was written."""
        levels = np.frombuffer(saved.levels, np.uint8)
        self._ground = np.frombuffer(saved.ground, np.uint16).reshape(count, 1 + 2 * M)
        self._upper = np.frombuffer(saved.upper, np.uint16).reshape(int(levels.sum()), 1 + M)
        self._places = ((np.cumsum(levels, dtype=np.int32) - levels) * (1 + M)).astype(np.int32)
        self._rows = rows.astype(np.int32)
        for links in (self._ground, self._upper):
            counts, nodes = links[:, 0], links[:, 1:]
            if counts.max(initial=0) > nodes.shape[1] or nodes.max(initial=0) >= count:
                raise ValueError("a link leads out of the graph")
        there = np.where(rows < 0, -1, levels.astype(np.int64))
        entry = int(there.argmax())
        if there[entry] < 0:
            raise ValueError("all rows of the graph were removed")
        arrays = (self._rows, self._ground, self._upper, self._places)
        self.layout = _Layout(*(array.ctypes.data for array in arrays), entry, int(there[entry]))

    @property
    def size_bytes(self) -> int:
        """Memory held."""
        return sum(one.nbytes for one in (self._rows, self._ground, self._upper, self._places))


class _Building:
    """The rows of the next segment that are in hnswlib's graph already."""

    def __init__(self, view: View, first: int):
        until = first + SEGMENT_ROWS
        sampled = view.vectors.at(slice(0, until, -(-until // SAMPLE_ROWS))).decoded()
        self._centre = sampled.mean(axis=0)
        spread = _unit(sampled - self._centre)
        _, vectors = np.linalg.eigh(spread.T @ spread)  # by their share, ascending
        self._components = np.ascontiguousarray(vectors.T[::-1][:DIMENSIONS], np.float32)
        self._first = first
        self.count = 0
        self._index = hnswlib().Index(space="ip", dim=len(self._components))
        self._index.init_index(SEGMENT_ROWS, M=M, ef_construction=EF_CONSTRUCTION, random_seed=SEED)

    def grow(self, view: View) -> None:
        """Take in the next rows."""
        first = self._first + self.count
        rows = view.vectors.at(slice(first, min(first + GROWN_ROWS, self._first + SEGMENT_ROWS)))
        vectors = _unit(float_dots(self._components, rows.decoded() - self._centre).T)
        for some in np.array_split(vectors, -(-len(vectors) // CHUNK_ROWS)):
            self._index.add_items(
                some, np.arange(self.count, self.count + len(some)), num_threads=1
            )
            self.count += len(some)

    def built(self, labels: npt.NDArray[np.int64]) -> SavedSegment:
        """Return the full graph, of rows with these labels."""
        (about,) = self._index.__getstate__()
        nodes = about["data_level0"].reshape(-1, about["size_data_per_element"])
        ground = nodes[:, : about["offset_data"]].copy().view(np.uint32)
        upper = about["link_lists"].view(np.uint32).reshape(-1, 1 + M)
        return SavedSegment(
            recipe(),
            labels=labels.tobytes(),
            levels=about["element_levels"][: len(nodes)].astype(np.uint8).tobytes(),
            ground=ground.astype(np.uint16).tobytes(),
            upper=upper.astype(np.uint16).tobytes(),
        )


class Graph:
    """The first `count` rows of an index."""

    def __init__(self, segments: Sequence[Segment] = (), count: int = 0):
        self._found = tuple(segments), count  # replaced as one
        self._building: _Building | None = None

    @property
    def segments(self) -> tuple[Segment, ...]:
        """The graphs."""
        return self._found[0]

    @property
    def count(self) -> int:
        """Rows."""
        return self._found[1]

    @property
    def size_bytes(self) -> int:
        """Memory held."""
        return sum(segment.size_bytes for segment in self.segments)

    def grow(self, view: View) -> None:
        """Take some of the next rows into the next segment; add it once it is full.

        The index has enough rows for it. For one thread at a time.
        """
        segments, count = self._found
        if self._building is None:
            self._building = _Building(view, count)
        self._building.grow(view)
        if self._building.count == SEGMENT_ROWS:
            until = count + SEGMENT_ROWS
            saved = self._building.built(view.labels[count:until])
            segment = Segment(saved, np.arange(count, until))
            self._found, self._building = ((*segments, segment), until), None

    def near(
        self, view: View, direction: Vectors, middle: float, lengths: Vectors | None, k: int
    ) -> Rows:
        """Return living rows that have nearly all of the `k` best, in any order.

        The score of a row is (row @ direction - middle) / its length.
        """
        segments, _ = self._found
        query, wanted = coded(direction[None]), ASKED_FOR_ONE * k
        layouts = (_Layout * len(segments))(*(segment.layout for segment in segments))
        found = np.empty(wanted, np.int64)
        codes, steps, alive = map(np.ascontiguousarray, (*view.vectors, view.alive))
        count = LIBRARY.function("graph_near", *_ARGUMENTS, result=LONG)(
            LIBRARY.instruction_set, codes.ctypes.data, codes.shape[1], len(codes),
            steps.ctypes.data, None if lengths is None else lengths.ctypes.data, alive.ctypes.data,
            query.codes.ctypes.data, query.steps[0], middle,
            layouts, len(segments), M, EXPANDED_MIN, wanted, found.ctypes.data,
        )  # fmt: skip
        if count < 0:
            raise MemoryError("a search in a graph needs more memory")
        return found[:count]

    @classmethod
    def restored(cls, saved: Sequence[SavedSegment], index: Labels, view: View) -> "Graph":
        """Return the graph of those rows that are still there; an empty one of too few. Slow."""
        labels = [np.frombuffer(one.labels, np.int64) for one in saved]
        rows = index.rows_of_all(np.concatenate([np.empty(0, np.int64), *labels]))
        there = np.append(~view.alive, False)  # one that has gone is not missed
        there[rows[rows >= 0]] = True
        count = int(np.argmin(there))  # rows behind it may be in another order than then
        rows[rows >= count] = -1
        if not count or (rows < 0).mean() > DEAD_SHARE_MAX:
            return cls()
        ends = np.cumsum([len(one) for one in labels])[:-1]
        with suppress(ValueError):
            each = zip(saved, np.split(rows, ends), strict=True)
            segments = [Segment(one, some) for one, some in each]
            for segment in segments:
                segment.saved = None
            return cls(segments, count)
        return cls()


def _unit(rows: Floats) -> Floats:
    """Return rows at length 1, one behind another; zeros stay. NaN would cut all others off."""
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.ascontiguousarray(np.nan_to_num(rows / np.maximum(lengths, 1e-12)), np.float32)
