"""Products of what is stored with what is asked, at the width it is stored. Alone imports numkong.

numpy's BLAS knows no float16 and no int8, so it would be given four times the bytes, and it splits
small products over threads: on a busy machine the first waits for the second to get a core, which
was measured to take a query from 2 to 12 ms, and a text of 40 tokens from 5 to 20 while another one
was embedded. These run in the caller's thread.
"""

from typing import Any

import numkong
import numpy as np
import numpy.typing as npt

Halves = npt.NDArray[np.float16]
Floats = npt.NDArray[np.float32]
_TINY = 1e-9
Bytes = npt.NDArray[np.int8]


def float_dots(rows: Floats, vectors: Floats) -> Floats:
    """Return the product of each row with each vector: [n, d] and [k, d] give float32 [n, k]."""
    if not len(rows):
        return np.zeros((0, len(vectors)), np.float32)
    return _products(rows, vectors).astype(np.float32)


def dots(rows: Halves, vectors: Floats) -> Floats:
    """Return the product of each row with each vector: [n, d] and [k, d] give float32 [n, k].

    Each vector is taken as a sum of two of float16, so that nothing of it is lost: the error of a
    product is that of float32.
    """
    count = len(vectors)
    if not len(rows):
        return np.zeros((0, count), np.float32)
    high = vectors.astype(np.float16)
    low = (vectors - high).astype(np.float16)
    both = _products(rows, np.concatenate([high, low]))
    return np.asarray(both[:, :count] + both[:, count:], np.float32)


def byte_codes(rows: Halves | Floats) -> tuple[Bytes, Floats]:
    """Return rows as int8 [n, d] and what one step of each row stands for, [n]."""
    wide = rows.astype(np.float32)
    steps = np.maximum(np.abs(wide).max(axis=1), _TINY) / np.float32(127)
    return np.rint(wide / steps[:, None]).astype(np.int8), steps


def coded_dots(codes: Bytes, steps: Floats, vector: Floats) -> Floats:
    """Return about the product of each coded row with a vector, float32 [n]."""
    high, step = byte_codes(vector[None])
    low, finer = byte_codes(vector[None] - high * step[:, None])
    both = byte_dots(codes, np.concatenate([high, low])).astype(np.float32)
    return (both[:, 0] * step + both[:, 1] * finer) * steps


def byte_dots(rows: Bytes, vectors: Bytes) -> npt.NDArray[np.int32]:
    """Return the product of each row with each vector, exactly: int32 [n, k]."""
    if not len(rows) or not len(vectors):
        return np.zeros((len(rows), len(vectors)), np.int32)
    return _products(rows, vectors)


def _products(rows: npt.NDArray[np.generic], vectors: npt.NDArray[np.generic]) -> npt.NDArray[Any]:
    packed = numkong.dots_pack(np.ascontiguousarray(vectors))
    return np.asarray(numkong.dots_packed(np.ascontiguousarray(rows), packed))
