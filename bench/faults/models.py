"""An embedder or a summariser hangs, fails, or returns what it should not.

One user's texts make the embedder misbehave. Rounds in which they come alternate with rounds in
which they do not, in one run over one store, while other users go on writing. What must hold:

- each write of that user is kept and answered within the embedder's deadline, as not indexed;
- a search of theirs raises a typed error within it;
- the 99th percentile of the other users' writes is at most twice that of the healthy rounds (the
  median over the rounds; quick runs have too few writes to tell, and only show it);
- once the embedder works again, what was kept is found.

A summariser that misbehaves must leave the originals as they are and say so in the report, while
writes go on; once it works again, they are compressed.
"""

import asyncio
import threading
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np

from bench.faults.example import NOW_US, Clock
from bench.faults.row import Counts, Row
from bench.faults.trials import in_loop
from bench.hashed import HashedEmbedder
from bench.kill_child import Alike
from bench.opened import at_rest
from memory_actors import Cluster, EmbedderError, Item, MemorySystem, Settings
from memory_actors.search.indexes import pending

OTHERS = 4
ROUNDS = {"quick": 1, "middle": 5, "full": 9}
WRITES = {"quick": 10, "middle": 150, "full": 150}  # of each other user in a round: those that are
# in flight when a hang begins must be fewer than one in a hundred
POISONED = 6
DEADLINE_S = 0.25
SLACK_S = 1.0
RETRY_S = 0.3
REPAIRED_S_MAX = 15.0
P99_RATIO_MAX = 2.0
P99_S_LEAST = 0.010  # below that, what is compared is the machine
TRIAL_S_MAX = 180.0
POISON = "poison"


class Faulty(HashedEmbedder):
    """Misbehaves on texts with poison in them, while it is told to."""

    def __init__(self, misbehave: Callable[["Faulty", Sequence[str]], Any]):
        super().__init__(32)
        self.sick = False
        self.released = threading.Event()
        self._misbehave = misbehave

    def embed(self, texts: Sequence[str]) -> Any:
        """Return vectors, or misbehave."""
        if self.sick and any(POISON in text for text in texts):
            return self._misbehave(self, texts)
        return super().embed(texts)


def _hang(self: Faulty, texts: Sequence[str]) -> Any:
    self.released.wait(30.0)
    return HashedEmbedder.embed(self, texts)


def _fail(_self: Faulty, _texts: Sequence[str]) -> Any:
    raise RuntimeError("out of order")


def _panic(_self: Faulty, _texts: Sequence[str]) -> Any:
    raise SystemExit("a library that gives up")


EMBEDDERS: dict[str, Callable[[Faulty, Sequence[str]], Any]] = {
    "hangs": _hang,
    "fails": _fail,
    "panics": _panic,
    "returns NaN": lambda self, texts: np.full((len(texts), self.dimension), np.nan, np.float32),
    "returns zeros": lambda self, texts: np.zeros((len(texts), self.dimension), np.float32),
    "returns another shape": lambda _, texts: np.ones((len(texts), 7), np.float32),
    "returns too few": lambda self, texts: HashedEmbedder.embed(self, texts)[:-1],
    "returns texts": lambda self, texts: [["x"] * self.dimension] * len(texts),
    "returns nothing": lambda _self, _texts: None,
}  # fmt: skip


def run(counts: Counts, _seed: int, scratch: Path) -> Row:
    """Let models misbehave in each way."""
    row = Row(fault="embedder or summariser hangs, fails, returns NaN or the wrong shape")
    for name, misbehave in EMBEDDERS.items():
        store = scratch / f"embedder {name}"
        trial = partial(_embedder, store, misbehave, counts)
        _note(row, f"embedder {name}", in_loop(trial, TRIAL_S_MAX))
    for name, answer in SUMMARIZERS.items():
        trial = partial(_summarizer, scratch / f"summariser {name}", answer)
        _note(row, f"summariser {name}", in_loop(trial, TRIAL_S_MAX))
    return row


def _note(row: Row, name: str, ending: Any) -> None:
    if ending.kind == "survived":
        row.survive()
        if ending.detail:
            row.detail[f"p99 of others, {name}"] = ending.detail
    else:
        row.fail(ending.kind, f"{name}: {ending.detail}", lost=ending.kind == "lost")


# --- the embedder


async def _embedder(store: Path, misbehave: Any, counts: Counts) -> tuple[str, str]:
    pending.RETRY_S = RETRY_S  # type: ignore[misc] - what is kept is indexed sooner
    embedder = Faulty(misbehave)
    settings = Settings(embedder_deadline_s=DEADLINE_S)
    writes, p99s = WRITES[counts], list[tuple[float, float]]()
    kept: dict[str, str] = {}
    async with MemorySystem.open(store, embedder=embedder, settings=settings, alerts=[]) as memory:
        await _round(memory, writes, "warm")
        for n in range(ROUNDS[counts]):
            healthy = await _round(memory, writes, f"healthy {n}")
            embedder.sick = True
            embedder.released.clear()
            sick, _ = await asyncio.gather(
                _round(memory, writes, f"sick {n}"), _victim(memory, n, kept)
            )
            embedder.sick = False
            embedder.released.set()
            p99s.append((healthy, sick))
            if misbehave is _hang:
                await asyncio.sleep(2 * DEADLINE_S)  # until the thread is free again
        missing = await _found_later(memory, kept)
    if missing:
        return "lost", f"kept and never found: {missing}"
    return _compared(p99s, judged=counts != "quick")


