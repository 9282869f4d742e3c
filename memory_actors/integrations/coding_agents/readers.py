"""Readers of transcripts, one for each format. The row of a host in `hosts.py` names its reader.

claude_code: Claude Code and Cursor. Lines of the type "user" are prompts, results of tools, or
    texts of the program in the user's name (commands, reminders, interruptions); lines of the type
    "assistant" have texts and uses of tools. Lines of sub-agents (`isSidechain`) are no part of the
    conversation. Cursor has a `role` instead of a `type`, neither ids nor times, and no results of
    tools; it does not document its lines.
codex: lines `{timestamp, type, payload}`. Events of type `user_message` have prompts, those of type
    `agent_message` replies. Commands and patches are response items; their results follow with the
    same `call_id`. Lines have no ids. The file only grows, so the number of a line is its id.
gemini_cli: a line is a message, or a change to the session's record; older releases keep one JSON
    file a session, with a list of the same messages. A message has an `id`, a `type` ("user" or
    "gemini"), a `content`, and the `toolCalls` with their results. A later line of the same id
    replaces it.
opencode: a SQLite file, with a row for each message and each part. A transcript is named by that
    file and, below it, the id of the session. The data of both tables is JSON of the types in
    `@opencode-ai/sdk`. Texts that plugins put into a prompt are `synthetic`.
event_lines: VS Code and Windsurf, a line for each event. VS Code: `{type, data, id, timestamp}` as
    `sessionTranscriptService.ts` of its Copilot extension declares them. Windsurf: `{type, status}`
    and a member named like the type; its documentation shows the three types that are read here.
    They have no ids and no times: a line has its number and the time of the file.
"""

import re
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import Any, Final, NamedTuple

from eventlog.files.datafile import read_bytes
from memory_actors.integrations.coding_agents.hosts import HOSTS
from memory_actors.integrations.coding_agents.transcripts import (
    EPOCH,
    AgentReply,
    Entry,
    Json,
    Prompt,
    Ran,
    decoded,
    failure,
    lines,
)

CHANGES: Final = (
    "Edit", "MultiEdit", "Write", "NotebookEdit", "StrReplace", "edit", "replace", "write", "patch",
    "write_file", "create_file", "insert_edit_into_file", "replace_string_in_file",
    "multi_replace_string_in_file",
)  # fmt: skip
PLACES: Final = ("file_path", "notebook_path", "path", "filePath")


class Reader(NamedTuple):
    """Reads the transcripts of a format."""

    entries: Callable[[Path], Iterator[Entry]]
    working_directory: Callable[[Path], str | None]
    """Returns the directory in which a session was held, if it is known."""
    session_id: Callable[[Path], str] = lambda path: path.stem
    within: Callable[[Path], Iterator[Path]] = lambda path: iter((path,))


def reader_of(host: str) -> Reader:
    """Return the reader of a host's transcripts."""
    return READERS[HOSTS[host].reader]


def transcripts(host: str) -> Iterator[Path]:
    """Yield all transcripts of a host."""
    for path in sorted(Path(HOSTS[host].place()).glob(HOSTS[host].transcripts)):
        yield from reader_of(host).within(path)


class _Asked(dict[str, Ran]):
    """Uses of tools whose results are still to come, by the ids of the calls."""

    def ended(self, call: Json, error: str) -> Iterator[Ran]:
        run = self.pop(call.text, None)
        if run is not None:
            yield run._replace(error=error)


def _ran(tool: str, given: Json, error: str = "") -> Ran:
    file = next(filter(None, (given.at(name).text for name in PLACES)), "")
    return Ran(tool, given.at("command").text, file if tool in CHANGES else "", error)


def _text_at(records: Iterable[Json], *place: str) -> str | None:
    return next(filter(None, (one.at(*place).text for one in records)), None)


def _first(*place: str) -> Callable[[Path], str | None]:
    return lambda path: _text_at((line for _, line in lines(path)), *place)


def _changed_at(path: Path) -> datetime:
    return datetime.fromtimestamp(path.stat().st_mtime, UTC)


# --- claude_code

REMINDER: Final = re.compile(r"<system-reminder>.*?</system-reminder>", re.DOTALL)
BY_THE_PROGRAM: Final = ("<command-", "<local-command-", "<bash-", "<task-", "[Request interrupted")
"""How texts begin that are in the user's name and were not written by the user."""
BESIDE: Final = ("isSidechain", "isMeta", "isCompactSummary")
"""The marks of lines that are no part of the conversation."""
QUERY: Final = re.compile(r"<user_query>(.*?)</user_query>", re.DOTALL)
"""Matches what the user said, among what Cursor adds."""


