"""The embeddings that were used last, in memory; and which of those computed are not on disk.

Most of what is computed is of queries, which are never kept. The embedding of an added text is
written to the disk once the log has the text: until then its key is remembered here.
"""

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple, Self

import numpy as np

from memory_actors.search.dot_products import Bytes, coded_units, units_of
from memory_actors.search.embedding.key_scopes import Owner
from memory_actors.search.embedding.protocol import Embedded

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
        """Return the embeddings that are not on disk, by digest: they are written to it now."""
        unkept = {d: one for d, one in embedded.items() if owner.prefix + d in self._unkept}
        for digest in unkept:
            del self._unkept[owner.prefix + digest]
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
