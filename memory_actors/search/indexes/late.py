"""Late interaction: how well each word of a query is met by the best word of a memory.

Theory. One vector for a whole text blurs it. MaxSim (ColBERT's score) compares word by word, after
the encoder has seen each in its sentence: for each token of the query the closest token of the
memory, by cosine; the score is the mean over the query's tokens, each weighted by how rare it is
among this user's memories,

    score = sum w(q) * max over tokens m of cos(q, m) / sum w(q),  w(q) = ln((n + 1) / (df + 1/2))

for a token that `df` of `n` memories have. It is in [-1, 1]. The states are the ones the model
computes anyway on the way to its one vector: no second model, no second pass.

Measured on five LoCoMo conversations, turn recall@10 alone: one vector 0.459, MaxSim 0.732, MaxSim
over states that saw the two turns before theirs 0.803. Neither weighting the query's stop words
down, nor leaving its question words out, nor centring the states changed that by more than 0.005.

Encoding two turns before each for the sake of its words would lift the whole ranking's turn
recall@10 from 0.863 to 0.869 and take 2.6 times as long; mixing in a share of the memory before
gives 0.867 for nothing, but then states depend on more than their text, and carry a trace of what
may have been deleted. Neither is done.

Cost (one thread): 200 memories of 35 tokens are scored in 0.3 ms, 10,000 in 18 ms. So a search
scores the few hundred that vectors and words propose: scoring one memory in twelve loses 0.004 of
the recall that scoring all gives, one in twenty 0.007 (`docs/internals/retrieval-study.md`).

Memory. `LateIndex` counts tokens for all memories, but holds states for as many as fit
`bytes_max`; the others are fetched, from a memory-mapped table, say, by whoever made the index.
"""

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from memory_actors.search.dot_products import byte_dots
from memory_actors.search.embedding.protocol import SCALE, AnyIds, States, unpack

BYTES_MAX: Final = 48 << 20
"""States held in memory for one user: those of some 20,000 memories."""
TELLING_SHARE: Final = 0.93
"""Of a query's weight: the least telling tokens, which make up the rest, are left out. They are a
third of a question's tokens and of the work; recall on five LoCoMo conversations stays the same."""
TOKENS_MIN: Final = 8  # of a query: so few are all kept
TOKENS_MAX: Final = 64
"""Of a query, rarest first. A pasted page as a query would otherwise take time without bound."""
_CHUNK_MEMORIES: Final = 512
"""Scored at once: 18,000 tokens are 1 MB, which stays in the processor's cache."""
_FREQUENCY_BYTES: Final = 100
_OBJECT_BYTES: Final = 64
"""Bytes that a memory's states take beside their numbers."""
_TINY: Final = 1e-9

Scores = npt.NDArray[np.float32]
Fetch = Callable[[Sequence[int]], Sequence[bytes | None]]
"""Returns the packed states of labels, None for one that has none."""


class SavedTokens(msgspec.Struct, frozen=True):
    """The word pieces of each memory, at one moment."""

    labels: bytes
    """int64 a memory."""
    ends: bytes
    """int64 a memory: where its stretch of `token_ids` ends."""
    token_ids: bytes
    """uint16, each once a memory."""


class QueryTokens(NamedTuple):
    """A query, ready to be compared."""

    states: States
    """int8 [tokens, dimensions]."""
    weights: Scores
    """float32 [tokens], their sum is 1."""


def max_sim(query: QueryTokens, memories: Sequence[bytes]) -> Scores:
    """Return the score of each memory, float32 [n]; 0 for one without tokens.

    A memory is its states, int8 [tokens, dimensions], as they lie in memory: bytes are joined three
    times as fast as arrays.
    """
    parts = [
        _max_sim(query, memories[start : start + _CHUNK_MEMORIES])
        for start in range(0, len(memories), _CHUNK_MEMORIES)
    ]
    return np.concatenate(parts) if parts else np.zeros(0, np.float32)


def _max_sim(query: QueryTokens, memories: Sequence[bytes]) -> Scores:
    dimensions = query.states.shape[1]
    lengths = np.fromiter(map(len, memories), np.int64, len(memories)) // dimensions
    scores = np.zeros(len(memories), np.float32)
    filled = np.flatnonzero(lengths)
    if not len(filled) or not len(query.states):
        return scores
    starts = np.cumsum(lengths[filled]) - lengths[filled]
    states = np.frombuffer(b"".join(memories), np.int8).reshape(-1, dimensions)
    best = np.maximum.reduceat(byte_dots(states, query.states), starts, axis=0)
    # Row by row: a product of matrices adds up otherwise at other places, and the same memory must
    # have the same score wherever it stands.
    scores[filled] = (best * query.weights).sum(axis=1) / SCALE**2
    return scores


