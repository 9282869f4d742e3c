"""Embeddings for everybody: from memory, from disk, or from the model, in that order.

If the log keeps derived data (shared.py), the disk is a cache: before texts of the log are
embedded, `Embeddings.fetch` loads the data from beside the user's stream.
"""

import asyncio
from collections.abc import Collection, Mapping, Sequence, Set
from contextlib import suppress
from functools import partial
from pathlib import Path

import anyio.to_thread
import numpy as np
import numpy.typing as npt

from eventlog import DerivingStore, EventLogError, EventStore, Keys
from eventlog.core.logs import get_logger
from eventlog.files.pages import CHECKED_BYTES_MAX
from memory_actors.base.background_tasks import left_quietly
from memory_actors.base.errors import EmbedderError, ModelMismatchError, WrongVectorsError
from memory_actors.base.privacy import reason
from memory_actors.base.settings import DEADLINE_S, Settings
from memory_actors.base.statistics import EmbeddingStatistics
from memory_actors.base.validation import CONTENT_BYTES_MAX
from memory_actors.kinds.phrasing import RECIPE, composed, text_digest
from memory_actors.search.dot_products import Bytes, Coded
from memory_actors.search.embedding.batcher import Batcher
from memory_actors.search.embedding.cache import EmbeddingCache
from memory_actors.search.embedding.default import DefaultEmbedder
from memory_actors.search.embedding.embedder_thread import LEAVE_S_MAX
from memory_actors.search.embedding.embeddings import Embeddings
from memory_actors.search.embedding.general_mean import computed_mean, own_mean
from memory_actors.search.embedding.in_flight import EmbeddingRequest, InFlight, Outcome, Outcomes
from memory_actors.search.embedding.key_scopes import EVERYBODY, Owner, owner_of
from memory_actors.search.embedding.protocol import Embedded, Embedder, Vectors, codebook_of
from memory_actors.search.embedding.rows import Numbers
from memory_actors.search.embedding.shared import SharedDerived
from memory_actors.search.embedding.token_states import RECIPE as TOKENS_RECIPE
from memory_actors.search.embedding.token_states import Codebook, states_of
from memory_actors.search.embedding.vector_table import WRITE_BEHIND_S, TakeTokens, VectorTable

PROBE_S_MAX = 5.0  # for one text, once it is loaded: who opens a store is waiting

_logger = get_logger("memory_actors.search.embedding")


