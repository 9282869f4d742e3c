"""HNSW graphs over the vectors of a large index. Alone imports hnswlib, which an install may lack.

hnswlib builds a graph; `graph.c` searches it. A graph keeps its links, two bytes each, and a sketch
of each row: two bits for each coordinate. A search reads sketches alone, and proposes rows to be
scored exactly. hnswlib's own search reads five times as much for each row, cannot search several
graphs together, and holds Python's lock while a graph is loaded.

Rows are in segments of 65,536, each a graph of its own. hnswlib holds Python's lock for 10 ms while
it exports one of this size. A segment exists when it is full, and never changes. Newer rows are in
no graph: a search compares all of their sketches. Without a segment, that is all rows.

A row that was removed stays in its graph: a search passes it, but does not return it.

Threads. `grow` runs in one worker thread at a time. Segments are immutable, so searches need no
lock. A segment depends only on the rows up to its end, in their order.
"""

import ctypes
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from eventlog.core.compiled import FLOAT, LONG, POINTER
from eventlog.core.logs import get_logger
from memory_actors.search.dot_products import LIBRARY, Bytes, Coded, Floats, coded, float_dots
from memory_actors.search.embedding.protocol import Vectors
from memory_actors.search.indexes.labels import Labels, Rows, grown, in_order, zeros
from memory_actors.search.indexes.rows import View

SEGMENT_ROWS: Final = 1 << 16
DIMENSIONS: Final = 128
"""Principal components of a sample, by which a graph is built: three times as fast as by all."""
M: Final = 12  # links of a row, twice as many at the ground
EF_CONSTRUCTION: Final = 100
SEED: Final = 1
SAMPLE_ROWS: Final = 4_096
TAIL_MIN: Final = 2 * SEGMENT_ROWS  # rows in no graph that have room
ASKED_FOR_ONE: Final = 4  # rows that a search proposes for each that is wanted
EXPANDED_FOR_ONE: Final = 4  # rows whose links are followed, and one more for each segment
EXPANDED_MIN: Final = 16  # of these in each segment
WANTED_MIN: Final = 100
UNSKETCHED_MAX: Final = 64  # of these, the newest: they are all returned
CENTRED_ONE_IN: Final = 16  # rows of a segment, of which its centre is the mean
GROWN_ROWS: Final = 128  # 30 ms: a closing store waits for them
CHUNK_ROWS: Final = 8  # 2 ms
DEAD_SHARE_MAX: Final = 0.2
_BUILDS: Final = "chroma-hnswlib", "hnswlib"
_NEAR: Final = (
    POINTER, LONG, FLOAT, FLOAT, POINTER, LONG, LONG, POINTER, LONG, LONG, LONG, POINTER,
)  # fmt: skip
_SKETCH: Final = POINTER, POINTER, LONG, POINTER, LONG, POINTER, LONG, POINTER, POINTER
_FIELDS: Final = 4  # of a byte of a sketch
_WIDE: Final = 32  # bytes that C reads together
_MIXED: Final = 32  # coordinates
_BITS: Final = np.bitwise_count(np.arange(_MIXED)[:, None] & np.arange(_MIXED))
_HADAMARD: Final = np.where(_BITS % 2, np.float32(-1), np.float32(1))
_FURTHEST: Final = (_FIELDS - 1) / 2  # from zero, in standard deviations of a coordinate
_HALF: Final = 1 << 11  # buckets for scores above zero

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


# --- sketches
#
# Theory. A coordinate of v - centre is below zero or not, and far from it or not. These two bits of
# each tell nearly as much about the order of scores as all eight: of the 200 closest among 200,000
# sentences and mixtures of them, the best 400 by sketches have 0.989, the best 600 have 0.999. The
# query has its eight bits. A sketch of 384 coordinates takes 96 bytes, and 7 ns if it is cached.
#
# Some models put most into a few coordinates, and two bits of these are too few. Therefore 32
# coordinates at a time are mixed by a Hadamard matrix, which changes no product.


