"""The commands of entities, and what each of them decides.

An entity is its name and type: adding one that is there adds what is new of it. The caller embeds
the texts that `passages` makes, and gives their digests.
"""

from collections.abc import Sequence
from functools import partial
from typing import ClassVar, NoReturn

from msgspec.structs import replace

from memory_actors.base.errors import InvalidInputError, NotFoundError, QuotaExceededError
from memory_actors.base.quota import MIB, Limits, size
from memory_actors.kinds.commands import Add, Command, Delete, Restore, Update, is_known, plain
from memory_actors.kinds.effects import Decision
from memory_actors.kinds.entity import relationships
from memory_actors.kinds.entity.events import (
    EntityAdded,
    EntityObserved,
    EntityUpdated,
    Observation,
    ObservationRemoved,
)
from memory_actors.kinds.entity.graph import name_key
from memory_actors.kinds.entity.state import Entities, EntityRow, EntityRows, named
from memory_actors.kinds.kind import Sized
from memory_actors.kinds.passages import EVENT_PASSAGES_MAX, observation_text, text_digest
from memory_actors.kinds.rows import update_of

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


# --- decide


class EntityDecisions(EntityRows):
    """Decides about entities."""

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
        metadata = relationships.merged(row.metadata, said.metadata)
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
