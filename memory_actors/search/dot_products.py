"""Products of stored vectors with a query, at the width they are stored.

numpy's BLAS knows no int8, so it would be given four times the bytes, and it splits products over
threads: on a busy machine the first waits for the second to get a core, which was measured to take
a query from 2 to 12 ms, and a text of 40 tokens from 5 to 20 while another one was embedded. These
run in the caller's thread.

`LIBRARY` has the parts of the search that are written in C, in `dot_products.c` and `indexes/*.c`.
Each does what Python also does, faster. Without a compiler, or on another processor, Python is
used.
"""

from pathlib import Path
from typing import Final, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from eventlog.core.compiled import FLOAT, LONG, POINTER, CompiledLibrary

LIBRARY: Final = CompiledLibrary(Path(__file__).with_name("libcompiled.so.5"))
INSTRUCTION_SETS: Final = ("numpy", "AVX2 or NEON", "AVX-512")
"""By the numbers that the library has for them; 0 is none of C."""
AVX512: Final = 2

Floats = npt.NDArray[np.float32]
Bytes = npt.NDArray[np.int8]
_TINY = np.float32(1e-30)
_WIDTH = 64  # of what is compiled: rows of a multiple of it
_EXACT_WIDTH = 1 << 10  # up to which float32 holds each product of bytes: it has 24 bits
_ONE_THREAD = 1 << 18  # multiplications that OpenBLAS does not split
_CODED = POINTER, POINTER, LONG, LONG, POINTER, FLOAT, POINTER, FLOAT, POINTER
_PAIRS = POINTER, LONG, LONG, POINTER, LONG, POINTER


def float_dots(rows: Floats, vectors: Floats) -> Floats:
    """Return the product of each row with each vector: [n, d] and [k, d] give float32 [n, k].

    A pair has the same product wherever it stands.
    """
    if LIBRARY.instruction_set:
        products = np.empty((len(rows), len(vectors)), np.float32)
        return _compiled("float_dots", rows, vectors, products)
    found: Floats = np.einsum("nd,kd->nk", rows, vectors)
    return found


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
        LIBRARY.function("coded_dots", *_CODED)(
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
    if LIBRARY.instruction_set:
        squares, rows = np.empty(len(rows), np.int32), np.ascontiguousarray(rows)
        LIBRARY.function("byte_squares", *_PAIRS[:4])(
            rows.ctypes.data, *rows.shape, squares.ctypes.data
        )
    else:
        squares = np.einsum("nd,nd->n", rows, rows, dtype=np.int32)
    return np.sqrt(squares.astype(np.float32))


def byte_dots(rows: Bytes, vectors: Bytes) -> npt.NDArray[np.int32]:
    """Return the product of each row with each vector, exactly: int32 [n, k]."""
    products = np.empty((len(rows), len(vectors)), np.int32)
    if LIBRARY.instruction_set:
        return _compiled("byte_dots", rows, vectors, products)
    exact = np.dtype(np.float32 if rows.shape[1] <= _EXACT_WIDTH else np.float64)
    wide, at_once = vectors.T.astype(exact), max(_ONE_THREAD // max(vectors.size, 1), 1)
    for first in range(0, len(rows), at_once):
        some = slice(first, first + at_once)
        products[some] = rows[some].astype(exact) @ wide
    return products


_Products = TypeVar("_Products", Floats, npt.NDArray[np.int32])


def _compiled(
    name: str, rows: npt.NDArray[np.generic], vectors: npt.NDArray[np.generic], products: _Products
) -> _Products:
    read = np.float32 if products.dtype == np.float32 else np.int8
    rows, vectors = np.ascontiguousarray(rows, read), np.ascontiguousarray(vectors, read)
    if rows.shape[1] != vectors.shape[1]:
        raise ValueError(f"rows have width {rows.shape[1]}, vectors {vectors.shape[1]}")
    LIBRARY.function(name, *_PAIRS)(
        rows.ctypes.data, *rows.shape, vectors.ctypes.data, len(vectors), products.ctypes.data
    )
    return products
