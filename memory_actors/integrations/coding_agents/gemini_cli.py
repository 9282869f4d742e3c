"""Transcripts of Gemini CLI: `~/.gemini/tmp/<project>/chats/session-<time>-<id>.jsonl`.

A line is a message, or a change to the session's record; older releases keep one JSON file a
session, with a list of the same messages. A message has an `id`, a `type` ("user" or "gemini"),
a `content`, and the `toolCalls` with their results. A later line of the same id replaces it.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from eventlog.files.datafile import read_bytes
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

BYTES_MAX: Final = 256 << 20
CHANGES: Final = ("replace", "write_file", "edit")
PROJECT_ROOT: Final = ".project_root"
"""The file beside the chats that names the project's directory."""


def working_directory(path: Path) -> str | None:
    """Return the directory in which a session was held, where the program kept it."""
    try:
        return read_bytes(path.parent.parent / PROJECT_ROOT).decode().strip() or None
    except (OSError, UnicodeDecodeError):
        return None


def session_id(path: Path) -> str:
    """Return the id of a session, from the first line or the whole file."""
    found = (line.at("sessionId").text for line in _records(path))
    return next(filter(None, found), path.stem)


def entries(path: Path) -> Iterator[Entry]:
    """Yield what was said and done."""
    records = [one for record in _records(path) for one in (record, *record.at("messages").items)]
    newest = {one.at("id").text: one for one in records if one.at("id").text}
    for number, message in enumerate(newest.values()):
        text, time = message.at("content").said.strip(), message.at("timestamp").time
        if message.at("type").value == "user" and text:
            yield Prompt(message.at("id").name_or(number), text, time)
        elif message.at("type").value == "gemini":
            yield from map(_run, message.at("toolCalls").items)
            if text:
                yield Reply(text, time)


def _records(path: Path) -> Iterator[Json]:
    """Yield the lines of a transcript, or the one object of an older one."""
    if path.suffix == ".jsonl":
        yield from (line for _, line in lines(path))
    elif path.stat().st_size <= BYTES_MAX:
        yield decoded(read_bytes(path))


def _run(call: Json) -> Ran:
    name, given = call.at("name").text, call.at("args")
    failed = call.at("status").value == "error"
    return Ran(
        name,
        command=given.at("command").text,
        file=given.at("file_path").text if name in CHANGES else "",
        error=failure(call.at("resultDisplay").text) if failed else "",
    )
