"""A cluster taken apart into its topics, by the idea of HDBSCAN.

Why. DBSCAN has one eps for all, and notes that share a form of words are near each other whatever
they are about: 1,000 notes on 50 topics are one cluster. No smaller eps is right for all topics.

Theory. Memories are linked in the order of their mutual reachability: the distance between two, but
at least that from either to its `min_size`th nearest. Undone from the last link to the first, a
cluster loses single memories and now and then falls into two parts of at least `min_size`: a real
split. A part that lives long, from the split that makes it to its own, is a topic. With lambda the
inverse of a distance, the stability of a part is the sum over its members of how much lambda grows
while they are in it, and the topics are those parts, none within another, whose stabilities add up
to most. (Campello, Moulavi, Sander, "Density-Based Clustering Based on Hierarchical Density
Estimates", 2013.) Labels are those of scikit-learn's HDBSCAN but for two things: a memory that is
lost before its topic appears goes to the topic of the memory nearest to it, so that none is noise,
and texts nearer than `NEAR` count as that far apart, or repetitions would outweigh everything.
"""

from typing import NamedTuple

import numpy as np

from memory_actors.compaction.clusters import Labels, Points
from memory_actors.compaction.summarizers.sampling import evenly
from memory_actors.search.embedding.protocol import Vectors

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
    links = _links(_reachability(vectors, min_size))
    roots = _most_stable(_parts(links, min_size))
    for topic, members in enumerate(sorted((_members(links, root) for root in roots), key=min)):
        labels[members] = topic
    return labels


def _reachability(vectors: Vectors, min_size: int) -> Vectors:
    """Return the mutual reachability of all pairs, [n, n]."""
    distances = np.maximum(1 - vectors @ vectors.T, 0)
    core = np.partition(distances, min_size - 1, axis=1)[:, min_size - 1]
    far: Vectors = np.maximum(distances, np.maximum(core[:, None], core[None]))
    return far


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
