"""Gathers texts from many callers into batches for one embedder, called in threads of its own.

While a batch is being computed, what arrives is collected and becomes the next one. An idle
embedder therefore starts at once, and a busy one works in full batches. A text that several callers
want at the same time is computed once.

A query goes before all that waits. If the embedder may be called by several threads, background
texts and many texts of one caller get threads of their own, one for each core, two at most, so that
a query does not wait for them either. Other embedders have one thread, and background texts (the
passages of a summary, say) are embedded in turn with the rest, a little at a time: a query waits
for 10 ms of such work at most, not for 200.

Many texts of one caller go in order of their length, for a batch takes as long as its longest text
takes for each: that was a twelfth of the time. The longest go first, so that no thread is left at
the end with the longest batch.

One caller's text must not fail another's: a batch that fails is tried again text by text, for as
long as that takes no longer than a batch may hold up the next.
"""

import asyncio
import os
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

import anyio.to_thread

from memory_actors.base.errors import EmbedderError
from memory_actors.base.tracing import here, step
from memory_actors.search.dot_products import coded_units
from memory_actors.search.embedding.embedder_thread import (
    LEAVE_S_MAX,
    EmbedderThread,
    Outcome,
    closed,
    failed,
    late,
)
from memory_actors.search.embedding.protocol import (
    Embedded,
    Embedder,
    VectorForm,
    Vectors,
    codebook_of,
)
from memory_actors.search.embedding.token_states import check_packed

T = TypeVar("T")
BATCH_TEXTS_MAX = 64  # about 0.2 s of work: how long a query may have to wait for others
BACKGROUND_CHARACTERS_MAX = 500  # of a batch in the background: 5 to 10 ms
QUEUE_TEXTS_MAX = 4096  # of all callers: about 10 s of work, beyond which waiting is no use
URGENT_TEXTS_MAX = 8  # of one call, for whom somebody waits: more are a load, such as an import
LANES_MAX = 2  # for the rest, at a core each; more were measured to gain nothing
PROBE = "This text is embedded once, to see what comes of it."
APART_S_MAX = 1.0  # spent on a failed batch text by text: a dead embedder may be slow to say so


@dataclass(slots=True, eq=False)
class _Wanted:
    """A text and everybody who waits for its vector."""

    text: str
    callers: "list[asyncio.Future[Outcome]]" = field(default_factory=list)
    marks: list[object] = field(default_factory=list)
    """One mark for each caller, for tracing. See tracing.py."""

    def settle(self, outcome: Outcome) -> None:
        for caller in self.callers:
            if not caller.done():
                caller.set_result(outcome)


class _Lane:
    """A thread, and the texts that wait for it: those that cannot wait and those that can."""

    def __init__(self, texts_max: int, urgent: deque[_Wanted], background: deque[_Wanted]) -> None:
        self.thread = EmbedderThread()
        self._texts_max = texts_max
        self.urgent = urgent
        self.background = background
        self.is_busy = False
        self._background_next = False
        """Says whose turn it is if both have something."""

    def take(self) -> list[_Wanted]:
        """Take one batch from the queue whose turn it is; empty if none waits."""
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


