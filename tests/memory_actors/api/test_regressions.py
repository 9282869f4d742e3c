"""Races and odd requests that once went wrong."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from eventlog import EventLog
from memory_actors import (
    DeadlineExceededError,
    InvalidInputError,
    Item,
    MemorySystem,
    NotFoundError,
    StorageFullError,
    SystemClosedError,
)
from memory_actors.search.indexes import pending as wanting
from memory_actors.upkeep.store import event_registry

pytestmark = pytest.mark.anyio


async def test_updating_metadata_brings_no_old_value_back(user) -> None:
    memory_id = (await user.working.set("k", "old")).memory_id
    await asyncio.gather(user.working.set("k", "new"), user.update(memory_id, metadata={"a": 1}))
    assert await user.working.get("k") == "new"
    results = await asyncio.gather(
        user.working.delete("k"), user.update(memory_id, metadata={"a": 2}),
        return_exceptions=True,
    )  # fmt: skip
    assert isinstance(results[1], NotFoundError)
    assert await user.working.get("k") is None


@pytest.mark.parametrize("when", ["9999-12-31T23:59:59-12:00", "0001-01-01T00:00:00+12:00"])
async def test_a_time_that_could_not_be_shown_is_refused(memory, when: str) -> None:
    with pytest.raises(InvalidInputError, match="outside the years"):
        await memory.user("u").add("x", occurred_at=when)


async def test_an_id_stands_for_one_memory_for_ever(user, clock) -> None:
    await user.add("a message", "short_term", memory_id="m")
    await user.add("a fact", memory_id="f")
    await user.working.set("k", 1, memory_id="w")
    for taken, kind in (("m", "long_term"), ("f", "short_term"), ("f", "working")):
        with pytest.raises(InvalidInputError, match="stands for another"):
            await user.add("something else", kind, memory_id=taken)
    with pytest.raises(InvalidInputError, match="stands for another"):
        await user.add("something else", memory_id="w")
    clock.move(4_000)
    assert (await user.add("a message", "short_term", memory_id="m")).operation == "unchanged"
    assert await user.short_term.messages() == [], "an expired message is not added again"


async def test_an_import_can_be_repeated_after_changes(user) -> None:
    items = [Item(content=f"c{n}", memory_id=f"id{n}") for n in range(3)]
    await user.add_many(items)
    await user.update("id0", content="changed since")
    await user.delete("id1")
    assert [r.operation for r in await user.add_many(items)] == ["unchanged"] * 3
    assert {m.content for m in await user.list_memories()} == {"changed since", "c2"}
    with pytest.raises(InvalidInputError, match="stands for another"):
        await user.add("not what it was", memory_id="id1")


@pytest.mark.no_node
async def test_a_full_log_allows_deletes(open_memory) -> None:
    """In a full log deletes work, and working memory says that the log is full."""
    async with open_memory(log_bytes_max=200_000, check_replay=False) as memory:
        user = memory.user("u")
        kept = []
        with pytest.raises(StorageFullError):  # noqa: PT012 - the one that is too many
            for n in range(10_000):
                receipt = await user.add(f"memory {n} " * 100)
                kept.append(receipt.memory_id)
        for memory_id in kept[:20]:
            assert (await user.delete(memory_id)).operation == "delete"
        refused = 0
        for n in range(60):
            try:
                await user.working.set(f"k{n}", "x" * 100)
            except Exception:
                refused += 1
            await asyncio.sleep(0.01)
        lost = memory.statistics().log.relaxed_lost
        assert refused > 40
        assert lost <= 2, "what was acknowledged before the log was known to be full, and no more"


@pytest.mark.no_node
async def test_in_a_full_log_a_context_document_can_be_deleted(open_memory) -> None:
    async with open_memory(log_bytes_max=200_000, check_replay=False) as memory:
        user = memory.user("u")
        await user.context.add("Facts", "likes tea")
        with pytest.raises(StorageFullError):  # noqa: PT012 - the one that is too many
            for n in range(10_000):
                await user.add(f"memory {n} " * 100)
        await user.context.delete("MEMORY.md")
        assert await user.context.documents() == []


async def test_a_write_begun_before_closing_is_finished(open_memory) -> None:
    async with open_memory() as memory:
        await memory.user("u").add("warm up")
    async with open_memory() as memory:
        adding = asyncio.create_task(memory.user("u").add("begun before"))
        await asyncio.sleep(0)
    try:
        await adding
        expected = 2
    except SystemClosedError:
        expected = 1
    async with open_memory() as memory:
        assert (await memory.user("u").usage()).kinds["long_term"].count == expected


@pytest.mark.no_node
@pytest.mark.no_http
async def test_a_memory_whose_caller_timed_out_is_found(open_memory, monkeypatch) -> None:
    """A memory whose caller ran out of time is found later."""
    monkeypatch.setattr(wanting, "RETRY_S", 0.05)
    real = EventLog.append

    async def slow(*args, **more):
        await asyncio.sleep(0.1)
        return await real(*args, **more)

    monkeypatch.setattr(EventLog, "append", slow)
    async with open_memory(deadline_s=0.05, check_replay=False) as memory:
        user = memory.user("u")
        with pytest.raises(DeadlineExceededError):
            await user.add("likes tea")
        for _ in range(100):
            if await user.retrieve("likes tea"):
                break
            await asyncio.sleep(0.02)
        assert [hit.content for hit in await user.retrieve("likes tea")] == ["likes tea"]


async def test_one_users_poisonous_text_fails_nobody_else(open_memory, embedder) -> None:
    real = embedder.embed

    def picky(texts):
        if any("POISON" in text for text in texts):
            raise RuntimeError("cannot embed that")
        return real(texts)

    embedder.embed = picky
    async with open_memory(check_replay=False) as memory:
        bob = memory.user("bob")
        await bob.add("likes tea")
        adding = [memory.user("ada").add(f"POISON {n}") for n in range(3)]
        asking = [bob.retrieve(f"question {n}") for n in range(10)]
        receipts, answers = (
            await asyncio.gather(*adding),
            await asyncio.gather(*asking),
        )
        assert all(len(hits) == 1 for hits in answers)
        assert [receipt.indexed for receipt in receipts] == [False] * 3
        again = await asyncio.gather(
            *(memory.user("ada").add(f"POISON {n}") for n in range(3, 9)),
            *(bob.add(f"good {n}") for n in range(20)),
        )
        assert all(receipt.indexed for receipt in again[6:])


async def test_good_memories_are_indexed_past_bad_ones(open_memory, embedder, monkeypatch) -> None:
    monkeypatch.setattr(wanting, "RETRY_S", 0.01)
    monkeypatch.setattr(wanting, "TEXTS_MAX", 4)
    real = embedder.embed
    embedder.failure = RuntimeError("down")
    async with open_memory(check_replay=False) as memory:
        user = memory.user("u")
        for n in range(8):
            await user.add(f"POISON {n}")
        for n in range(8):
            await user.add(f"good {n}")

    def picky(texts):
        if any("POISON" in text for text in texts):
            raise RuntimeError("cannot embed that")
        return real(texts)

    embedder.failure, embedder.embed = None, picky
    async with open_memory(check_replay=False) as memory:
        user = memory.user("u")
        for _ in range(200):
            hits = await user.retrieve("good", top_k=50)
            if len(hits) == 8:
                break
            await asyncio.sleep(0.02)
        assert {hit.content for hit in hits} == {f"good {n}" for n in range(8)}


async def test_the_newest_working_memory_is_in_its_history(user) -> None:
    for n in range(20):
        receipt = await user.working.set("k", n)
        entries = await user.history(receipt.memory_id)
        assert entries[-1].data["value"] == n


@pytest.mark.no_node
async def test_damaged_derived_data_is_put_aside(open_memory, tmp_path: Path) -> None:
    async with open_memory() as memory:
        await memory.user("u").add("likes tea")
    path = tmp_path / "memory" / "derived.mdb"
    path.write_bytes(path.read_bytes()[:5_000])
    async with open_memory() as memory:
        assert [h.content for h in await memory.user("u").retrieve("tea")] == ["likes tea"]
    assert path.with_suffix(".damaged").exists()


@pytest.mark.no_node
@pytest.mark.no_http
async def test_a_quarantined_user_stays_so_however_long_it_is_idle(open_memory, tmp_path) -> None:
    from memory_actors import QuarantinedError
    from memory_actors.kinds.entity.events import EntityUpdated

    async with EventLog.open(tmp_path / "memory", event_registry()) as log:
        await log.append("user:ada", [EntityUpdated(memory_id="never was", content="x")], 0)
    async with open_memory(live_bytes_max=0, idle_s=0.01) as memory:
        for _ in range(3):
            with pytest.raises(QuarantinedError):
                await memory.user("ada").add("x")
            await memory.user("bob").add("y")
            await asyncio.sleep(0.03)


ODD_REQUESTS: tuple[Any, ...] = (
    lambda u: u.add_many([{"content": "x"}]),
    lambda u: u.add("x", "working", key=5),
    lambda u: u.add("x", "working", key="\ud800"),
    lambda u: u.add("x", "working", key="k" * 600),
    lambda u: u.working.set("k", 1, memory_id=7),
    lambda u: u.retrieve("x", memory_types=5),
    lambda u: u.list_memories(limit="5"),
    lambda u: u.list_memories(offset=-1),
    lambda u: u.short_term.messages(last="x"),
    lambda u: u.add("x", key="k"),
    lambda u: u.add("x", "working", role="Ada"),
    lambda u: u.add("x", "short_term", pinned=True),
)


async def test_odd_requests_get_a_typed_error(user) -> None:
    await user.short_term.add_message("hello")
    for call in ODD_REQUESTS:
        with pytest.raises(InvalidInputError):
            await call(user)


def test_a_hanging_embedder_does_not_keep_the_process(tmp_path: Path) -> None:
    import subprocess
    import sys

    program = f"""
import asyncio, time
from memory_actors import MemorySystem, Settings
class Hanging:
    fingerprint, dimension = "hanging", 8
    def embed(self, texts): time.sleep(600)
async def main():
    settings = Settings(embedder_deadline_s=0.1, shutdown_s=0.1)
    opening = MemorySystem.open({str(tmp_path)!r}, embedder=Hanging(), settings=settings)
    async with opening as memory:
        print((await memory.user("u").add("x")).indexed)
asyncio.run(main())
"""
    run = subprocess.run(
        [sys.executable, "-c", program], cwd=Path(__file__).parents[3], capture_output=True,
        text=True, timeout=30, check=False,
    )  # fmt: skip
    assert (run.stdout.strip().splitlines()[-1:], run.returncode) == (["False"], 0), run.stderr


async def test_only_one_system_opens_a_directory(memory) -> None:
    assert isinstance(memory, MemorySystem)
