"""The tools that a model has by default: ten, over the operations of `UserMemory`.

The operation defines the arguments of a tool (`api/operations.py`): its signature gives names,
types, defaults and words. `answers.py` has what models get.
"""

import re
from collections.abc import Sequence
from datetime import date
from time import time
from typing import Annotated, Any, Final, Literal, get_args

import msgspec

from memory_actors.api.operations import OPERATIONS, SAYS, Parameter, in_json, struct_of
from memory_actors.base.errors import InvalidInputError, NotFoundError
from memory_actors.base.records import Item, JsonObject, MemoryType, Receipt
from memory_actors.base.validation import check_count, check_name, content_bytes, time_us
from memory_actors.integrations.mcp.answers import (
    About,
    AllWritten,
    Explained,
    Memories,
    Relation,
    SearchedIn,
    ShownMemory,
    WrittenMemory,
    shown,
    told,
)
from memory_actors.integrations.mcp.tool import SYNONYMS, Run, Tool, ToolAnswer, ToolCall
from memory_actors.search.query import TOP_K
from memory_actors.sharing.system import UserMemory

MANY_MAX: Final = 1_000
SIMILAR: Final = 5
AN_ID: Final = re.compile(r"mem_([0-9a-f]{4,}|[0-9a-z]{20,})", re.IGNORECASE)
"""Matches ids of memories, also those with a slip in them."""
KINDS: Final = tuple(kind.value for kind in MemoryType)
SEARCHED: Final = tuple(kind for kind in KINDS if kind != MemoryType.CONTEXT)
"""The kinds that are searched and listed where none is named."""

# --- words

KIND: Final = Literal[KINDS]
LIMIT: Final = next(one for one in OPERATIONS["list_memories"].parameters if one.name == "limit")


def _takes(operation: str, *names: str, more: Sequence[Parameter] = ()) -> type[msgspec.Struct]:
    declared = [one for one in OPERATIONS[operation].parameters if one.name in names]
    worded = {one.name: _worded(one.name, one.type, one.default) for one in [*declared, *more]}
    name = operation.title().replace(".", "")
    return struct_of(name, [*declared, *more], worded, rename=SYNONYMS)


def _worded(name: str, kind: object, default: object) -> Any:
    """Return the type of a parameter in JSON, with its words, which name its default."""
    default, said = TOP_K if name == "top_k" else default, SAYS[name]
    if date in get_args(kind):
        said += " ISO 8601."
    elif isinstance(default, int) and not isinstance(default, bool):
        said += f" Default: {default}."
    its = list[KIND] | None if name == "memory_types" else in_json(kind)  # type: ignore[valid-type]
    return Annotated[its, msgspec.Meta(description=said)]


def _given(call: ToolCall) -> JsonObject:
    return {name: getattr(call.given, name) for name in call.given.__struct_fields__}


# --- what they do


def _writes(operation: str) -> Run:
    async def run(call: ToolCall) -> ToolAnswer:
        return _written(await OPERATIONS[operation].call(call.user, _given(call)))

    return run


def _written(done: Receipt | Sequence[Receipt]) -> ToolAnswer:
    if isinstance(done, Receipt):
        return ToolAnswer(told(done, WrittenMemory))
    return ToolAnswer(AllWritten([told(one, WrittenMemory) for one in done]))


async def _remember_many(call: ToolCall) -> ToolAnswer:
    """Add memories by one write, so that all are there or none, whatever becomes of the call."""
    items = [Item(**msgspec.structs.asdict(one)) for one in call.given.items]
    await call.progress(0, len(items))
    receipts = await call.user.add_many(items)
    await call.progress(len(items), len(items))
    return _written(receipts)


def _finds(operation: str) -> Run:
    """Return a runner that finds memories, and notes the searched scope if it finds none.

    No kinds are all kinds, as models fill in an empty list.
    """

    async def run(call: ToolCall) -> ToolAnswer:
        given, user = _given(call), call.user
        kinds = given.pop("memory_types") or None
        found = await OPERATIONS[operation].call(user, given | {"memory_types": kinds})
        note = None
        if not found:
            note = (
                f"Nothing found. User {user.user_id!r} has "
                f"{await user.count(memory_types=kinds or SEARCHED):,} memories of these kinds, "
                "whatever their metadata, agent and time."
            )
        where = SearchedIn(
            user=user.user_id,
            kinds=list(kinds or SEARCHED),
            filters=given.get("filters") or {},
            **{name: given.get(name) for name in ("query", "since", "until", "agent_id")},
        )
        return ToolAnswer(Memories(searched=where, memories=[*map(shown, found)], note=note))

    return run


