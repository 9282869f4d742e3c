"""Every public call is cancelled at its first suspension, its second, ... until it completes.

A call is driven by hand: each time it gives up the loop is counted, and at the n-th its task is
cancelled there. These conditions must hold afterwards, when background work has ended:

- all events of the call are in the log or none (of compaction: of each cluster);
- nobody is in a file, no lock is held, no user is held live, nothing waits in the log's queue;
- the live state is what a replay gives, the totals are the sum of the states, and each index has
  the passages of the state;
- the next call works. Closing and opening work too, and are cancelled at each suspension as well.
"""

import asyncio
import shutil
import types
from collections.abc import Callable, Coroutine, Generator
from functools import partial
from pathlib import Path
from typing import Any

from bench.faults import example
from bench.faults.commands import COMMANDS, Command
from bench.faults.row import Counts, Row
from bench.faults.trials import entering, in_child
from bench.opened import at_rest, live_user, services_of
from memory_actors import MemorySystem, UserMemory
from memory_actors.base.streams import stream_of
from memory_actors.kinds.user_state import KINDS
from memory_actors.search.embedding import embeddings
from memory_actors.search.indexes.parts import indexed

EVERY = {"quick": 30, "middle": 1, "full": 1}  # which suspensions
EVERY_CALL = {"quick": 4, "middle": 1, "full": 1}
PREPARED_FROM = 1000
NEXT_S_MAX = 5.0
CALL_S_MAX = 120.0
USER = "ada"


def run(counts: Counts, _seed: int, scratch: Path) -> Row:
    """Cancel every call everywhere."""
    embeddings.WRITE_BEHIND_S = 0.001  # type: ignore[misc] - each trial waits until vectors are kept
    row = Row(fault="cancelled at every await of every call")
    whole, store = scratch / "whole", scratch / "store"
    in_child(lambda: asyncio.run(_made(whole)))
    trials: dict[str, Callable[[], Coroutine[Any, Any, tuple[str, str]]]] = {
        name: partial(_everywhere, store, command, EVERY[counts])
        for name, command in [*COMMANDS.items()][:: EVERY_CALL[counts]]
    }
    trials["open and close"] = partial(_opening, store, EVERY[counts])
    for name, trial in trials.items():
        shutil.rmtree(store, ignore_errors=True)
        shutil.copytree(whole, store)
        ending = in_child(lambda: asyncio.run(trial()), CALL_S_MAX)  # noqa: B023 - called at once
        _note(row, name, ending.kind, ending.detail)
    return row


def _note(row: Row, name: str, kind: str, detail: str) -> None:
    """Count the suspensions of a call; at most one of them is told to have gone wrong."""
    tried = int(kind.split()[1]) if kind.startswith("after ") else 0
    row.tried += tried
    row.survived += tried
    row.count("calls")
    if detail:
        row.fail("not as it must be", f"{name}: {kind} {detail}")


async def _made(path: Path) -> tuple[str, str]:
    async with example.opened(path) as memory:
        await example.fill(memory)
    return "made", ""


@types.coroutine
def stopped_at(
    call: Coroutine[Any, Any, Any], at: int, seen: list[int]
) -> Generator[Any, None, Any]:
    """Drive a call, counting its suspensions in `seen`; cancel this task at one of them."""
    failure: BaseException | None = None
    while True:
        try:
            waits_for = call.send(None) if failure is None else call.throw(failure)
        except StopIteration as end:
            return end.value
        failure = None
        seen[0] += 1
        if seen[0] == at:
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
        try:
            yield waits_for
        except BaseException as error:
            failure = error


async def _cancelled(call: Callable[[], Any], at: int) -> bool:
    """Run a call and cancel it at a suspension; say whether it came that far."""
    seen = [0]

    async def driven() -> Any:
        async def inner() -> Any:
            return await call()

        return await stopped_at(inner(), at, seen)

    task = asyncio.create_task(driven())
    await asyncio.wait([task])
    if not task.cancelled():
        task.result()
    return seen[0] >= at


