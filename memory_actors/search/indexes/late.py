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

Cost (one thread): 200 memories of 35 tokens are scored in 0.07 ms, or in 0.33 where `max_sim.c` is
not compiled; 10,000 in 5 ms, by numpy in 18. A search therefore scores the few hundred that vectors
and words propose: scoring one memory in twelve loses 0.004 of the recall that scoring all gives,
one in twenty 0.007 (`docs/internals/retrieval-study.md`).

Memory. `LateIndex` knows the tokens of all memories, but holds states, as they are packed, for as
many as fit `bytes_max`, one behind another; the others are fetched by whoever made the index.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from memory_actors.search.dot_products import Bytes
from memory_actors.search.embedding.token_states import (
    PLAIN,
    Codebook,
    TokenIds,
    TokenRows,
    Tokens,
    padded,
    tokens_of,
    unpack,
)
from memory_actors.search.indexes.labels import NONE, Labels, Rows, with_room
from memory_actors.search.indexes.max_sim import QUERY_TOKENS_MAX, QueryTokens, Scores, max_sim
from memory_actors.search.indexes.room import zeros

BYTES_MAX: Final = 64 << 20
"""States held in memory for one user: those of some 100,000 memories. With 48 MiB a query read 29
of the 200 that it scores from the mapped file there, a tenth of its time."""
TELLING_SHARE: Final = 0.93
"""Of a query's weight: the least telling tokens, which make up the rest, are left out. They are a
third of a question's tokens and of the work; recall on five LoCoMo conversations stays the same."""
TOKENS_MIN: Final = 8  # of a query: so few are all kept
_CHUNK_MEMORIES: Final = 512  # held anew at once
SEGMENT_BYTES: Final = 8 << 20
"""Of states: they are let go by segments, and one is not moved as others come."""
DEAD_SHARE_MAX: Final = 0.2  # of all rows before they are made anew
DEAD_MIN: Final = 64
_SEGMENTS_MIN: Final = 4
_LONG_PART: Final = 32
"""Tokens: of a long text a passage is found, or what the model reads of it. A short one that is a
part of a query may answer it: "I like tea" is in "do I like tea?"."""
_SPEAKER_TOKENS: Final = 1  # "user:" without its mark
_ROOMY_SHARE: Final = 16  # a segment that is filled to this part has all of its room at once
_PLACE_BITS: Final = 32
_PLACE_MASK: Final = (1 << _PLACE_BITS) - 1
_FREQUENCY_BYTES: Final = 100
_TOKENS: Final = 1 << 16
FEW_TOKENS_MAX: Final = 4_096
"""Different tokens of all memories: as pairs they take 25 KB; of more, a column of 256 KB does."""
CHANGES_MAX: Final = 512  # of few tokens, before they are put together with the others: 50 us
_ROW_BYTES: Final = 39
"""Bytes that a memory takes beside its states and token ids."""
_TINY: Final = 1e-9

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

    labels: npt.NDArray[np.int64]
    alive: npt.NDArray[np.bool_]
    ends: npt.NDArray[np.int64]
    token_ids: TokenIds

    def saved(self) -> SavedTokens:
        """Return copies of the columns, to be written. Slow: for a thread."""
        labels, ends, token_ids = self.labels, self.ends, self.token_ids
        if not self.alive.all():
            sizes = np.diff(ends, prepend=0)
            token_ids = token_ids[np.repeat(self.alive, sizes)]
            labels, ends = labels[self.alive], np.cumsum(sizes[self.alive])
        return SavedTokens(labels.tobytes(), ends.tobytes(), token_ids.tobytes())


class _Few(NamedTuple):
    """The number of memories that have each of a few tokens."""

    ids: TokenIds
    """In order."""
    counts: npt.NDArray[np.int32]
    since: dict[int, int]
    """By how much some have changed since."""


