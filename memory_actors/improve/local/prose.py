"""The sentences of a text with their places, and what of it is no prose.

Code (fenced, indented by a tab, or between backticks), addresses and tables are left alone: no edit
touches them, and no finding comes from them. Quotations are somebody's words: nothing in one is
changed, no sentence is taken out of one, and none that begins or ends inside of one goes. A
quotation mark that is never closed quotes nothing.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import Final, NamedTuple

from memory_actors.compaction.summarizers.sentences import count_words, sentences

_NO_PROSE: Final = re.compile(
    r"^(?P<fence>```|~~~).*?(?:^(?P=fence)[^\n]*$|\Z)"  # code between fences
    r"|^(?:\t|\|)[^\n]*$"  # indented code, rows of a table
    r"|`[^`\n]+`|https?://\S+"
    r"|(?<![\w.+\-])[\w.+\-]{1,64}@[\w.\-]{1,255}",  # bounded, and one try a run: linear
    re.MULTILINE | re.DOTALL,
)
# Only single classes are possessive: before 3.11.5 Python matched possessive groups wrongly. What
# can end a quotation cannot be inside of one, so nothing is gained by going back in one either.
_QUOTATION: Final = re.compile(
    r"^ {0,3}>[^\n]*+(?:\n {0,3}>[^\n]*+)*"
    r'|(?<!\w)"(?=\S)(?:[^"\n]++|\n(?![ \t]*\n))+"(?!\w)'
    r"|(?<!\w)'(?=\w)(?:[^'\n]|'(?=\w)){1,200}'(?!\w)"  # bounded: it may be an apostrophe
    "|\u201c[^\u201c\u201d]*+\u201d|\u00ab[^\u00ab\u00bb]*+\u00bb"
    r"|\u2018(?:[^\u2018\u2019\n]++|\u2019(?=\w))*\u2019(?!\w)",
    re.MULTILINE,
)
_HEADING: Final = re.compile(
    r"^ {0,3}#{1,6}[ \t][^\n]*+|^[^\n]++(?=\n {0,3}(?:=+|-+)[ \t]*$)", re.MULTILINE
)
_WORD: Final = re.compile(r"[^\W_]+(?:['\u2019\-][^\W_]+)*")


class Sentence(NamedTuple):
    """A sentence and its place in the text."""

    start: int
    end: int
    text: str
    words: int


class Edit(NamedTuple):
    """A stretch that should read otherwise."""

    start: int
    end: int
    text: str
    """The text for its place; for a phrase that is left out, the letter that follows it."""
    said: str = ""
    """The words that are at fault there."""
    advice: str = ""


class _Stretches:
    """The places in a text where a pattern holds."""

    def __init__(self, pattern: re.Pattern[str], text: str):
        found = [one.span() for one in pattern.finditer(text)]
        self._starts = [start for start, _ in found]
        self._ends = [end for _, end in found]

    def touch(self, start: int, end: int) -> bool:
        """Tell whether something between two places is in one of them."""
        return bisect_right(self._ends, start) != bisect_left(self._starts, end)

    def hold(self, start: int, end: int) -> bool:
        """Tell whether all between two places is in one of them."""
        before = bisect_right(self._starts, start) - 1
        return before >= 0 and end <= self._ends[before]

    def part(self, place: int) -> bool:
        """Tell whether a cut at a place would go through one of them."""
        before = bisect_left(self._starts, place) - 1
        return before >= 0 and place < self._ends[before]


class Prose:
    """A text, and where its sentences are."""

    def __init__(self, text: str):
        self.text = text
        self._closed = _Stretches(_NO_PROSE, text)
        self._quoted = _Stretches(_QUOTATION, text)
        self._headings = _Stretches(_HEADING, text)
        self.sentences = [
            span for span in _spans(text) if not self._closed.hold(span.start, span.end)
        ]

    def may_change(self, start: int, end: int) -> bool:
        """Tell whether a stretch may be edited: nothing of it is no prose, or quoted."""
        return not (self._closed.touch(start, end) or self._quoted.touch(start, end))

    def may_go(self, span: Sentence) -> bool:
        """Tell whether a sentence may be left out.

        It is all prose, no heading, and neither begins nor ends inside of a quotation.
        """
        start, end = span.start, span.end
        cut = self._quoted.part(start) or self._quoted.part(end)
        return not (cut or self._closed.touch(start, end) or self._headings.touch(start, end))


def _spans(text: str) -> list[Sentence]:
    spans, place = [], 0
    for sentence in sentences(text):
        start = text.index(sentence, place)
        place = start + len(sentence)
        spans.append(Sentence(start, place, sentence, count_words(sentence)))
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


def without(text: str, span: Sentence) -> Edit:
    """Return an edit that takes a sentence away, and the space that parted it from others.

    That is the space behind it; at the end of a line the space in front of it.
    """
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
