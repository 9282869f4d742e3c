"""From how many rows on signs answer sooner than a scan, in our own index.

Rows are clustered unit vectors, as sentence vectors are. Each query is answered both ways, one
after the other, once with the rows warm in the processor's caches and once after something else has
been there; a user who was idle for a second finds them cold.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise
from time import perf_counter
from typing import NamedTuple

import numpy as np

from bench.closest import closest, closest_of
from bench.clusters import DIMENSION, around, centres_for
from bench.report import Options, Report, Table, facts, median, scratch
from memory_actors.search.embedding.protocol import Vectors
from memory_actors.search.indexes import dense
from memory_actors.search.indexes.dense import DenseIndex
from memory_actors.search.indexes.rows import centre

K = 10
EVICT_BYTES = 64 << 20  # more than the caches of a core
PACKAGES = ("numpy", "numkong")


class Paths(NamedTuple):
    """The two ways to answer a query, over the same rows."""

    scan: Callable[[Vectors], list[int]]
    signs: Callable[[Vectors], list[int]]


class Measured(NamedTuple):
    """One size: a row for each table, but for the size."""

    warm: list[float]
    cold: list[float]
    signs: list[float]


def run(sizes: Sequence[int], queries: int, options: Options) -> Report:
    """Measure every size."""
    with scratch(options) as directory:
        found = [_measure(size, queries, options) for size in sizes]
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
            _table("The signs", SIGNS_COLUMNS, sizes, [one.signs for one in found]),
            Table("Rows from which signs are faster", ["with", "rows"], crossings),
        ],
        NOTES,
    )


QUERY_COLUMNS = ["rows", "scan us", "best run", "signs us", "best run", "scan / signs"]
SIGNS_COLUMNS = ["rows", "recall@10", "made in ms", "row add us", "believed KB"]
NOTES = (
    "scan: all rows are scored; signs: those whose signs differ least, of all",
    "us: median of the runs' medians; best run: the lowest of these, which noise cannot make",
    "scan / signs: of the best runs; above 1 signs are faster",
    "recall@10: of the answer by signs against the scan's, over all queries",
)


def _table(
    title: str, columns: Sequence[str], sizes: Sequence[int], rows: Sequence[list[float]]
) -> Table:
    return Table(title, columns, [[size, *row] for size, row in zip(sizes, rows, strict=True)])


def _measure(size: int, queries: int, options: Options) -> Measured:
    rng = np.random.default_rng(options.seed)
    centres = centres_for(size, rng)
    vectors, asked = around(centres, size, rng), around(centres, queries, rng)
    index, row_us = _index(vectors)
    paths = _paths(index)
    before_bytes, started_s = index.size_bytes, perf_counter()
    paths.signs(asked[0])
    made_ms = (perf_counter() - started_s) * 1e3
    return Measured(
        warm=_compare(paths, asked, options.runs, evict=False),
        cold=_compare(paths, asked[: max(1, len(asked) // 4)], options.runs, evict=True),
        signs=[_recall(paths, asked), made_ms, row_us, (index.size_bytes - before_bytes) / 1024],
    )


def _index(vectors: Vectors) -> tuple[DenseIndex, float]:
    """Return an index, and microseconds for adding a row."""
    index = DenseIndex(DIMENSION, len(vectors))
    started_s = perf_counter()
    for label, vector in enumerate(vectors):
        index.add(label, vector)
    return index, (perf_counter() - started_s) / len(vectors) * 1e6


def _paths(index: DenseIndex) -> Paths:
    """Return both ways as `retrieve` goes them, by meaning alone, whatever the number of rows."""
    mu = centre(np.zeros(DIMENSION, np.float32), index.sample.vectors.decoded())

    def by_signs(query: Vectors) -> list[int]:
        usual, dense.EXACT_MAX = dense.EXACT_MAX, 0
        found = closest(index, query, mu, K)
        dense.EXACT_MAX = usual
        return found

    return Paths(lambda query: closest_of(index, None, query, mu, K), by_signs)


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
    scan, signs = medians
    return [median(scan), min(scan), median(signs), min(signs), min(scan) / min(signs)]


def _recall(paths: Paths, asked: Vectors) -> float:
    found = total = 0
    for query in asked:
        scan, signs = (set(path(query)) for path in paths)
        found, total = found + len(scan & signs), total + len(scan)
    return found / total


def _crossing(sizes: Sequence[int], ratios: Sequence[float]) -> int | None:
    """Return where the ratio passes 1 for good, between two sizes in proportion; None if never."""
    crossing = None
    points = list(zip(sizes, ratios, strict=True))
    for (small, low), (large, high) in pairwise(points):
        if low < 1 <= high:
            crossing = round(small + (large - small) * (1 - low) / (high - low))
    return crossing