class LateIndex:
    """The token states of one user's memories, by label.

    `fetch` returns packed states that do not fit in `bytes_max`. Writes belong to the loop; `score`
    may run anywhere.
    """

    def __init__(self, fetch: Fetch | None = None, bytes_max: int = BYTES_MAX):
        self._fetch = fetch
        self._bytes_max = bytes_max
        self._bytes = 0
        self._held: dict[int, bytes] = {}  # states, oldest first
        self._tokens: dict[int, bytes] = {}  # different token ids of each memory, uint16
        self._token_bytes = 0  # of those: counted as they come and go, for it is asked all the time
        self._frequencies: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self._tokens)

    def __contains__(self, label: int) -> bool:
        return label in self._tokens

    @property
    def mean_tokens(self) -> float:
        """The number of different tokens that a text has."""
        return self._token_bytes / 2 / max(len(self), 1)

    @property
    def size_bytes(self) -> int:
        """Memory held, estimated."""
        tokens = self._token_bytes + 220 * len(self._tokens)
        return self._bytes + tokens + _FREQUENCY_BYTES * len(self._frequencies)

    def add(self, label: int, packed: bytes) -> None:
        """Make a memory searchable under a label. `packed` is also what `fetch` must return.

        :raises ValueError: it is not what `pack` made.
        """
        if label in self._tokens:
            return
        token_ids, states = unpack(packed)
        different = np.unique(token_ids)
        self._count(different, 1)
        self._tokens[label] = different.tobytes()
        self._token_bytes += different.nbytes
        self._hold(label, states.tobytes())

    def hold(self, packed: Mapping[int, bytes]) -> bool:
        """Keep the states of known labels in memory; say whether there was room for all."""
        for label, data in packed.items():
            if label in self._held or label not in self._tokens:
                continue
            states = unpack(data).states.tobytes()
            if self._bytes + len(states) + _OBJECT_BYTES > self._bytes_max:
                return False
            self._hold(label, states)
        return True

    def saved(self) -> SavedTokens:
        """Copy which memory has which tokens."""
        pieces = list(self._tokens.values())
        ends = np.cumsum([len(piece) // 2 for piece in pieces], dtype=np.int64)
        labels = np.array(list(self._tokens), np.int64)
        return SavedTokens(labels.tobytes(), ends.tobytes(), b"".join(pieces))

    def restore(self, saved: SavedTokens, living: Container[int]) -> None:
        """Take up the living memories of a copy, without their states. The index must be empty."""
        labels = np.frombuffer(saved.labels, np.int64).tolist()
        start = 0
        for label, end in zip(labels, np.frombuffer(saved.ends, np.int64).tolist(), strict=True):
            if label in living:
                self._tokens[label] = saved.token_ids[2 * start : 2 * end]
            start = end
        pieces = np.frombuffer(b"".join(self._tokens.values()), np.uint16)
        self._token_bytes = pieces.nbytes
        known, counts = np.unique(pieces, return_counts=True)
        self._frequencies = dict(zip(known.tolist(), counts.tolist(), strict=True))

    def remove(self, label: int) -> bool:
        """Make a label unsearchable; say whether it was there."""
        different = self._tokens.pop(label, None)
        if different is None:
            return False
        self._token_bytes -= len(different)
        self._count(np.frombuffer(different, np.uint16), -1)
        self._drop(label)
        return True

    def _count(self, token_ids: npt.NDArray[np.uint16], change: int) -> None:
        frequencies = self._frequencies
        for token_id in token_ids.tolist():
            count = frequencies.get(token_id, 0) + change
            if count:
                frequencies[token_id] = count
            else:
                del frequencies[token_id]

    def query(self, token_ids: AnyIds, states: States) -> QueryTokens:
        """Return a query's tokens and states with the weights they have here."""
        n, known = len(self._tokens), self._frequencies
        frequencies = np.array([known.get(int(token), 0) for token in token_ids])
        # A search beside an add may see a frequency that is ahead of n.
        weights = np.maximum(np.log((n + 1) / (frequencies + 0.5)), _TINY)
        kept = _telling(weights)
        weights = weights[kept] / max(weights[kept].sum(), _TINY)
        return QueryTokens(states[kept], weights.astype(np.float32))

    def score(self, query: QueryTokens, labels: Iterable[int]) -> Scores:
        """Return the score of each label, float32 [n]; 0 for one that has no states."""
        wanted = list(labels)
        found = list(map(self._held.get, wanted))
        if not all(found):
            gaps = [
                place
                for place, states in enumerate(found)
                if states is None and wanted[place] in self._tokens
            ]
            if gaps and self._fetch is not None:
                fetched = self._fetch([wanted[place] for place in gaps])
                for place, packed in zip(gaps, fetched, strict=True):
                    found[place] = None if packed is None else unpack(packed).states.tobytes()
        return max_sim(query, [states or b"" for states in found])

    def _hold(self, label: int, states: bytes) -> None:
        self._held[label] = states
        self._bytes += len(states) + _OBJECT_BYTES
        while self._bytes > self._bytes_max and self._fetch is not None:
            self._drop(next(iter(self._held)))

    def _drop(self, label: int) -> None:
        states = self._held.pop(label, None)
        if states is not None:
            self._bytes -= len(states) + _OBJECT_BYTES


def _telling(weights: npt.NDArray[np.float64]) -> npt.NDArray[np.intp]:
    """Return the places of the tokens that count, in order."""
    order = np.argsort(-weights, kind="stable")[:TOKENS_MAX]
    shares = np.cumsum(weights[order]) / max(weights.sum(), _TINY)
    count = 1 + int(np.searchsorted(shares, TELLING_SHARE))
    return np.sort(order[: max(count, TOKENS_MIN)])