def _claude_code(path: Path) -> Iterator[Entry]:
    asked, changed = _Asked(), _changed_at(path)
    for number, line in lines(path):
        if any(line.at(mark).value for mark in BESIDE):
            continue
        who = line.at("type").text or line.at("role").text
        time = line.at("timestamp").time if line.at("type").text else changed
        if who == "user":
            yield from _of_user(line, number, time, asked)
        elif who == "assistant":
            yield from _of_assistant(line, time, asked)


def _of_user(line: Json, number: int, time: datetime, asked: _Asked) -> Iterator[Entry]:
    content = line.at("message", "content")
    for part in content.items:
        failed = part.at("is_error").value is True
        error = failure(part.at("content").said) if failed else ""
        yield from asked.ended(part.at("tool_use_id"), error)
    queries = QUERY.findall(content.said)
    text = REMINDER.sub("", "\n".join(queries) or content.said).strip()
    if text and not text.startswith(BY_THE_PROGRAM):
        yield Prompt(line.at("uuid").name_or(number), text, time)


def _of_assistant(line: Json, time: datetime, asked: _Asked) -> Iterator[Entry]:
    content = line.at("message", "content")
    if text := content.said.strip():
        yield AgentReply(text, time)
    for part in content.items:
        if part.at("type").value == "tool_use":
            run = _ran(part.at("name").text, part.at("input"))
            if called := part.at("id").text:
                asked[called] = run
            else:  # its result is not told
                yield run


# --- codex

PATCHED: Final = re.compile(r"^\*\*\* (?:Add|Update|Delete) File: (.+)$", re.MULTILINE)
UUID_LENGTH: Final = 36
EXIT_CODE: Final = re.compile(r"exit(?:ed with)? code:? (\d+)", re.IGNORECASE)


def _codex(path: Path) -> Iterator[Entry]:
    asked = _Asked()
    for number, line in lines(path):
        said, time = line.at("payload"), line.at("timestamp").time
        kind, message = said.at("type").text, said.at("message").text.strip()
        if line.at("type").value == "event_msg" and message:
            if kind == "user_message":
                yield Prompt(str(number), message, time)
            elif kind == "agent_message":
                yield AgentReply(message, time)
        elif kind in ("function_call", "custom_tool_call", "local_shell_call"):
            asked[said.at("call_id").text] = _codex_run(said)
        elif kind in ("function_call_output", "custom_tool_call_output"):
            yield from asked.ended(said.at("call_id"), _codex_error(said.at("output")))


def _codex_run(call: Json) -> Ran:
    given = call.at("arguments").value or call.at("input").value or call.at("action").value
    read = _object(Json(given))
    command = read.at("command").value or read.at("cmd").value or ""
    if isinstance(command, list):  # ["bash", "-lc", "make test"]
        parts = [str(part) for part in command]
        command = parts[2] if parts[1:2] == ["-lc"] and len(parts) > 2 else " ".join(parts)
    patched = PATCHED.search(read.text or str(command))
    name = call.at("name").text or "shell"
    if patched:
        return Ran(name, file=patched[1].strip())
    return Ran(name, command=str(command))


def _object(value: Json) -> Json:
    read = decoded(value.text.encode(errors="replace"))
    return read if isinstance(read.value, dict) else value


def _codex_error(output: Json) -> str:
    read = _object(output)
    text = read.at("output").value or read.at("content").value or read.value
    said = text if isinstance(text, str) else str(text)
    code = read.at("metadata", "exit_code").value
    if code is None and (found := EXIT_CODE.search(said[:500])):
        code = int(found[1])
    failed = code not in (None, 0) or read.at("success").value is False
    return failure(said) if failed else ""


# --- gemini_cli

BYTES_MAX: Final = 256 << 20
PROJECT_ROOT: Final = ".project_root"
"""The file beside the chats that names the project's directory."""


def _gemini_directory(path: Path) -> str | None:
    try:
        return read_bytes(path.parent.parent / PROJECT_ROOT).decode().strip() or None
    except (OSError, UnicodeDecodeError):
        return None


