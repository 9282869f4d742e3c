"""Running the application on uvicorn, until a signal asks to stop.

At a signal: no new connections, requests in work are finished, background jobs are cancelled, and
then the caller closes the memory. A second SIGINT does not wait for requests.
"""

import asyncio
import contextlib
import signal
import socket
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from memory_actors.base.api_keys import KeyStore
from memory_actors.base.errors import InvalidInputError
from memory_actors.server.access import IN_FLIGHT_MAX, STREAMS_MAX, Admission
from memory_actors.server.app import create_app
from memory_actors.sharing.system import MemorySystem

SHUTDOWN_S: Final = 10  # what requests in work are given to end
BACKLOG: Final = 128
CONNECTIONS_MAX: Final = 800  # with what the store has open below 1,024, a usual limit on files
CONNECTIONS_PER_ADDRESS_MAX: Final = 400  # a proxy has one address, and needs as many
HEADERS_DEADLINE_S: Final = 10.0
READING_DEADLINE_S: Final = 30.0  # for the next 48 KiB of an answer
LATE: Final = b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"

assert IN_FLIGHT_MAX + STREAMS_MAX < CONNECTIONS_PER_ADDRESS_MAX < CONNECTIONS_MAX


class Connections:
    """All connections of a server, oldest first. Makes them: uvicorn calls it as a protocol.

    Whoever opens a connection and never finishes a request costs a place and nothing else, so a
    thousand of them would lock everybody out. Three bounds keep that from happening:

    - The headers of a request have to be there within a deadline, from the first connection or the
      first byte on. (Between two requests uvicorn waits for 5 s; for a body, `admission`.)
    - One address has a number of connections, and so have all together. The one that comes on top
      of that always gets in: the oldest that waits, for its headers or between requests, is closed
      for it. Requests in work, with the clients of MCP that listen, are fewer than either bound, so
      there is one that waits. `/health` gets in like any other, and `admission` lets it through.
    - Whoever does not read an answer is cut off, too: it would keep its request in work for ever.
    """

    def __init__(
        self,
        *,
        connections_max: int = CONNECTIONS_MAX,
        connections_per_address_max: int = CONNECTIONS_PER_ADDRESS_MAX,
        headers_deadline_s: float = HEADERS_DEADLINE_S,
        reading_deadline_s: float = READING_DEADLINE_S,
    ):
        self.headers_deadline_s = headers_deadline_s
        self.reading_deadline_s = reading_deadline_s
        self._max = connections_max
        self._per_address_max = connections_per_address_max
        self._all: dict[HttpConnection, None] = {}
        self._of: dict[str, dict[HttpConnection, None]] = {}

    def __call__(self, *given: object, **named: object) -> "HttpConnection":
        """Return a connection that is not made yet."""
        return HttpConnection(self, *given, **named)

    def enter(self, one: "HttpConnection") -> None:
        """Take a connection in, at the cost of the oldest that waits if there are too many."""
        mine = self._of.setdefault(one.address, {})
        if len(mine) >= self._per_address_max:
            _close_oldest(mine)
        elif len(self._all) >= self._max:
            _close_oldest(self._all)
        self._all[one] = mine[one] = None

    def leave(self, one: "HttpConnection") -> None:
        """Forget a connection."""
        self._all.pop(one, None)
        mine = self._of.get(one.address, {})
        mine.pop(one, None)
        if not mine:
            self._of.pop(one.address, None)


def _close_oldest(connections: Iterable["HttpConnection"]) -> None:
    for one in connections:
        if one.waits:
            one.transport.abort()
            one.registry.leave(one)
            return


