"""The embeddings of one user: calls of the service about what is theirs."""

from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from memory_actors.search.embedding.key_scopes import Owner
from memory_actors.search.embedding.protocol import Embedded
from memory_actors.search.embedding.shared import SharedDerived

if TYPE_CHECKING:
    from memory_actors.search.embedding.service import EmbeddingService


class Embeddings:
    """The embeddings of one user, or of everybody: calls of the service about what is theirs."""

    def __init__(self, service: "EmbeddingService", owner: Owner, shared: SharedDerived | None):
        self.shared = shared
        """The pieces beside the user's stream, where the log keeps them."""
        self._service = service
        self.embedder = service.embedder
        self.recipe = service.recipe
        self.codebook = service.codebook
        self.owner = owner
        self.embed = partial(service.embed, owner=owner)
        self.request = partial(service.request, owner=owner)
        self.embed_each = partial(service.embed_each, owner=owner)
        self.tokens = partial(service.tokens, owner=owner)
        self.stored = partial(service.stored, owner=owner)
        self.matrix = partial(service.matrix, owner=owner)
        self.numbers = partial(service.numbers, owner=owner)
        self.erase = partial(service.erase, owner=owner)

    @property
    def table(self) -> bytes:
        """The identity of the table that `numbers` are of."""
        return self._service.table

    def own(self, epoch: int) -> None:
        """Save what is kept beside the user's stream too: this node has it, under an epoch."""
        if self.shared is not None:
            self.shared.own(epoch)

    async def leave(self) -> None:
        """End that; what waits is saved, if it can be."""
        if self.shared is not None:
            await self.shared.leave()

    async def drop(self) -> None:
        """End that at once: nothing of it comes later."""
        if self.shared is not None:
            await self.shared.drop()

    def keep(self, embedded: Mapping[bytes, Embedded]) -> None:
        """Keep the embeddings of texts that the log has, by digest: here what was computed.

        The store gets all of them, since a crash may have lost some of its writes.
        """
        self._service.keep(embedded, self.owner)
        if self.shared is not None:
            self.shared.put(embedded)

    async def forget(self, digests: Sequence[bytes]) -> None:
        """Delete what is known of texts. Another user who still has such a text embeds it again."""
        if self.shared is not None:
            self.shared.put(dict.fromkeys(digests))
        await self._service.forget(digests, self.owner)

    async def fetch(self, digests: Collection[bytes]) -> None:
        """Bring to the disk what the store has of texts of a live user. It may be nothing."""
        if self.shared is not None and digests:
            await self._service.fetch(digests, self.owner, self.shared)

    async def recall(self, digests: Collection[bytes]) -> None:
        """Load the store's embeddings into memory only.

        For callers that may outlive the user's erasure.
        """
        if self.shared is not None and digests:
            await self._service.recall(digests, self.owner, self.shared)
