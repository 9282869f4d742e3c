"""Events of entities and of the relationships between them.

An event has every text that its row needs, and names whatever leaves or ends because of it.
"""

import msgspec

from memory_actors.base.records import Metadata, Origin
from memory_actors.kinds.effects import Deleted, Effect, KindRegistry, Pruned, Updated
from memory_actors.kinds.passages import fact_text

registry = KindRegistry()


class Observation(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One thing that is known about an entity."""

    text: str
    size_bytes: int
    digest: bytes
    """Digest of `passages.observation_text`, with the entity's name."""


# --- entities


@registry.about("entity.added", Effect.ADDED)
class EntityAdded(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """An entity was added. Its name is passage 0 of the event, its observations follow."""

    memory_id: str
    name: str
    type: str
    digest: bytes
    """Of `passages.name_text`."""
    size_bytes: int
    """Bytes of name, type and observations."""
    occurred_at_us: int
    observations: tuple[Observation, ...] = ()
    metadata: Metadata = {}
    pinned: bool = False


@registry.about("entity.restored", Effect.RESTORED)
class EntityRestored(EntityAdded, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """An entity that had gone came back, as it was when it went."""

    created_at_us: int
    origins: tuple[Origin, ...] = ()
    """The sources of its words, of which the one who brought it back is none."""
    agent_id: str | None = None
    """The agent that wrote it first."""


@registry.about("entity.observed", Effect.CHANGED)
class EntityObserved(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """More became known of an entity. Its observations are passages 1 and on, as when added."""

    memory_id: str
    occurred_at_us: int
    observations: tuple[Observation, ...] = ()
    metadata: Metadata | None = None
    """All of it from now on; None keeps what was."""
    pinned: bool = False
    """True pins it; False keeps what was."""


@registry.about("entity.unobserved", Effect.CHANGED, says=False)
class ObservationRemoved(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """An observation of an entity was deleted."""

    memory_id: str
    digest: bytes


@registry.about("entity.updated", Effect.CHANGED)
class EntityUpdated(Updated, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """One observation (passage 1) took the place of all, or the metadata changed, or both."""

    digest: bytes = b""


@registry.about("entity.deleted", Effect.DELETED, others={"relationship_ids": Effect.DELETED})
class EntityDeleted(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """An entity was deleted by its user, and with it every relationship of it."""

    memory_id: str
    relationship_ids: tuple[str, ...] = ()


EntitiesPruned = registry.plain(Pruned, "entity.pruned", Effect.PRUNED)


# --- relationships


@registry.about("relationship.added", Effect.ADDED, others={"closed_ids": Effect.CHANGED})
class RelationshipAdded(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A relationship was added, and ended those that it contradicts."""

    memory_id: str
    source_id: str
    source: str
    """Its name."""
    relation: str
    target_id: str
    target: str
    """Its name."""
    digest: bytes
    """Of `passages.fact_text`."""
    size_bytes: int
    """Of the same text."""
    valid_from_us: int
    valid_to_us: int | None = None
    """Valid before this, no longer at it; None: no end is known."""
    fact: str | None = None
    exclusive: bool = False
    """True: the source was said to have one such relationship at a time."""
    closed_ids: tuple[str, ...] = ()
    """Relationships that are valid no longer than until `valid_from_us`."""
    metadata: Metadata = {}
    pinned: bool = False


@registry.about("relationship.restored", Effect.RESTORED, others={"closed_ids": Effect.CHANGED})
class RelationshipRestored(
    RelationshipAdded, frozen=True, kw_only=True, omit_defaults=True, gc=False
):
    """A relationship that had gone came back, and ended those that it contradicts."""

    created_at_us: int
    origins: tuple[Origin, ...] = ()
    """The sources of its words, of which the one who brought it back is none."""
    agent_id: str | None = None
    """The agent that wrote it first."""


@registry.about("relationship.updated", Effect.CHANGED)
class RelationshipUpdated(Updated, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A relationship got a new fact (the content), new metadata, or both; None keeps what was."""

    digest: bytes = b""
    source: str = ""
    """The names of both endpoints, with a new fact: this event has then all the texts."""
    target: str = ""


@registry.about("relationship.ended", Effect.CHANGED)
class RelationshipEnded(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A relationship is valid no longer than until a time."""

    memory_id: str
    valid_to_us: int


RelationshipDeleted = registry.plain(Deleted, "relationship.deleted", Effect.DELETED)


def fact_in(event: object) -> str | None:
    """Return the fact in an event of a relationship: of an update, its content."""
    return getattr(event, "fact", None) or getattr(event, "content", None)


def text_in(event: RelationshipAdded | RelationshipUpdated, relation: str) -> str:
    """Return the text of a relationship: its fact, or else the names and the relation in a row."""
    return fact_text(event.source, relation, event.target, fact_in(event))
