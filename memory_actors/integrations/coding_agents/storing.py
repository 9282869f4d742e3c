"""The part of a hook that loads the library: it captures, and recalls if no owner can be asked."""

import asyncio
import os
from contextlib import AsyncExitStack, aclosing, nullcontext
from pathlib import Path
from typing import Any, Final

from memory_actors.api.parts import Opening
from memory_actors.base.errors import (
    InvalidInputError,
    MissingExtraError,
    UnavailableError,
)
from memory_actors.base.key_files import known_key_file
from memory_actors.base.settings import Settings
from memory_actors.compaction.summarizers import OpenAISummarizer
from memory_actors.integrations.coding_agents import hook_state
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
from memory_actors.integrations.coding_agents.team import connected
from memory_actors.integrations.coding_agents.transcripts import turns
from memory_actors.sharing.address import server_url
from memory_actors.sharing.system import MemorySystem, open_or_join

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
        hook_state.log(str(error))
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
        hook_state.log(f"summaries are written without {MODEL_VARIABLE}: {error}")
        return None


def _opened(place: str) -> Opening[MemorySystem]:
    if server_url(place) is not None or "://" in place:
        return open_or_join(place)
    keys = known_key_file(place, None)
    parts: dict[str, Any] = {} if keys is None else {"encrypt": keys}
    return open_or_join(place, settings=Settings(latency_targets_ms={}), alerts=[], **parts)
