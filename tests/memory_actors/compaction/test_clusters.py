"""DBSCAN: the textbook's clusters and scikit-learn's labels, in bounded memory.

Which way a pair at eps itself falls depends on rounding, so the data has no pair within 1e-6 of it.
Then nothing is tolerated: labels are equal or wrong.
"""

import tracemalloc
from collections.abc import Callable, Sequence
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory_actors.compaction import clusters as module
from memory_actors.compaction.clusters import EDGES_MAX, clusters, dbscan

EPS = 0.3


def unit(rows):
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def clear_of(vectors, eps: float):
    """Leave out rows that are within 1e-6 of `eps` from a later one."""
    exact = unit(vectors).astype(np.float64)
    exact /= np.linalg.norm(exact, axis=1, keepdims=True)
    close = np.abs(1 - exact @ exact.T - eps) < 1e-6
    return vectors[~np.triu(close, 1).any(axis=1)]


def textbook(vectors, eps: float, min_samples: int) -> list[int]:
    """DBSCAN, written out."""
    exact = vectors.astype(np.float64)
    exact /= np.linalg.norm(exact, axis=1, keepdims=True)
    near = [np.flatnonzero(row) for row in 1 - exact @ exact.T <= eps]
    core = [len(neighbours) >= min_samples for neighbours in near]
    labels, label = [-1] * len(near), -1
    for start in range(len(near)):
        if not core[start] or labels[start] != -1:
            continue
        label, reached = label + 1, [start]
        while reached:
            point = reached.pop()
            if labels[point] == -1:
                labels[point] = label
                reached += near[point].tolist() if core[point] else []
    return labels


# --- data


def topics(count: int, topic_count: int, spread: tuple[float, float], dimension: int = 48):
    """Return points around as many centres; the noise of each point has a length of its own."""
    rng = np.random.default_rng(1)
    centres = unit(rng.standard_normal((topic_count, dimension)))
    noise = rng.standard_normal((count, dimension)) / dimension**0.5
    noise *= rng.uniform(*spread, size=(count, 1))
    return unit(centres[rng.integers(topic_count, size=count)] + noise)


def chains(count: int, length: int):
    """Return walks of small steps, shuffled: clusters that only their links hold together."""
    rng = np.random.default_rng(1)
    points = []
    for _ in range(count):
        point = unit(rng.standard_normal((1, 64)))
        for _ in range(length):
            point = unit(point + 0.35 * unit(rng.standard_normal((1, 64))))
            points.append(point)
    return rng.permutation(np.concatenate(points))


def circle(*degrees: float):
    """Return points on a circle; eps reaches 45.57 degrees."""
    angles = np.radians(degrees)
    return np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)


LEFT, CONTESTED, RIGHT = (-20, -15, -10, -5, 0), (44,), (88, 93, 98, 103, 108)


def robbed():
    """Return four clusters, a point on the border of each, and a core point that has only those."""
    planes = []
    for axis in range(1, 5):
        plane = np.zeros((6, 5), np.float32)
        plane[:, [0, axis]] = circle(85, 90, 95, 100, 105, 40)
        planes.append(plane)
    everything = np.concatenate(planes)
    border = np.arange(len(everything)) % 6 == 5
    core = np.eye(1, 5, dtype=np.float32)
    return np.concatenate([everything[~border], everything[border], core])


def repeated(times: int):
    """Return some points of no cluster, each as often."""
    return np.repeat(topics(12, 1_000, (0.5, 0.5)), times, axis=0)


SHAPES: dict[str, Callable[[], np.ndarray]] = {
    "dense topics": lambda: topics(2_500, 25, (0.2, 0.5)),
    "topics with borders and noise": lambda: topics(2_500, 40, (0.3, 1.3)),
    "one cluster": lambda: topics(2_500, 1, (0.1, 0.4)),
    "two clusters in turn": lambda: topics(2_500, 2, (0.1, 0.6)),
    "a wide table": lambda: topics(1_500, 20, (0.4, 0.9), dimension=384),
    "chains": lambda: chains(12, 150),
    "the left cluster comes first": lambda: circle(*LEFT, *CONTESTED, *RIGHT),
    "the right cluster comes first": lambda: circle(*RIGHT, *LEFT, *CONTESTED),
    "the contested point comes first": lambda: circle(*CONTESTED, *RIGHT, *LEFT),
    "a core point whose neighbours went elsewhere": robbed,
    "noise only": lambda: topics(800, 800, (1.0, 1.0)),
    "points four times": lambda: repeated(4),
    "points five times": lambda: repeated(5),
    "fewer than min_samples": lambda: circle(0, 1, 2, 3),
    "one point": lambda: circle(0),
}


