"""Texts that are being embedded: what their caller holds until it wants to know what came of them.

A thread is at them from the moment they are handed over. The caller may therefore do something else
first, and needs no task for it.
"""

import asyncio
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any, Self, TypeAlias

from memory_actors.base.errors import EmbedderError
from memory_actors.search.embedding.protocol import Embedded

Outcome: TypeAlias = Embedded | EmbedderError
Outcomes: TypeAlias = tuple[dict[bytes, Embedded], dict[bytes, EmbedderError]]
"""Embeddings by the digests of their texts, and why the others have none."""


def late(deadline_s: float) -> EmbedderError:
    """Return the error for a call whose deadline has passed."""
    return EmbedderError(
        f"the embedder gave no answer within {deadline_s:g} s: see whether it hangs"
    )


class InFlight:
    """A few texts that an embedder was given: awaited, it gives what came of each."""

    def __init__(self, outcomes: "Sequence[asyncio.Future[Outcome]]", deadline_s: float):
        self._outcomes = outcomes
        self._deadline_s = deadline_s
        self._alarm = asyncio.get_running_loop().call_later(deadline_s, self._end)

    def __await__(self) -> Generator[Any, None, list[Outcome]]:
        return self._come().__await__()

    async def _come(self) -> list[Outcome]:
        try:
            return [await outcome for outcome in self._outcomes]
        finally:
            self.cancel()

    def _end(self) -> None:
        for outcome in self._outcomes:
            if not outcome.done():
                outcome.set_result(late(self._deadline_s))

    def cancel(self) -> None:
        """Wait for nothing more: what nobody else wants is not begun."""
        self._alarm.cancel()
        for outcome in self._outcomes:
            outcome.cancel()


class EmbeddingRequest:
    """Texts whose embeddings are wanted: those that are known, and the others once it has begun.

    `compute` begins to compute what is not known, and `taken` is given the outcomes of that: it
    keeps what is to be known from then on.
    """

    def __init__(
        self,
        texts: Mapping[bytes, str],
        found: dict[bytes, Embedded],
        compute: "Callable[[list[str]], InFlight | asyncio.Task[list[Outcome]]]",
        taken: Callable[[Mapping[bytes, Outcome]], Outcomes],
    ):
        self._found = found
        self._missing = {d: text for d, text in texts.items() if d not in found}
        self._compute = compute
        self._taken = taken
        self._computing: InFlight | asyncio.Task[list[Outcome]] | None = None

    def begin(self) -> Self:
        """Begin with what is not known, unless that has begun."""
        if self._missing and self._computing is None:
            self._computing = self._compute(list(self._missing.values()))
        return self

    async def each(self) -> Outcomes:
        """Return the embeddings by the digests of their texts, and why the others have none."""
        self.begin()
        if self._computing is None:
            return self._found, {}
        outcomes = await self._computing
        fresh, failed = self._taken(dict(zip(self._missing, outcomes, strict=True)))
        return self._found | fresh, failed

    async def all(self) -> dict[bytes, Embedded]:
        """Return the embeddings by the digests of their texts.

        :raises EmbedderError: the model failed or took too long.
        """
        found, failed = await self.each()
        if failed:
            raise next(iter(failed.values()))
        return found

    def cancel(self) -> None:
        """Wait for nothing more."""
        if self._computing is not None:
            self._computing.cancel()
