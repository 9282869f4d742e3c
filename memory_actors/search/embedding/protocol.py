"""What the rest of the house asks of an embedding model."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

Vectors: TypeAlias = npt.NDArray[np.float32]
"""A float32 array: `[n, dimension]` for many texts, `[dimension]` for one."""

AnyVectors: TypeAlias = Vectors | npt.NDArray[np.float64] | Sequence[Sequence[float]]
"""What embedders may return: an array `[n, dimension]`, or lists."""


class Embedded(NamedTuple):
    """What is known of a text: its vector, and its token states if the embedder gives any."""

    vector: Vectors
    tokens: bytes | None
    """As `tokens.pack` makes them."""


class Embedder(Protocol):
    """Turns texts into vectors. Bring your own by matching these three members.

    An embedder may also have `encode(texts) -> [Embedded]`, the same vectors with token states,
    which makes retrieval better by a third (see `tokens.py`); `prepare()`, called once before the
    first text and outside of any deadline; `background_mean() -> float32 [dimension]`, the mean
    vector of general text (without it, that is computed from 400 sentences, once for each store);
    `unknown_token_id`, the id among its tokens of what it has no word for; `query_prefix`, what a
    text has to begin with to be embedded as a question, where the model tells those from answers;
    `batch_texts_max`, how many texts it may be given at once (64 otherwise), fewer for a slow one:
    the deadline is for a batch, and a query waits for the one before; and `parallel = True`, if two
    threads may call it at once: then nobody waits while summaries of old memories are embedded.
    """

    @property
    def fingerprint(self) -> str:
        """Name the model, its weights and its precision.

        Vectors of two fingerprints are never compared, so anything that changes a vector must
        change this. At most 100 printable characters.
        """
        ...

    @property
    def dimension(self) -> int:
        """Length of each vector."""
        ...

    def embed(self, texts: Sequence[str]) -> AnyVectors:
        """Return a float32 array `[len(texts), dimension]` whose rows have length 1.

        Lists and float64 are taken, too, and rows of another length are normalised.
        Called from one worker thread at a time, unless it is `parallel`; never from the event loop.
        The same text must give the same vector, whatever else is in the batch (up to rounding).
        """
        ...
