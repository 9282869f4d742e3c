"""The relationships of one user as a graph: who is linked to whom, by what, and when.

An edge is found from either endpoint through persistent maps: entity -> relation -> the other ->
ids. A new fact must not look at ten thousand past ones, so relationships without an end are linked
once more, beside the latest end of the others, a bound that stays when its relationship goes.

Validity is half-open, [from, to). A relationship that ends where it begins is never valid: it was
contradicted at once, and is kept as a record.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache, partial
from itertools import chain, islice
from operator import attrgetter
from typing import Any, TypeAlias

import msgspec
from immutables import Map

from memory_actors.base.errors import InvalidInputError
from memory_actors.base.records import Direction
from memory_actors.kinds.passages import composed, normalised
from memory_actors.kinds.rows import Draft, Keyed, Row

Edge: TypeAlias = tuple[str, str, str]
"""An endpoint, the relation's key, the other endpoint."""
Edges: TypeAlias = Map[str, Map[str, Map[str, tuple[str, ...]]]]
"""Entity id -> relation key -> id of the other endpoint -> relationship ids, sorted."""

DEPTH_MAX = 100  # of a walk: each entity comes with the path to it

_AGE = attrgetter("occurred_at_us", "version", "memory_id")
_NONE: Map[str, Any] = Map()

# --- what is the same


def name_key(name: str) -> str:
    """Return the form that two spellings of one name share."""
    return normalised(composed(name).casefold())


@lru_cache(maxsize=1024)  # relations are few, and asked for several times by each event
def relation_key(relation: str) -> str:
    """Return the form that two spellings of one relation share: works_at, "Works at"."""
    return name_key(relation.replace("_", " "))


# --- the graph


class RelationshipRow(Row, frozen=True, kw_only=True, array_like=True, gc=False):
    """A relationship without its text. It is true from `occurred_at_us` on."""

    source_id: str
    relation: str
    target_id: str
    digest: bytes
    valid_to_us: int | None
    pinned: bool

    @property
    def valid_from_us(self) -> int:
        """The first moment at which it is true."""
        return self.occurred_at_us

    @property
    def outward(self) -> Edge:
        """The edge as it is found from the source."""
        return self.source_id, relation_key(self.relation), self.target_id

    @property
    def inward(self) -> Edge:
        """The edge as it is found from the target."""
        return self.target_id, relation_key(self.relation), self.source_id

    @property
    def never_valid(self) -> bool:
        """True if it ends where it begins."""
        return self.valid_to_us == self.valid_from_us


class RelationshipGraph(Keyed[RelationshipRow], frozen=True):
    """The living relationships. Never changes: a `GraphDraft` makes the next one."""

    outgoing: Edges = Map()
    incoming: Edges = Map()
    unended: Edges = Map()
    """The outgoing ones that have no end."""
    ended_us: Map[str, Map[str, int]] = Map()
    """Source id -> relation key -> no one of these with an end has a later one."""

    @classmethod
    def of(
        cls, rows: Iterable[RelationshipRow], ended_us: Mapping[str, Mapping[str, int]]
    ) -> "RelationshipGraph":
        """Return the graph of these relationships."""
        draft = GraphDraft(cls())
        for row in rows:
            draft.put(row)
        for source_id, by_relation in ended_us.items():
            draft.ended_us[source_id] = Map(by_relation)
        return draft.finished()


class GraphDraft(Draft[RelationshipRow]):
    """A graph that changes in place."""

    __slots__ = ("ended_us", "incoming", "outgoing", "unended")

    def __init__(self, graph: RelationshipGraph):
        super().__init__(graph)
        self.outgoing = graph.outgoing.mutate()
        self.incoming = graph.incoming.mutate()
        self.unended = graph.unended.mutate()
        self.ended_us = graph.ended_us.mutate()

    def put(self, row: RelationshipRow) -> RelationshipRow | None:
        """Add a relationship, or replace the one with its id; its endpoints stay what they are."""
        old = super().put(row)
        if old is not None:
            self._unlink_end(old)
        else:
            _link(self.outgoing, row.outward, row.memory_id)
            _link(self.incoming, row.inward, row.memory_id)
        self._link_end(row)
        return old

    def drop(self, memory_id: str) -> RelationshipRow:
        """Take a relationship away."""
        row = super().drop(memory_id)
        _unlink(self.outgoing, row.outward, memory_id)
        _unlink(self.incoming, row.inward, memory_id)
        self._unlink_end(row)
        source_id, relation, _ = row.outward
        ended = self.ended_us.get(source_id, _NONE)
        if relation in ended and relation not in self.outgoing.get(source_id, _NONE):
            _put(self.ended_us, source_id, ended.delete(relation))
        return row

    def _link_end(self, row: RelationshipRow) -> None:
        if row.valid_to_us is None:
            _link(self.unended, row.outward, row.memory_id)
            return
        source_id, relation, _ = row.outward
        ended = self.ended_us.get(source_id, _NONE)
        latest = max(ended.get(relation, row.valid_to_us), row.valid_to_us)
        self.ended_us[source_id] = ended.set(relation, latest)

    def _unlink_end(self, row: RelationshipRow) -> None:
        if row.valid_to_us is None:
            _unlink(self.unended, row.outward, row.memory_id)

    def finished(self) -> RelationshipGraph:
        """Return the new graph."""
        return RelationshipGraph(*self.fields())

    def fields(self) -> tuple[Any, ...]:
        """Return the fields of the graph as they have become, in their order."""
        edges = self.outgoing, self.incoming, self.unended, self.ended_us
        return (*super().fields(), *(one.finish() for one in edges))


