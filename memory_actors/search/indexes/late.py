"""Late interaction: how well each word of a query is met by the best word of a memory.

Theory. One vector for a whole text blurs it. MaxSim (ColBERT's score) compares word by word, after
the encoder has seen each in its sentence: for each token of the query the closest token of the
memory, by cosine; the score is the mean over the query's tokens, each weighted by how rare it is
among this user's memories,

    score = sum w(q) * max over tokens m of cos(q, m) / sum w(q),  w(q) = ln((n + 1) / (df + 1/2))

for a token that `df` of `n` memories have. It is in [-1, 1]. The states are the ones the model
computes anyway on the way to its one vector: no second model, no second pass.

Neither weighting the query's stop words down, nor leaving its question words out, nor centring the
states raised recall by more than 0.003. `docs/internals/retrieval-study.md` has the figures.

Cost (one thread): 200 memories of 35 tokens are scored in 0.07 ms, or in 0.33 where `max_sim.c` is
not compiled; 10,000 in 5 ms, by numpy in 18. A search therefore scores the few hundred that vectors
and words propose: scoring one memory in twelve loses 0.004 of the recall that scoring all gives,
one in twenty 0.007 (`docs/internals/retrieval-study.md`).

Memory. `LateIndex` knows the tokens of all memories, but holds states, as they are packed, for as
many as fit `bytes_max`, one behind another; the others are fetched by whoever made the index.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Final, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from memory_actors.base.compressing import narrowed, widened
from memory_actors.search.dot_products import Bytes, byte_dots, byte_lengths
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
from memory_actors.search.indexes.labels import NONE, Labels, Rows, tally, with_room, zeros
from memory_actors.search.indexes.max_sim import QUERY_TOKENS_MAX, QueryTokens, Scores, max_sim

BYTES_MAX: Final = 64 << 20
"""States held in memory for one user: those of some 100,000 memories. With 48 MiB a query read 29
of the 200 that it scores from the mapped file there, a tenth of its time."""
TELLING_SHARE: Final = 0.93
"""Of a query's weight: the least telling tokens, which make up the rest, are left out. They are a
third of a question's tokens and of the work; recall on five LoCoMo conversations stays the same."""
TOKENS_MIN: Final = 8  # of a query: so few are all kept
_CHUNK_MEMORIES: Final = 512  # taken anew at once
SEGMENT_BYTES: Final = 8 << 20
"""Of states: they are let go by segments, and one is not moved as others come."""
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
CHANGES_MAX: Final = 512  # tokens, before they are put together with the others: 0.2 ms
_ROW_BYTES: Final = 18
"""Bytes that a memory takes beside its states and token ids."""
_TINY: Final = 1e-9
Weights = npt.NDArray[np.float64]
_NO_SIZES: Final = np.empty(0, np.int64)
_NO_IDS: Final = np.empty(0, np.uint16)

Fetch = Callable[[Sequence[int]], Sequence[bytes | None]]
"""Returns the packed states of labels, None for one that has none."""


class SavedTokens(msgspec.Struct, frozen=True):
    """The word pieces of each memory, at one moment."""

    sizes: bytes
    """The number of its `token_ids`, one a memory, `narrowed`."""
    token_ids: memoryview
    """uint16, each once a memory."""


class _Counted(NamedTuple):
    """The number of memories that have each token."""

    ids: TokenIds
    """In order."""
    counts: npt.NDArray[np.int32]
    since: dict[int, int]
    """By how much some have changed since."""


class _Frequencies:
    """The number of memories that have each token. A column of all tokens would take 256 KB."""

    def __init__(self, token_ids: TokenIds):
        found = tally(token_ids, 1 + int(token_ids.max(initial=0)))
        ids = np.flatnonzero(found)
        self._counted = _Counted(ids.astype(np.uint16), found[ids], {})

    @property
    def size_bytes(self) -> int:
        ids, counts, since = self._counted
        return ids.nbytes + counts.nbytes + _FREQUENCY_BYTES * len(since)

    def count(self, token_ids: TokenIds, change: int) -> None:
        """Count different tokens of a memory that came or went. Another thread may look."""
        ids, counts, since = self._counted
        for token in token_ids.tolist():
            since[token] = since.get(token, 0) + change
        if len(since) > CHANGES_MAX:
            found = np.bincount(ids, counts, _TOKENS).astype(np.int32)
            found[np.fromiter(since, np.int64)] += np.fromiter(since.values(), np.int32)
            every = np.flatnonzero(found > 0)
            self._counted = _Counted(every.astype(np.uint16), found[every], {})

    def of(self, token_ids: TokenIds) -> npt.NDArray[np.int64]:
        """Return the number of memories that have each of these; from any thread."""
        ids, counts, since = self._counted
        changes = np.array([since.get(token, 0) for token in token_ids.tolist()], np.int64)
        if not len(ids):
            return changes
        places = np.minimum(np.searchsorted(ids, token_ids), len(ids) - 1)
        return np.where(ids[places] == token_ids, counts[places], 0) + changes


