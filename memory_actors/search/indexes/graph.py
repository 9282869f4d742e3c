"""HNSW graphs over the vectors of a large index. Alone imports hnswlib, which an install may lack.

A graph proposes rows and `dense.py` scores them exactly, so it holds less than the vectors: 128
coordinates instead of 384, the principal components of a sample of the rows. Among the
1,000 closest rows by these are 0.99 of the 300 closest by all coordinates.

Rows are in segments of 65,536, each a graph of its own. hnswlib holds Python's lock while it takes
in or gives out a graph, so a segment is as large as 10 ms allow; it has room for all its rows from
the start, so it never moves; and once it is full, it never changes.

A row that was removed stays in its graph, and its number is filtered from what is found.

Threads. `grow` runs in one worker thread at a time. hnswlib crashes where a graph is searched and
grown at once: a lock parts the two, and `grow` holds it for a few rows. A segment depends on
the rows before it alone, in their order, and not on when they were taken in.
"""

from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from threading import Lock
from typing import Any, Final

import msgspec
import numpy as np
import numpy.typing as npt

from eventlog.core.logs import get_logger
from memory_actors.search.dot_products import Floats, float_dots
from memory_actors.search.embedding.protocol import Vectors
from memory_actors.search.indexes.labels import Labels, Rows
from memory_actors.search.indexes.rows import View

GRAPH_MIN: Final = 50_000  # rows: why, says the table in docs/internals/retrieval.md
GRAPH_TAIL_MAX: Final = 512  # rows that are not in a graph before it grows
SEGMENT_ROWS: Final = 1 << 16
DIMENSIONS: Final = 128
M: Final = 12  # links of a row, twice as many at the ground: 0.007 of recall more than 8 give
EF_CONSTRUCTION: Final = 100
SEED: Final = 1
SAMPLE_ROWS: Final = 4_096
ASKED_MIN: Final = 128  # rows of a segment, and
ASKED_FOR_ONE: Final = 4  # of all for each that is wanted, at first
ASKED_MORE: Final = 4  # times as many, of a segment that may have more
GROWN_ROWS: Final = 256  # 50 ms: whoever closes a store waits for them
CHUNK_ROWS: Final = 8  # 2 ms: no search waits longer
NEW_SHARE_MAX: Final = 0.25  # of the rows of a segment, before it is written again
DEAD_SHARE_MAX: Final = 0.2
ROW_BYTES: Final = 8 * M + 112  # beside its vector: links, its lock, and the way from its number
GONE: Final = 1 << 40
"""Numbers from here on are of rows that have gone."""
_ARRAYS: Final = {"element_levels": np.int32, "link_lists": np.int8}
_BUILDS: Final = "chroma-hnswlib", "hnswlib"
_UNREADABLE: Final = KeyError, RuntimeError, TypeError, ValueError

_logger = get_logger("memory_actors.search.indexes")


@cache
def hnswlib() -> Any:
    """Return the library; where it is not installed log that once, and return None."""
    try:
        import hnswlib as library
    except ImportError:
        _logger.warning(
            "hnswlib is not installed: vectors of large users are scanned", above_memories=GRAPH_MIN
        )
        return None
    return library


@cache
def recipe() -> str:
    """Return the parameters and the version of hnswlib that a file is valid for."""
    from importlib import metadata  # few need it, and it takes 5 ms

    sizes = f"graph/1 {SEGMENT_ROWS} {DIMENSIONS} {M}"
    for name in _BUILDS:
        with suppress(metadata.PackageNotFoundError):
            return f"{sizes} {name} {metadata.version(name)}"
    return sizes


class SavedSegment(msgspec.Struct, frozen=True):
    """A segment without its vectors, which follow from the codes of its rows."""

    recipe: str
    labels: bytes
    """Of each row, int64; -1 for one that has gone."""
    centre: bytes
    components: bytes
    links: bytes
    """At the ground, of all rows."""
    about: dict[str, Any]
    """Whatever else hnswlib keeps of a graph."""


