"""One process of `bench peers`: does one thing with one peer and prints what it found as JSON.

`python -m bench.peers_child ACTION PEER PLAN STORE`. Standard output belongs to the result; what
the peer prints goes to standard error. The network is shut, so nothing is fetched or called.
"""

import asyncio
import gc
import os
import sys
from collections.abc import Awaitable, Iterable, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

import msgspec
import psutil

from bench.locomo import score
from bench.measures import Scores
from bench.peer_stores import Memory, Peer, load
from bench.peers_plan import KnownTexts, Plan, Talk, known_texts, read_plan
from bench.recall_sets import Question
from bench.report import disk_bytes

K = 10
WARM_UP_MEMORIES = 64  # added before memory is weighed, so that all that loads is loaded
BATCH_MEMORIES = 500
REST_S = 2.0  # before memory is weighed: some give back what they do not need once all is quiet
LOCAL = ("127.", "::1", "localhost")


class Filled(msgspec.Struct, frozen=True):
    """A large store was filled."""

    resident_bytes: int
    """Growth of the process by these memories."""
    anonymous_bytes: int
    """Resident memory without the pages of files, which the system can take back."""
    disk_bytes: int | None
    """It is None if the peer has no files."""
    grown_by: int
    """Memories that the growth is of."""
    stored: int
    """Memories that are on the disk."""
    note: str


class Answered(msgspec.Struct, frozen=True):
    """The findings of one question."""

    category: str
    turns: float
    """Fraction of the evidence among the first 10, of a search for 10."""
    turns_of_all: float
    """Findings of a search for everything: some rank a pool that grows with that number."""
    sessions_5: float
    sessions_10: float


class Measured(msgspec.Struct, frozen=True):
    """Everything that was measured with a filled store, and the answers before."""

    answered: list[Answered]
    small_search_ms: list[float]
    """In one conversation."""
    reopen_ms: float | None
    search_ms: list[float]
    filtered_ms: list[float]
    filtered_share: float
    """The share of the expected results of a filtered search."""
    add_ms: list[float]
    persist_ms: float | None
    computed: int
    """Texts that the model was asked for during the timed calls; it should be none."""
    unplanned: int
    """The count of such texts in the whole process: above zero, a peer embeds something else than
    the texts."""


class Checked(msgspec.Struct, frozen=True):
    """The memories that a store still has after a kill."""

    missing: int


def main() -> None:
    """Run the action that the arguments name."""
    action, name, folder, store = sys.argv[1:5]
    out = _silence()
    sys.addaudithook(_no_network)
    plan = read_plan(Path(folder))
    embed = known_texts(plan, Path(folder), remember=action != "fill")
    run = Run(plan, name, embed, Path(store), out)
    result = asyncio.run(getattr(run, action)())
    os.write(out, msgspec.json.encode(result))


