"""`--tools graph`: the nine tools of the reference memory server, with its names and shapes.

The graph is `user.entities`, so what is written here is also recalled, explained and replayed. Each
tool answers as the reference does; docs/integrations/mcp.md says where it does not, and why, and a
test runs both on the same calls.

A relation may name what is no entity. Ours needs both ends, so such a name becomes an entity of the
type `MENTIONED`, which no tool here shows; it gives way to the real one when that is created.
"""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final

import msgspec

from memory_actors.base.errors import NotFoundError
from memory_actors.base.records import Memory, MemoryType
from memory_actors.base.validation import content_bytes
from memory_actors.integrations.mcp.graph_shapes import (
    Added,
    AddedObservations,
    AddObservations,
    Deletions,
    Done,
    Entities,
    EntityNames,
    Graph,
    Link,
    Names,
    Node,
    Nothing,
    Query,
    Relations,
)
from memory_actors.integrations.mcp.tool import Answer, Call, Tool, builtins
from memory_actors.integrations.mcp.undoing import Undo, all_or_none
from memory_actors.sharing.system import UserMemory

RESOURCE: Final = "memory://knowledge-graph"
MENTIONED: Final = "(mentioned)"
ALL: Final = 1_000_000  # more than any quota lets in

# --- the graph as it is stored


class Stored:
    """The graph of a user, read once."""

    def __init__(self, memories: Iterable[Memory]):
        entities = [one for one in memories if "observations" in one.data]
        self.entities = [one for one in entities if one.data["type"] != MENTIONED]
        self.mentioned = [one for one in entities if one.data["type"] == MENTIONED]
        self.relations = [one for one in memories if "relation" in one.data and _holds(one)]

    def named(self, name: str) -> Memory | None:
        """Return the first entity of a name."""
        return next((one for one in self.entities if one.data["name"] == name), None)

    def shown(self, chosen: Sequence[Memory]) -> Graph:
        """Return some entities, and each relation that touches one of them."""
        names = {one.data["name"] for one in chosen}
        touching = (_link(one) for one in self.relations)
        links = [link for link in touching if link.source in names or link.target in names]
        return Graph([_node(one) for one in chosen], links)


def _holds(relation: Memory) -> bool:
    end = relation.data["valid_to"]
    return end is None or datetime.fromisoformat(end) > datetime.now(UTC)


def _node(entity: Memory) -> Node:
    return Node(**{name: entity.data[name] for name in Node.__struct_fields__})


def _link(relation: Memory) -> Link:
    return Link(**{name: relation.data[name] for name in Link.__struct_fields__})


async def _stored(user: UserMemory) -> Stored:
    found = await user.list_memories([MemoryType.ENTITY], limit=ALL)
    return Stored(found[::-1])


# --- write


async def _create_entities(call: Call) -> Answer:
    """Create entities, but for those whose name is there."""
    new = call.given.entities
    _check(text for one in new for text in (one.name, one.type, *one.observations))
    graph = await _stored(call.user)
    names = {one.data["name"] for one in graph.entities}
    mentioned = {one.data["name"] for one in graph.mentioned}
    created: list[Node] = []
    async with all_or_none() as undo:
        for number, one in enumerate(new, 1):
            if one.name not in names:
                made = await _created(call.user, one, undo)
                created += [] if made is None else [made[1]]
                if made is not None and one.name in mentioned:
                    await _replace_mentioned(call.user, one.name, made[0], undo)
            names.add(one.name)
            await call.progress(number, len(new))
    return _answer(Entities(created), created)


async def _created(user: UserMemory, node: Node, undo: list[Undo]) -> tuple[str, Node] | None:
    """Create an entity; return None if its name and type are there in another spelling."""
    try:
        await user.entities.get(node.name, node.type)
    except NotFoundError:
        pass
    else:
        return None
    receipt = await user.entities.add_entity(node.name, node.type, node.observations)
    undo.append(partial(user.delete, receipt.memory_id))
    observations = list(dict.fromkeys(node.observations))
    return receipt.memory_id, Node(name=node.name, type=node.type, observations=observations)


async def _replace_mentioned(user: UserMemory, name: str, memory_id: str, undo: list[Undo]) -> None:
    """Give an entity the relations that its name had before it was there."""
    graph = await _stored(user)
    for old in (one for one in graph.mentioned if one.data["name"] == name):
        ends = {one.memory_id: _ends(one) for one in graph.relations if old.memory_id in _ends(one)}
        for one in (one for one in graph.relations if one.memory_id in ends):
            source, target = (
                memory_id if end == old.memory_id else end for end in ends[one.memory_id]
            )
            await user.entities.relate(source, one.data["relation"], target, exclusive=False)
        await user.entities.delete(old.memory_id)
        undo.append(partial(user.restore, [old.memory_id, *ends]))


