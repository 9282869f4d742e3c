"""Transcripts of Codex: `~/.codex/sessions/<year>/<month>/<day>/rollout-<time>-<session>.jsonl`.

Lines are `{timestamp, type, payload}`. Events of type `user_message` have prompts, those of type
`agent_message` replies. Commands and patches are response items; their results follow with the same
`call_id`. Lines have no ids. The file only grows, so the number of a line serves as its id.
"""

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import msgspec

from memory_actors.integrations.coding_agents.transcripts import (
    Entry,
    Prompt,
    Ran,
    Reply,
    failure,
    lines,
    member,
    time_of,
)

PATCHED: Final = re.compile(r"^\*\*\* (?:Add|Update|Delete) File: (.+)$", re.MULTILINE)
UUID_LENGTH: Final = 36
EXIT_CODE: Final = re.compile(r"exit(?:ed with)? code:? (\d+)", re.IGNORECASE)


def transcripts() -> Iterator[Path]:
    """Yield all transcripts."""
    home = Path(os.environ.get("CODEX_HOME") or Path.home() / ".codex")
    yield from home.glob("sessions/*/*/*/rollout-*.jsonl")


def working_directory(path: Path) -> str | None:
    """Return the directory in which a session was held."""
    found = (member(line, "payload", "cwd") for _, line in lines(path))
    return next((cwd for cwd in found if isinstance(cwd, str)), None)


def session_id(path: Path) -> str:
    """Return the id of a session: a UUID at the end of the file's name."""
    return path.stem[-UUID_LENGTH:]


def entries(path: Path) -> Iterator[Entry]:
    """Yield what was said and done."""
    asked: dict[object, Ran] = {}
    for number, line in lines(path):
        said, time = line.get("payload"), time_of(line.get("timestamp"))
        kind, message = member(said, "type"), member(said, "message")
        if line.get("type") == "event_msg" and isinstance(message, str) and message.strip():
            if kind == "user_message":
                yield Prompt(str(number), message.strip(), time)
            elif kind == "agent_message":
                yield Reply(str(number), message.strip(), time)
        elif kind in ("function_call", "custom_tool_call", "local_shell_call"):
            asked[member(said, "call_id")] = _run(said)
        elif kind in ("function_call_output", "custom_tool_call_output"):
            run = asked.pop(member(said, "call_id"), None)
            if run is not None:
                yield run._replace(error=_error(member(said, "output")))


def _run(call: Any) -> Ran:
    given: Any = call.get("arguments") or call.get("input") or call.get("action")
    if isinstance(given, str):
        with suppress(msgspec.DecodeError):  # a patch is no JSON
            given = msgspec.json.decode(given)
    command = member(given, "command") or member(given, "cmd") or ""
    if isinstance(command, list):  # ["bash", "-lc", "make test"]
        parts = [str(part) for part in command]
        command = parts[2] if parts[1:2] == ["-lc"] and len(parts) > 2 else " ".join(parts)
    patched = PATCHED.search(given if isinstance(given, str) else str(command))
    name = str(call.get("name") or "shell")
    if patched:
        return Ran(name, file=patched[1].strip())
    return Ran(name, command=str(command))


def _error(output: object) -> str:
    """Return the error in the result of a call, or an empty text."""
    if isinstance(output, str):
        try:
            read = msgspec.json.decode(output)
        except msgspec.DecodeError:
            read = None
        output = read if isinstance(read, dict) else output
    text = member(output, "output") or member(output, "content") or output
    said = text if isinstance(text, str) else str(text)
    code = member(output, "metadata", "exit_code")
    if code is None and (found := EXIT_CODE.search(said[:500])):
        code = int(found[1])
    failed = code not in (None, 0) or member(output, "success") is False
    return failure(said) if failed else ""