async def _round(memory: MemorySystem, writes: int, name: str) -> float:
    seconds: list[float] = []

    async def one(number: int) -> None:
        user = memory.user(f"other {number}")
        for n in range(writes):
            started = perf_counter()
            await user.add(f"{name} {number} {n}")
            seconds.append(perf_counter() - started)

    await asyncio.gather(*(one(number) for number in range(OTHERS)))
    return float(np.percentile(seconds, 99))


async def _victim(memory: MemorySystem, n: int, kept: dict[str, str]) -> None:
    user = memory.user("victim")
    for each in range(POISONED):
        text, started = f"{POISON} {n} {each}", perf_counter()
        receipt = await user.add(text)
        kept[receipt.memory_id] = text
        assert not receipt.indexed, "it says that it is indexed"
        assert perf_counter() - started < DEADLINE_S + SLACK_S, "the write took too long"
        await asyncio.sleep(0.02)
    started = perf_counter()
    try:
        await user.retrieve(f"{POISON} question {n}")
        raise AssertionError("a search was answered without a vector")
    except EmbedderError:
        assert perf_counter() - started < DEADLINE_S + SLACK_S, "the search took too long"


async def _found_later(memory: MemorySystem, kept: dict[str, str]) -> list[str]:
    user = memory.user("victim")
    missing = list(kept)
    until = perf_counter() + REPAIRED_S_MAX
    while missing and perf_counter() < until:
        await asyncio.sleep(RETRY_S)
        missing = [each for each in missing if not await _finds(user, each, kept[each])]
    return missing


async def _finds(user: Any, memory_id: str, text: str) -> bool:
    return any(hit.memory_id == memory_id for hit in await user.retrieve(text, top_k=3))


def _compared(p99s: list[tuple[float, float]], *, judged: bool) -> tuple[str, str]:
    ratio = median(sick / max(healthy, P99_S_LEAST) for healthy, sick in p99s)
    before, during = (median(each) * 1e3 for each in zip(*p99s, strict=True))
    said = f"{before:.1f} ms healthy, {during:.1f} ms beside it"
    return ("others slow", said) if judged and ratio > P99_RATIO_MAX else ("survived", said)


# --- the summariser


class Summarizer:
    """Gives the answer it is told to give, while it is sick."""

    name = "faulty/1"

    def __init__(self, answer: Callable[[], Any]):
        self.sick = True
        self._answer = answer

    async def summarize(self, cluster: Cluster) -> Any:
        """Return a summary, or misbehave."""
        if not self.sick:
            return f"Notes of {len(cluster.texts)} days."
        answer = self._answer()
        return await answer if asyncio.iscoroutine(answer) else answer


def _raise() -> Any:
    raise RuntimeError("out of order")


SUMMARIZERS: dict[str, Callable[[], Any]] = {
    "hangs": lambda: asyncio.sleep(60),
    "fails": _raise,
    "returns nothing": lambda: None,
    "returns no text": lambda: "  ",
    "returns a number": lambda: 7,
    "returns too much": lambda: "word " * 100_000,
    "returns a lone surrogate": lambda: "\ud800",
}


async def _summarizer(store: Path, answer: Callable[[], Any]) -> tuple[str, str]:
    summarizer = Summarizer(answer)
    settings = Settings(summarizer_deadline_s=DEADLINE_S)
    async with MemorySystem.open(
        store, embedder=Alike(), summarizer=summarizer, settings=settings, clock=Clock(), alerts=[]
    ) as memory:
        user = memory.user("victim")
        await user.add_many(_old())
        before = await _contents(user)
        started = perf_counter()
        report, _ = await asyncio.gather(
            memory.compact(), _round(memory, WRITES["quick"], "beside it")
        )
        took = perf_counter() - started
        if await _contents(user) != before:
            return "lost", "originals have changed"
        failed = [cluster.outcome for cluster in report.clusters]
        if not failed or (answer is SUMMARIZERS["hangs"] and took > 60):
            return "unnoticed", f"{report}"
        summarizer.sick = False
        await at_rest(memory, "victim")
        again = await memory.compact()
        if not again.clusters or (await memory.compaction_stats()).originals != len(before):
            return "never compressed", f"{again}"
        if not (await memory.verify()).ok or await memory.check_replay():
            return "damaged", ""
    return "survived", ""


def _old() -> list[Item]:
    today = datetime.fromtimestamp(NOW_US / 1e6, UTC)
    return [
        Item(content=f"diary {n} " + "of a year " * 30, occurred_at=today - timedelta(days=200 + n))
        for n in range(8)
    ]


async def _contents(user: Any) -> dict[str, str]:
    return {memory.memory_id: memory.content for memory in await user.list_memories()}
