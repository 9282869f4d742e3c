"""The n-th write, sync, change of a name or allocation fails: n = 1, 2, 3, ... until none does.

Below a process that opens a store, does a bit of everything and closes it, one call fails: once
with an I/O error, or from there on as on a full disk, until space returns. What must hold:

- whatever was asked either works or raises a typed error;
- when calls work again the same system does, or one that is opened anew (counted apart);
- every acknowledged write is there, and every refused one is there as a whole or not at all:
  several memories that were added together are all there or none is;
- the log verifies, and every state is what a replay of its events gives.

Allocations are those that LMDB makes. Python's own go through an allocator that this cannot see;
one that fails is a MemoryError in the decision it hits, as any exception is.

A full map is the limit on the log's size, raised by a page at a time.
"""

import errno
import shutil
import subprocess
import sys
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from bench.faults import example
from bench.faults.preload import CannotBuild, Failing, build, failing, is_watched, watched
from bench.faults.row import Counts, Row
from bench.faults.trials import Ending, entering, in_loop
from bench.kill import ROOT
from memory_actors import Item, MemorySystem, NotFoundError, Settings

EVERY = {"quick": 239, "middle": 5, "full": 1}  # which n are tried
N_MAX = 2000
PAGE_BYTES = 4096
PAGES_MAX = 400
RUN_S_MAX = 3600.0
TOGETHER = ("x1", "x2", "x3")  # added in one call


class Fault(NamedTuple):
    """The operation that fails, and its error."""

    name: str
    kind: Failing
    error: int
    on: bool


FAULTS = (
    Fault("a write fails", Failing.WRITE, errno.EIO, on=False),
    Fault("the disk is full", Failing.WRITE, errno.ENOSPC, on=True),
    Fault("a sync fails", Failing.SYNC, errno.EIO, on=False),
    Fault("syncs fail", Failing.SYNC, errno.EIO, on=True),
    Fault("a name fails", Failing.NAME, errno.EIO, on=False),
    Fault("names find no room", Failing.NAME, errno.ENOSPC, on=True),
    Fault("an allocation fails", Failing.MEMORY, errno.ENOMEM, on=False),
)


def run(counts: Counts, seed: int, scratch: Path) -> Row:
    """Let each call fail in turn, in a process that is watched."""
    if is_watched():
        return _watched(counts, scratch)
    try:
        shared = build(scratch)
    except CannotBuild as error:
        return Row(fault=__doc__.splitlines()[0], skipped=str(error))
    command = [sys.executable, "-m", "bench.faults", "nth_failure", counts, str(seed), str(scratch)]
    done = subprocess.run(
        command, cwd=ROOT, env=watched(shared, scratch), stdout=subprocess.PIPE, check=True,
        timeout=RUN_S_MAX,
    )  # fmt: skip
    return msgspec.json.decode(done.stdout, type=Row)


def _watched(counts: Counts, scratch: Path) -> Row:
    row = Row(fault="the n-th write, sync, name or allocation fails; the map is full")
    whole = scratch / "whole"
    in_loop(partial(_make, whole))
    for fault in FAULTS:
        for n in range(1, N_MAX, EVERY[counts]):
            if not _try(row, scratch, whole, f"{fault.name}, n = {n}", fault.name, fault, n):
                break
    for pages in range(0, PAGES_MAX, EVERY[counts]):
        if not _try(row, scratch, whole, f"{pages} pages left", "the map is full", None, pages):
            break
    return row


async def _make(path: Path) -> tuple[str, str]:
    async with example.opened(path) as memory:
        await example.fill(memory)
    return "made", ""


def _try(
    row: Row, scratch: Path, whole: Path, what: str, name: str, fault: Fault | None, n: int
) -> bool:
    """Run one trial; say whether anything has failed in it."""
    store = scratch / "store"
    shutil.rmtree(store, ignore_errors=True)
    shutil.copytree(whole, store)
    ending: Ending = in_loop(partial(_trial, store, fault, n))
    if ending.kind == "not reached":
        return False
    if ending.kind in ("survived", "opened anew"):
        row.survive(f"{name}: {ending.kind}")
    else:
        row.fail(f"{name}: {ending.kind}", f"{what}: {ending.detail}", lost=ending.kind == "lost")
    return True


class _Promised(msgspec.Struct):
    contents: dict[str, set[str | None]] = {}
    """By memory id; None: it is not there."""
    asked: bool = False
    """True if anything was asked at all: opening may have failed."""
    refused: dict[str, str] = {}

    async def writes(
        self, memory_id: str, before: str | None, after: str | None, call: Awaitable[Any]
    ) -> None:
        """Carry out a write: until it is acknowledged, what was before may be found as well."""
        self.contents[memory_id] = {before, after}
        await call
        self.contents[memory_id] = {after}