@pytest.mark.parametrize("tile_rows", [100, 1024])
@pytest.mark.parametrize("shape", SHAPES)
def test_labels_are_those_of_scikit_learn(shape: str, tile_rows: int):
    reference = pytest.importorskip("sklearn.cluster", reason="needs scikit-learn: the dev extra")
    vectors = clear_of(SHAPES[shape](), EPS)
    model = reference.DBSCAN(eps=EPS, min_samples=5, metric="cosine")
    labels = dbscan(vectors, EPS, 5, tile_rows=tile_rows)
    assert labels.dtype == np.int64
    np.testing.assert_array_equal(labels, model.fit_predict(vectors))


# --- properties


@st.composite
def cases(draw: st.DrawFn):
    """Vectors of few dimensions, where everything is near something, and parameters."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    count, dimension = draw(st.integers(1, 60)), draw(st.integers(2, 5))
    rows = rng.standard_normal((count, dimension))
    rows = rows[rng.integers(count, size=count)] if draw(st.booleans()) else rows  # duplicates
    eps = draw(st.sampled_from([0.01, 0.05, 0.15, 0.3, 0.6]))
    return clear_of(unit(rows), eps), eps, draw(st.integers(1, 7))


@given(cases(), st.integers(1, 70), st.sampled_from([0, 10, 200, EDGES_MAX]))
@settings(deadline=None, max_examples=300)
def test_any_labels_are_those_of_the_textbook(case, tile_rows: int, edges_max: int):
    """The labels agree however small the tiles are, and however often the edges are used up."""
    vectors, eps, min_samples = case
    with patch.object(module, "EDGES_MAX", edges_max):
        labels = dbscan(vectors, eps, min_samples, tile_rows=tile_rows)
    assert labels.tolist() == textbook(vectors, eps, min_samples)


# --- bounds


@pytest.mark.parametrize("topic_count", [1, 2, 3])
def test_memory_does_not_grow_with_the_edges(topic_count: int):
    """Kept as pairs of indices, the edges of 6,000 points in three clusters would take 96 MB."""
    peaks = [_peak_bytes(topics(count, topic_count, (0.1, 0.3))) for count in (3_000, 6_000)]
    assert peaks[1] < 40_000_000
    assert peaks[1] < 1.5 * peaks[0]


def _peak_bytes(vectors) -> int:
    tracemalloc.start()
    try:
        dbscan(vectors, tile_rows=256)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


# --- input


@pytest.mark.parametrize("min_samples", [1, 5])
def test_vectors_of_zeros_are_noise(min_samples: int):
    vectors = np.concatenate([np.zeros((6, 2), np.float32), circle(*LEFT)])
    assert dbscan(vectors, EPS, min_samples).tolist() == [-1] * 6 + [0] * 5


def test_the_vectors_are_left_as_they_are():
    vectors = 2 * topics(50, 2, (0.3, 0.5))
    vectors.flags.writeable = False
    dbscan(vectors)


@pytest.mark.parametrize("broken", [np.nan, np.inf, -np.inf])
def test_a_vector_that_is_not_finite_is_refused(broken: float):
    vectors = circle(*LEFT)
    vectors[3, 1] = broken
    with pytest.raises(ValueError, match="vector 3 is not finite"):
        dbscan(vectors)


@pytest.mark.parametrize(
    ("eps", "min_samples"), [(0, 5), (1, 5), (-0.1, 5), (float("nan"), 5), (0.3, 0)]
)
def test_parameters_out_of_range_are_refused(eps: float, min_samples: int):
    with pytest.raises(ValueError, match="eps has to be"):
        dbscan(circle(*LEFT), eps, min_samples)


# --- members


@pytest.mark.parametrize(
    ("labels", "min_size", "members"),
    [
        ([1, 0, -1, 1, 0, 1], 1, [[1, 4], [0, 3, 5]]),
        ([1, 0, -1, 1, 0, 1], 3, [[0, 3, 5]]),
        ([1, 0, -1, 1, 0, 1], 4, []),
        ([-1, -1], 1, []),
        ([0, 0], 1, [[0, 1]]),
        ([], 1, []),
    ],
)
def test_clusters_lists_members_in_order(
    labels: Sequence[int], min_size: int, members: list[list[int]]
):
    found = clusters(np.array(labels, np.int64), min_size)
    assert [group.tolist() for group in found] == members
    assert all(group.dtype == np.intp for group in found)


def test_a_cluster_without_its_borders_is_too_small():
    """A cluster that lost its borders to earlier ones is too small."""
    labels = dbscan(robbed())
    assert labels.tolist() == [0] * 5 + [1] * 5 + [2] * 5 + [3] * 5 + [0, 1, 2, 3] + [4]
    assert [len(group) for group in clusters(labels)] == [6, 6, 6, 6]
