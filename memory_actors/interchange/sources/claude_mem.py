"""claude-mem: its SQLite file `claude-mem.db`, with observations, summaries and prompts.

Each becomes a fact of its project, which is the user. Facts of one session have the session id of
Claude Code, although claude-mem also has an id for its own agent. The text of an observation is its
title, narrative and facts. The text of a summary is its answers, each with its name.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from memory_actors.base.json_text import decoded
from memory_actors.interchange.sources import port
from memory_actors.interchange.sources.databases import SqliteDB, columns, database, has_table, rows

FILE: Final = "claude-mem.db"
OBSERVATIONS: Final = "observations"
SUMMARIES: Final = "session_summaries"
PROMPTS: Final = "user_prompts"
SESSIONS: Final = "sdk_sessions"
WAITING: Final = "pending_messages"
NOT_COMPRESSED: Final = "a message that claude-mem has not compressed yet is not imported"
OWN_SESSION: Final = ("memory_session_id", "sdk_session_id")
HOSTS_SESSION: Final = ("content_session_id", "claude_session_id")
"""The columns of a session's id, by claude-mem's agent and by Claude Code: today's name first."""
LISTS: Final = ("facts", "concepts", "files_read", "files_modified", "files_edited")
"""Columns with JSON lists; older versions wrote plain text into some."""
ANSWERS: Final = ("request", "investigated", "learned", "completed", "next_steps", "notes")
ABOUT: Final = ("type", "concepts", "files_read", "files_modified", "files_edited")


def read(path: Path, reading: port.SourceReading) -> port.Records:
    """Yield the prompts, then the observations, then the summaries, each in their order."""
    path = path / FILE if path.is_dir() else path
    with database(path, SESSIONS, OBSERVATIONS) as connection:
        projects: port.Fields = {}
        hosts: port.Fields = {}
        for row in _rows(connection, SESSIONS):
            session = row.get(_name(row, HOSTS_SESSION))
            projects[str(session)] = row.get("project")
            hosts[str(row.get(_name(row, OWN_SESSION)))] = session
        for row in _rows(connection, PROMPTS):
            session = row.get(_name(row, HOSTS_SESSION))
            project, prompt = projects.get(str(session)), row.get("prompt_text")
            yield _record(path, "prompt", row, project, session, prompt, role="user")
        for kind, table, text in (
            ("observation", OBSERVATIONS, _observation),
            ("summary", SUMMARIES, _summary),
        ):
            for row in _rows(connection, table):
                own = row.get(_name(row, OWN_SESSION))
                session = hosts.get(str(own)) or own
                yield _record(path, kind, row, row.get("project"), session, text(row))
        for _ in _rows(connection, WAITING):
            reading.note(NOT_COMPRESSED)


def _rows(connection: SqliteDB, table: str) -> Iterator[port.Fields]:
    if not has_table(connection, table):
        return
    names = sorted(columns(connection, table))
    quoted = ", ".join('"{}"'.format(name.replace('"', '""')) for name in names)
    for row in rows(connection, f"SELECT {quoted} FROM {table} ORDER BY id"):  # noqa: S608 - ours
        yield dict(zip(names, row, strict=True))


def _name(row: port.Raw, names: tuple[str, str]) -> str:
    return next((name for name in names if name in row), names[0])


def _record(
    path: Path,
    kind: str,
    row: port.Raw,
    project: object,
    session: object,
    text: object,
    **fields: object,
) -> port.SourceRecord:
    about = {name: _list(row.get(name)) if name in LISTS else row.get(name) for name in ABOUT}
    return port.SourceRecord(
        place=f"{path}, {kind} {row.get('id')}",
        raw=row,
        user=None if project is None else str(project),
        key=[kind, row.get("id"), row.get("created_at_epoch")],
        fields=port.present(
            content=text,
            timestamp=row.get("created_at") or row.get("created_at_epoch"),
            session=None if session is None else str(session),
            metadata=port.present(**about) | {"kind": kind},
            **fields,
        ),
    )


def _observation(row: port.Raw) -> str:
    title = ": ".join(str(one) for one in (row.get("title"), row.get("subtitle")) if one)
    facts = [f"- {one}" for one in _list(row.get("facts"))]
    parts = [title, row.get("narrative"), row.get("text"), *facts]
    return "\n".join(dict.fromkeys(str(one) for one in parts if one))


def _summary(row: port.Raw) -> str:
    said = ((name.replace("_", " ").capitalize(), row.get(name)) for name in ANSWERS)
    return "\n".join(f"{name}: {one}" for name, one in said if one)


def _list(value: object) -> list[str]:
    if not isinstance(value, str) or not value.strip():
        return []
    said = decoded(value)
    return [str(one) for one in said if one] if isinstance(said, list) else [value]
