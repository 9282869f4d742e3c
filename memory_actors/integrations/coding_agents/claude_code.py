"""Transcripts of Claude Code and Cursor: a file of lines for each session.

Each line has a `type`. Lines of type "user" are prompts, results of tools, or texts of the program
in the user's name (commands, reminders, interruptions). Lines of type "assistant" have texts and
uses of tools. Lines of sub-agents (`isSidechain`) are no part of the conversation.

Cursor's lines have the same `message`, a `role` in the place of `type`, and neither ids nor times.
Cursor does not document them; results of tools are not among them.
"""

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from memory_actors.integrations.coding_agents.transcripts import (
    Entry,
    Json,
    Prompt,
    Ran,
    Reply,
    failure,
    lines,
)

REMINDER: Final = re.compile(r"<system-reminder>.*?</system-reminder>", re.DOTALL)
BY_THE_PROGRAM: Final = ("<command-", "<local-command-", "<bash-", "<task-", "[Request interrupted")
"""How texts begin that stand in the user's name and were not written by the user."""
BESIDE: Final = ("isSidechain", "isMeta", "isCompactSummary")
"""The marks of lines that are no part of the conversation."""
QUERY: Final = re.compile(r"<user_query>(.*?)</user_query>", re.DOTALL)
"""Matches what the user said, among what Cursor adds."""
CHANGES: Final = ("Edit", "MultiEdit", "Write", "NotebookEdit", "StrReplace")


def working_directory(path: Path) -> str | None:
    """Return the directory in which a session was held."""
    return next((line.at("cwd").text for _, line in lines(path) if line.at("cwd").text), None)


def session_id(path: Path) -> str:
    """Return the id of a session: the name of its file."""
    return path.stem


def entries(path: Path) -> Iterator[Entry]:
    """Yield what was said and done."""
    asked: dict[str, Ran] = {}
    changed = datetime.fromtimestamp(path.stat().st_mtime, UTC)
    for number, line in lines(path):
        if any(line.at(mark).value for mark in BESIDE):
            continue
        who = line.at("type").text or line.at("role").text
        time = line.at("timestamp").time if line.at("type").text else changed
        if who == "user":
            yield from _of_user(line, number, time, asked)
        elif who == "assistant":
            yield from _of_assistant(line, time, asked)


def _of_user(line: Json, number: int, time: datetime, asked: dict[str, Ran]) -> Iterator[Entry]:
    content = line.at("message", "content")
    for part in content.items:
        run = asked.pop(part.at("tool_use_id").text, None)
        if run is not None:
            failed = part.at("is_error").value is True
            yield run._replace(error=failure(part.at("content").said) if failed else "")
    queries = QUERY.findall(content.said)
    text = REMINDER.sub("", "\n".join(queries) or content.said).strip()
    if text and not text.startswith(BY_THE_PROGRAM):
        yield Prompt(line.at("uuid").name_or(number), text, time)


def _of_assistant(line: Json, time: datetime, asked: dict[str, Ran]) -> Iterator[Entry]:
    content = line.at("message", "content")
    if text := content.said.strip():
        yield Reply(text, time)
    for part in content.items:
        if part.at("type").value == "tool_use":
            name, given = part.at("name").text, part.at("input")
            places = (given.at(key).text for key in ("file_path", "notebook_path", "path"))
            changed = next(filter(None, places), "") if name in CHANGES else ""
            run = Ran(name, command=given.at("command").text, file=changed)
            if called := part.at("id").text:
                asked[called] = run
            else:  # its result is not told
                yield run
