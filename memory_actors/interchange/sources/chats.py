"""ChatGPT and Claude: the archive of an export of one's data, its directory, or a file of it.

A conversation is a session, each message a memory. The words of the user, the model and its tools
are taken over, wherever the export keeps them. Text that a machine says in the name of a speaker
(thoughts, calls of tools, reminders) is noted and left out.
"""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import msgspec

from memory_actors.interchange.files import files_in
from memory_actors.interchange.sources import port
from memory_actors.interchange.sources.json_items import JsonLimits, json_items
from memory_actors.interchange.sources.markdown import facts

FILES: Final = re.compile(r"conversations(?:[-_]\d+)?\.json")
"""Large exports have several."""
CONVERSATIONS: Final = ("", "conversations")
MESSAGES: Final = "chat_messages"
UNSPOKEN: Final = (
    "thinking", "redacted_thinking", "reasoning", "redacted_reasoning", "omitted_reasoning",
    "summarized_reasoning", "thoughts", "reasoning_recap", "tool_use", "tool_call", "token_budget",
)  # fmt: skip
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


# --- ChatGPT


SPEAKERS: Final = ("user", "assistant", "tool")
SETTINGS: Final = ("user_editable_context", "model_editable_context")
"""Forms of messages that are in each conversation, and said in none."""
OTHER_BRANCHES: Final = "a message on a branch that was edited away was not taken over"


def read_chatgpt(path: Path, reading: port.SourceReading) -> port.Records:
    """Yield the messages of each conversation, in the order they were said.

    A conversation is a tree: a message that was edited has several answers. The branch that was
    shown last, up to `current_node`, is taken over; how many messages are on others is told.
    """
    for place, _, conversation in conversations(path, reading):
        nodes = conversation.get("mapping")
        if not isinstance(nodes, dict):
            reading.leave_out(place, "a conversation must have a 'mapping' of its messages")
            continue
        # The branch from the root to the current node, which by default is the newest leaf.
        name = conversation.get("current_node")
        if not isinstance(name, str) or name not in nodes:
            leaves = (
                one
                for one in reversed(nodes)
                if isinstance(nodes[one], dict) and not nodes[one].get("children")
            )
            name = next(leaves, None)
        branch: list[port.Fields] = []
        seen: set[str] = set()
        while isinstance(name, str) and name not in seen and isinstance(nodes.get(name), dict):
            seen.add(name)
            branch.append(nodes[name])
            name = nodes[name].get("parent")
        branch.reverse()
        for number, node in enumerate(branch, start=1):
            yield from _message(node, conversation, f"{place}, message {number}", reading)
        on_branch = {id(node) for node in branch}
        for node in nodes.values():
            if id(node) not in on_branch and isinstance(node, dict) and node.get("message"):
                reading.note(OTHER_BRANCHES)


def _message(
    node: port.Raw, conversation: port.Raw, place: str, reading: port.SourceReading
) -> port.Records:
    said = node.get("message")
    if said is None:  # the root
        return
    author = said.get("author") if isinstance(said, dict) else None
    content = said.get("content") if isinstance(said, dict) else None
    if not isinstance(author, dict) or not isinstance(content, dict):
        reading.leave_out(place, "a message must have an author and a content")
        return
    role, form = author.get("role"), content.get("content_type", "text")
    about = said.get("metadata") if isinstance(said.get("metadata"), dict) else {}
    is_hidden = said.get("weight") == 0 or about.get("is_visually_hidden_from_conversation")
    is_call = role == "assistant" and said.get("recipient", "all") != "all"
    if role not in SPEAKERS or form in (*UNSPOKEN, *SETTINGS) or is_hidden or is_call:
        reading.note(f"a message of {role!r:.40} in the form {form!r:.40} was not taken over")
        return
    yield from message(
        place,
        {**said, "conversation": {k: v for k, v in conversation.items() if k != "mapping"}},
        role=role,
        text="\n".join(spoken(content, reading)),
        conversation=conversation.get("conversation_id") or conversation.get("id"),
        title=conversation.get("title"),
        own_id=said.get("id") or node.get("id"),
        said_at=said.get("create_time") or conversation.get("create_time"),
        program="chatgpt",
    )


# --- Claude


ROLES: Final = {"human": "user", "user": "user", "assistant": "assistant"}
MEMORIES: Final = "memories.json"


def read_claude(path: Path, reading: port.SourceReading) -> port.Records:
    """Yield the messages of each conversation in their order, and what was noted.

    Pasted attachments and results of tools are messages, too. Each paragraph of `memories.json`,
    Claude's notes about its user, becomes a fact. Browser extensions export one conversation.
    """
    for place, _, record in conversations(path, reading, lambda name: name == MEMORIES):
        if "conversations_memory" in record or "project_memories" in record:
            yield from _memories(record, place, reading)
        else:
            yield from _conversation(record, place, reading)


def _conversation(record: port.Raw, place: str, reading: port.SourceReading) -> port.Records:
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


def _texts(
    said: port.Raw, role: str, reading: port.SourceReading
) -> Iterator[tuple[str | None, str, str]]:
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


def _attached(said: port.Raw, reading: port.SourceReading) -> Iterator[str]:
    for one in [*_list(said, "attachments"), *_list(said, "files")]:
        words = one.get("extracted_content") if isinstance(one, dict) else None
        if isinstance(words, str) and words.strip():
            reading.note("the text of an attachment was added to its message")
            yield words
        else:
            reading.note("an attachment of a message has no text in the export: left behind")


def _list(record: port.Raw, name: str) -> list[object]:
    value = record.get(name)
    return value if isinstance(value, list) else []


def _memories(record: port.Raw, place: str, reading: port.SourceReading) -> port.Records:
    projects = record.get("project_memories")
    texts = {None: record.get("conversations_memory")}
    texts |= projects if isinstance(projects, dict) else {}
    for project, text in texts.items():
        if isinstance(text, str):
            yield from facts(text, f"{place}, {project or 'memory'}", port.present(project=project))
        elif text is not None:
            reading.leave_out(place, "what was noted of a project must be a text")
