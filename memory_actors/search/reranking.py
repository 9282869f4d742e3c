"""Rerankers: models that read a query and a text together, and order the first hits anew.

One is slow and may fail: whatever it does within its deadline, a search answers, at worst in the
order that the ranking gave.
"""

import asyncio
from collections.abc import Sequence
from functools import cached_property, partial
from typing import Any, Final, Protocol

import numpy as np
from msgspec.structs import replace

from eventlog.core.logs import get_logger
from memory_actors.base.errors import (
    InvalidInputError,
    MemoryActorsError,
    RerankerError,
    importing,
)
from memory_actors.base.records import Hit
from memory_actors.base.settings import Settings
from memory_actors.search.embedding.embedder_thread import EmbedderThread
from memory_actors.search.embedding.served import readable

FASTEMBED: Final = "fastembed"
_logger = get_logger("memory_actors.search.reranking")


class Reranker(Protocol):
    """Says how well each text answers a query. Bring your own by matching this.

    It may also have `prepare()`, called once when the store is opened: to load a model, say.
    """

    def score(self, query: str, texts: Sequence[str]) -> Sequence[float]:
        """Return a number for each text: the higher, the better it answers.

        Called from one thread, never from the event loop.
        """


class FastembedReranker:
    """A cross-encoder that fastembed knows; it fetches the weights when it is first used.

    :raises MissingExtraError: fastembed is not installed.
    :raises InvalidInputError: it has no such model.
    """

    def __init__(self, model: str, *, folder: str | None = None):
        """Make one; `folder` has the model's files, if it is not to be fetched."""
        with importing("This reranker needs fastembed", "fastembed"):
            from fastembed.rerank.cross_encoder import TextCrossEncoder
        known = [one["model"] for one in TextCrossEncoder.list_supported_models()]
        if model.lower() not in map(str.lower, known):
            raise InvalidInputError(
                f"fastembed has no cross-encoder {model!r:.80}; it has {', '.join(known)}"
            )
        self._name, self._folder, self._kind = model, folder, TextCrossEncoder

    def prepare(self) -> None:
        """Load the model, and fetch it if it is not there.

        :raises RerankerError: it cannot be fetched or loaded.
        """
        _ = self._model

    def score(self, query: str, texts: Sequence[str]) -> Sequence[float]:
        """Return the logit of each text.

        :raises RerankerError: the model fails.
        """
        model, said = self._model, [readable(text) for text in texts]
        try:
            return list(model.rerank(readable(query), said))
        except Exception as error:  # the runtime's errors share no base class
            raise RerankerError(f"The cross-encoder {self._name} failed: {error}") from error

    @cached_property
    def _model(self) -> Any:
        try:
            return self._kind(self._name, threads=1, specific_model_path=self._folder)
        except Exception as error:  # of a hub, a file or the runtime
            raise RerankerError(
                f"fastembed cannot load {self._name}: {type(error).__name__}: {error}"
            ) from error


class Reranking:
    """Orders the first hits of each search by a reranker, in a thread of its own."""

    def __init__(self, reranker: Reranker, settings: Settings):
        self.hits_max = settings.reranker_hits
        """How many hits of a search the reranker reads."""
        self._reranker = reranker
        self._deadline_s = settings.reranker_deadline_s
        self._thread = EmbedderThread()

    def prepare(self) -> None:
        """Begin to load the reranker, if it has something to load."""
        if (prepare := getattr(self._reranker, "prepare", None)) is not None:
            self._thread.submit(prepare, self._note_failure)

    def stop(self) -> None:
        """End the thread after the call that it is at."""
        self._thread.stop()

    async def ordered(self, query: str, hits: list[Hit]) -> list[Hit]:
        """Return hits, the first in the order of the reranker; or as they are, if it fails."""
        first = hits[: self.hits_max]
        if len(first) < 2 or self._thread.busy_s > self._deadline_s:
            return hits
        try:
            async with asyncio.timeout(self._deadline_s):
                work = partial(self._scored, query, [hit.passage or hit.content for hit in first])
                scores = await self._thread.run(work)
        except Exception as error:
            self._note_failure(error)
            return hits
        order = sorted(range(len(first)), key=lambda place: -scores[place])
        found = [
            hit if hit.signals is None else replace(hit, signals={**hit.signals, "reranker": score})
            for hit, score in ((first[place], scores[place]) for place in order)
        ]
        return found + hits[self.hits_max :]

    def _scored(self, query: str, texts: Sequence[str]) -> list[float]:
        given = self._reranker.score(query, texts)
        scores = np.asarray(given, np.float64)
        if scores.shape != (len(texts),) or not np.all(np.isfinite(scores)):
            raise RerankerError(
                f"the reranker gave no {len(texts)} finite numbers for {len(texts)} texts: return "
                "one for each text"
            )
        return [float(one) for one in scores]

    def _note_failure(self, outcome: object) -> None:
        """Log why hits keep their order. The error of a reranker of ours quotes no text."""
        if isinstance(outcome, Exception):
            said = (
                str(outcome) if isinstance(outcome, MemoryActorsError) else type(outcome).__name__
            )
            _logger.warning("hits were not reranked", reason=said)


def reranker_of(chosen: Reranker | str | None) -> Reranker | None:
    """Return the reranker that has a name, or the one that is given.

    :raises InvalidInputError: no reranker has that name, or it has no `score`.
    :raises MissingExtraError: fastembed is not installed.
    """
    if isinstance(chosen, str):
        scheme, _, model = chosen.partition(":")
        if scheme != FASTEMBED or not model:
            raise InvalidInputError(
                f"reranker must be 'fastembed:MODEL', or one of your own, not {chosen!r:.80}"
            )
        return FastembedReranker(model)
    if chosen is not None and not callable(getattr(chosen, "score", None)):
        raise InvalidInputError(f"reranker must have score(query, texts), not {chosen!r:.80}")
    return chosen
