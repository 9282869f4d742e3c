"""The graph of a user as the tools of the reference memory server see it.

A relation may name what is no entity. Ours needs both ends, so such a name becomes an entity of the
type `MENTIONED`, which no tool here shows; it gives way to the real one when that is created.
"""
# ruff: noqa: SLF001 - what is moved keeps its origins

from collections.abc import Iterable, Sequence, Set
from contextlib import suppress
from datetime import UTC, datetime
from typing import Annotated, Final

import msgspec

from memory_actors.base.errors import InvalidInputError, NotFoundError
from memory_actors.base.records import IS_COMPRESSED, Memory, MemoryType
from memory_actors.kinds.entity.graph import name_key, relation_key
from memory_actors.sharing.system import UserMemory


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


class Added(msgspec.Struct, frozen=True, rename="camel"):
    """The observations that an entity did not have."""

    entity_name: str
    added_observations: list[str]


class AddedObservations(msgspec.Struct, frozen=True):
    """The observations that were added, for each entity."""

    results: list[Added]


class OldObservations(msgspec.Struct, frozen=True, rename="camel"):
    """Observations to delete from an entity."""

    entity_name: Annotated[str, _said("The name of the entity that has the observations")]
    observations: Annotated[list[str], _said("The observations to delete")]


class DeletionDone(msgspec.Struct, frozen=True):
    """A deletion is done."""

    success: bool
    message: str


def _arguments(name: str, **fields: object) -> type[msgspec.Struct]:
    return msgspec.defstruct(name, fields.items(), frozen=True, rename="camel")


AddObservations = _arguments("AddObservations", observations=list[NewObservations])
Deletions = _arguments("Deletions", deletions=list[OldObservations])
EntityNames = _arguments(
    "EntityNames", entity_names=Annotated[list[str], _said("The names of the entities to delete")]
)
GraphQuery = _arguments(
    "GraphQuery", query=Annotated[str, _said("A text to look for in names, types and observations")]
)
NodeNames = _arguments(
    "NodeNames", names=Annotated[list[str], _said("The names of the entities to return")]
)
Nothing = _arguments("Nothing")


MENTIONED: Final = "(mentioned)"
ALL: Final = 1_000_000  # more than any quota lets in


class Stored:
    """The graph of a user, read once."""

    def __init__(self, memories: Iterable[Memory]):
        entities = [one for one in memories if "observations" in one.data]
        self.entities = [one for one in entities if one.data["type"] != MENTIONED]
        self.mentioned = [one for one in entities if one.data["type"] == MENTIONED]
        self.ever_related = [one for one in memories if "relation" in one.data]
        now = datetime.now(UTC)
        ends = ((one, one.data["valid_to"]) for one in self.ever_related)
        self.relations = [
            one for one, end in ends if end is None or datetime.fromisoformat(end) > now
        ]

    def named(self, name: str) -> Memory | None:
        """Return the first entity of a name, or else of that name in another spelling."""
        return next(iter(of_name(self.entities, name)), None)

    def meant(self, name: str) -> Memory | None:
        """Return the entity that a relation names, or else one that is only mentioned."""
        return self.named(name) or next(iter(of_name(self.mentioned, name)), None)

    def related(self, asked: GraphRelation) -> list[Memory]:
        """Return the relations that are just so, or else those that are so in another spelling."""
        exact = [one for one in self.relations if link(one) == asked]
        return exact or [one for one in self.relations if _key(link(one)) == _key(asked)]

    def shown(self, chosen: Sequence[Memory]) -> KnowledgeGraph:
        """Return some entities, and each relation that touches one of them."""
        names = {one.data["name"] for one in chosen}
        links = [link(one) for one in self.relations]
        links = [one for one in links if one.source in names or one.target in names]
        return KnowledgeGraph([node(one) for one in chosen], links)


def of_name(entities: Iterable[Memory], name: str) -> list[Memory]:
    """Return the entities of a name, or else those of that name in another spelling."""
    same = [one for one in entities if name_key(one.data["name"]) == name_key(name)]
    return [one for one in same if one.data["name"] == name] or same


def _key(asked: GraphRelation) -> tuple[str, str, str]:
    return name_key(asked.source), relation_key(asked.relation), name_key(asked.target)


def node(entity: Memory) -> GraphNode:
    """Return an entity as the reference shows it."""
    return GraphNode(**{name: entity.data[name] for name in GraphNode.__struct_fields__})


def link(relation: Memory) -> GraphRelation:
    """Return a relation as the reference shows it."""
    return GraphRelation(**{name: relation.data[name] for name in GraphRelation.__struct_fields__})


async def graph_of(user: UserMemory) -> Stored:
    """Return the graph of a user as it is now."""
    found = await user.list_memories([MemoryType.ENTITY], limit=ALL)
    return Stored(found[::-1])


def ends(relation: Memory) -> tuple[str, str]:
    """Return the ids of the entities that a relation is between."""
    return relation.data["source_id"], relation.data["target_id"]


# --- names that are only mentioned


async def settle(user: UserMemory) -> None:
    """Let names that are only mentioned give way to entities, with all that was said of them.

    A writer calls this after creating an entity or mentioning a new name: the later of two writers
    sees the other's write.
    """
    while True:
        graph = await graph_of(user)
        pairs = ((old, graph.named(old.data["name"])) for old in graph.mentioned)
        old, entity = next((one for one in pairs if one[1] is not None), (None, None))
        if old is None or entity is None:
            return
        if old.data["observations"] or old.metadata or old.pinned:
            await user._with(origins=old.origins).entities.add_entity(
                entity.data["name"], entity.data["type"], old.data["observations"],
                metadata=_metadata(old), pinned=old.pinned,
            )  # fmt: skip
        said = [one for one in graph.ever_related if old.memory_id in ends(one)]
        for one in said:
            source, target = (
                entity.memory_id if end == old.memory_id else end for end in ends(one)
            )
            with suppress(NotFoundError):  # it went with its other end meanwhile
                await user._with(origins=one.origins).entities.relate(
                    source, one.data["relation"], target, fact=one.data["fact"],
                    valid_from=one.data["valid_from"], valid_to=one.data["valid_to"],
                    exclusive=False, metadata=_metadata(one), pinned=one.pinned,
                )  # fmt: skip
        await forget_mentioned(user, old.memory_id, {one.memory_id for one in said})


async def forget_mentioned(user: UserMemory, memory_id: str, done: Set[str] = frozenset()) -> None:
    """Delete a name that is mentioned only, with relations that are done with.

    If others have related something else to it meanwhile, that comes back with the name.
    """
    with suppress(NotFoundError):  # somebody else has, meanwhile
        await user.delete(memory_id)
        deletion = (await user.history(memory_id))[-1]
        for relation_id in deletion.data.get("relationship_ids", ()):
            if relation_id not in done:
                # its other end may have been deleted as well
                with suppress(InvalidInputError, NotFoundError):
                    await user.restore([memory_id, relation_id])


def _metadata(memory: Memory) -> dict[str, object]:
    return {name: value for name, value in memory.metadata.items() if name != IS_COMPRESSED}
