"""Passages: the parts of a long text that are embedded and found on their own.

A text longer than the model's input is cut at lines, sentences or words. The cuts follow from the
text alone, and nothing of them is stored.
"""

from collections.abc import Iterator
from itertools import islice
from typing import Final, NamedTuple

from memory_actors.kinds.phrasing import spoken, text_digest

PASSAGE_BYTES_MAX: Final = 800
"""Some 200 tokens of English. Bytes, for a Chinese character is a token and has three of them."""
LONG_BYTES: Final = 1_200
"""A text of up to so many bytes is one passage: a model that reads 256 tokens reads all of it."""
PASSAGE_BITS: Final = 10
EVENT_PASSAGES_MAX: Final = 1 << PASSAGE_BITS
"""Of one event: texts that are found on their own."""
PASSAGES_MAX: Final = 64
"""Of one text: the first 50 KB of it. The rest is stored, and found by the beginning."""
HEADING_MAX: Final = 200


class Passage(NamedTuple):
    """A text that is found on its own, and leads to its row."""

    label: int
    digest: bytes
    """Of the text: its vector is found under it."""
    place: int = 0
    """In its chain: passages stand there by place, then by label. It outlives a rewording."""


def label(version: int, index: int = 0) -> int:
    """Return the label of an event's passage: no two passages of a stream share one."""
    return version << PASSAGE_BITS | index


def version_of(passage_label: int) -> int:
    """Return the version of the event that has a passage's text."""
    return passage_label >> PASSAGE_BITS


def index_of(passage_label: int) -> int:
    """Return the number of a passage within its event."""
    return passage_label & (EVENT_PASSAGES_MAX - 1)


# --- the parts of a long text


def spans(text: str, start: int = 0) -> Iterator[tuple[int, int]]:
    """Yield where each passage of a text begins and ends, from `start` on; blank ones are left out.

    A passage ends after a line, a sentence or a word in its second half.
    """
    size = max(1, PASSAGE_BYTES_MAX * len(text) // max(1, len(text.encode())))
    while start < len(text):
        end = _end(text, start, size)
        if text[start:end].strip():
            yield start, end
        start = end


def _end(text: str, start: int, size: int) -> int:
    if len(text) - start <= size:
        return len(text)
    for mark in ("\n", ". ", "。", " "):
        at = text.rfind(mark, start + size // 2, start + size)
        if at >= 0:
            return at + len(mark)
    return start + size


def passages(content: str, role: str | None) -> list[str]:
    """Return the texts that a memory is found by, each with its speaker in front.

    That is one, the whole text, unless it is longer than `LONG_BYTES`.
    """
    if len(content) <= LONG_BYTES // 4 or len(content.encode()) <= LONG_BYTES:
        return [spoken(content, role)]
    cut = islice(spans(content), PASSAGES_MAX)
    return [spoken(content[start:end], role) for start, end in cut]


def digests(content: str, role: str | None) -> tuple[bytes, ...]:
    """Return the digests of the passages of a long text; none for a text that is one passage."""
    if len(content) <= LONG_BYTES // 4:  # as most are
        return ()
    found = passages(content, role)
    return tuple(map(text_digest, found)) if len(found) > 1 else ()


def shown(content: str, number: int) -> str:
    """Return one passage of a text, below the Markdown heading that it belongs to."""
    start, end = next(islice(spans(content), number, None), (0, len(content)))
    passage = content[start:end].strip()
    lines = content[:start].splitlines() if not passage.startswith("#") else []
    heading = next((line for line in reversed(lines) if line.startswith("#")), None)
    return passage if heading is None else f"{heading[:HEADING_MAX]}\n{passage}"
