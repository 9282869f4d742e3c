"""Critics and revisers that say what a test wants, and what they were asked."""

from collections.abc import Callable, Sequence
from typing import Any

from memory_actors import Critique


class FakeCritic:
    """Gives the scores of a script, the last one for ever; raises what is an exception."""

    def __init__(self, *scores: Any, text: str = "Say it better."):
        self.scores = list(scores) or [0.5]
        self.text = text
        self.asked: list[str] = []

    async def __call__(self, text: str, /) -> Critique:
        self.asked.append(text)
        said = self.scores.pop(0) if len(self.scores) > 1 else self.scores[0]
        if isinstance(said, BaseException):
            raise said
        return said if not isinstance(said, float) else Critique(score=said, text=self.text)


class FakeReviser:
    """Gives `text 1`, `text 2`, …, or the texts of a script and then the same text for ever."""

    def __init__(
        self, texts: Sequence[Any] | None = None, make: Callable[[int], str] | None = None
    ):
        self.texts = None if texts is None else list(texts)
        self.make = make or (lambda number: f"text {number}")
        self.asked: list[tuple[str, Critique]] = []

    async def __call__(self, text: str, critique: Critique, /) -> Any:
        self.asked.append((text, critique))
        if self.texts is None:
            return self.make(len(self.asked))
        said = self.texts.pop(0) if self.texts else text
        if isinstance(said, BaseException):
            raise said
        return said
