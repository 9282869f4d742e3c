"""The routes of a user's own memory, under `/v1/users/{user_id}`.

A route is an operation of `UserMemory` at an address: what it takes, in its body or its query, and
what it answers follow from the operation. `access.known_scope` has checked that the key may reach
this user before any of them runs.
"""

from collections.abc import Mapping, Set
from inspect import Parameter as Taken
from inspect import Signature
from types import GenericAlias
from typing import Annotated, Any, Final, NamedTuple
from urllib.parse import quote

import msgspec
from litestar import Response, Router, delete, get, patch, post
from litestar.di import NamedDependency, Provide
from litestar.handlers import HTTPRouteHandler
from litestar.params import Body, HeaderParameter, PathParameter, QueryParameter

from memory_actors.api.operations import OPERATIONS, Operation, in_json
from memory_actors.base.errors import InvalidInputError
from memory_actors.base.records import JsonObject
from memory_actors.server.access import (
    AnyRequest,
    check_speaker,
    known_scope,
    set_tier_once,
    unescaped,
)
from memory_actors.server.bodies import (
    IN_HTTP,
    KNOWN_AS,
    NAMED,
    PAGE_MAX,
    UserId,
    answers,
    arguments,
    body_of,
    checked,
    example,
)
from memory_actors.server.events import of_user
from memory_actors.sharing.system import UserMemory

OfUser = NamedDependency[UserMemory]
MemoryId = Annotated[
    str, PathParameter(description="Its id.", examples=example(NAMED["memory_id"]))
]
DocumentName = Annotated[str, PathParameter(description="Its name.", examples=example("MEMORY.md"))]
AgentId = Annotated[
    str | None,
    HeaderParameter(
        name="Agent-Id", description="The agent it comes from, percent-encoded.",
        examples=example(NAMED["agent_id"]),
    ),
]  # fmt: skip
SessionId = Annotated[
    str | None,
    HeaderParameter(
        name="Session-Id", description="The session, percent-encoded, unless the body names one.",
        examples=example(NAMED["session_id"]),
    ),
]  # fmt: skip
SpeaksFor = Annotated[
    str | None,
    HeaderParameter(
        name="Speaks-For", description="Of a root key: the subject whose grants count.",
        examples=example("person%3Aada"),
    ),
]  # fmt: skip
Reads = Annotated[
    str | None,
    HeaderParameter(
        name="Reads", examples=example("project%3Ax, team%3Ay"),
        description="Other scopes that a search or a prompt asks, percent-encoded, after commas.",
    ),
]  # fmt: skip

QUERY: Final[Mapping[str, QueryParameter]] = {
    "memory_types": QueryParameter(
        name="memory_type",
        description="Only these; may be repeated.",
        examples=example(["long_term"]),
    ),
    "filters": QueryParameter(
        description="JSON, by metadata.", examples=example('{"category": "sports"}')
    ),
    "sources": QueryParameter(
        name="source",
        description="Only what came from these; may be repeated.",
        examples=example([NAMED["source"]]),
    ),
    "min_trust": QueryParameter(description="Nothing less trusted.", examples=example("unknown")),
    "agent_id": QueryParameter(
        description="Only what this agent wrote.", examples=example(NAMED["agent_id"])
    ),
    "session_id": QueryParameter(
        name="session", description="Only of this session.", examples=example(NAMED["session_id"])
    ),
    "since": QueryParameter(description="ISO 8601.", examples=example("2026-01-31")),
    "until": QueryParameter(description="ISO 8601.", examples=example("2026-01-31")),
    "contains": QueryParameter(description="A text, in any case.", examples=example("ski")),
    "limit": QueryParameter(ge=1, le=PAGE_MAX, examples=example(100)),
    "offset": QueryParameter(ge=0, examples=example(0)),
}
IN_QUERY: Final = {**IN_HTTP, **dict.fromkeys(("filters", "since", "until"), str | None)}


class Route(NamedTuple):
    """An operation at an address."""

    at: str
    operation: str
    title: str
    given: JsonObject | None = None
    """The example of the body of a request; None: what is not in the path is in the query."""
    more: tuple[int, ...] = ()
    """Problems beside the usual ones."""
    status: int = 200
    within: tuple[str, str] | None = None
    """The struct around the result, and its field; None: the result is the answer."""
    total: str | None = None
    """The operation that counts what a list is a page of: its number stands beside it."""
    shown: JsonObject = {}
    """Fields of the example of an answer that the type does not tell."""

    @property
    def problems(self) -> tuple[int, ...]:
        """The statuses of its problems."""
        of_one = (404,) if "{memory_id" in self.at else ()
        too_large = () if self.given is None else (413,)
        return tuple(sorted({400, 401, 403, *of_one, *too_large, *self.more}))


