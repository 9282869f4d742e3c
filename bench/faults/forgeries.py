"""A backup that was changed by who can write files, and is put in the place of a store.

Files of it are emptied, cut short, overwritten in places, removed, exchanged for those of a later
backup, or planted. A trial has survived when the copy was refused by a typed error and not a byte
of the store in question has changed; or when what came of it answers as one of the two backups,
and nothing that was planted is there. Each trial is a process, for a damaged file may end it.
"""

import asyncio
import random
import shutil
from functools import partial
from pathlib import Path
from typing import Any

from bench.faults import example
from bench.faults.row import Counts, Row
from bench.faults.trials import in_child
from eventlog import EventLogError
from memory_actors import MemoryActorsError, copy_store

TRIALS = {"quick": 10, "middle": 300, "full": 2_000}
PLANTED = ("api_keys.json", "evil.so", "archive/evil.so", "recall.key", "indexes/x.words")
PAGE_BYTES = 4096
OVERWRITTEN_BYTES = 1, 16, PAGE_BYTES


def run(counts: Counts, seed: int, scratch: Path) -> Row:
    """Change backups, and try to put them in the place of a store."""
    row = Row(fault="a backup that was changed")
    truths = asyncio.run(_made(scratch))
    rng = random.Random(seed)
    for n in range(TRIALS[counts]):
        for name, whole in (("backup", "first"), ("store", "mine")):
            shutil.rmtree(scratch / name, ignore_errors=True)
            shutil.copytree(scratch / whole, scratch / name)
        for aside in scratch.glob("store.before-*"):
            shutil.rmtree(aside)
        ending = in_child(partial(_copied, scratch, truths, rng.randrange(2**32)))
        if ending.kind in ("refused", "harmless"):
            row.survive(ending.kind)
        else:
            row.fail(ending.kind, f"trial {n}: {ending.detail}", lost=1)
    return row


async def _made(scratch: Path) -> list[dict[str, Any]]:
    """Make two backups of one store, and a store of somebody else; return what they answer."""
    async with example.opened(scratch / "log") as memory:
        await example.fill(memory)
        await memory.backup(scratch / "first", derived=True)
        await memory.user("ada").add("What came later.", idempotency_key="later")
        await memory.user("carl").add("Who came later.")
        await memory.erase("carl")
        await memory.backup(scratch / "second", derived=True)
    async with example.opened(scratch / "mine") as memory:
        await memory.user("mine").add("This is mine.")
    return [await _answered(scratch, name) for name in ("first", "second")]


async def _answered(scratch: Path, name: str) -> dict[str, Any]:
    shutil.rmtree(scratch / "opened", ignore_errors=True)
    shutil.copytree(scratch / name, scratch / "opened")
    async with example.opened(scratch / "opened", first_id=10_000) as memory:
        await example.at_rest(memory)
        return (await example.answers(memory))[0]


def _bytes_of(directory: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in sorted(directory.rglob("*"))
        if path.is_file() and not path.name.endswith("lock")  # which says who looked last
    }


def _copied(scratch: Path, truths: list[dict[str, Any]], seed: int) -> tuple[str, str]:
    rng, store = random.Random(seed), scratch / "store"
    changes = [_changed(scratch, rng) for _ in range(rng.randrange(1, 3))]
    before, there = _bytes_of(store), set(scratch.iterdir())
    try:
        copy_store(scratch / "backup", store)
    except (EventLogError, MemoryActorsError) as error:
        unchanged = _bytes_of(store) == before and set(scratch.iterdir()) == there
        return ("refused", str(error)) if unchanged else ("changed", f"{error}: {changes}")
    planted = [name for name in PLANTED if (store / name).exists()]
    if planted or asyncio.run(_answered(scratch, "store")) not in truths:
        return "accepted", f"{planted} {changes}"
    return "harmless", ""


def _changed(scratch: Path, rng: random.Random) -> str:
    """Change a file of the backup, or plant one; say what was done."""
    backup = scratch / "backup"
    there = sorted(_bytes_of(backup))
    name = rng.choice([*PLANTED, *there, *there])
    path, other = backup / name, scratch / "second" / name
    data = bytearray(path.read_bytes() if path.exists() else b"")
    way = rng.choice(("emptied", "cut", "overwritten", "overwritten", "removed", "exchanged"))
    if way == "cut":
        data = data[: rng.randrange(len(data) + 1)]
    elif way == "overwritten" and data:
        size = rng.choice(OVERWRITTEN_BYTES)
        at = rng.randrange(len(data)) // size * size
        data[at : at + size] = rng.choice((bytes(size), rng.randbytes(size)))
    elif way == "exchanged" and other.exists():
        data = bytearray(other.read_bytes())
    elif way == "emptied":
        data.clear()
    path.unlink(missing_ok=True)
    if way != "removed":
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(data)
    return f"{name} {way}"