async def _get(call: ToolCall) -> ToolAnswer:
    return ToolAnswer(shown(await call.user.get(call.given.memory_id)))


async def _explain(call: ToolCall) -> ToolAnswer:
    why = await call.user.why(call.given.memory_id)
    steps = [f"{step.at:%Y-%m-%d %H:%M} {step.says}" for step in why.steps]
    names = ("memory_id", "memory_type", "alive", "says")
    return ToolAnswer(Explained(**{name: getattr(why, name) for name in names}, steps=steps))


async def _relate(call: ToolCall) -> ToolAnswer:
    """Relate two entities; one that is not there yet is added, if the rest can be."""
    # A relation that cannot be is refused before a name is added for it.
    check_name(call.given.relation, "relation")
    if call.given.fact is not None:
        content_bytes(call.given.fact)
    begins_us = time_us(call.given.valid_from, "valid_from")
    ends_us = time_us(call.given.valid_to, "valid_to")
    now_us = int(time() * 1e6)
    if ends_us is not None and ends_us < (now_us if begins_us is None else begins_us):
        raise InvalidInputError(
            "valid_to is before valid_from, which is now if left out: say since when it was true"
        )
    names = dict.fromkeys((call.given.source, call.given.target))
    for name in [name for name in names if not await _is_there(call.user, name)]:
        await call.user.entities.add_entity(name)
    return await _writes("entities.relate")(call)


async def _is_there(user: UserMemory, name: str) -> bool:
    try:
        await user.entities.get(name)
    except NotFoundError as error:
        if AN_ID.fullmatch(name):
            raise NotFoundError(
                f"no entity has the id {name!r}: give the name of a person, thing or place, "
                "or the id of one as another tool returned it"
            ) from error
        return False
    return True


async def _look_up(call: ToolCall) -> ToolAnswer:
    where = SearchedIn(
        user=call.user.user_id, kinds=["entity"], filters={}, query=call.given.entity_ref
    )
    given = _given(call)
    try:
        entity = await call.user.entities.get(given["entity_ref"])
    except NotFoundError:
        near = await call.user.retrieve(where.query or "", memory_types=["entity"], top_k=SIMILAR)
        note = f"Nothing is named {where.query!r}. See `similar`, or try recall."
        return ToolAnswer(About(searched=where, similar=[hit.content for hit in near], note=note))
    how = {name: given[name] for name in ("relation", "as_of", "ended")}
    links = await call.user.entities.relationships(entity.memory_id, **how)
    left = max(0, len(links) - check_count(given["limit"], "limit", 1))
    return ToolAnswer(
        About(
            searched=where,
            memory_id=entity.memory_id,
            name=entity.name,
            type=entity.type,
            observations=list(entity.observations),
            relationships=[told(one, Relation) for one in links[: given["limit"]]],
            note=f"{left:,} older relationships are left out: raise limit." if left else None,
        )
    )


# --- the tools

_FIELDS: Final[list[Any]] = [
    (one.name, _worded(one.name, one.type, None), *(() if one.required else (one.default,)))
    for one in msgspec.structs.fields(Item)
    if one.name in ("content", "metadata", "occurred_at", "pinned")
]
Fact = msgspec.defstruct("Fact", _FIELDS, frozen=True, kw_only=True, forbid_unknown_fields=True)
FACTS: Final = Annotated[
    list[Fact],  # type: ignore[valid-type]
    msgspec.Meta(description="The facts, each by itself.", min_length=1, max_length=MANY_MAX),
]


def _tool(
    name: str,
    title: str,
    run: Run,
    takes: type[msgspec.Struct],
    returns: type[msgspec.Struct],
    what: str,
    when: str,
    example: str,
    **hints: bool,
) -> Tool:
    description = f"{what}\nUse when {when}\nExample: {example}"
    return Tool(name, title, description, takes, returns, run, **hints)


def _says(operation: str) -> str:
    return OPERATIONS[operation].summary


