"""Bodies of requests, made of the arguments of operations, and of answers without a record."""

from collections.abc import Mapping
from functools import cache
from inspect import Parameter as Declared
from types import GenericAlias
from typing import Annotated, Any, Final, get_type_hints

import msgspec
from litestar.params import PathParameter

from memory_actors.api.operations import OPERATIONS, Parameter, struct_of
from memory_actors.base.errors import InvalidInputError
from memory_actors.base.records import Item, JsonObject, Right, Trust
from memory_actors.base.reports import CompactionStats
from memory_actors.base.weights import weights_of
from memory_actors.server.examples import NAMED, example

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
    """The number of all users."""


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