class _Timer:
    """Calls something once, unless it is stopped. Starting it again changes nothing."""

    def __init__(self) -> None:
        self._handle: asyncio.TimerHandle | None = None

    def start(self, after_s: float, call: Callable[[], object]) -> None:
        if self._handle is None:
            self._handle = asyncio.get_running_loop().call_later(after_s, call)

    def stop(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None


class HttpConnection(H11Protocol):
    """One connection, as uvicorn serves it."""

    def __init__(self, registry: Connections, *given: Any, **named: Any):
        super().__init__(*given, **named)
        self.address = ""
        self.registry = registry
        self._headers, self._reading = _Timer(), _Timer()

    @property
    def waits(self) -> bool:
        """True if no request is in work."""
        return self.cycle is None or self.cycle.response_complete

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take a place, and wait for the headers."""
        super().connection_made(transport)
        self.address = self.client[0] if self.client else ""
        self.registry.enter(self)
        self._expect_headers()

    def connection_lost(self, exc: Exception | None) -> None:
        """Give the place back."""
        super().connection_lost(exc)
        self.registry.leave(self)
        self._headers.stop()
        self._reading.stop()

    def data_received(self, data: bytes) -> None:
        """Read on; the deadline is that of the first byte, however many come one by one."""
        if self.waits:
            self._expect_headers()
        super().data_received(data)
        if not self.waits:
            self._headers.stop()

    def pause_writing(self) -> None:
        """Wait for the client to read."""
        super().pause_writing()
        self._reading.start(self.registry.reading_deadline_s, self.transport.abort)

    def resume_writing(self) -> None:
        """Go on: it has read."""
        super().resume_writing()
        self._reading.stop()

    def _expect_headers(self) -> None:
        self._headers.start(self.registry.headers_deadline_s, self._is_late)

    def _is_late(self) -> None:
        if not self.transport.is_closing():
            self.transport.write(LATE)
            self.transport.close()


class Server(uvicorn.Server):
    """uvicorn, but a signal only ends the serving: whoever holds the memory then closes it."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Let SIGINT and SIGTERM ask to stop, without raising them again at the end."""
        loop, taken = asyncio.get_running_loop(), list[signal.Signals]()
        for number in (signal.SIGINT, signal.SIGTERM):
            # Outside the main thread this fails, and the owner sets `should_exit`.
            with contextlib.suppress(RuntimeError, ValueError):
                loop.add_signal_handler(number, self.handle_exit, number, None)
                taken.append(number)
        try:
            yield
        finally:
            for number in taken:
                loop.remove_signal_handler(number)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End the streams of events, then all else."""
        if isinstance(self.config.app, Admission):
            self.config.app.ending.set()
        await super().shutdown(sockets)


async def serve(
    memory: MemorySystem,
    keys: KeyStore,
    *,
    host: str,
    port: int,
    on_ready: Callable[[str], None] | None = None,
    **limits: Any,
) -> None:
    """Serve until a signal. `port` 0 is any free one; `on_ready` is told the address.

    `limits` are those of `create_app`; `connections` has other bounds than those of `Connections`.

    :raises InvalidInputError: the address cannot be bound.
    """
    server = new_server(memory, keys, **limits)
    with listening(host, port) as bound:
        if on_ready is not None:
            on_ready(address(bound))
        await server.serve(sockets=[bound])


def new_server(
    memory: MemorySystem, keys: KeyStore, connections: Connections | None = None, **limits: Any
) -> Server:
    """Return a server that listens nowhere yet. It logs no paths: they hold the ids of users."""
    config = uvicorn.Config(
        create_app(memory, keys, **limits),
        access_log=False,
        log_config=None,
        log_level="warning",
        lifespan="on",
        http=connections or Connections(),  # type: ignore[arg-type]  # called, as a class is
        ws="none",
        proxy_headers=False,
        server_header=False,
        timeout_graceful_shutdown=SHUTDOWN_S,
    )
    return Server(config)


@contextlib.contextmanager
def listening(host: str, port: int) -> Iterator[socket.socket]:
    """Hold a socket that listens.

    :raises InvalidInputError: the address is not ours, in use, or no address.
    """
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        bound = socket.create_server((host, port), family=family, backlog=BACKLOG)
    except OSError as error:
        raise InvalidInputError(
            f"cannot listen on {host!r} port {port}: {error.strerror}: "
            "name another --host or --port"
        ) from error
    with bound:
        # Connections inherit it. asyncio only sets it on sockets that it made itself, and without
        # it an answer in two writes waits 40 ms for the client's delayed acknowledgement.
        bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        yield bound


def address(bound: socket.socket) -> str:
    """Return the address of a listening socket as a URL."""
    host, port = bound.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
