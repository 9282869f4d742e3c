"""A hook: a host runs it at a moment of a session (`__main__.py`).

It reads one JSON object from stdin and may write one to stdout. It never fails its host: each error
is a line in `agent.log`, and the exit code is 0. If a process has the store open, it answers what
is asked at the start of a session and at a prompt; the hook then loads only the standard library.
At the end of a turn or a session the host goes on while the hook stores it.
"""

import json
import os
import sys
from collections.abc import Coroutine, Iterator, Sequence
from typing import Any, Final, NamedTuple

from memory_actors.integrations.coding_agents import pausing
from memory_actors.integrations.coding_agents.hosts import HOSTS, Moment
from memory_actors.integrations.coding_agents.projects import Project, project_of
from memory_actors.integrations.coding_agents.recalling import at_prompt, at_start
from memory_actors.sharing.asking import Handle, Owner, OwnerFailed

STDIN_BYTES_MAX: Final = 64 << 20
NAMES: Final = {
    "name": ("hook_event_name", "hookEventName", "agent_action_name"),
    "session": ("session_id", "sessionId", "conversation_id", "trajectory_id"),
}
"""The names that hosts have for the name of an event, and for the id of a session."""


class Event(NamedTuple):
    """What a host says."""

    host: str
    name: str
    moment: Moment
    session_id: str
    directory: str
    transcript: str
    """Its path, or nothing."""
    prompt: str


class Command(NamedTuple):
    """The command line of a hook."""

    host: str
    data: str
    """The directory or the URL of the store."""
    user: str = "default"
    """The person."""
    team: str = ""
    """The URL of the server that has the memory of projects; none: the same store has it."""


def event_of(host: str, data: bytes) -> Event | None:
    """Return the event that a host reports, or None if hooks do nothing about it.

    :raises ValueError: it is no JSON object.
    """
    said = json.loads(data.decode(errors="replace"))
    if not isinstance(said, dict):
        raise ValueError("the event is no JSON object")
    told = said | _object(said.get("tool_info"))
    name, session = (
        next((str(told[one]) for one in names if told.get(one)), "") for names in NAMES.values()
    )
    moment = HOSTS[host].events.get(name)
    if moment is None:
        return None
    roots = told.get("workspace_roots") or [""]
    return Event(
        host,
        name,
        moment,
        session or "unknown",
        os.environ.get(HOSTS[host].began_in) or str(told.get("cwd") or roots[0] or os.getcwd()),
        str(told.get("transcript_path") or ""),
        str(told.get("prompt") or ""),
    )


def _object(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def answer(event: Event, command: Command) -> dict[str, Any] | None:
    """Capture or recall for an event; return the answer to the host, or None."""
    project = project_of(event.directory)
    if pausing.is_paused(project.user_id):
        return None
    text = _answered(event, command, project)
    if text is None:
        text = _with_store(event, command, project)
    if not text:
        return None
    if HOSTS[event.host].answer == "additional_context":
        return {"additional_context": text}
    return {"hookSpecificOutput": {"hookEventName": event.name, "additionalContext": text}}


def _answered(event: Event, command: Command, project: Project) -> str | None:
    """Ask the process that has the store; return None if that is nobody, or nothing is asked."""
    if command.team or event.moment not in ("start", "prompt"):
        return None
    ons = ([project.user_id, event.host, event.session_id], [command.user, event.host, None])
    try:
        owner = Owner(command.data)
        return _at_once(recalled(event, [Handle(owner, on) for on in ons]))
    except TimeoutError:
        raise
    except (OSError, ValueError, KeyError, OwnerFailed):  # it is about to close, say
        return None


def _at_once(work: Coroutine[Any, Any, str]) -> str:
    """Run a coroutine whose calls block, without an event loop."""
    try:
        work.send(None)
    except StopIteration as ended:
        return str(ended.value)
    raise RuntimeError("a call did not block")


async def recalled(event: Event, users: Sequence[Any]) -> str:
    """Return the memories of a project and a person for an event, as text."""
    if event.moment == "start":
        return await at_start(users)
    return await at_prompt(users, event.prompt, event.session_id) if event.prompt.strip() else ""


def _with_store(event: Event, command: Command, project: Project) -> str:
    if sys.flags.no_site:
        import gc
        import site

        gc.enable()
        site.main()
    from memory_actors.integrations.coding_agents.storing import work

    return work(event, command, project)


def main(arguments: Sequence[str]) -> int:
    """Answer one event of a host; return 0."""
    host = arguments[0] if arguments else ""
    try:
        command = Command(host, **dict(_options(arguments[1:])))
        event = event_of(host, sys.stdin.buffer.read(STDIN_BYTES_MAX))
        if event is not None and (event.moment not in ("turn", "end") or _goes_on_alone()):
            told = answer(event, command)
            if told is not None:
                sys.stdout.buffer.write(json.dumps(told).encode())
                sys.stdout.flush()
    except Exception as error:  # a host must never fail with us
        pausing.log(f"{host}: {type(error).__name__}: {error}")
    return 0


def _options(arguments: Sequence[str]) -> Iterator[tuple[str, str]]:
    for name, value in zip(arguments[::2], arguments[1::2], strict=True):
        yield name.removeprefix("--"), value


def _goes_on_alone() -> bool:
    """Let the host go on; return whether this is the process that does the work, and ends with it.

    At the end of a session hosts do not wait, and at that of a turn it takes half a second.
    """
    if os.fork():
        return False
    os.setsid()
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nowhere, stream)
    return True