class EmbeddingService:
    """One embedder, one table of vectors, one cache, for all users of a store.

    With `keys`, or a `log` that keeps derived data, each user's embeddings are their own, and what
    is nobody's stays in memory.
    """

    def __init__(
        self,
        embedder: Embedder,
        path: Path,
        *,
        deadline_s: float = DEADLINE_S,
        cache_texts_max: int = Settings().embedding_cache_texts,
        checked_bytes_max: int = CHECKED_BYTES_MAX,
        keys: Keys | None = None,
        log: EventStore | None = None,
    ):
        self.embedder = embedder
        self._keys = keys
        self._store: DerivingStore | None = log if isinstance(log, DerivingStore) else None
        self._facts: EventStore | None = None if self._store is None else log
        """The log, where what is derived of models is kept there too."""
        self._table = VectorTable(path, checked_bytes_max=checked_bytes_max)
        self._batcher = Batcher(embedder, deadline_s=deadline_s)
        self._deadline_s = deadline_s
        self._cache = EmbeddingCache(cache_texts_max)
        self._from_memory = 0
        self._from_disk = 0
        self._background: Vectors | None = None
        self._preparing = asyncio.Lock()
        self._prepared = False
        self._unprepared = ""
        """Why it is not, as it was logged last."""
        self._flusher: asyncio.Task[None] | None = None

    def check_model(self, *, reindex: bool) -> None:
        """Remember which model made the vectors. Blocks: call it off the loop.

        :raises ModelMismatchError: it was another one, and `reindex` is not set.
        """
        mine, fact = self.embedder.fingerprint, self._table.fact("model")
        if fact is not None and fact.decode() != mine and not reindex:
            raise ModelMismatchError(
                f"this store is indexed with {fact.decode()!r}, not with {mine!r}: open it with "
                "that model, or with reindex=True to embed its memories again"
            )
        if fact is None or fact.decode() != mine:
            self._table.set_fact("model", mine.encode())
        self._table.use_model(self.recipe, self._codebook_at_hand)

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
        """Load the default model in its thread, if it is installed: no first call waits for it."""
        if isinstance(self.embedder, DefaultEmbedder) and self.embedder.is_installed:
            with suppress(EmbedderError):  # logged; the first text to embed tries again
                await self._prepare()

    @property
    def recipe(self) -> str:
        """Name all that an embedding depends on: the model, what it is given, the projection."""
        return f"{self.embedder.fingerprint} {RECIPE} {TOKENS_RECIPE}"

    def codebook(self) -> Codebook:
        """Return the codebook that packs token states. It may load the model."""
        return codebook_of(self.embedder)

    def _codebook_at_hand(self) -> Codebook | None:
        """Return the codebook, or None if the model is not loaded, or not installed."""
        loads = hasattr(self.embedder, "codebook")
        return None if loads and not self._prepared else self.codebook()

    def as_query(self, text: str) -> str:
        """Return the text to embed for a query: the model may tell questions from answers."""
        return f"{getattr(self.embedder, 'query_prefix', '')}{text}"

    def of(self, stream: str) -> Embeddings:
        """Return the embeddings that a user's memories are found by."""
        if self._store is None:
            return Embeddings(self, owner_of(self._keys, stream), None)
        owner = owner_of(self._keys, stream, apart=True)
        seal = partial(self._table.sealed, owner=owner)
        return Embeddings(self, owner, SharedDerived(self._store, stream, seal))

    async def embed(
        self,
        texts: Sequence[str],
        *,
        background: bool = False,
        owner: Owner = EVERYBODY,
    ) -> list[Embedded]:
        """Return the embedding of each text. It leaves no trace on disk: see `keep`.

        `background` texts wait for others.

        :raises EmbedderError: the model failed or took too long.
        """
        digests = [text_digest(text) for text in texts]
        wanted = dict(zip(digests, texts, strict=True))
        found = await self.request(wanted, background=background, owner=owner).all()
        return [found[digest] for digest in digests]

    async def embed_each(
        self,
        texts: Mapping[bytes, str],
        *,
        background: bool = False,
        owner: Owner = EVERYBODY,
    ) -> Outcomes:
        """Return embeddings by the digests given with the texts, and why the others have none."""
        return await self.request(texts, background=background, owner=owner).each()

    def request(
        self,
        texts: Mapping[bytes, str],
        *,
        background: bool = False,
        owner: Owner = EVERYBODY,
    ) -> EmbeddingRequest:
        """Return a request for embeddings, by digest.

        Known ones are looked up now, the others computed once it begins.
        """
        found = self.known(list(texts), owner)
        if self._table.waiting:  # rows of an older store are written for having been read
            self._flush_soon(WRITE_BEHIND_S)
        compute = partial(self._computing, background=background)
        return EmbeddingRequest(texts, found, compute, partial(self._taken, owner=owner))

    async def embed_query(self, text: str) -> Embedded:
        """Return the embedding of a query, with its token states as they were before coding.

        :raises EmbedderError: the model failed or took too long.
        """
        text = self.as_query(text)
        digest = text_digest(text)
        known = self._cache.find_query(digest, EVERYBODY)
        if known is not None:
            self._from_memory += 1
            await asyncio.sleep(0)  # who waits for the model lets the others have a turn, too
            return known
        (one,) = await self._computing([text], query=True)
        if isinstance(one, EmbedderError):
            raise one
        self._cache.note_unkept([digest], EVERYBODY)
        if one.tokens is not None and one.states is None:  # its embedder gives coded states only
            one = one._replace(states=states_of(one.tokens, self.codebook()))
        self._cache.remember({digest: one}, EVERYBODY)
        return one

    def _taken(self, outcomes: Mapping[bytes, Outcome], *, owner: Owner) -> Outcomes:
        """Remember what was computed; return it, and why the others have nothing."""
        failed = {d: one for d, one in outcomes.items() if isinstance(one, EmbedderError)}
        # Only a query is compared by what was not coded, and that takes more than all the rest.
        fresh = {
            d: one._replace(states=None)
            for d, one in outcomes.items()
            if not isinstance(one, EmbedderError)
        }
        self._cache.note_unkept(fresh, owner)
        self._cache.remember(fresh, owner)
        return fresh, failed

    def keep(self, embedded: Mapping[bytes, Embedded], owner: Owner = EVERYBODY) -> None:
        """Write computed embeddings of texts, by digest, to the disk, soon.

        Only for texts in the log, since an erasure of the user finds them there.
        """
        is_apart = self._keys is not None or self._store is not None
        if is_apart and owner.is_everybody:
            return
        unkept = self._cache.take_unkept(embedded, owner)
        if unkept:
            self._flush_soon(0 if self._table.put(unkept, owner) else WRITE_BEHIND_S)

    def _flush_soon(self, delay_s: float) -> None:
        if self._flusher is None or self._flusher.done():
            # may begin while asyncio.run cancels the others: then nothing ends it
            self._flusher = left_quietly(asyncio.create_task(self._flush(delay_s)))

    def _computing(
        self, texts: list[str], *, background: bool = False, query: bool = False
    ) -> "InFlight | asyncio.Task[list[Outcome]]":
        """Begin to compute embeddings: in a task, where that takes more than handing them over."""
        texts = [composed(text[:CONTENT_BYTES_MAX]) for text in texts]  # models read no more
        if self._prepared and len(texts) <= self._batcher.at_once_max:
            return self._batcher.begin(texts, background=background, query=query)
        return asyncio.create_task(
            self._prepared_and_computed(texts, background=background, query=query)
        )

    async def _prepared_and_computed(
        self, texts: list[str], *, background: bool, query: bool
    ) -> list[Outcome]:
        try:
            await self._prepare()
        except EmbedderError as error:
            return [error] * len(texts)
        return await self._batcher.embed_each(texts, background=background, query=query)

    @property
    def prepared(self) -> bool:
        """Say whether the embedder has been loaded."""
        return self._prepared

    async def _prepare(self) -> None:
        """Let the embedder load once, outside of any deadline: it may have to be installed.

        Why it cannot is logged once, not for each text: it was given none, so it quotes none.
        """
        if self._prepared:
            return
        prepare = getattr(self.embedder, "prepare", None)
        async with self._preparing:
            if prepare is not None and not self._prepared:
                try:
                    await self._batcher.run(prepare)
                except EmbedderError as error:
                    if str(error) != self._unprepared:
                        self._unprepared = str(error)
                        _logger.warning("the embedder is not ready", reason=str(error))
                    raise
            self._prepared = True

    def known(self, digests: Sequence[bytes], owner: Owner = EVERYBODY) -> dict[bytes, Embedded]:
        """Return the embeddings that need no model, by digest of their text."""
        found = self._cache.find(digests, owner)
        self._from_memory += len(found)
        missing = [digest for digest in digests if digest not in found]
        if missing:
            try:
                stored = self._table.get(missing, self.embedder.dimension, owner)
            except EventLogError as error:  # derived data: as good as absent
                _logger.warning("embeddings not read", count=len(missing), error=str(error))
                stored = {}
            if hasattr(self.embedder, "encode"):  # one without token states is half there
                stored = {d: one for d, one in stored.items() if one.tokens is not None}
            self._from_disk += len(stored)
            self._cache.remember(stored, owner)
            found |= stored
        return found

    async def fetch(self, digests: Collection[bytes], owner: Owner, shared: SharedDerived) -> None:
        """Copy missing embeddings from beside a user's stream to the table on disk."""
        _, values = await self._beside(digests, owner, shared)
        if values:
            await anyio.to_thread.run_sync(self._table.take, values)

    async def recall(self, digests: Collection[bytes], owner: Owner, shared: SharedDerived) -> None:
        """Copy embeddings from beside a user's stream into memory alone."""
        keys, values = await self._beside(digests, owner, shared)
        opened = self._table.opened(values, keys, self.embedder.dimension, owner)
        self._cache.remember(opened, owner)

    async def _beside(
        self, digests: Collection[bytes], owner: Owner, shared: SharedDerived
    ) -> tuple[dict[bytes, bytes], dict[bytes, bytes]]:
        """Return the keys of texts that are not here, with their digests, and what lies there."""
        try:
            keys = await anyio.to_thread.run_sync(self._table.lacking, digests, owner)
            return keys, await shared.embeddings(keys) if keys else {}
        except EventLogError as error:  # derived data: as good as absent
            _logger.warning("embeddings not fetched", count=len(digests), error=str(error))
            return {}, {}

    def tokens(self, digests: Sequence[bytes], owner: Owner = EVERYBODY) -> dict[bytes, bytes]:
        """Return packed token states by digest, from memory or disk; from any thread."""
        held = self._cache.tokens(digests, owner)
        missing = [digest for digest in digests if digest not in held]
        return held | self._table.tokens(missing, self.embedder.dimension, owner)

    def stored(self, digests: Sequence[bytes], owner: Owner = EVERYBODY) -> dict[bytes, Vectors]:
        """Return vectors from disk, past the cache, by digest. For a thread."""
        stored = self._table.get(digests, self.embedder.dimension, owner)
        return {digest: one.vector for digest, one in stored.items()}

    def matrix(
        self,
        digests: Sequence[bytes],
        owner: Owner = EVERYBODY,
        take: TakeTokens | None = None,
        numbers: Numbers | None = None,
        into: Bytes | None = None,
    ) -> tuple[Coded, npt.NDArray[np.bool_]]:
        """Return vectors as rows, [n, d], and which are known; the others are zeros.

        `take` is given the token states of those that are there. See `VectorTable.matrix`.
        """
        return self._table.matrix(digests, self.embedder.dimension, owner, take, numbers, into)

    @property
    def table(self) -> bytes:
        """The identity of the table on disk: what its `numbers` are good for."""
        return self._table.identity

    def numbers(self, digests: Sequence[bytes], owner: Owner = EVERYBODY) -> Numbers:
        """Return the numbers of rows on disk by which they are found sooner. For a thread.

        0 for one that has none, or cannot be looked for.
        """
        try:
            return self._table.numbers(digests, owner)
        except EventLogError as error:  # derived data: digests find them as well
            _logger.warning("numbers of embeddings not read", error=str(error))
            return np.zeros(len(digests), np.uint32)

    async def forget(self, digests: Sequence[bytes], owner: Owner = EVERYBODY) -> None:
        """Delete what is known of texts. Another user who still has such a text embeds it again."""
        self._cache.forget(digests, owner)
        await anyio.to_thread.run_sync(self._table.delete, digests, owner)

    async def erase(self, digests: Set[bytes], owner: Owner = EVERYBODY) -> int:
        """Delete what is known of texts, of any model, and every byte of it; return how many.

        Cached query embeddings are deleted too, since their owner is unknown.

        :raises EventLogError: the file could not be written or copied; all of it can be repeated.
        """
        self._cache.clear()
        return await anyio.to_thread.run_sync(self._table.erase, digests, owner)

    async def clear(self) -> None:
        """Delete all that is known of texts, and every byte of it: what the store has stays there.

        :raises EventLogError: the file could not be written or copied; it can be repeated.
        """
        self._cache.clear()
        await anyio.to_thread.run_sync(self._table.clear)

    def copy_to(self, path: Path) -> None:
        """Copy what is on disk into a new file, while it is in use. Blocks.

        :raises EventLogError: the disk is full or failed, or the file is damaged.
        """
        self._table.copy_to(path)

    async def shrink(self) -> None:
        """Return deleted rows' room to the disk, if that is a good part of the file."""
        await anyio.to_thread.run_sync(self._table.shrink)

    async def background_mean(self) -> Vectors:
        """Return the mean vector of general text: see general_mean.py."""
        if self._background is None:
            self._background = await self._computed_background()
        return self._background

    async def _computed_background(self) -> Vectors:
        own = getattr(self.embedder, "background_mean", None)
        if own is None:
            return await computed_mean(self.embedder, self._batcher, self._table, self._facts)
        await self._prepare()  # which may take as long as it takes
        return own_mean(self.embedder, await self._batcher.run(own, self._deadline_s))

    def statistics(self) -> EmbeddingStatistics:
        """Return where vectors came from since the store was opened."""
        return EmbeddingStatistics(
            self._from_memory, self._from_disk, self._batcher.texts_embedded, self._batcher.waiting
        )

    def stop_background(self) -> None:
        """Embed nothing more in the background: closing has begun."""
        self._batcher.stop_background()

    def release(self) -> None:
        """Stop the model, write what waits and close the file, where no event loop waits for it."""
        self._batcher.stop()
        with suppress(EventLogError):  # derived data: what was not written is embedded again
            self._table.close()

    async def close(self, wait_s: float = LEAVE_S_MAX) -> None:
        """Wait for what is being computed, for `wait_s` at most; write what waits and close."""
        await self._batcher.close(wait_s)
        if self._flusher is not None:
            await asyncio.wait([self._flusher])
        await anyio.to_thread.run_sync(self._table.close)

    async def _flush(self, delay_s: float) -> None:
        while self._table.waiting:  # also what came while it wrote
            await asyncio.sleep(delay_s)
            await anyio.to_thread.run_sync(self._table.flush)