class _Frequencies:
    """The number of memories that have each token: of few tokens as pairs, of many in a column."""

    def __init__(self, token_ids: TokenIds):
        self._few: _Few | None = None
        self._many: npt.NDArray[np.int32] = np.zeros(0, np.int32)
        self._take(*np.unique(token_ids, return_counts=True))

    @property
    def size_bytes(self) -> int:
        if self._few is None:
            return self._many.nbytes
        ids, counts, since = self._few
        return ids.nbytes + counts.nbytes + _FREQUENCY_BYTES * len(since)

    def count(self, token_ids: TokenIds, change: int) -> None:
        """Count different tokens of a memory that came or went."""
        if self._few is None:
            self._many[token_ids] += change
            return
        ids, counts, since = self._few
        for token in token_ids.tolist():
            since[token] = since.get(token, 0) + change
        if len(since) > CHANGES_MAX:
            found = self._column(ids, counts)
            found[np.fromiter(since, np.int64)] += np.fromiter(since.values(), np.int32)
            every = np.flatnonzero(found > 0)
            self._take(every.astype(np.uint16), found[every])

    def of(self, token_ids: TokenIds) -> npt.NDArray[np.int64]:
        """Return the number of memories that have each of these; from any thread."""
        few = self._few
        if few is None:
            return self._many[token_ids].astype(np.int64)
        ids, counts, since = few
        changes = np.array([since.get(token, 0) for token in token_ids.tolist()], np.int64)
        if not len(ids):
            return changes
        places = np.minimum(np.searchsorted(ids, token_ids), len(ids) - 1)
        return np.where(ids[places] == token_ids, counts[places], 0) + changes

    def _take(self, ids: TokenIds, counts: npt.NDArray[np.integer[Any]]) -> None:
        """Let these be the counts. Another thread may look meanwhile."""
        if len(ids) > FEW_TOKENS_MAX:
            self._many, self._few = self._column(ids, counts), None
        else:
            self._few = _Few(ids, counts.astype(np.int32), {})

    def _column(self, ids: TokenIds, counts: npt.NDArray[np.integer[Any]]) -> npt.NDArray[np.int32]:
        column = zeros(_TOKENS, np.int32)
        column[ids] = counts
        return column


