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

Cost (one thread): 200 memories of 35 tokens are scored in 0.4 ms, 10,000 in 18 ms. So a search
scores the few hundred that vectors and words propose: scoring one memory in twelve loses 0.004 of
the recall that scoring all gives, one in twenty 0.007 (`docs/internals/retrieval-study.md`).

Memory. `LateIndex` knows the tokens of all memories, but holds states, as they are packed, for as
many as fit `bytes_max`; the others are fetched by whoever made the index.
"""

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from memory_actors.search.dot_products import Bytes, byte_dots, byte_lengths
from memory_actors.search.embedding.token_states import (
    PLAIN,
    Codebook,
    TokenIds,
    padded,
    states_of,
    tokens_in,
    unpack,
)

BYTES_MAX: Final = 48 << 20
"""States held in memory for one user: those of some 60,000 memories."""
TELLING_SHARE: Final = 0.93
"""Of a query's weight: the least telling tokens, which make up the rest, are left out. They are a
third of a question's tokens and of the work; recall on five LoCoMo conversations stays the same."""
TOKENS_MIN: Final = 8  # of a query: so few are all kept
TOKENS_MAX: Final = 64
"""Of a query, rarest first. A pasted page as a query would otherwise take time without bound."""
_CHUNK_MEMORIES: Final = 512
"""Scored at once: 18,000 tokens are 1 MB, which stays in the processor's cache."""
_FREQUENCY_BYTES: Final = 100
_OBJECT_BYTES: Final = 130
"""Bytes that a memory's states, or its ids, take beside their numbers."""
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


