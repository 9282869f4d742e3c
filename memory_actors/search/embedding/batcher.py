"""Gathers texts from many callers into batches for one embedder, called in threads of its own.

While a batch is being computed, what arrives is collected and becomes the next one. So an idle
embedder starts at once, and a busy one works in full batches. A text that several callers want at
the same time is computed once.

What can wait (the passages of a summary, say) is embedded a little at a time in the background: in
a thread of its own, where the embedder may be called by two at once, so that a query does not wait
for it. Elsewhere both take turns: a query waits for 10 ms of such work at most, not for 200.

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

from memory_actors.base.errors import EmbedderError
from memory_actors.search.embedding.protocol import Embedded, Embedder, VectorForm
from memory_actors.search.embedding.thread import LEAVE_S_MAX, EmbedderThread, closed, failed
from memory_actors.search.embedding.tokens import unpack
from memory_actors.search.embedding.vector_table import as_stored

BATCH_TEXTS_MAX = 64  # about 0.2 s of work: how long a query may have to wait for others
BACKGROUND_CHARACTERS_MAX = 500  # of a batch in the background: 5 to 10 ms
QUEUE_TEXTS_MAX = 4096  # of all callers: about 10 s of work, beyond which waiting is no use
PROBE = "This text is embedded once, to see what comes of it."
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
    """A batch that a thread is at."""

    batch: list[_Wanted]
    outcomes: "asyncio.Future[list[Outcome]]"


class _Lane:
    """A thread, and the texts that wait for it: those that cannot wait and those that can."""

    def __init__(self, texts_max: int) -> None:
        self.thread = EmbedderThread()
        self._texts_max = texts_max
        self.urgent: deque[_Wanted] = deque()
        self.background: deque[_Wanted] = deque()
        self.task: asyncio.Task[None] | None = None
        self._background_next = False
        """Says whose turn it is if both have something."""

    @property
    def waiting(self) -> int:
        """The number of texts that wait."""
        return len(self.urgent) + len(self.background)

    def take(self) -> list[_Wanted]:
        """Take what makes a batch out of the queue whose turn it is; nothing if none waits."""
        if self.urgent and not (self.background and self._background_next):
            self._background_next = True
            return [self.urgent.popleft() for _ in range(min(self._texts_max, len(self.urgent)))]
        self._background_next = False
        taken, characters = list[_Wanted](), 0
        while self.background and len(taken) < self._texts_max:
            characters += len(self.background[0].text)
            if taken and characters > BACKGROUND_CHARACTERS_MAX:
                break
            taken.append(self.background.popleft())
        return taken


class Batcher:
    """The only caller of an embedder.

    Callers who wait longer than `deadline_s` get an error. An embedder's thread cannot be stopped,
    so the next batch waits for it. While it is at one batch for longer than that, callers get the
    error at once: who is written to has no use for waiting until the end of a hang.
    """

    def __init__(self, embedder: Embedder, *, deadline_s: float):
        self.embedder = embedder
        self.texts_embedded = 0
        self._form = VectorForm(embedder.dimension)
        self._deadline_s = deadline_s
        self._texts_max = min(
            getattr(embedder, "batch_texts_max", BATCH_TEXTS_MAX), BATCH_TEXTS_MAX
        )
        self._first = _Lane(self._texts_max)
        parallel = getattr(embedder, "parallel", False)
        self._apart = _Lane(self._texts_max) if parallel else self._first
        self._lanes = {self._first, self._apart}
        self._wanted: dict[str, _Wanted] = {}  # waiting or being computed
        self._closing = False
        """True once texts that can wait have to wait for the next opening."""
        self._closed = False

    def hangs(self, *, background: bool = False) -> bool:
        """Say whether the thread is at one call for longer than a caller may wait."""
        return self._lane(background).thread.busy_s > self._deadline_s

    @property
    def waiting(self) -> int:
        """The number of texts that are queued."""
        return sum(lane.waiting for lane in self._lanes)

    async def embed_each(self, texts: Sequence[str], *, background: bool = False) -> list[Outcome]:
        """Return what is known of each text, or why nothing is; `background` is what can wait."""
        outcomes: list[Outcome] = []
        for start in range(0, len(texts), self._texts_max):
            some = texts[start : start + self._texts_max]
            outcomes += await self._embed_some(some, background=background)
        return outcomes

    async def embed(self, texts: Sequence[str]) -> list[Embedded]:
        """Return what is known of each text.

        :raises EmbedderError: the embedder failed, took too long, or returned what it should not.
        """
        found: list[Embedded] = []
        for outcome in await self.embed_each(texts):
            if isinstance(outcome, EmbedderError):
                raise outcome
            found.append(outcome)
        return found

    async def probe(self, deadline_s: float) -> None:
        """Embed a text for nothing, to see that the embedder can.

        :raises WrongVectorsError: it answers with what no index can hold.
        :raises EmbedderError: it failed, or gave no answer in time.
        """
        await self.run(partial(self._embed, [PROBE]), deadline_s)

    async def run(self, call: Callable[[], Any], deadline_s: float | None = None) -> Any:
        """Run a call of the embedder's own in its thread, within `deadline_s` if one is given.

        :raises EmbedderError: it failed.
        """
        try:
            async with asyncio.timeout(deadline_s):
                return await self._first.thread.submit(call)
        except EmbedderError:
            raise
        except Exception as error:
            raise failed(error) from error

    def stop_background(self) -> None:
        """Begin nothing more that can wait: who waits for it, or comes with it, gets an error."""
        self._closing = True
        self._refuse(self._apart.background)

    async def close(self, wait_s: float = LEAVE_S_MAX) -> None:
        """Begin nothing more, and wait for what is being computed, for `wait_s` at most."""
        self._closed = True
        self.stop_background()
        self._refuse(self._first.urgent)
        for lane in self._lanes:
            lane.thread.stop()
        async with anyio.create_task_group() as joining:
            for lane in self._lanes:
                joining.start_soon(anyio.to_thread.run_sync, lane.thread.join, wait_s)

    def _refuse(self, queue: deque[_Wanted]) -> None:
        for want in queue:
            del self._wanted[want.text]
            want.settle(closed())
        queue.clear()

    def _lane(self, background: bool) -> _Lane:
        return self._apart if background else self._first

    async def _embed_some(self, texts: Sequence[str], *, background: bool) -> list[Outcome]:
        if self._closed or (background and self._closing):
            return [closed()] * len(texts)
        if self.waiting >= QUEUE_TEXTS_MAX:
            full = EmbedderError(
                f"{QUEUE_TEXTS_MAX:,} texts are waiting to be embedded: try again later"
            )
            return [full] * len(texts)
        if self.hangs(background=background):
            return [self._late()] * len(texts)
        outcomes = [self._want(text, background=background) for text in texts]
        lane = self._lane(background)
        # The thread begins at once, not when the task has its turn. There may be nothing to begin:
        # the other lane is at what is wanted.
        if lane.task is None and (begun := self._begun(lane)) is not None:
            lane.task = asyncio.create_task(self._run(lane, begun))
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
            (self._apart.background if background else self._first.urgent).append(want)
        elif not background and want in self._apart.background:
            self._apart.background.remove(want)
            self._first.urgent.append(want)
        outcome: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        want.callers.append(outcome)
        return outcome

    async def _run(self, lane: _Lane, begun: _Begun | None) -> None:
        try:
            while begun is not None:
                try:
                    outcomes = await begun.outcomes
                except EmbedderError as error:  # closed before the thread came to it
                    outcomes = [error] * len(begun.batch)
                for want, outcome in zip(begun.batch, outcomes, strict=True):
                    self.texts_embedded += not isinstance(outcome, EmbedderError)
                    del self._wanted[want.text]
                    want.settle(outcome)
                begun = self._begun(lane)
        finally:
            lane.task = None

    def _begun(self, lane: _Lane) -> _Begun | None:
        """Give the thread the next batch, if anybody wants something."""
        while taken := lane.take():
            batch = [want for want in taken if self._still_wanted(want)]
            if batch:
                texts = [want.text for want in batch]
                return _Begun(batch, lane.thread.submit(partial(self._outcomes, texts)))
        return None

    def _still_wanted(self, want: _Wanted) -> bool:
        """Say whether somebody waits; forget a text that nobody waits for any more."""
        if all(caller.done() for caller in want.callers):
            del self._wanted[want.text]
            return False
        return True

    # --- in a thread

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
        given, tokens = self._computed(texts)
        vectors = self._form.vectors(given, len(texts))
        return list(map(Embedded, as_stored(vectors), tokens))

    def _computed(self, texts: Sequence[str]) -> tuple[Any, Sequence[bytes | None]]:
        encode = getattr(self.embedder, "encode", None)
        if encode is None:
            return self.embedder.embed(texts), [None] * len(texts)
        encoded = encode(texts)
        for one in encoded:
            if one.tokens is not None:
                unpack(one.tokens)  # what is not whole would be found out after the commit
        return [one.vector for one in encoded], [one.tokens for one in encoded]
