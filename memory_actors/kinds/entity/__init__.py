"""Entities and what relates them: a graph of people, things and places, and of when it was so.

An entity is a name, a type and observations; it is found by its name and by each observation. A
relationship says one thing of two entities, from a time on; it is found by its fact.

An entity is its name and type: adding one that is there adds what is new of it. The caller embeds
the texts that `passages` makes, and gives their digests.
"""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, NoReturn, TypeAlias

from msgspec.structs import replace

from memory_actors.base.errors import InvalidInputError, NotFoundError, QuotaExceededError
from memory_actors.base.quota import MIB, Limits, size
from memory_actors.base.records import Entity, Relationship
from memory_actors.kinds.commands import Add, Command, Delete, Restore, Update, is_known, plain
from memory_actors.kinds.effects import Decision, Event
from memory_actors.kinds.entity.events import (
    EntityAdded,
    EntityDeleted,
    EntityObserved,
    EntityRestored,
    EntityUpdated,
    Observation,
    ObservationRemoved,
    RelationshipAdded,
    RelationshipDeleted,
    RelationshipRestored,
    fact_in,
    text_in,
)
from memory_actors.kinds.entity.graph import RelationshipRow, name_key, touching
from memory_actors.kinds.entity.relationships import (
    EndRelationship,
    Relate,
    RelationshipDecisions,
    UpdateRelationship,
    known_as,
    merged,
    placed,
)
from memory_actors.kinds.entity.state import (
    AnyRow,
    Entities,
    EntityRow,
    EntityRows,
    as_it_was,
    find_named,
    named,
    observation_at,
)
from memory_actors.kinds.kind import Decide, Nature, Sized, Tally
from memory_actors.kinds.passages import (
    EVENT_PASSAGES_MAX,
    Passage,
    index_of,
    label,
    name_text,
    observation_text,
    text_digest,
    version_of,
)
from memory_actors.kinds.past import Events, TaintedPast
from memory_actors.kinds.rows import derived, oldest_first, record_data, update_of

Restored: TypeAlias = EntityRestored | RelationshipRestored

OBSERVATIONS_MAX = 1_000  # of an entity: a restore tells them in one event, beside the name
OBSERVATIONS_BYTES_MAX = 8 * MIB  # of an entity, for the same reason: an event has at most 16 MB
assert OBSERVATIONS_MAX < EVENT_PASSAGES_MAX

# --- commands


class AddEntity(Add, frozen=True, kw_only=True):
    """Add an entity, or what is new of it to the one that has its name and type."""

    entity: EntityAdded
    """The event as it is for a new entity, its size aside; one that is there keeps its id."""
    auto_prune: bool = False
    must_exist: bool = False
    """Refuse to add one that is not there."""


UpdateEntity = plain(Update, "UpdateEntity")


class RemoveObservation(Command, frozen=True, kw_only=True):
    """Delete one observation of an entity."""

    frees: ClassVar[bool] = True
    memory_id: str
    digest: bytes


DeleteEntity = plain(Delete, "DeleteEntity")
RestoreEntities = plain(Restore, "RestoreEntities")

# --- the kind


