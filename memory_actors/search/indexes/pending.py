"""Passages of one kind that are pending: not indexed yet, and on their way to be.

Most come with their event: their caller embeds the text and it is taken from here by its digest.
The others are embedded from the log, a few at a time, oldest first; where that fails, again after a
pause, the failed ones last, so that one text that cannot be embedded holds up nobody.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from itertools import islice
from typing import NamedTuple

import anyio

from eventlog.core.logs import get_logger
from memory_actors.base.background_tasks import BackgroundTasks
from memory_actors.base.errors import EmbedderClosedError
from memory_actors.kinds.passages import Passage, version_of
from memory_actors.search.embedding.embeddings import Embeddings
from memory_actors.search.embedding.protocol import Embedded

TEXTS_MAX = 64  # passages embedded in one go
RETRY_S = 5.0  # after the embedder failed
WAIT_STEP_S = 0.02
WAIT_S = 5.0  # how long a query waits for memories that are just being indexed

_logger = get_logger("memory_actors.user")


class EmbeddedText(NamedTuple):
    """A passage's text with what the embedder made of it."""

    text: str
    embedded: Embedded


Read = Callable[[Mapping[bytes, int]], Awaitable[dict[bytes, str]]]
"""(label by digest) -> the text by digest, of passages that still live."""
Settle = Callable[[Mapping[bytes, EmbeddedText]], None]
"""Indexes texts, by digest, and takes them from here."""


class PendingPassages:
    """The passages that wait for their vectors, by digest, in the order they came."""

    def __init__(
        self,
        name: str,
        read: Read,
        settle: Settle,
        embeddings: Embeddings,
        tasks: BackgroundTasks,
    ):
        self._task_name = f"index {name}"
        self._read = read
        self._settle = settle
        self._embeddings = embeddings
        self._tasks = tasks
        self._labels: dict[bytes, set[int]] = {}
        self._waits = False  # for an embedder that failed

    def retire(self) -> None:
        """Drop the references back to the index."""
        del self._read, self._settle

    def add(self, passage: Passage) -> None:
        """Take in a passage."""
        self._labels.setdefault(passage.digest, set()).add(passage.label)

    def discard(self, passage: Passage) -> None:
        """Forget a passage, if it is here."""
        labels = self._labels.get(passage.digest, set())
        labels.discard(passage.label)
        if not labels:
            self._labels.pop(passage.digest, None)

    def pop(self, digest: bytes) -> Iterable[int]:
        """Take out the passages that want a text; return their labels."""
        return self._labels.pop(digest, ())

    def clear(self) -> None:
        """Forget all pending passages."""
        self._labels.clear()

    def __len__(self) -> int:
        return sum(map(len, self._labels.values()))

    # --- embedded from the log

    def start(self) -> None:
        """Begin to index the pending passages."""
        if self._labels:
            self._tasks.start(self._task_name, self._index)

    def wants_of(self, versions: Collection[int], come: Collection[bytes]) -> bool:
        """Say whether passages of these events want a text that has not come."""
        return any(
            version_of(label) in versions
            for digest, labels in self._labels.items()
            if digest not in come
            for label in labels
        )

    def start_later(self, drained: Callable[[], Awaitable[None]]) -> None:
        """Begin to index after a pause, once `drained` says that all under way has come."""

        async def after_a_pause() -> None:
            await asyncio.sleep(RETRY_S)
            with anyio.move_on_after(RETRY_S):
                await drained()
            self.start()

        self._tasks.start(f"{self._task_name} later", after_a_pause)

    async def settled(self) -> None:
        """Wait for passages that are being indexed, for a few seconds at most."""
        until_s = asyncio.get_running_loop().time() + WAIT_S
        while (task := self._tasks.running(self._task_name)) is not None and not self._waits:
            if asyncio.get_running_loop().time() > until_s:
                _logger.warning("memories not yet searchable", count=len(self._labels))
                return
            await asyncio.wait([task], timeout=WAIT_STEP_S)  # it may turn to waiting itself

    async def _index(self) -> None:
        await self._embeddings.fetch(list(self._labels))
        while self._labels:
            self._waits = False
            batch = [(d, min(labels)) for d, labels in islice(self._labels.items(), TEXTS_MAX)]
            texts = await self._read(dict(batch))
            embedded, failed = await self._embeddings.embed_each(texts, background=True)
            self._settle(
                {digest: EmbeddedText(texts[digest], one) for digest, one in embedded.items()}
            )
            for digest in failed:  # to the end of the line, so that others get their turn
                labels = self._labels.pop(digest, None)
                if labels:
                    self._labels[digest] = labels
            if any(not isinstance(error, EmbedderClosedError) for error in failed.values()):
                _logger.warning("memories not indexed", count=len(failed))
            for digest in dict(batch).keys() - texts.keys():  # its row has gone
                self._labels.pop(digest, None)
            if not (bool(embedded) or not texts):
                self._waits = True
                await asyncio.sleep(RETRY_S)
