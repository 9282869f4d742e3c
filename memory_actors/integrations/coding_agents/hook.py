"""A hook: what a host runs at a moment of a session, `python -m …coding_agents.hook HOST`.

It reads one JSON object from stdin and may write one to stdout. It never fails its host: each error
is a line in `agent.log`, and the exit code is 0. If a process has the store open, it answers what
is asked at the start of a session and at a prompt; the hook then loads no more than that needs: no
event loop, no numpy, no model.
"""

import argparse
import os
import sys
from collections.abc import Coroutine, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias, cast

import msgspec

from memory_actors.integrations.coding_agents import pausing
from memory_actors.integrations.coding_agents.projects import Project, project_of
from memory_actors.integrations.coding_agents.recalling import at_prompt, at_start
from memory_actors.sharing.address import is_served, place_of

if TYPE_CHECKING:
    from memory_actors.sharing.declaration import Caller
    from memory_actors.sharing.system import MemorySystem, UserMemory

Moment: TypeAlias = Literal["start", "prompt", "turn", "compaction"]

EVENTS: Final[Mapping[str, Mapping[str, Moment]]] = {
    "claude-code": {
        "SessionStart": "start",
        "UserPromptSubmit": "prompt",
        "Stop": "turn",
        "PreCompact": "compaction",
    },
    "codex": {
        "SessionStart": "start",
        "UserPromptSubmit": "prompt",
        "Stop": "turn",
        "PreCompact": "compaction",
    },
    "gemini-cli": {
        "SessionStart": "start",
        "BeforeAgent": "prompt",
        "AfterAgent": "turn",
        "PreCompress": "compaction",
    },
}
"""The events of each host that has hooks, and what they are to us.

A compaction may come in the middle of a turn, which is stored when it has ended. The end of a
session is none: hosts do not wait for hooks then, and nothing is left to do.
"""
BEGAN_IN: Final = {"claude-code": "CLAUDE_PROJECT_DIR", "gemini-cli": "GEMINI_PROJECT_DIR"}
"""The variables that say where a session began; the agent may be in another directory by now."""
WORK_S_MAX: Final = 20.0
"""A hook that would take longer is given up; the next one goes on where it was."""
STDIN_BYTES_MAX: Final = 64 << 20


class Event(NamedTuple):
    """What a host says."""

    host: str
    name: str
    moment: Moment
    session_id: str
    directory: str
    transcript: Path | None
    prompt: str


def event_of(host: str, data: bytes) -> Event | None:
    """Return the event that a host reports, or None if hooks do nothing about it.

    :raises msgspec.DecodeError: it is no JSON object.
    """
    said = msgspec.json.decode(data, type=dict[str, Any])
    name = str(said.get("hook_event_name"))
    moment = EVENTS[host].get(name)
    if moment is None:
        return None
    path = said.get("transcript_path")
    return Event(
        host,
        name,
        moment,
        str(said.get("session_id") or "unknown"),
        os.environ.get(BEGAN_IN.get(host, "")) or str(said.get("cwd") or Path.cwd()),
        Path(path) if isinstance(path, str) and path else None,
        str(said.get("prompt") or ""),
    )


def answer(event: Event, place: str, person: str) -> dict[str, Any] | None:
    """Capture or recall for an event; return the answer to the host, or None."""
    project = project_of(event.directory)
    if pausing.is_paused(project.user_id):
        return None
    owned = place_of(place)
    if event.moment in ("start", "prompt") and isinstance(owned, Path) and is_served(owned):
        text = _at_once(_recalled(event, _users_of_owner(owned, event, project, person)))
    else:
        text = _with_store(event, place, project, person)
    if not text:
        return None
    return {"hookSpecificOutput": {"hookEventName": event.name, "additionalContext": text}}


def _users_of_owner(
    directory: Path, event: Event, project: Project, person: str
) -> "Sequence[UserMemory]":
    """Return handles of the two users; their calls block until the owner has answered."""
    from memory_actors.base.on import On
    from memory_actors.sharing.at_once import BlockingCaller
    from memory_actors.sharing.remote import UserMemory as RemoteUser

    caller = cast("Caller", BlockingCaller(directory))  # recalling only awaits single calls
    ons = (On(project.user_id, event.host, event.session_id), On(person, event.host))
    return [cast("UserMemory", RemoteUser(caller, on.checked())) for on in ons]


def _at_once(work: Coroutine[Any, Any, str]) -> str:
    """Run a coroutine whose calls block, without an event loop."""
    try:
        work.send(None)
    except StopIteration as ended:
        return str(ended.value)
    raise RuntimeError("a call did not block")


def _with_store(event: Event, place: str, project: Project, person: str) -> str:
    """Open or join the store, and recall or capture there."""
    import asyncio

    from memory_actors.sharing.system import open_or_join

    async def work() -> str:
        async with open_or_join(place, **_parts(place)) as memory:
            if event.moment in ("turn", "compaction"):
                await _captured(event, project, memory)
                return ""
            users = [
                memory.user(project.user_id, agent_id=event.host, session_id=event.session_id),
                memory.user(person, agent_id=event.host),
            ]
            return await _recalled(event, users)

    return asyncio.run(asyncio.wait_for(work(), WORK_S_MAX))


async def _recalled(event: Event, users: "Sequence[UserMemory]") -> str:
    if event.moment == "start":
        return await at_start(users)
    return await at_prompt(users, event.prompt, event.session_id) if event.prompt.strip() else ""


async def _captured(event: Event, project: Project, memory: "MemorySystem") -> None:
    from memory_actors.integrations.coding_agents.capturing import Session, capture
    from memory_actors.integrations.coding_agents.hosts import HOSTS
    from memory_actors.integrations.coding_agents.transcripts import turns

    if event.transcript is not None and event.transcript.is_file():
        found = list(turns(HOSTS[event.host].reader.entries(event.transcript)))
        if event.moment == "compaction":
            found = found[:-1]
        await capture(memory, project, Session(event.host, event.session_id), found)


def main(arguments: Sequence[str] | None = None) -> int:
    """Answer one event of a host; return 0."""
    parser = argparse.ArgumentParser(prog="memory-actors hook", description=__doc__)
    parser.add_argument("host", choices=EVENTS)
    parser.add_argument("--data", required=True)
    parser.add_argument("--user", default="default")
    try:
        given = parser.parse_args(arguments)
    except SystemExit:  # its code would have some hosts refuse the prompt
        return 0
    try:
        event = event_of(given.host, sys.stdin.buffer.read(STDIN_BYTES_MAX))
        told = None if event is None else answer(event, given.data, given.user)
        if told is not None:
            sys.stdout.buffer.write(msgspec.json.encode(told))  # UTF-8 in any locale
            sys.stdout.flush()
    except Exception as error:  # a host must never fail with us
        pausing.log(f"{given.host}: {type(error).__name__}: {error}")
    return 0


def _parts(place: str) -> dict[str, Any]:
    """Return how the store is opened where no process has it."""
    from memory_actors.base.key_files import known_key_file
    from memory_actors.base.settings import Settings
    from memory_actors.sharing.address import server_url

    if server_url(place) is not None or "://" in place:
        return {}
    keys = known_key_file(place, None)
    return {
        "settings": Settings(latency_targets_ms={}),
        "alerts": [],
        **({} if keys is None else {"encrypt": keys}),
    }


if __name__ == "__main__":
    sys.exit(main())
