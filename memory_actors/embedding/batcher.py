"""Gathers texts from many callers into batches for one embedder in one thread.

While a batch is being computed, what arrives is collected and becomes the next one. So an idle
embedder starts at once, and a busy one works in full batches. A text that several callers want at
the same time is computed once.

What can wait (the passages of a summary, say) is embedded a little at a time in the background, and
takes turns with what cannot: a query then waits for 10 ms of such work at most, not for 200.

One caller's text must not fail another's: a batch that fails is tried again text by text, for as
long as that takes no longer than a batch may hold up the next.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import anyio.to_thread
import numpy as np

from memory_actors.embedding.protocol import Embedded, Embedder, Vectors
from memory_actors.embedding.thread import LEAVE_S_MAX, EmbedderThread, closed, failed
from memory_actors.embedding.tokens import unpack
from memory_actors.embedding.vector_table import as_stored
from memory_actors.errors import EmbedderError

BATCH_TEXTS_MAX = 64  # about 0.2 s of work: how long a query may have to wait for others
BACKGROUND_CHARACTERS_MAX = 500  # of a batch in the background: 5 to 10 ms
QUEUE_TEXTS_MAX = 4096  # of all callers: about 10 s of work, beyond which waiting is no use
APART_S_MAX = 1.0  # spent on a failed batch text by text: a dead embedder may be slow to say so

Outcome: TypeAlias = Embedded | EmbedderError


@dataclass(slots=True, eq=False)
class _Wanted:
    """A text and everybody who waits for its vector."""

    text: str
    callers: "list[asyncio.Future[Outcome]]" = field(default_factory=list)

    def settle(self, outcome: Outcome) -> None:
        """Answer those who still wait."""
        for caller in self.callers:
            if not caller.done():
                caller.set_result(outcome)


class _Begun(NamedTuple):
    """A batch that the thread is at."""

    batch: list[_Wanted]
    outcomes: "asyncio.Future[list[Outcome]]"


class Batcher:
    """The only caller of an embedder.

    Callers who wait longer than `deadline_s` get an error. The embedder's thread cannot be stopped,
    so the next batch waits for it. While it is at one batch for longer than that, callers get the
    error at once: who is written to has no use for waiting until the end of a hang.
    """

    def __init__(self, embedder: Embedder, *, deadline_s: float):
        self.embedder = embedder
        self.texts_embedded = 0
        self._deadline_s = deadline_s
        self._queue: deque[_Wanted] = deque()
        self._background: deque[_Wanted] = deque()
        self._background_next = False
        """Whose turn it is where both have something."""
        self._wanted: dict[str, _Wanted] = {}  # waiting or being computed
        self._thread = EmbedderThread()
        self._closing = False
        """Whether what can wait has to wait for the next opening."""
        self._closed = False
        self._task: asyncio.Task[None] | None = None
        self._begun_at_s: float | None = None
        """When the thread began what it is at."""

    @property
    def hangs(self) -> bool:
        """Whether the thread is at one batch for longer than a caller may wait."""
        since_s = self._begun_at_s
        return since_s is not None and time.monotonic() - since_s > self._deadline_s

    @property
    def waiting(self) -> int:
        """How many texts are queued."""
        return len(self._queue) + len(self._background)

    async def embed_each(self, texts: Sequence[str], *, background: bool = False) -> list[Outcome]:
        """Return what is known of each text, or why nothing is; `background` is what can wait."""
        outcomes: list[Outcome] = []
        for start in range(0, len(texts), BATCH_TEXTS_MAX):
            some = texts[start : start + BATCH_TEXTS_MAX]
            outcomes += await self._embed_some(some, background=background)
        return outcomes

    async def embed(self, texts: Sequence[str]) -> list[Embedded]:
        """Return what is known of each text.

        :raises EmbedderError: the embedder failed, took too long, or returned what it should not.
        """
        return all_or_error(await self.embed_each(texts))

    async def run(self, call: Callable[[], Any], deadline_s: float | None = None) -> Any:
        """Run a call of the embedder's own in its thread, within `deadline_s` if one is given.

        :raises EmbedderError: it failed.
        """
        try:
            async with asyncio.timeout(deadline_s):
                return await self._thread.submit(call)
        except EmbedderError:
            raise
        except Exception as error:
            raise failed(error) from error

    def stop_background(self) -> None:
        """Begin nothing more that can wait: who waits for it, or comes with it, gets an error."""
        self._closing = True
        self._refuse(self._background)

    async def close(self, wait_s: float = LEAVE_S_MAX) -> None:
        """Begin nothing more, and wait for what is being computed, for `wait_s` at most."""
        self._closed = True
        self.stop_background()
        self._refuse(self._queue)
        self._thread.stop()
        await anyio.to_thread.run_sync(self._thread.join, wait_s)

    def _refuse(self, queue: deque[_Wanted]) -> None:
        for want in queue:
            del self._wanted[want.text]
            want.settle(closed())
        queue.clear()

    async def _embed_some(self, texts: Sequence[str], *, background: bool) -> list[Outcome]:
        if self._closed or (background and self._closing):
            return [closed()] * len(texts)
        if self.waiting >= QUEUE_TEXTS_MAX:
            full = EmbedderError(
                f"{QUEUE_TEXTS_MAX:,} texts are waiting to be embedded: try again later"
            )
            return [full] * len(texts)
        if self.hangs:
            return [self._late()] * len(texts)
        outcomes = [self._want(text, background=background) for text in texts]
        if self._task is None:  # the thread begins at once, not when the task has its turn
            self._task = asyncio.create_task(self._run(self._begun()))
        try:
            async with asyncio.timeout(self._deadline_s):
                return [await outcome for outcome in outcomes]
        except TimeoutError:
            return [self._late()] * len(texts)
        finally:
            for outcome in outcomes:
                outcome.cancel()

    def _late(self) -> EmbedderError:
        return EmbedderError(
            f"the embedder gave no answer within {self._deadline_s:g} s: see whether it hangs"
        )

    def _want(self, text: str, *, background: bool) -> "asyncio.Future[Outcome]":
        want = self._wanted.get(text)
        if want is None:
            want = self._wanted[text] = _Wanted(text)
            (self._background if background else self._queue).append(want)
        elif not background and want in self._background:
            self._background.remove(want)
            self._queue.append(want)
        outcome: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        want.callers.append(outcome)
        return outcome

    async def _run(self, begun: _Begun | None) -> None:
        try:
            while begun is not None:
                outcomes = await self._ended(begun)
                self._begun_at_s = None
                for want, outcome in zip(begun.batch, outcomes, strict=True):
                    del self._wanted[want.text]
                    want.settle(outcome)
                begun = self._begun()
        finally:
            self._task = None

    async def _ended(self, begun: _Begun) -> list[Outcome]:
        try:
            return await begun.outcomes
        except EmbedderError as error:  # closed before the thread came to it
            return [error] * len(begun.batch)

    def _begun(self) -> _Begun | None:
        """Give the thread the next batch, if anybody wants something."""
        while self.waiting:
            batch = [want for want in self._taken() if self._still_wanted(want)]
            if batch:
                texts = [want.text for want in batch]
                self._begun_at_s = time.monotonic()
                return _Begun(batch, self._thread.submit(partial(self._outcomes, texts)))
        return None

    def _taken(self) -> list[_Wanted]:
        """Take what makes a batch out of the queue whose turn it is."""
        if self._queue and not (self._background and self._background_next):
            self._background_next = True
            return [self._queue.popleft() for _ in range(min(BATCH_TEXTS_MAX, len(self._queue)))]
        self._background_next = False
        taken = [self._background.popleft()]
        characters = len(taken[0].text)
        while self._background and len(taken) < BATCH_TEXTS_MAX:
            characters += len(self._background[0].text)
            if characters > BACKGROUND_CHARACTERS_MAX:
                break
            taken.append(self._background.popleft())
        return taken

    def _still_wanted(self, want: _Wanted) -> bool:
        """Say whether somebody waits; forget a text that nobody waits for any more."""
        if all(caller.done() for caller in want.callers):
            del self._wanted[want.text]
            return False
        return True

    # --- in the thread

    def _outcomes(self, texts: Sequence[str]) -> list[Outcome]:
        try:
            return list(self._embed(texts))
        except BaseException as error:
            failure = failed(error)
        return [failure] if len(texts) == 1 else self._one_by_one(texts, failure)

    def _one_by_one(self, texts: Sequence[str], failure: EmbedderError) -> list[Outcome]:
        outcomes: list[Outcome] = []
        until_s = time.monotonic() + APART_S_MAX
        for text in texts:
            in_time = time.monotonic() < until_s
            outcomes += self._outcomes([text]) if in_time else [failure]
        return outcomes

    def _embed(self, texts: Sequence[str]) -> list[Embedded]:
        vectors, tokens = self._computed(texts)
        check_vectors(vectors, len(texts), self.embedder.dimension)
        self.texts_embedded += len(texts)
        return list(map(Embedded, as_stored(vectors), tokens))

    def _computed(self, texts: Sequence[str]) -> tuple[Vectors, Sequence[bytes | None]]:
        encode = getattr(self.embedder, "encode", None)
        if encode is None:
            return self.embedder.embed(texts), [None] * len(texts)
        encoded = encode(texts)
        for one in encoded:
            if one.tokens is not None:
                unpack(one.tokens)  # what is not whole would be found out after the commit
        return np.stack([one.vector for one in encoded]), [one.tokens for one in encoded]


def all_or_error(outcomes: Sequence[Outcome]) -> list[Embedded]:
    """Return what is known of all texts, or raise the first error."""
    found: list[Embedded] = []
    for outcome in outcomes:
        if isinstance(outcome, EmbedderError):
            raise outcome
        found.append(outcome)
    return found


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
