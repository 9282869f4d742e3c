"""The memory of projects on a team's server."""

import os
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from msgspec.structs import replace

from eventlog.files.datafile import read_bytes
from memory_actors.base.errors import InvalidInputError, MemoryActorsError, UnavailableError
from memory_actors.base.records import Hit
from memory_actors.integrations.coding_agents import hook_state
from memory_actors.sharing.system import MemorySystem, UserMemory

SILENT_S_MAX: Final = 1.0
"""A person waits no longer for an answer of a server."""
TOP_K: Final = 5
KEY_VARIABLE: Final = "MEMORY_ACTORS_API_KEY"
KEY_FILE: Final = ".config/memory-actors/api-key"
"""The file of the key of a team's server, in the home directory: for its owner alone."""


def team_key() -> str | None:
    """Return the API key of a team's server: that of the environment, or of a file.

    :raises InvalidInputError: others may read the file.
    """
    path = Path.home() / KEY_FILE
    if (given := os.environ.get(KEY_VARIABLE)) or not path.is_file():
        return given
    if stat.S_IMODE(path.stat().st_mode) & 0o077:
        raise InvalidInputError(f"others may read {path}: run `chmod 600 {path}`")
    return read_bytes(path).decode().strip()


@asynccontextmanager
async def connected(url: str, *, patient: bool = False) -> AsyncIterator[MemorySystem]:
    """Use the store of a team's server. A `patient` caller waits as long as a client does.

    Others do not ask a server again that was silent a short time ago.

    :raises UnavailableError: it does not answer.
    """
    if not patient and hook_state.is_silent(url):
        raise UnavailableError(f"{url} did not answer a short time ago")
    limit = {} if patient else {"timeout_s": SILENT_S_MAX}
    try:
        async with MemorySystem.connect(url, key=team_key(), **limit) as memory:
            yield memory
    except UnavailableError:
        hook_state.note_silence(url)
        raise


class WithProject:
    """A person's memory, whose `retrieve` also asks the memory of a project on a team's server.

    If the server fails, that is a line in the log of the hooks.
    """

    def __init__(self, own: UserMemory, url: str, project_id: str):
        self._own, self._url, self._project_id = own, url, project_id

    def __getattr__(self, name: str) -> Any:
        return getattr(self._own, name)

    async def retrieve(self, query: str, **how: Any) -> list[Hit]:
        """Return the best hits of both, as many as a search of one returns at most."""
        own = await self._own.retrieve(query, **how)
        theirs: list[Hit] = []
        try:
            async with connected(self._url) as memory:
                found = await memory.user(self._project_id).retrieve(query, **how)
                theirs = [replace(hit, scope=self._project_id) for hit in found]
        except MemoryActorsError as error:
            hook_state.log(f"recall of {self._project_id}: {type(error).__name__}: {error}")
        best = sorted([*own, *theirs], key=lambda hit: -hit.score)
        return best[: how.get("top_k") or TOP_K]
