"""The dashboard, under `/ui`: the files of one page, and the one door that the page asks at.

The files are public and hold nothing of anybody. The page gets its data from `/ui/call`, by the
names of operations, with the key of its user: a user's key has the same rights as everywhere else,
and nothing more. Arguments and results are those of the operations, so a view needs no route of its
own.
"""

import asyncio
import gzip
import hashlib
from collections import deque
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import cache
from inspect import isasyncgen, isawaitable
from pathlib import Path
from typing import Annotated, Any, Final
from weakref import WeakValueDictionary

import msgspec
from litestar import Response, Router, get, post
from litestar.exceptions import ClientException
from litestar.handlers import HTTPRouteHandler
from litestar.params import Body
from litestar.response import Redirect

from memory_actors.api.operations import OPERATIONS, Operation, Parameter, struct_of
from memory_actors.base.api_keys import ApiKey
from memory_actors.base.errors import InvalidInputError
from memory_actors.base.package import version
from memory_actors.base.records import JsonObject
from memory_actors.base.validation import check_count
from memory_actors.server import DASHBOARD
from memory_actors.server.access import (
    PUBLIC,
    AnyRequest,
    check_may_reach,
    check_root,
    sent_path,
    set_tier_once,
)
from memory_actors.server.bodies import IN_HTTP, PAGE_MAX, checked
from memory_actors.sharing.system import MemorySystem

_UI: Final = Path(__file__).with_name("ui")
_TYPES: Final = {
    "html": "text/html",
    "css": "text/css",
    "js": "text/javascript",
    "svg": "image/svg+xml",
    "txt": "text/plain",
}
FILES: Final = sorted(
    one.relative_to(_UI).as_posix() for one in _UI.rglob("*.*") if one.suffix[1:] in _TYPES
)
"""The files of the page; nothing else can be fetched."""
HEADERS: Final = {
    "Content-Security-Policy": "default-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-cache",
}
"""`no-cache` has a browser ask whether a file is still the same, so an upgrade shows at once."""

OF_SYSTEM: Final = frozenset(
    f"system.{name}"
    for name in (
        "users", "usage", "statistics", "verify", "compact", "compaction_stats", "diff", "events",
        "recalls",
    )
)  # fmt: skip
"""The operations on all users that the page asks for."""
ABOUT_ONE: Final = frozenset(
    f"system.{name}" for name in ("compaction_stats", "diff", "events", "recalls")
)
"""The ones among them that a user's own key may ask for, about that user."""
NOT_TAKEN: Final = ("user_id", "progress", "stop", "follow")
"""The parameters that a call does not name: an answer ends, so nothing is followed."""
REPLAYS_MAX: Final = 2  # each holds a user's state and indexes, and folds on the one loop
STATISTICS: Final = "system.statistics"
"""Asked for like an operation, though it is answered at once."""


class Replays:
    """The places of replays. A key has one, so that the next free one goes to another key."""

    def __init__(self) -> None:
        self._places = asyncio.Semaphore(REPLAYS_MAX)
        self._of_keys = WeakValueDictionary[str, asyncio.Lock]()

    @asynccontextmanager
    async def place(self, key: ApiKey) -> AsyncIterator[None]:
        """Hold a place for a key, once there is one."""
        its_own = self._of_keys.setdefault(key.id, asyncio.Lock())
        async with its_own, self._places:
            yield


