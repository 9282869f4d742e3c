"""Transcripts of Claude Code: `~/.claude/projects/<directory>/<session>.jsonl`.

Each line has a `type`. Lines of type "user" are prompts, results of tools, or texts of the program
in the user's name (commands, reminders, interruptions). Lines of type "assistant" have texts and
uses of tools. Lines of sub-agents (`isSidechain`) are no part of the conversation.
"""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from memory_actors.integrations.coding_agents.transcripts import (
    Entry,
    Line,
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

REMINDER: Final = re.compile(r"<system-reminder>.*?</system-reminder>", re.DOTALL)
BY_THE_PROGRAM: Final = ("<command-", "<local-command-", "<bash-", "<task-", "[Request interrupted")
"""How texts begin that stand in the user's name and were not written by the user."""


def transcripts() -> Iterator[Path]:
    """Yield all transcripts; those of sub-agents, in folders of their own, are left out."""
    home = Path(os.environ.get("CLAUDE_CONFIG_DIR") or Path.home() / ".claude")
    yield from home.glob("projects/*/*.jsonl")


def working_directory(path: Path) -> str | None:
    """Return the directory in which a session was held."""
    return next((line["cwd"] for _, line in lines(path) if isinstance(line.get("cwd"), str)), None)


def session_id(path: Path) -> str:
    """Return the id of a session: the name of its file."""
    return path.stem


def entries(path: Path) -> Iterator[Entry]:
    """Yield what was said and done."""
    asked: dict[object, Ran] = {}
    for number, line in lines(path):
        if line.get("isSidechain") or line.get("isMeta") or line.get("isCompactSummary"):
            continue
        if line.get("type") == "user":
            yield from _of_user(line, id_of(line.get("uuid"), number), asked)
        elif line.get("type") == "assistant":
            yield from _of_assistant(line, id_of(line.get("uuid"), number), asked)


def _of_user(line: Line, its_id: str, asked: dict[object, Ran]) -> Iterator[Entry]:
    content = member(line, "message", "content")
    for part in content if isinstance(content, list) else ():
        run = asked.pop(part.get("tool_use_id"), None) if isinstance(part, dict) else None
        if run is not None:
            failed = part.get("is_error") is True
            said = text_of(part.get("content"), "text")
            yield run._replace(error=failure(said) if failed else "")
    text = REMINDER.sub("", text_of(content, "text")).strip()
    if text and not text.startswith(BY_THE_PROGRAM):
        yield Prompt(its_id, text, time_of(line.get("timestamp")))


def _of_assistant(line: Line, its_id: str, asked: dict[object, Ran]) -> Iterator[Entry]:
    content: Any = member(line, "message", "content")
    if text := text_of(content, "text").strip():
        yield Reply(its_id, text, time_of(line.get("timestamp")))
    for part in content if isinstance(content, list) else ():
        if isinstance(part, dict) and part.get("type") == "tool_use":
            name, given = str(part.get("name")), part.get("input")
            changed = member(given, "file_path") or member(given, "notebook_path")
            is_change = name in ("Edit", "MultiEdit", "Write", "NotebookEdit")
            asked[part.get("id")] = Ran(
                name,
                command=str(member(given, "command") or ""),
                file=str(changed) if changed and is_change else "",
            )
