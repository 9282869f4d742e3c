"""Tokens: the estimate of how many a text has, and the budget of a context document."""

import math
import operator
from collections.abc import Mapping
from functools import lru_cache
from re import findall, sub
from typing import Final, Protocol

import msgspec

TOKENS_PER_WORD = 1.3  # of English prose, the field's common estimate
COUNTS_KEPT = 16  # a write counts the same text for its decision and for its receipt
DIFFERENCE_MAX = 0.1  # between the two estimates, before a warning


class TokenCounter(Protocol):
    """Counts tokens. Called on the event loop for each write: quick, and always the same."""

    @property
    def name(self) -> str:
        """The counter's name, for people."""

    def count(self, text: str) -> int:
        """Return how many tokens a text has."""


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
_PUNCTUATION: Final = r"[!-/:-@\[-`{-~]+"
_NOT_ASCII: Final = r"[^\x00-\x7f]+"
_ESCAPE: Final = r"\\."
_RULE: Final = r"([\u2500-\u259f\u2026])\1{1,3}"  # of a frame, a tree or a bar: one token or two
_INDENTS: Final = ("\n  ", "\n\t", "│  ")  # of a line, and of a branch of a tree
_COMMON: Final = frozenset(  # a quarter or more of the words of an English text, few of others
    findall(
        "[a-z]+",
        "the of and to a in is that for it you with on are this be was have my from or at by not "
        "as an your what we he she they i",
    )
)
_ENGLISH_SHARE: Final = 0.25
_TRADITIONAL: Final = (  # common characters that Simplified Chinese writes otherwise
    "[這個們來說時會為後對沒還過麼樣點開關無與從將應該讓實現問題檔執設訊錄輸碼變數連網頁選單]"
)
# About; at most, of Claude up to 4.6 and of the others; of Claude from 4.7 on, about and at most.
_TOKENS: Final = {
    "piece": (1.02, 1.13, 1.04, 1.40, 1.65),
    "letter beyond 6, not English": (0.36, 0.43, 0.57, 0.80, 0.61),
    "capital": (0.04, 0.59, 0.41, 1.51, 1.47),
    "capital, not English": (0.00, 0.33, 0.00, 0.12, 1.68),
    "run of punctuation": (0.65, 0.69, 0.67, 0.38, 0.87),
    "mark of punctuation": (0.14, 0.10, 0.10, 0.39, 0.10),
    "number": (0.55, 0.30, 0.17, 0.90, 0.00),
    "digit": (0.55, 0.68, 1.09, 0.16, 0.64),
    "new lines": (1.56, 2.98, 2.68, 2.28, 3.22),
    "blanks": (0.03, 0.30, 0.30, 0.00, 0.30),
    "blanks in a line": (0.86, 0.02, 0.00, 1.24, 0.00),
    "k, w, y, not English": (0.35, 1.56, 1.07, 0.93, 1.83),  # few in Romance languages
    "escape": (0.12, 0.89, 0.70, 0.46, 1.30),  # of JSON and code
    "character of Traditional Chinese": (1.38, 6.41, 6.50, 0.75, 5.65),
}
_SCRIPTS: Final = {
    r"[\u00a0-\u00ff\u2000-\u218f]+": (0.37, 0.94, 1.09, 0.12, 1.15),  # é, ñ; dashes
    r"[\u0100-\u024f]+": (1.19, 0.75, 0.80, 0.91, 0.50),  # č, ł, ş
    r"[\u1e00-\u1fff]+": (0.00, 0.30, 0.30, 0.00, 0.30),  # ế, ộ
    r"[\u0250-\u03ff]+": (0.45, 0.73, 0.50, 0.74, 0.72),  # Greek
    r"[\u0400-\u058f]+": (0.29, 0.42, 0.44, 0.40, 0.41),  # Cyrillic, Armenian
    r"[\u0590-\u05ff]+": (0.75, 0.63, 0.96, 0.78, 0.50),  # Hebrew
    r"[\u0600-\u08ff]+": (0.39, 0.76, 0.42, 0.76, 0.73),  # Arabic
    r"[\u0900-\u097f]+": (0.51, 0.86, 0.69, 0.85, 0.85),  # Devanagari
    r"[\u0980-\u0dff]+": (0.77, 1.02, 1.48, 0.92, 1.00),  # other scripts of India
    r"[\u0e00-\u0e7f]+": (0.40, 0.97, 0.54, 0.95, 0.95),  # Thai
    r"[\u0e80-\u1dff]+": (0.92, 0.78, 2.07, 0.75, 0.74),  # Lao, Georgian, Khmer and others
    r"[\u2190-\u2e7f]+": (0.98, 2.50, 2.50, 0.99, 2.50),  # arrows, frames, symbols
    r"[\u2e80-\u2fff\u3400-\u9fff\uf900-\ufaff]+": (0.76, 1.26, 1.03, 1.17, 1.24),  # Chinese
    r"[\u3000-\u33ff\uff00-\uffef]+": (0.52, 0.68, 0.56, 0.70, 0.68),  # kana; punctuation of both
    r"[\ua000-\ud7ff]+": (0.74, 1.41, 0.86, 1.36, 1.38),  # Korean
    r"[\U00010000-\U0010ffff]+": (2.88, 3.51, 3.67, 3.12, 3.30),  # emoji
}
_WEIGHTS: Final = tuple(zip(*_TOKENS.values(), *_SCRIPTS.values(), strict=True))


