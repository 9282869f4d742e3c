"""Helpers for exports of chats: a conversation is a session, each message a memory.

The words of the user, the model and its tools are taken over, wherever the export keeps them. Text
that a machine says in the name of a speaker (thoughts, calls of tools, reminders) is noted and left
out.
"""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import msgspec

from memory_actors.interchange.files import files_in
from memory_actors.interchange.sources import port
from memory_actors.interchange.sources.json_items import JsonLimits, json_items

FILES: Final = re.compile(r"conversations(?:[-_]\d+)?\.json")
"""Large exports have several."""
CONVERSATIONS: Final = ("", "conversations")
MESSAGES: Final = "chat_messages"
UNSPOKEN: Final = (
    "thinking", "redacted_thinking", "reasoning", "redacted_reasoning", "omitted_reasoning",
    "summarized_reasoning", "thoughts", "reasoning_recap", "tool_use", "tool_call", "token_budget",
)  # fmt: skip
"""Types of parts that hold no words of a speaker."""
WORDS: Final = ("text", "extracted_content", "transcript", "parts", "content", "result")
"""The fields of a part that hold its words; the first that is there does."""
DEPTH_MAX: Final = 20
REMINDER: Final = re.compile(
    r"<([a-z_-]+[_-]reminder)>(?:(?!<[a-z_-]+[_-]reminder>).)*?</\1>\s*", re.DOTALL
)
TEXT_CHARACTERS_MAX: Final = 64 << 10  # of one memory, at 4 bytes each


def conversations(
    path: Path, reading: port.SourceReading, others: Callable[[str], bool] = lambda _name: False
) -> Iterator[tuple[str, str, port.Fields]]:
    """Yield each conversation of an export with its place and the name of its file.

    A file may be a list of them, or one of them: that is read whole.
    """

    def wanted(name: str) -> bool:
        return bool(FILES.fullmatch(name)) or others(name)

    for name, file in files_in(path, wanted):
        only: port.Fields = {}
        room = JsonLimits(f"{path}, {name}")
        items = json_items(file, f"{path}, {name}", CONVERSATIONS)
        for number, (member, value) in enumerate(items, start=1):
            if member not in CONVERSATIONS:
                room.take(msgspec.json.encode({member: value}).decode())
                if member == MESSAGES:
                    only.setdefault(member, []).append(value)
                else:
                    only[member] = value
            else:
                place = f"{path}, {name}, {number}"
                record = port.as_object(value, place, reading)
                if record is not None:
                    yield place, name, record
        if only:
            yield f"{path}, {name}", name, only


def spoken(part: object, reading: port.SourceReading, depth: int = 0) -> Iterator[str]:
    """Yield the words of a part of a message; a part without words is told."""
    if isinstance(part, str):
        text, reminders = REMINDER.subn("", part)
        if reminders:
            reading.note("a reminder in a message is none of its words: it was not taken over")
        yield text
    elif isinstance(part, list) and depth < DEPTH_MAX:
        for one in part:
            yield from spoken(one, reading, depth + 1)
    elif isinstance(part, dict) and depth < DEPTH_MAX:
        form = part.get("type") or part.get("content_type")
        said = next((part[name] for name in WORDS if part.get(name)), None)
        if form in UNSPOKEN or not isinstance(said, str | list | dict):
            reading.note(f"a part of a message of the type {form!r:.60} was not taken over")
        else:
            yield from spoken(said, reading, depth + 1)
    elif part is not None:
        reading.note("a part of a message that has no words was not taken over")


def message(
    place: str, raw: port.Fields, *, role: str, text: str, conversation: object, title: object,
    own_id: object, said_at: object, program: str, part: object = None, **metadata: object,
) -> Iterator[port.SourceRecord]:  # fmt: skip
    """Yield a message as a record; a long one as several.

    `part` tells one text of a message from another.
    """
    left, number = text, 0
    while left.strip():
        room = left[:TEXT_CHARACTERS_MAX]
        end = len(left) if room == left else max(room.rfind("\n"), room.rfind(" ")) + 1 or len(room)
        said, left = left[:end], left[end:]
        which = [one for one in (part, number or None) if one is not None]
        if said.strip():
            yield port.SourceRecord(
                place=place,
                raw=raw,
                key=None if own_id is None else [conversation, own_id, *which],
                fields=port.present(
                    content=said,
                    timestamp=said_at,
                    session=conversation,
                    role=role,
                    metadata=port.present(**{"title": title, f"{program}_id": own_id}, **metadata),
                ),
            )
        number += 1
