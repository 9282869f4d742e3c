"""Tokens: the estimate of how many a text has, and the budget of a context document."""

from collections.abc import Mapping
from functools import lru_cache
from re import findall
from typing import Final, Protocol

import msgspec

TOKENS_PER_WORD = 1.3  # of English prose, the field's common estimate
COUNTS_KEPT = 16  # a write counts the same text for its decision and for its receipt
DIFFERENCE_MAX = 0.1  # between the two estimates, before people are told


class TokenCounter(Protocol):
    """Counts tokens. Called on the event loop for each write: quick, and always the same."""

    @property
    def name(self) -> str:
        """The counter's name, for people."""
        ...

    def count(self, text: str) -> int:
        """Return how many tokens a text has."""
        ...


class WordEstimate(msgspec.Struct, frozen=True):
    """1.3 tokens a word, where blanks part words: close for English prose, and for little else."""

    @property
    def name(self) -> str:
        """The counter's name, for people."""
        return "words * 1.3"

    def count(self, text: str) -> int:
        """Return about how many tokens a text has."""
        return round(len(text.split()) * TOKENS_PER_WORD)


# Patterns as text: `findall` compiles each at its first use, and most processes never count.
_PIECE: Final = r"[A-Z]+(?![a-z])|[A-Z]?[a-z\u00c0-\u024f]+|[\u00c0-\u024f]+"
_LATIN_WORD: Final = r"[A-Za-z\u00c0-\u024f]{8,}"
_ACCENT: Final = r"[\u00c0-\u024f]"
_PUNCTUATION: Final = r"[!-/:-@\[-`{-~]+"
_DIGIT: Final = r"[0-9]"
_NOT_ASCII: Final = r"[^\x00-\x7f]+"
_NEWLINES: Final = r"\n+"
_SCRIPTS: Final[Mapping[str, float]] = {
    _ACCENT: 0.5,
    r"[\u0370-\u058f]": 0.30,  # Greek, Cyrillic, Armenian
    r"[\u0590-\u08ff]": 0.36,  # Hebrew, Arabic
    r"[\u0900-\u0dff]": 0.6,  # scripts of India
    r"[\u0e00-\u1fff]": 0.4,  # Thai and its neighbours
    r"[\u00a0-\u00bf\u2000-\u2e7f]": 1.0,  # dashes, quotation marks, arrows
    r"[\u2e80-\u2fff\u3400-\u9fff\uf900-\ufaff]": 0.64,  # Chinese
    r"[\u3000-\u303f\uff00-\uffef]": 0.45,  # its punctuation
    r"[\u3040-\u33ff]": 0.58,  # kana
    r"[\ua000-\ud7ff]": 0.8,  # Korean
    r"[\U00010000-\U0010ffff]": 1.5,  # emoji
}


class CalibratedEstimate(msgspec.Struct, frozen=True):
    """By classes of characters: within 10 % of current tokenizers on prose, Markdown and code.

    Of Latin letters a word is a token, or one for each part of `snake_case` and `camelCase`;
    where letters such as é, one of 50, show that a text is not English, each letter beyond the
    seventh of a word is near half a token more. Of other scripts each character has a share. The
    weights were fitted to the tokenizers of Qwen 3.6 and DeepSeek V4, for Latin letters also to
    cl100k and Mistral's Tekken (`bench/tokens.py` says on what, and how far it is off).
    """

    @property
    def name(self) -> str:
        """The counter's name, for people."""
        return "calibrated"

    def count(self, text: str) -> int:
        """Return about how many tokens a text has."""
        return _calibrated(text)


@lru_cache(maxsize=COUNTS_KEPT)
def _calibrated(text: str) -> int:
    pieces, runs = findall(_PIECE, text), findall(_PUNCTUATION, text)
    tokens = 1.03 * len(pieces) + 0.93 * len(runs) + 0.17 * sum(map(len, runs))
    tokens += 0.7 * len(findall(_DIGIT, text)) + 0.45 * len(findall(_NEWLINES, text))
    others = "".join(findall(_NOT_ASCII, text))
    tokens += sum(each * len(findall(script, others)) for script, each in _SCRIPTS.items())
    if accents := len(findall(_ACCENT, others)):
        not_english = min(1.0, 50 * accents / sum(map(len, pieces)))
        beyond_seven = sum(len(word) - 7 for word in findall(_LATIN_WORD, text))
        tokens += 0.46 * not_english * beyond_seven
    return round(tokens)


ESTIMATES: Final[Mapping[str, TokenCounter]] = {
    "words": WordEstimate(),
    "calibrated": CalibratedEstimate(),
}
"""The counters that `Settings.token_counter` takes by name."""


def disagreement(counter: TokenCounter, text: str, document: str) -> str | None:
    """Return what to know where an estimate counts and the other one says something else."""
    if counter not in ESTIMATES.values():
        return None
    counted = {one.name: one.count(text) for one in ESTIMATES.values()}
    low, high = sorted(counted.values())
    if high - low <= max(1, DIFFERENCE_MAX * low):
        return None
    both = ", ".join(f"{tokens:,} by {name}" for name, tokens in counted.items())
    return (
        f"{document} has {both}: estimates of its tokens that differ by more than 10 %. "
        f"Settings.token_counter ({', '.join(ESTIMATES)}, or a TokenCounter) says which counts."
    )


class TokenBudget(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of a document in tokens, and their counter."""

    soft_tokens: int
    """From this on it is allowed, with a warning."""
    hard_tokens: int
    """A write that would reach this is refused."""
    counter: TokenCounter

    @property
    def tokens_max(self) -> int:
        """The most that a document may have."""
        return self.hard_tokens - 1
