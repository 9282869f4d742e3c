"""Transcripts of opencode: its SQLite file, which has a row for each message and for each part.

A transcript is named by that file and, below it, the id of the session. The data of both tables is
JSON of the types in `@opencode-ai/sdk`. Texts that plugins put into a prompt are `synthetic`.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import Any, Final

from memory_actors.integrations.coding_agents.transcripts import (
    EPOCH,
    Entry,
    Json,
    Prompt,
    Ran,
    Reply,
    decoded,
    failure,
)  # fmt: skip

CHANGES: Final = ("edit", "write", "patch")
SAID: Final = """
SELECT m.id, m.data, p.data FROM message m JOIN part p ON p.message_id = m.id
WHERE m.session_id = ? ORDER BY m.time_created, m.id, p.id
"""


def within(path: Path) -> Iterator[Path]:
    """Yield the transcripts in a file, without those of sub-agents."""
    for (session,) in _rows(path, "SELECT id FROM session WHERE parent_id IS NULL ORDER BY id"):
        yield path / session


def working_directory(path: Path) -> str | None:
    """Return the directory in which a session was held."""
    found = _rows(path.parent, "SELECT directory FROM session WHERE id = ?", path.name)
    return next((directory for (directory,) in found), None)


def session_id(path: Path) -> str:
    """Return the id of a session."""
    return path.name


def entries(path: Path) -> Iterator[Entry]:
    """Yield what was said and done."""
    for (message_id, data), rows in groupby(
        _rows(path.parent, SAID, path.name), lambda row: (row[0], row[1])
    ):
        message, parts = decoded(data.encode()), [decoded(part.encode()) for *_, part in rows]
        created = message.at("time", "created").value
        time = datetime.fromtimestamp(created / 1e3, UTC) if isinstance(created, int) else EPOCH
        kept = [one for one in parts if one.at("synthetic").value is not True]
        text = "\n".join(one.at("text").text for one in kept if one.at("type").text == "text")
        if message.at("role").text == "user" and text.strip():
            yield Prompt(message_id, text.strip(), time)
        elif message.at("role").text == "assistant":
            yield from (_run(one) for one in kept if one.at("type").text == "tool")
            if text.strip():
                yield Reply(text.strip(), time)


def _run(part: Json) -> Ran:
    name, state = part.at("tool").text, part.at("state")
    failed = state.at("status").text == "error" or state.at("metadata", "exit").value not in (
        None,
        0,
    )
    return Ran(
        name,
        command=state.at("input", "command").text,
        file=state.at("input", "filePath").text if name in CHANGES else "",
        error=failure(state.at("error").text or state.at("output").text) if failed else "",
    )


def _rows(path: Path, query: str, *given: str) -> list[Any]:
    """Return the rows of a query.

    :raises OSError: the file cannot be read.
    """
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as found:
            return found.execute(query, given).fetchall()
    except sqlite3.Error as error:
        raise OSError(f"{path} cannot be read: {error}") from error
