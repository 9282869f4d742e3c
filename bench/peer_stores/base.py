"""The port of the measurement: every peer has an adapter with these methods."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

from memory_actors.search.embedding.protocol import Vectors

Metadata = Mapping[str, str]
"""Of every memory: `session`, `speaker`, `occurred_at` (ISO 8601) and `topic`."""


class Unavailable(Exception):
    """This peer cannot run here; the message says why."""


class Embed(Protocol):
    """Vectors of texts, known beforehand: asking costs next to nothing."""

    @property
    def fingerprint(self) -> str:
        """Name of the model."""
        ...

    @property
    def dimension(self) -> int:
        """Length of each vector."""
        ...

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return float32 `[len(texts), dimension]`, rows of length 1."""
        ...


class Memory(NamedTuple):
    """One thing to remember."""

    id: str
    text: str
    metadata: Metadata


class Peer(ABC):
    """One store of one user's memories.

    Everything is async because ours is; a peer that blocks may block, for nobody else is there.
    """

    keeps = True
    """True if it has files at all."""
    note = ""
    """A note for readers of its row."""

    @abstractmethod
    async def open(self, path: Path, embed: Embed) -> None:
        """Open the store in this directory, which exists; make it if there is none."""

    @abstractmethod
    async def add(self, memory_id: str, text: str, metadata: Metadata) -> None:
        """Add one memory; when this returns it is as safe as the system makes one add."""

    @abstractmethod
    async def add_many(self, memories: Sequence[Memory]) -> None:
        """Add many in the way that is meant for many."""

    @abstractmethod
    async def search(self, query: str, k: int, where: Mapping[str, str] | None = None) -> list[str]:
        """Return the ids of the best `k`, best first, among those whose metadata has `where`."""

    @abstractmethod
    async def delete(self, memory_id: str) -> None:
        """Delete one memory."""

    @abstractmethod
    async def holds(self, ids: Sequence[str]) -> set[str]:
        """Return the ids that are stored."""

    async def settle(self) -> None:  # noqa: B027 - most peers have nothing to wait for
        """Wait for what runs in the background, or do the upkeep that its documentation names."""

    async def persist(self) -> bool:
        """Write pending adds from memory; return False if there is no such step."""
        return False

    @abstractmethod
    async def close(self) -> None:
        """Let go of the files."""
