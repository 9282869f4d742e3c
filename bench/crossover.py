"""From how many rows on sketches answer sooner than a scan, and a graph sooner than sketches.

Rows are clustered unit vectors, or sentences of sets and mixtures of them. Each query is answered
in every way, one after the other, once with the rows warm in the processor's caches and once after
something else has been there; a user who was idle for a second finds them cold.
"""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from time import perf_counter, thread_time
from typing import Any, Final, NamedTuple

import numpy as np

from bench.closest import closest_of, index_of
from bench.clusters import DIMENSION, around, centres_for, mixed
from bench.recall_sets import read_set
from bench.report import Options, Report, Table, facts, median, scratch
from memory_actors.search.candidates import PROPOSED
from memory_actors.search.embedding.default import DefaultEmbedder
from memory_actors.search.embedding.protocol import Vectors
from memory_actors.search.indexes import dense
from memory_actors.search.indexes.dense import DenseIndex
from memory_actors.search.indexes.graph import Graph
from memory_actors.search.indexes.labels import Rows
from memory_actors.search.indexes.rows import centre

K = 10
EVICT_BYTES = 64 << 20  # more than the caches of a core
SENTENCE_CHARS = 25, 200
EMBEDDED_AT_ONCE = 64
PACKAGES = ("numpy", "chroma-hnswlib")
WAYS: Final = ("scan", "sketches", "graph")
QUERY_COLUMNS = ["rows", *(f"{way} us" for way in WAYS), "scan / sketches", "sketches / graph"]
COLUMNS = ["rows", "way", "proposed", f"recall@{K}", f"recall@{PROPOSED}", "made s", "bytes a row"]
NOTES = (
    "scan: all rows are scored; sketches: those closest by sketches; graph: those HNSW finds",
    "us: processor time to propose rows and to score them, median of queries, lowest of runs",
    f"recall: of the {K} and {PROPOSED} best of all rows, how many are proposed",
    "made: in one thread, from codes; bytes: of memory",
)


class Asked(NamedTuple):
    """An index with a graph beside it, and what is asked of them."""

    index: DenseIndex
    graph: Graph
    centre: Vectors
    queries: Vectors

    @contextmanager
    def by(self, way: str) -> Iterator[None]:
        """Let the index answer in one way, whatever the number of its rows."""
        usual, dense.EXACT_MAX = dense.EXACT_MAX, len(self.index) if way == "scan" else 0
        self.index.graph = self.graph if way == "graph" else None
        yield
        dense.EXACT_MAX, self.index.graph = usual, None

    def proposed(self, query: Vectors) -> Rows | None:
        """Return the rows that the index proposes, None for all."""
        return self.index.proposed(query, self.centre, PROPOSED)

    def best(self, query: Vectors, k: int) -> list[int]:
        """Return the labels of the `k` closest rows of those that are proposed."""
        return closest_of(self.index, self.proposed(query), query, self.centre, k)


def run(sizes: Sequence[int], queries: int, paths: Sequence[Path], options: Options) -> Report:
    """Measure every size."""
    sentences = _embedded(paths)
    with scratch(options) as directory:
        found = [_measure(size, queries, sentences, options) for size in sizes]
        about = facts(directory, options, PACKAGES, queries=queries, k=K, dimension=DIMENSION)
    tables = [
        Table("Queries, warm caches", QUERY_COLUMNS, [warm for warm, _, _ in found]),
        Table("Queries, cold caches", QUERY_COLUMNS, [cold for _, cold, _ in found]),
    ]
    crossings = [
        [table.title, *(_crossing(sizes, [row[-2 + at] for row in table.rows]) for at in (0, 1))]
        for table in tables
    ]
    made = Table("Candidates", COLUMNS, [row for *_, some in found for row in some])
    faster = Table("Rows from which they are faster", ["", "sketches", "a graph"], crossings)
    return Report("Crossover", about, [*tables, made, faster], NOTES)