class LateIndex:
    """The token states of one user's memories, in an order of `rows` that others share.

    `fetch` returns packed states that do not fit in `bytes_max`, `codebook` what they were packed
    with: it is asked for with the first query. Writes belong to the loop; `score` may run anywhere.
    """

    def __init__(
        self,
        rows: Labels,
        fetch: Fetch | None = None,
        codebook: Callable[[], Codebook] = lambda: PLAIN,
        *,
        bytes_max: int = BYTES_MAX,
        sizes: npt.NDArray[np.int64] = _NO_SIZES,
        token_ids: TokenIds = _NO_IDS,
    ):
        """Take the different tokens of all rows, so many a row, without their states."""
        self.rows = rows
        self._fetch = fetch
        self._codebook = codebook
        self._bytes_max = bytes_max
        self._living = int(np.count_nonzero(sizes))
        self._token_ids = token_ids
        self._ends = np.append(0, np.cumsum(sizes))
        """The end of each row's stretch in the token ids, behind that of the row before it."""
        self._frequencies = _Frequencies(token_ids)
        self._places = np.full(len(sizes), NONE, np.int64)
        """The place of the tokens of each row: the number of a segment, and the place in it."""
        self._counts = np.zeros(len(sizes), np.uint16)
        """The number of tokens of each row that is held."""
        self._segments: dict[int, TokenRows] = {}
        """Tokens with their states, the oldest first. Their numbers never come again."""
        self._held_bytes = 0
        self._last_segment = 0
        self._room = tokens_of([]).rows
        """The last segment, with the room for what comes."""

    @classmethod
    def restored(
        cls, saved: SavedTokens, rows: Labels, fetch: Fetch, codebook: Callable[[], Codebook]
    ) -> "LateIndex":
        """Return the tokens of a copy, without their states.

        :raises ValueError: its columns do not fit each other, or the rows.
        """
        sizes = widened(saved.sizes, np.int64)
        token_ids = np.frombuffer(saved.token_ids, np.uint16).copy()
        if not (len(sizes) == rows.count and sizes.sum() == len(token_ids) and (sizes >= 0).all()):
            raise ValueError("the tokens of an index do not fit each other: build it anew")
        return cls(rows, fetch, codebook, sizes=sizes, token_ids=token_ids)

    def saved(self, kept: Rows) -> SavedTokens:
        """Return the tokens of living rows, to be written. Slow: for a thread."""
        sizes, token_ids = self._gathered(kept)
        return SavedTokens(narrowed(sizes), memoryview(token_ids.tobytes()))

    def _gathered(self, rows: Rows) -> tuple[npt.NDArray[np.int64], TokenIds]:
        """Return how many different tokens rows have, and these."""
        starts, ends = self._ends[rows], self._ends[rows + 1]
        sizes = ends - starts
        places = np.arange(sizes.sum()) + np.repeat(ends - np.cumsum(sizes), sizes)
        return sizes, self._token_ids[places]

    def __len__(self) -> int:
        return self._living

    @property
    def size_bytes(self) -> int:
        """Memory held, estimated."""
        count = self.rows.count
        ids = self._token_ids.itemsize * int(self._ends[count])
        return self._held_bytes + ids + _ROW_BYTES * count + self._frequencies.size_bytes

    def append(self, packed: bytes | None) -> None:
        """Add the states of the next row, if it has any; `fetch` must return the same.

        :raises ValueError: it is not what `pack` made.
        """
        if packed is None:
            self.append_tokens(_NO_IDS)
        else:
            # For so few ids `np.unique` takes three times as long.
            different = sorted(set(unpack(packed).token_ids.tolist()))
            self.append_tokens(np.array(different, np.uint16), tokens_of([packed]))

    def append_tokens(self, token_ids: TokenIds, tokens: Tokens | None = None) -> None:
        """Add the different tokens of the next row, and all of them with their states."""
        row, start = self.rows.count, int(self._ends[self.rows.count])
        end = start + len(token_ids)
        self._token_ids = with_room(self._token_ids, end)
        self._ends, self._counts = with_room(self._ends, row + 2), with_room(self._counts, row + 1)
        self._places = with_room(self._places, row + 1)
        self._token_ids[start:end], self._ends[row + 1], self._places[row] = token_ids, end, NONE
        self._frequencies.count(token_ids, 1)
        self._living += bool(len(token_ids))
        if tokens is not None and len(tokens.rows):  # a zero-width space has no token
            self._hold([row], tokens)

    def of_row(self, row: int) -> tuple[TokenIds, Tokens | None]:
        """Return the token ids of a row, and its states if they are held: see `append_tokens`."""
        held = next(self._held_of(np.array([row])), None)
        ids = self._token_ids[self._ends[row] : self._ends[row + 1]]
        return ids, None if held is None else held[1].gathered()

    def remove(self, row: int) -> None:
        """Count the tokens of a removed row no more."""
        different = self._token_ids[self._ends[row] : self._ends[row + 1]]
        self._frequencies.count(different, -1)
        self._living -= bool(len(different))
        self._places[row] = NONE

    def taken(self, kept: Rows, rows: Labels) -> "LateIndex":
        """Return the tokens of some rows, for `rows` of their own. Slow: for a thread."""
        sizes, ids = self._gathered(kept)
        made = LateIndex(
            rows, self._fetch, self._codebook, bytes_max=self._bytes_max, sizes=sizes, token_ids=ids
        )
        for start in range(0, len(kept), _CHUNK_MEMORIES):
            for held, tokens in self._held_of(kept[start : start + _CHUNK_MEMORIES]):
                made._hold(start + held, tokens.gathered())
        return made

    # --- states, in segments

    @property
    def unheld(self) -> npt.NDArray[np.int64]:
        """The labels of rows whose states are not held."""
        count = self.rows.count
        lacks = (self._places[:count] == NONE) & (np.diff(self._ends[: count + 1]) > 0)
        labels: npt.NDArray[np.int64] = self.rows.labels[lacks & self.rows.alive]
        return labels

    @property
    def has_room(self) -> bool:
        """True if states of many more memories can be held."""
        return self._held_bytes < self._bytes_max - SEGMENT_BYTES // _SEGMENTS_MIN

    def hold(self, labels: Collection[int], packed: Sequence[bytes | None]) -> None:
        """Keep the states of memories in memory, as far as there is room for them."""
        rows = self.rows.rows_of_all(labels)
        has = (rows != NONE) & [bool(one) for one in packed]
        has &= self._ends[rows] < self._ends[rows + 1]
        if has.any():
            known = [packed[place] or b"" for place in np.flatnonzero(has).tolist()]
            self._hold(rows[has], tokens_of(known))

    def _hold(self, rows: Rows | Sequence[int], tokens: Tokens) -> None:
        """Keep the tokens of rows, which lie one behind another."""
        most = min(SEGMENT_BYTES, self._bytes_max // _SEGMENTS_MIN) // tokens.rows.itemsize
        last = self._segments.get(self._last_segment)
        if last is None or len(last) + len(tokens.rows) > most:
            self._last_segment += 1
            last = self._room = tokens.rows[:0]
        start, end = len(last), len(last) + len(tokens.rows)
        if end > len(self._room):  # what was never written takes no memory
            room = max(end, most if _ROOMY_SHARE * end > most else 2 * end)
            filled = room if self._last_segment > 1 else end  # the first may be the only one
            self._room = zeros((room,), last.dtype, filled)
            self._room[:start] = last
        self._room[start:end] = tokens.rows
        self._segments[self._last_segment] = self._room[:end]
        self._counts[rows] = tokens.counts
        self._places[rows] = self._last_segment << _PLACE_BITS | (start + tokens.starts)
        self._held_bytes += tokens.rows.nbytes
        while self._fetch is not None and self._held_bytes > self._bytes_max:
            oldest = next(iter(self._segments))  # its token ids remain
            self._places[self._places >> _PLACE_BITS == oldest] = NONE
            self._held_bytes -= self._segments.pop(oldest).nbytes

    def _held_of(self, rows: Rows) -> Iterator[tuple[Rows, Tokens]]:
        """Yield the tokens of those rows that are held, and which of the rows those are."""
        where, counts = self._places[rows], self._counts[rows].astype(np.int64)
        numbers = where >> _PLACE_BITS
        for number in dict.fromkeys(numbers.tolist()):
            segment = self._segments.get(number)  # none: not held, or let go meanwhile
            if segment is not None:
                some = np.flatnonzero(numbers == number)
                yield some, Tokens(segment, where[some] & _PLACE_MASK, counts[some])

    # --- queries

    def query(self, packed: bytes, states: Bytes) -> QueryTokens:
        """Return a query's states with the weights that its tokens have here."""
        weights = self._weights(unpack(packed).token_ids)
        kept = _telling(weights, np.array([len(weights)]))
        weights = weights[kept] / max(weights[kept].sum(), _TINY)
        return QueryTokens(padded(states[kept], self._codebook()), weights.astype(np.float32))

    def _weights(self, token_ids: TokenIds) -> Weights:
        n, frequencies = len(self), self._frequencies.of(token_ids)
        # A search beside an add may see a frequency that is ahead of n.
        return np.maximum(np.log((n + 1) / (frequencies + 0.5)), _TINY)

    def score(self, query: QueryTokens, rows: Rows) -> Scores:
        """Return the score of each row, float32 [n]; 0 for one that has no states."""
        scores, book = np.zeros(len(rows), np.float32), self._codebook()
        for places, tokens in self._tokens(rows):
            scores[places] = max_sim(query, tokens, book)
        return scores

    def said_by(self, packed: bytes, rows: Rows) -> Scores:
        """Return how much of each text a query repeats, float32 [n]: MaxSim from text to query.

        `packed` is the query. It is 1 for a text that has the same tokens, after its speaker.
        """
        book = self._codebook()
        asked, query = unpack(packed).token_ids, book.states(tokens_of([packed]).rows)
        said = np.zeros(len(rows), np.float32)
        for places, found in self._tokens(rows):
            tokens = found.gathered()
            filled = np.flatnonzero(tokens.counts)
            starts, counts = tokens.starts[filled], tokens.counts[filled]
            if not len(filled) or not len(query):
                continue
            ids, close = book.ids(tokens.rows), _closest(book.states(tokens.rows), query)
            weights = self._weights(ids)
            weights *= _telling(weights, counts)
            parts = np.add.reduceat(close * weights, starts) / np.add.reduceat(weights, starts)
            for place, part, start, count in zip(
                places[filled], parts, starts, counts, strict=True
            ):
                said[place] = 1 if _repeats(ids[start : start + count], asked) else part
        return said

    def _tokens(self, rows: Rows) -> Iterator[tuple[Rows, Tokens]]:
        """Yield the tokens of rows, held or fetched, and the places of those rows."""
        missed = self.rows.alive[rows] & (self._ends[rows] < self._ends[rows + 1])
        for places, tokens in self._held_of(rows):
            missed[places] = False
            yield places, tokens
        gaps = np.flatnonzero(missed)
        if len(gaps) and self._fetch is not None:
            labels = self.rows.labels[rows[gaps]].tolist()
            yield gaps, tokens_of([one or b"" for one in self._fetch(labels)])


def _repeats(text: TokenIds, query: TokenIds) -> bool:
    """Say whether a text is the query, after its speaker, or a long part of it."""
    for before in (0, _SPEAKER_TOKENS):
        rest = text[before:]
        if np.array_equal(rest, query):
            return True
        if len(rest) >= _LONG_PART and rest.tobytes() in query.tobytes():
            return True
    return False


def _closest(states: Bytes, others: Bytes) -> Scores:
    """Return the cosine of each state with the closest of the others."""
    cosines = byte_dots(states, others) / np.maximum(byte_lengths(others), 1)
    closest: Scores = cosines.max(1) / np.maximum(byte_lengths(states), 1)
    return closest


def _telling(weights: Weights, counts: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Return a mask of the most telling tokens; `counts` has the tokens of each text."""
    starts = np.cumsum(counts) - counts
    text = np.repeat(np.arange(len(counts)), counts)
    order = np.lexsort((-weights, text))
    heavier = np.cumsum(weights[order]) - weights[order]
    places = np.arange(len(weights)) - starts[text]
    few = heavier - heavier[starts[text]] < TELLING_SHARE * np.bincount(text, weights)[text]
    kept = np.empty(len(weights), np.bool_)
    kept[order] = (few | (places < TOKENS_MIN)) & (places < QUERY_TOKENS_MAX)
    return kept
