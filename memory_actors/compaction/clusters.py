"""Clusters: DBSCAN on cosine distance, in bounded memory, and a wide one taken apart into topics.

Two points are neighbours if 1 - cosine <= eps. A point with at least `min_samples` neighbours,
itself included, is a core point. Core points that are neighbours share a cluster; another point
that has core neighbours is on the border of their clusters; the rest is noise. As in scikit-learn,
clusters are numbered by their lowest core point, and a border point is in the lowest cluster that
it could be in. Distances are right to some 4e-7, as there.

Cosine is symmetric, so only tiles of the upper half of the matrix are multiplied, once.

40,000 points in one cluster have 800M edges, and who is no core point is certain only at the end.
But degrees only grow: an edge between two known core points is used at once, to link their
components, and dropped. Any other edge has an end that has seen fewer than `min_samples`
neighbours, so fewer than n * min_samples edges wait at any time; at the end they are those of
border points and noise. An edge within a component is not listed, nor is a tile multiplied whose
points are all in one.

Components are a forest, flat after each linking: `root[i]` is the lowest point of i's component.
Each root takes the lowest root that an edge leads to, so two rounds at least halve the roots that
are still to be linked.
"""

from itertools import combinations_with_replacement
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from memory_actors.compaction.summarizers.coverage import evenly
from memory_actors.search.embedding.protocol import Vectors

EPS = 0.3
MIN_SAMPLES = 5
TILE_ROWS = 1024  # a tile is 4 MB: in the cache between product and comparison; edges take 16 MB
EDGES_MAX = 1 << 18  # listed before they are looked at: 4 MB
LENGTH_MIN = 10 * np.finfo(np.float32).eps  # a shorter row has no direction, as in scikit-learn

Labels = npt.NDArray[np.int64]
Points = npt.NDArray[np.intp]
Flags = npt.NDArray[np.bool_]


def dbscan(
    vectors: Vectors,
    eps: float = EPS,
    min_samples: int = MIN_SAMPLES,
    *,
    tile_rows: int = TILE_ROWS,
) -> Labels:
    """Return the cluster of each row, int64 [n]; -1 is noise.

    `vectors` are float32 [n, d]; their lengths do not matter, and a row of zeros is noise. `eps` is
    a cosine distance in (0, 1). Time is that of n^2 d / 2 multiplications. Besides the vectors it
    takes some 50 MB, and at worst another 100 bytes * n * min_samples.

    :raises ValueError: the vectors are no finite matrix, or a parameter is out of range.
    """
    if not 0 < eps < 1 or min_samples < 1 or tile_rows < 1:
        raise ValueError("eps has to be between 0 and 1, min_samples and tile_rows at least 1")
    vectors = np.asarray(vectors, np.float32)
    if vectors.ndim != 2:
        raise ValueError(f"expected vectors of shape [n, d], got {vectors.shape}")
    lengths: Vectors = np.sqrt(np.einsum("ij,ij->i", vectors, vectors))
    if not np.isfinite(lengths).all():
        raise ValueError(f"vector {np.argmin(np.isfinite(lengths))} is not finite: embed it again")
    graph = _Graph(lengths >= LENGTH_MIN, min_samples)
    scales = np.where(lengths < LENGTH_MIN, np.float32(1), lengths)[:, None]
    # The lowest float32 c with 1 - c <= eps, exact for eps to 0.5, else to half a step.
    wanted = 1.0 - float(np.float32(eps))
    nearest = np.float32(wanted)
    cosine_min = nearest if float(nearest) >= wanted else np.nextafter(nearest, np.float32(1))
    tiles = [slice(row, row + tile_rows) for row in range(0, len(vectors), tile_rows)]
    for left, right in combinations_with_replacement(tiles, 2):
        if not graph.connects(left, right):
            rows, columns = (vectors[part] / scales[part] for part in (left, right))
            graph.add(left.start, right.start, rows @ columns.T >= cosine_min)
    return graph.labels()


def clusters(labels: Labels, min_size: int = MIN_SAMPLES) -> list[Points]:
    """Return the members of each cluster in ascending order, by the cluster's number.

    Noise and clusters of fewer than `min_size` are left out: border points may belong elsewhere.
    """
    order = np.argsort(labels, kind="stable")
    starts = np.searchsorted(labels[order], np.arange(labels.max(initial=-1) + 2))
    members = np.split(order, starts)[1:-1]
    return [found for found in members if len(found) >= min_size]


