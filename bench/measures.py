"""Recall, as every benchmark of answers here counts it: one definition for all of them.

A question has evidence, a ranking is a list of ids, best first. For the first k of a ranking

- R@k, recall: the fraction of the evidence that is there
- any@k, hit rate: 1 if at least one of the evidence is there
- all@k: 1 if all of the evidence is there

so all@k <= R@k <= any@k, equal where a question has a single piece of evidence. Reports call each
of the three "recall": one must never be compared with another. MRR is 1 / the rank of the first
piece of evidence, 0 if none is found. Reports print the mean over questions.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from statistics import fmean
from typing import Any

import numpy as np

from bench.opened import services_of
from bench.report import Table, percentile
from memory_actors import MemorySystem
from memory_actors.kinds.passages import text_digest
from memory_actors.search.embedding.protocol import Embedder, Vectors

CUTS = (5, 10, 20)
MEASURES = (*(f"{name}@{k}" for name in ("R", "any", "all") for k in CUTS), "MRR")

Scores = Mapping[str, float]
"""A number for each of some measures, by name."""


def measured(wanted: Collection[str], ranking: Sequence[str]) -> Scores:
    """Return MEASURES of one question; they are 0 if it has no evidence."""
    evidence = set(wanted)
    recalls = [_recall(evidence, ranking, k) for k in CUTS]
    first = next((rank for rank, one in enumerate(ranking, 1) if one in evidence), None)
    values = [
        *recalls,
        *(float(recall > 0) for recall in recalls),
        *(float(recall == 1) for recall in recalls),
        0.0 if first is None else 1 / first,
    ]
    return dict(zip(MEASURES, values, strict=True))


def _recall(evidence: set[str], ranking: Sequence[str], k: int) -> float:
    return len(evidence.intersection(ranking[:k])) / len(evidence) if evidence else 0.0


def groups(ranking: Iterable[str]) -> list[str]:
    """Return the groups of a ranking's ids, each at the place of its best id.

    Sessions are ranked so: pass the session of each turn.
    """
    return list(dict.fromkeys(ranking))


def means(scores: Sequence[Scores], measures: Sequence[str]) -> list[float]:
    """Return the mean of each measure over questions, of which there is at least one."""
    return [fmean(one[measure] for one in scores) for measure in measures]


# --- the floor


def stored_vectors(
    memory: MemorySystem, texts: Sequence[str], embedder: Embedder | None = None
) -> Vectors:
    """Return the vectors that a store has for texts, float32 [n, d].

    The others are embedded: a text that another one repeats is stored as that one, and a long text
    as its passages.
    """
    digests = [text_digest(text) for text in texts]
    embeddings = services_of(memory).embeddings
    stored = embeddings.disk.get(digests, embeddings.embedder.dimension)
    found = {digest: one.vector for digest, one in stored.items()}
    missing = {d: text for d, text in zip(digests, texts, strict=True) if d not in found}
    if missing and embedder is not None:
        found |= dict(zip(missing, embedder.embed(list(missing.values())), strict=True))
    return np.stack([found[digest] for digest in digests])


def by_cosine(ids: Sequence[str], vectors: Vectors, query: Vectors) -> list[str]:
    """Return ids by the plain cosine of their unit vectors with a query's, best first."""
    return [ids[row] for row in np.argsort(-(vectors @ query), kind="stable")]


# --- tables


def speed(texts: int, ingest_s: float, times_ms: Sequence[float]) -> Table:
    """Return how fast texts were added, and how long the searches took."""
    columns = ["ingest texts/s", "retrieve p50 ms", "retrieve p99 ms"]
    row: list[Any] = [texts / ingest_s, percentile(times_ms, 50), percentile(times_ms, 99)]
    return Table("Speed", columns, [row])