class CalibratedEstimate(msgspec.Struct, frozen=True):
    """By classes of characters: within 10 % of the middle of current tokenizers on most texts.

    A word of Latin letters counts slightly more than one token, or one for each part of
    `snake_case` and `camelCase`; the letters of long words count where few of the most common
    English words show that a text is not English. In other scripts each character counts a share of
    a token. The weights were fitted to the tokenizers of GPT, Gemini, Llama, Mistral, Qwen and
    DeepSeek; those of `most` also to that of Claude up to 4.6. With `new_claude` they are for
    Claude from 4.7 on, which makes a third more tokens (`bench/tokens.py` measures how far they are
    off).
    """

    new_claude: bool = False

    @property
    def name(self) -> str:
        """The counter's name, for people."""
        return "claude" if self.new_claude else "calibrated"

    def count(self, text: str) -> int:
        """Return about how many tokens a text has."""
        return round(self._weighed(text, 3 if self.new_claude else 0))

    def most(self, text: str) -> int:
        """Return a number that the tokenizers above do not pass: what a text takes of a budget."""
        bounds = (4,) if self.new_claude else (1, 2)
        return max(self.count(text), *(math.ceil(self._weighed(text, one)) for one in bounds))

    def _weighed(self, text: str, column: int) -> float:
        return float(sum(map(operator.mul, _WEIGHTS[column], _amounts(text))))


@lru_cache(maxsize=COUNTS_KEPT)
def _amounts(text: str) -> tuple[float, ...]:
    """Return how many a text has of each of `_TOKENS` and `_SCRIPTS`."""
    pieces, runs, numbers = (findall(one, text) for one in (_PIECE, _PUNCTUATION, "[0-9]+"))
    common = sum(map(_COMMON.__contains__, pieces))
    foreign = 1 - min(1.0, common / (_ENGLISH_SHARE * len(pieces))) if pieces else 0.0
    long = [length for length in map(len, pieces) if length > 6]
    capitals = sum(map("a".__gt__, pieces))
    blanks = len(findall("  +", text)) + len(findall("\t+", text))
    others = "" if text.isascii() else "".join(findall(_NOT_ASCII, sub(_RULE, r"\1", text)))
    return (
        len(pieces),
        foreign * (sum(long) - 6 * len(long)),
        capitals,
        foreign * capitals,
        len(runs),
        sum(map(len, runs)),
        len(numbers),
        sum(map(len, numbers)),
        text.count("\n") - text.count("\n\n"),
        blanks,
        blanks - sum(map(text.count, _INDENTS)),
        foreign * sum(map(text.count, "kwyKWY")),
        len(findall(_ESCAPE, text)),
        len(findall(_TRADITIONAL, others)),
        *(sum(map(len, findall(script, others))) if others else 0 for script in _SCRIPTS),
    )


ESTIMATES: Final[Mapping[str, TokenCounter]] = {
    "calibrated": CalibratedEstimate(),
    "claude": CalibratedEstimate(new_claude=True),
    "words": WordEstimate(),
}
"""The counters that `Settings.token_counter` takes by name."""


def most(counter: TokenCounter, text: str) -> int:
    """Return how many tokens a text takes of a budget: the most that it may have, or the count."""
    return int(getattr(counter, "most", counter.count)(text))


def disagreement(counter: TokenCounter, text: str, document: str) -> str | None:
    """Return a warning if the word estimate and the calibrated estimate differ by much."""
    if not isinstance(counter, WordEstimate):
        return None
    words, calibrated = counter.count(text), CalibratedEstimate().count(text)
    if abs(words - calibrated) <= max(1, DIFFERENCE_MAX * min(words, calibrated)):
        return None
    return (
        f"{document} has {words:,} tokens by {counter.name}, {calibrated:,} by the calibrated "
        "estimate, which is nearer for such a text: see Settings.token_counter."
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
