"""The part of a hook that captures, finds no owner of the store, or asks a team's server."""

import asyncio
import os
import stat
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, nullcontext
from pathlib import Path
from typing import Any, Final

from msgspec.structs import replace

from eventlog.files.datafile import read_bytes
from memory_actors.api.parts import Opening
from memory_actors.base.errors import (
    InvalidInputError,
    MemoryActorsError,
    MissingExtraError,
    UnavailableError,
)
from memory_actors.base.key_files import known_key_file
from memory_actors.base.records import Hit
from memory_actors.base.settings import Settings
from memory_actors.compaction.summarizers import OpenAISummarizer
from memory_actors.integrations.coding_agents import projects
from memory_actors.integrations.coding_agents.capturing import HostSession, capture
from memory_actors.integrations.coding_agents.hook import (
    RECALLING,
    HookCommand,
    HookEvent,
    recalled,
)
from memory_actors.integrations.coding_agents.hosts import HOSTS
from memory_actors.integrations.coding_agents.projects import Project
from memory_actors.integrations.coding_agents.readers import reader_of, transcripts
from memory_actors.integrations.coding_agents.transcripts import turns
from memory_actors.sharing.address import server_url
from memory_actors.sharing.system import MemorySystem, UserMemory, open_or_join

WORK_S_MAX: Final = 20.0
"""A hook that would take longer is given up; the next one goes on where it was."""
MODEL_VARIABLE: Final = "MEMORY_ACTORS_LLM_MODEL"


def work(event: HookEvent, command: HookCommand, project: Project) -> str:
    """Capture, or return what is brought back."""
    return asyncio.run(asyncio.wait_for(_work(event, command, project), WORK_S_MAX))


async def _work(event: HookEvent, command: HookCommand, project: Project) -> str:
    try:
        return await _done(event, command, project)
    except UnavailableError as error:
        if not command.team or event.moment not in RECALLING:
            raise
        projects.log(str(error))
        return await _done(event, command._replace(team=""), project)


async def _done(event: HookEvent, command: HookCommand, project: Project) -> str:
    async with AsyncExitStack() as stack:
        if command.team:
            waits = event.moment in ("turn", "end")  # the host does not
            memory = await stack.enter_async_context(connected(command.team, patient=waits))
        else:
            memory = await stack.enter_async_context(_opened(command.data))
        if event.moment not in RECALLING:
            await _captured(event, project, memory)
            return ""
        own = await stack.enter_async_context(_opened(command.data)) if command.team else memory
        users = [
            memory.user(project.user_id, agent_id=event.host, session_id=event.session_id),
            own.user(command.user, agent_id=event.host),
        ]
        return await recalled(event, users)


async def _captured(event: HookEvent, project: Project, memory: MemorySystem) -> None:
    reader = reader_of(event.host)
    found = (one for one in transcripts(event.host) if reader.session_id(one) == event.session_id)
    path = Path(event.transcript) if event.transcript else next(found, None)
    if path is None or not (path.is_file() or path.parent.is_file()):
        return
    ended = list(turns(reader.entries(path)))
    if event.moment == "compaction":
        ended = ended[:-1]
    closes = event.moment in ("compaction", "end")
    model = _model() if closes else None
    async with aclosing(model) if model is not None else nullcontext():
        await capture(
            memory,
            project,
            HostSession(event.host, event.session_id),
            ended,
            summarise=closes or "end" not in HOSTS[event.host].events.values(),
            summarizer=model,
        )


def _model() -> OpenAISummarizer | None:
    """Return the language model that the environment names; one that cannot be used is logged."""
    if not os.environ.get(MODEL_VARIABLE, "").strip():
        return None
    try:
        return OpenAISummarizer()
    except (InvalidInputError, MissingExtraError) as error:
        projects.log(f"summaries are written without {MODEL_VARIABLE}: {error}")
        return None


def _opened(place: str) -> Opening[MemorySystem]:
    if server_url(place) is not None or "://" in place:
        return open_or_join(place)
    keys = known_key_file(place, None)
    parts: dict[str, Any] = {} if keys is None else {"encrypt": keys}
    return open_or_join(place, settings=Settings(latency_targets_ms={}), alerts=[], **parts)


# --- the memory of projects on a team's server


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
    if not patient and projects.is_silent(url):
        raise UnavailableError(f"{url} did not answer a short time ago")
    limit = {} if patient else {"timeout_s": SILENT_S_MAX}
    try:
        async with MemorySystem.connect(url, key=team_key(), **limit) as memory:
            yield memory
    except UnavailableError:
        projects.note_silence(url)
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
            projects.log(f"recall of {self._project_id}: {type(error).__name__}: {error}")
        best = sorted([*own, *theirs], key=lambda hit: -hit.score)
        return best[: how.get("top_k") or TOP_K]
