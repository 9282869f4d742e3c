"""ChatGPT: the archive of an export of one's data, its directory, or a `conversations.json` of it.

A conversation is a tree: a message that was edited has several answers. The branch that was shown
last, up to `current_node`, is taken over; how many messages are on others is told. A message is
kept if the user, the model or one of its tools said it in words, also in speech: not what the
system says, what is hidden, thoughts and calls of tools.
"""

from pathlib import Path
from typing import Final

from memory_actors.interchange.sources.chats import UNSPOKEN, conversations, message, spoken
from memory_actors.interchange.sources.port import Fields, Raw, Records, SourceReading

SPEAKERS: Final = ("user", "assistant", "tool")
SETTINGS: Final = ("user_editable_context", "model_editable_context")
"""Forms of messages that are in each conversation, and said in none."""
OTHER_BRANCHES: Final = "a message on a branch that was edited away was not taken over"


def read(path: Path, reading: SourceReading) -> Records:
    """Yield the messages of each conversation, in the order they were said."""
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
        branch: list[Fields] = []
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


def _message(node: Raw, conversation: Raw, place: str, reading: SourceReading) -> Records:
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