class _Graph:
    """The neighbourhoods as far as seen, with no more edges than are still of use."""

    def __init__(self, directed: Flags, min_samples: int):
        count = len(directed)
        self._min_samples = min_samples
        # Neighbours, itself included. Known core points may be counted too low.
        self._degree = directed.astype(np.intp)
        self._root: Points = np.arange(count)  # of a point that is no core point, itself
        none = np.empty(0, np.intp)
        self._edges = [(none, none)]
        self._listed = 0
        self._listed_max = EDGES_MAX

    def connects(self, left: slice, right: slice) -> bool:
        """Say whether these are one point, or all known to be core points of one cluster."""
        roots = np.concatenate([self._root[left], self._root[right]])
        return bool((roots == roots[0]).all())

    def add(self, row: int, column: int, near: Flags) -> None:
        """Learn which points from `row` on are neighbours of which from `column` on."""
        height, width = near.shape
        if row == column:
            near = np.triu(near, 1)
        if np.count_nonzero(near) > EDGES_MAX // 8:  # most may be within components
            roots = self._root[row : row + height, None]
            near = near & (roots != self._root[column : column + width])
        above, beside = np.divmod(np.flatnonzero(near), width)
        self._degree[row : row + height] += np.bincount(above, minlength=height)
        self._degree[column : column + width] += np.bincount(beside, minlength=width)
        self._edges.append((above + row, beside + column))
        self._listed += len(above)
        if self._listed > self._listed_max:
            self._settle()

    def labels(self) -> Labels:
        """Return the labels, now that all pairs have been seen."""
        left, right = self._settle()
        core = self._degree >= self._min_samples
        labels = np.full(len(core), -1, np.int64)
        labels[core] = np.unique(self._root[core], return_inverse=True)[1]
        _label_borders(labels, core, left, right)
        _label_borders(labels, core, right, left)
        return labels

    def _settle(self) -> tuple[Points, Points]:
        """Use up the edges between core points; keep and return the others."""
        left, right = map(np.concatenate, zip(*self._edges, strict=True))
        core = self._degree >= self._min_samples
        known = core[left] & core[right]
        _link(self._root, left[known], right[known])
        waiting = left[~known], right[~known]
        self._edges, self._listed = [waiting], len(waiting[0])
        self._listed_max = max(EDGES_MAX, 2 * self._listed)  # each edge is looked at few times
        return waiting


def _link(root: Points, left: Points, right: Points) -> None:
    while True:
        left, right = root[left], root[right]
        apart = left != right
        if not apart.any():
            return
        left, right = left[apart], right[apart]
        np.minimum.at(root, np.maximum(left, right), np.minimum(left, right))
        while not np.array_equal(above := root[root], root):
            root[:] = above


def _label_borders(labels: Labels, core: Flags, points: Points, others: Points) -> None:
    """Give border points among `points` the lowest label of the core points they have edges to."""
    border = core[others] & ~core[points]
    points, found = points[border], labels[others[border]]
    # -1, seen as unsigned, is above every label.
    np.minimum.at(labels.view(np.uint64), points, found.view(np.uint64))


# --- a cluster taken apart into its topics, by the idea of HDBSCAN
#
# Memories are linked in the order of their mutual reachability: the distance between two, but at
# least that from either to its `min_size`th nearest. Undone from the last link to the first, a
# cluster loses single memories and now and then falls into two parts of at least `min_size`. With
# lambda the inverse of a distance, the stability of a part is the sum over its members of how much
# lambda grows while they are in it. The topics are those parts, none within another, whose
# stabilities add up to most. (Campello, Moulavi, Sander, 2013.) Unlike there, a memory that is lost
# before its topic appears goes to the topic nearest to it, and texts nearer than `NEAR` count as
# that far apart, or repetitions would outweigh everything.


LINKED_MAX = 2_000
"""Memories, evenly over time, that are linked: 16 MB of distances. The others go to the nearest."""
NEAR = 0.01


def topics(vectors: Vectors, min_size: int) -> list[Points]:
    """Return the members of each topic, in ascending order; one topic if there is no real split.

    `vectors` are float32 unit vectors [n, d]. Every row is in just one topic.
    """
    linked = np.array(evenly(len(vectors), LINKED_MAX))
    labels = _labels(vectors[linked], min_size)
    if labels.max(initial=-1) < 1:
        return [np.arange(len(vectors))]
    known = linked[labels >= 0]
    nearest = (vectors @ vectors[known].T).argmax(axis=1)
    of_all = labels[labels >= 0][nearest]
    return [np.flatnonzero(of_all == topic) for topic in range(labels.max() + 1)]


