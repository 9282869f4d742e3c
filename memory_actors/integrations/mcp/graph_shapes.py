"""The arguments and results of the graph's tools, in the shapes of the reference memory server."""

from typing import Annotated, Any

import msgspec


def _said(kind: Any, words: str) -> Any:
    return Annotated[kind, msgspec.Meta(description=words)]


class GraphNode(msgspec.Struct, frozen=True, kw_only=True, rename={"type": "entityType"}):
    """An entity."""

    name: _said(str, "The name of the entity")  # type: ignore[valid-type]
    type: _said(str, "The type of the entity")  # type: ignore[valid-type]
    observations: _said(list[str], "What is known of it, one text each")  # type: ignore[valid-type]


class GraphRelation(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    rename={"source": "from", "target": "to", "relation": "relationType"},
):
    """A relation of one entity to another."""

    source: _said(str, "The name of the entity where the relation starts")  # type: ignore[valid-type]
    target: _said(str, "The name of the entity where the relation ends")  # type: ignore[valid-type]
    relation: _said(str, "The type of the relation, in active voice")  # type: ignore[valid-type]


class KnowledgeGraph(msgspec.Struct, frozen=True):
    """Entities, and relations of theirs."""

    entities: list[GraphNode]
    relations: list[GraphRelation]


class NodeList(msgspec.Struct, frozen=True):
    """Entities to create, or that were created."""

    entities: list[GraphNode]


class Relations(msgspec.Struct, frozen=True):
    """Relations to create or delete, or that were created."""

    relations: list[GraphRelation]


class NewObservations(msgspec.Struct, frozen=True, rename="camel"):
    """Observations to add to an entity."""

    entity_name: _said(str, "The name of the entity to add the observations to")  # type: ignore[valid-type]
    contents: _said(list[str], "The observations to add")  # type: ignore[valid-type]


class AddObservations(msgspec.Struct, frozen=True):
    """Observations to add."""

    observations: list[NewObservations]


class Added(msgspec.Struct, frozen=True, rename="camel"):
    """The observations that an entity did not have."""

    entity_name: str
    added_observations: list[str]


class AddedObservations(msgspec.Struct, frozen=True):
    """The observations that were added, for each entity."""

    results: list[Added]


class EntityNames(msgspec.Struct, frozen=True, rename="camel"):
    """Entities to delete."""

    entity_names: _said(list[str], "The names of the entities to delete")  # type: ignore[valid-type]


class OldObservations(msgspec.Struct, frozen=True, rename="camel"):
    """Observations to delete from an entity."""

    entity_name: _said(str, "The name of the entity that has the observations")  # type: ignore[valid-type]
    observations: _said(list[str], "The observations to delete")  # type: ignore[valid-type]


class Deletions(msgspec.Struct, frozen=True):
    """Observations to delete."""

    deletions: list[OldObservations]


class DeletionDone(msgspec.Struct, frozen=True):
    """A deletion is done."""

    success: bool
    message: str


class Nothing(msgspec.Struct, frozen=True):
    """No arguments."""


class GraphQuery(msgspec.Struct, frozen=True):
    """A search."""

    query: _said(str, "A text to look for in names, types and observations")  # type: ignore[valid-type]


class NodeNames(msgspec.Struct, frozen=True):
    """Entities to open."""

    names: _said(list[str], "The names of the entities to return")  # type: ignore[valid-type]
