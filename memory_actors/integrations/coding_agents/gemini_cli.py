"""Transcripts of Gemini CLI: `~/.gemini/tmp/<project>/chats/session-<time>-<id>.jsonl`.

A line is a message, or a change to the session's record; older releases keep one JSON file a
session, with a list of the same messages. A message has an `id`, a `type` ("user" or "gemini"),
a `content`, and the `toolCalls` with their results. A later line of the same id replaces it.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

from eventlog.files.datafile import read_bytes
from memory_actors.integrations.coding_agents.transcripts import (
    Entry,
    Prompt,
    Ran,
    Reply,
    failure,
    id_of,
    lines,
    member,
    text_of,
    time_of,
)

BYTES_MAX: Final = 256 << 20
CHANGES: Final = ("replace", "write_file", "edit")
PROJECT_ROOT: Final = ".project_root"
"""The file beside the chats that names the project's directory."""


def transcripts() -> Iterator[Path]:
    """Yield all transcripts."""
    yield from (Path.home() / ".gemini" / "tmp").glob("*/chats/session-*.json*")


def working_directory(path: Path) -> str | None:
    """Return the directory in which a session was held, where the program kept it."""
    try:
        return read_bytes(path.parent.parent / PROJECT_ROOT).decode().strip() or None
    except (OSError, UnicodeDecodeError):
        return None


def session_id(path: Path) -> str:
    """Return the id of a session, from the first line or the whole file."""
    for _, line in lines(path):
        if isinstance(line.get("sessionId"), str):
            return str(line["sessionId"])
    return path.stem


def entries(path: Path) -> Iterator[Entry]:
    """Yield what was said and done."""
    for number, message in enumerate(_messages(path)):
        time, its_id = time_of(message.get("timestamp")), id_of(message["id"], number)
        text = text_of(message.get("content"), "text").strip()
        if message.get("type") == "user" and text:
            yield Prompt(its_id, text, time)
        elif message.get("type") == "gemini":
            calls = message.get("toolCalls")
            yield from (_run(call) for call in (calls if isinstance(calls, list) else ()))
            if text:
                yield Reply(its_id, text, time)


def _messages(path: Path) -> Iterator[dict[str, Any]]:
    if path.suffix == ".jsonl":
        found = [line for _, line in lines(path)]
    elif path.stat().st_size <= BYTES_MAX:
        try:
            whole = msgspec.json.decode(read_bytes(path))
        except (msgspec.DecodeError, RecursionError):
            whole = None
        listed = member(whole, "messages")
        found = [one for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []
    else:
        found = []
    newest = {one["id"]: one for one in found if isinstance(one.get("id"), str)}
    yield from newest.values()


def _run(call: Any) -> Ran:
    name, given = str(member(call, "name")), member(call, "args")
    file = member(given, "file_path") if name in CHANGES else None
    failed = member(call, "status") == "error"
    said = member(call, "resultDisplay")
    return Ran(
        name,
        command=str(member(given, "command") or ""),
        file=str(file or ""),
        error=failure(said) if failed else "",
    )
