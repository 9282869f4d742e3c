"""Compiles the C of the package, as a part of building it: a hook of hatchling.

Python has the same functions, only slower, so a machine without a compiler gets a package without
the library. It is a plain library that ctypes loads: neither Python's headers are needed, nor one
library for each Python.

`MEMORY_ACTORS_WHEEL` says which wheel is wanted: `any` for one without it, or the tag of a
platform, for example `manylinux_2_17_x86_64`: then it is an error if it cannot be compiled. By
default it builds a wheel for this machine.
"""

import os
import platform
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from packaging.tags import platform_tags

LIBRARIES = [Path("eventlog/core/libcompiled.so.3"), Path("memory_actors/search/libcompiled.so.5")]
"""The sources of each library are in its directory and below."""
FLAGS = "-O3", "-ffp-contract=off", "-fno-math-errno", "-fPIC", "-shared", "-fvisibility=hidden"
_LINUX = "-Wl,--build-id=none", "-s"
PLATFORMS = {
    ("linux", "x86_64"): _LINUX,
    ("linux", "aarch64"): (*_LINUX, "-march=armv8-a+crypto"),  # `checksums.c` asks for it first
    ("darwin", "x86_64"): (),
    ("darwin", "arm64"): (),
}
"""The flags of each platform, besides `FLAGS`."""


class CompileC(BuildHookInterface[Any]):
    """Compiles the libraries, and puts them into the wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile the libraries where that is possible and wanted.

        :raises subprocess.CalledProcessError, OSError: a compiled wheel is wanted and cannot be
            made.
        """
        wanted = os.environ.get("MEMORY_ACTORS_WHEEL")
        flags = PLATFORMS.get((sys.platform, platform.machine()))
        if wanted == "any" or (wanted is None and flags is None):
            return
        if flags is None:
            raise OSError(f"a wheel for {wanted} cannot be compiled here: only on {[*PLATFORMS]}")
        try:
            for library in LIBRARIES:
                self._compile(library, flags)
        except (OSError, subprocess.CalledProcessError) as error:
            if wanted is not None:
                raise
            why = getattr(error, "stderr", None) or error
            self.app.display_warning(
                f"C could not be compiled here, so search, the log and `verify` are slower: {why}"
            )
            return
        if version != "editable":
            for library in LIBRARIES:
                build_data["force_include"][str(Path(self.root) / library)] = str(library)
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{wanted or next(platform_tags())}"

    def _compile(self, library: Path, flags: Sequence[str]) -> None:
        compiler = shlex.split(os.environ.get("CC", "cc"))
        sources = sorted(Path(self.root).glob(f"{library.parent}/**/*.c"))
        subprocess.run(  # noqa: S603
            [*compiler, *FLAGS, *flags, "-o", library, *sources],
            cwd=self.root, check=True, capture_output=True, text=True,
        )  # fmt: skip
