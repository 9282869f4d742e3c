"""The parts of the search that are written in C, where they were compiled.

Each stands beside the Python that does the same, only slower, where there is no compiler, or the
processor is another one: `dot_products.c`, `indexes/max_sim.c`. The library has no state, is loaded
by ctypes with the first call, and is given pointers: who calls a function checks what it will read.
"""

import ctypes
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, Final

LIBRARY: Final = Path(__file__).with_name("libcompiled.so.1")
"""Made by `scripts/compile_c.py`. The number is that of the functions that it has: a library that
was compiled for others is not loaded."""
WAYS: Final = ("numpy", "AVX2", "AVX-512")
AVX512: Final = 2
POINTER: Final = ctypes.c_void_p
INT, LONG, FLOAT = ctypes.c_int, ctypes.c_int64, ctypes.c_float


@cache
def way() -> int:
    """Return which of `WAYS` this processor has, as far as it is compiled."""
    try:
        return int(function("way", result=INT)())
    except OSError:  # there is no library
        return 0


@cache
def function(name: str, *arguments: Any, result: Any = None) -> Callable[..., Any]:
    """Return a function of the library.

    :raises OSError: there is no library.
    """
    found = _library()[name]
    found.argtypes, found.restype = arguments, result
    return found


@cache
def _library() -> ctypes.CDLL:
    return ctypes.CDLL(str(LIBRARY))