async def _everywhere(store: Path, command: Command, every: int) -> tuple[str, str]:
    tried = 0
    async with example.opened(store, first_id=1_000_000) as memory:
        user = memory.user(USER, session_id="s")
        whole = await _events(memory, user, command, PREPARED_FROM - 1)
        for at in range(1, 10_000, every):
            n = PREPARED_FROM + at
            await command.prepare(memory, user, n)
            await quiet(memory)
            before = await _version(memory)
            reached = await _cancelled(lambda: command.call(memory, user, n), at)  # noqa: B023
            entering(f"after {tried}")
            await quiet(memory)
            events = await _version(memory) - before
            wrong = await _wrong(memory, user, at)
            if command.one_append and events not in (0, whole):
                wrong = f"{events} events are there of {whole}"
            if wrong:
                return f"after {tried}", f"cancelled at {at}: {wrong}"
            if not reached:
                break
            tried += 1
        closing = asyncio.get_running_loop().time()
    took = asyncio.get_running_loop().time() - closing
    slow = f"closing took {took:.1f} s" if took > NEXT_S_MAX else ""
    return f"after {tried}", slow


async def _events(memory: MemorySystem, user: UserMemory, command: Command, n: int) -> int:
    await command.prepare(memory, user, n)
    await quiet(memory)
    before = await _version(memory)
    await command.call(memory, user, n)
    await quiet(memory)
    return await _version(memory) - before


async def _version(memory: MemorySystem) -> int:
    return (await services_of(memory).log.head(stream_of(USER))).version


async def quiet(memory: MemorySystem) -> None:
    """Wait until background work has ended."""
    services = services_of(memory)
    while services.unattended:
        await asyncio.wait(set(services.unattended))
    await services.log.flush()
    async with services.log._upkeep_lock:  # noqa: SLF001 - a backup that was given up ends by itself
        pass
    for user_id in example.USERS:
        await at_rest(memory, user_id)
        async with live_user(memory, user_id) as live:
            await live.actor.drain()


async def _wrong(memory: MemorySystem, user: UserMemory, at: int) -> str:
    held = _held(memory)
    if held:
        return f"held: {held}"
    diverged = await memory.check_replay()
    if diverged:
        return f"state and replay differ: {diverged}"
    for user_id in example.USERS:
        amiss = await _index_amiss(memory, user_id)
        if amiss:
            return amiss
    async with asyncio.timeout(NEXT_S_MAX):
        await user.add(f"the next call {at}")
        await user.short_term.messages()
    return ""


def _held(memory: MemorySystem) -> str:
    services = services_of(memory)
    log: Any = services.log
    table: Any = services.embeddings.disk
    held = {
        "users of the runtime": services.runtime._users,  # noqa: SLF001
        "users of log.mdb": log._env._files._users,  # noqa: SLF001
        "users of derived.mdb": table._env._files._users,  # noqa: SLF001
        "the log's writing": log._env._writing.locked(),  # noqa: SLF001
        "upkeep": log._upkeep_lock.locked(),  # noqa: SLF001
        "stalled": log._intake.is_stalled,  # noqa: SLF001
        "events in the queue": log._intake.room.events,  # noqa: SLF001
        "streams in flight": len(log._intake._in_flight),  # noqa: SLF001
        "claims on totals": sum(map(abs, services.totals._claimed.values())),  # noqa: SLF001
        "compaction": memory._compaction._alone.locked(),  # noqa: SLF001
    }
    return ", ".join(f"{what}: {count}" for what, count in held.items() if count)


async def _index_amiss(memory: MemorySystem, user_id: str) -> str:
    async with live_user(memory, user_id) as live:
        for kind in KINDS:
            index = live.indexes.get(kind)
            rows = kind.rows(live.state.of(kind))
            wanted = {passage.label for row in rows for passage in indexed(kind, row)}
            labels = set() if index is None else set(index.rows.there())
            if index is not None and labels != wanted:
                return f"the index of {kind.NAME} has {sorted(labels ^ wanted)} too many or too few"
    return ""


async def _opening(store: Path, every: int) -> tuple[str, str]:
    async def open_and_close() -> None:
        async with example.opened(store) as memory:
            await memory.user(USER).usage()

    tried = 0
    for at in range(1, 10_000, every):
        reached = await _cancelled(open_and_close, at)
        entering(f"after {tried}")
        try:
            async with asyncio.timeout(NEXT_S_MAX):
                while not await _opens(store):
                    await asyncio.sleep(0.01)
        except TimeoutError:
            return f"after {tried}", f"cancelled at {at}: it stays locked"
        if not reached:
            break
        tried += 1
    return f"after {tried}", ""


async def _opens(store: Path) -> bool:
    """Say whether the store opens and is whole; one that was cancelled may yet be closing."""
    from eventlog import LogLocked

    try:
        async with example.opened(store) as memory:
            assert (await memory.verify()).ok
            assert await memory.check_replay() == []
    except LogLocked:
        return False
    return True
