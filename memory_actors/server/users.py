"""The routes of a user's own memory, under `/v1/users/{user_id}`.

Thin: each hands on to `UserMemory`. That the key may reach this user has been seen to before any of
them runs (`access.own_memory`).
"""

from typing import Annotated, Any
from urllib.parse import quote

import msgspec
from litestar import Request, Response, Router, delete, get, patch, post
from litestar.di import NamedDependency, Provide
from litestar.params import Body, HeaderParameter, PathParameter, QueryParameter

from memory_actors.api.handles.user import UserMemory
from memory_actors.base.errors import InvalidInputError
from memory_actors.base.records import Memory, Receipt, Trust, Usage
from memory_actors.base.reports import Purged, Why
from memory_actors.server import examples
from memory_actors.server.access import own_memory, set_tier_once, unescaped
from memory_actors.server.bodies import (
    PAGE_MAX,
    AddMemory,
    Count,
    Deleted,
    History,
    Hits,
    Memories,
    Purge,
    Search,
    UpdateMemory,
    check_page,
)
from memory_actors.server.examples import answers, example

OfUser = NamedDependency[UserMemory]
UserId = Annotated[
    str, PathParameter(description="Whose memory.", examples=example(examples.USER_ID))
]
MemoryId = Annotated[
    str, PathParameter(description="Its id.", examples=example(examples.MEMORY_ID))
]
AgentId = Annotated[
    str | None,
    HeaderParameter(
        name="Agent-Id", description="The agent it comes from, percent-encoded.",
        examples=example("travel_agent"),
    ),
]  # fmt: skip
SessionId = Annotated[
    str | None,
    HeaderParameter(
        name="Session-Id", description="The session, percent-encoded, unless the body names one.",
        examples=example("sess_abc123"),
    ),
]  # fmt: skip


Types = Annotated[
    list[str] | None,
    QueryParameter(description="Only these; may be repeated.", examples=example(["long_term"])),
]
Filters = Annotated[
    str | None,
    QueryParameter(description="JSON, by metadata.", examples=example('{"category": "sports"}')),
]
Sources = Annotated[
    list[str] | None,
    QueryParameter(
        description="Only what came from these; may be repeated.",
        examples=example([examples.SOURCE]),
    ),
]
MinTrust = Annotated[
    Trust | None,
    QueryParameter(description="Nothing less trusted.", examples=example("unknown")),
]


async def user_memory(
    request: Request[Any, Any, Any],
    user_id: UserId,
    agent_id: AgentId = None,
    session_id: SessionId = None,
) -> UserMemory:
    """Return the memory that the path names, for the agent and session that the headers name."""
    state = request.app.state
    await set_tier_once(state.memory, state.api_keys, request.auth)
    user: UserMemory = state.memory.user(
        user_id,
        agent_id=_named(agent_id, "Agent-Id"),
        session_id=_named(session_id, "Session-Id"),
    )
    return user


def _named(header: str | None, what: str) -> str | None:
    return None if header is None else unescaped(header, what)


@post(
    "/memories",
    summary="Add a memory",
    responses=answers(201, examples.RECEIPT, 400, 401, 403, 409, 413),
)
async def add(
    user: OfUser,
    user_id: UserId,
    data: Annotated[AddMemory, Body(examples=example(examples.ADD))],
) -> Response[Receipt]:
    """Add one memory; what its text is depends on the type."""
    receipt = await _speaker(user, data).add(**data.arguments())
    return Response(receipt, headers={"Location": _address(user_id, receipt.memory_id)})


def _speaker(user: UserMemory, said: AddMemory | UpdateMemory) -> UserMemory:
    return user.from_source(said.source, said.trust)


def _address(user_id: str, memory_id: str) -> str:
    """Return the path of a memory; of one whose id is "search", not the path of the search."""
    part = "%73earch" if memory_id == "search" else quote(memory_id, safe="")
    return f"/v1/users/{quote(user_id, safe='')}/memories/{part}"


@post(
    "/memories/search",
    status_code=200,
    summary="Search",
    responses=answers(200, examples.HITS, 400, 401, 403, 413),
)
async def search(
    user: OfUser, data: Annotated[Search, Body(examples=example(examples.SEARCH))]
) -> Hits:
    """Return the memories that best answer a query."""
    return Hits(await user.retrieve(data.query, **data.arguments()))


