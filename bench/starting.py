"""The cost of a process until it has done one thing: elapsed time, processor time and memory.

Each is a fresh process, and they take turns, so that a busy moment of the machine hits all alike.
All modules are compiled, as an installer leaves them: the first turn does that, and does not count.
"""

import os
import subprocess
import sys
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

from bench.report import Table, median

ROOT = Path(__file__).parents[1]
COLUMNS = ["a process that", "ms", "of the processor, ms", "most memory, MB"]
TELLING = """
import atexit, sys, time
@atexit.register
def tell():
    held = open("/proc/self/status").read().split("VmHWM:")[1].split()[0]
    print("", time.process_time(), held, file=sys.stderr)
"""
THE_MODEL = """
from pathlib import Path
import numpy as np, onnxruntime, tokenizers
folder = Path(sys.argv[1])
ids = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json")).encode("tea").ids
session = onnxruntime.InferenceSession(folder / "model.onnx", providers=["CPUExecutionProvider"])
given = {"input_ids": np.array([ids]), "attention_mask": np.ones((1, len(ids)), np.int64)}
session.run(["pooled"], given)
"""
EMPTY = """
import asyncio
from memory_actors import MemorySystem
async def main():
    async with MemorySystem.open(sys.argv[1]) as memory:
        await memory.user("ada").add("She drinks green tea")
asyncio.run(main())
"""
COMMAND = "from memory_actors.cli import main\nmain()\n"


class _Took(NamedTuple):
    elapsed_ms: float
    processor_ms: float
    most_mb: float


def table(directory: Path, model: Path, runs: int) -> Table:
    """Run every process in turn; a row of medians for each. The directory is for their files."""
    store, compiled = directory / "store", directory / "compiled"
    search = ["--data", str(store), "--user", "ada", "search", "tea"]
    processes: dict[str, tuple[str, list[str]]] = {
        "does nothing": ("", []),
        "imports memory_actors": ("import memory_actors", []),
        "imports MemorySystem": ("from memory_actors import MemorySystem", []),
        "runs the model without us": (THE_MODEL, [str(model)]),
        "adds the first memory of a store, by the model": (EMPTY, []),
        "is the command line's `search`": (COMMAND, search),
    }
    took: dict[str, list[_Took]] = {name: [] for name in processes}
    for turn in range(runs + 1):
        for name, (code, arguments) in processes.items():
            given = [str(directory / f"empty {turn}")] if code == EMPTY else arguments
            if arguments is search and not store.exists():
                _run(EMPTY, [str(store)], compiled)
            took[name].append(_run(code, given, compiled))
    rows = [[name, *map(median, zip(*each[1:], strict=True))] for name, each in took.items()]
    return Table("Starting", COLUMNS, rows)


def _run(code: str, arguments: list[str], compiled: Path) -> _Took:
    kept = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    command = [sys.executable, "-c", TELLING + code, *arguments]
    started_s = perf_counter()
    done = subprocess.run(
        command, cwd=ROOT, env={**kept, "PYTHONPYCACHEPREFIX": str(compiled)}, text=True,
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=True,
    )  # fmt: skip
    elapsed_s = perf_counter() - started_s
    processor_s, held_kib = done.stderr.split()[-2:]
    return _Took(elapsed_s * 1e3, float(processor_s) * 1e3, int(held_kib) / 1024)