def _gemini_cli(path: Path) -> Iterator[Entry]:
    records = _gemini_records(path)
    messages = [one for record in records for one in (record, *record.at("messages").items)]
    newest = {one.at("id").text: one for one in messages if one.at("id").text}
    for number, message in enumerate(newest.values()):
        text, time = message.at("content").said.strip(), message.at("timestamp").time
        if message.at("type").value == "user" and text:
            yield Prompt(message.at("id").name_or(number), text, time)
        elif message.at("type").value == "gemini":
            for call in message.at("toolCalls").items:
                failed = call.at("status").value == "error"
                error = failure(call.at("resultDisplay").text) if failed else ""
                yield _ran(call.at("name").text, call.at("args"), error)
            if text:
                yield AgentReply(text, time)


def _gemini_records(path: Path) -> Iterator[Json]:
    if path.suffix == ".jsonl":
        yield from (line for _, line in lines(path))
    elif path.stat().st_size <= BYTES_MAX:
        yield decoded(read_bytes(path))


# --- opencode

SAID: Final = """
SELECT m.id, m.data, p.data FROM message m JOIN part p ON p.message_id = m.id
WHERE m.session_id = ? ORDER BY m.time_created, m.id, p.id
"""
DIRECTORY: Final = "SELECT directory FROM session WHERE id = ?"
SESSIONS: Final = "SELECT id FROM session WHERE parent_id IS NULL ORDER BY id"
"""Without those of sub-agents."""


def _opencode(path: Path) -> Iterator[Entry]:
    rows = _rows(path.parent, SAID, path.name)
    for (message_id, data), of_message in groupby(rows, lambda row: (row[0], row[1])):
        message, parts = decoded(data.encode()), [decoded(row[2].encode()) for row in of_message]
        created = message.at("time", "created").value
        time = datetime.fromtimestamp(created / 1e3, UTC) if isinstance(created, int) else EPOCH
        kept = [one for one in parts if one.at("synthetic").value is not True]
        text = "\n".join(one.at("text").text for one in kept if one.at("type").text == "text")
        if message.at("role").text == "user" and text.strip():
            yield Prompt(message_id, text.strip(), time)
        elif message.at("role").text == "assistant":
            yield from (_opencode_run(one) for one in kept if one.at("type").text == "tool")
            if text.strip():
                yield AgentReply(text.strip(), time)


def _opencode_run(part: Json) -> Ran:
    state = part.at("state")
    code = state.at("metadata", "exit").value
    failed = state.at("status").text == "error" or code not in (None, 0)
    error = failure(state.at("error").text or state.at("output").text) if failed else ""
    return _ran(part.at("tool").text, state.at("input"), error)


def _rows(path: Path, query: str, *given: str) -> list[Any]:
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as found:
            return found.execute(query, given).fetchall()
    except sqlite3.Error as error:
        raise OSError(f"{path} cannot be read: {error}") from error


# --- event_lines


def _event_lines(path: Path) -> Iterator[Entry]:
    asked, changed = _Asked(), _changed_at(path)
    for number, line in lines(path):
        kind, data = line.at("type").text, line.at("data")
        time = changed if (stamp := line.at("timestamp").time) == EPOCH else stamp
        prompt = data.at("content").text or line.at("user_input", "user_response").text
        reply = data.at("content").text or line.at("planner_response", "response").text
        if kind in ("user.message", "user_input") and prompt.strip():
            yield Prompt(line.at("id").name_or(number), prompt.strip(), time)
        elif kind in ("assistant.message", "planner_response") and reply.strip():
            yield AgentReply(reply.strip(), time)
        elif kind == "code_action":
            yield Ran(kind, file=line.at(kind, "path").text)
        elif kind == "tool.execution_start":
            given = _object(data.at("arguments"))
            asked[data.at("toolCallId").text] = _ran(data.at("toolName").text, given)
        elif kind == "tool.execution_complete":
            failed = data.at("success").value is False
            error = failure(data.at("result", "content").text) if failed else ""
            yield from asked.ended(data.at("toolCallId"), error)


READERS: Final[Mapping[str, Reader]] = {
    "claude_code": Reader(_claude_code, _first("cwd")),
    "codex": Reader(_codex, _first("payload", "cwd"), lambda path: path.stem[-UUID_LENGTH:]),
    "gemini_cli": Reader(
        _gemini_cli,
        _gemini_directory,
        lambda path: _text_at(_gemini_records(path), "sessionId") or path.stem,
    ),
    "opencode": Reader(
        _opencode,
        lambda path: next((row[0] for row in _rows(path.parent, DIRECTORY, path.name)), None),
        lambda path: path.name,
        lambda path: (path / row[0] for row in _rows(path, SESSIONS)),
    ),
    "event_lines": Reader(_event_lines, _first("data", "context", "cwd")),
}
