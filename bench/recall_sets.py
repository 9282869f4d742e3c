"""Sets of memories and questions to measure retrieval with, in one format.

A file is a JSON object: `{"name", "licence", "source", "users": [{"id", "memories": [{"id", "text",
"role", "session", "time"}], "questions": [{"text", "evidence", "category", "time"}]}]}`. `role`,
`session` and `time` may be null or missing; `evidence` are ids of memories of the same user, and a
question without any is one that nothing answers. A LoCoMo file is read as such a set, too: a user a
conversation, a memory a turn.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import click
import msgspec

from bench.locomo import CATEGORIES
from bench.locomo_file import Conversation, read_locomo


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
            users = [_conversation(one) for one in read_locomo(path)]
            return RecallSet(path.stem, users, "CC BY-NC 4.0", "snap-research/LoCoMo")
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


def _conversation(found: Conversation) -> SetUser:
    memories = [
        Remembered(
            id=turn.memory_id,
            text=turn.content,
            role=turn.speaker,
            session=f"session_{turn.session}",
            time=None if turn.occurred_at is None else turn.occurred_at.isoformat(),
        )
        for turn in found.turns
    ]
    asked = [
        Question(one.text, one.evidence, CATEGORIES.get(one.category, str(one.category)))
        for one in found.questions
    ]
    return SetUser(found.sample_id, memories, asked)
