"""Transcripts of Codex: `~/.codex/sessions/<year>/<month>/<day>/rollout-<time>-<session>.jsonl`.

Lines are `{timestamp, type, payload}`. Events of type `user_message` have prompts, those of type
`agent_message` replies. Commands and patches are response items; their results follow with the same
`call_id`. Lines have no ids. The file only grows, so the number of a line serves as its id.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from memory_actors.integrations.coding_agents.transcripts import (
    Entry,
    Json,
    Prompt,
    Ran,
    Reply,
    decoded,
    failure,
    lines,
)

PATCHED: Final = re.compile(r"^\*\*\* (?:Add|Update|Delete) File: (.+)$", re.MULTILINE)
UUID_LENGTH: Final = 36
EXIT_CODE: Final = re.compile(r"exit(?:ed with)? code:? (\d+)", re.IGNORECASE)


def working_directory(path: Path) -> str | None:
    """Return the directory in which a session was held."""
    found = (line.at("payload", "cwd").text for _, line in lines(path))
    return next(filter(None, found), None)


def session_id(path: Path) -> str:
    """Return the id of a session: a UUID at the end of the file's name."""
    return path.stem[-UUID_LENGTH:]


def entries(path: Path) -> Iterator[Entry]:
    """Yield what was said and done."""
    asked: dict[str, Ran] = {}
    for number, line in lines(path):
        said, time = line.at("payload"), line.at("timestamp").time
        kind, message = said.at("type").text, said.at("message").text.strip()
        if line.at("type").value == "event_msg" and message:
            if kind == "user_message":
                yield Prompt(str(number), message, time)
            elif kind == "agent_message":
                yield Reply(message, time)
        elif kind in ("function_call", "custom_tool_call", "local_shell_call"):
            asked[said.at("call_id").text] = _run(said)
        elif kind in ("function_call_output", "custom_tool_call_output"):
            run = asked.pop(said.at("call_id").text, None)
            if run is not None:
                yield run._replace(error=_error(said.at("output")))


def _run(call: Json) -> Ran:
    given = call.at("arguments").value or call.at("input").value or call.at("action").value
    read = _read(Json(given))
    command = read.at("command").value or read.at("cmd").value or ""
    if isinstance(command, list):  # ["bash", "-lc", "make test"]
        parts = [str(part) for part in command]
        command = parts[2] if parts[1:2] == ["-lc"] and len(parts) > 2 else " ".join(parts)
    patched = PATCHED.search(read.text or str(command))
    name = call.at("name").text or "shell"
    if patched:
        return Ran(name, file=patched[1].strip())
    return Ran(name, command=str(command))


def _read(value: Json) -> Json:
    """Return the object that a text holds as JSON; another value, such as a patch, as it is."""
    read = decoded(value.text.encode(errors="replace"))
    return read if isinstance(read.value, dict) else value


def _error(output: Json) -> str:
    """Return the error in the result of a call, or an empty text."""
    read = _read(output)
    text = read.at("output").value or read.at("content").value or read.value
    said = text if isinstance(text, str) else str(text)
    code = read.at("metadata", "exit_code").value
    if code is None and (found := EXIT_CODE.search(said[:500])):
        code = int(found[1])
    failed = code not in (None, 0) or read.at("success").value is False
    return failure(said) if failed else ""
