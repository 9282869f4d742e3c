"""LoCoMo: very long conversations between two people, with questions about them.

A file is a list of conversations (or one). Each becomes a user, its `sample_id`, and each turn a
memory: `speaker: text`, and ` [photo: caption]` where a photo was shared. Its id is the turn's
`dia_id` (`D3:12`), its time the date of the session, taken as UTC, plus a second a turn.

A question's evidence are the turns that answer it: all `D<session>:<turn>` in its `evidence` that
are in the conversation. Questions that have none are dropped.
"""

import re
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec

from memory_actors import Item
from memory_actors.base.records import JsonObject
from memory_actors.sharing.system import UserMemory

BATCH_TURNS = 200
DATE_FORMAT = "%I:%M %p on %d %B, %Y"  # 1:56 pm on 8 May, 2023
SESSION = re.compile(r"session_(\d+)")
DIALOGUE_ID = re.compile(r"D\d+:\d+")


class Turn(msgspec.Struct, frozen=True):
    """One thing that was said."""

    memory_id: str
    dia_id: str
    session: int
    speaker: str
    content: str
    occurred_at: datetime | None
    """Missing if the session has no date."""


class Question(msgspec.Struct, frozen=True):
    """One question with the turns that answer it."""

    text: str
    evidence: tuple[str, ...]
    category: int


class Conversation(msgspec.Struct, frozen=True):
    """One conversation: its turns in order, and the questions about it that some turn answers."""

    sample_id: str
    turns: list[Turn]
    questions: list[Question]


class _Conversation(msgspec.Struct):
    sample_id: str
    conversation: JsonObject
    qa: list[JsonObject] = []


class _Turn(msgspec.Struct):
    speaker: str
    dia_id: str
    text: str
    blip_caption: str | None = None


def read_locomo(path: Path) -> list[Conversation]:
    """Return the conversations of a file.

    :raises msgspec.MsgspecError: it is no LoCoMo file.
    """
    found = msgspec.json.decode(path.read_bytes(), type=list[_Conversation] | _Conversation)
    return [_conversation(one) for one in (found if isinstance(found, list) else [found])]


def _conversation(found: _Conversation) -> Conversation:
    turns = list(_turns(found.conversation))
    known = {turn.dia_id for turn in turns}
    questions = []
    for asked in found.qa:
        named = dict.fromkeys(DIALOGUE_ID.findall(str(asked.get("evidence", ""))))
        evidence = tuple(dia_id for dia_id in named if dia_id in known)
        if evidence and (text := asked.get("question")):
            questions.append(Question(str(text), evidence, int(asked.get("category", 0))))
    return Conversation(found.sample_id, turns, questions)


def _turns(conversation: JsonObject) -> Iterator[Turn]:
    seen: Counter[str] = Counter()
    for session in sorted(
        int(match[1]) for key in conversation if (match := SESSION.fullmatch(key))
    ):
        date = conversation.get(f"session_{session}_date_time")
        began_at = date and datetime.strptime(date.strip(), DATE_FORMAT).replace(tzinfo=UTC)
        said = msgspec.convert(conversation[f"session_{session}"] or [], list[_Turn])
        for offset_s, turn in enumerate(said):
            photo = f" [photo: {turn.blip_caption}]" if turn.blip_caption else ""
            seen[turn.dia_id] += 1
            again = seen[turn.dia_id]
            yield Turn(
                memory_id=turn.dia_id if again == 1 else f"{turn.dia_id}#{again}",
                dia_id=turn.dia_id,
                session=session,
                speaker=turn.speaker,
                content=f"{turn.speaker}: {turn.text}{photo}",
                occurred_at=began_at and began_at + timedelta(seconds=offset_s),
            )


async def import_conversation(user: UserMemory, conversation: Conversation) -> None:
    """Add a conversation's turns to a user's memories."""
    items = [
        Item(
            content=turn.content,
            metadata={"dia_id": turn.dia_id, "session": turn.session},
            occurred_at=turn.occurred_at,
            session_id=f"session_{turn.session}",
            role=turn.speaker,
            memory_id=turn.memory_id,
        )
        for turn in conversation.turns
    ]
    for start in range(0, len(items), BATCH_TURNS):
        await user.add_many(items[start : start + BATCH_TURNS])