class EntityKind(RelationshipDecisions):
    """The entities of a user, and their relationships."""

    NATURE = Nature(is_reviewed=True)
    NOUN = "entity or relationship"
    UPDATE, DELETE, RESTORE = UpdateEntity, DeleteEntity, RestoreEntities

    # --- decide

    def decisions(self) -> Mapping[type[Command], Decide]:
        """Return the decision function for each command type."""
        return {
            **super().decisions(),
            AddEntity: self._add,
            RemoveObservation: self._remove_observation,
            Relate: self._relate,
            EndRelationship: self._end,
            UpdateRelationship: self._update_relationship,
            RestoreEntities: self._restore,
        }

    def _add(self, command: AddEntity, state: Entities, limits: Limits) -> Decision:
        """Add an entity, or merge it into the one that has its name and type."""
        new, like = command.entity, (EntityAdded, EntityRow)
        living = state.find(new.memory_id)
        was_added = is_known(command, new.memory_id, living, like, _key, _key(new))
        known = named(state, new.name, new.type)
        if known is not None:
            return self._merge(command, known, state, limits)
        if command.must_exist:
            raise NotFoundError(f"no entity {new.name!r:.80}: add it first, or it was deleted")
        if was_added:  # and deleted since
            return []
        observations = _new(new.observations, set())
        size_bytes = len(new.name.encode()) + len(new.type.encode()) + _bytes(observations)
        added = replace(new, size_bytes=size_bytes, observations=observations)
        _check_observations(new.name, added.observations, None, limits)
        victims = partial(self.oldest_entities, state) if command.auto_prune else None
        return [*self.make_room(state, limits, 1, 0, size_bytes, victims=victims), added]

    def _merge(
        self, command: AddEntity, row: EntityRow, state: Entities, limits: Limits
    ) -> Decision:
        said, known = command.entity, {observation.digest for observation in row.observations}
        new = _new(_as_named(row, said), known)
        metadata = merged(row.metadata, said.metadata)
        pinned = said.pinned and not row.pinned
        if not new and metadata is None and not pinned:
            return []
        _check_observations(row.name, new, row, limits)
        oldest = partial(self.oldest_entities, state, keep=row.memory_id)
        victims = oldest if command.auto_prune else None
        observed = EntityObserved(
            memory_id=row.memory_id,
            occurred_at_us=said.occurred_at_us,
            observations=new,
            metadata=metadata,
            pinned=pinned,
        )
        return [*self.make_room(state, limits, 0, 0, _bytes(new), victims=victims), observed]

    def _update(self, command: Update, state: Entities, limits: Limits) -> Decision:
        """Replace all observations by one, or the metadata."""
        row = state.living("entity", command.memory_id)
        only = [observation.digest for observation in row.observations] == [command.digest]
        updated = update_of(EntityUpdated, command, row, same_content=only)
        if updated is None:
            return []
        if updated.content is not None:
            self.make_room(state, limits, 0, 0, command.size_bytes, instead_of=row.observations)
        return [updated]

    def _remove_observation(
        self, command: RemoveObservation, state: Entities, _limits: Limits
    ) -> Decision:
        """Delete one observation."""
        row = state.living("entity", command.memory_id)
        if all(observation.digest != command.digest for observation in row.observations):
            raise NotFoundError(
                f"entity {row.name!r:.80} has no such observation: give one as it reads in `data`"
            )
        return [ObservationRemoved(memory_id=row.memory_id, digest=command.digest)]

    def _restore(self, command: Restore, state: Entities, limits: Limits) -> Decision:
        """Bring all back or none; entities first, so that relationships find their endpoints."""
        gone = [as_it_was(life) for life in self.gone(command, state)]
        entities = [it for it in gone if isinstance(it, EntityRestored)]
        related = [it for it in gone if isinstance(it, RelationshipRestored)]
        size_bytes = sum(it.size_bytes for it in gone)
        self.make_room(state, limits, len(entities), len(related), size_bytes)
        events: list[Event] = []
        for entity in entities:
            other = named(state, entity.name, entity.type)
            if other is not None:
                raise InvalidInputError(
                    f"entity {entity.memory_id!r} cannot come back: {other.memory_id!r} has its "
                    "name and type by now. Add the observations to that one, or delete it first"
                )
            events.append(entity)
            state = self.after(state, [entity])
        for relationship in related:
            for end_id in (relationship.source_id, relationship.target_id):
                if end_id not in state.rows:
                    raise NotFoundError(
                        f"relationship {relationship.memory_id!r} has an endpoint in {end_id!r}, "
                        "which has gone: restore that one too, in the same call"
                    )
            events.append(placed(relationship, state.graph))
            state = self.after(state, events[-1:])
        return events

    # --- purges
    #
    # An entity that the source began keeps its name where others have observed something of it, or
    # relate to it: they have used the name themselves. A relationship that the source said goes,
    # and what it ended is true again.

    def without(
        self, past: TaintedPast, row: AnyRow, state: Entities, _limits: Limits
    ) -> list[Restored] | None:
        """Return the event that leaves an entity, or a relationship, what others have said."""
        if isinstance(row, RelationshipRow):
            said = [one.data for one in past.clean if isinstance(one.data, RelationshipAdded)]
            if all(event.memory_id != past.memory_id for event in said):
                return None
            return [as_it_was(self.last(past.memory_id, past.clean))]
        related = bool(touching(state.graph, (row.memory_id,)))
        begin = next((e.data for e in past.events if isinstance(e.data, EntityAdded)), None)
        empty: dict[str, Any] = {"observations": (), "size_bytes": row.name_bytes}
        events = past.cleaned(EntityAdded, _observes, **empty)
        if not events and related and begin is not None:
            alone = {**empty, "metadata": {}, "origins": (), "created_at_us": row.created_at_us}
            return [derived(EntityRestored, begin, **alone)]
        try:
            return [as_it_was(self.last(past.memory_id, events))]
        except NotFoundError:
            return None

    def deleted(self, row: AnyRow, state: Entities) -> Decision:
        """Return the event by which an entity goes with its relationships, or one relationship."""
        if isinstance(row, RelationshipRow):
            return [RelationshipDeleted(memory_id=row.memory_id)]
        ids = tuple(touching(state.graph, (row.memory_id,)))
        return [EntityDeleted(memory_id=row.memory_id, relationship_ids=ids)]

    # --- reads

    def find(self, state: Entities, memory_id: str) -> AnyRow | None:
        """Return the row of a living entity or relationship."""
        return state.find(memory_id)

    def tally(self, state: Entities) -> Tally:
        """Return counts and bytes."""
        return Tally(
            len(state.rows),
            state.size_bytes + state.graph.size_bytes,
            state.stored_bytes + state.graph.stored_bytes,
            pruned=state.pruned,
            relationships=len(state.graph.rows),
        )

    def rows(self, state: Entities) -> Iterable[AnyRow]:
        """Return the living entities, then the living relationships."""
        return itertools.chain(state.rows.values(), state.graph.rows.values())

    def exported(self, state: Entities) -> Iterable[AnyRow]:
        """Return the entities, then the relationships between them, each oldest first."""
        entities, relationships = state.rows.values(), state.graph.rows.values()
        return [*oldest_first(entities), *oldest_first(relationships)]

    def passages(self, row: AnyRow) -> Sequence[Passage]:
        """Return the name and each observation of an entity; the text of a relationship."""
        first = Passage(label(row.version), row.digest)
        if isinstance(row, RelationshipRow):
            return (first,)
        return (first, *(Passage(held.label, held.digest) for held in row.observations))

    def passage_text(self, row: AnyRow, passage_label: int, events: Events) -> str:
        """Return what was embedded; an observation says whom it is about."""
        if isinstance(row, RelationshipRow):
            return self.content(row, events)
        if not index_of(passage_label):
            return name_text(row.name, row.type)
        return observation_text(row.name, observation_at(passage_label, events))

    def sources(self, row: AnyRow) -> Sequence[int]:
        """Return the versions of the events with name and observations, or with the fact."""
        held = row.observations if isinstance(row, EntityRow) else ()
        return sorted({row.version, *(version_of(observation.label) for observation in held)})

    def content(self, row: AnyRow, events: Events) -> str:
        """Return an entity with one observation a line; a relationship as its fact, or in words."""
        if isinstance(row, RelationshipRow):
            return text_in(events[row.version].data, row.relation)
        name, observations = name_text(row.name, row.type), _observations(row, events)
        return "\n".join([f"{name}:", *observations]) if observations else name

    def data(self, row: AnyRow, events: Events) -> dict[str, object]:
        """Return the parts of an entity or of a relationship; times are ISO 8601 in UTC."""
        if isinstance(row, EntityRow):
            return record_data(Entity, row, observations=_observations(row, events))
        event = events[row.version].data
        return record_data(Relationship, row, event, fact=fact_in(event))


