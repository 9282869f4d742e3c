"""Entities and relationships as callers name, give and get them."""

from memory_actors.base.errors import InvalidInputError, NotFoundError
from memory_actors.base.validation import check_name, content_bytes, plain
from memory_actors.kinds import entity
from memory_actors.kinds.entity import Entities, Observation
from memory_actors.kinds.phrasing import observation_text, text_digest


def resolve(state: Entities, entity_ref: str, type: str | None = None) -> entity.EntityRow:  # noqa: A002
    """Return the entity with this id or name.

    :raises NotFoundError: there is none.
    :raises InvalidInputError: several have this name.
    """
    row = entity.KIND.find(state, check_name(entity_ref, "entity"))
    if isinstance(row, entity.EntityRow):
        return row
    found = entity.find_named(state, entity_ref, type)
    if not found:
        raise NotFoundError(f"no entity {entity_ref!r}: add it first, with add_entity")
    if len(found) > 1:
        types = ", ".join(sorted(one.type for one in found))
        raise InvalidInputError(
            f"several entities are named {entity_ref!r} (types {types}): give the id of one"
        )
    return found[0]


def observation_of(name: str, text: str) -> Observation:
    """Return an observation of an entity, checked."""
    size_bytes = content_bytes(text)
    text = plain(text)
    return Observation(
        text=text, size_bytes=size_bytes, digest=text_digest(observation_text(name, text))
    )
