"""Transcripts of VS Code and Windsurf: a line for each event, of the type that its `type` names.

VS Code: `…/GitHub.copilot-chat/transcripts/<session>.jsonl`, lines `{type, data, id, timestamp}` as
`sessionTranscriptService.ts` of its Copilot extension declares them. Windsurf:
`~/.windsurf/transcripts/<trajectory>.jsonl`, lines `{type, status}` and a member named like the
type; its documentation shows the three types that are read here. They have no ids and no times: the
number of a line is its id, and the time is that of the file.
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from memory_actors.integrations.coding_agents.transcripts import (
    EPOCH,
    Entry,
    Json,
    Prompt,
    Ran,
    Reply,
    decoded,
    failure,
    lines,
)  # fmt: skip

CHANGES: Final = (
    "create_file", "replace_string_in_file", "multi_replace_string_in_file", "insert_edit_into_file"
)  # fmt: skip


def working_directory(path: Path) -> str | None:
    """Return the directory in which a session was held, where the first line has it."""
    found = (line.at("data", "context", "cwd").text for _, line in lines(path))
    return next(found, "") or None


def session_id(path: Path) -> str:
    """Return the id of a session: the name of its file."""
    return path.stem


def entries(path: Path) -> Iterator[Entry]:
    """Yield what was said and done."""
    asked: dict[str, Ran] = {}
    changed = datetime.fromtimestamp(path.stat().st_mtime, UTC)
    for number, line in lines(path):
        kind, data = line.at("type").text, line.at("data")
        time = changed if (stamp := line.at("timestamp").time) == EPOCH else stamp
        prompt = data.at("content").text or line.at("user_input", "user_response").text
        reply = data.at("content").text or line.at("planner_response", "response").text
        if kind in ("user.message", "user_input") and prompt.strip():
            yield Prompt(line.at("id").name_or(number), prompt.strip(), time)
        elif kind in ("assistant.message", "planner_response") and reply.strip():
            yield Reply(reply.strip(), time)
        elif kind == "code_action":
            yield Ran(kind, file=line.at(kind, "path").text)
        elif kind == "tool.execution_start":
            asked[data.at("toolCallId").text] = _run(data)
        elif kind == "tool.execution_complete":
            run = asked.pop(data.at("toolCallId").text, None)
            failed = data.at("success").value is False
            if run is not None:
                error = failure(data.at("result", "content").text) if failed else ""
                yield run._replace(error=error)


def _run(data: Json) -> Ran:
    name, given = data.at("toolName").text, data.at("arguments")
    if given.text:
        given = decoded(given.text.encode(errors="replace"))
    file = given.at("filePath").text if name in CHANGES else ""
    return Ran(name, command=given.at("command").text, file=file)
