"""From what an embedder returns to vectors that an index can hold.

An embedder may be anybody's: it may give lists, another type of float, or vectors that are not of
length 1. What has a meaning is brought into form; what has none is refused, for it would poison an
index: another shape, numbers that are not finite, a vector of length 0.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from eventlog.core.logs import get_logger
from memory_actors.base.errors import EmbedderError
from memory_actors.search.embedding.protocol import Vectors

UNIT_TOLERANCE = 1e-2  # what rounding to float16 moves a length by, and no scale

_logger = get_logger("memory_actors.search.embedding")


class WrongVectorsError(EmbedderError):
    """The embedder answered, with what no index can hold: asking again would not help."""


class VectorForm:
    """Brings what one embedder returns into form; says once that it had to be normalised."""

    def __init__(self, dimension: int):
        self._dimension = dimension
        self._told = False

    def vectors(self, given: Any, count: int) -> Vectors:
        """Return unit vectors float32 `[count, dimension]`.

        :raises WrongVectorsError: another shape, no numbers, not finite, or of length 0.
        """
        numbers = _numbers(given)
        if numbers is None or numbers.shape != (count, self._dimension):
            raise WrongVectorsError(
                f"the embedder returned {_said(given, numbers)} for {count} texts: "
                f"return float32 [{count}, {self._dimension}]"
            )
        lengths = np.linalg.norm(numbers, axis=1, keepdims=True)
        if not np.all(np.isfinite(lengths)):
            raise WrongVectorsError(
                "the embedder returned a vector with numbers that are not finite"
            )
        if not np.all(lengths):
            raise WrongVectorsError(
                "the embedder returned a vector of length 0: it has no direction"
            )
        if np.any(np.abs(lengths - 1) >= UNIT_TOLERANCE):
            self._tell(float(lengths.flat[0]))
            numbers = numbers / lengths
        return numbers.astype(np.float32, copy=False)

    def _tell(self, length: float) -> None:
        if not self._told:
            self._told = True
            _logger.warning("vectors are not of length 1 and are normalised", length=length)


def _numbers(given: Any) -> npt.NDArray[np.floating[Any]] | None:
    """Return an array of floats of what was given; None if it is none."""
    try:
        array = np.asarray(given)
        if array.dtype == np.float32:
            return array
        return array.astype(np.float64, casting="same_kind") if array.dtype.kind in "fiu" else None
    except (TypeError, ValueError):  # rows of several lengths, say
        return None


def _said(given: Any, numbers: npt.NDArray[np.floating[Any]] | None) -> str:
    if numbers is not None:
        return f"an array of shape {list(numbers.shape)}"
    return f"a {type(given).__name__} that is no array of numbers"
