"""LongMemEval's files: 500 questions, each with a haystack of chat sessions of its own.

A file is a JSON list, of 15 MB (oracle), 280 MB (s) or 2.7 GB (m). It is mapped, not read, and each
question is decoded when its turn comes, so memory holds one haystack at a time.
"""

import mmap
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import click
import msgspec

WHERE: Final = (
    "get longmemeval_s_cleaned.json, longmemeval_m_cleaned.json or longmemeval_oracle.json from "
    "https://huggingface.co/datasets/xiaowu0162/longmemeval-cleaned "
    "(described at https://github.com/xiaowu0162/LongMemEval)"
)
ABSTENTION: Final = "_abs"
USER: Final = "user"
_DATE: Final = re.compile(r"(\d{4}/\d\d/\d\d)(?: \(\w+\))? (\d\d:\d\d)")  # 2023/05/20 (Sat) 02:21


class Turn(msgspec.Struct, frozen=True):
    """One thing that was said."""

    role: str
    content: str
    has_answer: bool | None = None
    """True for evidence; only sessions with evidence have the mark at all."""


class Question(msgspec.Struct, frozen=True):
    """One question and its haystack, session by session."""

    question_id: str
    question_type: str
    question: str
    question_date: str
    haystack_dates: list[str]
    haystack_session_ids: list[str]
    haystack_sessions: list[list[Turn]]
    answer_session_ids: list[str]

    def __post_init__(self) -> None:
        """Refuse what cannot be: msgspec says which question it was."""
        sizes = {
            len(self.haystack_dates), len(self.haystack_session_ids), len(self.haystack_sessions)
        }  # fmt: skip
        if len(sizes) != 1:
            raise ValueError(f"{self.question_id}: {sorted(sizes)} dates, ids and sessions")
        for text in (self.question_date, *self.haystack_dates):
            date(text)

    @property
    def abstains(self) -> bool:
        """True if nothing in the haystack answers it."""
        return ABSTENTION in self.question_id


def date(text: str) -> datetime:
    """Return a date like `2023/05/20 (Sat) 02:21`, taken as UTC.

    :raises ValueError: it is not one.
    """
    match = _DATE.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"the date {text!r:.40} is not like '2023/05/20 (Sat) 02:21'")
    return datetime.strptime(f"{match[1]} {match[2]}", "%Y/%m/%d %H:%M").replace(tzinfo=UTC)


class QuestionFile:
    """The questions of a file, checked; they are decoded anew each time they are gone through.

    With a `limit` that many, spread evenly over the file, which has its types one after another.

    :raises click.ClickException: it is no LongMemEval file; the message says where to get one.
    """

    def __init__(self, path: Path, limit: int | None = None):
        try:
            raws = _raws(path)
            for raw in raws:
                _decoder.decode(raw)
        except OSError as error:
            raise click.ClickException(
                f"{path} cannot be read ({error.strerror}): {WHERE}"
            ) from error
        except ValueError as error:  # msgspec's errors are ValueErrors
            raise click.ClickException(
                f"{path} is no LongMemEval file ({error}): {WHERE}"
            ) from error
        count = min(limit or len(raws), len(raws))
        self.in_file = len(raws)
        self._raws = [raws[number * len(raws) // count] for number in range(count)]

    def __len__(self) -> int:
        return len(self._raws)

    def __iter__(self) -> Iterator[Question]:
        return map(_decoder.decode, self._raws)


_decoder = msgspec.json.Decoder(Question)


def _raws(path: Path) -> list[msgspec.Raw]:
    with path.open("rb") as file:
        data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    raws = msgspec.json.decode(data, type=list[msgspec.Raw])
    if not raws:
        raise ValueError("it has no questions")
    return raws