def _ends(relation: Memory) -> tuple[str, str]:
    return relation.data["source_id"], relation.data["target_id"]


async def _create_relations(call: Call) -> Answer:
    """Create relations; a name that is no entity is mentioned from now on."""
    new = call.given.relations
    _check(text for one in new for text in (one.source, one.target, one.relation))
    graph = await _stored(call.user)
    ids = {one.data["name"]: one.memory_id for one in (*graph.mentioned, *graph.entities[::-1])}
    known = {_link(one) for one in graph.relations}
    created: list[Link] = []
    async with all_or_none() as undo:
        for number, one in enumerate(new, 1):
            for name in {one.source, one.target} - ids.keys():
                ids[name] = await _mentioned(call.user, name, undo)
            if one not in known:
                known.add(one)
                receipt = await call.user.entities.relate(
                    ids[one.source], one.relation, ids[one.target], exclusive=False
                )
                if receipt.operation == "add":
                    undo.append(partial(call.user.delete, receipt.memory_id))
                    created.append(one)
            await call.progress(number, len(new))
    return _answer(Relations(created), created)


async def _mentioned(user: UserMemory, name: str, undo: list[Undo]) -> str:
    receipt = await user.entities.add_entity(name, MENTIONED)
    if receipt.operation == "add":
        undo.append(partial(user.delete, receipt.memory_id))
    return receipt.memory_id


async def _add_observations(call: Call) -> Answer:
    given = call.given.observations
    _check(text for one in given for text in (one.entity_name, *one.contents))
    graph = await _stored(call.user)
    found = {one.entity_name: graph.named(one.entity_name) for one in given}
    entities = {name: entity for name, entity in found.items() if entity is not None}
    for name in found.keys() - entities.keys():
        raise NotFoundError(f"Entity with name {name} not found")
    known = {name: set(entity.data["observations"]) for name, entity in entities.items()}
    results: list[Added] = []
    async with all_or_none() as undo:
        for number, one in enumerate(given, 1):
            memory_id, has = entities[one.entity_name].memory_id, known[one.entity_name]
            new = [text for text in dict.fromkeys(one.contents) if text not in has]
            if new:
                await call.user.entities.observe(memory_id, *new)
                remove = partial(call.user.entities.remove_observation, memory_id)
                undo += [partial(remove, text) for text in new]
                has.update(new)
            results.append(Added(one.entity_name, new))
            await call.progress(number, len(given))
    return _answer(AddedObservations(results), results)


def _check(texts: Iterable[str]) -> None:
    """Refuse what cannot be kept before anything is written."""
    for text in texts:
        content_bytes(text)


# --- delete


async def _delete_entities(call: Call) -> Answer:
    names = set(call.given.entity_names)
    graph = await _stored(call.user)
    gone = [one for one in (*graph.entities, *graph.mentioned) if one.data["name"] in names]
    return await _deleted(call, [one.memory_id for one in gone], "Entities")


async def _delete_relations(call: Call) -> Answer:
    wanted = set(call.given.relations)
    graph = await _stored(call.user)
    gone = [one.memory_id for one in graph.relations if _link(one) in wanted]
    return await _deleted(call, gone, "Relations")


async def _deleted(call: Call, memory_ids: Sequence[str], what: str) -> Answer:
    """Delete, all or none, and forget what was only mentioned by what is gone."""
    async with all_or_none() as undo:
        for number, memory_id in enumerate(memory_ids, 1):
            related = await _touching(call.user, memory_id)
            with suppress(NotFoundError):  # somebody else has deleted it meanwhile
                await call.user.delete(memory_id)
                undo.append(partial(call.user.restore, [memory_id, *related]))
            await call.progress(number, len(memory_ids))
    graph = await _stored(call.user)
    needed = {end for one in graph.relations for end in _ends(one)}
    for one in graph.mentioned:
        if one.memory_id not in needed:
            with suppress(NotFoundError):
                await call.user.delete(one.memory_id)
    return _done(what)


async def _touching(user: UserMemory, memory_id: str) -> list[str]:
    """Return the ids of the relations of an entity."""
    try:
        found = await user.entities.relationships(memory_id, ended=True)
    except NotFoundError:  # it is a relation
        return []
    return [one.memory_id for one in found]


