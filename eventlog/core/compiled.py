"""Libraries of functions in C that ctypes loads, where they were compiled.

Each function does what Python also does, faster. Without a compiler, or on another processor,
Python is used. A library has no state, and is given pointers: whoever calls a function checks what
it will read. `scripts/compile_c.py` makes them.
"""

import ctypes
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any, Final

POINTER: Final = ctypes.c_void_p
INT, LONG, FLOAT = ctypes.c_int, ctypes.c_int64, ctypes.c_float


class CompiledLibrary:
    """A library, loaded with the first call.

    The number at the end of its file's name is raised when a function's name or arguments change:
    so one that was compiled before the change is not loaded.
    """

    def __init__(self, path: Path):
        self.path: Final = path
        self._functions: dict[str, Callable[..., object]] = {}

    @cached_property
    def instruction_set(self) -> int:
        """The best that this processor has, by the library's own count; 0: none, or no library."""
        try:
            return int(self.function("instruction_set", result=INT)())
        except OSError:
            return 0

    def function(self, name: str, *arguments: Any, result: Any = None) -> Callable[..., Any]:
        """Return a function of the library.

        :raises OSError: there is no library.
        """
        known = self._functions.get(name)
        if known is None:
            loaded = self._loaded[name]
            loaded.argtypes, loaded.restype = arguments, result
            known = self._functions[name] = loaded  # ready, for another thread may take it
        return known

    @cached_property
    def _loaded(self) -> ctypes.CDLL:
        return ctypes.CDLL(str(self.path))


LOG_LIBRARY: Final = CompiledLibrary(Path(__file__).with_name("libcompiled.so.3"))
HAS_SHA256: Final = 2
"""Its instruction set that packing and walking events need; 1 is any other processor."""
