"""Calls of the embedder when the process ends, in processes of their own."""

import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from memory_actors.search.embedding.embedder_thread import LEAVE_S_MAX

STARTED_S_MAX = 20.0  # Python, numpy and what else is imported, on a busy machine

PROGRAM = """
import asyncio, shutil, sys, threading, time
from pathlib import Path
import numpy as np
from memory_actors import Item, MemorySystem
from memory_actors.search.embedding.batcher import PROBE, Batcher

class Embedder:
    fingerprint, dimension = "slow/1", 4

    def __init__(self, seconds):
        self.seconds, self.begun, self.called = seconds, 0, threading.Event()

    def embed(self, texts):
        if PROBE not in texts:
            self.begun += 1
            self.called.set()
            time.sleep(self.seconds)
            if self.seconds:
                print("ended", flush=True)
        return np.tile(np.float32([1, 0, 0, 0]), (len(texts), 1))

    def background_mean(self):
        return np.zeros(4, np.float32)

directory, embedder = Path(sys.argv[1]), Embedder({seconds})

async def main():
{main}

asyncio.run(main())
print("begun", embedder.begun)
"""

IN_THE_BACKGROUND = """
async with MemorySystem.open(directory, embedder=Embedder(0)) as memory:
    await memory.user("ada").add_many([Item(content=f"memory {n} " * 100) for n in range(9)])
for file in directory.glob("derived.mdb*"):
    file.unlink()
shutil.rmtree(directory / "indexes")
async with MemorySystem.open(directory, embedder=embedder) as memory:
    await memory.user("ada").list_memories()
    await asyncio.to_thread(embedder.called.wait)
"""
NEVER_CLOSED = """
asyncio.create_task(Batcher(embedder, deadline_s=30).embed(["a"]))
await asyncio.to_thread(embedder.called.wait)
"""


def run(directory: Path, main: str, seconds: float) -> tuple[int, list[str], float]:
    """Run a program; return its exit code, what it printed and how long it took."""
    program = PROGRAM.format(main=textwrap.indent(main, "    "), seconds=seconds)
    begun_s = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", program, str(directory / "memory")],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    took_s = time.monotonic() - begun_s
    assert not done.stderr, done.stderr
    printed = [line for line in done.stdout.splitlines() if line.startswith(("begun", "ended"))]
    return done.returncode, printed, took_s


@pytest.mark.parametrize("main", [IN_THE_BACKGROUND, NEVER_CLOSED])
def test_a_process_ends_when_its_embedder_has_come_back(tmp_path: Path, main: str) -> None:
    code, printed, _ = run(tmp_path, main, 0.7)
    assert (code, sorted(printed)) == (0, ["begun 1", "ended"])


@pytest.mark.parametrize("main", [IN_THE_BACKGROUND, NEVER_CLOSED])
def test_a_process_ends_although_its_embedder_hangs(tmp_path: Path, main: str) -> None:
    code, printed, took_s = run(tmp_path, main, 3600)
    assert (code, printed) == (0, ["begun 1"])
    assert LEAVE_S_MAX <= took_s < LEAVE_S_MAX + STARTED_S_MAX
