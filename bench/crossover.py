"""From how many rows on HNSW answers sooner than a scan, in our own index.

Rows are clustered unit vectors, as sentence vectors are. Each query is answered both ways, one
after the other, once with the rows warm in the processor's caches and once after something else has
been there; a user who was idle for a second finds them cold.
"""

import tempfile
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

import numpy as np

from bench.closest import closest, closest_of
from bench.clusters import DIMENSION, around, centres_for
from bench.report import Options, Report, Table, facts, median, scratch
from memory_actors.search.dot_products import coded_units
from memory_actors.search.embedding.protocol import Vectors
from memory_actors.search.indexes.dense import DenseIndex, Graphed, Maintained
from memory_actors.search.indexes.graph import HnswGraph
from memory_actors.search.indexes.rows import centre
from memory_actors.search.ranking import PROPOSED

SIZES = (500, 1_000, 2_000, 2_500, 3_000, 3_500, 4_000, 5_000, 7_500, 10_000, 20_000)
K = 10
ADDED_LAST = 64
EVICT_BYTES = 64 << 20  # more than the caches of a core
PACKAGES = ("numpy", "hnswlib")


class Paths(NamedTuple):
    """The two ways to answer a query, over the same rows."""

    scan: Callable[[Vectors], list[int]]
    graph: Callable[[Vectors], list[int]]


class Measured(NamedTuple):
    """One size: a row for each table, but for the size."""

    warm: list[float]
    cold: list[float]
    graph: list[float]


def run(sizes: Sequence[int], queries: int, options: Options) -> Report:
    """Measure every size."""
    with scratch(options) as directory:
        found = [_measure(directory, size, queries, options) for size in sizes]
        about = facts(directory, options, PACKAGES, queries=queries, k=K, dimension=DIMENSION)
    crossings = [
        ["warm caches", _crossing(sizes, [measured.warm[-1] for measured in found])],
        ["cold caches", _crossing(sizes, [measured.cold[-1] for measured in found])],
    ]
    return Report(
        "Crossover",
        about,
        [
            _table("Queries, warm caches", QUERY_COLUMNS, sizes, [one.warm for one in found]),
            _table("Queries, cold caches", QUERY_COLUMNS, sizes, [one.cold for one in found]),
            _table("The graph", GRAPH_COLUMNS, sizes, [one.graph for one in found]),
            Table("Rows from which the graph is faster", ["with", "rows"], crossings),
        ],
        NOTES,
    )


QUERY_COLUMNS = ["rows", "scan us", "best run", "graph us", "best run", "scan / graph"]
GRAPH_COLUMNS = [
    "rows", "recall@10", "build s", "add us (last rows)", "row add us", "save ms", "load ms",
    "file KB", "believed KB",
]  # fmt: skip
NOTES = (
    f"scan: all rows are scored; graph: it proposes {PROPOSED}, which are scored",
    "us: median of the runs' medians; best run: the lowest of these, which noise cannot make",
    "scan / graph: of the best runs; above 1 the graph is faster",
    "recall@10: of the graph's answer against the scan's, over all queries",
    "row add: into the array that both share; add: into the graph, on top of that",
)


def _table(
    title: str, columns: Sequence[str], sizes: Sequence[int], rows: Sequence[list[float]]
) -> Table:
    return Table(title, columns, [[size, *row] for size, row in zip(sizes, rows, strict=True)])


