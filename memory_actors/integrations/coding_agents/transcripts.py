"""The transcript of a session, whatever host wrote it: turns, each with what was run for it.

A host writes one line of JSON for each message. A module of its own reads them (`hosts.py` lists
them) as `Prompt`, `Reply` and `Ran`; here those become turns. A line that cannot be read costs
itself alone.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple, TypeAlias

import msgspec

from eventlog.files.datafile import opened
from memory_actors.base.json_text import without_halves

Line: TypeAlias = dict[str, Any]
"""The JSON object in a line of a transcript."""

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


class Reply(NamedTuple):
    """A text of the agent."""

    id: str
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


Entry: TypeAlias = Prompt | Reply | Ran


class Turn(NamedTuple):
    """A prompt, what was done about it, and the last thing that the agent said."""

    prompt: Prompt
    runs: Sequence[Ran]
    reply: Reply | None


def turns(entries: Iterable[Entry]) -> Iterator[Turn]:
    """Yield the turns of a session. Entries before the first prompt are dropped."""
    prompt: Prompt | None = None
    runs: list[Ran] = []
    reply: Reply | None = None
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


def lines(path: Path) -> Iterator[tuple[int, Line]]:
    """Yield the number and the object of each line that holds one; the last may be half written."""
    with opened(path) as file:
        for number, line in enumerate(_short_lines(file)):
            try:
                read = msgspec.json.decode(without_halves(line.decode(errors="replace")))
            except (msgspec.DecodeError, RecursionError):
                continue
            if isinstance(read, dict):
                yield number, read


def _short_lines(file: BinaryIO) -> Iterator[bytes]:
    """Yield the lines of a file; nothing in place of one that is too long."""
    while line := file.readline(LINE_BYTES_MAX):
        is_long = False
        while len(line) == LINE_BYTES_MAX and not line.endswith(b"\n"):
            is_long, line = True, file.readline(LINE_BYTES_MAX)
        yield b"" if is_long else line


def id_of(said: object, number: int) -> str:
    """Return the id of a message, or else its number in the transcript."""
    return said if isinstance(said, str) and 0 < len(said) <= ID_LENGTH_MAX else str(number)


def time_of(said: object, otherwise: datetime = EPOCH) -> datetime:
    """Return the time that a text in ISO 8601 says."""
    if not isinstance(said, str):
        return otherwise
    try:
        time = datetime.fromisoformat(said)
        return (time if time.tzinfo else time.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        return otherwise


def text_of(content: object, *types: str) -> str:
    """Return the text of a message: a string, or its parts of some types."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    texts = [
        part["text"]
        for part in parts
        if isinstance(part, dict)
        and part.get("type", "text") in types
        and isinstance(part.get("text"), str)
    ]
    return "\n".join(texts)


def member(of: object, *path: str) -> Any:
    """Return the value at a path of keys, or None."""
    for key in path:
        of = of.get(key) if isinstance(of, dict) else None
    return of


def failure(said: object) -> str:
    """Return the end of the output of a failed command."""
    return (said.strip() if isinstance(said, str) else "")[-ERROR_CHARACTERS_MAX:] or "failed"
