"""The parts of the search that are written in C, where they were compiled.

Each function does what Python also does, faster. Without a compiler, or on another processor,
Python is used. They are in `dot_products.c` and `indexes/max_sim.c`.
"""

from pathlib import Path
from typing import Final

from eventlog.core.compiled import FLOAT, INT, LONG, POINTER, CompiledLibrary

__all__ = ["AVX512", "FLOAT", "INT", "LIBRARY", "LONG", "POINTER", "WAYS", "function", "way"]

LIBRARY: Final = CompiledLibrary(Path(__file__).with_name("libcompiled.so.1"))
WAYS: Final = ("numpy", "AVX2", "AVX-512")
AVX512: Final = 2
function: Final = LIBRARY.function


def way() -> int:
    """Return which of `WAYS` this processor has, as far as it is compiled."""
    return LIBRARY.way
