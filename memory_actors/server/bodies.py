"""Bodies of requests and answers, and their examples in the OpenAPI document.

Both are made of the types and arguments of operations, so that they cannot go stale.
"""

from collections.abc import Mapping
from functools import cache
from inspect import Parameter as Declared
from types import GenericAlias
from typing import Annotated, Any, Final, get_type_hints

import msgspec
from litestar.openapi.datastructures import ResponseSpec
from litestar.openapi.spec import Example
from litestar.params import PathParameter
from msgspec import inspect

from memory_actors.api.operations import OPERATIONS, Parameter, struct_of
from memory_actors.base.errors import InvalidInputError
from memory_actors.base.records import Item, JsonObject, Right, Trust
from memory_actors.base.reports import CompactionStats
from memory_actors.base.weights import weights_of
from memory_actors.server.problems import MEDIA_TYPE
from memory_actors.sharing.declaration import TYPE_PREFIX, Problem

NAMED: Final[Mapping[str, object]] = {
    "user_id": "user_123",
    "memory_id": "mem_0605f1c5a0b4801f2e3d4c5b6a7980",
    "extraction_id": "ext_0605f1c5a0b4801f2e3d4c5b6a7980",
    "job_id": "job_9f86d081884c7d65",
    "agent_id": "travel_agent",
    "session_id": "sess_abc123",
    "content": "User enjoys skiing",
    "memory_type": "long_term",
    "metadata": {"category": "sports"},
    "source": "https://news.example/article",
    "operation": "add",
    "state": "queued",
    "status": "ok",
    "outcome": "compressed",
    "event": "long_term.added",
    "command": "AddMemories",
    "data": {"memory_id": "mem_0605f1c5a0b4801f2e3d4c5b6a7980", "content": "User enjoys skiing"},
    "cause": {"command": "AddMemories", "agent_id": "travel_agent"},
    "says": "Added by agent travel_agent.",
    "older_than": "90d",
    "schedule": "0 3 * * 0",
    "tier": "pro",
    "unit": "count",
    "effect": "added",
}
"""Examples of fields by name; of others the type says enough."""

_BY_TYPE: Final[Mapping[type, object]] = {
    inspect.IntType: 1,
    inspect.FloatType: 0.83,
    inspect.BoolType: False,
    inspect.DateTimeType: "2025-11-14T09:30:00Z",
    inspect.NoneType: None,
    inspect.AnyType: None,
}
_PROBLEMS: Final[Mapping[int, tuple[str, str, str]]] = {
    400: ("invalid-input", "Invalid input", "query is empty: give it some text"),
    401: ("unauthorized", "Unauthorized", "Send an API key: Authorization: Bearer ma_…"),
    403: ("forbidden", "Forbidden", "This key is for the memory of another user."),
    404: ("not-found", "Not found", f"no memory {NAMED['memory_id']!r}"),
    409: (
        "quota-exceeded",
        "Quota exceeded",
        "User has 10,000 long-term memories (max: 10,000). Delete old memories or upgrade quota.",
    ),
    413: (
        "content-too-large",
        "Content too large",
        "The body is over 1 MiB: send less at a time.",
    ),
    503: ("unavailable", "Unavailable", "The server cannot do this now."),
}


def example(value: object) -> list[Example]:
    """Return a value as the one example of something."""
    return [Example(summary="Example", value=value)]


def example_of(kind: type, **named: object) -> Any:
    """Return JSON of a type: of a struct the fields that it always has, and those that are named.

    `named` says other values than `NAMED` does.
    """
    return _made(inspect.type_info(kind), "", named)


def _made(kind: inspect.Type, name: str, named: Mapping[str, object]) -> object:
    if isinstance(kind, inspect.StructType):
        return {
            field.encode_name: _made(field.type, field.encode_name, named)
            for field in kind.fields
            if field.required or field.encode_name in named
        }
    if isinstance(kind, inspect.CollectionType):
        return [_made(kind.item_type, "", named)]
    if isinstance(kind, inspect.DictType) and isinstance(kind.value_type, inspect.StructType):
        return {NAMED["memory_type"]: _made(kind.value_type, "", named)}
    if name in named or name in NAMED:
        return named.get(name, NAMED.get(name))
    if isinstance(kind, inspect.UnionType):
        return _made(kind.types[0], name, named)
    return _BY_TYPE.get(type(kind), name or "text")


def answers(status: int, kind: type, *problems: int, **named: object) -> dict[int, ResponseSpec]:
    """Return the answers of a route: an example of success, and of each of its problems."""
    success = ResponseSpec(
        kind, generate_examples=False, description=(kind.__doc__ or kind.__name__).splitlines()[0],
        examples=example(example_of(kind, **named)),
    )  # fmt: skip
    return {status: success, **{number: _problem(number) for number in (*problems, 503)}}