def _embedded(paths: Sequence[Path]) -> Vectors | None:
    """Return the vectors of all sentences of these sets, in a random order; None of none."""
    texts = {
        sentence.strip()
        for path in paths
        for user in read_set(path).users
        for memory in user.memories
        for sentence in re.split(r"(?<=[.!?])\s+|\n+", memory.text)
    }
    least, most = SENTENCE_CHARS
    chosen = sorted(text for text in texts if least <= len(text) <= most)
    if not chosen:
        return None
    np.random.default_rng(1).shuffle(chosen)
    starts, embed = range(0, len(chosen), EMBEDDED_AT_ONCE), DefaultEmbedder().embed
    return np.concatenate([embed(chosen[start : start + EMBEDDED_AT_ONCE]) for start in starts])


def _measure(
    size: int, queries: int, sentences: Vectors | None, options: Options
) -> tuple[list[Any], list[Any], list[list[Any]]]:
    rng = np.random.default_rng(options.seed)
    if sentences is None:
        centres = centres_for(size, rng)
        vectors, asked = around(centres, size, rng), around(centres, queries, rng)
    else:
        vectors, asked = mixed(sentences[queries:], size, rng), sentences[:queries]
    index = index_of(vectors)
    background = np.zeros(DIMENSION, np.float32)
    mu = centre(background, index.sample.vectors.decoded())
    about = Asked(index, Graph(), mu, asked)
    candidates = [[size, way, *_made(way, about)] for way in WAYS]
    warm = _times_us(about, asked, options.runs, evict=False)
    cold = _times_us(about, asked[: max(1, queries // 4)], options.runs, evict=True)
    return [size, *warm], [size, *cold], candidates


def _made(way: str, about: Asked) -> list[float]:
    index, size, started_s = about.index, len(about.index), perf_counter()
    before_bytes = index.size_bytes
    with about.by(way):
        while way == "graph" and index.wants_graph:
            about.graph.grow(index.view())
        about.proposed(about.queries[0])
        took_s, bytes_ = perf_counter() - started_s, index.size_bytes - before_bytes
        found = [about.proposed(query) for query in about.queries]
    rows = [np.arange(size) if one is None else one for one in found]
    with about.by("scan"):
        best = [about.best(query, PROPOSED) for query in about.queries]
    recalls = [
        sum(len(np.intersect1d(one, all_of[:k])) for one, all_of in zip(rows, best, strict=True))
        / sum(len(all_of[:k]) for all_of in best)
        for k in (K, PROPOSED)
    ]
    return [sum(map(len, rows)) / len(rows), *recalls, took_s, bytes_ / size]


def _times_us(about: Asked, asked: Vectors, runs: int, *, evict: bool) -> list[float]:
    medians: dict[str, list[float]] = {way: [] for way in WAYS}
    other = np.ones(EVICT_BYTES // 8) if evict else None
    for _ in range(runs):
        times: dict[str, list[float]] = {way: [] for way in WAYS}
        for way in WAYS:
            with about.by(way):
                about.best(asked[0], K)  # sketches are made
                for query in asked:
                    if other is not None:
                        other += 1.0
                    started_s = thread_time()
                    about.best(query, K)
                    times[way].append((thread_time() - started_s) * 1e6)
        for way in WAYS:
            medians[way].append(median(times[way]))
    scan, sketches, by_graph = (min(medians[way]) for way in WAYS)
    return [scan, sketches, by_graph, scan / sketches, sketches / by_graph]


def _crossing(sizes: Sequence[int], ratios: Sequence[float]) -> int | None:
    """Return where the ratio passes 1 for good, between two sizes in proportion; None if never."""
    crossing = None
    points = list(zip(sizes, ratios, strict=True))
    for (small, low), (large, high) in pairwise(points):
        if low < 1 <= high:
            crossing = round(small + (large - small) * (1 - low) / (high - low))
    return crossing
