"""Products of stored vectors with a query, at the width they are stored. Alone imports numkong.

numpy's BLAS knows no int8, so it would be given four times the bytes, and it splits
small products over threads: on a busy machine the first waits for the second to get a core, which
was measured to take a query from 2 to 12 ms, and a text of 40 tokens from 5 to 20 while another one
was embedded. These run in the caller's thread. The products of coded rows with one vector, which a
search needs most, are in C where the processor has AVX-512 with VNNI.

`LIBRARY` has the parts of the search that are written in C, in `dot_products.c` and
`indexes/max_sim.c`. Each does what Python also does, faster. Without a compiler, or on another
processor, Python is used.
"""

from pathlib import Path
from typing import Any, Final, NamedTuple

import numkong
import numpy as np
import numpy.typing as npt

from eventlog.core.compiled import FLOAT, LONG, POINTER, CompiledLibrary

LIBRARY: Final = CompiledLibrary(Path(__file__).with_name("libcompiled.so.3"))
INSTRUCTION_SETS: Final = ("numpy", "AVX2", "AVX-512")
"""By the numbers that the library has for them; 0 is none of C."""
AVX512: Final = 2

Floats = npt.NDArray[np.float32]
Bytes = npt.NDArray[np.int8]
_TINY = np.float32(1e-30)
_WIDTH = 64  # of what is compiled: rows of a multiple of it
_DOTS = POINTER, POINTER, LONG, LONG, POINTER, FLOAT, POINTER, FLOAT, POINTER


def float_dots(rows: Floats, vectors: Floats) -> Floats:
    """Return the product of each row with each vector: [n, d] and [k, d] give float32 [n, k]."""
    if not len(rows):
        return np.zeros((0, len(vectors)), np.float32)
    return _products(rows, vectors).astype(np.float32)


class Coded(NamedTuple):
    """Rows as int8, each with what one step of it stands for."""

    codes: Bytes
    """[n, d]"""
    steps: Floats
    """[n]"""

    def at(self, rows: npt.NDArray[np.intp] | npt.NDArray[np.bool_] | slice) -> "Coded":
        """Return some of them."""
        if isinstance(rows, slice) or rows.dtype == np.bool_:
            return Coded(self.codes[rows], self.steps[rows])
        return Coded(self.codes.take(rows, axis=0), self.steps.take(rows))  # a third quicker

    def copied(self, row: int) -> "Coded":
        """Return a copy of one of them."""
        one = slice(row, row + 1)
        return Coded(self.codes[one].copy(), self.steps[one].copy())

    def decoded(self) -> Floats:
        """Return the vectors that the codes represent, float32 [n, d]."""
        return self.codes * self.steps[:, None]

    def cosines(self, others: "Coded", row: int) -> Floats:
        """Return the product of each row with one of others, float32 [n]."""
        one = others.at(slice(row, row + 1))
        return byte_dots(self.codes, one.codes)[:, 0] * (self.steps * one.steps)

    def dots(self, vector: Floats) -> Floats:
        """Return the product of each row with a vector, float32 [n].

        The vector is taken as a sum of two of int8, so that little of it is lost.
        """
        high = coded(vector[None])
        low = coded(vector[None] - high.decoded())
        fits = len(vector) == self.codes.shape[1] and len(vector) % _WIDTH == 0
        if LIBRARY.instruction_set == AVX512 and fits:
            return self._compiled_dots(high, low)
        both = byte_dots(self.codes, np.concatenate([high.codes, low.codes])).astype(np.float32)
        return (both[:, 0] * high.steps + both[:, 1] * low.steps) * self.steps

    def _compiled_dots(self, high: "Coded", low: "Coded") -> Floats:
        products = np.empty(len(self.codes), np.float32)
        codes, steps = np.ascontiguousarray(self.codes), np.ascontiguousarray(self.steps)
        LIBRARY.function("coded_dots", *_DOTS)(
            codes.ctypes.data, steps.ctypes.data, *codes.shape, high.codes.ctypes.data,
            high.steps[0], low.codes.ctypes.data, low.steps[0], products.ctypes.data,
        )  # fmt: skip
        return products


def coded(rows: Floats) -> Coded:
    """Return rows as int8: each coordinate as a share of the row's largest, in 127 steps."""
    largest = np.abs(rows).max(axis=1, initial=0).astype(np.float32)
    steps = np.maximum(largest, _TINY) / np.float32(127)
    return Coded(np.rint(rows / steps[:, None]).astype(np.int8), steps)


def coded_units(rows: Floats) -> Coded:
    """Return rows of length 1 as int8. Decoded rows have length 1 too, and have the same codes."""
    return units_of(coded(rows).codes)


def units_of(codes: Bytes) -> Coded:
    """Return the rows of length 1 in the direction of codes."""
    steps: Floats = np.reciprocal(np.maximum(byte_lengths(codes), 1)).astype(np.float32)
    return Coded(codes, steps)


def byte_lengths(rows: Bytes) -> Floats:
    """Return the length of each row, float32 [n]."""
    if not len(rows):
        return np.zeros(0, np.float32)
    return np.sqrt(np.asarray(numkong.dot(rows, rows)).astype(np.float32))


def byte_dots(rows: Bytes, vectors: Bytes) -> npt.NDArray[np.int32]:
    """Return the product of each row with each vector, exactly: int32 [n, k]."""
    if not len(rows) or not len(vectors):
        return np.zeros((len(rows), len(vectors)), np.int32)
    return _products(rows, vectors)


def byte_angles(vectors: Bytes, rows: Bytes) -> Floats:
    """Return 1 - the cosine of each vector and row, float32 [k, n]; NaN for one of length 0."""
    if not len(rows) or not len(vectors):
        return np.zeros((len(vectors), len(rows)), np.float32)
    packed = numkong.dots_pack(np.ascontiguousarray(rows))
    return np.asarray(numkong.angulars_packed(np.ascontiguousarray(vectors), packed))


def _products(rows: npt.NDArray[np.generic], vectors: npt.NDArray[np.generic]) -> npt.NDArray[Any]:
    packed = numkong.dots_pack(np.ascontiguousarray(vectors))
    return np.asarray(numkong.dots_packed(np.ascontiguousarray(rows), packed))
