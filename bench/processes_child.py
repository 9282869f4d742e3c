"""A process of `python -m bench processes`: it does what it is told by a line, and says what came.

Lines of JSON come on the standard input and leave on the standard output: a name of `COMMANDS`, and
its arguments.
"""

import asyncio
import json
import os
import random
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from time import perf_counter
from typing import Any

import structlog

from bench.hashed import HashedEmbedder
from bench.workload import unique_questions, unique_sentences
from memory_actors import Item, Limits, MemorySystem, Plan, Settings, Tier

FILL_ITEMS = 200
PROBE_EVERY_S = 0.005
TOP_K = 10
LIMITS = Limits(long_term_memories=1_000_000, long_term_bytes=1 << 40)
SETTINGS = Settings(tiers={Tier.LOCAL: Plan(limits=LIMITS)})


class Desk:
    """One process at work."""

    def __init__(self, store: Path, seed: int):
        self._store = store
        self._rng = random.Random(seed)
        self._texts = unique_sentences(self._rng)
        self._questions = unique_questions(self._rng)
        self._memory: Any = None
        self._work: asyncio.Task[list[tuple[float, float]]] | None = None
        self._stop = asyncio.Event()

    async def open(self) -> int:
        """Open the store; return the process."""
        self._memory = await MemorySystem.open(
            self._store, embedder=HashedEmbedder(), settings=SETTINGS, alerts=[]
        )
        await self._memory.users()
        return os.getpid()

    async def fill(self, users: int, memories: int) -> int:
        """Give each of some users so many memories."""
        for number in range(users):
            user = self._user(number)
            for _ in range(memories // FILL_ITEMS):
                await user.add_many([Item(content=next(self._texts)) for _ in range(FILL_ITEMS)])
            await user.working.set("city", "Leeds")
            await user.retrieve("warm up")
        return users * memories

    async def timed(self, name: str, calls: int) -> list[float]:
        """Return the milliseconds of calls one after another."""
        return [await self._timed_ms(name, 0) for _ in range(calls)]

    async def _timed_ms(self, name: str, number: int) -> float:
        call = self._calls(self._user(number))[name]
        started_s = perf_counter()
        await call()
        return (perf_counter() - started_s) * 1e3

    def _calls(self, user: Any) -> dict[str, Callable[[], Awaitable[Any]]]:
        question, text = next(self._questions), next(self._texts)
        return {
            "working.get": lambda: user.working.get("city"),
            "retrieve": lambda: user.retrieve(question, top_k=TOP_K),
            "add": lambda: user.add(text),
            "working.set": lambda: user.working.set("city", text),
        }

    def _user(self, number: int) -> Any:
        return self._memory.user(f"user {number}", session_id="session")

    async def work(self, seconds: float, first: int, tasks: int) -> int:
        """Write and search for a while, each task for a user of its own; return how many calls."""
        until_s = perf_counter() + seconds
        counts = [self._worked(number, until_s) for number in range(first, first + tasks)]
        return sum(await asyncio.gather(*counts))

    async def _worked(self, number: int, until_s: float) -> int:
        done = 0
        while perf_counter() < until_s:
            for name in ("add", "retrieve", "working.set", "working.get"):
                await self._timed_ms(name, number)
                done += 1
        return done

    async def probe(self, seconds: float, number: int) -> list[float]:
        """Make one call now and then for a while; return their milliseconds."""
        until_s, took_ms = perf_counter() + seconds, []
        while perf_counter() < until_s:
            took_ms.append(
                await self._timed_ms(self._rng.choice(["working.get", "retrieve"]), number)
            )
            await asyncio.sleep(PROBE_EVERY_S)
        return took_ms

    async def work_and_probe(self, seconds: float, tasks: int) -> list[Any]:
        """Do both at the same time."""
        return await asyncio.gather(self.work(seconds, 0, tasks), self.probe(seconds, tasks))

    async def begin(self, number: int) -> int:
        """Begin to write and search for a user, until `end`."""
        self._stop.clear()
        self._work = asyncio.create_task(self._until_end(number))
        return number

    async def _until_end(self, number: int) -> list[tuple[float, float]]:
        took = []
        while not self._stop.is_set():
            for name in ("add", "retrieve", "working.get"):
                began_s = time.time()
                took.append((began_s, await self._timed_ms(name, number) / 1e3))
            await asyncio.sleep(0.002)
        return took

    async def end(self) -> list[tuple[float, float]]:
        """Return when each call began since `begin`, and the seconds that it took."""
        assert self._work is not None
        self._stop.set()
        return await self._work

    async def close(self) -> int:
        """Close the store."""
        await self._memory.close()
        return 0


COMMANDS = frozenset(
    {"open", "fill", "timed", "work", "probe", "work_and_probe", "begin", "end", "close"}
)


async def _main(store: Path, seed: int) -> None:
    loop, desk = asyncio.get_running_loop(), Desk(store, seed)
    lines = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    while line := await lines.readline():
        name, arguments = json.loads(line)
        assert name in COMMANDS
        print(json.dumps(await getattr(desk, name)(**arguments)), flush=True)


if __name__ == "__main__":
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    asyncio.run(_main(Path(sys.argv[1]), int(sys.argv[2])))
