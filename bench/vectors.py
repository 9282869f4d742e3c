"""Our vector index against what it could have been: hnswlib, exact numpy, usearch and faiss.

All get the same clustered unit vectors and the same queries, one at a time, and the same graph
(M=16, ef_construction=100, ef=100) where they have one. Ours is the index that `retrieve` uses: it
scores centred vectors, which the others do not, and its recall is counted against the exact answer
to its own question. Each index saves what it needs to be loaded again, the vectors included.
"""

import os
from abc import ABC, abstractmethod
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from bench.closest import add, closest, index_of
from bench.clusters import DIMENSION, around, centres_for
from bench.report import Options, Report, Table, disk_bytes, facts, percentile, scratch
from memory_actors.search.embedding.protocol import Vectors
from memory_actors.search.indexes.dense import EXACT_MAX, DenseIndex
from memory_actors.search.indexes.labels import Labels
from memory_actors.search.indexes.rows import centre

K = 10
M, EF_CONSTRUCTION, EF = 16, 100, 100
WARM_UP_QUERIES = 10
THREADS = "OPENBLAS_NUM_THREADS"  # of numpy's products; it is read before this module is
PACKAGES = ("numpy", "chroma-hnswlib", "usearch", "faiss-cpu")
COLUMNS = [
    "index", "rows", "recall@10", "p50 us", "p99 us", "build s", "save ms", "load ms",
    "bytes a row",
]  # fmt: skip
NOTES = (
    "one query at a time, 384 dimensions, warm caches; p50 and p99 over all runs, indexes in turn",
    f"memory-actors: all up to {EXACT_MAX:,} rows are scored; recall against its own exact scoring",
    "build: from an array, one thread; bytes: of the saved files, which hold the vectors too",
    "load: of files that are in the page cache",
)


class Measured(NamedTuple):
    """One index at one size; a row of the table without its name."""

    rows: int
    recall: float
    p50_us: float
    p99_us: float
    build_s: float
    save_ms: float
    load_ms: float
    row_bytes: float


def run(sizes: Sequence[int], queries: int, options: Options) -> Report:
    """Measure every installed index at every size."""
    chosen = [kind for kind in KINDS if find_spec(kind.module) is not None]
    rows: list[list[Any]] = []
    with scratch(options) as directory:
        for size in sizes:
            rows += _at_size(directory / str(size), chosen, size, queries, options)
        threads = os.environ.get(THREADS, f"as many as cores; {THREADS}=1 makes it one")
        about = facts(directory, options, PACKAGES, queries=queries, k=K, numpy_threads=threads)
    skipped = [[kind.name, f"not installed: {kind.module}"] for kind in KINDS if kind not in chosen]
    tables = [Table("Vectors", COLUMNS, rows), Table("Skipped", ["index", "reason"], skipped)]
    return Report("Vectors", about, tables, NOTES)


def _at_size(
    directory: Path, kinds: Sequence["type[Subject]"], size: int, queries: int, options: Options
) -> list[list[Any]]:
    rng = np.random.default_rng(options.seed)
    centres = centres_for(size, rng)
    vectors, asked = around(centres, size, rng), around(centres, queries, rng)
    built = [_built(kind, vectors) for kind in kinds]
    times_us = _times_us([subject for subject, _ in built], asked, options.runs)
    rows: list[list[Any]] = []
    for (subject, build_s), mine_us in zip(built, times_us, strict=True):
        p50, p99 = percentile(mine_us, 50), percentile(mine_us, 99)
        files = _files(subject, directory / subject.name)
        measured = Measured(size, _recall(subject, asked), p50, p99, build_s, *files)
        rows.append([subject.name, *measured])
    return rows


def _built(kind: "type[Subject]", vectors: Vectors) -> "tuple[Subject, float]":
    subject = kind()
    started_s = perf_counter()
    subject.build(vectors)
    return subject, perf_counter() - started_s


def _times_us(subjects: "Sequence[Subject]", asked: Vectors, runs: int) -> list[list[float]]:
    """Return the times of each subject; they take turns, so that noise hits all alike."""
    times_us: list[list[float]] = [[] for _ in subjects]
    for _ in range(runs):
        for subject, mine_us in zip(subjects, times_us, strict=True):
            for query in asked[:WARM_UP_QUERIES]:
                subject.search(query)
            for query in asked:
                started_s = perf_counter()
                subject.search(query)
                mine_us.append((perf_counter() - started_s) * 1e6)
    return times_us


def _recall(subject: "Subject", asked: Vectors) -> float:
    wanted = [set(subject.exact(query)) for query in asked]
    found = [set(subject.search(query)) for query in asked]
    pairs = zip(found, wanted, strict=True)
    return sum(len(mine & right) for mine, right in pairs) / sum(map(len, wanted))


def _files(subject: "Subject", folder: Path) -> tuple[float, float, float]:
    folder.mkdir(parents=True)
    started_s = perf_counter()
    subject.save(folder)
    saved_s = perf_counter()
    subject.load(folder)
    loaded_s = perf_counter()
    size = disk_bytes(folder) / len(subject.vectors)
    return (saved_s - started_s) * 1e3, (loaded_s - saved_s) * 1e3, size


def _best(scores: Vectors) -> list[int]:
    top = np.argpartition(-scores, K)[:K]
    ordered: list[int] = top[np.argsort(-scores[top])].tolist()
    return ordered


# --- the indexes


