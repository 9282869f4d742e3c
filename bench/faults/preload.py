"""Builds what stands between a process and its disk (disk.c), and speaks to it."""

import ctypes
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum
from pathlib import Path

SOURCE = Path(__file__).with_name("disk.c")
BUILD_S = 60.0


class CannotBuild(Exception):
    """There is no compiler here, or it refuses: the rows that need it are skipped."""


class Failing(IntEnum):
    """Calls that can be made to fail."""

    WRITE = 1
    SYNC = 2
    NAME = 3
    """Creating, renaming, removing."""
    MEMORY = 4
    """An allocation by LMDB."""


def build(directory: Path) -> Path:
    """Return the path of the shared object, compiled into a directory.

    :raises CannotBuild: that is not possible here.
    """
    if re.search(r"[\s:]", str(directory)):
        raise CannotBuild(f"a library cannot be preloaded from a path like {directory}")
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        raise CannotBuild("there is no C compiler here")
    target = directory / "disk.so"
    command = [compiler, "-O2", "-fPIC", "-shared", "-o", str(target), str(SOURCE)]
    command += ["-ldl", "-lpthread"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=BUILD_S, check=False)
    if done.returncode:
        raise CannotBuild(f"{compiler} refuses disk.c: {done.stderr[:200]}")
    return target


def watched(shared: Path, root: Path) -> dict[str, str]:
    """Return the environment of a process whose files below `root` can be made to fail."""
    return {**os.environ, "LD_PRELOAD": str(shared), "FAULTS_ROOT": str(root)}


def journaled(shared: Path, root: Path, journal: Path, bytes_max: int) -> dict[str, str]:
    """Return the environment of a process that writes a journal and ends when it is that long."""
    limits = {"FAULTS_JOURNAL": str(journal), "FAULTS_JOURNAL_MAX": str(bytes_max)}
    return watched(shared, root) | limits


def is_watched() -> bool:
    """Say whether calls of this process can be made to fail."""
    return hasattr(ctypes.CDLL(None), "fault_arm")


@contextmanager
def failing(kind: Failing, n: int, error: int, *, on: bool = False) -> Iterator[list[int]]:
    """Let the n-th call of a kind fail, and all after it if `on`; tell how many did, at the end."""
    library = ctypes.CDLL(None)
    failed: list[int] = []
    module = b"lmdb/" if kind is Failing.MEMORY else None
    library.fault_arm(int(kind), ctypes.c_long(n), error, int(on), module)
    try:
        yield failed
    finally:
        library.fault_disarm.restype = ctypes.c_long
        failed.append(library.fault_disarm())
