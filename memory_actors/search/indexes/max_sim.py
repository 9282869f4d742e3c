"""MaxSim of one query with the packed tokens of memories: compiled where it can be, else by numpy.

`max_sim.c` does it in one pass, and in a fifth of the time (200 memories of 35 tokens take 0.07 ms
where numpy takes 0.33), for states of 49 to 64 dimensions and a processor with AVX2 or NEON.
Elsewhere, or where it is not `compiled`, numpy does the same; scores differ by their last bits.
"""

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from eventlog.core.compiled import INT, LONG, POINTER
from memory_actors.search.dot_products import LIBRARY, Bytes, byte_dots, byte_lengths
from memory_actors.search.embedding.token_states import Codebook, Tokens

QUERY_TOKENS_MAX: Final = 64
"""Of a query. A pasted page as a query would otherwise take time without bound."""
_WIDTH: Final = 64  # of states that are compared by what is compiled
_CODE_BYTES: Final = _WIDTH // 4
_ROW_BYTES: Final = 2 + _CODE_BYTES  # of a token, with its id
_CHUNK_MEMORIES: Final = 512
"""Scored at once by numpy: 18,000 tokens are 1 MB, which stays in the processor's cache."""
_ARGUMENTS: Final = (
    INT, POINTER, POINTER, INT, POINTER, POINTER, POINTER, LONG, POINTER, LONG, POINTER, POINTER,
)  # fmt: skip

Scores = npt.NDArray[np.float32]


class QueryTokens(NamedTuple):
    """A query, ready to be compared."""

    states: Bytes
    """int8 [tokens, dimensions], of any length; at most `QUERY_TOKENS_MAX`."""
    weights: Scores
    """float32 [tokens], their sum is 1."""


def max_sim(query: QueryTokens, memories: Tokens, codebook: Codebook) -> Scores:
    """Return the score of each memory, float32 [n]; 0 for one without tokens."""
    count = len(query.weights)
    if not count or not len(memories.counts):
        return np.zeros(len(memories.counts), np.float32)
    fits = count <= QUERY_TOKENS_MAX and query.states.shape == (count, _WIDTH)
    fits = fits and query.states.dtype == np.int8 and memories.rows.itemsize == _ROW_BYTES
    instruction_set = LIBRARY.instruction_set
    if fits and codebook.code_bytes == _CODE_BYTES and instruction_set:
        return _compiled(instruction_set, query, memories, codebook)
    return _by_numpy(query, memories, codebook)


def _compiled(
    instruction_set: int, query: QueryTokens, memories: Tokens, codebook: Codebook
) -> Scores:
    if (memories.starts + memories.counts).max() > len(memories.rows):
        raise IndexError("the tokens of a memory lie behind those that are held")
    scores = np.empty(len(memories.counts), np.float32)
    columns = (query.states, query.weights, memories.rows, memories.starts, memories.counts)
    states, weights, rows, starts, counts = map(np.ascontiguousarray, columns)
    LIBRARY.function("max_sim", *_ARGUMENTS)(
        instruction_set, states.ctypes.data, weights.ctypes.data, len(weights),
        rows.ctypes.data, starts.ctypes.data, counts.ctypes.data, len(counts),
        codebook.lowest_padded.ctypes.data, len(codebook.lowest_padded),
        codebook.steps_padded.ctypes.data, scores.ctypes.data,
    )  # fmt: skip
    return scores


def _by_numpy(query: QueryTokens, memories: Tokens, codebook: Codebook) -> Scores:
    scores = np.zeros(len(memories.counts), np.float32)
    lengths = np.maximum(byte_lengths(query.states), 1)[:, None]  # of length 0: close to nothing
    for first in range(0, len(scores), _CHUNK_MEMORIES):
        chunk = slice(first, first + _CHUNK_MEMORIES)
        some = Tokens(memories.rows, memories.starts[chunk], memories.counts[chunk]).gathered()
        filled = np.flatnonzero(some.counts)
        if not len(filled):
            continue
        states = codebook.states(some.rows)
        cosines = byte_dots(query.states, states) / np.maximum(byte_lengths(states), 1)
        most = np.maximum.reduceat(cosines / lengths, some.starts[filled], axis=1)
        # Row by row: a product of matrices adds up otherwise at other places, and the same memory
        # must have the same score wherever it stands.
        scores[first + filled] = (np.ascontiguousarray(most.T) * query.weights).sum(axis=1)
    return scores
