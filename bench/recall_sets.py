"""Sets of memories and questions to measure retrieval with, in one format.

A file is a JSON object: `{"name", "licence", "source", "users": [{"id", "memories": [{"id", "text",
"role", "session", "time"}], "questions": [{"text", "evidence", "category", "time"}]}]}`. `role`,
`session` and `time` may be null or missing; `evidence` are ids of memories of the same user, and a
question without any is one that nothing answers. A LoCoMo file is read as such a set, too: a user a
conversation, a memory a turn.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import click
import msgspec

from memory_actors import Item
from memory_actors.base.records import JsonObject
from memory_actors.sharing.system import UserMemory


class Remembered(msgspec.Struct, frozen=True):
    """One memory of a user of a set."""

    id: str
    text: str
    role: str | None = None
    session: str | None = None
    time: str | None = None


class Question(msgspec.Struct, frozen=True):
    """One question, and the memories that answer it."""

    text: str
    evidence: Sequence[str]
    category: str = ""
    time: str | None = None
    """The time at which it is asked."""


class SetUser(msgspec.Struct, frozen=True):
    """One user: their memories, and the questions about them."""

    id: str
    memories: Sequence[Remembered]
    questions: Sequence[Question]


class RecallSet(msgspec.Struct, frozen=True):
    """All users of a file."""

    name: str
    users: Sequence[SetUser]
    licence: str = ""
    source: str = ""


def read_set(path: Path) -> RecallSet:
    """Return the set that a file holds.

    :raises click.ClickException: it is neither such a set nor a LoCoMo file, or a question names
        a memory that its user has not got.
    """
    try:
        found = msgspec.json.decode(path.read_bytes())
        if isinstance(found, list) or (isinstance(found, Mapping) and "qa" in found):
            return RecallSet(path.stem, read_locomo(path), "CC BY-NC 4.0", "snap-research/LoCoMo")
        read = msgspec.convert(found, RecallSet)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise click.ClickException(f"{path} is no set of memories and questions: {error}") from None
    for user in read.users:
        _check(user, path)
    return read


def _check(user: SetUser, path: Path) -> None:
    known = {memory.id for memory in user.memories}
    for question in user.questions:
        if unknown := set(question.evidence) - known:
            raise click.ClickException(
                f"{path}: the user {user.id} has no memories {sorted(unknown)}, which the question "
                f"{question.text!r} names"
            )


# --- LoCoMo: very long conversations between two people, with questions about them
#
# A file is a list of conversations, or one. Each turn is a memory: `speaker: text`, and
# ` [photo: caption]` where a photo was shared. Its id is the turn's `dia_id` (`D3:12`), its time
# the date of the session, taken as UTC, plus a second a turn. A question's evidence are all
# `D<session>:<turn>` in its `evidence` that are in the conversation; those without are dropped.

CATEGORIES = {1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop", 5: "adversarial"}
DATE_FORMAT = "%I:%M %p on %d %B, %Y"  # 1:56 pm on 8 May, 2023
SESSION = re.compile(r"session_(\d+)")
DIALOGUE_ID = re.compile(r"D\d+:\d+")
ADDED_AT_ONCE = 200


class _Conversation(msgspec.Struct):
    sample_id: str
    conversation: JsonObject
    qa: list[JsonObject] = []


class _Turn(msgspec.Struct):
    speaker: str
    dia_id: str
    text: str
    blip_caption: str | None = None


def read_locomo(path: Path) -> list[SetUser]:
    """Return the conversations of a LoCoMo file, each as a user.

    :raises msgspec.MsgspecError: it is no LoCoMo file.
    """
    found = msgspec.json.decode(path.read_bytes(), type=list[_Conversation] | _Conversation)
    return [_of_conversation(one) for one in (found if isinstance(found, list) else [found])]


def _of_conversation(found: _Conversation) -> SetUser:
    turns = list(_turns(found.conversation))
    known = {turn.id for turn in turns}
    questions = []
    for asked in found.qa:
        named = dict.fromkeys(DIALOGUE_ID.findall(str(asked.get("evidence", ""))))
        evidence = tuple(dia_id for dia_id in named if dia_id in known)
        if evidence and (text := asked.get("question")):
            category = int(asked.get("category", 0))
            questions.append(Question(str(text), evidence, CATEGORIES.get(category, str(category))))
    return SetUser(found.sample_id, turns, questions)


def _turns(conversation: JsonObject) -> Iterator[Remembered]:
    seen: Counter[str] = Counter()
    for session in sorted(int(match[1]) for match in map(SESSION.fullmatch, conversation) if match):
        date = conversation.get(f"session_{session}_date_time")
        began_at = date and datetime.strptime(date.strip(), DATE_FORMAT).replace(tzinfo=UTC)
        said = msgspec.convert(conversation[f"session_{session}"] or [], list[_Turn])
        for offset_s, turn in enumerate(said):
            photo = f" [photo: {turn.blip_caption}]" if turn.blip_caption else ""
            seen[turn.dia_id] += 1
            again = seen[turn.dia_id]
            yield Remembered(
                id=turn.dia_id if again == 1 else f"{turn.dia_id}#{again}",
                text=f"{turn.speaker}: {turn.text}{photo}",
                role=turn.speaker,
                session=f"session_{session}",
                time=began_at and (began_at + timedelta(seconds=offset_s)).isoformat(),
            )


async def import_user(user: UserMemory, known: SetUser) -> None:
    """Add what a user of a set remembers, under its own ids."""
    items = [
        Item(
            content=one.text, role=one.role, session_id=one.session, occurred_at=one.time,
            memory_id=one.id,
        )
        for one in known.memories
    ]  # fmt: skip
    for start in range(0, len(items), ADDED_AT_ONCE):
        await user.add_many(items[start : start + ADDED_AT_ONCE])