def _problem(status: int) -> ResponseSpec:
    name, title, detail = _PROBLEMS[status]
    problem = Problem(
        type=TYPE_PREFIX + name,
        title=title,
        status=status,
        detail=detail,
        instance="urn:uuid:7f1c1a52-1a0b-4a6e-9a86-0f4a3f0c2d11",
    )
    return ResponseSpec(
        Problem, generate_examples=False, description=title, media_type=MEDIA_TYPE,
        examples=example(msgspec.to_builtins(problem)),
    )  # fmt: skip


# --- bodies


UserId = Annotated[
    str, PathParameter(description="Whose memory.", examples=example(NAMED["user_id"]))
]
PAGE_MAX: Final = 1_000  # hits or memories in one answer, of at most 256 KB each

MemoryItem = struct_of(
    "MemoryItem",
    [
        Parameter(
            field.name,
            get_type_hints(Item)[field.name],
            Declared.empty if field.required else field.default,
            Declared.KEYWORD_ONLY,
        )
        for field in msgspec.structs.fields(Item)
    ],
    doc="One of the memories that are added at once.",
)
IN_HTTP: Final[Mapping[str, object]] = {
    "auto_prune": bool,
    "trust": Trust | None,
    "min_trust": Trust | None,
    "right": Right,
    "weights": dict[str, float] | None,
    "items": GenericAlias(list, MemoryItem),
}
"""The fields that have another type in a request than in a call."""

SAID_BY: Final = tuple(
    Parameter(name, str | None, None, Declared.KEYWORD_ONLY) for name in ("source", "trust")
)
"""The parameters of `UserMemory.from_source`: a write of texts may say where they come from."""
OF_TEXTS: Final = ("add", "add_many", "turn", "update")
KNOWN_AS: Final = {
    "add": "add_memory",
    "add_many": "add_memories",
    "turn": "add_turn",
    "retrieve": "search_memories",
    "get": "get_memory",
    "update": "update_memory",
    "delete": "delete_memory",
    "delete_many": "delete_memories",
    "count": "count_memories",
    "pending": "list_pending_memories",
    "approve": "approve_memories",
    "reject": "reject_memories",
    "history": "memory_history",
    "why": "memory_why",
    "undo": "undo_extraction",
    "grant": "grant_right",
    "grants": "list_grants",
    "right": "own_right",
    "revoke": "revoke_right",
    "context": "build_context",
    "context.documents": "list_context_documents",
    "context.render": "render_context_document",
    "system.compact": "compress",
}
"""The operations that have another id in the OpenAPI document: it says what they are about."""


@cache
def body_of(operation: str) -> type[msgspec.Struct]:
    """Return the body of a request: the parameters of an operation, those in the path aside."""
    declared = OPERATIONS[operation]
    taken = [one for one in declared.parameters if one.name != "memory_id" or one.default is None]
    name = KNOWN_AS.get(operation, operation).title().replace("_", "")
    more = SAID_BY if operation in OF_TEXTS else ()
    return struct_of(name, [*taken, *more], IN_HTTP, declared.summary)


CompressionStats: Any = msgspec.defstruct(
    "CompressionStats",
    [
        *get_type_hints(CompactionStats).items(),
        ("bytes_saved", int),
        ("compression_ratio", float),
    ],
    frozen=True,
)
CompressionStats.__doc__ = "Statistics of compaction."


class Users(msgspec.Struct, frozen=True, kw_only=True):
    """A page of the ids of users, in order."""

    users: list[str]
    total: int


class Health(msgspec.Struct, frozen=True):
    """The server answers."""

    status: str
    version: str


def arguments(body: msgspec.Struct) -> JsonObject:
    """Return the fields of a body by name."""
    return {name: getattr(body, name) for name in body.__struct_fields__}


def checked(name: str, value: Any) -> Any:
    """Return an argument as the operation takes it.

    :raises InvalidInputError: more results than one answer holds, an unknown weight, or filters
        that are no JSON object.
    """
    if name in ("top_k", "limit") and value is not None and value > PAGE_MAX:
        raise InvalidInputError(f"{name} must be at most {PAGE_MAX:,} over HTTP, not {value:,}")
    if name == "weights" and value is not None:
        return weights_of(value)
    if name == "items":
        return [Item(**arguments(item)) for item in value]
    if name == "filters" and isinstance(value, str):
        try:
            return msgspec.json.decode(value, type=JsonObject)
        except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
            raise InvalidInputError("filters must be a JSON object") from error
    return value