class _Link(NamedTuple):
    """Two parts that become one. A part below n is a memory, n + i is what link i makes."""

    left: int
    right: int
    distance: float
    size: int


class _Part(NamedTuple):
    """Part of a cluster, from the split that makes it to its own."""

    root: int
    stability: float
    halves: list[int]
    """Their places among the parts, if it splits: behind its own."""


def _labels(vectors: Vectors, min_size: int) -> Labels:
    """Return the topic of each row, numbered by their first; -1 for what belongs to none."""
    labels = np.full(len(vectors), -1, np.int64)
    if len(vectors) < 2 * min_size:
        return labels
    distances = np.maximum(1 - vectors @ vectors.T, 0)
    core = np.partition(distances, min_size - 1, axis=1)[:, min_size - 1]
    far: Vectors = np.maximum(distances, np.maximum(core[:, None], core[None]))
    links = _links(far)
    roots = _most_stable(_parts(links, min_size))
    for topic, members in enumerate(sorted((_members(links, root) for root in roots), key=min)):
        labels[members] = topic
    return labels


def _links(distances: Vectors) -> list[_Link]:
    """Return the n - 1 links of single linkage, the nearest first: Prim's tree, then sorted."""
    count = len(distances)
    edges, at = [], 0
    to_tree, via = np.full(count, np.inf), np.zeros(count, np.intp)
    outside = np.ones(count, bool)
    for _ in range(count - 1):
        outside[at] = False
        nearer = outside & (distances[at] < to_tree)
        to_tree[nearer], via[nearer] = distances[at][nearer], at
        to_tree[at] = np.inf
        at = int(to_tree.argmin())
        edges.append((float(to_tree[at]), int(via[at]), at))
    return _joined(sorted(edges), count)


def _joined(edges: list[tuple[float, int, int]], count: int) -> list[_Link]:
    links: list[_Link] = []
    above = list(range(2 * count - 1))

    def part(node: int) -> int:
        while above[node] != node:
            above[node] = above[above[node]]
            node = above[node]
        return node

    for distance, one, other in edges:
        left, right = part(one), part(other)
        size = sum(links[node - count].size if node >= count else 1 for node in (left, right))
        above[left] = above[right] = count + len(links)
        links.append(_Link(left, right, distance, size))
    return links


def _parts(links: list[_Link], min_size: int) -> list[_Part]:
    """Return the whole, and behind it every part that a real split makes, at any depth."""
    parts: list[_Part] = []
    waiting = [(2 * len(links), 0.0, list[int]())]
    while waiting:
        root, born, places = waiting.pop()
        places.append(len(parts))
        stability, halves, at = _life(links, root, born, min_size)
        parts.append(_Part(root, stability, []))
        waiting += [(half, at, parts[-1].halves) for half in halves]
    return parts


def _life(
    links: list[_Link], root: int, born: float, min_size: int
) -> tuple[float, tuple[int, ...], float]:
    """Return the stability of a part, its halves, if it falls into two, and the lambda then."""
    count, stability, node = len(links) + 1, 0.0, root
    while True:
        left, right, distance, size = links[node - count]
        grown = 1 / max(distance, NEAR)
        sizes = [links[side - count].size if side >= count else 1 for side in (left, right)]
        if min(sizes) >= min_size:
            return stability + size * (grown - born), (left, right), grown
        if max(sizes) < min_size:
            return stability + size * (grown - born), (), grown
        stability += min(sizes) * (grown - born)
        node = left if sizes[0] >= min_size else right


def _most_stable(parts: list[_Part]) -> list[int]:
    """Return the roots of the parts, none within another, with most stability; not the whole."""
    best = [0.0] * len(parts)
    for place in reversed(range(len(parts))):
        best[place] = max(parts[place].stability, sum(best[half] for half in parts[place].halves))
    chosen, waiting = [], list(parts[0].halves)
    while waiting:
        part = parts[place := waiting.pop()]
        if best[place] == part.stability:
            chosen.append(part.root)
        else:
            waiting += part.halves
    return chosen


def _members(links: list[_Link], root: int) -> list[int]:
    members, waiting, count = [], [root], len(links) + 1
    while waiting:
        node = waiting.pop()
        if node < count:
            members.append(node)
        else:
            waiting += links[node - count][:2]
    return members
