"""What a critic and a reviser are, and what they tell each other."""

from typing import Final, Protocol

import msgspec

from eventlog.core.records import Returned

QUOTE_CHARACTERS: Final = 80
"""Of the text, in a finding: enough to find the place."""


class CritiqueFinding(Returned, frozen=True, kw_only=True):
    """One thing that could be better."""

    kind: str
    """What it is, in a word or two: repetition, length, passive voice, …"""
    message: str
    quote: str = ""
    """Where it is: the beginning of the place."""

    @property
    def size_bytes(self) -> int:
        """UTF-8 bytes of its texts."""
        return sum(map(utf8_bytes, (self.kind, self.message, self.quote)))


class Critique(Returned, frozen=True, kw_only=True):
    """What a critic says of a text."""

    score: float
    """From 0 to 1: how good the text is."""
    text: str = ""
    """In words; empty if there is nothing to say."""
    findings: tuple[CritiqueFinding, ...] = ()

    @property
    def found_nothing(self) -> bool:
        """Whether there is nothing to improve."""
        return not self.findings and not self.text.strip()

    @property
    def size_bytes(self) -> int:
        """UTF-8 bytes of all its texts."""
        return utf8_bytes(self.text) + sum(finding.size_bytes for finding in self.findings)

    @property
    def problem(self) -> str | None:
        """What keeps it from being used; None if nothing does."""
        score = self.score
        if not isinstance(score, int | float) or isinstance(score, bool) or not 0 <= score <= 1:
            return f"its score is {score!r:.80}, not a number from 0 to 1"
        try:
            msgspec.json.decode(msgspec.json.encode(self), type=Critique)
        except (TypeError, ValueError, RecursionError) as error:
            return f"it cannot be written as JSON and read back ({type(error).__name__})"
        return None


class Critic(Protocol):
    """Judges a text. Any async function of this form will do."""

    async def __call__(self, text: str, /) -> Critique:
        """Return what could be better; the text is never empty.

        Never blocks the event loop. May be cancelled at any await.
        """
        ...


class Reviser(Protocol):
    """Makes a text better. Any async function of this form will do."""

    async def __call__(self, text: str, critique: Critique, /) -> str:
        """Return the whole text, revised; the same if there is nothing to do.

        Never blocks the event loop. May be cancelled at any await.
        """
        ...


def utf8_bytes(text: str) -> int:
    """Return the length of a text in UTF-8; lone surrogates count as three bytes."""
    return len(text) if text.isascii() else len(text.encode(errors="surrogatepass"))
