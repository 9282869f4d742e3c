"""Admission of requests: the limits between the HTTP server and the routes.

- A bounded number of requests is in work; one more is answered 503 at once. `/health` always gets
  through: a busy server is not a dead one.
- A body has to arrive within a deadline, so that nobody holds a place by sending nothing.
- The path is matched as it was sent, with its escapes: an encoded slash is part of an id, never the
  end of one. `access.read_path` takes the escapes out.
- Whatever the routes let through is answered here, and logged by its type and place.
"""

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final, TypeAlias
from urllib.parse import quote

import msgspec
from litestar import Litestar
from litestar.exceptions import HTTPException

from eventlog.core.logs import get_logger
from memory_actors.base.privacy import reason
from memory_actors.server.problems import (
    MEDIA_TYPE,
    RETRY_AFTER_S,
    Problem,
    overloaded,
    problem_of,
)

IN_FLIGHT_MAX: Final = 256  # most of them wait for the disk or the model
BODY_DEADLINE_S: Final = 30.0  # 1 MiB at 280 kbit/s
STREAMS_MAX: Final = 128  # of clients that listen: they wait, and take no place from the others
HEALTH: Final = "/health"
MCP: Final = "/mcp"
EVENTS: Final = "/events"

Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
ASGIApp: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]

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
        self._in_flight_max = in_flight_max
        self._body_deadline_s = body_deadline_s
        self._in_flight = 0
        self._streams = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection."""
        if scope["type"] != "http":
            await self.routes(scope, receive, send)  # type: ignore[arg-type]
            return
        if scope["method"] == "GET" and (is_mcp(scope) or scope["path"].endswith(EVENTS)):
            await self._stream(scope, receive, send)
            return
        if self._in_flight >= self._in_flight_max and scope["path"] != HEALTH:
            await _answer(send, overloaded())
            return
        self._in_flight += 1
        try:
            await self._admit(scope, receive, send)
        finally:
            self._in_flight -= 1

    async def _stream(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a client that listens for as long as it likes."""
        if self._streams >= STREAMS_MAX:
            await _answer(send, overloaded())
            return
        self._streams += 1
        try:
            await self._admit(scope, receive, send)
        finally:
            self._streams -= 1

    async def _admit(self, scope: Scope, receive: Receive, send: Send) -> None:
        asked = {**scope, "path": sent_path(scope)}
        answer = _Answer(send)
        app: Any = self._mcp if is_mcp(scope) else self.routes
        try:
            await app(asked, _Body(receive, self._body_deadline_s), answer)
        except Exception as error:
            _logger.warning("request broke off", error=reason(error))
            if not answer.begun:
                await _answer(send, problem_of(error))


class _Answer:
    """Passes an answer on, and knows whether it has begun."""

    def __init__(self, send: Send):
        self._send = send
        self.begun = False

    async def __call__(self, message: Message) -> None:
        self.begun = True
        await self._send(message)


class _Body:
    """Passes a body on; fails for one that breaks off, or is not whole by the deadline."""

    def __init__(self, receive: Receive, deadline_s: float):
        self._receive = receive
        self._until_s = asyncio.get_running_loop().time() + deadline_s
        self._whole = False

    async def __call__(self) -> Message:
        if self._whole:
            return await self._receive()
        try:
            async with asyncio.timeout_at(self._until_s):
                message = await self._receive()
        except TimeoutError:
            raise HTTPException("The body did not arrive in time.", status_code=408) from None
        if message["type"] == "http.disconnect":
            raise HTTPException("The client hung up.", status_code=400)  # nobody reads it
        self._whole = not message.get("more_body", False)
        return message


def is_mcp(scope: Scope) -> bool:
    """Say whether a request is in the protocol of MCP."""
    path: str = scope["path"]
    return path == MCP or path.startswith(f"{MCP}/")


def sent_path(scope: Scope) -> str:
    """Return the path as the client wrote it; where a server does not tell it, written again."""
    raw = scope.get("raw_path")
    return raw.decode("latin-1") if raw else quote(scope["path"], safe="/:@!$&'()*+,;=~")


async def _answer(send: Send, problem: Problem) -> None:
    headers = [(b"content-type", MEDIA_TYPE.encode())]
    if problem.status == 503:
        headers.append((b"retry-after", str(RETRY_AFTER_S).encode()))
    await send({"type": "http.response.start", "status": problem.status, "headers": headers})
    await send({"type": "http.response.body", "body": msgspec.json.encode(problem)})