ONE: Final = "/memories/{memory_id:str}"
IDS: Final = {"memory_ids": [NAMED["memory_id"]]}
ROUTES: Final = (
    Route(
        "POST /memories", "add", "Add a memory",
        {name: NAMED[name] for name in ("content", "metadata", "session_id")}, (409,), 201,
    ),
    Route(
        "POST /memories/bulk", "add_many", "Add memories",
        {"items": [{"content": NAMED["content"]}]}, (409,), 201, ("Added", "receipts"),
    ),
    Route(
        "POST /memories/search", "retrieve", "Search",
        {"query": "winter sports", "top_k": 3, "filters": NAMED["metadata"]},
        within=("Hits", "hits"),
    ),
    Route(
        "GET /memories", "list_memories", "List memories", within=("Memories", "memories"),
        total="count",
    ),
    Route("GET /count", "count", "Count memories", within=("Count", "count")),
    Route(
        "DELETE /memories", "delete_many", "Delete what matches", within=("Deleted", "receipts"),
        shown={"operation": "delete"},
    ),
    Route(f"GET {ONE}", "get", "Get a memory"),
    Route(
        f"PATCH {ONE}", "update", "Change a memory",
        {"content": "User enjoys skiing and snowboarding"}, (409,), shown={"operation": "update"},
    ),
    Route(f"DELETE {ONE}", "delete", "Delete a memory", shown={"operation": "delete"}),
    Route(f"GET {ONE}/history", "history", "History of a memory", within=("History", "entries")),
    Route(f"GET {ONE}/why", "why", "Why a memory is there"),
    Route("GET /pending", "pending", "List pending memories", within=("Pending", "memories")),
    Route(
        "POST /pending/approve", "approve", "Approve pending memories", IDS, (404, 409),
        within=("Approved", "receipts"), shown={"operation": "approve"},
    ),
    Route(
        "POST /pending/reject", "reject", "Reject pending memories", IDS, (404,),
        within=("Rejected", "receipts"), shown={"operation": "reject"},
    ),
    Route("POST /purge", "purge", "Purge a source", {"source": NAMED["source"]}),
    Route(
        "POST /forget", "forget", "Forget a fact", {"what": NAMED["content"], "dry_run": True},
        (404, 409),
    ),
    Route("GET /forgotten", "forgotten", "What was forgotten", within=("Facts", "forgotten")),
    Route(
        "POST /unforget", "unforget", "Let a forgotten fact come again",
        {"what": NAMED["content"]}, (404,),
    ),
    Route(
        "POST /extract", "extract", "Find facts in new messages",
        {"session_id": NAMED["session_id"], "dry_run": True}, (404, 409),
    ),
    Route(
        "GET /extractions", "extractions", "What was extracted",
        within=("Extractions", "extractions"),
    ),
    Route(
        "POST /undo", "undo", "Undo an extraction", {"extraction_id": NAMED["extraction_id"]},
        (404, 409),
    ),
    Route("GET /usage", "usage", "Usage"),
    Route("GET /grants", "grants", "Who may do what", within=("Grants", "grants")),
    Route("GET /right", "right", "What this key may do", within=("OwnRight", "right")),
    Route(
        "POST /grants", "grant", "Grant a right", {"subject": "person:ada", "right": "read"},
        within=("Grants", "grants"),
    ),
    Route(
        "POST /revoke", "revoke", "Revoke a right", {"subject": "person:ada"}, (404,),
        within=("Grants", "grants"),
    ),
    Route(
        "POST /turns", "turn", "Add a turn of a chat",
        {"content": "I'd like to ski in March", "role": "user"}, (409,), 201,
    ),
    Route(
        "POST /context", "context", "What to paste into a prompt",
        {"query": "winter sports", "token_budget": 500},
    ),
    Route(
        "GET /context/documents", "context.documents", "List context documents",
        within=("ContextDocuments", "documents"),
    ),
    Route(
        "GET /context/documents/{document:str}", "context.render", "Text of a context document",
        within=("ContextText", "text"),
    ),
)  # fmt: skip
METHODS: Final = {"GET": get, "POST": post, "PATCH": patch, "DELETE": delete}


def handler(route: Route) -> HTTPRouteHandler:
    """Return the handler of a route."""
    operation = OPERATIONS[route.operation]
    method, path = route.at.split()
    answered = _answered(route, operation)

    async def answer(
        user: UserMemory, user_id: str, request: AnyRequest, **given: Any
    ) -> Response[Any]:
        _check_address(request, in_query)
        body = given.pop("data", None)
        fields = {**given, **({} if body is None else arguments(body))}
        result = await _called(operation, user, fields)
        told = result if route.within is None else {route.within[1]: result}
        if route.total is not None:
            counted = OPERATIONS[route.total]
            which = {one.name for one in counted.parameters}
            of_all = {name: value for name, value in fields.items() if name in which}
            told["total"] = await _called(counted, user, of_all)
        is_one = route.operation == "add"
        headers = {"Location": _address(user_id, result.memory_id)} if is_one else None
        return Response(told, headers=headers)

    taken = _signature(route, operation)
    own = {one.name for one in operation.parameters}
    in_query = None if route.given else {QUERY[name].name or name for name in QUERY if name in own}
    answer.__name__ = known_as = KNOWN_AS.get(operation.name, operation.name)
    answer.__doc__ = operation.summary
    answer.__signature__ = Signature(taken)  # type: ignore[attr-defined]
    answer.__annotations__ = {one.name: one.annotation for one in taken} | {
        "return": GenericAlias(Response, answered)
    }
    made: HTTPRouteHandler = METHODS[method](
        path,
        status_code=route.status,
        operation_id=known_as,
        summary=route.title,
        responses=answers(route.status, answered, *route.problems, **route.shown),
    )(answer)
    return made


