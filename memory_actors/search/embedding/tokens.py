"""Token states as they are stored: projected from 384 to 64 dimensions, rounded to int8.

The model computes a state for each token on the way to a text's one vector. Late interaction
(`search/indexes/late.py`) compares texts by them. A state is scaled to length 1, projected, scaled
again and rounded: 64 bytes a token, 2.3 KB for a text of 35 tokens. Rounding costs nothing
measurable.

What is stored for a text, little-endian: version u8, dimensions u8, tokens u16, then the token ids
as u16, then the states as int8, token by token.

Theory of the projection. Token states of one model fill their space unevenly: half their variance
lies in 64 directions. The projection keeps those (principal components) and evens them out, by
`variance ** -0.3`, so that the few strongest, which are the same for every word in a text, do not
decide alone. It is learnt from the token states of 400 sentences about nothing in particular
(`general_text.txt` beside this file), never from the memories or a benchmark, in 0.1 s.

Measured on five LoCoMo conversations (997 questions), turn recall@10 of states in 8 bits:

    projection                                 MaxSim alone   whole ranking (cross-validated)
    none, 384 dimensions, float                0.803          0.851
    64, components of general text             0.756          0.848
    64, the same evened out: this one          0.765          0.851
    64, components of the word embeddings      0.775          0.844
    64, a random rotation                      0.744
    128 in 4 bits each, of general text        0.798          0.853     no smaller, twice the work

The components' signs are fixed, so two machines agree but for rounding. States of two projections
must not meet: keep the projection with the model, and name it in what is stored.
"""

import struct
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from memory_actors.search.dot_products import float_dots
from memory_actors.search.embedding.protocol import Vectors

TOKENS_MAX: Final = 256
"""Tokens that the encoder reads of a text."""
SCALE: Final = 127
DIMENSIONS: Final = 64
EVENING: Final = 0.3
RECIPE: Final = "general-text/64/0.3"
"""Names what `learn_projection` does: states of another recipe cannot be compared."""
_VERSION: Final = 1
_HEADER: Final = struct.Struct("<BBH")
_TINY: Final = 1e-9

States = npt.NDArray[np.int8]
TokenIds = npt.NDArray[np.uint16]
AnyIds = Sequence[int] | npt.NDArray[np.int64]


class Packed(NamedTuple):
    """Token states as stored for a memory."""

    token_ids: TokenIds
    """[tokens]"""
    states: States
    """[tokens, dimensions]"""


def project(states: Vectors, projection: Vectors) -> Vectors:
    """Return token states float32 `[tokens, width]` as unit rows `[tokens, dimensions]`."""
    return _unit(float_dots(_unit(states), projection.T))


def pack(token_ids: AnyIds, projected: Vectors) -> bytes:
    """Return what to store for a memory: its token ids and its projected states.

    :raises ValueError: they are not equally many, or more than `TOKENS_MAX`.
    """
    count, dimensions = projected.shape
    if count != len(token_ids) or count > TOKENS_MAX:
        raise ValueError(f"{len(token_ids)} token ids for {count} states, {TOKENS_MAX} at most")
    codes = np.rint(projected * SCALE).astype(np.int8)
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


def _unit(rows: Vectors) -> Vectors:
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    unit: Vectors = (rows / np.maximum(lengths, _TINY)).astype(np.float32)
    return unit


def learn_projection(states: Vectors, dimensions: int = DIMENSIONS) -> Vectors:
    """Return a projection, float32 `[width, dimensions]`, from token states `[tokens, width]`.

    `states` are those of general text, special tokens left out, at least a few thousand.
    """
    unit = states / np.maximum(np.linalg.norm(states, axis=1, keepdims=True), _TINY)
    centred = (unit - unit.mean(axis=0)).astype(np.float64)
    variances, components = np.linalg.eigh(centred.T @ centred / len(centred))
    strongest = slice(None, -dimensions - 1, -1)  # eigh sorts upwards
    evened = np.maximum(variances[strongest], _TINY) ** -EVENING
    components = components[:, strongest]
    largest = np.abs(components).argmax(axis=0)
    signs = np.sign(components[largest, range(dimensions)])  # eigenvectors have none of their own
    projection: Vectors = (components * signs * evened).astype(np.float32)
    return projection
