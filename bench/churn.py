"""Churn in the vector index: recall and time as vectors are replaced and deleted.

Rows that were removed stay until all are made anew, and some that were added since have no sketch.
Each step is therefore measured twice: right after the change, which is the worst that a query can
meet, and after the maintenance that the background does (as `MemoryIndex` does it). Recall is
against an exact answer by numpy, made from vectors that are kept here, not in the index, and as
float32. Queries are those of `candidates.py` (`closest.py`).
"""

from collections.abc import Callable
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from bench.closest import add, closest, maintained, remove
from bench.clusters import DIMENSION, around, centres_for, unit
from bench.report import Options, Report, Table, facts, percentile, scratch
from memory_actors.search.embedding.protocol import Vectors
from memory_actors.search.indexes import dense
from memory_actors.search.indexes.dense import DenseIndex
from memory_actors.search.indexes.labels import Labels
from memory_actors.search.indexes.rows import centre

K = 10
RECALL_MIN = 0.95
REPLACED, DELETED = 0.5, 0.9  # of what lives
PACKAGES = ("numpy",)
COLUMNS = [
    "step", "background", "searched by", "living", "dead", "recall@10", "p50 us", "p99 us",
    "rebuild s",
]  # fmt: skip
BEFORE, AFTER = "before", "after"
SKETCHES, SCAN = "sketches", "scan"
NOTES = (
    "before: right after the change; after: when the background has done what it wants to",
    "dead: rows that are only marked; scan: every row is scored",
    "sketches: the rows are scored whose sketches are closest to the query",
    "recall@10: of the exact answer by numpy to the same question (centred cosine)",
    "rebuild: in a thread, in the background; queries go on meanwhile",
)


class Step(NamedTuple):
    """One row of the table."""

    step: str
    background: str
    searched_by: str
    living: int
    dead: int
    recall: float
    p50_us: float
    p99_us: float
    rebuild_s: float | None


def run(rows: int, queries: int, options: Options) -> Report:
    """Measure an index of that many rows before, after replacing half, after deleting most."""
    rng = np.random.default_rng(options.seed)
    with scratch(options) as directory:
        bench = Churn(rows, queries, options.runs, rng)
        steps = [
            *bench.step("filled", lambda: bench.add(rows)),
            *bench.step(f"{REPLACED:.0%} replaced", lambda: bench.replace(REPLACED)),
            *bench.step(f"{DELETED:.0%} deleted", lambda: bench.delete(DELETED)),
        ]
        sketches = f"above {dense.EXACT_MAX} rows"
        about = facts(
            directory, options, PACKAGES, rows=rows, queries=queries, k=K, sketches=sketches
        )
    lowest = min(step.recall for step in steps)
    verdict = Table("Verdict", ["lowest recall@10", "must be"], [[lowest, RECALL_MIN]])
    return Report(
        "Churn", about, [Table("Steps", COLUMNS, steps), verdict], NOTES, lowest >= RECALL_MIN
    )


class Churn:
    """An index, and beside it what should be in it."""

    def __init__(self, rows: int, queries: int, runs: int, rng: np.random.Generator):
        self._rng = rng
        self._runs = runs
        self._centres = centres_for(rows, rng)
        self._asked = around(self._centres, queries, rng)
        self._index = DenseIndex.empty(Labels(), DIMENSION)
        self._labels: npt.NDArray[np.int64] = np.empty(0, np.int64)
        self._vectors: Vectors = np.empty((0, DIMENSION), np.float32)
        self._next = 0

    # --- change

    def add(self, count: int) -> None:
        """Add vectors under new labels, as new memories are."""
        vectors = around(self._centres, count, self._rng)
        labels = np.arange(self._next, self._next + count)
        self._next += count
        for label, vector in zip(labels.tolist(), vectors, strict=True):
            add(self._index, label, vector)
        self._labels = np.concatenate([self._labels, labels])
        self._vectors = np.concatenate([self._vectors, vectors])

    def delete(self, share: float) -> int:
        """Delete a random share of what lives; return how many that were."""
        gone = self._rng.random(len(self._labels)) < share
        for label in self._labels[gone].tolist():
            remove(self._index, label)
        self._labels, self._vectors = self._labels[~gone], self._vectors[~gone]
        return int(gone.sum())

    def replace(self, share: float) -> None:
        """Delete a random share and add as many: an updated memory gets a new label."""
        self.add(self.delete(share))

    # --- measure

    def step(self, name: str, change: Callable[[], Any]) -> list[Step]:
        """Make a change and measure before and after what the background makes of it."""
        change()
        before = self._measured(name, BEFORE, None)
        started_s = perf_counter()
        self._index = maintained(self._index)
        return [before, self._measured(name, AFTER, perf_counter() - started_s)]

    def _measured(self, name: str, background: str, rebuild_s: float | None) -> Step:
        mu = centre(np.zeros(DIMENSION, np.float32), self._index.sample.vectors.decoded())
        times_us = self._times_us(mu)
        view = self._index.view()
        return Step(
            step=name,
            background=background,
            searched_by=SKETCHES if len(self._index) > dense.EXACT_MAX else SCAN,
            living=len(self._index),
            dead=len(view.labels) - view.living,
            recall=self._recall(mu),
            p50_us=percentile(times_us, 50),
            p99_us=percentile(times_us, 99),
            rebuild_s=rebuild_s,
        )

    def _times_us(self, mu: Vectors) -> list[float]:
        times_us = []
        for query in np.tile(self._asked, (self._runs, 1)):
            started_s = perf_counter()
            closest(self._index, query, mu, K)
            times_us.append((perf_counter() - started_s) * 1e6)
        return times_us

    def _recall(self, mu: Vectors) -> float:
        found = [set(closest(self._index, query, mu, K)) for query in self._asked]
        wanted = [set(labels) for labels in self._exact(mu)]
        hits = sum(len(mine & right) for mine, right in zip(found, wanted, strict=True))
        return hits / sum(map(len, wanted))

    def _exact(self, mu: Vectors) -> list[list[int]]:
        rows = unit(self._vectors - mu)
        best = []
        for query in self._asked - mu:  # its length changes no order
            scores = rows @ query
            top = np.argpartition(-scores, min(K, len(scores)) - 1)[:K]
            best.append(self._labels[top].tolist())
        return best
