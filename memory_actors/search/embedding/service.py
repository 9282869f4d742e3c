"""One embedder, one table of vectors and one cache, for all users of a store."""

import asyncio
from contextlib import suppress
from functools import partial
from typing import Final

import anyio.to_thread
import numpy as np

from eventlog import Checkpoint, DerivingStore, EventLogError, EventStore, Keys
from eventlog.core.logs import get_logger
from memory_actors.base.background_tasks import left_quietly
from memory_actors.base.errors import EmbedderError, ModelMismatchError, WrongVectorsError
from memory_actors.base.privacy import reason
from memory_actors.base.settings import DEADLINE_S, Settings
from memory_actors.base.statistics import EmbeddingStatistics
from memory_actors.base.tracing import here, step
from memory_actors.base.validation import CONTENT_BYTES_MAX
from memory_actors.kinds.passages import composed, text_digest
from memory_actors.search.embedding.batcher import Batcher
from memory_actors.search.embedding.default import DefaultEmbedder, JoinedEmbedder, general_texts
from memory_actors.search.embedding.embedder_thread import LEAVE_S_MAX, Outcome
from memory_actors.search.embedding.embeddings import EmbeddingCache, Embeddings
from memory_actors.search.embedding.protocol import Embedder, Vectors
from memory_actors.search.embedding.rows import EVERYBODY, owner_of
from memory_actors.search.embedding.shared import SharedDerived
from memory_actors.search.embedding.vector_table import VectorTable

MEANS: Final = "background means"
"""The name of the log's entries for the mean vectors of models."""
PROBE_S_MAX = 5.0  # for one text, once it is loaded: who opens a store is waiting

NAME: Final = "embedder"
"""The fact that names the store's own embedder."""

_logger = get_logger("memory_actors.search.embedding")


def name_in(disk: VectorTable) -> str | None:
    """Return the name of the embedder that a store was opened with last, or switched to.

    None: it is a new store. An empty text: it was an embedder of the caller's own.
    """
    fact = disk.fact(NAME)
    return None if fact is None else fact.decode()