class _Rows:
    """The tokens of memories, and the states of some, in columns. Rows are only appended.

    Written on the loop; read from any thread, as long as somebody has it.
    """

    def __init__(self, saved: SavedTokens | None = None):
        self.labels, self.token_ids = Labels(), np.zeros(0, np.uint16)
        self.ends = np.zeros(0, np.int64)
        """The end of each row's stretch in the token ids."""
        if saved is not None:
            self.labels.extend(np.frombuffer(saved.labels, np.int64))
            self.ends = np.frombuffer(saved.ends, np.int64)
            self.token_ids = np.frombuffer(saved.token_ids, np.uint16).copy()
            if len(self.ends) != self.labels.count or self.start(len(self.ends)) != len(
                self.token_ids
            ):
                raise ValueError("the tokens of an index do not fit each other: build it anew")
        self.places = np.full(self.labels.count, NONE, np.int64)
        """The place of the tokens of each row: the number of a segment, and the place in it."""
        self.sizes = np.zeros(self.labels.count, np.uint16)
        """The number of tokens of each row."""
        self.frequencies = _Frequencies(self.token_ids)
        self.different = len(self.token_ids)
        """Tokens of living rows, each once a row."""
        self.segments: dict[int, TokenRows] = {}
        """Tokens with their states, the oldest first. Their numbers never come again."""
        self.held_bytes = 0
        self._last_segment = 0
        self._room = tokens_of([]).rows
        """The last segment, with the room for what comes."""

    @property
    def size_bytes(self) -> int:
        """Memory held, estimated."""
        ids = self.token_ids.itemsize * self.start(self.labels.count)
        return self.held_bytes + ids + _ROW_BYTES * self.labels.count + self.frequencies.size_bytes

    def start(self, row: int) -> int:
        """Return where the tokens of a row begin."""
        return int(self.ends[row - 1]) if row else 0

    def add(self, label: int, token_ids: TokenIds) -> int:
        """Add a row with its different tokens; return it."""
        row = self.labels.count
        start = self.start(row)
        end = start + len(token_ids)
        self.token_ids = with_room(self.token_ids, end)
        self.ends, self.sizes = with_room(self.ends, row + 1), with_room(self.sizes, row + 1)
        self.places = with_room(self.places, row + 1)
        self.token_ids[start:end], self.ends[row], self.places[row] = token_ids, end, NONE
        self.frequencies.count(token_ids, 1)
        self.different += len(token_ids)
        return self.labels.append(label)

    def remove(self, label: int) -> bool:
        """Mark a row as removed; say whether it was there."""
        row = self.labels.remove(label)
        if row is not None:
            different = self.token_ids[self.start(row) : self.ends[row]]
            self.frequencies.count(different, -1)
            self.different -= len(different)
            self.places[row] = NONE
        return row is not None

    def hold(self, rows: Rows | Sequence[int], tokens: Tokens, segment_bytes: int) -> None:
        """Keep the tokens of rows, which lie one behind another."""
        last, most = self.segments.get(self._last_segment), segment_bytes // tokens.rows.itemsize
        if last is None or len(last) + len(tokens.rows) > most:
            self._last_segment += 1
            last = self._room = tokens.rows[:0]
        start, end = len(last), len(last) + len(tokens.rows)
        if end > len(self._room):  # what was never written takes no memory
            room = most if _ROOMY_SHARE * end > most else 2 * end
            self._room = zeros(max(end, room), last.dtype)
            self._room[:start] = last
        self._room[start:end] = tokens.rows
        self.segments[self._last_segment] = self._room[:end]
        self.sizes[rows] = tokens.counts
        self.places[rows] = self._last_segment << _PLACE_BITS | (start + tokens.starts)
        self.held_bytes += tokens.rows.nbytes

    def let_go(self) -> None:
        """Drop the oldest segment of packed tokens; the index keeps their token ids."""
        number = next(iter(self.segments))
        places = self.places[: self.labels.count]
        places[places >> _PLACE_BITS == number] = NONE
        self.held_bytes -= self.segments.pop(number).nbytes

    def held_of(self, rows: Rows) -> Iterator[tuple[Rows, Tokens]]:
        """Yield the tokens of those rows that are held, and which of the rows those are."""
        known = np.flatnonzero(rows != NONE)
        where, counts = self.places[rows[known]], self.sizes[rows[known]].astype(np.int64)
        numbers = where >> _PLACE_BITS
        for number in dict.fromkeys(numbers.tolist()):
            segment = self.segments.get(number)  # none: not held, or let go meanwhile
            if segment is not None:
                some = np.flatnonzero(numbers == number)
                yield known[some], Tokens(segment, where[some] & _PLACE_MASK, counts[some])

    def copied(self) -> TokensThen:
        """Copy which memory has which tokens."""
        labels, count = self.labels, self.labels.count
        ids = self.token_ids[: self.start(count)].copy()
        return TokensThen(labels.labels, labels.alive.copy(), self.ends[:count].copy(), ids)


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
        self._rows = _Rows()

    def __len__(self) -> int:
        return self._rows.labels.living

    def __contains__(self, label: int) -> bool:
        return label in self._rows.labels

    def labels(self) -> list[int]:
        """Return the searchable labels."""
        return self._rows.labels.there()

    @property
    def mean_tokens(self) -> float:
        """The number of different tokens that a text has."""
        return self._rows.different / max(len(self), 1)

    @property
    def size_bytes(self) -> int:
        """Memory held, estimated."""
        return self._rows.size_bytes

    def add(self, label: int, packed: bytes) -> None:
        """Make a memory searchable under a label. `packed` is also what `fetch` must return.

        :raises ValueError: it is not what `pack` made.
        """
        if label not in self:
            self._hold([self._rows.add(label, _different(packed))], tokens_of([packed]))

    def hold(self, labels: Collection[int], packed: Sequence[bytes], skipped: int = 0) -> None:
        """Keep the states of known labels in memory, as far as there is room for them.

        See `tokens_of` for what is `skipped`.
        """
        rows = self._rows.labels.rows_of_all(labels)
        has = np.fromiter(map(len, packed), np.int64, len(packed)) > skipped
        if not (has & (rows != NONE)).all():
            kept = np.flatnonzero(has & (rows != NONE))
            rows, packed = rows[kept], [packed[place] for place in kept.tolist()]
        if len(rows):
            self._hold(rows, tokens_of(packed, skipped))

    def _hold(self, rows: Rows | Sequence[int], tokens: Tokens) -> None:
        held = self._rows
        held.hold(rows, tokens, min(SEGMENT_BYTES, self._bytes_max // _SEGMENTS_MIN))
        while self._fetch is not None and held.held_bytes > self._bytes_max:
            held.let_go()

    def copied(self) -> TokensThen:
        """Copy which memory has which tokens. Quick."""
        return self._rows.copied()

    def restore(self, saved: SavedTokens) -> None:
        """Take up the memories of a copy, without their states.

        :raises ValueError: its columns do not fit each other.
        """
        self._rows = _Rows(saved)

    def remove(self, label: int) -> bool:
        """Make a label unsearchable; say whether it was there."""
        removed = self._rows.remove(label)
        count = self._rows.labels.count
        if count - len(self) > (max(DEAD_MIN, DEAD_SHARE_MAX * count) if len(self) else 0):
            self._drop_dead()
        return removed

    def _drop_dead(self) -> None:
        """Make all anew without the rows that were removed; who reads goes on with the old."""
        old, self._rows = self._rows, _Rows(self.copied().saved())
        rows = old.labels.rows_of_all(self.labels())
        for start in range(0, len(rows), _CHUNK_MEMORIES):
            for held, tokens in old.held_of(rows[start : start + _CHUNK_MEMORIES]):
                self._hold(start + held, tokens.gathered())

    def query(self, packed: bytes, states: Bytes) -> QueryTokens:
        """Return a query's states with the weights that its tokens have here."""
        return self._weighed(unpack(packed).token_ids, states)

    def _weighed(self, token_ids: TokenIds, states: Bytes) -> QueryTokens:
        n, frequencies = len(self), self._rows.frequencies.of(token_ids)
        # A search beside an add may see a frequency that is ahead of n.
        weights = np.maximum(np.log((n + 1) / (frequencies + 0.5)), _TINY)
        kept = _telling(weights)
        weights = weights[kept] / max(weights[kept].sum(), _TINY)
        states = padded(states[kept], self._codebook())
        return QueryTokens(states, weights.astype(np.float32))

    def score(self, query: QueryTokens, labels: Sequence[int] | npt.NDArray[np.int64]) -> Scores:
        """Return the score of each label, float32 [n]; 0 for one that has no states."""
        wanted = np.asarray(labels, np.int64)
        held, scores = self._rows, np.zeros(len(wanted), np.float32)
        rows = held.labels.rows_of_all(wanted)
        missed = rows != NONE
        for there, tokens in held.held_of(rows):
            scores[there] = max_sim(query, tokens, self._codebook())
            missed[there] = False
        gaps = np.flatnonzero(missed)
        if len(gaps) and self._fetch is not None:
            fetched = tokens_of([one or b"" for one in self._fetch(wanted[gaps].tolist())])
            scores[gaps] = max_sim(query, fetched, self._codebook())
        return scores

    def said_by(self, packed: bytes, labels: npt.NDArray[np.int64]) -> Scores:
        """Return how much of each text a query says too, float32 [n]: MaxSim the other way round.

        `packed` is the query. It is 1 for a text that has the same tokens, after its speaker.
        """
        query, book = tokens_of([packed]), self._codebook()
        asked = unpack(packed).token_ids
        said = np.zeros(len(labels), np.float32)
        for place, label in enumerate(labels.tolist()):
            tokens = self._tokens(label)
            if tokens is not None and len(tokens):
                ids = book.ids(tokens)
                if _repeats(ids, asked):
                    said[place] = 1
                else:
                    said[place] = max_sim(self._weighed(ids, book.states(tokens)), query, book)[0]
        return said

    def _tokens(self, label: int) -> TokenRows | None:
        """Return the tokens of a label, held or fetched."""
        rows = self._rows.labels.rows_of_all([label])
        for _, tokens in self._rows.held_of(rows):
            return tokens.gathered().rows
        fetched = self._fetch([label])[0] if self._fetch is not None else None
        return None if fetched is None else tokens_of([fetched]).rows


def _repeats(text: TokenIds, query: TokenIds) -> bool:
    """Say whether a text is the query, after its speaker, or a long part of it."""
    for before in (0, _SPEAKER_TOKENS):
        rest = text[before:]
        if np.array_equal(rest, query):
            return True
        if len(rest) >= _LONG_PART and rest.tobytes() in query.tobytes():
            return True
    return False


def _different(packed: bytes) -> TokenIds:
    # For so few ids `np.unique` takes three times as long.
    return np.array(sorted(set(unpack(packed).token_ids.tolist())), np.uint16)


def _telling(weights: npt.NDArray[np.float64]) -> npt.NDArray[np.intp]:
    """Return the places of the tokens that count, in order."""
    order = np.argsort(-weights, kind="stable")[:QUERY_TOKENS_MAX]
    shares = np.cumsum(weights[order]) / max(weights.sum(), _TINY)
    count = 1 + int(np.searchsorted(shares, TELLING_SHARE))
    return np.sort(order[: max(count, TOKENS_MIN)])