class Segment:
    """A graph of some rows; each is in it under its number."""

    def __init__(self, centre: Vectors, components: Floats):
        self._centre = centre
        self._components = components
        self.count = 0
        """Rows, those that have gone included."""
        self.written = 0
        """Rows that its file has."""
        self._index: Any = None

    @classmethod
    def of(cls, view: View, until: int) -> "Segment":
        """Return an empty one, with the principal components of a sample of the rows until one."""
        sampled = view.vectors.at(slice(0, until, -(-until // SAMPLE_ROWS))).decoded()
        centre = sampled.mean(axis=0)
        spread = _unit(sampled - centre)
        _, vectors = np.linalg.eigh(spread.T @ spread)  # by their share, ascending
        segment = cls(centre, np.ascontiguousarray(vectors.T[::-1][:DIMENSIONS], np.float32))
        segment._index = hnswlib().Index(space="ip", dim=len(segment._components))
        segment._index.init_index(
            SEGMENT_ROWS, M=M, ef_construction=EF_CONSTRUCTION, random_seed=SEED
        )
        return segment

    @property
    def room(self) -> int:
        """Rows that may still come."""
        return SEGMENT_ROWS - self.count

    @property
    def wants_writing(self) -> bool:
        """True if it is full and its file is not, or if many rows came since that was written."""
        new = self.count - self.written
        return bool(new) and (not self.room or new > NEW_SHARE_MAX * self.count)

    @property
    def size_bytes(self) -> int:
        """Memory held."""
        return self.count * (4 * len(self._components) + ROW_BYTES)

    def projected(self, vectors: Floats) -> Floats:
        """Return vectors as a graph has them."""
        return _unit(float_dots(self._components, vectors - self._centre).T)

    def add(self, rows: Rows, vectors: Floats) -> None:
        """Take in the next rows, projected."""
        self._index.add_items(vectors, rows, num_threads=1)
        self.count += len(rows)

    def closest(self, query: Vectors, k: int) -> tuple[Rows, Vectors]:
        """Return about the `k` closest rows, and how far they are; all, if there are no more."""
        if k < self.count:
            with suppress(RuntimeError):  # fewer can be reached, as where many rows are alike
                asked = self.projected(query[None])
                rows, distances = self._index.knn_query(asked, k=k, num_threads=1)
                return rows[0].astype(np.intp), distances[0]
        rows = np.array(self._index.get_ids_list(), np.intp)
        return rows, np.full(len(rows), np.inf, np.float32)

    def saved(self, recipe: str, labels: npt.NDArray[np.int64]) -> SavedSegment:
        """Return the segment as it is written; `labels` are those of all rows. Slow."""
        (about,) = self._index.__getstate__()
        ground = about.pop("data_level0").reshape(-1, about["size_data_per_element"])
        rows = ground[:, about["label_offset"] :].copy().view(np.int64)[:, 0]
        for name in ("label_lookup_external", "label_lookup_internal"):
            del about[name]
        return SavedSegment(
            recipe,
            labels=np.where(rows < GONE, labels.take(rows, mode="clip"), -1).tobytes(),
            centre=self._centre.tobytes(),
            components=self._components.tobytes(),
            links=ground[:, : about["offset_data"]].tobytes(),
            about=about | {name: about[name].tobytes() for name in _ARRAYS},
        )

    @classmethod
    def restored(cls, saved: SavedSegment, rows: Rows, view: View) -> "Segment":
        """Return the segment with these numbers of rows, -1 for one that has gone. Slow."""
        about, centre = saved.about, np.frombuffer(saved.centre, np.float32)
        segment = cls(centre, np.frombuffer(saved.components, np.float32).reshape(-1, len(centre)))
        numbers, gone = np.arange(len(rows)), rows < 0
        labels = np.where(gone, GONE + numbers, rows)
        pieces = np.array_split(rows, -(-len(rows) // GROWN_ROWS))
        coded = (view.vectors.at(some) for some in pieces)
        vectors = np.concatenate([segment.projected(some.decoded()) for some in coded])
        vectors[gone] = 0
        ground = np.empty((len(rows), about["size_data_per_element"]), np.int8)
        data, label = about["offset_data"], about["label_offset"]
        ground[:, :data] = np.frombuffer(saved.links, np.int8).reshape(len(rows), -1)
        ground[:, data:label] = vectors.view(np.int8)
        ground[:, label:] = labels[:, None].view(np.int8)
        arrays = {
            "data_level0": ground.reshape(-1),
            "label_lookup_external": labels.astype(np.uint64),
            "label_lookup_internal": numbers.astype(np.uint32),
            **{name: np.frombuffer(about[name], kind) for name, kind in _ARRAYS.items()},
        }
        segment._index = hnswlib().Index.__new__(hnswlib().Index)  # one that is made would leak
        segment._index.__setstate__((about | arrays,))
        segment.count = segment.written = len(rows)
        return segment


class Graph:
    """The first `count` rows of an index."""

    def __init__(self) -> None:
        self.count = 0
        self.segments: tuple[Segment, ...] = ()
        self._lock = Lock()
        """Held while the last segment is searched or grown."""
        self._turn = Lock()
        """Held by a search that waits for the other one: it is next."""

    @property
    def size_bytes(self) -> int:
        """Memory held."""
        return sum(segment.size_bytes for segment in self.segments)

    def grow(self, view: View) -> None:
        """Take in some of the rows that are to come. For one thread at a time."""
        if not self.segments or not self.segments[-1].room:
            self.segments += (Segment.of(view, max(self.count, GRAPH_MIN)),)
        last = self.segments[-1]
        until = min(len(view.labels), self.count + min(GROWN_ROWS, last.room))
        vectors = last.projected(view.vectors.at(slice(self.count, until)).decoded())
        for some in np.array_split(vectors, -(-len(vectors) // CHUNK_ROWS)):
            with self._turn:
                pass
            with self._lock:
                last.add(np.arange(self.count, self.count + len(some)), some)
            self.count += len(some)

    def near(self, query: Vectors, k: int, alive: npt.NDArray[np.bool_]) -> Rows:
        """Return living rows that have nearly all of the `k` closest to a query, in any order."""
        segments = [one for one in self.segments if one.count]
        asked = max(ASKED_MIN, ASKED_FOR_ONE * k // len(segments))
        wanted = dict.fromkeys(segments, asked)
        rows, distances, edges = {}, {}, {}
        while wanted:
            for segment, count in wanted.items():
                found, far = self._closest(segment, query, count)
                there = found < len(alive)
                there[there] = alive[found[there]]
                rows[segment], distances[segment] = found[there], far[there]
                edges[segment] = far.max()
            all_of = np.concatenate(list(distances.values()))
            last = np.partition(all_of, k - 1)[k - 1] if len(all_of) >= k else np.inf
            wanted = {one: ASKED_MORE * count for one, count in wanted.items() if edges[one] < last}
        return np.concatenate(list(rows.values()))

    def _closest(self, segment: Segment, query: Vectors, k: int) -> tuple[Rows, Vectors]:
        if not segment.room:  # it never changes
            return segment.closest(query, k)
        with self._turn, self._lock:
            return segment.closest(query, k)

    @classmethod
    def restored(cls, saved: Sequence[SavedSegment], index: Labels, view: View) -> "Graph":
        """Return the graph of those rows that are still there; an empty one of too few. Slow."""
        graph, labels = cls(), [np.frombuffer(one.labels, np.int64) for one in saved]
        rows = index.rows_of_all(np.concatenate([np.empty(0, np.int64), *labels]))
        there = np.append(~view.alive, False)  # one that has gone is not missed
        there[rows[rows >= 0]] = True
        count = int(np.argmin(there))  # rows behind it may be in another order than then
        rows[rows >= count] = -1
        if not count or (rows < 0).mean() > DEAD_SHARE_MAX:
            return graph
        ends = np.cumsum([len(one) for one in labels])[:-1]
        with suppress(*_UNREADABLE):
            each = zip(saved, np.split(rows, ends), strict=True)
            graph.segments = tuple(Segment.restored(one, some, view) for one, some in each)
            graph.count = count
        return graph


def _unit(rows: Floats) -> Floats:
    """Return rows at length 1, one behind another; zeros stay. NaN would cut all others off."""
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.ascontiguousarray(np.nan_to_num(rows / np.maximum(lengths, 1e-12)), np.float32)
