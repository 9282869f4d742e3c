"""Gathers texts from many callers into batches for one embedder in one thread.

While a batch is being computed, what arrives is collected and becomes the next one. So an idle
embedder starts at once, and a busy one works in full batches. A text that several callers want at
the same time is computed once.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np

from memory_actors.embedding.protocol import Embedder, Vectors
from memory_actors.embedding.vector_table import as_stored
from memory_actors.errors import EmbedderError

BATCH_TEXTS_MAX = 64  # about 0.2 s of work: how long a query may have to wait for others
QUEUE_TEXTS_MAX = 4096  # of all callers: about 10 s of work, beyond which waiting is no use


@dataclass(slots=True, eq=False)
class _Wanted:
    """A text and everybody who waits for its vector."""

    text: str
    callers: "list[asyncio.Future[Vectors]]" = field(default_factory=list)

    def settle(self, outcome: Vectors | EmbedderError) -> None:
        """Answer those who still wait."""
        for caller in self.callers:
            if caller.done():
                continue
            if isinstance(outcome, EmbedderError):
                caller.set_exception(outcome)
            else:
                caller.set_result(outcome)


class Batcher:
    """The only caller of an embedder.

    A call that takes longer than `deadline_s` fails its callers. Its thread cannot be stopped, so
    the next batch waits for it: callers fail by their own deadline, and nothing piles up.
    """

    def __init__(self, embedder: Embedder, *, deadline_s: float):
        self.embedder = embedder
        self.texts_embedded = 0
        self._deadline_s = deadline_s
        self._queue: deque[_Wanted] = deque()
        self._wanted: dict[str, _Wanted] = {}  # waiting or being computed
        self._thread = ThreadPoolExecutor(1, "embedder")
        self._task: asyncio.Task[None] | None = None

    async def embed(self, texts: Sequence[str]) -> list[Vectors]:
        """Return one vector a text.

        :raises EmbedderError: the embedder failed, took too long, or returned what it should not.
        """
        vectors: list[Vectors] = []
        for start in range(0, len(texts), BATCH_TEXTS_MAX):
            vectors += await self._embed_some(texts[start : start + BATCH_TEXTS_MAX])
        return vectors

    async def _embed_some(self, texts: Sequence[str]) -> list[Vectors]:
        vectors = [self._want(text) for text in texts]
        if self._task is None:
            self._task = asyncio.create_task(self._run())
        try:
            async with asyncio.timeout(self._deadline_s):
                return [await vector for vector in vectors]
        except TimeoutError as error:
            raise EmbedderError(
                f"the embedder gave no answer within {self._deadline_s:g} s: see whether it hangs"
            ) from error
        finally:
            for vector in vectors:
                vector.cancel()

    async def run(self, call: Callable[[], Vectors]) -> Vectors:
        """Run a call of the embedder's own in its thread.

        :raises EmbedderError: it failed.
        """
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, call)
        except EmbedderError:
            raise
        except Exception as error:
            raise _failed(error) from error

    def close(self) -> None:
        """Let the thread go. What is being computed is left to itself."""
        for want in self._queue:
            want.settle(EmbedderError("the memory system is closed: open it again"))
        self._queue.clear()
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _want(self, text: str) -> "asyncio.Future[Vectors]":
        want = self._wanted.get(text)
        if want is None:
            if len(self._queue) >= QUEUE_TEXTS_MAX:
                raise EmbedderError(
                    f"{QUEUE_TEXTS_MAX:,} texts are waiting to be embedded: try again later"
                )
            want = self._wanted[text] = _Wanted(text)
            self._queue.append(want)
        vector: asyncio.Future[Vectors] = asyncio.get_running_loop().create_future()
        want.callers.append(vector)
        return vector

    async def _run(self) -> None:
        try:
            while self._queue:
                count = min(BATCH_TEXTS_MAX, len(self._queue))
                await self._embed_batch([self._queue.popleft() for _ in range(count)])
        finally:
            self._task = None

    async def _embed_batch(self, taken: list[_Wanted]) -> None:
        batch = [want for want in taken if self._still_wanted(want)]
        if not batch:
            return
        loop, texts = asyncio.get_running_loop(), [want.text for want in batch]
        outcomes: Sequence[Vectors | EmbedderError]
        try:
            outcomes = list(await loop.run_in_executor(self._thread, self._embed, texts))
        except Exception as error:
            failure = error if isinstance(error, EmbedderError) else _failed(error)
            outcomes = [failure] * len(batch)
        for want, outcome in zip(batch, outcomes, strict=True):
            del self._wanted[want.text]
            want.settle(outcome)

    def _still_wanted(self, want: _Wanted) -> bool:
        """Say whether somebody waits; forget a text that nobody waits for any more."""
        if all(caller.done() for caller in want.callers):
            del self._wanted[want.text]
            return False
        return True

    def _embed(self, texts: Sequence[str]) -> Vectors:
        vectors = self.embedder.embed(texts)
        check_vectors(vectors, len(texts), self.embedder.dimension)
        self.texts_embedded += len(texts)
        return as_stored(vectors)


def check_vectors(vectors: Vectors, count: int, dimension: int) -> None:
    """Refuse what would poison an index.

    :raises EmbedderError: another shape or type, numbers that are not finite, or not unit length.
    """
    shape = getattr(vectors, "shape", None)
    if shape != (count, dimension) or vectors.dtype != np.float32:
        raise EmbedderError(
            f"the embedder returned {shape} for {count} texts: "
            f"return float32 [{count}, {dimension}]"
        )
    lengths = np.linalg.norm(vectors, axis=1)
    if not np.all(np.abs(lengths - 1) < 1e-2):  # NaN compares false, so it is caught here too
        raise EmbedderError("the embedder returned a vector that is not of unit length")


def _failed(error: Exception) -> EmbedderError:
    failure = EmbedderError(f"the embedder failed: {error!r}")
    failure.__cause__ = error
    return failure
