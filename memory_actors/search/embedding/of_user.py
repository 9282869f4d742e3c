"""The embeddings of one user, in a store where each has their own."""

from collections.abc import Mapping, Sequence, Set
from typing import Protocol

import numpy as np
import numpy.typing as npt

from memory_actors.base.errors import EmbedderError
from memory_actors.search.embedding.key_scopes import Owner
from memory_actors.search.embedding.protocol import Embedded, Embedder, Vectors
from memory_actors.search.embedding.service import EmbeddingService


class Embeddings(Protocol):
    """What the memories of a user ask of embeddings. See `EmbeddingService`, which is one."""

    @property
    def embedder(self) -> Embedder:
        """The model."""
        ...

    @property
    def owner(self) -> Owner:
        """Whose they are."""
        ...

    @property
    def recipe(self) -> str:
        """Name all that an embedding depends on."""
        ...

    async def embed(self, texts: Sequence[str], *, background: bool = False) -> list[Embedded]:
        """Return what is known of each text."""
        ...

    async def embed_each(
        self, texts: Mapping[bytes, str], *, background: bool = False
    ) -> tuple[dict[bytes, Embedded], dict[bytes, EmbedderError]]:
        """Return embeddings by digest, and why the others have none."""
        ...

    def keep(self, embedded: Mapping[bytes, Embedded]) -> None:
        """Write embeddings of texts that the log has to the disk, soon."""
        ...

    def tokens(self, digests: Sequence[bytes]) -> dict[bytes, bytes]:
        """Return packed token states by digest."""
        ...

    def stored(self, digests: Sequence[bytes]) -> dict[bytes, Vectors]:
        """Return vectors from disk by digest."""
        ...

    def matrix(self, digests: Sequence[bytes]) -> tuple[Vectors, npt.NDArray[np.bool_]]:
        """Return vectors as rows, and which are there."""
        ...

    async def forget(self, digests: Sequence[bytes]) -> None:
        """Delete what is known of texts."""
        ...

    async def erase(self, digests: Set[bytes]) -> int:
        """Delete what is known of texts, and every byte of it."""
        ...


class UserEmbeddings:
    """One user's: each call is that of the service, about what is theirs."""

    def __init__(self, service: EmbeddingService, owner: Owner):
        self._service = service
        self.owner = owner

    @property
    def embedder(self) -> Embedder:
        """See `Embeddings`, as for all that follows."""
        return self._service.embedder

    @property
    def recipe(self) -> str:
        """Name all that an embedding depends on."""
        return self._service.recipe

    async def embed(self, texts: Sequence[str], *, background: bool = False) -> list[Embedded]:
        """Return what is known of each text."""
        return await self._service.embed(texts, background=background, owner=self.owner)

    async def embed_each(
        self, texts: Mapping[bytes, str], *, background: bool = False
    ) -> tuple[dict[bytes, Embedded], dict[bytes, EmbedderError]]:
        """Return embeddings by digest, and why the others have none."""
        return await self._service.embed_each(texts, background=background, owner=self.owner)

    def keep(self, embedded: Mapping[bytes, Embedded]) -> None:
        """Write embeddings of texts that the log has to the disk, soon."""
        self._service.keep(embedded, self.owner)

    def tokens(self, digests: Sequence[bytes]) -> dict[bytes, bytes]:
        """Return packed token states by digest."""
        return self._service.tokens(digests, self.owner)

    def stored(self, digests: Sequence[bytes]) -> dict[bytes, Vectors]:
        """Return vectors from disk by digest."""
        return self._service.stored(digests, self.owner)

    def matrix(self, digests: Sequence[bytes]) -> tuple[Vectors, npt.NDArray[np.bool_]]:
        """Return vectors as rows, and which are there."""
        return self._service.matrix(digests, self.owner)

    async def forget(self, digests: Sequence[bytes]) -> None:
        """Delete what is known of texts."""
        await self._service.forget(digests, self.owner)

    async def erase(self, digests: Set[bytes]) -> int:
        """Delete what is known of texts, and every byte of it."""
        return await self._service.erase(digests, self.owner)


def embeddings_of(service: EmbeddingService, stream: str) -> Embeddings:
    """Return the embeddings that a user's memories are found by."""
    owner = service.owner_of(stream)
    return service if owner.is_everybody else UserEmbeddings(service, owner)
