"""The cost of a call that another node carries out, and the wait of the users of a killed node.

- Calls: two nodes make the same call about a user of one of them in turn, so that a busy moment of
  the machine hits both alike. The difference is of the medians.
- Takeover: the node that has a user of many memories is killed, and one that has just opened, with
  an empty folder, is asked for them: at once, and when the lease has expired. Its embedder counts
  the texts that it is given.
"""

import asyncio
import os
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from bench.corpus import corpus, questions
from bench.opened import DEADLINE_S, UNLIMITED_BYTES, at_rest
from bench.postgres import served_by
from bench.report import Options, Report, Table, facts, median, percentile, scratch
from bench.takeover import Counting
from eventlog.postgres.leases import LEASE_S
from memory_actors import Item, MemorySystem, Settings

USER = "ada"
ITEMS = 500  # added at once
WARM_UP_CALLS = 20
MORE_MS_MAX = {"retrieve": 1.5, "working.get": None}
AT_ONCE_S_MAX = LEASE_S + 1.0
FREE_S_MAX = 1.0
COLUMNS = ("what", "local", "other node", "figure", "asked", "")
NOTES = (
    "calls: the figure is the difference of the medians, the user has 1,000 memories",
    "takeover: from the kill, or from the first call, to the answer to it; the longest of the runs",
)
_processes = get_context("forkserver")


class Node:
    """A process that has the store open, and does what it is told."""

    def __init__(self, url: str, directory: Path):
        self._said, theirs = _processes.Pipe()
        self.process = _processes.Process(target=work, args=(url, directory, theirs), daemon=True)
        self.process.start()
        theirs.close()

    def do(self, command: str, *arguments: Any) -> Any:
        """Have it do something, and return what came of it."""
        self._said.send((command, arguments))
        return self._said.recv()

    def kill(self) -> None:
        """Kill it."""
        self.process.kill()
        self.process.join()


def work(url: str, directory: Path, told: Connection) -> None:
    """Carry out commands until killed."""
    os.environ["XDG_CACHE_HOME"] = str(directory)
    asyncio.run(_work(url, told))


async def _work(url: str, told: Connection) -> None:
    embedder = Counting()
    settings = Settings(
        live_bytes_max=UNLIMITED_BYTES, deadline_s=DEADLINE_S, latency_targets_ms={}
    )
    async with MemorySystem.open(
        url, embedder=embedder, settings=settings, supersedes=False, alerts=[]
    ) as memory:
        desk = Desk(memory, embedder)
        while True:
            command, arguments = await asyncio.to_thread(told.recv)
            told.send(await getattr(desk, command)(*arguments))


class Desk:
    """The commands that a node can carry out."""

    def __init__(self, memory: Any, embedder: Counting):
        self._memory, self._embedder = memory, embedder
        self._user = memory.user(USER)

    async def begun(self) -> None:
        """Report that the store is open."""
        self._embedder.texts = 0

    async def fill(self, memories: int, seed: int) -> None:
        """Give the user memories, and wait until all that is derived of them is kept."""
        items = [
            Item(content=one.text, occurred_at=one.occurred_at) for one in corpus(memories, seed)
        ]
        for start in range(0, memories, ITEMS):
            await self._user.add_many(items[start : start + ITEMS])
        await self._user.retrieve("warm up")
        await at_rest(self._memory._caller.memory, USER)  # noqa: SLF001 - this process's own
        await asyncio.sleep(1)

    async def timed(self, name: str, query: str) -> float:
        """Return the milliseconds of a call."""
        if name == "working.get":
            await self._user.working.set("city", "Leeds")
        started_s = time.perf_counter()
        if name == "retrieve":
            await self._user.retrieve(query, top_k=10)
        else:
            await self._user.working.get("city")
        return (time.perf_counter() - started_s) * 1e3

    async def first(self, query: str) -> tuple[float, int, float]:
        """Search; return the moment of the answer, texts embedded, and seconds of the processor."""
        began_s = time.process_time()
        assert await self._user.retrieve(query)
        return time.monotonic(), self._embedder.texts, time.process_time() - began_s


