"""What can be asked of entities and relationships.

Texts come with their digests and sizes: the caller embeds what `phrasing` makes of them, and takes
the digest of the same text.
"""

from typing import Any, ClassVar

from memory_actors.kinds.entity.events import Observation
from memory_actors.kinds.kind import Add, Command, Delete, Restore

# --- entities


class AddEntity(Add, frozen=True, kw_only=True):
    """Add an entity, or what is new of it to the one that has its name and type."""

    memory_id: str
    """For a new entity; one that is there keeps its id (see `state.named`)."""
    name: str
    type: str
    digest: bytes
    """Of `phrasing.name_text`."""
    occurred_at_us: int
    observations: tuple[Observation, ...] = ()
    metadata: dict[str, Any] = {}
    pinned: bool = False
    auto_prune: bool = False
    must_exist: bool = False
    """Refuse to add one that is not there."""


class UpdateEntity(Command, frozen=True, kw_only=True):
    """Replace all observations of an entity by one, its metadata, or both."""

    memory_id: str
    content: str | None = None
    size_bytes: int = 0
    digest: bytes = b""
    """Of `phrasing.observation_text`."""
    metadata: dict[str, Any] | None = None


class RemoveObservation(Command, frozen=True, kw_only=True):
    """Delete one observation of an entity."""

    frees: ClassVar[bool] = True
    memory_id: str
    digest: bytes


class DeleteEntity(Delete, frozen=True, kw_only=True):
    """Delete an entity with every relationship of it; or one relationship, if the id is of one."""


# --- relationships


class Relate(Add, frozen=True, kw_only=True):
    """Say that a relationship is true from a time on.

    One that says the same and is true at that time is brought up to date instead.
    """

    memory_id: str
    source_id: str
    relation: str
    target_id: str
    digest: bytes
    """Of `phrasing.fact_text`, with the names as the entities have them."""
    size_bytes: int
    """Of the same text."""
    valid_from_us: int
    valid_to_us: int | None = None
    fact: str | None = None
    exclusive: bool = False
    """The source has one such relationship at a time: this one ends the others."""
    metadata: dict[str, Any] = {}
    pinned: bool = False
    auto_prune: bool = False


class EndRelationship(Command, frozen=True, kw_only=True):
    """Say when a relationship ended, or that it did so earlier than was known."""

    memory_id: str
    valid_to_us: int


class UpdateRelationship(Command, frozen=True, kw_only=True):
    """Replace the fact of a relationship, its metadata, or both."""

    memory_id: str
    content: str | None = None
    size_bytes: int = 0
    digest: bytes = b""
    metadata: dict[str, Any] | None = None


class DeleteRelationship(Delete, frozen=True, kw_only=True):
    """Delete a relationship as if it had never been said; to say that it is over, end it."""


# --- both


class RestoreEntities(Restore, frozen=True, kw_only=True):
    """Bring back entities and relationships that were pruned or deleted.

    A relationship comes back if both its ends are there, or come back in the same command.
    """


COMMANDS: tuple[type[Command], ...] = (
    AddEntity,
    UpdateEntity,
    RemoveObservation,
    DeleteEntity,
    Relate,
    EndRelationship,
    UpdateRelationship,
    DeleteRelationship,
    RestoreEntities,
)
