"""One row, in this process: `python -m bench.faults ROW COUNTS SEED DIRECTORY`; JSON on stdout."""

import importlib
import os
import sys
import time
from pathlib import Path
from typing import Any, NoReturn

import msgspec
import structlog


def _drop(*_event: Any) -> NoReturn:
    raise structlog.DropEvent  # what is logged of so many faults is of no use to anybody


def main(name: str, counts: str, seed: int, scratch: Path) -> None:
    """Run a row and print it, on the standard output that it had at the start."""
    report = os.dup(1)
    os.dup2(2, 1)
    structlog.configure(processors=[_drop])
    started = time.monotonic()
    row = importlib.import_module(f"bench.faults.{name}").run(counts, seed, scratch)
    row.name, row.seconds = name, round(time.monotonic() - started, 1)
    os.write(report, msgspec.json.encode(row))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), Path(sys.argv[4]))