async def _trial(store: Path, fault: Fault | None, n: int) -> tuple[str, str]:
    promised, again, failed = _Promised(), "", [0]
    limit = await _used_bytes(store) + n * PAGE_BYTES if fault is None else 1 << 40
    settings = Settings(deadline_s=10.0, log_bytes_max=limit)
    stack = ExitStack()
    if fault is not None:
        failed = stack.enter_context(failing(fault.kind, n, fault.error, on=fault.on))
    try:
        async with example.opened(store, first_id=5_000, settings=settings) as memory:
            entering("doing a bit of everything")
            for name, step in _steps(memory, promised).items():
                await _do(name, step, promised)
            stack.close()
            again = await _works(memory) if fault is not None else ""
    except example.TYPED as error:
        promised.refused["opening or closing"] = str(error)
        again = "opened anew"
    finally:
        stack.close()
    if not (failed[0] or promised.refused):
        return "not reached", ""
    entering("looking at it")
    return await _found(store, promised, again)


async def _used_bytes(store: Path) -> int:
    async with example.opened(store) as memory:
        return memory.statistics().log.used_bytes


async def _do(name: str, step: Callable[[], Awaitable[Any]], promised: _Promised) -> None:
    try:
        await step()
    except example.TYPED as error:
        promised.refused[name] = f"{type(error).__name__}: {error}"


async def _works(memory: MemorySystem) -> str:
    try:
        await memory.user("ada").add("Space has returned.", memory_id="afterwards")
    except example.TYPED:
        return "opened anew"
    return ""


Step = Callable[[], Awaitable[Any]]


def _steps(memory: MemorySystem, promised: _Promised) -> dict[str, Step]:
    user, ben = memory.user("ada", session_id="s"), memory.user("ben")
    promised.asked = True
    promised.contents["ada fact 2"] = {_FACT}
    writes = promised.writes
    return {
        "add": lambda: writes("a1", None, "new", user.add("new", memory_id="a1")),
        "add many": lambda: _add_some(user),
        "update": lambda: writes(
            "ada fact 2", _FACT, "changed", user.update("ada fact 2", content="changed")
        ),
        "delete": lambda: writes("ada fact 4", _FACT_4, None, user.delete("ada fact 4")),
        "message": lambda: user.short_term.add_message("hello " * 300),
        "working": lambda: user.working.set("key 1", "x" * 500),
        "document": lambda: user.documents.put("things", {"a": "b" * 3000}, key="new"),
        "entity": lambda: user.entities.add_entity("Somebody", observations=["tall"]),
        "episode": lambda: _episode(user),
        "other user": lambda: writes("b1", None, "new", ben.add("new", memory_id="b1")),
        "old": lambda: _old(ben),
        "compact": memory.compact,
        "restore": lambda: user.restore(["ada fact 1"]),
        "search": lambda: ben.retrieve("what is known"),
    }


async def _add_some(user: Any) -> None:
    await user.add_many([Item(content="x " * 900, memory_id=each) for each in TOGETHER])


async def _episode(user: Any) -> None:
    started = await user.episodes.start("a goal")
    await user.episodes.step(started.memory_id, "an action")
    await user.episodes.finish(started.memory_id)


_FACT = "fact 2 "
_FACT_4 = "fact 4 "


async def _old(user: Any) -> None:
    await user.add_many(
        [
            Item(content=f"diary {n} " + "of a year " * 30, occurred_at=f"2022-03-{n + 1:02}")
            for n in range(8)
        ]
    )


async def _found(store: Path, promised: _Promised, again: str) -> tuple[str, str]:
    async with example.opened(store, first_id=9_000) as memory:
        report, diverged = await memory.verify(), await memory.check_replay()
        if not report.ok or diverged:
            return "damaged", f"{report.findings[:2]} {diverged} after {promised.refused}"
        for memory_id, contents in promised.contents.items():
            now = await _content(memory, memory_id)
            if now not in contents:
                return "lost", f"{memory_id} is {now!r} and not one of {contents}"
        there = {await _content(memory, each) is not None for each in TOGETHER}
        acknowledged = promised.asked and "add many" not in promised.refused
        if len(there) != 1 or (acknowledged and there != {True}):
            return "half-applied", f"{there} of {TOGETHER} are there"
        await memory.user("ada").add("It works.", memory_id="at the end")
    return again or "survived", ""


async def _content(memory: MemorySystem, memory_id: str) -> str | None:
    user = memory.user("ben" if memory_id.startswith("b") else "ada")
    try:
        return (await user.get(memory_id)).content
    except NotFoundError:
        return None