class Subject(ABC):
    """One index over rows 0 to n - 1."""

    name: str
    module: str
    vectors: Vectors

    def exact(self, query: Vectors) -> list[int]:
        """Return the rows that a search should find."""
        return _best(self.vectors @ query)

    @abstractmethod
    def build(self, vectors: Vectors) -> None:
        """Index these rows."""

    @abstractmethod
    def search(self, query: Vectors) -> Sequence[int]:
        """Return the K best rows."""

    @abstractmethod
    def save(self, folder: Path) -> None:
        """Write the index."""

    @abstractmethod
    def load(self, folder: Path) -> None:
        """Read the index."""


class Ours(Subject):
    """`DenseIndex`, kept in order as the runtime does it."""

    name, module = "memory-actors", "memory_actors"

    def build(self, vectors: Vectors) -> None:
        """Add row by row, then do what the background would do."""
        self.vectors = vectors
        self._index = DenseIndex.empty(Labels(), DIMENSION)
        for label, vector in enumerate(vectors):
            add(self._index, label, vector)
        self._centre = centre(np.zeros(DIMENSION, np.float32), self._index.sample.vectors.decoded())

    def search(self, query: Vectors) -> list[int]:
        """Search as `retrieve` does, by meaning alone."""
        return closest(self._index, query, self._centre, K)

    def exact(self, query: Vectors) -> list[int]:
        """Score all rows: each is the label of itself."""
        rows = np.arange(len(self.vectors))
        return _best(self._index.scores(query, self._centre, rows))

    def save(self, folder: Path) -> None:
        """Write the vectors, which are otherwise in the table of vectors."""
        np.save(folder / "vectors.npy", self.vectors)

    def load(self, folder: Path) -> None:
        """Read them."""
        self._index = index_of(np.load(folder / "vectors.npy"))


class Exact(Subject):
    """One matrix product a query."""

    name, module = "numpy exact", "numpy"

    def build(self, vectors: Vectors) -> None:
        """Copy."""
        self.vectors = vectors.copy()

    def search(self, query: Vectors) -> list[int]:
        """Score all."""
        return _best(self.vectors @ query)

    def save(self, folder: Path) -> None:
        """Write an array."""
        np.save(folder / "vectors.npy", self.vectors)

    def load(self, folder: Path) -> None:
        """Read an array."""
        self.vectors = np.load(folder / "vectors.npy")


class Hnswlib(Subject):
    """hnswlib as it comes, by inner product."""

    name, module = "hnswlib", "hnswlib"

    def build(self, vectors: Vectors) -> None:
        """Add all at once, on one thread."""
        self.vectors = vectors
        self._index = self._empty()
        self._index.init_index(len(vectors), M=M, ef_construction=EF_CONSTRUCTION, random_seed=1)
        self._index.add_items(vectors, num_threads=1)
        self._index.set_ef(EF)

    def search(self, query: Vectors) -> list[int]:
        """Ask the graph."""
        labels: list[int] = self._index.knn_query(query, k=K, num_threads=1)[0][0].tolist()
        return labels

    def save(self, folder: Path) -> None:
        """Write the file."""
        self._index.save_index(str(folder / "index"))

    def load(self, folder: Path) -> None:
        """Read the file; ef is not in it."""
        self._index = self._empty()
        self._index.load_index(str(folder / "index"))
        self._index.set_ef(EF)

    @staticmethod
    def _empty() -> Any:
        import hnswlib

        return hnswlib.Index(space="ip", dim=DIMENSION)


class Usearch(Subject):
    """usearch with the same parameters, float32."""

    name, module = "usearch", "usearch"

    def build(self, vectors: Vectors) -> None:
        """Add all at once, on one thread."""
        self.vectors = vectors
        self._index = self._empty()
        self._index.add(np.arange(len(vectors)), vectors, threads=1)

    def search(self, query: Vectors) -> list[int]:
        """Ask the graph."""
        keys: list[int] = self._index.search(query, K, threads=1).keys.tolist()
        return keys

    def save(self, folder: Path) -> None:
        """Write the file."""
        self._index.save(str(folder / "index"))

    def load(self, folder: Path) -> None:
        """Read the file."""
        self._index = self._empty()
        self._index.load(str(folder / "index"))

    @staticmethod
    def _empty() -> Any:
        from usearch.index import Index

        return Index(
            ndim=DIMENSION, metric="ip", dtype="f32", connectivity=M,
            expansion_add=EF_CONSTRUCTION, expansion_search=EF,
        )  # fmt: skip


class FaissHNSW(Subject):
    """faiss' HNSW over flat vectors, by inner product."""

    name, module = "faiss HNSW", "faiss"

    def build(self, vectors: Vectors) -> None:
        """Add all at once, on one thread."""
        import faiss

        faiss.omp_set_num_threads(1)
        self.vectors = vectors
        self._index = self._empty()
        self._index.add(vectors)

    def search(self, query: Vectors) -> list[int]:
        """Ask the index."""
        rows: list[int] = self._index.search(query[None], K)[1][0].tolist()
        return rows

    def save(self, folder: Path) -> None:
        """Write the file."""
        import faiss

        faiss.write_index(self._index, str(folder / "index"))

    def load(self, folder: Path) -> None:
        """Read the file."""
        import faiss

        self._index = faiss.read_index(str(folder / "index"))

    def _empty(self) -> Any:
        import faiss

        index = faiss.IndexHNSWFlat(DIMENSION, M, faiss.METRIC_INNER_PRODUCT)
        index.hnsw.efConstruction, index.hnsw.efSearch = EF_CONSTRUCTION, EF
        return index


class FaissFlat(FaissHNSW):
    """faiss' exact scan."""

    name = "faiss flat"

    def _empty(self) -> Any:
        import faiss

        return faiss.IndexFlatIP(DIMENSION)


KINDS: tuple[type[Subject], ...] = (Ours, Exact, Hnswlib, Usearch, FaissHNSW, FaissFlat)