class EmbeddingService(Embeddings):
    """The embeddings of everybody, and what those of each user share.

    With `keys`, or a `log` that keeps derived data, each user's embeddings are their own, and what
    is nobody's stays in memory.
    """

    def __init__(
        self,
        embedder: Embedder,
        disk: VectorTable,
        *,
        name: str | None = None,
        deadline_s: float = DEADLINE_S,
        cache_texts_max: int = Settings().embedding_cache_texts,
        keys: Keys | None = None,
        log: EventStore | None = None,
    ):
        self._keys = keys
        self._store: DerivingStore | None = log if isinstance(log, DerivingStore) else None
        self._facts: EventStore | None = None if self._store is None else log
        """The log, where what is derived of models is kept there too."""
        self.apart = keys is not None or self._store is not None
        """True if what is nobody's stays in memory."""
        self.embedder: Embedder = embedder
        self.name = name
        """The name of the embedder; None: it is one of the caller's own."""
        self.disk = disk
        self._cache_texts_max = cache_texts_max
        self.cache: EmbeddingCache = EmbeddingCache(cache_texts_max)
        self._successor: EmbeddingService | None = None
        self.from_memory = self.from_disk = 0  # embeddings, since the store was opened
        super().__init__(self, EVERYBODY, None)
        self._batcher = Batcher(embedder, deadline_s=deadline_s)
        self._deadline_s = deadline_s
        self._background: Vectors | None = None
        self._preparing = asyncio.Lock()
        self.prepared = False
        """True once the embedder has been loaded."""
        self._unprepared = ""
        """Why it is not, as it was logged last."""
        self._finding: asyncio.Task[Vectors] | None = None
        self._flusher: asyncio.Task[None] | None = None

    def check_model(self, *, reindex: bool) -> None:
        """Remember which model made the vectors. Blocks: call it off the loop.

        :raises ModelMismatchError: it was another one, and `reindex` is not set.
        """
        mine, fact = self.embedder.fingerprint, self.disk.fact("model")
        if fact is not None and fact.decode() != mine and not reindex:
            raise ModelMismatchError(
                f"this store is indexed with {fact.decode()!r}, not with {mine!r}: open it with "
                "that model, and change it by `memory-actors model switch`; or with reindex=True "
                "to embed its memories again"
            )
        if fact is None or fact.decode() != mine:
            self.make_own()
        elif (name_in(self.disk) or None) != self.name:
            with suppress(EventLogError):  # on a full disk: the next opening does it
                self.make_own()
        self.disk.use_model(self.recipe)

    def make_own(self) -> None:
        """Record the model as the store's own, and its name. Blocks: call it off the loop."""
        self.disk.set_facts(
            {"model": self.embedder.fingerprint.encode(), NAME: (self.name or "").encode()}
        )

    def with_embedder(self, embedder: Embedder, name: str) -> "EmbeddingService":
        """Return the embeddings of another model in the same file. Blocks: call it off the loop."""
        made = EmbeddingService(
            embedder,
            self.disk.of_model(""),
            name=name,
            deadline_s=self._deadline_s,
            cache_texts_max=self._cache_texts_max,
            keys=self._keys,
        )
        made.disk.use_model(made.recipe)
        return made

    def stop(self) -> None:
        """Stop the model alone: the file is another's."""
        self._batcher.stop()

    def succeed(self, successor: "EmbeddingService") -> None:
        """Close another model's embeddings with these, which those who have them may still use."""
        self._successor = successor

    async def probe(self) -> None:
        """See that an embedder of the caller's own gives vectors, before anything relies on them.

        One that gives no answer now may give one later, as for any text: that is logged. The
        default one needs no test, and is not loaded for one.

        :raises EmbedderError: it answers with what no index can hold.
        """
        if isinstance(self.embedder, DefaultEmbedder):
            return
        try:
            await self._prepare()
            await self._batcher.probe(min(self._deadline_s, PROBE_S_MAX))
        except WrongVectorsError:
            raise
        except EmbedderError as error:
            _logger.warning("the embedder gave no vector at the opening", error=reason(error))

    async def load(self) -> None:
        """Load the default model in its thread, if it is installed: no first call waits for it.

        With another model of a name, the mean of general text is begun, which takes seconds.
        """
        if isinstance(self.embedder, JoinedEmbedder):
            self._begin_mean()
        elif isinstance(self.embedder, DefaultEmbedder) and self.embedder.is_installed:
            with suppress(EmbedderError):  # logged; the first text to embed tries again
                await self._prepare()

    def of(self, stream: str) -> Embeddings:
        """Return the embeddings that a user's memories are found by."""
        owner = owner_of(self._keys, stream, apart=self._store is not None)
        if self._store is None:
            return Embeddings(self, owner, None)
        seal = partial(self.disk.sealed, owner=owner)
        return Embeddings(self, owner, SharedDerived(self._store, stream, seal))

    def flush_soon(self, delay_s: float) -> None:
        """Write the waiting rows to the disk after a delay in seconds."""
        if self._flusher is None or self._flusher.done():
            # may begin while asyncio.run cancels the others: then nothing ends it
            self._flusher = left_quietly(asyncio.create_task(self._flush(delay_s)))

    async def compute(
        self, texts: list[str], *, background: bool = False, query: bool = False
    ) -> list[Outcome]:
        """Return the embedding of each text, or why it has none."""
        texts = [composed(text[:CONTENT_BYTES_MAX]) for text in texts]  # models read no more
        try:
            await self._prepare()
        except EmbedderError as error:
            return [error] * len(texts)
        return await self._batcher.embed_each(texts, background=background, query=query)

    async def _prepare(self) -> None:
        """Let the embedder load once, outside of any deadline: it may have to be installed.

        Why it cannot is logged once, not for each text: it was given none, so it quotes none.
        """
        if self.prepared:
            return
        prepare = getattr(self.embedder, "prepare", None)
        async with self._preparing:
            if prepare is not None and not self.prepared:
                try:
                    await self._batcher.run(prepare)
                except EmbedderError as error:
                    if str(error) != self._unprepared:
                        self._unprepared = str(error)
                        _logger.warning("the embedder is not ready", reason=str(error))
                    raise
            self.prepared = True

    async def clear(self) -> None:
        """Delete all that is known of texts, and every byte of it: what the store has stays there.

        :raises EventLogError: the file could not be written or copied; it can be repeated.
        """
        self._cache.clear()
        await anyio.to_thread.run_sync(self.disk.clear)

    async def shrink(self) -> None:
        """Return deleted rows' room to the disk, if that is a good part of the file."""
        await anyio.to_thread.run_sync(self.disk.shrink)

    async def background_mean(self) -> Vectors:
        """Return the mean vector of general text.

        Sentence vectors of one model share a large common part that says nothing about their
        meaning. Taking it away (centring) makes what is left comparable.

        :raises EmbedderError: the model failed or took too long, or says it has a mean that is no
            vector of its dimension.
        """
        if self._background is None:
            self._background = await asyncio.shield(self._begin_mean())
        return self._background

    def _begin_mean(self) -> "asyncio.Task[Vectors]":
        """Find the mean, once for all who want it."""
        if self._finding is None or self._finding.done():
            self._finding = left_quietly(asyncio.create_task(self._found_mean()))
        return self._finding

    async def _found_mean(self) -> Vectors:
        own = getattr(self.embedder, "background_mean", None)
        if own is None:
            return await self._computed_mean()
        await self._prepare()  # which may take as long as it takes
        mean = np.asarray(await self._batcher.run(own, self._deadline_s), np.float32)
        dimension = self.embedder.dimension
        if mean.shape != (dimension,) or not np.all(np.isfinite(mean)):
            raise WrongVectorsError(
                f"background_mean returned shape {list(mean.shape)}, or numbers not finite: "
                f"return float32 [{dimension}]"
            )
        return mean

    async def _computed_mean(self) -> Vectors:
        """Return the mean of the bundled texts: the table keeps it, and the log, if it may."""
        name, log = f"background mean of {self.embedder.fingerprint}", self._facts
        fact = await anyio.to_thread.run_sync(self.disk.fact, name)
        if fact is None and log is not None:
            fact = await log.load_entry(MEANS, text_digest(name))
        if fact is None or len(fact) != 4 * self.embedder.dimension:
            texts = general_texts()
            with step("mean", [here()], texts=len(texts)):
                embedded = await self._batcher.embed(texts)
            mean = np.mean([one.vector for one in embedded], axis=0, dtype=np.float64)
            fact = mean.astype(np.float32).tobytes()
            await anyio.to_thread.run_sync(self.disk.set_facts, {name: fact})
            if log is not None:
                await log.save_checkpoint(Checkpoint(MEANS, 0, {text_digest(name): fact}))
        return np.frombuffer(fact, np.float32)

    def statistics(self) -> EmbeddingStatistics:
        """Return where vectors came from since the store was opened."""
        return EmbeddingStatistics(
            self.from_memory,
            self.from_disk,
            self._batcher.texts_embedded,
            self._batcher.waiting,
        )

    def stop_background(self) -> None:
        """Embed nothing more in the background: closing has begun."""
        if self._successor is not None:
            self._successor.stop_background()
        self._batcher.stop_background()

    def release(self) -> None:
        """Stop the model, write what waits and close the file, where no event loop waits for it."""
        if self._successor is not None:
            self._successor.release()
        self._batcher.stop()
        with suppress(EventLogError):  # derived data: what was not written is embedded again
            self.disk.close()

    async def close(self, wait_s: float = LEAVE_S_MAX) -> None:
        """Wait for what is being computed, for `wait_s` at most; write what waits and close."""
        if self._successor is not None:
            await self._successor.close(wait_s)
        if self._finding is not None:
            self._finding.cancel()
        await self._batcher.close(wait_s)
        if self._flusher is not None:
            await asyncio.wait([self._flusher])
        await anyio.to_thread.run_sync(self.disk.close)

    async def _flush(self, delay_s: float) -> None:
        while self.disk.waiting:  # also what came while it wrote
            await asyncio.sleep(delay_s)
            await anyio.to_thread.run_sync(self.disk.flush)
