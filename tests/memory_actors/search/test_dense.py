"""The dense index: exact where it scans, close to exact where it does not, whole where it loads."""

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.closest import add, closest, index_of, maintained, remove
from memory_actors.search.dot_products import coded_units
from memory_actors.search.indexes import dense, graph
from memory_actors.search.indexes.dense import DenseIndex
from memory_actors.search.indexes.labels import Labels
from memory_actors.search.indexes.rows import SAMPLE_MAX, centre, sample_order

DIMENSION = 128
BACKGROUND = np.full(DIMENSION, 0.05, np.float32)


def unit(rows: npt.NDArray[np.float64]) -> npt.NDArray[np.float32]:
    return (rows / np.linalg.norm(rows, axis=-1, keepdims=True)).astype(np.float32)


def vectors(count: int, seed: int = 1) -> npt.NDArray[np.float32]:
    """Clustered, and off centre as real ones are; as they are kept."""
    rng = np.random.default_rng(seed)
    centres = np.random.default_rng(0).standard_normal((20, DIMENSION))
    spread = 0.6 * rng.standard_normal((count, DIMENSION))
    return coded_units(unit(centres[rng.integers(0, 20, count)] + spread + 0.5)).decoded()


def by_definition(held: dict[int, npt.NDArray[np.float32]], query, k: int) -> list[int]:
    """The definition of the score, written out."""
    if not held:
        return []
    scores = scores_by_definition(held, query)
    return [list(held)[i] for i in np.argsort(-scores, kind="stable")[:k]]


def scores_by_definition(held: dict[int, npt.NDArray[np.float32]], query):
    """Centre as the docstring of rows.py says, in float64 and with loops."""
    rows = np.stack(list(held.values())).astype(np.float64)
    order = sample_order(np.array(list(held)))
    sampled = rows[np.argsort(order)[:SAMPLE_MAX]]
    alike = np.clip((sampled @ sampled.T - 0.7) / 0.3, 0, 1).sum(axis=1)
    weights = 1 / np.maximum(alike, 1)
    own = min(weights.sum(), 3)
    mean = (2 * BACKGROUND + own * (weights @ sampled) / weights.sum()) / (2 + own)
    return unit(rows - mean) @ unit(query - mean)


def build(rows: npt.NDArray[np.float32]) -> DenseIndex:
    index = DenseIndex.empty(Labels(), DIMENSION)
    for label, row in enumerate(rows):
        add(index, label, row)
    return index


def mu_of(index: DenseIndex) -> npt.NDArray[np.float32]:
    return centre(BACKGROUND, index.sample.vectors.decoded())


def search(index: DenseIndex, query, k: int) -> list[int]:
    return closest(index, query, mu_of(index), k)


@pytest.fixture
def few_are_scanned(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sketches from 300 rows on, so that tests are quick."""
    monkeypatch.setattr(dense, "EXACT_MAX", 300)
    monkeypatch.setattr(graph, "WANTED_MIN", 20)
    monkeypatch.setattr(graph, "TAIL_MIN", 400)
    monkeypatch.setattr(graph, "SAMPLE_ROWS", 300)


def recall(index: DenseIndex, held: dict[int, npt.NDArray[np.float32]], k: int = 10) -> float:
    queries = vectors(50, seed=99)
    found = 0
    for query in queries:
        found += len(set(search(index, query, k)) & set(by_definition(held, query, k)))
    return found / (k * len(queries))


def test_a_score_is_a_centred_cosine() -> None:
    rows = vectors(200)
    index, chosen = build(rows), np.array([3, 199, 0, 50])
    for query in vectors(20, seed=5):
        expected = scores_by_definition(dict(enumerate(rows)), query)
        scores = index.scores(query, mu_of(index), np.arange(200))
        assert scores == pytest.approx(expected, abs=2e-4)
        some = index.scores(query, mu_of(index), chosen)
        assert some == pytest.approx(expected[chosen], abs=2e-4)


@pytest.mark.parametrize("count", [200, 2_500])
def test_without_a_graph_the_best_of_all_rows_are_found(count: int) -> None:
    rows = vectors(count)
    index = build(rows)
    for query in vectors(20, seed=5):
        expected = scores_by_definition(dict(enumerate(rows)), query)
        best = np.sort(expected)[::-1][:7]
        assert expected[search(index, query, 7)] == pytest.approx(best, abs=2e-4)


@pytest.mark.usefixtures("few_are_scanned")
def test_rows_by_sketches_and_the_newest_are_close_to_exact() -> None:
    rows = vectors(2_000)
    index = build(rows[:1_900])
    index.proposed(rows[0], mu_of(index), 10)
    for label in range(1_900, 1_945):
        add(index, label, rows[label])
    assert recall(index, dict(enumerate(rows[:1_945]))) >= 0.98
    assert search(index, rows[1_940], 1) == [1_940], "what was just added is found at once"


@pytest.mark.usefixtures("few_are_scanned")
def test_rows_are_proposed_alike_whenever_they_came() -> None:
    """Sketches that were extended are those made at once."""
    rows = vectors(2_000)
    grown = build(rows[:1_000])
    grown.proposed(rows[0], BACKGROUND, 10)
    for label in range(1_000, 2_000):
        add(grown, label, rows[label])
    together, mu = index_of(rows), mu_of(grown)
    for query in vectors(20, seed=5):
        assert np.array_equal(grown.proposed(query, mu, 10), together.proposed(query, mu, 10))


@pytest.mark.usefixtures("few_are_scanned")
def test_churn_keeps_recall() -> None:
    rows = vectors(3_000)
    held = {}
    index = DenseIndex.empty(Labels(), DIMENSION)
    for label, row in enumerate(rows):
        add(index, label, row)
        held[label] = row
        if label >= 1_000 and label % 2:
            remove(index, label - 1_000)
            del held[label - 1_000]
        if label % 300 == 0:
            index = maintained(index)
    assert recall(index, held) >= 0.98
    for label in list(held)[: int(len(held) * 0.9)]:
        remove(index, label)
        del held[label]
    assert recall(index, held) >= 0.98
    index = maintained(index)
    assert recall(index, held) >= 0.98
    assert sorted(index.rows.there()) == sorted(held)


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 30)), max_size=120))
@settings(max_examples=60, deadline=None)
def test_any_sequence_of_adds_and_removes_leaves_the_living(steps) -> None:
    rows = vectors(31)
    index, held = DenseIndex.empty(Labels(), DIMENSION), {}
    for adds, label in steps:
        if adds and label not in held:
            add(index, label, rows[label])
            held[label] = rows[label]
        elif not adds:
            remove(index, label)
            held.pop(label, None)
        index = maintained(index)
    query = vectors(1, seed=2)[0]
    assert sorted(search(index, query, 50)) == sorted(held)
    assert len(index) == len(held)
