"""The sentences of a text with their places, and what of it is no prose.

Code (fenced, indented by a tab, or between backticks), addresses and tables are left alone: no edit
touches them, and no finding comes from them.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import Final, NamedTuple

from memory_actors.summarizers.sentences import count_words, sentences

_NO_PROSE: Final = re.compile(
    r"^(?P<fence>```|~~~).*?(?:^(?P=fence)[^\n]*$|\Z)"  # code between fences
    r"|^(?:\t|\|)[^\n]*$"  # indented code, rows of a table
    r"|`[^`\n]+`|https?://\S+"
    r"|(?<![\w.+\-])[\w.+\-]{1,64}@[\w.\-]{1,255}",  # bounded, and one try a run: linear
    re.MULTILINE | re.DOTALL,
)
_WORD: Final = re.compile(r"[^\W_]+(?:['\u2019\-][^\W_]+)*")


class Span(NamedTuple):
    """A stretch of a text."""

    start: int
    end: int
    text: str
    words: int


class Better(NamedTuple):
    """A stretch that should read otherwise."""

    start: int
    end: int
    said: str
    better: str
    """What to put there; of a phrase that is left out, the letter that follows it."""
    advice: str


class Edit(NamedTuple):
    """What to put in the place of a stretch."""

    start: int
    end: int
    text: str


class Prose:
    """A text, and where its sentences are."""

    def __init__(self, text: str):
        self.text = text
        closed = [found.span() for found in _NO_PROSE.finditer(text)]
        self._starts = [start for start, _ in closed]
        self._ends = [end for _, end in closed]
        self.sentences = [span for span in _spans(text) if not self._is_closed(span)]

    def is_open(self, start: int, end: int) -> bool:
        """Tell whether a stretch may be edited: nothing of it is no prose."""
        return bisect_right(self._ends, start) == bisect_left(self._starts, end)

    def _is_closed(self, span: Span) -> bool:
        """Tell whether nothing of a sentence is prose."""
        before = bisect_right(self._starts, span.start) - 1
        return before >= 0 and span.end <= self._ends[before]


def _spans(text: str) -> list[Span]:
    spans, place = [], 0
    for sentence in sentences(text):
        start = text.index(sentence, place)
        place = start + len(sentence)
        spans.append(Span(start, place, sentence, count_words(sentence)))
    return spans


def words_of(text: str) -> list[str]:
    """Return the words of a text as they stand in it."""
    return _WORD.findall(text)


def quote(text: str, characters_max: int) -> str:
    """Return the beginning of a place in a text, on one line."""
    line = " ".join(text.split())
    return line if len(line) <= characters_max else line[: characters_max - 1] + "…"


def edited(text: str, edits: Sequence[Edit]) -> str:
    """Return a text with edits made. Where two overlap, the first one is made."""
    parts, place = [], 0
    for edit in sorted(edits):
        if edit.start >= place:
            parts += [text[place : edit.start], edit.text]
            place = edit.end
    return "".join([*parts, text[place:]])


def without(prose: Prose, spans: Sequence[Span]) -> list[Edit]:
    """Return edits that take sentences away, and the space that parted them from others."""
    return [_gone(prose.text, span) for span in spans if prose.is_open(span.start, span.end)]


def _gone(text: str, span: Span) -> Edit:
    """Take the space behind a sentence too; at the end of a line that in front of it."""
    end = span.end
    while end < len(text) and text[end] in " \t":
        end += 1
    start = span.start
    if end == len(text) or text[end] in "\r\n":
        while start and text[start - 1] in " \t":
            start -= 1
        whole_line = start == 0 or text[start - 1] == "\n"
        if whole_line and end < len(text):
            end += len(text[end : end + 2]) if text.startswith("\r\n", end) else 1
    return Edit(start, end, "")
