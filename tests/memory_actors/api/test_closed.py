"""Work that closing leaves undone; and every call of a closed system says that it is closed."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest
from msgspec.structs import replace
from structlog.testing import capture_logs
from support.fakes import FakeEmbedder

from memory_actors import Item, Memory, MemorySystem, SystemClosedError, UserMemory
from memory_actors.search.embedding.batcher import PROBE

pytestmark = pytest.mark.anyio

CALLS_OF_SYSTEM: dict[str, Callable[[MemorySystem, Path], Any]] = {
    "backup": lambda system, path: system.backup(path / "backup"),
    "check_replay": lambda system, _: system.check_replay(),
    "compact": lambda system, _: system.compact(),
    "compaction_stats": lambda system, _: system.compaction_stats(),
    "diff": lambda system, _: system.diff("u", 0),
    "erase": lambda system, _: system.erase("u"),
    "events": lambda system, _: system.events(),
    "heads": lambda system, _: system.heads(),
    "purge": lambda system, _: system.purge("a source"),
    "recalls": lambda system, _: system.recalls("u"),
    "replay": lambda system, _: system.replay("u"),
    "switch_model": lambda system, _: system.switch_model("default"),
    "usage": lambda system, _: system.usage(),
    "users": lambda system, _: system.users(),
    "verify": lambda system, _: system.verify(),
}
OTHERS_OF_SYSTEM = {"open", "connect", "close", "statistics", "user", "watch_erasures"}
"""Calls that have nothing to do with the store."""

BLOCK = {"document": "MEMORY.md", "raw": "- x\n", "rank": "n"}
SUMMARY = {
    "original_count": 1,
    "compressed_from_ids": ["m"],
    "time_range_start": "2024-05-01T00:00:00Z",
    "time_range_end": "2024-05-01T00:00:00Z",
    "compression_method": "own",
    "bytes_before": 2,
    "bytes_after": 1,
}
CALLS_OF_USER: dict[str, Callable[[UserMemory, Memory], Any]] = {
    "add": lambda user, _: user.add("late"),
    "add_many": lambda user, _: user.add_many([Item(content="late")]),
    "add_with_auto_prune": lambda user, _: user.add_with_auto_prune("late"),
    "delete": lambda user, old: user.delete(old.memory_id),
    "estimate_monthly_cost": lambda user, _: user.estimate_monthly_cost(),
    "expand": lambda user, old: user.expand(old.memory_id),
    "export": lambda user, _: user.export(),
    "get": lambda user, old: user.get(old.memory_id),
    "full_id": lambda user, old: user.full_id(old.memory_id[:8]),
    "history": lambda user, old: user.history(old.memory_id),
    "count": lambda user, _: user.count(),
    "delete_many": lambda user, _: user.delete_many({"n": 1}),
    "list_memories": lambda user, _: user.list_memories(),
    "purge": lambda user, _: user.purge("a source"),
    "forget": lambda user, old: user.forget(old.memory_id),
    "forgotten": lambda user, _: user.forgotten(),
    "unforget": lambda user, _: user.unforget("a fact"),
    "put_forgotten": lambda user, _: user._put_forgotten([]),
    "extract": lambda user, _: user.extract(),
    "extractions": lambda user, _: user.extractions(),
    "undo": lambda user, _: user.undo("ext_1"),
    "put_block": lambda user, _: user.context._put_block("b", Item(content="x"), BLOCK),
    "put_summary": lambda user, old: user._put_summary(replace(old, memory_id="s", data=SUMMARY)),
    "restore": lambda user, old: user.restore([old.memory_id]),
    "retrieve": lambda user, _: user.retrieve("tea"),
    "grant": lambda user, _: user.grant("ada"),
    "revoke": lambda user, _: user.revoke("ada"),
    "grants": lambda user, _: user.grants(),
    "right": lambda user, _: user.right(),
    "set_tier": lambda user, _: user.set_tier("pro"),
    "hold": lambda user, _: user.hold("a reason"),
    "holds": lambda user, _: user.holds(),
    "release": lambda user, _: user.release("x"),
    "pending": lambda user, _: user.pending(),
    "approve": lambda user, _: user.approve(["x"]),
    "reject": lambda user, _: user.reject(["x"]),
    "apply_retention": lambda user, _: user.apply_retention(),
    "turn": lambda user, _: user.turn("late"),
    "undo_compaction": lambda user, old: user.undo_compaction(old.memory_id),
    "update": lambda user, old: user.update(old.memory_id, content="late"),
    "usage": lambda user, _: user.usage(),
    "why": lambda user, old: user.why(old.memory_id),
}
OTHERS_OF_USER = {"from_source", "reads", "user_id"}


async def called(made: Any) -> None:
    """Begin what a call has made: something to await, to enter, or to iterate."""
    if isinstance(made, AbstractAsyncContextManager):
        async with made:
            pass
    elif isinstance(made, AsyncIterator):
        await anext(made, None)
    else:
        await made


async def says_that_it_is_closed(make: Callable[[], Any]) -> bool:
    try:
        await called(make())
    except SystemClosedError:
        return True
    return False


async def test_every_call_of_a_closed_system_says_so(open_memory, tmp_path: Path) -> None:
    async with open_memory() as memory:
        user = memory.user("u")
        known = await user.get((await user.add("likes tea")).memory_id)
    calls: dict[str, Callable[[], Any]] = {
        **{name: partial(call, memory, tmp_path) for name, call in CALLS_OF_SYSTEM.items()},
        **{f"user.{name}": partial(call, user, known) for name, call in CALLS_OF_USER.items()},
    }
    assert [name for name, make in calls.items() if not await says_that_it_is_closed(make)] == []


class GatedEmbedder(FakeEmbedder):
    """Waits in each call until it is let through."""

    def __init__(self) -> None:
        super().__init__()
        self.called, self.go = threading.Event(), threading.Event()
        self.batches = 0

    def embed(self, texts: Sequence[str]) -> Any:
        if PROBE in texts:
            return super().embed(texts)
        self.batches += 1
        self.called.set()
        assert self.go.wait(10)
        return super().embed(texts)


@pytest.mark.owner
async def test_closing_begins_no_background_work(open_memory, tmp_path: Path) -> None:
    """Nothing is begun in the background while closing waits for work in hand."""
    async with open_memory() as memory:
        await memory.user("u").add_many([Item(content=f"memory {n} " * 60) for n in range(9)])
    for path in (tmp_path / "memory").glob("derived*"):
        path.unlink()
    embedder, close, leave = GatedEmbedder(), asyncio.Event(), asyncio.Event()

    async def in_hand(memory: MemorySystem) -> None:
        async with memory._services.runtime.use("user:another"):
            await leave.wait()

    async def opened() -> None:
        async with MemorySystem.open(tmp_path / "memory", embedder=embedder) as memory:
            held = asyncio.create_task(in_hand(memory))
            await memory.user("u").list_memories()
            await asyncio.to_thread(embedder.called.wait, 10)
            await close.wait()
        await held

    with capture_logs() as logs, anyio.fail_after(20):
        system = asyncio.create_task(opened())
        await asyncio.to_thread(embedder.called.wait, 10)
        close.set()
        await asyncio.sleep(0.05)
        embedder.go.set()
        await asyncio.sleep(0.2)
        assert (system.done(), embedder.batches) == (False, 1)
        leave.set()
        await system
    assert embedder.batches == 1
    assert not [log for log in logs if log["log_level"] == "warning"], "nothing has failed"


def test_every_public_call_is_called_here() -> None:
    def public(of: type) -> set[str]:
        return {name for name in dir(of) if not name.startswith("_")}

    assert public(MemorySystem) == CALLS_OF_SYSTEM.keys() | OTHERS_OF_SYSTEM
    of_imports = {"put_block", "put_forgotten", "put_summary"}
    assert public(UserMemory) | of_imports == CALLS_OF_USER.keys() | OTHERS_OF_USER
