"""The embeddings of one user, or of everybody: from memory, from disk, or from the model.

The embeddings that were used last are in memory. Most of what is computed is of queries, which are
never kept. The embedding of an added text is written to the disk once the log has the text: until
then its key is remembered.

If the log keeps derived data (shared.py), the disk is a cache: before texts of the log are
embedded, `fetch` loads the data from beside the user's stream.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from typing import TYPE_CHECKING, Final, NamedTuple, Self, TypeAlias

import anyio.to_thread
import numpy as np
import numpy.typing as npt

from eventlog import EventLogError
from eventlog.core.logs import get_logger
from memory_actors.base.errors import EmbedderError
from memory_actors.kinds.passages import RECIPE, text_digest
from memory_actors.search.dot_products import Bytes, Coded, coded, coded_units, units_of
from memory_actors.search.embedding.protocol import Embedded, Embedder, codebook_of
from memory_actors.search.embedding.rows import Numbers, Owner
from memory_actors.search.embedding.shared import SharedDerived
from memory_actors.search.embedding.token_states import RECIPE as TOKENS_RECIPE
from memory_actors.search.embedding.token_states import Codebook, states_of
from memory_actors.search.embedding.vector_table import WRITE_BEHIND_S, VectorTable

if TYPE_CHECKING:
    from memory_actors.search.embedding.embedder_thread import Outcome
    from memory_actors.search.embedding.service import EmbeddingService

Outcomes: TypeAlias = tuple[dict[bytes, Embedded], dict[bytes, EmbedderError]]
"""Embeddings by the digests of their texts, and why the others have none."""
UNKEPT_MAX: Final = 10_000
"""Texts remembered as not on disk: most are queries, which are never kept. A text that was
added beyond it is embedded again when its user wakes up."""


class _CachedEmbedding(NamedTuple):
    """An embedding in the cache, its vector as on disk: as float32 it takes four times that."""

    codes: bytes
    tokens: bytes | None
    states: Bytes | None

    @classmethod
    def of(cls, one: Embedded) -> Self:
        coded = one.coded or coded_units(one.vector[None])
        return cls(coded.codes.tobytes(), one.tokens, one.states)

    def embedded(self) -> Embedded:
        coded = units_of(np.frombuffer(self.codes, np.int8)[None])
        return Embedded(coded.decoded()[0], self.tokens, self.states, coded)


class EmbeddingCache:
    """The embeddings of `texts_max` texts at most, by owner and digest of the text."""

    def __init__(self, texts_max: int):
        self._texts_max = texts_max
        self._known: OrderedDict[bytes, _CachedEmbedding] = OrderedDict()
        self._unkept: dict[bytes, None] = {}
        """The keys of what was computed and is not on disk: who keeps a text later writes these."""

    def find(self, digests: Sequence[bytes], owner: Owner) -> dict[bytes, Embedded]:
        """Return the embeddings that are known, by digest."""
        found = {d: one.embedded() for d, one in self._of(digests, owner).items()}
        for digest in found:
            self._known.move_to_end(owner.prefix + digest)
        return found

    def find_query(self, digest: bytes, owner: Owner) -> Embedded | None:
        """Return the embedding of a query, if its token states are known as they were computed."""
        key = owner.prefix + digest
        known = self._known.get(key)
        if known is None or (known.tokens is not None and known.states is None):
            return None
        self._known.move_to_end(key)
        return known.embedded()

    def tokens(self, digests: Sequence[bytes], owner: Owner) -> dict[bytes, bytes]:
        """Return the packed token states that are known, by digest; from any thread."""
        found = {digest: one.tokens for digest, one in self._of(digests, owner).items()}
        return {digest: tokens for digest, tokens in found.items() if tokens is not None}

    def _of(self, digests: Sequence[bytes], owner: Owner) -> dict[bytes, _CachedEmbedding]:
        known, prefix = self._known, owner.prefix
        return {d: one for d in digests if (one := known.get(prefix + d)) is not None}

    def remember(self, embedded: Mapping[bytes, Embedded], owner: Owner) -> None:
        """Take in embeddings by digest; those that were used longest ago make room."""
        self._known |= {owner.prefix + d: _CachedEmbedding.of(one) for d, one in embedded.items()}
        while len(self._known) > self._texts_max:
            self._known.popitem(last=False)

    def note_unkept(self, digests: Iterable[bytes], owner: Owner) -> None:
        """Take note that embeddings of these texts are not on disk."""
        self._unkept |= dict.fromkeys(owner.prefix + digest for digest in digests)
        while len(self._unkept) > UNKEPT_MAX:
            oldest = next(iter(self._unkept))
            del self._unkept[oldest]
            self._known.pop(oldest, None)  # who has the text next computes and keeps it

    def take_unkept(
        self, embedded: Mapping[bytes, Embedded], owner: Owner
    ) -> dict[bytes, Embedded]:
        """Return the embeddings that are not on disk, by digest: they are written to it now.

        They are forgotten here, for the disk gives them in microseconds; not so those of queries.
        """
        unkept = {d: one for d, one in embedded.items() if owner.prefix + d in self._unkept}
        for key in (owner.prefix + digest for digest in unkept):
            del self._unkept[key]
            if (known := self._known.get(key)) is not None and known.states is None:
                del self._known[key]
        return unkept

    def forget(self, digests: Iterable[bytes], owner: Owner) -> None:
        """Forget what is known of texts."""
        for digest in digests:
            self._known.pop(owner.prefix + digest, None)
            self._unkept.pop(owner.prefix + digest, None)

    def clear(self) -> None:
        """Forget all."""
        self._known.clear()
        self._unkept.clear()


_logger = get_logger("memory_actors.search.embedding")


class Embeddings:
    """The embeddings of one user, or of everybody."""

    def __init__(self, service: "EmbeddingService", owner: Owner, shared: SharedDerived | None):
        self.embedder: Embedder = service.embedder
        self.owner = owner
        self.shared = shared
        """The pieces beside the user's stream, where the log keeps them."""
        self.service = service
        self.disk: VectorTable = service.disk
        self._cache: EmbeddingCache = service.cache

    @property
    def recipe(self) -> str:
        """Name all that an embedding depends on: the model, what it is given, the projection."""
        return f"{self.embedder.fingerprint} {RECIPE} {TOKENS_RECIPE}"

    def codebook(self) -> Codebook:
        """Return the codebook that packs token states. It may load the model."""
        return codebook_of(self.embedder)

    # --- computed, or known

    async def embed(self, texts: Sequence[str], *, background: bool = False) -> list[Embedded]:
        """Return the embedding of each text. It leaves no trace on disk: see `keep`.

        `background` texts wait for others.

        :raises EmbedderError: the model failed or took too long.
        """
        digests = [text_digest(text) for text in texts]
        wanted = dict(zip(digests, texts, strict=True))
        found, failed = await self.embed_each(wanted, background=background)
        if failed:
            raise next(iter(failed.values()))
        return [found[digest] for digest in digests]

    async def embed_each(self, texts: Mapping[bytes, str], *, background: bool = False) -> Outcomes:
        """Return embeddings by the digests given with the texts, and why the others have none."""
        return await EmbeddingRequest(self, texts, background=background).each()

    async def codes(self, texts: Mapping[bytes, str]) -> dict[bytes, bytes]:
        """Return the vectors of texts as signed bytes, a byte a dimension, by the given digests.

        :raises EmbedderError: a text could not be embedded.
        """
        embedded, failed = await self.embed_each(texts)
        if failed:
            raise next(iter(failed.values()))
        return {digest: coded(one.vector[None]).codes.tobytes() for digest, one in embedded.items()}

    async def embed_query(self, text: str) -> Embedded:
        """Return the embedding of a query, with its token states as they were before coding.

        :raises EmbedderError: the model failed or took too long.
        """
        text = f"{getattr(self.embedder, 'query_prefix', '')}{text}"
        digest = text_digest(text)
        known = self._cache.find_query(digest, self.owner)
        if known is not None:
            self.service.from_memory += 1
            await asyncio.sleep(0)  # who waits for the model lets the others have a turn, too
            return known
        (one,) = await self.service.compute([text], query=True)
        if isinstance(one, EmbedderError):
            raise one
        if one.tokens is not None and one.states is None:  # its embedder gives coded states only
            one = one._replace(states=states_of(one.tokens, self.codebook()))
        self.remember({digest: one})
        return one

    def remember(self, fresh: Mapping[bytes, Embedded]) -> None:
        """Cache embeddings that were computed, by digest."""
        self._cache.note_unkept(fresh, self.owner)
        self._cache.remember(fresh, self.owner)

    def known(self, digests: Sequence[bytes]) -> dict[bytes, Embedded]:
        """Return the embeddings that need no model, by digest of their text."""
        found = self._cache.find(digests, self.owner)
        self.service.from_memory += len(found)
        missing = [digest for digest in digests if digest not in found]
        if missing:
            try:
                stored = self.disk.get(missing, self.embedder.dimension, self.owner)
            except EventLogError as error:  # derived data: as good as absent
                _logger.warning("embeddings not read", count=len(missing), error=str(error))
                stored = {}
            if hasattr(self.embedder, "encode"):  # one without token states is half there
                stored = {d: one for d, one in stored.items() if one.tokens is not None}
            self.service.from_disk += len(stored)
            self._cache.remember(stored, self.owner)
            found |= stored
        return found

    # --- kept

    def keep(self, embedded: Mapping[bytes, Embedded]) -> None:
        """Write the embeddings of texts, by digest, to the disk, soon: those that were computed.

        Only for texts in the log, since an erasure of the user finds them there. The store gets
        all of them, since a crash may have lost some of its writes.
        """
        if self.shared is not None:
            self.shared.put(embedded)
        if self.service.apart and self.owner.is_everybody:
            return
        unkept = self._cache.take_unkept(embedded, self.owner)
        if unkept:
            full = self.disk.put(unkept, self.owner)
            self.service.flush_soon(0 if full else WRITE_BEHIND_S)

    async def forget(self, digests: Sequence[bytes]) -> None:
        """Delete what is known of texts. Another user who still has such a text embeds it again."""
        if self.shared is not None:
            self.shared.put(dict.fromkeys(digests))
        self._cache.forget(digests, self.owner)
        await anyio.to_thread.run_sync(self.disk.delete, digests, self.owner)

    async def erase(self, digests: Set[bytes]) -> int:
        """Delete what is known of texts, of any model, and every byte of it; return how many.

        Cached query embeddings are deleted too, since their owner is unknown.

        :raises EventLogError: the file could not be written or copied; all of it can be repeated.
        """
        self._cache.clear()
        return await anyio.to_thread.run_sync(self.disk.erase, digests, self.owner)

    def tokens(self, digests: Sequence[bytes], numbers: Numbers) -> dict[bytes, bytes]:
        """Return packed token states by digest, from memory or disk; from any thread.

        `numbers` are those of their rows on disk, as far as they are known.
        """
        held = self._cache.tokens(digests, self.owner)
        places = [place for place, digest in enumerate(digests) if digest not in held]
        missing, dimension = [digests[place] for place in places], self.embedder.dimension
        return held | self.disk.tokens(missing, dimension, self.owner, numbers[places])

    def matrix(
        self,
        digests: Sequence[bytes],
        numbers: Numbers | None = None,
        into: Bytes | None = None,
        crc: int = 0,
    ) -> tuple[Coded, npt.NDArray[np.bool_]]:
        """Return vectors, [n, d], and which are known; the others are zeros.

        See `VectorTable.matrix`.
        """
        return self.disk.matrix(digests, self.embedder.dimension, self.owner, numbers, into, crc)

    def numbers(self, digests: Sequence[bytes]) -> Numbers:
        """Return the numbers of rows on disk by which they are found sooner. For a thread.

        0 for one that has none, or cannot be looked for.
        """
        try:
            return self.disk.numbers(digests, self.owner)
        except EventLogError as error:  # derived data: digests find them as well
            _logger.warning("numbers of embeddings not read", error=str(error))
            return np.zeros(len(digests), np.uint32)

    # --- beside the user's stream

    async def fetch(self, digests: Collection[bytes]) -> None:
        """Bring to the disk what the store has of texts of a live user. It may be nothing."""
        _, values = await self._beside(digests)
        if values:
            await anyio.to_thread.run_sync(self.disk.take, values)

    async def recall(self, digests: Collection[bytes]) -> None:
        """Load the store's embeddings into memory only.

        For callers that may outlive the user's erasure.
        """
        keys, values = await self._beside(digests)
        opened = self.disk.opened(values, keys, self.embedder.dimension, self.owner)
        self._cache.remember(opened, self.owner)

    async def _beside(
        self, digests: Collection[bytes]
    ) -> tuple[dict[bytes, bytes], dict[bytes, bytes]]:
        """Return the keys of texts that are not here, with their digests, and what lies there."""
        if self.shared is None or not digests:
            return {}, {}
        try:
            keys = await anyio.to_thread.run_sync(self.disk.lacking, digests, self.owner)
            return keys, await self.shared.embeddings(keys) if keys else {}
        except EventLogError as error:  # derived data: as good as absent
            _logger.warning("embeddings not fetched", count=len(digests), error=str(error))
            return {}, {}


