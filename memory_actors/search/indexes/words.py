"""Words: what the keyword index makes of a text.

Theory. Two texts share a word when they share its stem: `paints`, `painted` and `painting` are one
word, `OAuth 2.1` is `oauth` and `2.1`. The rules, in order:

1. `composed` and casefold, so that full-width letters, ligatures, digits of other scripts and
   capitals make no difference; Latin letters lose their accents and strokes (`Łódź` is `lodz`),
   Hebrew and Arabic their vowel points, Cyrillic its stresses; Persian letters are the Arabic ones.
2. Runs of letters, marks and digits are words; an apostrophe inside stays (`don't` is `dont`), a
   possessive goes (`Ada's` is `ada`).
3. Runs with a digit may go on over `.`, `:`, `-` and `_` (`2.1`, `14:30`, `v1.2.3`, `abc-123`),
   names over `_` (`user_id`). They are identifiers: kept whole, never stemmed, and their parts are
   words too, so `abc` finds `abc-123`.
4. An emoji is a word, whatever its skin tone; one of several emoji is each of them.
5. Scripts written without spaces (Chinese, Japanese, Thai and their like) and Korean become their
   overlapping pairs of characters; Han characters stand alone as well, as one is often a word.
6. English stop words go. Other words get the stem of the Snowball stemmer of their script: Porter2
   for Latin letters, Russian for Cyrillic ones, and so on for Greek, Arabic, Devanagari, Tamil and
   Armenian. Which language a word of Latin letters is of one word does not tell.

A text of 23 words takes 45 us, a question of 10 words 20 us. `docs/internals/retrieval-study.md`
has what stems and stop words are worth.
"""

import threading
import unicodedata
from collections.abc import Iterator
from itertools import pairwise
from typing import Final

from Stemmer import Stemmer

from memory_actors.kinds.passages import composed
from memory_actors.search.patterns import pattern

CHARACTERS_MAX: Final = 32_768
"""Indexed of a text: one of that length holds more words than a query can tell."""
WORD_CHARACTERS_MAX: Final = 64
"""Longer runs are cut: they are encoded data, not words, and would fill the vocabulary."""

LATIN: Final = "english"
SCRIPTS: Final = (
    ("greek", 0x370, 0x3FF),
    ("russian", 0x400, 0x52F),
    ("armenian", 0x530, 0x58F),
    ("arabic", 0x600, 0x6FF),
    ("hindi", 0x900, 0x97F),
    ("tamil", 0xB80, 0xBFF),
)
"""Scripts with a stemmer that serves most of what is written in them: name, first, last letter."""

_ENGLISH: Final = """
    a about am an and any are as at be been but by can could d did do does for from had has have he
    her him his how i if in into is it its just like ll m me my of on or our s she so t than that
    the their them then there they this to too us ve was we were what when where which who whom
    whose why will with would you your
    dont doesnt didnt isnt wasnt arent cant im ive youre theyre weve thats whats hes shes
"""
STOP_WORDS: Final = frozenset(_ENGLISH.split())

