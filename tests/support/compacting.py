"""A user with a past of two topics, agents with a past, and what compaction has made of them."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

from memory_actors import (
    CallableSummarizer,
    Cluster,
    CompactionReport,
    Item,
    Memory,
    MemorySystem,
    UserMemory,
)

LOGIN = "fixed the login bug of the web page"
LUNCH = "lunch with Bob at the usual Italian place"
DEPLOY = "deploy the shop to the cloud"
FLIGHT = "book a cheap flight for Ada to Porto"
LONG_AGO = datetime.fromtimestamp(1_700_000_000, UTC) - timedelta(days=150)
DAY_S = 86_400


def short(cluster: Cluster) -> str:
    """Return a summary that says which cluster it is of."""
    return cluster.texts[0].split(" #")[0]


SHORT = CallableSummarizer(short)


def gated(asked: asyncio.Event, go: asyncio.Event) -> CallableSummarizer:
    """Return a summariser that says when it is asked, and answers once it may: maybe never."""

    async def summarize(cluster: Cluster) -> str:
        asked.set()
        await go.wait()
        return short(cluster)

    return CallableSummarizer(summarize)


def some(text: str, count: int, **fields: Any) -> list[Item]:
    """Return memories that are near each other, a day apart, the newest a hundred days old."""
    newest = datetime.fromtimestamp(1_700_000_000, UTC) - timedelta(days=100)
    return [
        Item(
            content=f"{text} #{n}", memory_id=f"{text.split()[0]}{n}", session_id=f"s{n % 3}",
            occurred_at=newest - timedelta(days=count - n), **fields,
        )
        for n in range(count)
    ]  # fmt: skip


async def with_a_past(memory: MemorySystem, user_id: str = "ada") -> UserMemory:
    user = memory.user(user_id)
    await user.add_many([*some(LOGIN, 12), *some(LUNCH, 7)])
    await user.add("sailing on a lake", occurred_at="2020-01-01")
    await user.add("fixed the login bug of the web page today")
    return user


async def lived(
    user: UserMemory, goal: str, count: int, *, agent: str = "bot", failed: bool = False,
    pinned: bool = False, since: datetime = LONG_AGO,
) -> list[str]:  # fmt: skip
    """Let an agent live episodes of much the same goal, a day apart; return their ids."""
    ids = []
    for n in range(count):
        started = await user.episodes.start(
            f"{goal} #{n}", agent_id=agent, memory_id=f"{agent}-{goal.split()[0]}{n}",
            session_id=f"s{n % 2}", occurred_at=since + timedelta(days=n), pinned=pinned,
        )  # fmt: skip
        ids.append(started.memory_id)
        await user.episodes.step(ids[-1], "look around", observation="nothing new here")
        await user.episodes.step(ids[-1], "go on", error="timeout" if failed else None)
        await user.episodes.finish(ids[-1], f"that was run {n} of it", success=not failed)
    return ids


async def of_episodes(user: UserMemory) -> list[Memory]:
    found = await user.list_memories(["episodic"], limit=1_000)
    return [memory for memory in found if memory.source == "compressed"]


async def summaries(user: UserMemory) -> list[Memory]:
    found = await user.list_memories(["long_term"], limit=1_000)
    return sorted((m for m in found if m.source == "compressed"), key=lambda m: -m.size_bytes)


async def contents(user: UserMemory) -> list[tuple[str, str]]:
    found = await user.list_memories(limit=1_000)
    return [(memory.memory_id, memory.content) for memory in found]


def outcomes(report: CompactionReport) -> list[str]:
    return [cluster.outcome for cluster in report.clusters]


async def told(memory: MemorySystem, user_id: str = "ada") -> list[Any]:
    user = memory.user(user_id)
    found = await user.retrieve("login", top_k=50)
    return [await contents(user), {hit.content for hit in found}, (await user.usage()).kinds]