@get("/memories", summary="List memories", responses=answers(200, examples.MEMORIES, 400, 401, 403))
async def list_memories(
    user: OfUser,
    memory_type: Types = None,
    filters: Filters = None,
    source: Sources = None,
    min_trust: MinTrust = None,
    limit: Annotated[int, QueryParameter(ge=1, le=PAGE_MAX, examples=example(100))] = 100,
    offset: Annotated[int, QueryParameter(ge=0, examples=example(0))] = 0,
) -> Memories:
    """Return memories, newest first."""
    chosen = _filters(filters)
    check_page(limit, "limit")
    return Memories(
        await user.list_memories(
            memory_type,
            filters=chosen,
            sources=source,
            min_trust=min_trust,
            limit=limit,
            offset=offset,
        )
    )


@get("/count", summary="Count memories", responses=answers(200, examples.COUNT, 400, 401, 403))
async def count(
    user: OfUser,
    memory_type: Types = None,
    filters: Filters = None,
    source: Sources = None,
    min_trust: MinTrust = None,
) -> Count:
    """Return how many memories the same parameters would list."""
    chosen = _filters(filters)
    return Count(
        await user.count(chosen, memory_types=memory_type, sources=source, min_trust=min_trust)
    )


@delete(
    "/memories",
    status_code=200,
    summary="Delete what matches",
    responses=answers(200, examples.DELETED_MANY, 400, 401, 403),
)
async def delete_many(
    user: OfUser,
    memory_type: Types = None,
    filters: Filters = None,
    source: Sources = None,
    min_trust: MinTrust = None,
) -> Deleted:
    """Delete the memories that match; their history stays. Without `filters`, name the types."""
    chosen = _filters(filters) or {}
    return Deleted(
        await user.delete_many(
            chosen, memory_types=memory_type, sources=source, min_trust=min_trust
        )
    )


def _filters(text: str | None) -> dict[str, Any] | None:
    try:
        return None if text is None else msgspec.json.decode(text, type=dict[str, Any])
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise InvalidInputError("filters must be a JSON object") from error


@get(
    "/memories/{memory_id:str}",
    summary="Get a memory",
    responses=answers(200, examples.MEMORY, 400, 401, 403, 404),
)
async def get_memory(user: OfUser, memory_id: MemoryId) -> Memory:
    """Return one memory."""
    return await user.get(memory_id)


@patch(
    "/memories/{memory_id:str}",
    summary="Change a memory",
    responses=answers(200, examples.UPDATED, 400, 401, 403, 404, 409, 413),
)
async def update(
    user: OfUser,
    memory_id: MemoryId,
    data: Annotated[UpdateMemory, Body(examples=example(examples.UPDATE))],
) -> Receipt:
    """Replace what a memory says, its metadata as a whole, or both."""
    speaker = _speaker(user, data)
    return await speaker.update(memory_id, content=data.content, metadata=data.metadata)


@delete(
    "/memories/{memory_id:str}",
    status_code=200,
    summary="Delete a memory",
    responses=answers(200, examples.DELETED, 400, 401, 403, 404),
)
async def delete_memory(user: OfUser, memory_id: MemoryId) -> Receipt:
    """Delete a memory; its history stays."""
    return await user.delete(memory_id)


@get(
    "/memories/{memory_id:str}/history",
    summary="History of a memory",
    responses=answers(200, examples.HISTORY, 400, 401, 403, 404),
)
async def history(user: OfUser, memory_id: MemoryId) -> History:
    """Return every event that touched a memory, also of one that is deleted."""
    return History(await user.history(memory_id))


@get(
    "/memories/{memory_id:str}/why",
    summary="Why a memory is there",
    responses=answers(200, examples.WHY, 400, 401, 403, 404),
)
async def why(user: OfUser, memory_id: MemoryId) -> Why:
    """Return the life of a memory in words, also of one that is deleted or compressed."""
    return await user.why(memory_id)


@post(
    "/purge",
    status_code=200,
    summary="Purge a source",
    responses=answers(200, examples.PURGED, 400, 401, 403, 413),
)
async def purge(
    user: OfUser, data: Annotated[Purge, Body(examples=example(examples.PURGE))]
) -> Purged:
    """Take what came from a source out of memory, summaries included; history stays."""
    return await user.purge(data.source, trust=data.trust, dry_run=data.dry_run)


@get("/usage", summary="Usage", responses=answers(200, examples.USAGE, 400, 401, 403))
async def usage(user: OfUser) -> Usage:
    """Return how much of each kind the user holds, and how full each limit is."""
    return await user.usage()


def router() -> Router:
    """Return the routes, all behind the check that the key may reach this user."""
    return Router(
        "/v1/users/{user_id:str}",
        route_handlers=[
            add, search, list_memories, count, get_memory, update, delete_memory, delete_many,
            history, why, purge, usage,
        ],
        guards=[own_memory],
        dependencies={"user": Provide(user_memory)},
        tags=["memories"],
    )  # fmt: skip