def _measure(directory: Path, size: int, queries: int, options: Options) -> Measured:
    rng = np.random.default_rng(options.seed)
    centres = centres_for(size, rng)
    vectors, asked = around(centres, size, rng), around(centres, queries, rng)
    index, row_us = _index(vectors)
    graph, build_s, add_us = _graph(vectors)
    paths = _paths(index, graph)
    return Measured(
        warm=_compare(paths, asked, options.runs, evict=False),
        cold=_compare(paths, asked[: max(1, len(asked) // 4)], options.runs, evict=True),
        graph=[
            _recall(paths, asked),
            build_s,
            add_us,
            row_us,
            *_files(directory, graph, options.runs),
        ],
    )


def _index(vectors: Vectors) -> tuple[DenseIndex, float]:
    """Return an index without a graph, and microseconds for adding a row."""
    index = DenseIndex(DIMENSION, len(vectors))
    started_s = perf_counter()
    for label, vector in enumerate(vectors):
        index.add(label, vector)
    return index, (perf_counter() - started_s) / len(vectors) * 1e6


def _graph(vectors: Vectors) -> tuple[HnswGraph, float, float]:
    """Return the graph, seconds for building it, and microseconds for each of the last rows."""
    graph, rows = HnswGraph.empty(DIMENSION, len(vectors)), np.arange(len(vectors))
    kept = coded_units(vectors)
    started_s = perf_counter()
    graph.extend(kept, rows[:-ADDED_LAST])
    before_s = perf_counter()
    added = len(vectors) - graph.count
    graph.extend(kept, rows[-added:])
    ended_s = perf_counter()
    return graph, ended_s - started_s, (ended_s - before_s) / added * 1e6


def _paths(index: DenseIndex, graph: HnswGraph) -> Paths:
    """Return both ways as `retrieve` goes them, by meaning alone; the graph proposes if asked."""
    mu = centre(np.zeros(DIMENSION, np.float32), index.sample.vectors.decoded())
    graphed = Graphed(graph, np.empty(0, np.intp), graph.count)
    index = index.adopted(Maintained(None, 0, graphed))
    return Paths(
        lambda query: closest_of(index, None, query, mu, K),
        lambda query: closest(index, query, mu, K),
    )


def _compare(paths: Paths, asked: Vectors, runs: int, *, evict: bool) -> list[float]:
    """Return the median and the best run of each in microseconds, and the best runs' ratio."""
    medians: list[list[float]] = [[], []]
    other = np.ones(EVICT_BYTES // 8) if evict else None
    for _ in range(runs):
        times: list[list[float]] = [[], []]
        for query in asked:
            for path, found in zip(paths, times, strict=True):
                if other is not None:
                    other += 1.0
                started_s = perf_counter()
                path(query)
                found.append((perf_counter() - started_s) * 1e6)
        for found, kept in zip(times, medians, strict=True):
            kept.append(median(found))
    scan, graph = medians
    return [median(scan), min(scan), median(graph), min(graph), min(scan) / min(graph)]


def _recall(paths: Paths, asked: Vectors) -> float:
    found = total = 0
    for query in asked:
        scan, graph = (set(path(query)) for path in paths)
        found, total = found + len(scan & graph), total + len(scan)
    return found / total


def _files(directory: Path, graph: HnswGraph, runs: int) -> list[float]:
    """Return milliseconds to save and to load, and kilobytes on disk and as believed."""
    save_ms, load_ms, length = [], [], 0
    for _ in range(runs):
        with tempfile.NamedTemporaryFile(dir=directory, suffix=".graph") as file:
            path = Path(file.name)
            started_s = perf_counter()
            saved, rows = graph.save(path)
            saved_s = perf_counter()
            assert HnswGraph.load(path, saved, rows) is not None
            save_ms.append((saved_s - started_s) * 1e3)
            load_ms.append((perf_counter() - saved_s) * 1e3)
            length = saved.length_bytes
    return [median(save_ms), median(load_ms), length / 1024, graph.size_bytes / 1024]


def _crossing(sizes: Sequence[int], ratios: Sequence[float]) -> int | None:
    """Return where the ratio passes 1 for good, between two sizes in proportion; None if never."""
    crossing = None
    points = list(zip(sizes, ratios, strict=True))
    for (small, low), (large, high) in pairwise(points):
        if low < 1 <= high:
            crossing = round(small + (large - small) * (1 - low) / (high - low))
    return crossing
