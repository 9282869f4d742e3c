"""Damage to a file: one bit flipped, one sector zeroed, one page of noise, the end cut off.

Each kind of damage is done to each file (the log, its anchor, a segment of the archive, the
vectors, an index's words), each time to a fresh copy of a whole store, and looked at
by a process of its own. It opens the store, asks everything (example.py), verifies, adds a memory
and reads it. A trial has survived when every answer is either right or refused by a typed error,
and the process lives. Every
eighth time the log is a large one, of some thousand pages.

Only LMDB can end a process, since it trusts the pages of its tree: one that is damaged may lead it
beyond the end of the file (SIGBUS), out of the map (SIGSEGV) or into an assertion (SIGABRT). Files
are checked for that when they are opened (eventlog/files/pages.py), up to
`Settings.checked_bytes_max`. A larger one may end the process that reads it; `verify_store` reads
in a child for that reason.
"""

import asyncio
import random
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from bench.faults import example
from bench.faults.row import Counts, Row
from bench.faults.trials import entering, in_loop
from eventlog import EventLog
from memory_actors.search.indexes.files import INDEXES
from memory_actors.upkeep.store import event_registry
from memory_actors.users.recalls import RecallMade

TRIALS = {"quick": 10, "middle": 120, "full": 2000}  # of each kind of damage
SECTOR_BYTES = 512
PAGE_BYTES = 4096
LARGE_EVERY = 8
LARGE_EVENTS, LARGE_STREAM = 16 * 1_024, "audit"  # 20 MiB: it belongs to no user
LEFT_OUT = ("lock",)  # what is in them means nothing at the next opening

Damage = Callable[[bytearray, random.Random], None]


def flip(data: bytearray, rng: random.Random) -> None:
    """Flip one bit."""
    bit = rng.randrange(8 * len(data))
    data[bit // 8] ^= 1 << bit % 8


def zero(data: bytearray, rng: random.Random) -> None:
    """Zero one sector."""
    _put(data, rng, bytes(SECTOR_BYTES))


def noise(data: bytearray, rng: random.Random) -> None:
    """Put noise in the place of one page."""
    _put(data, rng, rng.randbytes(PAGE_BYTES))


def _put(data: bytearray, rng: random.Random, content: bytes) -> None:
    at = rng.randrange((len(data) - 1) // len(content) + 1) * len(content)
    data[at : at + len(content)] = content[: len(data) - at]


def cut(data: bytearray, rng: random.Random) -> None:
    """Cut the end off."""
    del data[rng.randrange(len(data)) :]


KINDS: dict[str, Damage] = {"bit": flip, "sector": zero, "page": noise, "cut": cut}


def run(counts: Counts, seed: int, scratch: Path) -> Row:
    """Damage copies of a store and look at them."""
    row = Row(fault="a bit, a sector, a page, the end: of any file")
    whole, large, damaged = (scratch / name for name in ("whole", "large", "damaged"))
    asyncio.run(_made(whole))
    truth = asyncio.run(_answered(whole))
    shutil.copytree(whole, large)
    asyncio.run(_grown(large))
    rng = random.Random(seed)
    files = [path.relative_to(whole) for path in sorted(whole.rglob("*")) if _counts(path)]
    for kind, damage in KINDS.items():
        for n in range(TRIALS[counts]):
            is_large = n % LARGE_EVERY == 0
            shutil.rmtree(damaged, ignore_errors=True)
            shutil.copytree(large if is_large else whole, damaged)
            name = _chosen(files, n, rng)
            data = bytearray((damaged / name).read_bytes())
            damage(data, rng)
            (damaged / name).write_bytes(data)
            group = f"large {_group(name)}" if is_large else _group(name)
            _try(row, damaged, truth, f"{kind} in {group}, trial {n}", f"{kind} {group}")
            row.count(f"in {group}")
    return row


def _counts(path: Path) -> bool:
    return path.is_file() and not path.name.endswith(LEFT_OUT)


def _group(name: Path) -> str:
    if name.parent.name == INDEXES:
        return f"{name.suffix[1:]} of an index"
    return name.parent.name or name.name


def _chosen(files: list[Path], n: int, rng: random.Random) -> Path:
    """Return a file: every other time the log, for it has most to lose."""
    if n % 2 == 0:
        return Path("log.mdb")
    groups = sorted({_group(name) for name in files} - {"log.mdb"})
    group = groups[n // 2 % len(groups)]
    return rng.choice([name for name in files if _group(name) == group])


async def _made(path: Path) -> None:
    async with example.opened(path) as memory:
        await example.fill(memory)


async def _grown(path: Path) -> None:
    """Let another stream take so much room that the log is large."""
    rng = random.Random(path.name)
    async with EventLog.open(path, event_registry(), clock=example.Clock()) as log:
        for version in range(0, LARGE_EVENTS, 512):
            queries = [rng.randbytes(900).hex() for _ in range(512)]
            events = [RecallMade(query=each, memory_ids=(), hashed=True) for each in queries]
            await log.append(LARGE_STREAM, events, version)


async def _answered(path: Path) -> dict[str, Any]:
    async with example.opened(path) as memory:
        await example.at_rest(memory)
        answered, refused = await example.answers(memory)
    assert not refused, refused
    return answered


def _try(row: Row, path: Path, truth: dict[str, Any], what: str, group: str) -> None:
    ending = in_loop(partial(_examine, path, truth))
    if ending.kind in ("harmless", "found", "refused"):
        row.survive(ending.kind)
        return
    row.fail(ending.kind, f"{what}: {ending.detail}", lost=ending.kind == "wrong")
    row.count(f"{ending.kind}: {group}")


async def _examine(path: Path, truth: dict[str, Any]) -> tuple[str, str]:
    try:
        async with example.opened(path, first_id=10_000) as memory:
            entering("reading")
            refused = await example.at_rest(memory)
            answered, refused_now = await example.answers(memory)
            entering("verifying")
            report = await memory.verify()
            entering("writing")
            refused |= refused_now | await _write(memory)
            entering("closing")
    except example.TYPED as error:
        return "refused", str(error)
    wrong = [name for name, answer in answered.items() if answer != truth[name]]
    if wrong:
        name = wrong[0]
        return "wrong", f"{wrong}: {answered[name]!s:.200} and not {truth[name]!s:.200}"
    if refused:
        return "refused", str(refused)
    return ("harmless", "") if report.ok else ("found", str(report.findings[0]))


async def _write(memory: Any) -> dict[str, str]:
    user = memory.user("carl")
    try:
        receipt = await user.add("It goes on.")
        if (await user.get(receipt.memory_id)).content != "It goes on.":
            raise AssertionError("what was written after the damage is something else")
    except example.TYPED as error:
        return {"write": str(error)}
    return {}
