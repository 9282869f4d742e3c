"""Claude: the archive of an export of one's data, its directory, or a `conversations.json` of it.

Messages become memories of their conversation; `memories.json`, what Claude has noted of its user,
becomes facts, a paragraph each. Thoughts, the use of tools and attachments are not taken over, and
told.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from memory_actors.interchange.sources.chats import conversations, message
from memory_actors.interchange.sources.found import (
    ImportSource,
    SourceReading,
    SourceRecord,
    present,
)
from memory_actors.interchange.sources.markdown import facts

ROLES: Final = {"human": "user", "user": "user", "assistant": "assistant"}
MEMORIES: Final = "memories.json"


def read(path: Path, reading: SourceReading) -> Iterator[SourceRecord]:
    """Yield the messages of each conversation in their order, and what was noted."""
    for place, _, record in conversations(path, reading, lambda name: name == MEMORIES):
        if "conversations_memory" in record or "project_memories" in record:
            yield from _memories(record, place, reading)
        else:
            yield from _conversation(record, place, reading)


def _conversation(
    record: Mapping[str, Any], place: str, reading: SourceReading
) -> Iterator[SourceRecord]:
    messages = record.get("chat_messages")
    if not isinstance(messages, list):
        reading.leave_out(place, "a conversation must have a list of 'chat_messages'")
        return
    for number, said in enumerate(messages, start=1):
        one = f"{place}, message {number}"
        role = ROLES.get(str(said.get("sender"))) if isinstance(said, dict) else None
        if role is None:
            reading.leave_out(one, "a message must have a 'sender', human or assistant")
            continue
        for _ in [*_list(said, "attachments"), *_list(said, "files")]:
            reading.note("an attachment of a message was not taken over")
        text = _text(said, reading)
        if text.strip():
            yield message(
                one,
                {**said, "conversation": {k: v for k, v in record.items() if k != "chat_messages"}},
                role=role,
                text=text,
                conversation=record.get("uuid"),
                title=record.get("name"),
                own_id=said.get("uuid"),
                said_at=said.get("created_at") or record.get("created_at"),
                program="claude",
            )


def _list(record: Mapping[str, Any], name: str) -> list[Any]:
    value = record.get(name)
    return value if isinstance(value, list) else []


def _text(said: Mapping[str, Any], reading: SourceReading) -> str:
    """Return the words of a message: those of its parts, else its plain text."""
    words: list[str] = []
    for part in _list(said, "content"):
        form = part.get("type") if isinstance(part, dict) else type(part).__name__
        if form == "text" and isinstance(part.get("text"), str):
            words.append(part["text"])
        else:
            reading.note(f"a part of a message of the type {form!r:.60} was not taken over")
    text = said.get("text")
    return "\n\n".join(words) or (text if isinstance(text, str) else "")


def _memories(
    record: Mapping[str, Any], place: str, reading: SourceReading
) -> Iterator[SourceRecord]:
    projects = record.get("project_memories")
    texts = {None: record.get("conversations_memory")}
    texts |= projects if isinstance(projects, dict) else {}
    for project, text in texts.items():
        if isinstance(text, str):
            yield from facts(text, f"{place}, {project or 'memory'}", present(project=project))
        elif text is not None:
            reading.leave_out(place, "what was noted of a project must be a text")


SOURCE: Final = ImportSource(
    "claude", "the archive of a data export, or its conversations.json", read
)