class Run:
    """One peer and the plan for it; each action is a method."""

    def __init__(self, plan: Plan, name: str, embed: KnownTexts, store: Path, out: int):
        self._plan = plan
        self._name = name
        self._embed = embed
        self._store = store
        self._out = out

    async def fill(self) -> Filled:
        """Fill a store, weigh it and leave it there."""
        memories, peer = self._plan.fill, await self._opened(self._store / "large")
        await peer.add_many(memories[:WARM_UP_MEMORIES])
        await peer.search(self._plan.asked[0], K)
        before = _weights()
        await _add_all(peer, memories[WARM_UP_MEMORIES:])
        await asyncio.sleep(REST_S)
        resident, anonymous = (
            after - weight for after, weight in zip(_weights(), before, strict=True)
        )
        await peer.persist()
        await peer.close()
        size = disk_bytes(self._store / "large") if peer.keeps else None
        grown_by = max(1, len(memories) - WARM_UP_MEMORIES)
        return Filled(resident, anonymous, size, grown_by, len(memories), peer.note)

    async def measure(self) -> Measured:
        """Ask every question of every conversation, then time the store that `fill` left."""
        answered: list[Answered] = []
        small_ms: list[float] = []
        for talk in self._plan.talks:
            found, times_ms = await self._asked(talk)
            answered, small_ms = answered + found, small_ms + times_ms
        peer, reopen_ms = await self._reopened()
        known = self._embed.computed
        search_ms = await _times_ms(peer.search(text, K) for text in self._plan.asked)
        filtered_ms, share = await self._filtered(peer)
        add_ms = await _times_ms(peer.add(*memory) for memory in _renamed(self._plan.late))
        started_s = perf_counter()
        persist_ms = (perf_counter() - started_s) * 1e3 if await peer.persist() else None
        computed = self._embed.computed - known
        await peer.close()
        return Measured(
            answered, small_ms, reopen_ms, search_ms, filtered_ms, share, add_ms, persist_ms,
            computed, self._embed.computed,
        )  # fmt: skip

    async def write(self) -> None:
        """Add and report each acknowledged id, until killed."""
        peer = await self._opened(self._store)
        for number in range(1_000_000):
            memory = self._plan.fill[number % len(self._plan.fill)]
            await peer.add(f"k{number}", memory.text, memory.metadata)
            os.write(self._out, f"k{number}\n".encode())

    async def check(self) -> Checked:
        """Count which of the acknowledged ids, one a line of standard input, are not stored."""
        ids = sys.stdin.read().split()
        peer = await self._opened(self._store)
        missing = set(ids) - await peer.holds(ids)
        await peer.search(self._plan.asked[0], K)  # it must still answer
        await peer.close()
        return Checked(len(missing))

    async def _opened(self, path: Path) -> Peer:
        path.mkdir(parents=True, exist_ok=True)
        peer = load(self._name)
        await peer.open(path, self._embed)
        return peer

    async def _reopened(self) -> tuple[Peer, float | None]:
        """Return the large store, ready, and how long it took to open and to answer once."""
        started_s = perf_counter()
        peer = await self._opened(self._store / "large")
        if not peer.keeps:
            await _add_all(peer, self._plan.fill)
            return peer, None
        await peer.search(self._plan.asked[0], K)
        reopen_ms = (perf_counter() - started_s) * 1e3
        await peer.settle()
        return peer, reopen_ms

    async def _asked(self, talk: Talk) -> tuple[list[Answered], list[float]]:
        peer = await self._opened(self._store / "talks" / talk.id)
        await _add_all(peer, talk.memories)
        answered, times_ms = [], []
        for question in talk.questions:
            started_s = perf_counter()
            first = await peer.search(question.text, K)
            times_ms.append((perf_counter() - started_s) * 1e3)
            ranking = await peer.search(question.text, len(talk.memories))
            answered.append(_answered(question, first, ranking))
        await peer.close()
        return answered, times_ms

    async def _filtered(self, peer: Peer) -> tuple[list[float], float]:
        by_topic = _by_topic(self._plan.fill)
        topics = list(by_topic)
        times_ms, found, wanted = [], 0, 0
        for number, text in enumerate(self._plan.asked):
            topic = topics[number % len(topics)]
            started_s = perf_counter()
            ids = await peer.search(text, K, {"topic": topic})
            times_ms.append((perf_counter() - started_s) * 1e3)
            found += len(by_topic[topic].intersection(ids))
            wanted += min(K, len(by_topic[topic]))
        return times_ms, found / wanted


async def _add_all(peer: Peer, memories: Sequence[Memory]) -> None:
    for start in range(0, len(memories), BATCH_MEMORIES):
        await peer.add_many(memories[start : start + BATCH_MEMORIES])
    await peer.settle()


async def _times_ms(calls: Iterable[Awaitable[Any]]) -> list[float]:
    times_ms = []
    for call in calls:
        started_s = perf_counter()
        await call
        times_ms.append((perf_counter() - started_s) * 1e3)
    return times_ms


def _renamed(memories: Sequence[Memory]) -> list[Memory]:
    return [memory._replace(id=f"late {memory.id}") for memory in memories]


def _by_topic(memories: Sequence[Memory]) -> dict[str, set[str]]:
    by_topic: dict[str, set[str]] = {}
    for memory in memories:
        by_topic.setdefault(memory.metadata["topic"], set()).add(memory.id)
    return by_topic


def _answered(question: Question, first: Sequence[str], ranking: Sequence[str]) -> Answered:
    few, everything = _scores(question, first), _scores(question, ranking)
    return Answered(
        category=question.category,
        turns=few["turn R@10"],
        turns_of_all=everything["turn R@10"],
        sessions_5=everything["session R@5"],
        sessions_10=everything["session R@10"],
    )


def _scores(question: Question, ids: Sequence[str]) -> Scores:
    turns = [one.partition("#")[0] for one in ids]  # a turn that came twice has a number behind it
    return score(question, turns)


def _weights() -> tuple[int, int]:
    gc.collect()
    memory = psutil.Process().memory_info()
    return memory.rss, memory.rss - getattr(memory, "shared", 0)


def _silence() -> int:
    """Send what anybody prints to standard error; return the real standard output."""
    out = os.dup(1)
    os.dup2(2, 1)
    return out


def _no_network(event: str, args: tuple[Any, ...]) -> None:
    if event == "socket.getaddrinfo":
        host = args[0]
    elif event == "socket.connect" and isinstance(args[1], tuple):
        host = args[1][0]
    else:
        return
    if host and not str(host).startswith(LOCAL):
        raise ConnectionRefusedError(f"bench peers allows no network, and {host} was asked for")


if __name__ == "__main__":
    main()