class TokensThen(NamedTuple):
    """The tokens of each memory at one moment, as the index had them."""

    held: dict[int, bytes]
    """Packed states."""
    known: dict[int, bytes]
    """Of all others, the different token ids, uint16."""

    def saved(self) -> SavedTokens:
        """Return what is to be written of them. Takes 0.2 s at 10,000: for a thread."""
        pieces = {label: _different(packed).tobytes() for label, packed in self.held.items()}
        pieces |= self.known
        ends = np.cumsum([len(piece) // 2 for piece in pieces.values()], dtype=np.int64)
        labels = np.array(list(pieces), np.int64)
        return SavedTokens(labels.tobytes(), ends.tobytes(), b"".join(pieces.values()))


class QueryTokens(NamedTuple):
    """A query, ready to be compared."""

    states: Bytes
    """int8 [tokens, dimensions], of any length."""
    weights: Scores
    """float32 [tokens], their sum is 1."""


def max_sim(query: QueryTokens, memories: Sequence[bytes], codebook: Codebook) -> Scores:
    """Return the score of each memory, float32 [n]; 0 for one without tokens.

    A memory is its states as they were packed, or nothing.
    """
    parts = [
        _max_sim(query, memories[start : start + _CHUNK_MEMORIES], codebook)
        for start in range(0, len(memories), _CHUNK_MEMORIES)
    ]
    return np.concatenate(parts) if parts else np.zeros(0, np.float32)


def _max_sim(query: QueryTokens, memories: Sequence[bytes], codebook: Codebook) -> Scores:
    counts = tokens_in(memories, codebook)
    scores = np.zeros(len(memories), np.float32)
    filled = np.flatnonzero(counts)
    if not len(filled) or not len(query.states):
        return scores
    starts = np.cumsum(counts[filled]) - counts[filled]
    states = states_of(memories, codebook)
    cosines = byte_dots(states, query.states).astype(np.float32)  # as they are they become float64
    cosines *= 1 / _lengths(states)[:, None]
    best = np.maximum.reduceat(cosines, starts, axis=0) / _lengths(query.states)
    # Row by row: a product of matrices adds up otherwise at other places, and the same memory must
    # have the same score wherever it stands.
    scores[filled] = (best * query.weights).sum(axis=1)
    return scores


def _lengths(states: Bytes) -> Scores:
    return np.maximum(byte_lengths(states), 1)


class LateIndex:
    """The token states of one user's memories, by label.

    `fetch` returns packed states that do not fit in `bytes_max`, `codebook` what they were packed
    with: it is asked for with the first query. Writes belong to the loop; `score` may run anywhere.
    """

    def __init__(
        self,
        fetch: Fetch | None = None,
        codebook: Callable[[], Codebook] = lambda: PLAIN,
        bytes_max: int = BYTES_MAX,
    ):
        self._fetch = fetch
        self._codebook = codebook
        self._bytes_max = bytes_max
        self._held: dict[int, bytes] = {}  # packed states, oldest first
        self._held_bytes = 0
        self._known: dict[int, bytes] = {}  # of all others, the different token ids, uint16
        self._known_bytes = 0
        self._different = 0  # token ids, each once a memory
        self._frequencies: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self._held) + len(self._known)

    def __contains__(self, label: int) -> bool:
        return label in self._held or label in self._known

    @property
    def mean_tokens(self) -> float:
        """The number of different tokens that a text has."""
        return self._different / max(len(self), 1)

    @property
    def size_bytes(self) -> int:
        """Memory held, estimated."""
        numbers = self._held_bytes + self._known_bytes
        return numbers + _OBJECT_BYTES * len(self) + _FREQUENCY_BYTES * len(self._frequencies)

    def add(self, label: int, packed: bytes) -> None:
        """Make a memory searchable under a label. `packed` is also what `fetch` must return.

        :raises ValueError: it is not what `pack` made.
        """
        if label in self:
            return
        self._count(different := _different(packed), 1)
        self._different += len(different)
        self._hold(label, packed)
        if self._fetch is not None:
            while self._held_bytes + _OBJECT_BYTES * len(self._held) > self._bytes_max:
                self._let_go(next(iter(self._held)))

    def hold(self, packed: Mapping[int, bytes]) -> bool:
        """Keep the states of known labels in memory; say whether there was room for all."""
        for label, data in packed.items():
            if label not in self._known:
                continue
            held_bytes = self._held_bytes + _OBJECT_BYTES * len(self._held)
            if held_bytes + len(data) + _OBJECT_BYTES > self._bytes_max:
                return False
            self._hold(label, data)
            self._forget_ids(label)
        return True

    def copied(self) -> TokensThen:
        """Copy which memory has which tokens. Quick."""
        return TokensThen(self._held.copy(), self._known.copy())

    def restore(self, saved: SavedTokens, living: Container[int]) -> None:
        """Take up the living memories of a copy, without their states. The index must be empty."""
        labels = np.frombuffer(saved.labels, np.int64).tolist()
        start = 0
        for label, end in zip(labels, np.frombuffer(saved.ends, np.int64).tolist(), strict=True):
            if label in living:
                self._known[label] = saved.token_ids[2 * start : 2 * end]
            start = end
        pieces = np.frombuffer(b"".join(self._known.values()), np.uint16)
        self._known_bytes, self._different = pieces.nbytes, len(pieces)
        known, counts = np.unique(pieces, return_counts=True)
        self._frequencies = dict(zip(known.tolist(), counts.tolist(), strict=True))

    def remove(self, label: int) -> bool:
        """Make a label unsearchable; say whether it was there."""
        if label in self._held:
            self._let_go(label)
        different = self._forget_ids(label)
        if different is None:
            return False
        self._different -= len(different)
        self._count(different, -1)
        return True

    def _count(self, token_ids: TokenIds, change: int) -> None:
        frequencies = self._frequencies
        for token_id in token_ids.tolist():
            count = frequencies.get(token_id, 0) + change
            if count:
                frequencies[token_id] = count
            else:
                del frequencies[token_id]

    def query(self, packed: bytes, states: Bytes) -> QueryTokens:
        """Return a query's states with the weights that its tokens have here."""
        n, known = len(self), self._frequencies
        frequencies = np.array([known.get(token, 0) for token in unpack(packed).token_ids.tolist()])
        # A search beside an add may see a frequency that is ahead of n.
        weights = np.maximum(np.log((n + 1) / (frequencies + 0.5)), _TINY)
        kept = _telling(weights)
        weights = weights[kept] / max(weights[kept].sum(), _TINY)
        states = padded(states[kept], self._codebook())
        return QueryTokens(states, weights.astype(np.float32))

    def score(self, query: QueryTokens, labels: Iterable[int]) -> Scores:
        """Return the score of each label, float32 [n]; 0 for one that has no states."""
        wanted = list(labels)
        # The loop may hold a memory, or let it go, in between: it is in one of both at any moment.
        known = [label in self._known for label in wanted]
        found = list(map(self._held.get, wanted))
        if not all(found) and self._fetch is not None:
            gaps = [place for place, one in enumerate(found) if one is None]
            gaps = [place for place in gaps if known[place] or wanted[place] in self]
            fetched = self._fetch([wanted[place] for place in gaps]) if gaps else []
            for place, packed in zip(gaps, fetched, strict=True):
                found[place] = packed
        return max_sim(query, [packed or b"" for packed in found], self._codebook())

    def _hold(self, label: int, packed: bytes) -> None:
        self._held[label] = packed
        self._held_bytes += len(packed)

    def _let_go(self, label: int) -> None:
        """Keep of the states that are held only whose they are."""
        packed = self._held[label]
        self._known[label] = _different(packed).tobytes()
        self._known_bytes += len(self._known[label])
        del self._held[label]
        self._held_bytes -= len(packed)

    def _forget_ids(self, label: int) -> TokenIds | None:
        different = self._known.pop(label, None)
        if different is None:
            return None
        self._known_bytes -= len(different)
        return np.frombuffer(different, np.uint16)


def _different(packed: bytes) -> TokenIds:
    return np.unique(unpack(packed).token_ids)


def _telling(weights: npt.NDArray[np.float64]) -> npt.NDArray[np.intp]:
    """Return the places of the tokens that count, in order."""
    order = np.argsort(-weights, kind="stable")[:TOKENS_MAX]
    shares = np.cumsum(weights[order]) / max(weights.sum(), _TINY)
    count = 1 + int(np.searchsorted(shares, TELLING_SHARE))
    return np.sort(order[: max(count, TOKENS_MIN)])