class EmbeddingRequest:
    """Texts whose embeddings are wanted, by digest.

    Known ones are looked up now, the others computed once it begins.
    """

    def __init__(self, embeddings: Embeddings, texts: Mapping[bytes, str], *, background: bool):
        self.texts = texts
        self._embeddings = embeddings
        self._background = background
        self._known = embeddings.known(list(texts))
        self._missing = {d: text for d, text in texts.items() if d not in self._known}
        self._computing: asyncio.Task[list[Outcome]] | None = None

    def begin(self) -> None:
        """Begin with what is not known, unless that has begun."""
        if self._missing and self._computing is None:
            texts = list(self._missing.values())
            computed = self._embeddings.service.compute(texts, background=self._background)
            self._computing = asyncio.create_task(computed)

    async def each(self) -> Outcomes:
        """Return the embeddings by the digests of their texts, and why the others have none."""
        self.begin()
        if self._computing is None:
            return self._known, {}
        fresh, failed = dict[bytes, Embedded](), dict[bytes, EmbedderError]()
        for digest, outcome in zip(self._missing, await self._computing, strict=True):
            if isinstance(outcome, EmbedderError):
                failed[digest] = outcome
            else:  # only a query is compared by its states, and they take more than all the rest
                fresh[digest] = outcome._replace(states=None)
        self._embeddings.remember(fresh)
        return self._known | fresh, failed

    def cancel(self) -> None:
        """Wait for nothing more."""
        if self._computing is not None:
            self._computing.cancel()
