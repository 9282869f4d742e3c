"""The fault matrix: what can go wrong with disks, processes, clocks and models, many times over.

Each row is a module with `run(counts, seed, scratch) -> Row`, and says in its docstring what it
does and what must hold. `ROWS` is the matrix, in the order in which it is printed; a row that is
added is a module and its name here. Each runs in a process of its own, because some let calls of
that process fail, and all of them fork.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from bench.faults.row import Counts, Row

ROWS = (
    "kills",
    "powerloss",
    "damage",
    "impostors",
    "forgeries",
    "keys",
    "nth_failure",
    "surroundings",
    "erasing",
    "server",
    "processes",
    "strangers",
    "models",
    "cancelling",
    "model",
    "crowd",
    "fuzzing",
    "formats",
)
ON_DISK = frozenset({"kills", "crowd", "erasing"})
"""Rows whose writes are to be as slow as a disk, and whose files get numbers that others had."""
MEMORY = Path("/dev/shm")  # elsewhere faults come from above the file system: no need for a disk


def run(
    names: Sequence[str], counts: Counts, seed: int, directory: Path | None = None
) -> Iterator[Row]:
    """Run rows of the matrix, one after another; `directory` is where they write."""
    for name in names:
        with tempfile.TemporaryDirectory(dir=directory or _fast(name)) as scratch:
            yield run_row(name, counts, seed, Path(scratch))


def _fast(name: str) -> Path | None:
    return MEMORY if name not in ON_DISK and os.access(MEMORY, os.W_OK) else None


def run_row(name: str, counts: Counts, seed: int, scratch: Path) -> Row:
    """Run one row in a process of its own."""
    command = [sys.executable, "-m", "bench.faults", name, counts, str(seed), str(scratch)]
    env = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "TMPDIR": str(scratch)}
    root = Path(__file__).parents[2]
    done = subprocess.run(command, cwd=root, env=env, capture_output=True, text=True, check=False)
    try:
        return msgspec.json.decode(done.stdout, type=Row)
    except ValueError:
        row = Row(name=name, fault="the row itself has failed")
        row.fail("no result", done.stderr[-500:])
        return row
