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

Context for nothing. Encoding two turns before each for the sake of its words takes 2.6 times as
long. Adding 0.4 of the mean state of the memory before (`in_context`), after projection, takes next
to no time and does the same: turn recall@10 of the whole ranking is 0.863 without, 0.867 so, 0.869
with the turns encoded. What is added carries a trace of what came before that, ever fainter.

A state is projected to 64 dimensions (`projection.py`), scaled to length 1 and rounded to int8: 64
bytes a token, 2.3 KB for a memory of 35 tokens. Rounding costs nothing measurable.

Cost (one thread): 300 memories of 35 tokens are scored in 0.7 ms (0.4 ms from warm caches), 10,000
in 18 ms. So a search scores the few hundred that vectors and words propose: scoring one memory in
twelve loses 0.004 of the recall that scoring all gives, one in twenty 0.007
(`docs/internals/retrieval-study.md`).

What is stored for a memory (`pack`), little-endian: version u8, dimensions u8, tokens u16, then the
token ids as u16, then the states as int8, token by token.

Memory. `LateIndex` counts tokens for all memories, but holds states for as many as fit
`bytes_max`; the others are fetched, from a memory-mapped table, say, by whoever made the index.
"""

import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from memory_actors.embedding.protocol import Vectors

TOKENS_MAX: Final = 256
"""What the encoder reads of a text."""
BYTES_MAX: Final = 32 << 20
"""States held in memory for one user: those of some 14,000 memories."""
CONTEXT_SHARE: Final = 0.4
"""Of the memory before. 0.2 to 0.5 are alike."""
_VERSION: Final = 1
_HEADER: Final = struct.Struct("<BBH")
_SCALE: Final = 127
_CHUNK_MEMORIES: Final = 128
"""Scored at once: 4,000 tokens are 1 MB as float32, which stays in the processor's cache."""
_ARRAY_BYTES: Final = 160
"""What an array takes beside its numbers."""
_TINY: Final = 1e-9

States = npt.NDArray[np.int8]
TokenIds = npt.NDArray[np.uint16]
AnyIds = Sequence[int] | npt.NDArray[np.int64]
Scores = npt.NDArray[np.float32]
Fetch = Callable[[Sequence[int]], Sequence[bytes | None]]
"""Returns the packed states of labels, None for one that has none."""


class Packed(NamedTuple):
    """What is stored for a memory."""

    token_ids: TokenIds
    """[tokens]"""
    states: States
    """[tokens, dimensions]"""


class QueryTokens(NamedTuple):
    """A query, ready to be compared."""

    states: Vectors
    """float32 [tokens, dimensions], rows of length 1."""
    weights: Scores
    """float32 [tokens], their sum is 1."""


def project(states: Vectors, projection: Vectors) -> Vectors:
    """Return token states float32 `[tokens, width]` as unit rows `[tokens, dimensions]`."""
    return _unit(_unit(states) @ projection)


def in_context(projected: Vectors, before: States | None) -> Vectors:
    """Return projected states with a share of what the memory before them in the session says.

    `before` are that memory's states as they were packed, None for the first of a session.
    """
    if before is None or not len(before):
        return projected
    mean = before.mean(axis=0, dtype=np.float32) / _SCALE
    return _unit(projected + CONTEXT_SHARE * mean)


def pack(token_ids: AnyIds, projected: Vectors) -> bytes:
    """Return what to store for a memory: its token ids and its projected states.

    :raises ValueError: they are not equally many, or more than `TOKENS_MAX`.
    """
    count, dimensions = projected.shape
    if count != len(token_ids) or count > TOKENS_MAX:
        raise ValueError(f"{len(token_ids)} token ids for {count} states, {TOKENS_MAX} at most")
    codes = np.rint(projected * _SCALE).astype(np.int8)
    ids = np.asarray(token_ids, dtype="<u2")
    return _HEADER.pack(_VERSION, dimensions, count) + ids.tobytes() + codes.tobytes()


def unpack(data: bytes) -> Packed:
    """Return views into what `pack` made.

    :raises ValueError: it is not that.
    """
    if len(data) < _HEADER.size:
        raise ValueError("token states are cut short")
    version, dimensions, count = _HEADER.unpack_from(data)
    body = _HEADER.size + 2 * count
    if version != _VERSION or len(data) != body + count * dimensions:
        raise ValueError(f"token states of version {version} and {len(data)} bytes are not ours")
    ids = np.frombuffer(data, "<u2", count, _HEADER.size)
    states = np.frombuffer(data, np.int8, count * dimensions, body)
    return Packed(ids, states.reshape(count, dimensions))