async def _delete_observations(call: Call) -> Answer:
    deletions = call.given.deletions
    graph = await _stored(call.user)
    left = {one.data["name"]: set(one.data["observations"]) for one in graph.entities[::-1]}
    async with all_or_none() as undo:
        for number, one in enumerate(deletions, 1):
            entity = graph.named(one.entity_name)
            if entity is not None:
                has = left[one.entity_name]
                for text in set(one.observations) & has:
                    await call.user.entities.remove_observation(entity.memory_id, text)
                    undo.append(partial(call.user.entities.observe, entity.memory_id, text))
                    has.discard(text)
            await call.progress(number, len(deletions))
    return _done("Observations")


def _done(what: str) -> Answer:
    message = f"{what} deleted successfully"
    return Answer(Done(success=True, message=message), text=message, changed=True)


# --- read


async def read_graph(user: UserMemory) -> Graph:
    """Return all that there is."""
    graph = await _stored(user)
    return Graph([_node(one) for one in graph.entities], [_link(one) for one in graph.relations])


async def _read_graph(call: Call) -> Answer:
    return _found(call, await read_graph(call.user), "everything")


async def _search_nodes(call: Call) -> Answer:
    graph, wanted = await _stored(call.user), call.given.query.lower()

    def matches(entity: Memory) -> bool:
        texts = (entity.data["name"], entity.data["type"], *entity.data["observations"])
        return any(wanted in text.lower() for text in texts)

    chosen = [one for one in graph.entities if matches(one)]
    return _found(call, graph.shown(chosen), f"names, types and observations with {wanted!r}")


async def _open_nodes(call: Call) -> Answer:
    graph, names = await _stored(call.user), set(call.given.names)
    chosen = [one for one in graph.entities if one.data["name"] in names]
    return _found(call, graph.shown(chosen), f"the names {sorted(names)}")


def _found(call: Call, graph: Graph, wanted: str) -> Answer:
    """Return what was found, and beside its shape what was searched."""
    user = call.user.user_id
    note = (
        f"Searched: user {user!r}, kind entity, for {wanted:.500}; no other filters. "
        f"{len(graph.entities)} entities, {len(graph.relations)} relations."
    )
    searched = {"user": user, "kinds": [MemoryType.ENTITY.value], "filters": builtins(call.given)}
    return _answer(
        graph, graph, note=note, meta={"memory-actors/searched": searched}, changed=False
    )


def _answer(structured: Any, text: Any, **more: Any) -> Answer:
    """Return an answer with the text that the reference has beside it."""
    said = msgspec.json.format(msgspec.json.encode(text), indent=2).decode()
    return Answer(structured, said, **{"changed": True, **more})


# --- the tools


def _tool(name: str, description: str, takes: Any, returns: Any, run: Any, **hints: bool) -> Tool:
    return Tool(name, name.replace("_", " ").title(), description, takes, returns, run, **hints)


TOOLS: Final[Sequence[Tool]] = (
    _tool(
        "create_entities", "Create multiple new entities in the knowledge graph. "
        "One whose name is there already is left as it is.", Entities, Entities, _create_entities,
    ),
    _tool(
        "create_relations", "Create multiple new relations between entities in the knowledge "
        "graph. Relations should be in active voice.", Relations, Relations, _create_relations,
    ),
    _tool(
        "add_observations", "Add new observations to existing entities in the knowledge graph.",
        AddObservations, AddedObservations, _add_observations,
    ),
    _tool(
        "delete_entities", "Delete multiple entities and their relations from the knowledge graph.",
        EntityNames, Done, _delete_entities, destroys=True, repeats=True,
    ),
    _tool(
        "delete_observations", "Delete specific observations of entities in the knowledge graph.",
        Deletions, Done, _delete_observations, destroys=True, repeats=True,
    ),
    _tool(
        "delete_relations", "Delete multiple relations from the knowledge graph.",
        Relations, Done, _delete_relations, destroys=True, repeats=True,
    ),
    _tool(
        "read_graph", "Read the entire knowledge graph.", Nothing, Graph, _read_graph,
        reads=True, repeats=True,
    ),
    _tool(
        "search_nodes", "Search for nodes in the knowledge graph by a text in their names, types "
        "or observations.", Query, Graph, _search_nodes, reads=True, repeats=True,
    ),
    _tool(
        "open_nodes", "Open specific nodes in the knowledge graph by their names.",
        Names, Graph, _open_nodes, reads=True, repeats=True,
    ),
)  # fmt: skip
