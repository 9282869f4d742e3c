"""`--tools graph`: the nine tools of the reference memory server, with its names and shapes.

The graph is `user.entities`. Each tool answers as the reference does; docs/integrations/mcp.md says
where it does not, and why, and a test runs both on the same calls.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, TypeVar

import msgspec

from memory_actors.base.errors import MemoryActorsError, NotFoundError
from memory_actors.base.records import Memory, MemoryType
from memory_actors.base.validation import content_bytes
from memory_actors.integrations.mcp import graph_stored as stored
from memory_actors.integrations.mcp.tool import Tool, ToolAnswer, ToolCall, builtins
from memory_actors.kinds.entity.graph import name_key

T = TypeVar("T")

ATTEMPTS: Final = 5  # of a relation whose ends others create or delete at the same time

# --- write


async def _each(call: ToolCall, given: Sequence[T], step: Callable[[T], Awaitable[None]]) -> None:
    """Take one step after another, and report each.

    Completed steps stay if a later step fails or the call is cancelled: other callers may already
    rely on them. Each step is therefore idempotent, and a repeated call does the rest.
    """
    for number, one in enumerate(given):
        try:
            await step(one)
        except MemoryActorsError as error:
            if number:
                error.add_note(
                    f"The first {number} of {len(given)} are done and stay. When that is mended, "
                    "call it again: what is there already is left as it is."
                )
            raise
        await call.progress(number + 1, len(given))


async def _create_entities(call: ToolCall) -> ToolAnswer:
    user, new = call.user, call.given.entities
    _check(text for one in new for text in (one.name, one.type, *one.observations))
    graph = await stored.graph_of(user)
    there = {one.data["name"] for one in graph.entities}
    created: list[stored.GraphNode] = []
    spelled: dict[str, str] = {}

    async def create(one: stored.GraphNode) -> None:
        if one.name in there:
            return
        with suppress(NotFoundError):  # this name and type may be there in another spelling
            spelled[one.name] = (await user.entities.get(one.name, one.type)).name
            return
        await user.entities.add_entity(one.name, one.type, one.observations)
        there.add(one.name)
        observations = list(dict.fromkeys(one.observations))
        created.append(stored.GraphNode(name=one.name, type=one.type, observations=observations))

    await _each(call, new, create)
    if created or graph.mentioned:
        await stored.settle(user)
    named = ", ".join(f"{name!r} is there as {known!r}" for name, known in spelled.items())
    note = f"Not created, as case, width and blanks tell no names apart: {named}."
    return _answer(stored.NodeList(created), created, note=note if spelled else None)


async def _create_relations(call: ToolCall) -> ToolAnswer:
    """Create relations; a name that is no entity is mentioned from now on."""
    user, new = call.user, call.given.relations
    _check(text for one in new for text in (one.source, one.target, one.relation))
    created: list[stored.GraphRelation] = []
    graph, mentioned = await stored.graph_of(user), dict[str, tuple[str, str]]()

    async def end(name: str) -> tuple[str, str]:
        found, key = graph.meant(name), name_key(name)
        if found is not None:
            return found.memory_id, found.data["name"]
        if key not in mentioned:
            receipt = await user.entities.add_entity(name, stored.MENTIONED)
            mentioned[key] = receipt.memory_id, name
        return mentioned[key]

    async def create(one: stored.GraphRelation) -> None:
        nonlocal graph
        for attempts_left in reversed(range(ATTEMPTS)):
            try:
                (source_id, source), (target_id, target) = (
                    await end(one.source),
                    await end(one.target),
                )
                receipt = await user.entities.relate(
                    source_id, one.relation, target_id, exclusive=False
                )
                break
            except NotFoundError:  # others have created, or deleted, what it names meanwhile
                if not attempts_left:
                    raise
                graph = await stored.graph_of(user)
                mentioned.clear()
        if receipt.operation == "add":
            made = stored.GraphRelation(source=source, relation=one.relation, target=target)
            created.append(made)

    await _each(call, new, create)
    if created:
        await stored.settle(user)
    return _answer(stored.Relations(created), created)


async def _add_observations(call: ToolCall) -> ToolAnswer:
    given = call.given.observations
    _check(text for one in given for text in (one.entity_name, *one.contents))
    graph = await stored.graph_of(call.user)
    found = {one.entity_name: graph.named(one.entity_name) for one in given}
    entities = {name: entity for name, entity in found.items() if entity is not None}
    if missing := [name for name in found if name not in entities]:
        raise NotFoundError(f"Entity with name {missing[0]} not found")
    known = {one.memory_id: set(one.data["observations"]) for one in entities.values()}
    results: list[stored.Added] = []

    async def add(one: stored.NewObservations) -> None:
        entity = entities[one.entity_name]
        has = known[entity.memory_id]
        new = [text for text in dict.fromkeys(one.contents) if text not in has]
        if new:
            await call.user.entities.observe(entity.memory_id, *new)
            has.update(new)
        results.append(stored.Added(entity.data["name"], new))

    await _each(call, given, add)
    return _answer(stored.AddedObservations(results), results)


def _check(texts: Iterable[str]) -> None:
    for text in texts:
        content_bytes(text)


# --- delete


async def _delete_entities(call: ToolCall) -> ToolAnswer:
    graph = await stored.graph_of(call.user)
    shown = [*graph.entities, *graph.mentioned]
    gone = [
        one.memory_id for name in call.given.entity_names for one in stored.of_name(shown, name)
    ]
    return await _deleted(call, list(dict.fromkeys(gone)), "Entities")


async def _delete_relations(call: ToolCall) -> ToolAnswer:
    graph = await stored.graph_of(call.user)
    gone = [one.memory_id for asked in call.given.relations for one in graph.related(asked)]
    return await _deleted(call, list(dict.fromkeys(gone)), "Relations")


async def _deleted(call: ToolCall, memory_ids: Sequence[str], what: str) -> ToolAnswer:
    """Delete memories, and the mentioned entities that nothing mentions any more."""

    async def delete(memory_id: str) -> None:
        with suppress(NotFoundError):  # somebody else has deleted it meanwhile
            await call.user.delete(memory_id)

    await _each(call, memory_ids, delete)
    graph = await stored.graph_of(call.user)
    needed = {end for one in graph.ever_related for end in stored.ends(one)}
    for one in graph.mentioned:
        if one.memory_id not in needed and not one.data["observations"]:
            await stored.forget_mentioned(call.user, one.memory_id)
    return _done(what)


async def _delete_observations(call: ToolCall) -> ToolAnswer:
    graph = await stored.graph_of(call.user)
    left = {one.memory_id: set(one.data["observations"]) for one in graph.entities}

    async def delete(one: stored.OldObservations) -> None:
        entity = graph.named(one.entity_name)
        if entity is not None:
            has = left[entity.memory_id]
            for text in set(one.observations) & has:
                with suppress(NotFoundError):  # somebody else has deleted it meanwhile
                    await call.user.entities.remove_observation(entity.memory_id, text)
                has.discard(text)

    await _each(call, call.given.deletions, delete)
    return _done("Observations")


def _done(what: str) -> ToolAnswer:
    message = f"{what} deleted successfully"
    return ToolAnswer(stored.DeletionDone(success=True, message=message), text=message)


# --- read


async def _read_graph(call: ToolCall) -> ToolAnswer:
    graph = await stored.graph_of(call.user)
    nodes, links = map(stored.node, graph.entities), map(stored.link, graph.relations)
    return _found(call, stored.KnowledgeGraph([*nodes], [*links]), "everything")


async def _search_nodes(call: ToolCall) -> ToolAnswer:
    graph, wanted = await stored.graph_of(call.user), call.given.query.lower()

    def matches(entity: Memory) -> bool:
        texts = (entity.data["name"], entity.data["type"], *entity.data["observations"])
        return any(wanted in text.lower() for text in texts)

    chosen = [one for one in graph.entities if matches(one)]
    return _found(call, graph.shown(chosen), f"names, types and observations with {wanted!r}")


async def _open_nodes(call: ToolCall) -> ToolAnswer:
    graph, names = await stored.graph_of(call.user), set(call.given.names)
    ids = {one.memory_id for name in names for one in stored.of_name(graph.entities, name)}
    chosen = [one for one in graph.entities if one.memory_id in ids]
    return _found(call, graph.shown(chosen), f"the names {sorted(names)}")


def _found(call: ToolCall, graph: stored.KnowledgeGraph, wanted: str) -> ToolAnswer:
    user = call.user.user_id
    note = (
        f"Searched: user {user!r}, kind entity, for {wanted:.500}; no other filters. "
        f"{len(graph.entities)} entities, {len(graph.relations)} relations."
    )
    searched = {"user": user, "kinds": [MemoryType.ENTITY.value], "filters": builtins(call.given)}
    return _answer(graph, graph, note=note, meta={"memory-actors/searched": searched})


def _answer(
    structured: msgspec.Struct,
    text: object,
    *,
    note: str | None = None,
    meta: Mapping[str, object] | None = None,
) -> ToolAnswer:
    """Return an answer with the text that the reference has beside it."""
    said = msgspec.json.format(msgspec.json.encode(text), indent=2).decode()
    return ToolAnswer(structured, said, note, meta)


# --- the tools


def _tool(
    run: Any,
    description: str,
    takes: type[msgspec.Struct],
    returns: type[msgspec.Struct],
    **hints: bool,
) -> Tool:
    name = run.__name__.removeprefix("_")
    return Tool(name, name.replace("_", " ").title(), description, takes, returns, run, **hints)


TOOLS: Final[Sequence[Tool]] = (
    _tool(
        _create_entities, "Create multiple new entities in the knowledge graph. "
        "One whose name is there already is left as it is.", stored.NodeList, stored.NodeList,
    ),
    _tool(
        _create_relations, "Create multiple new relations between entities in the knowledge "
        "graph. Relations should be in active voice.", stored.Relations, stored.Relations,
    ),
    _tool(
        _add_observations, "Add new observations to existing entities in the knowledge graph.",
        stored.AddObservations, stored.AddedObservations,
    ),
    _tool(
        _delete_entities, "Delete multiple entities and their relations from the knowledge graph.",
        stored.EntityNames, stored.DeletionDone, destroys=True, repeats=True,
    ),
    _tool(
        _delete_observations, "Delete specific observations of entities in the knowledge graph.",
        stored.Deletions, stored.DeletionDone, destroys=True, repeats=True,
    ),
    _tool(
        _delete_relations, "Delete multiple relations from the knowledge graph.",
        stored.Relations, stored.DeletionDone, destroys=True, repeats=True,
    ),
    _tool(
        _read_graph, "Read the entire knowledge graph.", stored.Nothing, stored.KnowledgeGraph,
        reads=True, repeats=True,
    ),
    _tool(
        _search_nodes, "Search for nodes in the knowledge graph by a text in their names, types "
        "or observations.", stored.GraphQuery, stored.KnowledgeGraph, reads=True, repeats=True,
    ),
    _tool(
        _open_nodes, "Open specific nodes in the knowledge graph by their names.",
        stored.NodeNames, stored.KnowledgeGraph, reads=True, repeats=True,
    ),
)  # fmt: skip
