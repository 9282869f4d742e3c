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
from typing import Final, TypeVar

import msgspec

from memory_actors.base.errors import InvalidInputError
from memory_actors.base.json_text import without_halves
from memory_actors.base.records import Item, JsonObject
from memory_actors.interchange.files import open_file
from memory_actors.interchange.noting import ImportReport, together
from memory_actors.interchange.records import Progress
from memory_actors.sharing.system import MemorySystem, UserMemory

FILE_BYTES_MAX: Final = 256 << 20  # the whole of LoCoMo has 3 MB
BATCH_TURNS: Final = 200
DATE_FORMAT: Final = "%I:%M %p on %d %B, %Y"  # 1:56 pm on 8 May, 2023
_SESSION: Final = re.compile(r"session_(\d+)")
_DIALOGUE_ID: Final = re.compile(r"D\d+:\d+")

T = TypeVar("T")


class LocomoTurn(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that was said."""

    memory_id: str
    dia_id: str
    session: int
    speaker: str
    content: str
    occurred_at: datetime | None
    """Missing if the session has no date."""


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """One question with the turns that answer it."""

    text: str
    evidence: tuple[str, ...]
    category: int


class LocomoConversation(msgspec.Struct, frozen=True, kw_only=True):
    """One conversation: its turns in order, and what is asked about it."""

    sample_id: str
    turns: list[LocomoTurn]
    qa: list[JsonObject]


class _Conversation(msgspec.Struct):
    sample_id: str
    conversation: JsonObject
    qa: list[JsonObject] = []


class _Turn(msgspec.Struct):
    speaker: str
    dia_id: str
    text: str
    blip_caption: str | None = None


# --- read


def read_locomo(path: str | Path) -> list[LocomoConversation]:
    """Return the conversations of a file.

    :raises InvalidInputError: it is no LoCoMo file; the message says where.
    """
    with open_file(Path(path)) as file:
        data = file.read(FILE_BYTES_MAX + 1)
    if len(data) > FILE_BYTES_MAX:
        raise InvalidInputError(
            f"{path} is over {FILE_BYTES_MAX:,} bytes: split it by conversation"
        )
    name = str(path)
    try:
        found = msgspec.json.decode(without_halves(data.decode("utf-8-sig", "replace")))
    except (msgspec.DecodeError, RecursionError) as error:
        raise InvalidInputError(
            f"{name} is no LoCoMo file: it is not JSON ({error}). JSON lines go with --format jsonl"
        ) from error
    listed = found if isinstance(found, list) else [found]
    found = _typed(listed, list[_Conversation], f"{name} is no LoCoMo file")
    return [_conversation(one, str(path)) for one in found]


def questions(conversation: LocomoConversation) -> list[Question]:
    """Return the questions that some turn of the conversation answers."""
    known = {turn.dia_id for turn in conversation.turns}
    found = []
    for asked in conversation.qa:
        named = _DIALOGUE_ID.findall(str(asked.get("evidence", "")))
        evidence = tuple(dict.fromkeys(dia_id for dia_id in named if dia_id in known))
        if evidence and (text := asked.get("question")):
            category = int(asked.get("category", 0))
            found.append(Question(text=str(text), evidence=evidence, category=category))
    return found


def _conversation(found: _Conversation, name: str) -> LocomoConversation:
    sessions = (_SESSION.fullmatch(key) for key in found.conversation)
    numbers = sorted(int(match[1]) for match in sessions if match)
    seen: Counter[str] = Counter()
    turns = [
        turn
        for number in numbers
        for turn in _session(found, number, seen, f"{name}, {found.sample_id}, session_{number}")
    ]
    return LocomoConversation(sample_id=found.sample_id, turns=turns, qa=found.qa)


def _session(
    found: _Conversation, number: int, seen: Counter[str], place: str
) -> Iterator[LocomoTurn]:
    began_at = _date(found.conversation.get(f"session_{number}_date_time"), place)
    turns = _typed(found.conversation[f"session_{number}"] or [], list[_Turn], place)
    for offset_s, turn in enumerate(turns):
        photo = f" [photo: {turn.blip_caption}]" if turn.blip_caption else ""
        seen[turn.dia_id] += 1
        again = seen[turn.dia_id]
        yield LocomoTurn(
            memory_id=turn.dia_id if again == 1 else f"{turn.dia_id}#{again}",
            dia_id=turn.dia_id,
            session=number,
            speaker=turn.speaker,
            content=f"{turn.speaker}: {turn.text}{photo}",
            occurred_at=None if began_at is None else began_at + timedelta(seconds=offset_s),
        )


def _date(text: object, place: str) -> datetime | None:
    if text is None:
        return None
    try:
        return datetime.strptime(str(text).strip(), DATE_FORMAT).replace(tzinfo=UTC)
    except ValueError as error:
        raise InvalidInputError(
            f"{place}: the date {text!r:.80} is not like '1:56 pm on 8 May, 2023'"
        ) from error


def _typed(value: object, kind: type[T], place: str) -> T:
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise InvalidInputError(f"{place}: {error}") from error


# --- import


async def import_locomo(
    memory: MemorySystem, path: str | Path, *, progress: Progress | None = None
) -> ImportReport:
    """Add each conversation of a file as a user of its own; `progress` hears turns.

    :raises InvalidInputError: it is no LoCoMo file; nothing was added.
    """
    conversations = read_locomo(path)
    total, done = sum(len(conversation.turns) for conversation in conversations), 0
    reports = []
    for conversation in conversations:
        user = memory.user(conversation.sample_id)
        reports.append(
            await import_conversation(user, conversation, _shifted(progress, done, total))
        )
        done += len(conversation.turns)
    return together(reports)


async def import_conversation(
    user: UserMemory, conversation: LocomoConversation, progress: Progress | None = None
) -> ImportReport:
    """Add a conversation's turns to a user's memories; `progress` hears turns."""
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
    receipts = []
    for start in range(0, len(items), BATCH_TURNS):
        receipts += await user.add_many(items[start : start + BATCH_TURNS])
        if progress is not None:
            progress(len(receipts), len(items))
    added = [receipt for receipt in receipts if receipt.operation != "unchanged"]
    return ImportReport(
        users=[user.user_id],
        added=len(added),
        unchanged=len(receipts) - len(added),
        unindexed=sum(not receipt.indexed for receipt in added),
    )


def _shifted(progress: Progress | None, before: int, total: int) -> Progress | None:
    """Return a progress of one part as a progress of the whole."""
    if progress is None:
        return None
    return lambda done, _total: progress(before + done, total)