TOOLS: Final[Sequence[Tool]] = (
    _tool(
        "remember", "Remember a fact", _writes("add"),
        _takes("add", "content", "metadata", "occurred_at", "pinned"), WrittenMemory,
        "Store one fact about the user or their work, for later conversations.",
        (
            "the user tells you something that will matter later (a preference, a decision, a "
            "name, a date) or asks you to remember it. A fact that changed is stored as a new "
            "one: the old one is marked as superseded by itself."
        ),
        '{"content": "Ann prefers the aisle seat on flights", "metadata": {"topic": "travel"}}',
    ),
    _tool(
        "remember_many", "Remember several facts", _remember_many,
        struct_of(
            "Many", OPERATIONS["add_many"].parameters[:1], {"items": FACTS}
        ),
        AllWritten,
        "Store several facts at once, all or none.",
        "a conversation or a document holds more than one fact worth keeping.",
        '{"items": [{"content": "Ann lives in Oslo"}, {"content": "Ann has a dog, Rex"}]}',
    ),
    _tool(
        "recall", "Recall", _finds("retrieve"),
        _takes(
            "retrieve", "query", "memory_types", "top_k", "filters", "since", "until", "agent_id"
        ),
        Memories,
        "Find the memories that best answer a question, by meaning and by words.",
        (
            "the user refers to something from before, or an answer may depend on who they are "
            "and what they like. Ask before you say that you do not know."
        ),
        '{"query": "Which seat does Ann like?", "limit": 3}',
        reads=True,
    ),
    _tool(
        "list_memories", "List memories", _finds("list_memories"),
        _takes("list_memories", "memory_types", "filters", "limit", "offset", "agent_id"), Memories,
        _says("list_memories"),
        "you need everything of a kind or with some metadata, not the best answers to a query.",
        '{"filters": {"topic": "travel"}, "limit": 20}',
        reads=True,
    ),
    _tool(
        "get_memory", "Get a memory", _get, _takes("get", "memory_id"), ShownMemory,
        "Return one memory in full.",
        "you have its id and need its present text or metadata.",
        '{"id": "mem_0123"}',
        reads=True,
    ),
    _tool(
        "update_memory", "Correct a memory", _writes("update"),
        _takes("update", "memory_id", "content", "metadata"), WrittenMemory,
        _says("update"),
        "a memory was wrong from the start. If it was right and things changed, use remember.",
        '{"id": "mem_0123", "content": "Ann prefers the window seat"}',
        destroys=True, repeats=True,
    ),
    _tool(
        "delete_memory", "Delete a memory", _writes("delete"),
        _takes("delete", "memory_id"), WrittenMemory,
        _says("delete"),
        "the user asks you to forget it. Find its id with recall first.",
        '{"id": "mem_0123"}',
        destroys=True,
    ),
    _tool(
        "explain_memory", "Explain a memory", _explain, _takes("why", "memory_id"), Explained,
        _says("why"),
        "the user asks where you know something from, or why you no longer do.",
        '{"id": "mem_0123"}',
        reads=True,
    ),
    _tool(
        "relate", "Relate two things", _relate,
        _takes(
            "entities.relate", "source", "relation", "target", "fact", "valid_from", "valid_to"
        ),
        WrittenMemory,
        "Store how two people, things or places relate. New names are added by themselves.",
        "the fact is a link that you will follow later: who works where, what depends on what.",
        '{"source": "Ann", "relation": "works_at", "target": "Acme"}',
        repeats=True,
    ),
    _tool(
        "look_up", "Look up a name", _look_up,
        _takes("entities.relationships", "entity_ref", "relation", "as_of", "ended", more=[LIMIT]),
        About,
        "Return what is known of a person, thing or place by name, and what it relates to.",
        "the question is about one name: 'Who is Ann?', 'What depends on billing?'",
        '{"id": "Ann"}',
        reads=True,
    ),
)  # fmt: skip
"""The default tools: ten, as a model chooses worse from more."""

REVIEW: Final[Sequence[Tool]] = (
    _tool(
        "pending_memories", "Memories to review", _finds("pending"),
        _takes("pending", "memory_types", "limit", "offset"), Memories,
        _says("pending"),
        "the user wants to look through what was added and not yet approved.",
        '{"limit": 20}',
        reads=True,
    ),
    _tool(
        "approve_memories", "Approve memories", _writes("approve"),
        _takes("approve", "memory_ids"), AllWritten,
        _says("approve"),
        "the user has seen these memories and says that they are right.",
        '{"memory_ids": ["mem_0123"]}',
    ),
    _tool(
        "reject_memories", "Reject memories", _writes("reject"),
        _takes("reject", "memory_ids"), AllWritten,
        _says("reject"),
        "the user has seen these memories and does not want them remembered.",
        '{"memory_ids": ["mem_0123"]}',
        destroys=True,
    ),
)  # fmt: skip
"""For who reviews with the help of a model: what is untrusted must not approve itself."""