def _key(it: EntityAdded | EntityRow) -> tuple[str, str]:
    return name_key(it.name), name_key(it.type)


def _new(observations: Sequence[Observation], known: set[bytes]) -> tuple[Observation, ...]:
    by_digest = {o.digest: o for o in reversed(observations) if o.digest not in known}
    return tuple(o for o in observations if by_digest.get(o.digest) is o)


def _bytes(observations: Sequence[Sized]) -> int:
    return sum(observation.size_bytes for observation in observations)


def _check_observations(
    name: str, new: Sequence[Observation], row: EntityRow | None, limits: Limits
) -> None:
    """Refuse more observations than a command or an entity may have."""
    count, new_bytes = len(new), _bytes(new)
    if count > OBSERVATIONS_MAX or new_bytes > OBSERVATIONS_BYTES_MAX:
        raise InvalidInputError(
            f"{count:,} observations of {name!r:.80} take {size(new_bytes)} (max: "
            f"{OBSERVATIONS_MAX:,}, {size(OBSERVATIONS_BYTES_MAX)}): keep the rest as memories"
        )
    if row is None or not new:
        return
    held_bytes = _bytes(row.observations)
    if len(row.observations) + count > OBSERVATIONS_MAX:
        _refuse_more(row, len(row.observations), OBSERVATIONS_MAX, "count", limits)
    if held_bytes + new_bytes > OBSERVATIONS_BYTES_MAX:
        _refuse_more(row, held_bytes, OBSERVATIONS_BYTES_MAX, "bytes", limits)


def _refuse_more(row: EntityRow, used: int, limit: int, unit: str, limits: Limits) -> NoReturn:
    has, most = (f"{used:,}", f"{limit:,}") if unit == "count" else (size(used), size(limit))
    raise QuotaExceededError(
        f"Entity {row.name!r:.80} has {has}{'' if unit == 'count' else ' of'} observations (max: "
        f"{most}). Remove old observations, or update it with a summary of them.",
        kind=EntityRows.NAME, used=used, limit=limit, unit=unit, tier=limits.tier,
    )  # fmt: skip


def _as_named(row: EntityRow, said: EntityAdded) -> Sequence[Observation]:
    """Return the observations with the digests they have under the entity's own spelling.

    Else the same observation of ALICE and of Alice would be two, and be found by no text.
    """
    if said.name == row.name:
        return said.observations
    return [
        replace(o, digest=text_digest(observation_text(row.name, o.text)))
        for o in said.observations
    ]


def _observations(row: EntityRow, events: Events) -> list[str]:
    return [observation_at(held.label, events) for held in row.observations]


def _observes(event: object) -> bool:
    if isinstance(event, EntityObserved):
        return bool(event.observations or event.metadata)
    return isinstance(event, EntityAdded | EntityUpdated)


KIND = EntityKind()
