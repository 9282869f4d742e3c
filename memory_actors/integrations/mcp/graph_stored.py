"""The graph of a user as the tools of the reference memory server see it.

A relation may name what is no entity. Ours needs both ends, so such a name becomes an entity of the
type `MENTIONED`, which no tool here shows; it gives way to the real one when that is created.
"""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Final

from memory_actors.base.records import Memory, MemoryType
from memory_actors.integrations.mcp.graph_shapes import GraphNode, GraphRelation, KnowledgeGraph
from memory_actors.kinds.entity.graph import name_key, relation_key
from memory_actors.sharing.system import UserMemory

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
        """Return what a relation means by a name: an entity, or else one that is mentioned only."""
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
    """Return those of a name, or else those of that name in another spelling."""
    same = [one for one in entities if name_key(one.data["name"]) == name_key(name)]
    return [one for one in same if one.data["name"] == name] or same


def _key(asked: GraphRelation) -> tuple[str, str, str]:
    """Return what two spellings of one relation have in common."""
    return name_key(asked.source), relation_key(asked.relation), name_key(asked.target)


def node(entity: Memory) -> GraphNode:
    """Return an entity as the reference shows it."""
    return GraphNode(**{name: entity.data[name] for name in GraphNode.__struct_fields__})


def link(relation: Memory) -> GraphRelation:
    """Return a relation as the reference shows it."""
    return GraphRelation(**{name: relation.data[name] for name in GraphRelation.__struct_fields__})


async def stored(user: UserMemory) -> Stored:
    """Return the graph of a user as it is now."""
    found = await user.list_memories([MemoryType.ENTITY], limit=ALL)
    return Stored(found[::-1])


def ends(relation: Memory) -> tuple[str, str]:
    """Return the ids of the entities that a relation is between."""
    return relation.data["source_id"], relation.data["target_id"]
