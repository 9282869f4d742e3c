"""The memory over HTTP: `memory-actors serve`, or `create_app` in a server of your own.

app = create_app(memory, KeyStore("./memory"))      # ASGI; the extra `server` brings what it needs
app = create_app(memory, KeyStore(settings_of(memory)))    # of a store in a database
"""

from functools import partial
from typing import TYPE_CHECKING, Any

from memory_actors.base.api_keys import ApiKey, KeyStore, WithSessionKey
from memory_actors.base.errors import KeyFileError, importing
from memory_actors.sharing.system import MemorySystem, settings_of

if TYPE_CHECKING:
    from memory_actors.server.access import Admission

__all__ = [
    "ApiKey",
    "KeyFileError",
    "KeyStore",
    "WithSessionKey",
    "create_app",
    "serve",
    "settings_of",
]

HOST, PORT = "127.0.0.1", 8765
DASHBOARD = "/ui"
_importing = partial(importing, "the server needs {}", "server")


def create_app(memory: MemorySystem, keys: KeyStore, **limits: Any) -> "Admission":
    """Return an ASGI application over an open memory system. `limits` as for `app.create_app`.

    :raises MissingExtraError: Litestar is not installed.
    """
    with _importing():
        from memory_actors.server.app import create_app as create
    return create(memory, keys, **limits)


async def serve(
    memory: MemorySystem, keys: KeyStore, *, host: str = HOST, port: int = PORT, **how: Any
) -> None:
    """Serve an open memory system until a signal asks to stop. `how` as for `serving.serve`.

    :raises MissingExtraError: Litestar or uvicorn is not installed.
    """
    with _importing():
        from memory_actors.server.serving import serve as run
    await run(memory, keys, host=host, port=port, **how)


def check_installed() -> None:
    """See that a server can run here.

    :raises MissingExtraError: Litestar or uvicorn is not installed.
    """
    with _importing():
        import memory_actors.server.serving  # noqa: F401 - only whether it is there
