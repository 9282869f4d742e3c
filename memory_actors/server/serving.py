"""Running the application on uvicorn, until a signal asks to stop.

At a signal: no new connections, requests in work are finished, background jobs are cancelled, and
then the caller closes the memory. A second SIGINT does not wait for requests.
"""

import asyncio
import contextlib
import signal
import socket
from collections.abc import Callable, Iterator
from typing import Any, Final

import uvicorn

from memory_actors.base.api_keys import KeyStore
from memory_actors.base.errors import InvalidInputError
from memory_actors.server.admission import Admission
from memory_actors.server.app import create_app
from memory_actors.server.connections import Connections
from memory_actors.sharing.system import MemorySystem

SHUTDOWN_S: Final = 10  # what requests in work are given to end
BACKLOG: Final = 128


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

    `limits` are those of `create_app`; `connections` has other bounds than those of connections.py.

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