class PageCall(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A request of the page: one operation, on somebody's memory, now or at a moment."""

    operation: str
    user_id: str | None = None
    document: str | None = None
    """The context document that it is about; None: all of them, or the usual one."""
    as_of: int | str | None = None
    """A position of the log or a time: the memory as it was then, for reading."""
    first: int = PAGE_MAX
    """Of what is iterated: as many items as this at most."""
    last: int | None = None
    """Of what is iterated: this many of the last items, instead of the first."""
    arguments: JsonObject = {}


class PageAnswer(msgspec.Struct, frozen=True):
    """The result of an operation."""

    result: Any


class PageKey(msgspec.Struct, frozen=True, kw_only=True):
    """The reach of the page's key."""

    scope: str
    user_id: str | None
    version: str


@cache
def _file(name: str) -> tuple[bytes, bytes, str]:
    """Return a file of the page: its content, the same compressed, and its tag."""
    content = (_UI / name).read_bytes()
    tag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
    return content, gzip.compress(content, mtime=0), tag


def _served(name: str) -> HTTPRouteHandler:
    path = "/" if name == "index.html" else f"/{name}"
    media_type = _TYPES[name.rpartition(".")[2]]

    @get(path, opt=PUBLIC, include_in_schema=False)
    async def serve(request: AnyRequest) -> Response[Any]:
        # After a slash, the page's relative links would not be found.
        if path == "/" and sent_path({**request.scope}).endswith("/"):
            return Redirect(f"..{DASHBOARD}")
        content, compressed, tag = _file(name)
        headers = {**HEADERS, "ETag": tag, "Vary": "Accept-Encoding"}
        if request.headers.get("if-none-match") == tag:
            return Response(None, status_code=304, headers=headers)
        if "gzip" in request.headers.get("accept-encoding", ""):
            content, headers["Content-Encoding"] = compressed, "gzip"
        return Response(content, media_type=media_type, headers=headers)

    return serve


@get("/key", include_in_schema=False)
async def own_key(request: AnyRequest) -> PageKey:
    """Return the rights of the key, so that the page offers only allowed actions."""
    key: ApiKey = request.auth
    return PageKey(scope=key.scope, user_id=key.user_id, version=version())


@post("/call", status_code=200, include_in_schema=False)
async def call(request: AnyRequest, data: Annotated[PageCall, Body()]) -> PageAnswer:
    """Carry out an operation."""
    state = request.app.state
    _check_reach(request.auth, data)
    await set_tier_once(state.memory, state.api_keys, request.auth)
    return PageAnswer(await _called(state.memory, data, state.replays.place(request.auth)))


def _check_reach(key: ApiKey, asked: PageCall) -> None:
    """Let a key ask for what it may.

    :raises PermissionDeniedException: it is about the memory of somebody else, or of all.
    """
    of_system = asked.operation.startswith("system.")
    if of_system and (asked.operation not in ABOUT_ONE or asked.user_id is None):
        check_root(key)
    elif asked.user_id is None:
        raise InvalidInputError("say whose memory: user_id")
    else:
        check_may_reach(key, asked.user_id)


async def _called(
    memory: MemorySystem, asked: PageCall, place: AbstractAsyncContextManager[None]
) -> Any:
    name = asked.operation
    if name == STATISTICS:
        told: object = memory.statistics()
        return await told if isawaitable(told) else told
    operation = OPERATIONS.get(name)
    if operation is None or (operation.of_system and name not in OF_SYSTEM):
        raise InvalidInputError(f"the dashboard does not ask for {name!r:.80}")
    given = _arguments(name, operation.parameters, asked.arguments)
    if operation.of_system:
        if any(one.name == "user_id" for one in operation.parameters):
            given["user_id"] = asked.user_id
        return await _result(memory, operation, given, asked)
    user_id = asked.user_id or ""
    if asked.as_of is None:
        return await _result(memory.user(user_id), operation, given, asked)
    if operation.writes:
        raise InvalidInputError(f"{name} changes a memory, and the past cannot be changed")
    async with place, memory.replay(user_id, asked.as_of, dropped="mark") as past:
        return await _result(past, operation, given, asked)


def _arguments(
    name: str, parameters: tuple[Parameter, ...], given: Mapping[str, object]
) -> dict[str, object]:
    taken = [one for one in parameters if one.name not in NOT_TAKEN]
    struct = struct_of(name.replace(".", "_"), taken, IN_HTTP)
    if any(one.is_required and one.name not in struct.__struct_fields__ for one in taken):
        raise InvalidInputError(f"the dashboard does not ask for {name}: JSON has no such argument")
    try:
        read = msgspec.convert(given, struct)
    except msgspec.ValidationError as error:
        raise ClientException(f"{name} does not take this: {error}") from error
    return {one: checked(one, getattr(read, one)) for one in given}


async def _result(
    target: object, operation: Operation, given: dict[str, object], asked: PageCall
) -> Any:
    """Carry an operation out on what has it; what it yields is gathered."""
    try:
        returned = operation.call(target, given, asked.document)
    except AttributeError as error:
        raise InvalidInputError(f"{operation.name} is not about one document") from error
    return await (_gathered(returned, asked) if isasyncgen(returned) else returned)


async def _gathered(items: AsyncIterator[Any], asked: PageCall) -> list[Any]:
    wanted = min(check_count(asked.first if asked.last is None else asked.last, "first"), PAGE_MAX)
    kept: deque[object] = deque(maxlen=wanted)
    async for item in items:
        kept.append(item)
        if asked.last is None and len(kept) >= wanted:
            break
    return list(kept)


def router() -> Router:
    """Return the routes of the dashboard."""
    return Router(DASHBOARD, route_handlers=[*map(_served, FILES), own_key, call])
