"""MCP over streamable HTTP: the tools of `integrations/mcp`, at `/mcp`, by API key.

    /mcp            the memory of the key's user; /mcp/graph and /mcp/files: other sets of tools
    /mcp?user=ada   a root key names whose memory it is; others a scope with a grant for them
    /mcp?reads=project%3Ax   searches ask this scope, too; may be repeated

The key is a bearer token. The server checks the key's rights here, before the protocol is spoken,
for each request again; a session belongs to the key that opened it. A request from a web page, or
to a name that is not ours, is refused: see `hosts`.
"""

from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Final
from urllib.parse import parse_qs

from litestar.exceptions import ClientException, NotFoundException
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from sse_starlette.sse import AppStatus
from starlette.responses import Response

from memory_actors.base.api_keys import ApiKey, KeyStore
from memory_actors.integrations.mcp.serving import (
    TOOL_SETS,
    Context,
    agent_of,
    new_server,
    refusal,
    repaired,
)
from memory_actors.server.access import (
    MCP,
    Message,
    Receive,
    Scope,
    Send,
    authorized,
    check_reach,
    of_key,
    set_tier_once,
    take_place,
)
from memory_actors.sharing.system import MemorySystem, UserMemory

LOOPBACK: Final = ("127.0.0.1", "localhost", "[::1]")
ANY: Final = "*"
SESSIONS_MAX: Final = 1_000  # some 20 KB each
SESSION_IDLE_S: Final = 1_800.0
WHOSE: Final = "memory_actors.whose"  # where a request says whose memory it is about


class Mounted:
    """The ASGI application at `/mcp`. `running` must be held while it serves."""

    def __init__(
        self, memory: MemorySystem, keys: KeyStore, hosts: Sequence[str], body_bytes_max: int
    ):
        self._memory, self._keys, self._body_bytes_max = memory, keys, body_bytes_max
        security = _security(hosts)
        self._managers = {
            name: StreamableHTTPSessionManager(
                new_server(self._whose, [name]),
                security_settings=security,
                max_request_body_size=body_bytes_max,
                max_sessions=SESSIONS_MAX,
                session_idle_timeout=SESSION_IDLE_S,
            )
            for name in TOOL_SETS
        }

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Hold the sessions.

        `sse_starlette` ends all streams of a process when a server of uvicorn in it ends, and those
        that begin later, too: so that is taken back, for the next server and for others beside.
        """
        AppStatus.should_exit = False
        try:
            async with AsyncExitStack() as held:
                for manager in self._managers.values():
                    await held.enter_async_context(manager.run())
                yield
        finally:
            AppStatus.should_exit = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request: let a key reach its user, and set the user's tier by its first one."""
        sent = [value for name, value in scope["headers"] if name == b"authorization"]
        key = await authorized(self._keys, [value.decode("latin-1") for value in sent])
        # A session belongs to the one who opened it.
        access = AccessToken(token="", client_id=key.id, scopes=[key.scope], subject=key.user_id)
        scope["user"] = AuthenticatedUser(access)
        take_place(scope, key)
        manager = self._managers.get(scope["path"].removeprefix(MCP).strip("/") or "memory")
        if manager is None:
            raise NotFoundException
        try:
            query = parse_qs(scope["query_string"].decode("ascii"), errors="strict")
        except ValueError as error:
            raise ClientException("The query is not percent-encoded UTF-8.") from error
        asked = query.get("user", [])
        user_id = asked[-1] if asked else key.user_id
        if user_id is None:
            raise ClientException("A root key must say whose memory it is about: /mcp?user=ID")
        await check_reach(self._memory, key, user_id)
        scope[WHOSE] = user_id, key.subjects, query.get("reads", [])
        await set_tier_once(self._memory, self._keys, key)
        if scope["method"] == "POST":
            receive, refused = await self._read(receive)
            if refused is not None:
                await Response(refused, 400, media_type="application/json")(scope, receive, send)
                return
        await _make_room(manager, scope, key)
        await manager.handle_request(scope, receive, send)

    async def _read(self, receive: Receive) -> tuple[Receive, str | None]:
        """Return the way to a body that is repaired, and the answer if it is no message.

        A body that is too large is left to the transport, which refuses it.
        """
        body, more = b"", True
        while more and len(body) <= self._body_bytes_max:
            message = await receive()
            body += message.get("body", b"")
            more = message.get("more_body", False)
        refused = None
        if not more and len(body) <= self._body_bytes_max:
            text = repaired(body.decode(errors="replace"))
            body, refused = text.encode(), refusal(text)
        read: list[Message] = [{"type": "http.request", "body": body, "more_body": more}]

        async def again() -> Message:
            return read.pop() if read else await receive()

        if refused is None:
            return again, None
        return again, refused.model_dump_json(by_alias=True, exclude={"error": {"data"}})

    async def _whose(self, context: Context) -> UserMemory:
        assert context.request is not None
        user_id, by, reads = context.request.scope[WHOSE]
        user: UserMemory = self._memory.user(user_id, agent_id=agent_of(context), by=by)
        return user.reads(*reads) if reads else user


async def _make_room(sessions: StreamableHTTPSessionManager, scope: Scope, key: ApiKey) -> None:
    """End a session before a new one that would be one too many.

    It is the oldest of this key, or, if the server is full, of the key with the most.
    """
    headers = dict(scope["headers"])
    spoken = headers.get(b"mcp-protocol-version", HANDSHAKE_PROTOCOL_VERSIONS[0].encode())
    if b"mcp-session-id" in headers or spoken.decode("latin-1") not in HANDSHAKE_PROTOCOL_VERSIONS:
        return
    owners, open_ = sessions._session_owners, sessions._server_instances  # noqa: SLF001 - no other way
    counts = Counter(owner["client_id"] for owner in owners.values())
    if counts[key.id] >= of_key(key, SESSIONS_MAX):
        most = key.id
    elif len(open_) >= SESSIONS_MAX:
        most = counts.most_common(1)[0][0]
    else:
        return
    oldest = next(one for one, owner in owners.items() if owner["client_id"] == most)
    await sessions._discard_session(oldest, open_[oldest])  # noqa: SLF001


def _security(hosts: Sequence[str]) -> TransportSecuritySettings:
    """Return the names that a request may be to, and the pages it may come from."""
    if ANY in hosts:
        return TransportSecuritySettings(enable_dns_rebinding_protection=False)
    names = [name for host in (*LOOPBACK, *hosts) for name in (host, f"{host}:*")]
    origins = [f"{scheme}://{name}" for scheme in ("http", "https") for name in names]
    return TransportSecuritySettings(allowed_hosts=names, allowed_origins=origins)
