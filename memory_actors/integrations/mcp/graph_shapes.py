"""The arguments and results of the graph's tools, in the shapes of the reference memory server."""

from typing import Annotated

import msgspec


def _said(words: str) -> msgspec.Meta:
    return msgspec.Meta(description=words)


class GraphNode(msgspec.Struct, frozen=True, kw_only=True, rename={"type": "entityType"}):
    """An entity."""

    name: Annotated[str, _said("The name of the entity")]
    type: Annotated[str, _said("The type of the entity")]
    observations: Annotated[list[str], _said("What is known of it, one text each")]


class GraphRelation(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    rename={"source": "from", "target": "to", "relation": "relationType"},
):
    """A relation of one entity to another."""

    source: Annotated[str, _said("The name of the entity where the relation starts")]
    target: Annotated[str, _said("The name of the entity where the relation ends")]
    relation: Annotated[str, _said("The type of the relation, in active voice")]


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

    entity_name: Annotated[str, _said("The name of the entity to add the observations to")]
    contents: Annotated[list[str], _said("The observations to add")]


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

    entity_names: Annotated[list[str], _said("The names of the entities to delete")]


class OldObservations(msgspec.Struct, frozen=True, rename="camel"):
    """Observations to delete from an entity."""

    entity_name: Annotated[str, _said("The name of the entity that has the observations")]
    observations: Annotated[list[str], _said("The observations to delete")]


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

    query: Annotated[str, _said("A text to look for in names, types and observations")]


class NodeNames(msgspec.Struct, frozen=True):
    """Entities to open."""

    names: Annotated[list[str], _said("The names of the entities to return")]
