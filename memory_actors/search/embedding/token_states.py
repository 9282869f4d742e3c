"""Token states: how they are projected, coded and packed.

The model computes a state for each token on the way to a text's one vector. Late interaction
(`search/indexes/late.py`) compares texts by them. A state is scaled to length 1, projected from 384
to 64 dimensions, scaled again, and coded in two bits a dimension: with its token's id 18 bytes,
630 for a text of 35 tokens.

Theory of the projection. Token states of one model fill their space unevenly: half their variance
lies in 64 directions. The projection keeps those (principal components) and evens them out, by
`variance ** -0.3`, so that the few strongest, which are the same for every word in a text, do not
decide alone. It is learnt from the token states of 400 sentences about nothing in particular
(`general_text.txt` beside this file), never from the memories or a benchmark, in 0.1 s.

`docs/internals/retrieval-study.md` compares it with other projections and codes.

The components' signs are fixed, so two machines agree but for rounding. States of two projections
must not meet: keep the projection with the model, and name it in what is stored.

Theory of the codes. The token alone determines much of a state, whatever text it stands in: a third
of its variance among tokens that the fit has not seen. Each token therefore has an expected state,
a linear function of its word embedding, fitted on the same general text. The code is the difference
of a state from it: one of four steps in each dimension, which is the least error that two bits
leave of a normal distribution. Decoded states are compared by their cosine, for a code changes
their length.

A query is not stored, so its states are compared uncoded. With coded ones recall@10 is 0.02 lower
on the long passages of QMSum.
"""

import struct
import zlib
from collections.abc import Sequence
from functools import cache
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from memory_actors.search.dot_products import Bytes, Floats, float_dots

TOKENS_MAX: Final = 256
"""Tokens that the encoder reads of a text."""
DIMENSIONS: Final = 64
DIMENSIONS_MIN, DIMENSIONS_MAX = 3, 255  # of a plain codebook: its steps are int8, its size a byte
EVENING: Final = 0.3
RECIPE: Final = "general-text/64/0.3"
"""Names what `learn_projection` does: states of another recipe cannot be compared."""
CODED_RECIPE: Final = f"{RECIPE}/2 bits"
"""Names what `learn_codebook` makes of it."""
SCALE: Final = 127
LEVELS: Final = 4
STEP: Final = 0.9957
"""Of a standard deviation: the distance of four levels that codes a normal distribution best."""
RIDGE: Final = 3.0
_PER_BYTE: Final = 4
_WORD_BYTES: Final = 4
_LOW_CODES: Final = np.uint32(0x03030303)
_TOKENS_AT_ONCE: Final = 64
"""Multiplied by their steps: a loop of numpy over one token's takes longer to begin than to run."""
_VERSION: Final = 2
_HEADER: Final = struct.Struct("<BBH")
_TINY: Final = 1e-9

TokenIds = npt.NDArray[np.uint16]
TokenRows = npt.NDArray[np.void]
"""The id and the codes of each token, as so many bytes that are copied as one."""
AnyIds = Sequence[int] | npt.NDArray[np.int64] | TokenIds


# --- projection


def project(states: Floats, projection: Floats) -> Floats:
    """Return token states float32 `[tokens, width]` as unit rows `[tokens, dimensions]`."""
    return _unit(float_dots(_unit(states), projection.T))


def _unit(rows: Floats) -> Floats:
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    unit: Floats = (rows / np.maximum(lengths, _TINY)).astype(np.float32)
    return unit