def cores() -> int:
    """Return how many cores this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)  # which not every system has
    return len(affinity(0)) if affinity is not None else os.cpu_count() or 1


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
        self.at_once_max = min(
            getattr(embedder, "batch_texts_max", BATCH_TEXTS_MAX), BATCH_TEXTS_MAX
        )
        """The most texts in a batch."""
        self._urgent, self._background = deque[_Wanted](), deque[_Wanted]()
        self._many = self._urgent
        """Texts of callers who want many."""
        self._lanes = [_Lane(self.at_once_max, self._urgent, self._background)]
        if getattr(embedder, "parallel", False):
            self._many = deque()
            nothing = deque[_Wanted]()
            waiting = [(self._urgent, nothing), (self._many, self._background)]
            waiting += [(self._many, nothing)] * (min(LANES_MAX, cores()) - 1)
            self._lanes = [_Lane(self.at_once_max, *queues) for queues in waiting]
        self._wanted: dict[str, _Wanted] = {}  # waiting or being computed
        self._closing = False
        """True once texts that can wait have to wait for the next opening."""
        self._closed = False

    def hangs(self, queue: deque[_Wanted] | None = None) -> bool:
        """Say whether those that serve a queue are at one call for longer than a caller may wait.

        By default the queue of texts that cannot wait.
        """
        serving = self._lanes_of(self._urgent if queue is None else queue)
        return all(lane.thread.busy_s > self._deadline_s for lane in serving)

    def _lanes_of(self, queue: deque[_Wanted]) -> list[_Lane]:
        return [one for one in self._lanes if queue is one.urgent or queue is one.background]

    @property
    def waiting(self) -> int:
        """The number of texts that are queued."""
        many = 0 if self._many is self._urgent else len(self._many)
        return len(self._urgent) + many + len(self._background)

    async def embed_each(
        self, texts: Sequence[str], *, background: bool = False, query: bool = False
    ) -> list[Outcome]:
        """Return the embedding of each text, or its error.

        `background` texts can wait; a `query` goes before what waits.
        """
        queue = self._urgent if len(texts) <= URGENT_TEXTS_MAX else self._many
        if background:
            queue = self._background
        if len(texts) <= self.at_once_max:
            return await self._embedded(texts, queue, query=query)
        found: dict[int, Outcome] = {}
        order = sorted(range(len(texts)), key=lambda place: len(texts[place]), reverse=True)
        starts = iter(range(0, len(texts), self.at_once_max))

        async def embed_some() -> None:
            for start in starts:
                places = order[start : start + self.at_once_max]
                outcomes = await self._embedded([texts[place] for place in places], queue)
                found.update(zip(places, outcomes, strict=True))

        at_once = len(self._lanes) if queue is self._many is not self._urgent else 1
        async with asyncio.TaskGroup() as group:
            for _ in range(at_once):
                group.create_task(embed_some())
        return [found[place] for place in range(len(texts))]

    async def embed(self, texts: Sequence[str]) -> list[Embedded]:
        """Return the embedding of each text. :raises EmbedderError: one could not be embedded."""
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

    async def run(self, call: Callable[[], T], deadline_s: float | None = None) -> T:
        """Run a call of the embedder's own in its thread, within `deadline_s` if one is given.

        :raises EmbedderError: it failed.
        """
        try:
            async with asyncio.timeout(deadline_s):
                return await self._lanes[0].thread.run(call)
        except EmbedderError:
            raise
        except Exception as error:
            raise failed(error) from error

    def stop_background(self) -> None:
        """Begin nothing more that can wait: who waits for it, or comes with it, gets an error."""
        self._closing = True
        self._refuse(self._background)

    def stop(self) -> None:
        """End the threads after the calls in hand. From any thread."""
        self._closed = True
        for lane in self._lanes:
            lane.thread.stop()

    async def close(self, wait_s: float = LEAVE_S_MAX) -> None:
        """Begin nothing more, and wait for what is being computed, for `wait_s` at most."""
        self.stop_background()
        self._refuse(self._urgent)
        self._refuse(self._many)
        self.stop()
        async with anyio.create_task_group() as joining:
            for lane in self._lanes:
                joining.start_soon(anyio.to_thread.run_sync, lane.thread.join, wait_s)

    def _refuse(self, queue: deque[_Wanted]) -> None:
        for want in queue:
            del self._wanted[want.text]
            want.settle(closed())
        queue.clear()

    async def _embedded(
        self, texts: Sequence[str], queue: deque[_Wanted], *, query: bool = False
    ) -> list[Outcome]:
        refusal = self._refusal(queue)
        outcomes = [self._want(text, queue, query=query, refusal=refusal) for text in texts]
        # There may be nothing to begin: another lane is at what is wanted.
        for lane in self._lanes_of(queue):
            if not lane.is_busy:
                self._begin_batch(lane)
        # Not `asyncio.wait`, which takes one more turn of the loop.
        alarm = asyncio.get_running_loop().call_later(self._deadline_s, self._give_up, outcomes)
        try:
            return [await outcome for outcome in outcomes]
        finally:  # what nobody else wants is not begun
            alarm.cancel()
            for outcome in outcomes:
                outcome.cancel()

    def _give_up(self, outcomes: "Sequence[asyncio.Future[Outcome]]") -> None:
        for outcome in outcomes:
            if not outcome.done():
                outcome.set_result(late(self._deadline_s))

    def _refusal(self, queue: deque[_Wanted]) -> EmbedderError | None:
        if self._closed or (queue is self._background and self._closing):
            return closed()
        if self.waiting >= QUEUE_TEXTS_MAX:
            return EmbedderError(
                f"{QUEUE_TEXTS_MAX:,} texts are waiting to be embedded: try again later"
            )
        return late(self._deadline_s) if self.hangs(queue) else None

    def _want(
        self, text: str, queue: deque[_Wanted], *, query: bool, refusal: EmbedderError | None
    ) -> "asyncio.Future[Outcome]":
        outcome: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        if refusal is not None:
            outcome.set_result(refusal)
            return outcome
        want = self._wanted.get(text)
        if want is None:
            want = self._wanted[text] = _Wanted(text)
            (queue.appendleft if query else queue.append)(want)
        elif (slower := self._slower(want, queue)) is not None:
            slower.remove(want)
            (queue.appendleft if query else queue.append)(want)
        want.callers.append(outcome)
        want.marks.append(here())
        return outcome

    def _slower(self, want: _Wanted, queue: deque[_Wanted]) -> deque[_Wanted] | None:
        """Return where a text waits, if that is behind what waits in this queue."""
        behind = [self._background]
        if queue is self._background:
            behind = []
        elif queue is self._urgent and self._many is not self._urgent:
            behind = [self._many, self._background]
        return next((one for one in behind if want in one), None)

    def _begin_batch(self, lane: _Lane) -> None:
        lane.is_busy = False
        while taken := lane.take():
            batch = []
            for want in taken:
                if all(caller.done() for caller in want.callers):  # nobody waits any more
                    del self._wanted[want.text]
                else:
                    batch.append(want)
            if batch:
                try:
                    done = partial(self._end_batch, lane, batch)
                    lane.thread.submit(partial(self._computed, batch), done)
                except Exception as error:
                    self._settle(batch, error)
                else:
                    lane.is_busy = True
                    return

    def _end_batch(
        self, lane: _Lane, batch: list[_Wanted], computed: list[Outcome] | Exception
    ) -> None:
        self._settle(batch, computed)
        self._begin_batch(lane)

    def _settle(self, batch: list[_Wanted], computed: list[Outcome] | Exception) -> None:
        if isinstance(computed, Exception):  # the thread was closed, or who watches steps failed
            computed = [failed(computed)] * len(batch)
        for want, outcome in zip(batch, computed, strict=True):
            self.texts_embedded += not isinstance(outcome, EmbedderError)
            del self._wanted[want.text]
            want.settle(outcome)

    # --- in a thread

    def _computed(self, batch: Sequence[_Wanted]) -> list[Outcome]:
        marks = [mark for want in batch for mark in want.marks]
        with step("embed", marks, texts=len(batch)):
            return self._outcomes([want.text for want in batch])

    def _outcomes(self, texts: Sequence[str]) -> list[Outcome]:
        try:
            return list(self._embed(texts))
        except BaseException as error:
            failure = failed(error)
        if len(texts) == 1:
            return [failure]
        outcomes: list[Outcome] = []
        until_s = time.monotonic() + APART_S_MAX
        for text in texts:
            in_time = time.monotonic() < until_s
            outcomes += self._outcomes([text]) if in_time else [failure]
        return outcomes

    def _embed(self, texts: Sequence[str]) -> list[Embedded]:
        encode = getattr(self.embedder, "encode", None)
        if encode is None:
            vectors = self._form.vectors(self.embedder.embed(texts), len(texts))
            return _as_stored([Embedded(vector, None) for vector in vectors], vectors)
        encoded: list[Embedded] = list(encode(texts))
        for one in encoded:
            if one.tokens is not None:  # else it would be found out after the commit
                check_packed(one.tokens, codebook_of(self.embedder))
        vectors = self._form.vectors([one.vector for one in encoded], len(texts))
        return _as_stored(encoded, vectors)


def _as_stored(embedded: Sequence[Embedded], vectors: Vectors) -> list[Embedded]:
    """Return embeddings with their vectors as they come back from disk.

    Answers are then the same before and after.
    """
    coded = coded_units(vectors)
    return [
        one._replace(vector=vector, coded=coded.at(slice(row, row + 1)))
        for row, (one, vector) in enumerate(zip(embedded, coded.decoded(), strict=True))
    ]
