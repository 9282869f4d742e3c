"""Access: limits for all requests, then three guards, before a body is read or an actor is woken.

- A bounded number of requests is in work; one more is answered 503 at once. `/health` always gets
  through: a busy server is not a dead one.
- Each key has a bounded part of these places, so that one key cannot lock the others out. The
  guards learn the key, and take its place with `take_place` before they read the body.
- A body has to arrive within a deadline, so that nobody holds a place by sending nothing.
- A request whose client hangs up is cancelled. A write that was handed to its actor is carried out.
- The path is matched as it was sent: an encoded slash is part of an id. `read_path` takes the
  escapes out, once: the id that is checked is the id that is used.
- Whatever the routes let through is answered here, and logged by its type and place.
- Every route needs a key unless it says `public`, so a route that says nothing is closed.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from contextlib import ExitStack
from typing import Any, Final, TypeAlias
from urllib.parse import quote, unquote

import anyio.to_thread
import msgspec
from litestar import Litestar
from litestar.connection import ASGIConnection, Request
from litestar.exceptions import (
    HTTPException,
    NotAuthorizedException,
    PermissionDeniedException,
    TooManyRequestsException,
)
from litestar.handlers import BaseRouteHandler

from eventlog.core.logs import get_logger
from memory_actors.base.api_keys import ApiKey, KeyStore
from memory_actors.base.errors import InvalidInputError, KeyFileError
from memory_actors.base.privacy import reason
from memory_actors.base.validation import check_subjects
from memory_actors.server.problems import (
    MEDIA_TYPE,
    RETRY_AFTER_S,
    overloaded,
    problem_of,
)
from memory_actors.sharing.declaration import Problem
from memory_actors.sharing.system import MemorySystem

IN_FLIGHT_MAX: Final = 256  # most of them wait for the disk or the model
BODY_DEADLINE_S: Final = 30.0  # 1 MiB at 280 kbit/s
STREAMS_MAX: Final = 128  # of clients that listen: they wait, and take no place from the others
PER_KEY_PART: Final = 4  # a user's key has a fourth of the places; a root key all but a fourth
HEALTH: Final = "/health"
MCP: Final = "/mcp"
EVENTS: Final = "/events"
_OF_A_BODY: Final = (b"content-length", b"transfer-encoding")

Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
ASGIApp: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]

PLACE: Final = "memory_actors.place"  # in a scope: its places, and what its end calls

_logger = get_logger("memory_actors.server")


class Admission:
    """The ASGI application: give it to any server, or mount it in another application.

    Its lifespan must run: it holds the background jobs.
    """

    def __init__(
        self,
        routes: Litestar,
        mcp: ASGIApp,
        ending: asyncio.Event,
        *,
        in_flight_max: int = IN_FLIGHT_MAX,
        body_deadline_s: float = BODY_DEADLINE_S,
    ):
        self.routes = routes
        self._mcp = mcp
        self.ending = ending
        """Set, it ends the streams of events: nothing else would."""
        self._body_deadline_s = body_deadline_s
        self._in_work, self._listening = _Places(in_flight_max), _Places(STREAMS_MAX)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection."""
        if scope["type"] != "http":
            await self.routes(scope, receive, send)  # type: ignore[arg-type]
            return
        app: Any = self._mcp if is_mcp(scope) else self.routes
        listens = scope["method"] == "GET" and (is_mcp(scope) or scope["path"].endswith(EVENTS))
        places = self._listening if listens else self._in_work
        if places.taken >= places.number and scope["path"] != HEALTH:
            await _answer(send, overloaded())
            return
        places.taken += 1
        try:
            with ExitStack() as ending:
                asked = {**scope, "path": sent_path(scope), PLACE: (places, ending)}
                await self._admit(app, asked, receive, send)
        finally:
            places.taken -= 1

    async def _admit(self, app: Any, asked: Scope, receive: Receive, send: Send) -> None:
        answer = _Answer(send)
        try:
            async with asyncio.timeout(None) as work:
                body = _Body(asked, receive, self._body_deadline_s, answer, work)
                try:
                    await app(asked, body, answer)
                finally:
                    body.close()
        except Exception as error:
            if work.expired():
                return
            _logger.warning("request broke off", error=reason(error))
            if not answer.begun:
                await _answer(send, problem_of(error), getattr(error, "headers", None))


