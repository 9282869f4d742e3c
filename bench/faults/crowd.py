"""Many users who come and go: memory, readers and files stay bounded.

Workers pick users at random, a few of them most of the time, and add, change, delete and search.
Far more users exist than the budget of live ones allows, so they are put away and come back all the
time. Watched are

- the memory of the process. A memory-mapped file counts as resident, and the system takes it back
  when it wants, so what is compared with the limit is the rest (RssAnon): what it was before the
  store was opened, and what the settings allow beyond that;
- LMDB's readers: none may be left when nobody reads, or no page could be used again;
- the files: at most a few times what is in them.
"""

import asyncio
import random
from functools import partial
from pathlib import Path
from typing import Any

from bench.faults.row import Counts, Row
from bench.faults.trials import entering, in_loop
from bench.hashed import HashedEmbedder
from bench.opened import services_of
from memory_actors import MemorySystem, NotFoundError, Settings

USERS = {"quick": 200, "middle": 2_000, "full": 10_000}
OPERATIONS = {"quick": 800, "middle": 50_000, "full": 1_000_000}
WORKERS = 32
LIVE_BYTES_MAX = {"quick": 1 << 20, "middle": 8 << 20, "full": 64 << 20}
BESIDE_BYTES = 96 << 20  # caches of vectors, queues, threads' arenas: none grows with the users
OVER = 1.1
FILE_RATIO_MAX = 3.0
SAMPLE_EVERY = 500
RUN_S_MAX = 7_200.0


def run(counts: Counts, seed: int, scratch: Path) -> Row:
    """Let many users come and go."""
    row = Row(fault=f"{USERS[counts]:,} users, {OPERATIONS[counts]:,} operations, churn")
    ending = in_loop(partial(_crowd, scratch / "store", counts, seed), RUN_S_MAX)
    row.detail = dict(each.split("=") for each in ending.detail.split("; ") if "=" in each)
    if ending.kind == "survived":
        row.survive()
    else:
        row.fail(ending.kind, ending.detail)
    return row


def _own_bytes() -> int:
    """Return resident memory that is not a file's."""
    status = Path("/proc/self/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("RssAnon"))
    return int(line.split()[1]) * 1024


async def _crowd(store: Path, counts: Counts, seed: int) -> tuple[str, str]:
    budget = LIVE_BYTES_MAX[counts]
    settings = Settings(live_bytes_max=budget, idle_s=5.0)
    limit, peaks = _own_bytes() + budget + BESIDE_BYTES, [0]
    async with MemorySystem.open(
        store, embedder=HashedEmbedder(32), settings=settings, alerts=[]
    ) as memory:
        left = iter(range(OPERATIONS[counts]))
        workers = [
            _work(memory, random.Random(seed * 1000 + n), USERS[counts], left, peaks)
            for n in range(WORKERS)
        ]
        await asyncio.gather(*workers)
        entering("looking at it")
        runtime = memory.statistics().runtime
        readers = await _readers(memory)
        files = _ratio(memory)
        report, diverged = await memory.verify(), await memory.check_replay()
    damaged = not report.ok or bool(diverged)
    facts = {
        "most memory": f"{peaks[0] >> 20} MiB of {limit >> 20}",
        "activations": runtime.activations,
        "readers left": readers,
        "file to what is in it": f"{files:.2f}",
    }
    kind = _verdict(peaks[0] / limit, readers, files, damaged=damaged)
    return kind, "; ".join(f"{name}={value}" for name, value in facts.items())


def _verdict(memory: float, readers: int, files: float, *, damaged: bool) -> str:
    if damaged:
        return "damaged"
    if memory > OVER:
        return "too much memory"
    if readers:
        return "stale readers"
    return "file too large" if files > FILE_RATIO_MAX else "survived"


async def _work(
    memory: MemorySystem, rng: random.Random, users: int, left: Any, peaks: list[int]
) -> None:
    for n in left:
        number = int(users * rng.random() ** 3)  # an eighth of the users has half of the work
        await _operation(memory.user(f"user {number}", session_id="s"), rng, n)
        if n % SAMPLE_EVERY == 0:
            peaks[0] = max(peaks[0], _own_bytes())


async def _operation(user: Any, rng: random.Random, n: int) -> None:
    choice = rng.random()
    if choice < 0.35:
        content = f"fact {n} " + "word " * rng.choice([1, 10, 100])
        await user.add_with_auto_prune(content, memory_id=f"fact {n}")  # the busiest come to 10,000
    elif choice < 0.5:
        await user.short_term.add_message(f"message {n}")
    elif choice < 0.7:
        await user.working.set(f"key {rng.randrange(20)}", n, auto_prune=True)
    elif choice < 0.8:
        await user.list_memories(limit=5)
    elif choice < 0.9:
        await user.retrieve(f"fact {n}", top_k=3)
    else:
        await _delete_one(user)


async def _delete_one(user: Any) -> None:
    held = await user.list_memories(["long_term"], limit=1)
    if held:
        try:
            await user.delete(held[0].memory_id)
        except NotFoundError:  # another worker was quicker
            return


async def _readers(memory: MemorySystem) -> int:
    """Return how many read transactions are open when nobody reads."""
    log: Any = services_of(memory).log
    await log.flush()
    held: int = log._env._files._users  # noqa: SLF001 - readers have no public face
    table = log._env._files.file.env.readers().splitlines()  # noqa: SLF001
    return held + sum(line.split()[-1].isdigit() for line in table[1:])


def _ratio(memory: MemorySystem) -> float:
    log: Any = services_of(memory).log
    used: int = memory.statistics().log.used_bytes
    return float(log._env.file_bytes() / used)  # noqa: SLF001
