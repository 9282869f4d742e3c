"""How many tokens a text takes in a prompt, and how many a context document may have."""

from typing import Protocol

import msgspec

TOKENS_PER_WORD = 1.3  # of English prose, the field's common estimate


class TokenCounter(Protocol):
    """Counts tokens. Called on the event loop for each write: quick, and always the same."""

    @property
    def name(self) -> str:
        """What counts, for people."""
        ...

    def count(self, text: str) -> int:
        """Return how many tokens a text has."""
        ...


class WordEstimate(msgspec.Struct, frozen=True):
    """1.3 tokens a word, where blanks part words: close for English prose, and for little else."""

    @property
    def name(self) -> str:
        """What counts, for people."""
        return "words * 1.3"

    def count(self, text: str) -> int:
        """Return about how many tokens a text has."""
        return round(len(text.split()) * TOKENS_PER_WORD)


class TokenBudget(msgspec.Struct, frozen=True, kw_only=True):
    """How many tokens a document may have, and who counts them."""

    soft_tokens: int
    """From this on it is allowed, with a warning."""
    hard_tokens: int
    """What would reach this is refused."""
    counter: TokenCounter

    @property
    def tokens_max(self) -> int:
        """The most that a document may have."""
        return self.hard_tokens - 1