def learn_projection(states: Floats) -> Floats:
    """Return a projection, float32 `[width, DIMENSIONS]`, from token states `[tokens, width]`.

    `states` are those of general text, special tokens left out, at least a few thousand.
    """
    unit = states / np.maximum(np.linalg.norm(states, axis=1, keepdims=True), _TINY)
    centred = (unit - unit.mean(axis=0)).astype(np.float64)
    variances, components = np.linalg.eigh(centred.T @ centred / len(centred))
    strongest = slice(None, -DIMENSIONS - 1, -1)  # eigh sorts upwards
    evened = np.maximum(variances[strongest], _TINY) ** -EVENING
    components = components[:, strongest]
    largest = np.abs(components).argmax(axis=0)
    signs = np.sign(components[largest, range(DIMENSIONS)])  # eigenvectors have none of their own
    projection: Floats = (components * signs * evened).astype(np.float32)
    return projection


def rounded(projected: Floats) -> Bytes:
    """Return projected states in 127ths, which loses nothing that can be measured."""
    return np.rint(projected * SCALE).astype(np.int8)


# --- codes


class Codebook:
    """The code of projected states: the lowest of four levels, and the step to the next.

    `lowest` is int8 `[vocabulary, dimensions]`, `steps` int8 `[dimensions]`, both in 127ths. An id
    behind the last row takes that one. `name` tells codebooks apart in what is packed.

    :raises ValueError: they are of another type, or do not fit each other.
    """

    def __init__(self, name: str, lowest: Bytes, steps: Bytes):
        if not lowest.dtype == steps.dtype == np.int8 or lowest.shape != (len(lowest), len(steps)):
            raise ValueError(
                f"a codebook has int8 [vocabulary, dimensions] and int8 [dimensions], not "
                f"{lowest.dtype} {lowest.shape} and {steps.dtype} {steps.shape}"
            )
        if not len(lowest):
            raise ValueError("a codebook has a row for one id at least")
        self.name = name
        self.lowest, self.steps = lowest, steps
        self.dimensions = len(steps)
        self.mark = zlib.crc32(name.encode()) & 0xFFFF
        padding = -self.dimensions % (_PER_BYTE * _WORD_BYTES)
        self.code_bytes = (self.dimensions + padding) // _PER_BYTE
        """Of a token."""
        self._part = np.dtype((np.void, self.code_bytes))
        """The codes of a token, copied as one: byte by byte takes ten times."""
        # Whole words are decoded at once: the dimensions are filled up with such as are always 0.
        filled = np.pad(lowest, ((0, 0), (0, padding))) if padding else lowest
        self.lowest_padded = np.ascontiguousarray(filled)
        """int8 `[vocabulary, 4 * code_bytes]`."""
        self.steps_padded = np.pad(steps, (0, padding))
        self._steps = np.tile(self.steps_padded, _TOKENS_AT_ONCE)

    def coded(self, token_ids: TokenIds, projected: Floats) -> npt.NDArray[np.uint8]:
        """Return the codes of projected states, uint8 `[tokens, code_bytes]`."""
        lowest = self.lowest.take(token_ids, axis=0, mode="clip")
        levels = np.rint((projected * SCALE - lowest) / self.steps)
        codes = np.zeros((len(token_ids), _PER_BYTE * self.code_bytes), np.uint8)
        codes[:, : self.dimensions] = np.clip(levels, 0, LEVELS - 1)
        parts = codes.reshape(-1, _PER_BYTE, self.code_bytes)
        coded = parts[:, 0] | parts[:, 1] << 2 | parts[:, 2] << 4 | parts[:, 3] << 6
        return np.asarray(coded, np.uint8)

    def ids(self, tokens: TokenRows) -> TokenIds:
        """Return the ids of tokens, in their order."""
        return np.asarray(tokens.view(_row_of(self.dimensions))["id"])

    def states(self, tokens: TokenRows) -> Bytes:
        """Decode tokens to states, int8 `[tokens, dimensions]`, of any length.

        Padded with zeros to a multiple of 16 dimensions.
        """
        part, rows = self._part, tokens.view(_row_of(self.dimensions))
        words = np.ascontiguousarray(rows["codes"].view(part)[:, 0]).view(np.uint32)
        blocks = -(-len(rows) // _TOKENS_AT_ONCE)
        states = np.empty((blocks * _TOKENS_AT_ONCE, _PER_BYTE), part)
        levels = np.empty_like(words)
        for place in range(_PER_BYTE):
            np.right_shift(words, np.uint32(2 * place), out=levels)
            levels &= _LOW_CODES
            states[: len(rows), place] = levels.view(part)
        found = states.view(np.int8).reshape(blocks, len(self._steps))
        found *= self._steps
        found = found.reshape(-1, _PER_BYTE * self.code_bytes)[: len(rows)]
        found += self.lowest_padded.take(rows["id"], axis=0, mode="clip")
        return found


def plain_codebook(dimensions: int = DIMENSIONS) -> Codebook:
    """Return the codebook for states of which nothing is known but that they are of length 1.

    :raises ValueError: they have so few or so many dimensions that they cannot be packed.
    """
    if not DIMENSIONS_MIN <= dimensions <= DIMENSIONS_MAX:
        raise ValueError(
            f"token states have {DIMENSIONS_MIN} to {DIMENSIONS_MAX} dimensions, not {dimensions}: "
            "`learn_projection` makes a projection to fewer"
        )
    step = max(1, round(STEP * SCALE / dimensions**0.5))
    steps = np.full(dimensions, step, np.int8)
    return Codebook("plain", np.full((1, dimensions), round(-1.5 * step), np.int8), steps)


PLAIN: Final = plain_codebook()


def learn_codebook(token_ids: TokenIds, projected: Floats, word_vectors: Floats) -> Codebook:
    """Return a codebook from projected states of general text, `[tokens, dimensions]`, with ids.

    `word_vectors` is float32 `[vocabulary, width]`: what the model knows of each token by itself.
    """
    known = _unit(word_vectors - word_vectors.mean(axis=0))
    known = np.concatenate([known, np.ones((len(known), 1), np.float32)], axis=1)
    met = known[token_ids].astype(np.float64)
    weights = np.linalg.solve(met.T @ met + RIDGE * np.eye(met.shape[1]), met.T @ projected)
    expected = known @ weights
    spread = (projected - expected[token_ids]).std(axis=0)
    steps = np.clip(np.rint(STEP * SCALE * spread), 1, SCALE // (LEVELS - 1))
    highest = SCALE - (LEVELS - 1) * steps
    lowest = np.clip(np.rint(SCALE * expected - (LEVELS - 1) / 2 * steps), -SCALE, highest)
    return Codebook(CODED_RECIPE, lowest.astype(np.int8), steps.astype(np.int8))


# --- what is stored for a text, little-endian: version u8, dimensions u8, the codebook's mark u16,
# then token by token its id as u16 and its codes. A byte of codes has, from its lowest bits on,
# what belongs to dimensions j, j + n, j + 2n and j + 3n, where n is the number of bytes.


class PackedStates(NamedTuple):
    """Token states as stored for a memory."""

    token_ids: TokenIds
    """[tokens]"""
    codes: npt.NDArray[np.uint8]
    """[tokens, bytes]"""


def pack(token_ids: AnyIds, projected: Floats, codebook: Codebook = PLAIN) -> bytes:
    """Return the bytes to store for a memory: its token ids, and the codes of its projected states.

    :raises ValueError: they are not equally many, more than `TOKENS_MAX`, or of other dimensions
        than the codebook.
    """
    return pack_each([token_ids], projected, codebook)[0]


def pack_each(
    token_ids: Sequence[AnyIds], projected: Floats, codebook: Codebook = PLAIN
) -> list[bytes]:
    """Pack several memories; their states are given one after another.

    :raises ValueError: as `pack` does.
    """
    counts = [len(ids) for ids in token_ids]
    tokens, dimensions = projected.shape
    if sum(counts) != tokens or max(counts, default=0) > TOKENS_MAX:
        raise ValueError(f"{sum(counts)} token ids for {tokens} states, {TOKENS_MAX} at most")
    if dimensions != codebook.dimensions:
        raise ValueError(
            f"states of {dimensions} dimensions for a codebook of {codebook.dimensions}: give "
            f"`plain_codebook({dimensions})` here, and as `codebook()` of the embedder"
        )
    ids = np.concatenate([np.asarray(one, np.uint16) for one in token_ids])
    rows = np.empty(tokens, _row_of(dimensions))
    rows["id"], rows["codes"] = ids, codebook.coded(ids, projected)
    header, ends = header_of(codebook), np.cumsum(counts)
    return [
        header + rows[end - count : end].tobytes() for end, count in zip(ends, counts, strict=True)
    ]


def header_of(codebook: Codebook) -> bytes:
    """Return the header of everything that is packed with a codebook."""
    return _HEADER.pack(_VERSION, codebook.dimensions, codebook.mark)


def unpack(data: bytes) -> PackedStates:
    """Return views into what `pack` made with any codebook.

    :raises ValueError: it is not that.
    """
    if len(data) < _HEADER.size:
        raise ValueError("token states are cut short")
    version, dimensions, _ = _HEADER.unpack_from(data)
    row = _row_of(dimensions)
    if version != _VERSION or (len(data) - _HEADER.size) % row.itemsize:
        raise ValueError(f"token states of version {version} and {len(data)} bytes are not ours")
    rows = np.frombuffer(data, row, offset=_HEADER.size)
    return PackedStates(rows["id"], rows["codes"])


@cache
def _row_of(dimensions: int) -> np.dtype[np.void]:
    code_bytes = -(-dimensions // (_PER_BYTE * _WORD_BYTES)) * _WORD_BYTES
    return np.dtype([("id", "<u2"), ("codes", "u1", (code_bytes,))])


class Tokens(NamedTuple):
    """The tokens of some texts: a stretch of rows for each."""

    rows: TokenRows
    starts: npt.NDArray[np.int64]
    """The start of each text's stretch."""
    counts: npt.NDArray[np.int64]
    """The count of each text's tokens."""

    def gathered(self) -> "Tokens":
        """Return the tokens one after another, without gaps."""
        ends = np.cumsum(self.counts)
        starts = ends - self.counts
        places = np.repeat(self.starts - starts, self.counts) + np.arange(self.counts.sum())
        return Tokens(self.rows.take(places), starts, self.counts)


def tokens_of(packed: Sequence[bytes]) -> Tokens:
    """Return the tokens of texts that were packed with one codebook; an empty one has none.

    They follow one another.
    """
    head = _HEADER.size
    _, dimensions, _ = _HEADER.unpack_from(next(filter(None, packed), header_of(PLAIN)))
    size = _row_of(dimensions).itemsize
    rows = np.frombuffer(b"".join([data[head:] for data in packed]), np.dtype((np.void, size)))
    lengths = np.fromiter(map(len, packed), np.int64, len(packed))
    counts = np.maximum(lengths - head, 0) // size
    return Tokens(rows, np.cumsum(counts) - counts, counts)


def check_packed(data: bytes, codebook: Codebook) -> None:
    """Check that token states were packed with a codebook.

    :raises ValueError: they were not.
    """
    unpack(data)
    if not data.startswith(header_of(codebook)):
        raise ValueError(
            f"token states were packed with another codebook than {codebook.name!r}: an embedder "
            "whose `encode` packs with a codebook has it as `codebook()`, too"
        )


def states_of(packed: bytes, codebook: Codebook) -> Bytes:
    """Decode a packed text, as `Codebook.states` does."""
    return codebook.states(tokens_of([packed]).rows)


def padded(states: Bytes, codebook: Codebook) -> Bytes:
    """Return states as wide as those that are decoded."""
    padding = _PER_BYTE * codebook.code_bytes - states.shape[1]
    return np.pad(states, ((0, 0), (0, padding))) if padding else states