def _link(edges: Any, edge: Edge, memory_id: str) -> None:
    end, relation, other = edge
    by_relation = edges.get(end, _NONE)
    by_other = by_relation.get(relation, _NONE)
    ids = tuple(sorted((*by_other.get(other, ()), memory_id)))
    edges[end] = by_relation.set(relation, by_other.set(other, ids))


def _unlink(edges: Any, edge: Edge, memory_id: str) -> None:
    end, relation, other = edge
    by_relation = edges[end]
    by_other = by_relation[relation]
    ids = tuple(kept for kept in by_other[other] if kept != memory_id)
    _put(edges, end, _set(by_relation, relation, _set(by_other, other, ids)))


def _set(edges: Map[str, object], key: str, value: object) -> Map[str, object]:
    """Return a map with a value; an empty one is left out, so that equal graphs are equal."""
    return edges.set(key, value) if value else edges.delete(key)


def _put(edges: Any, key: str, value: Map[str, object]) -> None:
    if value:
        edges[key] = value
    else:
        del edges[key]


# --- reads


def valid_at(row: RelationshipRow, time_us: int) -> bool:
    """Say whether a relationship is true at a time."""
    return row.valid_from_us <= time_us and (row.valid_to_us is None or time_us < row.valid_to_us)


def alike(
    graph: RelationshipGraph, source_id: str, relation: str, target_id: str | None, since_us: int
) -> list[RelationshipRow]:
    """Return the relationships of a source by one relation, to one target or to any.

    The result may lack those that ended by `since_us`.
    """
    key = relation_key(relation)
    over_us = graph.ended_us.get(source_id, _NONE).get(key, since_us)
    edges = graph.outgoing if since_us < over_us else graph.unended
    by_target = edges.get(source_id, _NONE).get(key, _NONE)
    found = by_target.values() if target_id is None else (by_target.get(target_id, ()),)
    return [graph.rows[memory_id] for memory_id in chain.from_iterable(found)]


def touching(graph: RelationshipGraph, entity_ids: Iterable[str]) -> list[str]:
    """Return the ids of all relationships with an endpoint in these entities, sorted."""
    edges = (graph.outgoing, graph.incoming)
    return sorted({r for e in entity_ids for way in edges for r in _ids(way, e, None)})


def relationships(
    graph: RelationshipGraph,
    entity_id: str,
    *,
    as_of_us: int | None = None,
    relation: str | None = None,
    direction: Direction = "both",
) -> list[RelationshipRow]:
    """Return the relationships of an entity that are true at a time, or ever; newest first."""
    key = None if relation is None else relation_key(relation)
    ways = {"out": [graph.outgoing], "in": [graph.incoming]}
    edges = ways.get(direction, [graph.outgoing, graph.incoming])
    ids = dict.fromkeys(r for way in edges for r in _ids(way, entity_id, key))  # a loop is in both
    found = (graph.rows[memory_id] for memory_id in ids)
    true = found if as_of_us is None else (row for row in found if valid_at(row, as_of_us))
    return sorted(true, key=_AGE, reverse=True)


def _ids(edges: Edges, entity_id: str, relation: str | None) -> Iterator[str]:
    by_relation = edges.get(entity_id, _NONE)
    chosen = by_relation.values() if relation is None else (by_relation.get(relation, _NONE),)
    return chain.from_iterable(ids for by_other in chosen for ids in by_other.values())


class Reached(msgspec.Struct, frozen=True):
    """An entity that is reached from another one."""

    memory_id: str
    distance: int
    """The number of relationships between the two, from 1."""
    path: tuple[str, ...]
    """The ids of those relationships, from the start."""


def neighbours(
    graph: RelationshipGraph,
    entity_id: str,
    depth: int = 1,
    *,
    relation: str | None = None,
    direction: Direction = "both",
    as_of_us: int | None = None,
    limit: int | None = None,
) -> list[Reached]:
    """Return the entities within `depth` relationships of one, the nearest first.

    Each is reached by a shortest path, over the newest relationships where there are several. With
    `as_of_us` only what is true at that time is followed. At most `limit` are returned.

    :raises InvalidInputError: a depth that is not from 1 to 100.
    """
    if not 0 < depth <= DEPTH_MAX:
        raise InvalidInputError(f"depth must be from 1 to {DEPTH_MAX}, not {depth!r:.80}")
    steps = partial(relationships, graph, as_of_us=as_of_us, relation=relation, direction=direction)
    return list(islice(_walk(entity_id, depth, steps), limit))


def _walk(
    entity_id: str, depth: int, steps: Callable[[str], Iterable[RelationshipRow]]
) -> Iterator[Reached]:
    known, queue = {entity_id}, deque([Reached(entity_id, 0, ())])
    while queue and queue[0].distance < depth:
        here = queue.popleft()
        for row in steps(here.memory_id):
            other = row.target_id if row.source_id == here.memory_id else row.source_id
            if other not in known:
                known.add(other)
                there = Reached(other, here.distance + 1, (*here.path, row.memory_id))
                queue.append(there)
                yield there
