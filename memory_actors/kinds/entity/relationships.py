"""The commands of relationships, and what each of them decides.

A new fact that contradicts an old one ends it. Two relationships contradict each other if they are
between the same two by the same relation, or, where the new one is exclusive, from the same source.
The one that begins later is true from then on, in whatever order they are said. A known end only
moves to an earlier time, so contradicting relationships never overlap.
"""

from collections.abc import Iterable, Sequence
from functools import partial
from typing import TypeVar

from msgspec.structs import replace

from eventlog.core.records import to_datetime
from memory_actors.base.errors import InvalidInputError, NotFoundError
from memory_actors.base.quota import Limits
from memory_actors.base.records import Metadata
from memory_actors.base.validation import metadata_copy
from memory_actors.kinds.commands import Add, Command, Update, is_known, plain, refuse_id
from memory_actors.kinds.effects import Decision, Pruned
from memory_actors.kinds.entity.events import (
    RelationshipAdded,
    RelationshipEnded,
    RelationshipUpdated,
)
from memory_actors.kinds.entity.graph import (
    RelationshipGraph,
    RelationshipRow,
    alike,
    relation_key,
    valid_at,
)
from memory_actors.kinds.entity.state import Entities, EntityRows
from memory_actors.kinds.rows import changed_pin, same_json, update_of

A = TypeVar("A", bound=RelationshipAdded)

# --- commands


class Relate(Add, frozen=True, kw_only=True):
    """Add a relationship that is true from a time on.

    One that says the same and is true at that time is brought up to date instead.
    """

    relationship: RelationshipAdded
    """The event; its names, and which relationships it ends, are decided."""
    auto_prune: bool = False


class EndRelationship(Command, frozen=True, kw_only=True):
    """Say when a relationship ended, or that it did so earlier than was known."""

    memory_id: str
    valid_to_us: int


UpdateRelationship = plain(Update, "UpdateRelationship")


# --- decide


class RelationshipDecisions(EntityRows):
    """Decides about relationships."""

    def _relate(self, command: Relate, state: Entities, limits: Limits) -> Decision:
        """Add a relationship, or bring the one up to date that says the same."""
        new = command.relationship
        for end_id in (new.source_id, new.target_id):
            if end_id not in state.rows:
                raise NotFoundError(f"no entity {end_id!r} to relate: add it first")
        source, target = (state.rows[one] for one in (new.source_id, new.target_id))
        check_validity(new.valid_from_us, new.valid_to_us)
        living, like = state.find(new.memory_id), (RelationshipAdded, RelationshipRow)
        was_added = is_known(command, new.memory_id, living, like, _key, _key(new))
        known = known_as(new, state.graph)
        if known is not None:
            return self._say_again(command, known, state, limits)
        row = state.graph.rows.get(new.memory_id)
        if row is not None and row.valid_from_us != new.valid_from_us:
            refuse_id(new.memory_id)  # it stands for another time at which it was true
        if was_added:  # and is not true now, or was deleted since
            return []
        victims = partial(self.oldest_relationships, state) if command.auto_prune else None
        pruned = self.make_room(state, limits, 0, 1, new.size_bytes, victims=victims)
        named = replace(new, source=source.name, target=target.name)
        return [*pruned, placed(named, state.graph, pruned)]

    def _say_again(
        self, command: Relate, row: RelationshipRow, state: Entities, limits: Limits
    ) -> Decision:
        new = command.relationship
        changed = _changed(new, row, state)
        whole = changed[0].size_bytes if changed and changed[0].content else row.size_bytes
        oldest = partial(self.oldest_relationships, state, keep=row.memory_id)
        victims = oldest if command.auto_prune else None
        pruned = self.make_room(state, limits, 0, 0, whole, instead_of=[row], victims=victims)
        return [*pruned, *changed, *_endings(new, row, state.graph, pruned)]

    def _end(self, command: EndRelationship, state: Entities, _limits: Limits) -> Decision:
        """End a relationship, or move its end to an earlier time."""
        row = state.graph.living("relationship", command.memory_id)
        check_validity(row.valid_from_us, command.valid_to_us)
        if row.valid_to_us == command.valid_to_us:
            return []
        if not _ends_after(row, command.valid_to_us):
            assert row.valid_to_us is not None
            raise InvalidInputError(
                f"relationship {row.memory_id!r} ended at {to_datetime(row.valid_to_us)} already: "
                "if it was true again later, relate the two again from then on"
            )
        return [RelationshipEnded(memory_id=row.memory_id, valid_to_us=command.valid_to_us)]

    def _update_relationship(self, command: Update, state: Entities, limits: Limits) -> Decision:
        """Replace the fact, or the metadata."""
        row = state.graph.living("relationship", command.memory_id)
        updated = update_of(
            RelationshipUpdated, command, row, same_content=command.digest == row.digest
        )
        if updated is None or updated.content is None:
            return [] if updated is None else [updated]
        self.make_room(state, limits, 0, 0, command.size_bytes, instead_of=[row])
        return [_with_fact(updated, row, command, updated.content, state)]


