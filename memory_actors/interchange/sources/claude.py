"""Claude: the archive of an export of one's data, its directory, or a `conversations.json` of it.

Messages become memories of their conversation, and so do the texts that were pasted as attachments
and the results of tools. `memories.json`, what Claude has noted of its user, becomes facts, a
paragraph each. Thoughts, calls of tools and files are not taken over, and told. A conversation by
itself, as browser extensions export it, is read too.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from memory_actors.interchange.sources.chats import MESSAGES, conversations, message, spoken
from memory_actors.interchange.sources.markdown import facts
from memory_actors.interchange.sources.port import Raw, Records, SourceReading, present

ROLES: Final = {"human": "user", "user": "user", "assistant": "assistant"}
MEMORIES: Final = "memories.json"


def read(path: Path, reading: SourceReading) -> Records:
    """Yield the messages of each conversation in their order, and what was noted."""
    for place, _, record in conversations(path, reading, lambda name: name == MEMORIES):
        if "conversations_memory" in record or "project_memories" in record:
            yield from _memories(record, place, reading)
        else:
            yield from _conversation(record, place, reading)


def _conversation(record: Raw, place: str, reading: SourceReading) -> Records:
    messages = record.get(MESSAGES)
    if not isinstance(messages, list):
        reading.leave_out(place, "a conversation must have a list of 'chat_messages'")
        return
    for number, said in enumerate(messages, start=1):
        one = f"{place}, message {number}"
        role = ROLES.get(str(said.get("sender"))) if isinstance(said, dict) else None
        if role is None:
            reading.leave_out(one, "a message must have a 'sender', human or assistant")
            continue
        about = {**said, "conversation": {k: v for k, v in record.items() if k != MESSAGES}}
        for part, speaker, text in _texts(said, role, reading):
            yield from message(
                one,
                about,
                role=speaker,
                text=text,
                conversation=record.get("uuid"),
                title=record.get("name"),
                own_id=said.get("uuid"),
                said_at=said.get("created_at") or record.get("created_at"),
                program="claude",
                part=part,
            )


def _texts(said: Raw, role: str, reading: SourceReading) -> Iterator[tuple[str | None, str, str]]:
    """Yield the texts of a message: which one, who says it, and its words.

    First the results of tools, then what its speaker says in its parts or else its plain text, and
    in what is attached.
    """
    content = said.get("content")
    parts = content if isinstance(content, list) else [content] if content else []
    others: list[object] = []
    for number, part in enumerate(parts):
        if isinstance(part, dict) and str(part.get("type")).endswith("tool_result"):
            result = part.get("content") or part.get("message")
            yield f"result {number}", "tool", "\n\n".join(spoken(result, reading))
        else:
            others.append(part)
    words = [*filter(str.strip, spoken(others, reading))]
    # If there are other parts, the plain text only says that they are not shown.
    if not words and all(isinstance(one, dict) and one.get("type") == "text" for one in parts):
        words = [*filter(str.strip, spoken(said.get("text"), reading))]
    yield None, role, "\n\n".join([*words, *_attached(said, reading)])


def _attached(said: Raw, reading: SourceReading) -> Iterator[str]:
    for one in [*_list(said, "attachments"), *_list(said, "files")]:
        words = one.get("extracted_content") if isinstance(one, dict) else None
        if isinstance(words, str) and words.strip():
            reading.note("the text of an attachment was added to its message")
            yield words
        else:
            reading.note("an attachment of a message has no text in the export: left behind")


def _list(record: Raw, name: str) -> list[object]:
    value = record.get(name)
    return value if isinstance(value, list) else []


def _memories(record: Raw, place: str, reading: SourceReading) -> Records:
    projects = record.get("project_memories")
    texts = {None: record.get("conversations_memory")}
    texts |= projects if isinstance(projects, dict) else {}
    for project, text in texts.items():
        if isinstance(text, str):
            yield from facts(text, f"{place}, {project or 'memory'}", present(project=project))
        elif text is not None:
            reading.leave_out(place, "what was noted of a project must be a text")