def max_sim(query: QueryTokens, memories: Sequence[States]) -> Scores:
    """Return the score of each memory, float32 [n]; 0 for one without tokens."""
    parts = [
        _max_sim(query, memories[start : start + _CHUNK_MEMORIES])
        for start in range(0, len(memories), _CHUNK_MEMORIES)
    ]
    return np.concatenate(parts) if parts else np.zeros(0, np.float32)


def _max_sim(query: QueryTokens, memories: Sequence[States]) -> Scores:
    lengths = np.array([len(memory) for memory in memories])
    scores = np.zeros(len(memories), np.float32)
    filled = np.flatnonzero(lengths)
    if not len(filled) or not len(query.states):
        return scores
    tokens = np.concatenate(memories).astype(np.float32)
    starts = np.cumsum(lengths[filled]) - lengths[filled]
    best = np.maximum.reduceat(query.states @ tokens.T, starts, axis=1)
    scores[filled] = query.weights @ best / _SCALE
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
        self._held: dict[int, States] = {}  # oldest first
        self._tokens: dict[int, bytes] = {}  # different token ids of each memory, uint16
        self._frequencies = np.zeros(1 << 16, np.int32)

    def __len__(self) -> int:
        return len(self._tokens)

    def __contains__(self, label: int) -> bool:
        return label in self._tokens

    @property
    def size_bytes(self) -> int:
        """Memory held, estimated."""
        tokens = sum(map(len, self._tokens.values())) + 220 * len(self._tokens)
        return self._bytes + tokens + self._frequencies.nbytes

    def add(self, label: int, packed: bytes) -> None:
        """Make a memory searchable under a label. `packed` is also what `fetch` must return.

        :raises ValueError: it is not what `pack` made.
        """
        if label in self._tokens:
            return
        token_ids, states = unpack(packed)
        different = np.unique(token_ids)
        self._frequencies[different] += 1
        self._tokens[label] = different.tobytes()
        self._hold(label, states.copy())

    def remove(self, label: int) -> bool:
        """Make a label unsearchable; say whether it was there."""
        different = self._tokens.pop(label, None)
        if different is None:
            return False
        self._frequencies[np.frombuffer(different, np.uint16)] -= 1
        self._drop(label)
        return True

    def query(self, token_ids: AnyIds, states: Vectors) -> QueryTokens:
        """Return a query's tokens and projected states with the weights they have here."""
        n, frequencies = len(self._tokens), self._frequencies[np.asarray(token_ids, np.int64)]
        # A search beside an add may see a frequency that is ahead of n.
        weights = np.maximum(np.log((n + 1) / (frequencies + 0.5)), _TINY)
        return QueryTokens(states, (weights / max(weights.sum(), _TINY)).astype(np.float32))

    def states(self, label: int) -> States | None:
        """Return the states of a label, int8 [tokens, dimensions]; None if there are none."""
        found = [self._held.get(label)]
        self._fill([label], found)
        return found[0]

    def score(self, query: QueryTokens, labels: Iterable[int]) -> Scores:
        """Return the score of each label, float32 [n]; 0 for one that has no states."""
        wanted = list(labels)
        found = [self._held.get(label) for label in wanted]
        self._fill(wanted, found)
        none = np.zeros((0, query.states.shape[1]), np.int8)
        return max_sim(query, [none if states is None else states for states in found])

    def score_all(self, query: QueryTokens) -> tuple[list[int], Scores]:
        """Return all labels and their scores. 15 ms at 10,000 memories: for a thread."""
        labels = list(self._tokens)
        parts = [self.score(query, chunk) for chunk in _chunks(labels, _CHUNK_MEMORIES)]
        return labels, np.concatenate(parts) if parts else np.zeros(0, np.float32)

    def _fill(self, labels: Sequence[int], found: list[States | None]) -> None:
        """Put what is not held in the gaps of `found`."""
        gaps = [place for place, states in enumerate(found) if states is None]
        gaps = [place for place in gaps if labels[place] in self._tokens]
        if gaps and self._fetch is not None:
            fetched = self._fetch([labels[place] for place in gaps])
            for place, packed in zip(gaps, fetched, strict=True):
                found[place] = None if packed is None else unpack(packed).states

    def _hold(self, label: int, states: States) -> None:
        self._held[label] = states
        self._bytes += states.nbytes + _ARRAY_BYTES
        while self._bytes > self._bytes_max and self._fetch is not None:
            self._drop(next(iter(self._held)))

    def _drop(self, label: int) -> None:
        states = self._held.pop(label, None)
        if states is not None:
            self._bytes -= states.nbytes + _ARRAY_BYTES


def _chunks(labels: Sequence[int], size: int) -> Iterator[Sequence[int]]:
    return (labels[start : start + size] for start in range(0, len(labels), size))


def _unit(rows: Vectors) -> Vectors:
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    unit: Vectors = (rows / np.maximum(lengths, _TINY)).astype(np.float32)
    return unit
