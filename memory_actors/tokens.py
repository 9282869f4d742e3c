"""How many tokens a text takes in a prompt, and how many a context document may have."""

from typing import Protocol

import msgspec

from memory_actors.errors import InvalidInputError

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
    """More than this is allowed, with a warning."""
    hard_tokens: int
    """What would lead to more than this is refused."""
    counter: TokenCounter


def check_budget(budget: TokenBudget) -> None:
    """Refuse limits that are none.

    :raises InvalidInputError: a limit is no whole number from 1, the soft one is the higher, or
        the counter is none.
    """
    limits = (
        ("context_soft_tokens", budget.soft_tokens),
        ("context_hard_tokens", budget.hard_tokens),
    )
    for name, limit in limits:
        if not isinstance(limit, int) or isinstance(limit, bool) or limit < 1:
            raise InvalidInputError(f"{name} must be a whole number from 1, not {limit!r:.40}")
    if not callable(getattr(budget.counter, "count", None)):
        raise InvalidInputError(
            f"context_counter must be a TokenCounter, not {budget.counter!r:.40}: WordEstimate(), "
            "TokenizerCounter(), or any object with name and count(text)"
        )
    if budget.soft_tokens > budget.hard_tokens:
        raise InvalidInputError(
            f"context_soft_tokens is {budget.soft_tokens:,}, more than context_hard_tokens, "
            f"{budget.hard_tokens:,}: lower the one or raise the other"
        )
