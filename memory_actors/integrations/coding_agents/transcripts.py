"""The transcript of a session, whatever host wrote it: turns, each with what was run for it.

A host writes one line of JSON for each message. A module of its own reads them (`hosts.py` lists
them) as `Prompt`, `Reply` and `Ran`; here those become turns. A line that cannot be read costs
itself alone.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from eventlog.files.datafile import opened

Line: TypeAlias = dict[str, Any]
"""The JSON object in a line of a transcript."""

ERROR_CHARACTERS_MAX: Final = 300
"""The limit for the output of a failed command that is kept."""
LINE_BYTES_MAX: Final = 16 << 20
"""Longer ones are pictures."""
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
    """The beginning of what went wrong; empty: nothing did."""


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
        for number, line in enumerate(file):
            if len(line) <= LINE_BYTES_MAX:
                try:
                    read = msgspec.json.decode(line)
                except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                    continue
                if isinstance(read, dict):
                    yield number, read


def time_of(said: object, otherwise: datetime = EPOCH) -> datetime:
    """Return the time that a text in ISO 8601 says."""
    if not isinstance(said, str):
        return otherwise
    try:
        time = datetime.fromisoformat(said)
    except ValueError:
        return otherwise
    return time if time.tzinfo else time.replace(tzinfo=UTC)


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


def failure(said: str) -> str:
    """Return the lines of an error that tell the most: the end, where programs say what failed."""
    shown = "\n".join(line.strip() for line in said.splitlines() if line.strip())
    return shown if len(shown) <= ERROR_CHARACTERS_MAX else f"…{shown[-ERROR_CHARACTERS_MAX:]}"