def _width(dimension: int) -> int:
    """Return the bytes of a sketch."""
    return -(-dimension // (_FIELDS * _WIDE)) * _WIDE


def _mixed(direction: Vectors, width: int) -> Bytes:
    """Return the codes of a query for sketches so wide."""
    padded = np.zeros((_MIXED, _FIELDS * width // _MIXED), np.float32)
    padded.ravel()[: len(direction)] = direction
    codes: Bytes = coded((_HADAMARD @ padded).reshape(1, -1)).codes[0]
    return codes


def _sketch(
    vectors: Coded, rows: npt.NDArray[np.int32], centre: Vectors, sketches: npt.NDArray[np.uint8]
) -> None:
    """Write the sketch of each row; -1 is left out."""
    codes, steps = np.ascontiguousarray(vectors.codes), np.ascontiguousarray(vectors.steps)
    dimension, width = codes.shape[1], sketches.shape[1]
    centre, buffer = np.ascontiguousarray(centre), np.zeros(_FIELDS * width, np.float32)
    LIBRARY.function("graph_sketch", *_SKETCH)(
        codes.ctypes.data, steps.ctypes.data, dimension, rows.ctypes.data, len(rows),
        centre.ctypes.data, width, buffer.ctypes.data, sketches.ctypes.data,
    )  # fmt: skip


class _Layout(ctypes.Structure):
    """A `struct segment` of graph.c."""

    _fields_ = (
        ("sketches", POINTER), ("rows", POINTER), ("ground", POINTER), ("upper", POINTER),
        ("places", POINTER), ("count", LONG), ("entry", LONG), ("levels", LONG),
    )  # fmt: skip


class _Tail(NamedTuple):
    """The rows behind the segments, with sketches of the first ones and room for more."""

    centre: Vectors
    rows: npt.NDArray[np.int32]
    sketches: npt.NDArray[np.uint8]
    sketched: int = 0

    def layout(self, count: int) -> _Layout:
        """Return the sketched ones of so many rows as a segment without links."""
        data = self.sketches.ctypes.data, self.rows.ctypes.data
        return _Layout(*data, None, None, None, min(self.sketched, count), 0, 0)


class Segment:
    """A graph of some rows. It never changes."""

    def __init__(self, saved: SavedSegment, rows: Rows, vectors: Coded):
        """Take a graph and the row of each node, -1 for one that was removed. Slow: for a thread.

        :raises ValueError: a link leads out of the graph, or all rows were removed.
        """
        self.count = count = len(rows)
        self.saved: SavedSegment | None = saved
        """The content to write, or None after it was written."""
        levels = np.frombuffer(saved.levels, np.uint8)
        self._ground = grown(
            np.frombuffer(saved.ground, np.uint16).reshape(count, 1 + 2 * M), count
        )
        self._upper = np.frombuffer(saved.upper, np.uint16).reshape(int(levels.sum()), 1 + M)
        self._places = ((np.cumsum(levels, dtype=np.int32) - levels) * (1 + M)).astype(np.int32)
        self._rows = rows.astype(np.int32)
        for links in (self._ground, self._upper):
            counts, nodes = links[:, 0], links[:, 1:]
            if counts.max(initial=0) > nodes.shape[1] or nodes.max(initial=0) >= count:
                raise ValueError("a link leads out of the graph")
        living = rows[rows >= 0]
        if not len(living):
            raise ValueError("all rows of the graph were removed")
        self.centre: Vectors = vectors.at(living[::CENTRED_ONE_IN]).decoded().mean(axis=0)
        self._sketches = zeros((count, _width(vectors.codes.shape[1])), np.uint8, count)
        _sketch(vectors, self._rows, self.centre, self._sketches)
        arrays = self._sketches, self._rows, self._ground, self._upper, self._places
        entry = int(levels.argmax())
        pointers = (array.ctypes.data for array in arrays)
        self.layout = _Layout(*pointers, count, entry, int(levels[entry]))

    @property
    def size_bytes(self) -> int:
        """Memory held."""
        arrays = self._sketches, self._rows, self._ground, self._upper, self._places
        return sum(array.nbytes for array in arrays)


# --- graphs


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
        self._tail: tuple[int, _Tail] | None = None
        """The rows behind so many."""

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
        _, tail = self._tail or (0, None)
        newer = 0 if tail is None else tail.sketched * tail.sketches.shape[1]
        return newer + sum(segment.size_bytes for segment in self.segments)

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
            segment = Segment(saved, np.arange(count, until), view.vectors)
            self._sketched_tail(view, until, [segment])  # searches on the loop need not
            self._found, self._building = ((*segments, segment), until), None

    def near(self, view: View, direction: Vectors, k: int) -> Rows | None:
        """Return living rows that have nearly all of the `k` closest to a direction, in order.

        Returns None for a view that is older than the graph.
        """
        segments, known = self._found
        size = len(view.labels)
        if size < known:
            return None
        tail = self._sketched_tail(view, known, segments)
        width, wanted = tail.sketches.shape[1], max(k, WANTED_MIN)
        kept = wanted * (EXPANDED_FOR_ONE + len(segments))
        query = _mixed(direction, width)
        layouts = (_Layout * (1 + len(segments)))(
            tail.layout(size - known), *(segment.layout for segment in segments)
        )
        most = _FURTHEST * np.abs(query, dtype=np.int64).sum()
        alive, found = np.ascontiguousarray(view.alive), np.empty(2 * kept, np.int64)
        count = LIBRARY.function("graph_near", *_NEAR, result=LONG)(
            query.ctypes.data, width, _FURTHEST * query.sum(), _HALF / max(most, 1), layouts,
            len(layouts), M, alive.ctypes.data, EXPANDED_MIN, kept,
            ASKED_FOR_ONE * wanted, found.ctypes.data,
        )  # fmt: skip
        if count < 0:
            raise MemoryError("a search in a graph needs more memory")
        newest = known + tail.sketched
        return in_order(size, found[:count], newest + np.flatnonzero(view.alive[newest:]))

    def _sketched_tail(self, view: View, known: int, segments: Sequence[Segment]) -> _Tail:
        """Return the rows behind the segments, sketched but for a few."""
        first, tail = self._tail or (-1, None)
        count = len(view.labels) - known
        if tail is None or first != known:
            if segments:
                centre = segments[-1].centre
            else:  # of rows that every search has
                centre = view.vectors.at(slice(0, SAMPLE_ROWS)).decoded().mean(axis=0)
            tail = _Tail(centre, np.zeros(0, np.int32), zeros((0, _width(len(centre))), np.uint8))
        if count > len(tail.rows):
            room = max(2 * count, TAIL_MIN)
            rows = np.arange(known, known + room, dtype=np.int32)
            tail = tail._replace(rows=rows, sketches=grown(tail.sketches, room))
        if count - tail.sketched > UNSKETCHED_MAX:
            # Searches that do so together write the same bytes, behind what others read.
            fresh = slice(tail.sketched, count)
            _sketch(view.vectors, tail.rows[fresh], tail.centre, tail.sketches[fresh])
            tail = tail._replace(sketched=count)
            self._tail = known, tail
        return tail

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
            segments = [Segment(one, some, view.vectors) for one, some in each]
            for segment in segments:
                segment.saved = None
            graph = cls(segments, count)
            graph._sketched_tail(view, count, segments)
            return graph
        return cls()


def _unit(rows: Floats) -> Floats:
    """Return rows at length 1, one behind another; zeros stay. NaN would cut all others off."""
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.ascontiguousarray(np.nan_to_num(rows / np.maximum(lengths, 1e-12)), np.float32)