def _answered(route: Route, operation: Operation) -> Any:
    if route.within is None:
        return operation.returns
    name, field = route.within
    totals = [("total", int)] if route.total is not None else []
    answered = msgspec.defstruct(name, [(field, operation.returns), *totals], frozen=True)
    answered.__doc__ = operation.summary
    return answered


async def _called(operation: Operation, user: UserMemory, fields: dict[str, Any]) -> Any:
    """Carry out an operation; fields that are not its own say where its words come from."""
    own = {one.name: one for one in operation.parameters}
    document = fields.pop("document", None)
    said_by = {name: fields.pop(name) for name in [*fields] if name not in own}
    speaker = user.from_source(**said_by) if said_by else user
    given = {name: checked(name, value) for name, value in fields.items()}
    if given.get("filters", ...) is None and own["filters"].is_required:
        given["filters"] = {}
    return await operation.call(speaker, given, document)


def _signature(route: Route, operation: Operation) -> list[Taken]:
    taken: dict[str, Any] = {
        "user": OfUser, "user_id": UserId, "request": AnyRequest,
    }  # fmt: skip
    if "{memory_id" in route.at:
        taken["memory_id"] = MemoryId
    if "{document" in route.at:
        taken["document"] = DocumentName
    if route.given is not None:
        body = body_of(route.operation)
        taken["data"] = Annotated[body, Body(examples=example(dict(route.given)))]
    parameters = [Taken(name, Taken.KEYWORD_ONLY, annotation=kind) for name, kind in taken.items()]
    for one in operation.parameters if route.given is None else ():
        if one.name in QUERY:
            kind: Any = Annotated[IN_QUERY.get(one.name) or in_json(one.type), QUERY[one.name]]
            default = None if one.is_required else one.default
            parameters.append(Taken(one.name, Taken.KEYWORD_ONLY, annotation=kind, default=default))
    return parameters


def _check_address(request: AnyRequest, in_query: Set[str] | None) -> None:
    """Refuse a condition that would not be read: without it, what it spares would be deleted.

    `in_query` has the parameters that a query may have, None where they are in a body.

    :raises InvalidInputError: the query has an unknown name, or there is a body that is not read.
    """
    for name in sorted(request.query_params.keys() - (in_query or set())):
        known = f"it takes {', '.join(sorted(in_query))}" if in_query else "it takes none"
        where = known if in_query is not None else "give it in the body"
        raise InvalidInputError(f"unknown query parameter {name!r:.80}: {where}")
    length = request.headers.get("content-length", "0")
    if in_query is not None and (length != "0" or "transfer-encoding" in request.headers):
        raise InvalidInputError(
            "this request takes no body: give filters and the like in the query"
        )


async def user_memory(
    request: AnyRequest,
    user_id: UserId,
    agent_id: AgentId = None,
    session_id: SessionId = None,
    speaks_for: SpeaksFor = None,
    reads: Reads = None,
) -> UserMemory:
    """Return the memory that the path names, for what the headers name."""
    state = request.app.state
    by = check_speaker(request.auth, _named(speaks_for, "Speaks-For"))
    scopes = [unescaped(one.strip(), "Reads") for one in reads.split(",")] if reads else []
    await set_tier_once(state.memory, state.api_keys, request.auth)
    user: UserMemory = state.memory.user(
        user_id,
        agent_id=_named(agent_id, "Agent-Id"),
        session_id=_named(session_id, "Session-Id"),
        by=by,
    )
    return user.reads(*scopes) if scopes else user


def _named(header: str | None, what: str) -> str | None:
    return None if header is None else unescaped(header, what)


def _address(user_id: str, memory_id: str) -> str:
    """Return the path of a memory; of one whose id is "search", not the path of the search."""
    part = "%73earch" if memory_id == "search" else quote(memory_id, safe="")
    return f"/v1/users/{quote(user_id, safe='')}/memories/{part}"


def router() -> Router:
    """Return the routes, all behind the check that the key may reach this user."""
    return Router(
        "/v1/users/{user_id:str}",
        route_handlers=[*(handler(route) for route in ROUTES), of_user],
        guards=[known_scope],
        dependencies={"user": Provide(user_memory)},
        tags=["memories"],
    )
