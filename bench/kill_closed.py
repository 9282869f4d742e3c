"""kill -9 while a closed store is repaired, or a backup is put in its place.

Each round copies what the work needs, starts a process that does it, and kills it at a random
moment. The store is checked then, and again after the work has been repeated:

- "repairing": the damaged store is as it was, and the new one is whole, with its totals and keys,
  or not there.
- "restoring": the previous store is in its place, or the backup is, with the API keys; never half
  of each, nor an empty store. The previous store is never lost.
"""

import asyncio
import hashlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Literal, NamedTuple

from bench.kill import ROOT, KillReport
from bench.kill_child import open_store
from memory_actors import Item, copy_store
from memory_actors.base.api_keys import KeyStore
from memory_actors.upkeep.offline.copying import repair_here

Closed = Literal["repairing", "restoring"]
"""The work on a closed store."""
MEMORIES = 240  # of a user: the limits of the child allow 300
DAMAGED = 70  # the note of a user from which on a log is damaged
STORE, OTHER = "store", "other"  # what the work changes, and what it reads


async def _fill(store: Path, user_id: str, first: int, count: int) -> None:
    async with open_store(store) as memory:
        texts = [
            f"note {n} of {user_id} " + "word " * (n % 50) for n in range(first, first + count)
        ]
        await memory.user(user_id).add_many([Item(content=text) for text in texts])


def _notes(contents: list[str]) -> int:
    return sum(content.startswith("note ") for content in contents)


async def _count(store: Path, user_id: str) -> int:
    async with open_store(store) as memory:
        found = await memory.user(user_id).list_memories(["long_term"], limit=10_000)
    return _notes(sorted({one.content for one in found}))


async def _verdict(store: Path) -> "Harm":
    """Verify a store and compare states and totals with replays."""
    async with open_store(store) as memory:
        damaged = int(not (await memory.verify()).ok)
        return Harm(0, damaged, len(await memory.check_replay()))


class Harm(NamedTuple):
    """Losses: they must be zero."""

    lost: int = 0
    damaged: int = 0
    diverged: int = 0

    def __add__(self, other: object) -> "Harm":
        """Return both together."""
        assert isinstance(other, Harm)
        return Harm(*(a + b for a, b in zip(self, other, strict=True)))


class Task(NamedTuple):
    """Some work on a closed store."""

    prepare: Callable[[Path], Awaitable[None]]
    """Makes what the work needs in an empty directory."""
    work: Callable[[Path], None]
    check: Callable[[Path, bool], Awaitable[Harm]]
    """Checks the store after a kill, or after the finished work."""


# --- repairing


async def _prepare_repair(scratch: Path) -> None:
    for user_id in ("ada", "ben"):
        await _fill(scratch / OTHER, user_id, 0, MEMORIES // 2)
    KeyStore(scratch / OTHER).create("ada")
    log = scratch / OTHER / "log.mdb"
    damaged = log.read_bytes().replace(b"note %d of ben" % DAMAGED, b"note %d of bem" % DAMAGED)
    log.write_bytes(damaged)
    (scratch / "digest").write_bytes(_digest(scratch / OTHER))


def _digest(store: Path) -> bytes:
    names = ("log.mdb", "log.anchor", "api_keys.json")
    return hashlib.sha256(b"".join((store / name).read_bytes() for name in names)).digest()


def _repair(scratch: Path) -> None:
    if not (scratch / STORE).exists():
        repair_here(scratch / OTHER, scratch / STORE)


async def _check_repair(scratch: Path, finished: bool) -> Harm:
    store = scratch / STORE
    changed = int(_digest(scratch / OTHER) != (scratch / "digest").read_bytes())
    if not store.exists():
        return Harm(int(finished), changed)
    lost = await _count(store, "ada") != MEMORIES // 2 or await _count(store, "ben") != DAMAGED
    lost = lost or not KeyStore(store).all()
    return Harm(int(lost), changed) + await _verdict(store)


# --- restoring


async def _prepare_restore(scratch: Path) -> None:
    store = scratch / STORE
    await _fill(store, "ada", 0, MEMORIES // 2)
    async with open_store(store) as memory:
        await memory.backup(scratch / OTHER, derived=True)
    await _fill(store, "ada", MEMORIES // 2, MEMORIES // 2)
    KeyStore(store).create("ada")


def _restore(scratch: Path) -> None:
    copy_store(scratch / OTHER, scratch / STORE)


async def _check_restore(scratch: Path, finished: bool) -> Harm:
    store = scratch / STORE
    harm = await _verdict(store)
    there = await _count(store, "ada")
    aside = [await _count(path, "ada") for path in scratch.glob(f"{STORE}.before-*")]
    is_whole = there == MEMORIES // 2 or (there == MEMORIES and not finished)
    lost = not is_whole or MEMORIES not in [there, *aside] or not KeyStore(store).all()
    return harm + Harm(int(lost))


TASKS: dict[str, Task] = {
    "repairing": Task(_prepare_repair, _repair, _check_repair),
    "restoring": Task(_prepare_restore, _restore, _check_restore),
}


# --- killing


def run(name: Closed, rounds: int, seed: int) -> KillReport:
    """Kill that many times and report."""
    started, rng, harm, task = time.monotonic(), random.Random(seed), Harm(), TASKS[name]
    with tempfile.TemporaryDirectory() as scratch:
        whole, round_ = Path(scratch) / "whole", Path(scratch) / "round"
        whole.mkdir()
        asyncio.run(task.prepare(whole))
        took_s = _life(name, shutil.copytree(whole, Path(scratch) / "timed"), None)
        for _ in range(rounds):
            shutil.rmtree(round_, ignore_errors=True)
            shutil.copytree(whole, round_)
            _life(name, round_, rng.uniform(0, took_s))
            harm += asyncio.run(task.check(round_, False))
            task.work(round_)
            harm += asyncio.run(task.check(round_, True))
    seconds = time.monotonic() - started
    return KillReport(rounds, 0, harm.lost, harm.damaged, harm.diverged, 0, seed, seconds)


def _life(name: Closed, scratch: Path, life_s: float | None) -> float:
    command = [sys.executable, "-m", "bench.kill_closed", name, str(scratch)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT) as child:
        assert child.stdout is not None
        child.stdout.readline()  # it begins
        begun = time.monotonic()
        try:
            child.wait(life_s)
        except subprocess.TimeoutExpired:
            child.send_signal(signal.SIGKILL)
    if child.returncode not in (0, -signal.SIGKILL):
        raise RuntimeError(f"the child ended by itself with {child.returncode}")
    return time.monotonic() - begun


if __name__ == "__main__":
    print("begun", flush=True)
    TASKS[sys.argv[1]].work(Path(sys.argv[2]))
