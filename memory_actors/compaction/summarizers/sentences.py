"""Sentences: where they end, how long they are, and how one is cut that is too long.

Theory. A sentence ends at a full stop, a question or an exclamation mark with a space behind it; in
scripts written without spaces, at their own marks, space or not; and at every end of line. A stop
ends nothing after an abbreviation (`Dr.`), an initial (`J.`), the number of a list's item (`2.`),
or before a small letter. Thai and its like mark no ends: a line of theirs is one sentence.

Length is counted in words, so that one limit fits all scripts. A word is a run of characters
without space; Chinese, Japanese and Thai are written without spaces, so two of their characters
count as a word. Encoded data has no spaces either, so a longer run counts as one word for each 24
characters begun.
"""

import re
import unicodedata
from collections.abc import Iterator
from itertools import pairwise
from typing import Final

MARKER: Final = "…"
"""Stands where a sentence was cut."""
WORD_CHARACTERS_MAX: Final = 24
"""Most characters that count as one word: few words of any language are longer."""

_UNSPACED: Final = re.compile(
    "[\u3005\u3007\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    "\U00020000-\U0003134f\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff]"
)
_STOPS: Final = ".!?…\u061f\u06d4\u0964\u0965"
_CLOSERS: Final = "\"'\u201d\u2019\u00bb)\\]*_"
_WIDE_STOPS: Final = "\u3002\uff01\uff1f\uff61"
_WIDE_CLOSERS: Final = "\u300d\u300f\u201d\u2019\uff09\u3011"
_END: Final = re.compile(
    r"(?P<line>[\r\n\u2028\u2029]+)"
    rf"|[{_WIDE_STOPS}]+[{_WIDE_CLOSERS}]*"
    rf"|(?<![{_STOPS}])(?P<stop>[{_STOPS}]++[{_CLOSERS}]*)(?=\s)"  # one try a run: linear
)
_OPENERS: Final = "\"'\u201c\u2018(["
_ABBREVIATIONS: Final = frozenset(
    [
        "a.m", "approx", "apr", "aug", "ave", "capt", "cf", "col", "corp", "dec", "dept", "dr",
        "e.g", "ed", "est", "feb", "fig", "fr", "gen", "gov", "hon", "i.e", "inc", "jan", "jr",
        "jul", "jun", "lt", "ltd", "mar", "mr", "mrs", "ms", "mt", "mx", "nov", "nr", "oct", "op",
        "p.m", "pp", "prof", "rep", "rev", "sen", "sep", "sept", "sgt", "sr", "st", "vol", "vs",
    ]
)  # fmt: skip
_LAST_WORD: Final = re.compile(r"(\S+)$")


def sentences(text: str) -> list[str]:
    """Return the sentences of a text as they stand in it, without the space around them."""
    ends = [0, *_ends(text), len(text)]
    spans = (text[start:end].strip() for start, end in pairwise(ends))
    return [sentence for sentence in spans if sentence]


def _ends(text: str) -> Iterator[int]:
    start = 0
    for found in _END.finditer(text):
        if found["stop"] is None or _ends_here(text, start, found):
            start = found.end()
            yield start


def _ends_here(text: str, start: int, found: re.Match[str]) -> bool:
    following = text[found.end() : found.end() + 16].lstrip()[:1]
    if following.islower():
        return False
    if found["stop"] != ".":
        return True
    before = _LAST_WORD.search(text[max(start, found.start() - 16) : found.start()])
    return before is None or not _is_short_form(
        before[1], whole=text[start : found.start()].strip()
    )


def _is_short_form(word: str, whole: str) -> bool:
    bare = word.lstrip(_OPENERS)
    initial = len(bare) == 1 and bare.isupper() and bare != "I"
    return initial or bare.lower() in _ABBREVIATIONS or (whole == word and whole.isdigit())


def count_words(text: str) -> int:
    """Return how many words a text has, in any script."""
    return sum(map(_words_of_run, text.split()))


def _words_of_run(run: str) -> int:
    if len(run) <= WORD_CHARACTERS_MAX and run.isascii():
        return 1
    unspaced = sum(1 for _ in _UNSPACED.finditer(run))
    return -(-unspaced // 2) + -(-(len(run) - unspaced) // WORD_CHARACTERS_MAX)


def clip(text: str, words_max: int, bytes_max: int) -> str:
    """Return a text, or its beginning and `…` if it is longer; "" if not even a word fits.

    Cuts between words where there are any, and never between a letter and its marks.
    """
    if _fits(text, words_max, bytes_max):
        return text
    low, high = 0, len(text)  # so many characters fit, so many do not
    while high - low > 1:
        middle = (low + high) // 2
        if _fits(text[:middle] + MARKER, words_max, bytes_max):
            low = middle
        else:
            high = middle
    head = text[: _cut(text, low)].rstrip()
    return head + MARKER if head else ""


def _fits(text: str, words_max: int, bytes_max: int) -> bool:
    return len(text.encode()) <= bytes_max and count_words(text) <= words_max


def _cut(text: str, at_most: int) -> int:
    """Return where to cut: behind the last space, unless that loses more than a long word."""
    space = max(text.rfind(mark, 0, at_most + 1) for mark in " \t\u3000")
    if at_most - space <= WORD_CHARACTERS_MAX and space > 0:
        return space
    start = at_most
    while start and unicodedata.category(text[start])[0] == "M":
        start -= 1
    return start or at_most


def within(text: str, words_max: int, bytes_max: int) -> str:
    """Return as many whole sentences from the beginning of a text as fit, or its first one cut."""
    if _fits(text, words_max, bytes_max):
        return text
    end = 0
    for found in [*_ends(text), len(text)]:
        if not _fits(text[:found].rstrip(), words_max, bytes_max):
            break
        end = found
    return text[:end].strip() or clip(text.strip(), words_max, bytes_max)