# Han, kana, Hangul, and the scripts of South-East Asia that do not part words.
_HAN: Final = "\u3005\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003134f"
_PAIRED: Final = (
    _HAN + "\u3040-\u30ff\u31f0-\u31ff\u1100-\u11ff\u3130-\u318f\uac00-\ud7af"
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"
)
# Marks belong to the letter before them; `\w` leaves them out. In India's scripts whole blocks are
# words but for their full stops.
_MARKS: Final = "\u0483-\u0487\u0900-\u0963\u0970-\u0dff"
_ACCENTS: Final = pattern("(?<=[a-z])[\u0300-\u036f]+")
# Marks that a text may leave out: those that no letter is composed with, and points of vowels.
_OPTIONAL: Final = pattern(
    "[\u0300-\u036f\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0610-\u061a\u064b-\u065f\u0670"
    "\u06d6-\u06dc\u06df-\u06e4\u06e7\u06e8\u06ea-\u06ed\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20dc]+"
)
_LETTERS: Final = str.maketrans(
    {"ł": "l", "ø": "o", "đ": "d", "ð": "d", "þ": "th", "æ": "ae", "œ": "oe", "ħ": "h", "ŧ": "t"}
    | {"\u0131": "i", "ƀ": "b", "ǥ": "g", "ɨ": "i", "ƶ": "z", "\u02bb": "'"}  # dotless i; okina
    | {"\u06a9": "\u0643", "\u06cc": "\u064a", "\u066b": ".", "\u066c": ","}  # kaf, yeh; decimals
)
"""Letters without strokes, and those of Persian as Arabic has them."""
_EMOJI: Final = (
    "[\U0001f1e6-\U0001f1ff]{2}"  # a flag
    "|[#*]\u20e3"  # a key
    "|[\u00a9\u00ae\u2194-\u2199\u21a9\u21aa\u231a-\u23ff\u25aa\u25ab\u25b6\u25c0\u25fb-\u25fe"
    "\u2600-\u27bf\u2934\u2935\u2b05-\u2b07\u2b1b\u2b1c\u2b50\u2b55\u3030\u303d"
    "\U0001f000-\U0001f3fa\U0001f400-\U0001faff]"
)
_LETTER: Final = rf"(?:[^\W_{_PAIRED}]|[{_MARKS}])"
_RUN: Final = pattern(
    rf"([{_PAIRED}]+)|({_EMOJI})"
    rf"|({_LETTER}+(?:'{_LETTER}+|_+{_LETTER}+|[.:\-](?={_LETTER}*\d){_LETTER}+)*)"
)
_ALONE: Final = pattern(f"[{_HAN}]")
_JOINTS: Final = pattern(r"[._:\-]+")
_DIGIT: Final = pattern(r"\d")
_JOINED: Final = pattern(r"[._:\-]")

_local = threading.local()  # a stemmer serves one thread at a time


def words(text: str) -> list[str]:
    """Return the words of a text, repeats included, in no order that means anything."""
    folded = composed(text[:CHARACTERS_MAX]).casefold()
    if not folded.isascii():
        parted = unicodedata.normalize("NFD", folded).translate(_LETTERS)
        folded = _OPTIONAL.sub("", unicodedata.normalize("NFC", _ACCENTS.sub("", parted)))
    found: list[str] = []
    plain: list[str] = []
    for paired, emoji, word in _RUN.findall(folded):
        if word.isalpha():
            plain.append(word)
        elif paired:
            found += _pairs(paired)
        elif emoji:
            found.append(emoji)
        elif _DIGIT.search(word) or "_" in word:
            found += _identifier(word)
        else:  # without its apostrophes, and without a possessive
            plain.append(word.removesuffix("'s").replace("'", ""))
    found += stems([word for word in plain if word not in STOP_WORDS])
    return [word[:WORD_CHARACTERS_MAX] for word in found]


def stems(plain: list[str]) -> list[str]:
    """Return the stem of each word; words are in small letters, without their apostrophes."""
    if all(map(str.isascii, plain)):
        found: list[str] = _stemmer(LATIN).stemWords(plain)
        return found
    return [_stemmer(_language(word)).stemWord(word) for word in plain]


def _language(word: str) -> str:
    """Return the language whose stemmer serves the script that a word begins in."""
    letter = ord(word[0]) if word else 0
    return next((name for name, first, last in SCRIPTS if first <= letter <= last), LATIN)


def _pairs(run: str) -> Iterator[str]:
    """Yield the overlapping pairs of a run, and its Han characters one by one."""
    if len(run) == 1:
        yield run
        return
    yield from map("".join, pairwise(run))
    yield from _ALONE.findall(run)


def _identifier(run: str) -> Iterator[str]:
    """Yield an identifier, and its parts where it has any."""
    yield run
    if _JOINED.search(run):
        yield from (part for part in _JOINTS.split(run) if part and part not in STOP_WORDS)


def _stemmer(language: str) -> Stemmer:
    stemmers: dict[str, Stemmer] = _local.__dict__.setdefault("stemmers", {})
    if language not in stemmers:
        stemmers[language] = Stemmer(language, 0)
    return stemmers[language]
