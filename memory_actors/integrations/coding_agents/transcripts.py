"""The transcript of a session, whatever host wrote it: turns, each with what was run for it.

`readers.py` yields `Prompt`, `Reply` and `Ran`; here those become turns. A line that cannot be read
costs itself alone.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple, TypeAlias

import msgspec

from eventlog.files.datafile import opened
from memory_actors.base.json_text import without_halves

ERROR_CHARACTERS_MAX: Final = 20_000
"""The limit for the end of a failed command's output: more than is kept, so that it is cleaned."""
LINE_BYTES_MAX: Final = 16 << 20
"""Longer ones are pictures."""
ID_LENGTH_MAX: Final = 100
EPOCH: Final = datetime.fromtimestamp(0, UTC)


class Prompt(NamedTuple):
    """What a person asked."""

    id: str
    """The same whenever the transcript is read, and no other message's of the session."""
    text: str
    time: datetime


class AgentReply(NamedTuple):
    """A text of the agent."""

    text: str
    time: datetime


class Ran(NamedTuple):
    """One use of a tool, when its result is there."""

    tool: str
    command: str = ""
    """The command line, if it was one."""
    file: str = ""
    """The file that it changed, if it was one."""
    error: str = ""
    """The end of what it said of its failure; empty: it did not fail."""


Entry: TypeAlias = Prompt | AgentReply | Ran


class Turn(NamedTuple):
    """A prompt, what was done about it, and the last thing that the agent said."""

    prompt: Prompt
    runs: Sequence[Ran]
    reply: AgentReply | None


def turns(entries: Iterable[Entry]) -> Iterator[Turn]:
    """Yield the turns of a session. Entries before the first prompt are dropped."""
    prompt: Prompt | None = None
    runs: list[Ran] = []
    reply: AgentReply | None = None
    for entry in entries:
        if isinstance(entry, Prompt):
            if prompt is not None:
                yield Turn(prompt, runs, reply)
            prompt, runs, reply = entry, [], None
        elif isinstance(entry, Ran):
            runs.append(entry)
        else:
            reply = entry
    if prompt is not None:
        yield Turn(prompt, runs, reply)


# --- JSON, whatever somebody has made of it


class Json:
    """A value of a transcript: what is not there, or is something else, is nothing."""

    __slots__ = ("value",)

    def __init__(self, value: object):
        self.value = value

    def at(self, *path: str) -> "Json":
        """Return the value at a path of keys."""
        value = self.value
        for key in path:
            value = value.get(key) if isinstance(value, dict) else None
        return Json(value)

    @property
    def items(self) -> Sequence["Json"]:
        """The items of a list."""
        return [*map(Json, self.value)] if isinstance(self.value, list) else ()

    @property
    def text(self) -> str:
        """A string."""
        return self.value if isinstance(self.value, str) else ""

    @property
    def said(self) -> str:
        """The text of a message: a string, or its parts of the type "text"."""
        parts = (one for one in self.items if one.at("type").value in (None, "text"))
        texts = (part.at("text").value for part in parts)
        return self.text or "\n".join(text for text in texts if isinstance(text, str))

    @property
    def time(self) -> datetime:
        """A time in ISO 8601."""
        try:
            time = datetime.fromisoformat(self.text)
            return (time if time.tzinfo else time.replace(tzinfo=UTC)).astimezone(UTC)
        except (ValueError, OverflowError):
            return EPOCH

    def name_or(self, number: int) -> str:
        """Return the id of a message, or else its number in the transcript."""
        return self.text if 0 < len(self.text) <= ID_LENGTH_MAX else str(number)


def decoded(text: bytes) -> Json:
    """Return the value of a JSON text."""
    try:
        return Json(msgspec.json.decode(without_halves(text.decode(errors="replace"))))
    except (msgspec.DecodeError, RecursionError):
        return Json(None)


def lines(path: Path) -> Iterator[tuple[int, Json]]:
    """Yield the number and the object of each line that holds one; the last may be half written."""
    with opened(path) as file:
        for number, line in enumerate(_short_lines(file)):
            read = decoded(line)
            if isinstance(read.value, dict):
                yield number, read


def _short_lines(file: BinaryIO) -> Iterator[bytes]:
    while line := file.readline(LINE_BYTES_MAX):
        is_long = False
        while len(line) == LINE_BYTES_MAX and not line.endswith(b"\n"):
            is_long, line = True, file.readline(LINE_BYTES_MAX)
        yield b"" if is_long else line


def failure(said: str) -> str:
    """Return the end of the output of a failed command."""
    return said.strip()[-ERROR_CHARACTERS_MAX:] or "failed"
