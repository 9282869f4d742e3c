"""Transcripts of Claude Code: `~/.claude/projects/<directory>/<session>.jsonl`.

Each line has a `type`. Lines of type "user" are prompts, results of tools, or texts of the program
in the user's name (commands, reminders, interruptions). Lines of type "assistant" have texts and
uses of tools. Lines of sub-agents (`isSidechain`) are no part of the conversation.
"""

import os
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
    failure,
    lines,
)

REMINDER: Final = re.compile(r"<system-reminder>.*?</system-reminder>", re.DOTALL)
BY_THE_PROGRAM: Final = ("<command-", "<local-command-", "<bash-", "<task-", "[Request interrupted")
"""How texts begin that stand in the user's name and were not written by the user."""
BESIDE: Final = ("isSidechain", "isMeta", "isCompactSummary")
"""The marks of lines that are no part of the conversation."""
CHANGES: Final = ("Edit", "MultiEdit", "Write", "NotebookEdit")


def transcripts() -> Iterator[Path]:
    """Yield all transcripts; those of sub-agents, in folders of their own, are left out."""
    home = Path(os.environ.get("CLAUDE_CONFIG_DIR") or Path.home() / ".claude")
    yield from home.glob("projects/*/*.jsonl")


def working_directory(path: Path) -> str | None:
    """Return the directory in which a session was held."""
    return next((line.at("cwd").text for _, line in lines(path) if line.at("cwd").text), None)


def session_id(path: Path) -> str:
    """Return the id of a session: the name of its file."""
    return path.stem


def entries(path: Path) -> Iterator[Entry]:
    """Yield what was said and done."""
    asked: dict[str, Ran] = {}
    for number, line in lines(path):
        if any(line.at(mark).value for mark in BESIDE):
            continue
        if line.at("type").value == "user":
            yield from _of_user(line, number, asked)
        elif line.at("type").value == "assistant":
            yield from _of_assistant(line, asked)


def _of_user(line: Json, number: int, asked: dict[str, Ran]) -> Iterator[Entry]:
    content = line.at("message", "content")
    for part in content.items:
        run = asked.pop(part.at("tool_use_id").text, None)
        if run is not None:
            failed = part.at("is_error").value is True
            yield run._replace(error=failure(part.at("content").said) if failed else "")
    text = REMINDER.sub("", content.said).strip()
    if text and not text.startswith(BY_THE_PROGRAM):
        yield Prompt(line.at("uuid").name_or(number), text, line.at("timestamp").time)


def _of_assistant(line: Json, asked: dict[str, Ran]) -> Iterator[Entry]:
    content = line.at("message", "content")
    if text := content.said.strip():
        yield Reply(text, line.at("timestamp").time)
    for part in content.items:
        if part.at("type").value == "tool_use":
            name, given = part.at("name").text, part.at("input")
            changed = given.at("file_path").text or given.at("notebook_path").text
            asked[part.at("id").text] = Ran(
                name,
                command=given.at("command").text,
                file=changed if name in CHANGES else "",
            )