class _Places:
    """The places that there are, and those taken: by all requests, and by those of each key."""

    def __init__(self, number: int):
        self.number, self.taken = number, 0
        self.of_keys: Counter[str] = Counter()

    def leave(self, key_id: str) -> None:
        self.of_keys[key_id] -= 1
        if not self.of_keys[key_id]:
            del self.of_keys[key_id]


def of_key(key: ApiKey, places: int) -> int:
    """Return how many of the places one key may have at a time."""
    part = max(2, places // PER_KEY_PART)
    return max(part, places - part) if key.is_root else part


def take_place(scope: Scope, key: ApiKey) -> None:
    """Count a request for its key.

    :raises TooManyRequestsException: the key has as many in work as it may.
    """
    places: _Places
    places, ending = scope[PLACE]
    if places.of_keys[key.id] >= of_key(key, places.number):
        raise TooManyRequestsException(
            f"This key has {places.of_keys[key.id]} requests in work: wait until one has ended.",
            headers={"Retry-After": str(RETRY_AFTER_S)},
        )
    places.of_keys[key.id] += 1
    ending.callback(places.leave, key.id)


class _Answer:
    """Passes an answer on, and knows whether it has begun, and whether it is whole."""

    def __init__(self, send: Send):
        self._send = send
        self.begun = self.whole = False

    async def __call__(self, message: Message) -> None:
        self.begun = True
        self.whole = message["type"] == "http.response.body" and not message.get("more_body")
        await self._send(message)


class _Body:
    """Passes a body on; fails for one that breaks off, or is not whole by the deadline.

    After the body, or from the start if the request has none, it waits for the client to hang up,
    and then ends the work.
    """

    def __init__(
        self,
        scope: Scope,
        receive: Receive,
        deadline_s: float,
        answer: _Answer,
        work: asyncio.Timeout,
    ):
        self._receive, self._answer, self._work = receive, answer, work
        self._loop = asyncio.get_running_loop()
        self._until_s = self._loop.time() + deadline_s
        self._empty = _has_no_body(scope)
        self._end = self._loop.create_task(self._hung_up()) if self._empty else None

    async def __call__(self) -> Message:
        if self._empty:
            self._empty = False
            return {"type": "http.request", "body": b"", "more_body": False}
        if self._end is not None:
            return await asyncio.shield(self._end)
        try:
            async with asyncio.timeout_at(self._until_s):
                message = await self._receive()
        except TimeoutError:
            raise HTTPException("The body did not arrive in time.", status_code=408) from None
        if message["type"] == "http.disconnect":
            raise HTTPException("The client hung up.", status_code=400)  # nobody reads it
        if not message.get("more_body", False):
            self._end = self._loop.create_task(self._hung_up())
        return message

    async def _hung_up(self) -> Message:
        while (message := await self._receive())["type"] != "http.disconnect":
            pass
        if not self._answer.whole:
            self._work.reschedule(self._loop.time())
        return message

    def close(self) -> None:
        if self._end is not None:
            self._end.cancel()


def _has_no_body(scope: Scope) -> bool:
    sizes = {name: size for name, size in scope["headers"] if name in _OF_A_BODY}
    return sizes.get(b"content-length", b"0") == b"0" and b"transfer-encoding" not in sizes


def is_mcp(scope: Scope) -> bool:
    """Say whether a request is in the protocol of MCP."""
    path: str = scope["path"]
    return path == MCP or path.startswith(f"{MCP}/")


def sent_path(scope: Scope) -> str:
    """Return the path as the client wrote it; where a server does not tell it, written again."""
    raw = scope.get("raw_path")
    return raw.decode("latin-1") if raw else quote(scope["path"], safe="/:@!$&'()*+,;=~")


async def _answer(send: Send, problem: Problem, more: Mapping[str, str] | None = None) -> None:
    headers = {"Content-Type": MEDIA_TYPE, **(more or {})}
    if problem.status == 503:
        headers["Retry-After"] = str(RETRY_AFTER_S)
    sent = [(name.lower().encode(), value.encode("latin-1")) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": problem.status, "headers": sent})
    await send({"type": "http.response.body", "body": msgspec.json.encode(problem)})


# --- guards


Connection = ASGIConnection[Any, Any, Any, Any]
AnyRequest: TypeAlias = Request[Any, Any, Any]

CHALLENGE: Final = 'Bearer realm="memory-actors"'
PUBLIC: Final = {"public": True}
_SCHEME: Final = "bearer "

_logger = get_logger("memory_actors.server")


def read_path(connection: Connection, _handler: BaseRouteHandler) -> None:
    """Take the escapes out of the parts of the path."""
    parts = {name: unescaped(part, name) for name, part in connection.path_params.items()}
    connection.scope["path_params"] = parts


def unescaped(part: str, what: str) -> str:
    """Return a text from its percent-encoded UTF-8.

    :raises InvalidInputError: it is not that.
    """
    try:
        if not part.isascii():
            raise InvalidInputError(f"{what} must be percent-encoded UTF-8")
        return unquote(part, errors="strict")
    except UnicodeDecodeError as error:
        raise InvalidInputError(f"{what} is not valid UTF-8") from error


async def known_key(connection: Connection, handler: BaseRouteHandler) -> None:
    """Reject requests without a key, public routes aside, and keys whose places are all in use."""
    if handler.opt.get("public"):
        return
    headers = connection.headers.getall("authorization", [])
    key = await authorized(connection.app.state.api_keys, headers)
    take_place(connection.scope, key)  # type: ignore[arg-type]
    connection.scope["auth"] = key


async def authorized(keys: KeyStore, headers: Sequence[str]) -> ApiKey:
    """Return the key in the `Authorization` headers of a request.

    :raises NotAuthorizedException: there is none, or it is not a key of this server.
    """
    await keys.refresh()
    key = None
    if len(headers) == 1 and headers[0][: len(_SCHEME)].lower() == _SCHEME:
        key = keys.find(headers[0][len(_SCHEME) :].strip())
    if key is not None:
        return key
    detail, challenge = "Send an API key: Authorization: Bearer ma_…", CHALLENGE
    if headers:
        detail = "This is not a key of this server: it was mistyped or revoked."
        challenge = f'{CHALLENGE}, error="invalid_token"'
    raise NotAuthorizedException(detail, headers={"WWW-Authenticate": challenge})


async def known_scope(connection: Connection, _handler: BaseRouteHandler) -> None:
    """Let a user's key reach that user's memory and the scopes with a grant for it; root any."""
    await check_reach(
        connection.app.state.memory, connection.auth, connection.path_params["user_id"]
    )


def root_only(connection: Connection, _handler: BaseRouteHandler) -> None:
    """Let root keys in, and no others."""
    check_root(connection.auth)


async def check_reach(memory: MemorySystem, key: ApiKey, user_id: str) -> None:
    """See that a key opens a user's memory, or has a grant in it.

    Each operation asks the grants once more: this keeps out who has none before a body is read.

    :raises PermissionDeniedException: it does not, and has none.
    """
    if not key.may_reach(user_id) and await memory.user(user_id, by=key.subjects).right() is None:
        check_may_reach(key, user_id)


def check_may_reach(key: ApiKey, user_id: str) -> None:
    """See that a key opens a user's memory.

    :raises PermissionDeniedException: it is another user's.
    """
    if not key.may_reach(user_id):
        raise PermissionDeniedException("This key is for the memory of another user.")


def check_root(key: ApiKey) -> None:
    """See that a key opens everything.

    :raises PermissionDeniedException: it is a user's.
    """
    if not key.is_root:
        raise PermissionDeniedException("This needs a root key.")


def check_speaker(key: ApiKey, subject: str | None) -> tuple[str, ...]:
    """Return the subjects that a request speaks for: those of its key; of a root key as it says.

    :raises PermissionDeniedException: another key says that it speaks for somebody else.
    """
    said = check_subjects(subject)
    if key.is_root:
        return said
    if not set(said) <= set(key.subjects):
        raise PermissionDeniedException("This key does not speak for that subject.")
    return key.subjects


async def set_tier_once(memory: MemorySystem, keys: KeyStore, key: ApiKey) -> None:
    """Set the user's tier to the key's, by the first request with it; later ones change nothing.

    From then on the tier is the user's own, and `memory-actors tier` or another key may change it.
    """
    if key.tier is None or key.tier_is_set or key.user_id is None:
        return
    await memory.user(key.user_id).set_tier(key.tier)
    try:
        await anyio.to_thread.run_sync(keys.note_tier_is_set, key.id)
    except KeyFileError as error:  # it is set again next time, to the same
        _logger.warning("that a key has set its tier was not noted", error=reason(error))
