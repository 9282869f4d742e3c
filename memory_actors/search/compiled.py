"""The parts of the search that are written in C, where they were compiled.

Each function does what Python also does, faster. Without a compiler, or on another processor,
Python is used. They are in `dot_products.c` and `indexes/max_sim.c`.
"""

from pathlib import Path
from typing import Final

from eventlog.core.compiled import CompiledLibrary

LIBRARY: Final = CompiledLibrary(Path(__file__).with_name("libcompiled.so.2"))
INSTRUCTION_SETS: Final = ("numpy", "AVX2", "AVX-512")
"""By the numbers that the library has for them; 0 is none of C."""
AVX512: Final = 2