def run(memories: int, calls: int, options: Options) -> Report:
    """Measure all of it."""
    _processes.set_forkserver_preload(["bench.cluster.figures"])
    with scratch(options) as directory, served_by(directory, {"fsync": "on"}) as server:
        url = f"{server.url}?schema=figures_{secrets.token_hex(4)}"
        rated = [
            *_calls(f"{url}_calls", directory, calls, options),
            *_takeovers(f"{url}_takeover", directory, memories, options),
        ]
        about = facts(
            directory, options, ("psycopg", "lmdb"), memories=memories, calls=calls, lease_s=LEASE_S
        )
    tables = [Table("Asked and measured", COLUMNS, [row for row, _ in rated])]
    return Report("Nodes", about, tables, NOTES, ok=all(ok for _, ok in rated))


@contextmanager
def _nodes(url: str, directory: Path, number: int) -> Iterator[list[Node]]:
    nodes: list[Node] = []
    try:
        for _ in range(number):
            nodes.append(Node(url, directory))
            nodes[-1].do("begun")
        yield nodes
    finally:
        for node in nodes:
            node.kill()


def _calls(
    url: str, directory: Path, calls: int, options: Options
) -> Iterator[tuple[list[Any], bool]]:
    query = questions(1_000, options.seed, 1)[0]
    with _nodes(url, directory, 2) as nodes:
        nodes[0].do("fill", 1_000, options.seed)
        for name, more_ms_max in MORE_MS_MAX.items():
            took_ms: list[list[float]] = [[], []]
            for _ in range(calls + WARM_UP_CALLS):
                for node, times_ms in zip(nodes, took_ms, strict=True):
                    times_ms.append(node.do("timed", name, query))
            for percent in (50, 95):
                own, theirs = (
                    percentile(times_ms[WARM_UP_CALLS:], percent) for times_ms in took_ms
                )
                ok = percent != 50 or more_ms_max is None or theirs - own <= more_ms_max
                asked = f"<= {more_ms_max} ms" if percent == 50 and more_ms_max else "-"
                row = [f"{name} p{percent}, ms", own, theirs, theirs - own, asked]
                yield [*row, "ok" if ok else "**missed**"], ok


def _takeovers(
    url: str, directory: Path, memories: int, options: Options
) -> Iterator[tuple[list[Any], bool]]:
    query = questions(memories, options.seed, 1)[0]
    found: dict[bool, list[tuple[float, int, float]]] = {False: [], True: []}
    with _nodes(url, directory, 1) as nodes:
        nodes[0].do("fill", memories, options.seed)
        for _ in range(options.runs):
            for is_free, taken in found.items():
                taken.append(_taken(nodes, url, directory, query, is_free=is_free))
    for is_free, most_s in ((False, AT_ONCE_S_MAX), (True, FREE_S_MAX)):
        took_s, texts, processor_s = zip(*found[is_free], strict=True)
        ok = max(took_s) <= most_s and max(texts) <= 1
        what = "lease expired" if is_free else "asked at once"
        row = [f"takeover, {what}, s", None, median(took_s), max(took_s), f"<= {most_s:g} s"]
        yield [*row, "ok" if ok else "**missed**"], ok
        yield [f"takeover, {what}, texts embedded", None, None, max(texts), "<= 1", ""], True
        row = [f"takeover, {what}, s of the processor", None, median(processor_s)]
        yield [*row, min(processor_s), "-", ""], True


def _taken(
    nodes: list[Node], url: str, directory: Path, query: str, *, is_free: bool
) -> tuple[float, int, float]:
    nodes.append(Node(url, directory))
    nodes[-1].do("begun")
    nodes[-2].kill()
    if is_free:
        time.sleep(LEASE_S * 1.25)
    asked_s = time.monotonic()
    answered_s, texts, processor_s = nodes[-1].do("first", query)
    return answered_s - asked_s, texts, processor_s