def check_validity(valid_from_us: int, valid_to_us: int | None) -> None:
    """Refuse a relationship that ends before it begins.

    :raises InvalidInputError: it does.
    """
    if valid_to_us is not None and valid_to_us < valid_from_us:
        begins, ends = to_datetime(valid_from_us), to_datetime(valid_to_us)
        raise InvalidInputError(f"valid_to {ends} is before valid_from {begins}: swap them")


def _key(it: RelationshipAdded | RelationshipRow) -> tuple[str, str, str]:
    return it.source_id, relation_key(it.relation), it.target_id


def known_as(new: RelationshipAdded, graph: RelationshipGraph) -> RelationshipRow | None:
    """Return the relationship that says the same and is true when the new one begins.

    If the new one is never valid, as a copy of a contradicted one is, one that is never valid, too.
    """
    begins = new.valid_from_us
    never = new.valid_to_us == begins
    since_us = begins - 1 if never else begins  # what is true at no time is over when it begins
    same = alike(graph, new.source_id, new.relation, new.target_id, since_us)
    if never:
        same = [row for row in same if row.never_valid and row.valid_from_us == begins]
    else:
        same = [row for row in same if valid_at(row, begins)]
    return same[0] if same else None


def placed(added: A, graph: RelationshipGraph, pruned: Sequence[Pruned] = ()) -> A:
    """Return a relationship among those that it contradicts: who ends whom, and when."""
    target_id = None if added.exclusive else added.target_id
    rivals = _left(
        alike(graph, added.source_id, added.relation, target_id, added.valid_from_us), pruned
    )
    later = [
        row.valid_from_us
        for row in rivals
        if row.valid_from_us > added.valid_from_us and not row.never_valid
    ]
    ends = [end for end in (added.valid_to_us, *later) if end is not None]
    valid_to_us = min(ends, default=None)
    closed = _true_at(rivals, added.valid_from_us) if valid_to_us != added.valid_from_us else []
    closed_ids = tuple(row.memory_id for row in closed)
    return replace(added, valid_to_us=valid_to_us, closed_ids=closed_ids)


def _left(rows: Iterable[RelationshipRow], pruned: Sequence[Pruned]) -> list[RelationshipRow]:
    gone = {memory_id for event in pruned for memory_id in event.memory_ids}
    return [row for row in rows if row.memory_id not in gone]


def _true_at(rows: Sequence[RelationshipRow], time_us: int) -> list[RelationshipRow]:
    """Return the relationships that are true at a time, in an order independent of hashes."""
    found = [row for row in rows if valid_at(row, time_us)]
    return sorted(found, key=lambda row: (row.version, row.memory_id))


def _changed(
    new: RelationshipAdded, row: RelationshipRow, state: Entities
) -> list[RelationshipUpdated]:
    """Return the update of a relationship that is stated again; what is left out stays."""
    fact = None if new.digest == row.digest else new.fact
    metadata = merged(row.metadata, new.metadata)
    pinned = changed_pin(new.pinned or None, row)
    if fact is None and metadata is None and pinned is None:
        return []
    updated = RelationshipUpdated(memory_id=row.memory_id, metadata=metadata, pinned=pinned)
    return [updated if fact is None else _with_fact(updated, row, new, fact, state)]


def _with_fact(
    updated: RelationshipUpdated,
    row: RelationshipRow,
    told: RelationshipAdded | Update,
    fact: str,
    state: Entities,
) -> RelationshipUpdated:
    return replace(
        updated,
        content=fact,
        size_bytes=told.size_bytes,
        digest=told.digest,
        source=state.rows[row.source_id].name,
        target=state.rows[row.target_id].name,
    )


def _endings(
    new: RelationshipAdded,
    row: RelationshipRow,
    graph: RelationshipGraph,
    pruned: Sequence[Pruned],
) -> list[RelationshipEnded]:
    endings = []
    if new.valid_to_us is not None and _ends_after(row, new.valid_to_us):
        endings.append(RelationshipEnded(memory_id=row.memory_id, valid_to_us=new.valid_to_us))
    if not new.exclusive or new.valid_to_us == new.valid_from_us:
        return endings
    others = _left(alike(graph, row.source_id, row.relation, None, new.valid_from_us), pruned)
    return endings + [
        RelationshipEnded(memory_id=other.memory_id, valid_to_us=new.valid_from_us)
        for other in _true_at(others, new.valid_from_us)
        if other.memory_id != row.memory_id
    ]


def _ends_after(row: RelationshipRow, time_us: int) -> bool:
    return row.valid_to_us is None or row.valid_to_us > time_us


# --- both entities and relationships


def merged(old: Metadata, new: Metadata) -> Metadata | None:
    """Return metadata with new values for some keys, None if that changes nothing.

    :raises InvalidInputError: together they are larger than metadata may be.
    """
    both = {**old, **new}
    return None if same_json(both, old) else metadata_copy(both)
