"""The mean vector of general text.

Sentence vectors of one model share a large common part that says nothing about their meaning.
Taking it away (centring) makes what is left comparable.
"""

from typing import Any, Final

import anyio.to_thread
import numpy as np

from eventlog import Checkpoint, EventStore
from memory_actors.base.errors import WrongVectorsError
from memory_actors.kinds.phrasing import text_digest
from memory_actors.search.embedding.batcher import Batcher
from memory_actors.search.embedding.default import general_texts
from memory_actors.search.embedding.protocol import Embedder, Vectors
from memory_actors.search.embedding.vector_table import VectorTable

MEANS: Final = "background means"
"""The name of the log's entries for the mean vectors of models."""


def own_mean(embedder: Embedder, said: Any) -> Vectors:
    """Return the mean that an embedder says it has.

    :raises WrongVectorsError: it is no vector of its dimension.
    """
    mean = np.asarray(said, np.float32)
    if mean.shape != (embedder.dimension,) or not np.all(np.isfinite(mean)):
        raise WrongVectorsError(
            f"background_mean returned shape {list(mean.shape)}, or numbers not finite: "
            f"return float32 [{embedder.dimension}]"
        )
    return mean


async def computed_mean(
    embedder: Embedder, batcher: Batcher, table: VectorTable, log: EventStore | None
) -> Vectors:
    """Return the mean of the bundled texts, computed once: the table keeps it, and a log, if given.

    :raises EmbedderError: the model failed or took too long.
    """
    name = f"background mean of {embedder.fingerprint}"
    fact = await anyio.to_thread.run_sync(table.fact, name)
    if fact is None and log is not None:
        fact = await log.load_entry(MEANS, text_digest(name))
    if fact is None or len(fact) != 4 * embedder.dimension:
        embedded = await batcher.embed(general_texts())
        mean = np.mean([one.vector for one in embedded], axis=0, dtype=np.float64)
        fact = mean.astype(np.float32).tobytes()
        await anyio.to_thread.run_sync(table.set_fact, name, fact)
        if log is not None:
            await log.save_checkpoint(Checkpoint(MEANS, 0, {text_digest(name): fact}))
    return np.frombuffer(fact, np.float32)
