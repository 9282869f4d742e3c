"""Token states as they are stored: projected to 64 dimensions, rounded to int8.

The model computes a state for each token on the way to a text's one vector. Late interaction
(`search/indexes/late.py`) compares texts by them. A state is scaled to length 1, projected
(`projection.py`), scaled again and rounded: 64 bytes a token, 2.3 KB for a text of 35 tokens.
Rounding costs nothing measurable.

What is stored for a text, little-endian: version u8, dimensions u8, tokens u16, then the token ids
as u16, then the states as int8, token by token.
"""

import struct
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from memory_actors.search.dot_products import float_dots
from memory_actors.search.embedding.protocol import Vectors

TOKENS_MAX: Final = 256
"""What the encoder reads of a text."""
SCALE: Final = 127
_VERSION: Final = 1
_HEADER: Final = struct.Struct("<BBH")
_TINY: Final = 1e-9

States = npt.NDArray[np.int8]
TokenIds = npt.NDArray[np.uint16]
AnyIds = Sequence[int] | npt.NDArray[np.int64]


class Packed(NamedTuple):
    """What is stored for a memory."""

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
