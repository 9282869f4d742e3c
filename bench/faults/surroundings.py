"""A directory that may only be read, a second process, a fork, a clock that jumps or is mad.

The first three must end in a typed error in under a second, and do no harm to whoever has the store
open. A clock that goes back a day or forward ten years between any two calls must change no order
and no limit: events are in the order of their positions, and a quota holds. A session of messages
lives for its time to live after its last message, measured from the clock's time of that message.
"""

import asyncio
import ctypes
import os
import random
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

from bench.faults import example
from bench.faults.row import Counts, Row
from bench.faults.trials import Ending, in_child, in_loop
from eventlog import LogLocked
from eventlog.core.records import DAY_US
from memory_actors import Limits, MemorySystem, Plan, QuotaExceededError, Settings, Tier

TIMES = {"quick": 2, "middle": 25, "full": 100}  # of each
ERROR_S_MAX = 5.0  # an error that comes at once, on a busy machine: what waits, waits for longer
CAPABILITIES = (0x20080522, 0)  # the version of the call, and this process
YEARS_US = 3_652 * DAY_US
JUMPS_US = (-DAY_US, YEARS_US, -YEARS_US, 600 * 1_000_000, 3_700 * 1_000_000, 0)
LATEST_US = 250_000_000_000_000_000
NO_DATES_US = (300_000_000_000_000_000, -70_000_000_000_000_000, 2**63 - 1, -(2**63), 10**30)
STEPS = 40
LIMITS = Limits(long_term_memories=12, short_term_messages=5, working_keys=4)


def run(counts: Counts, seed: int, scratch: Path) -> Row:
    """Try each several times."""
    row = Row(fault="read-only directory; second process; fork; clock back a day, on ten years")
    whole, store = scratch / "whole", scratch / "store"
    in_loop(partial(_made, whole))
    with _open_elsewhere(whole):
        for _ in range(TIMES[counts]):
            _note(row, "second process", in_loop(partial(_second, whole)))
    for n in range(TIMES[counts]):
        kinds: dict[str, Callable[[], Ending]] = {
            "read-only": lambda: in_child(partial(_read_only, store)),
            "fork": lambda: in_loop(partial(_fork, store)),
            "no date": lambda n=n: in_loop(partial(_no_date, store, seed * 1000 + n)),  # type: ignore[misc]
            "clock": lambda n=n: in_loop(partial(_clock, store, seed * 1000 + n)),  # type: ignore[misc]
        }
        for kind, trial in kinds.items():
            _put_afresh(whole, store)
            _note(row, kind, trial())
    return row


def _put_afresh(whole: Path, store: Path) -> None:
    """Put a copy of a store in the place of the one that the last trial had, writable or not."""
    if store.exists():
        for each in (store, *store.rglob("*")):
            each.chmod(0o700)
        shutil.rmtree(store)
    shutil.copytree(whole, store)


def _note(row: Row, kind: str, ending: Ending) -> None:
    if ending.kind == "survived":
        row.survive(kind)
    else:
        row.fail(f"{kind}: {ending.kind}", ending.detail, lost=ending.kind == "wrong")


async def _made(path: Path) -> tuple[str, str]:
    async with example.opened(path) as memory:
        await example.fill(memory)
    return "made", ""


def _typed(started: float, error: Exception) -> tuple[str, str]:
    took = perf_counter() - started
    slow = took > ERROR_S_MAX
    return ("slow", f"{took:.1f} s for {error}") if slow else ("survived", str(error))


# --- a second process


@contextmanager
def _open_elsewhere(path: Path) -> Iterator[None]:
    ready, say = os.pipe()
    wait, end = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(end)
            asyncio.run(_hold(path, say, wait))
        finally:
            os._exit(0)
    os.close(wait)
    os.close(say)
    assert os.read(ready, 1), "another process could not open the store"
    os.close(ready)
    try:
        yield
    finally:
        os.close(end)
        os.waitpid(child, 0)


async def _hold(path: Path, say: int, wait: int) -> None:
    async with example.opened(path, share=False):
        os.write(say, b".")
        await asyncio.to_thread(os.read, wait, 1)


async def _second(path: Path) -> tuple[str, str]:
    started = perf_counter()
    try:
        async with example.opened(path, share=False):
            return "opened twice", ""
    except LogLocked as error:
        return _typed(started, error)


# --- a directory that may only be read


def _read_only(path: Path) -> tuple[str, str]:
    for each in (path, *path.rglob("*")):
        each.chmod(0o555 if each.is_dir() else 0o444)
    if os.geteuid() == 0:
        _give_up_capabilities()
    return asyncio.run(_opened_read_only(path))


def _give_up_capabilities() -> None:
    """Let root, who may write to anything, be held to the modes of files as any owner is.

    To become another user would be too much: it may be unable to enter the directories that Python
    and this package lie in.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    none = (ctypes.c_uint32 * 6)()
    if libc.capset((ctypes.c_uint32 * 2)(*CAPABILITIES), none) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


async def _opened_read_only(path: Path) -> tuple[str, str]:
    started = perf_counter()
    try:
        async with example.opened(path):
            return "opened", "although nothing may be written"
    except example.TYPED as error:
        return _typed(started, error)


# --- a clock that says what no date can say


async def _no_date(path: Path, seed: int) -> tuple[str, str]:
    """Use a store while its clock is outside of the years 1 to 9999, and after it was set right."""
    rng, clock = random.Random(seed), example.Clock()
    started = perf_counter()
    async with example.opened(path, first_id=6_000, clock=clock) as memory:
        user = memory.user("ada", session_id="s")
        clock.now_us = rng.choice(NO_DATES_US)
        calls: list[Callable[[], Any]] = [
            lambda: user.add("written at no time"),
            lambda: user.working.set("key", 1),
            lambda: user.short_term.add_message("said at no time"),
            lambda: memory.backup(path.with_name("backup")),
            memory.usage,
        ]
        for call in calls:
            try:
                await call()
            except example.TYPED as error:
                refused = error
            else:
                return "taken", f"call {calls.index(call)} at {clock.now_us}"
        ended = _typed(started, refused)
        clock.now_us = example.NOW_US
        await user.add("It goes on.", memory_id="goes on")
        if not (await memory.verify()).ok or await memory.check_replay():
            return "wrong", "it does not verify, or state and replay differ"
    return ended


# --- a fork


async def _fork(path: Path) -> tuple[str, str]:
    async with example.opened(path, first_id=7_000, share=False) as memory:
        user = memory.user("ada")
        before = (await user.get("ada fact 2")).content
        ending = in_child(partial(_in_the_fork, memory))
        await user.add("The parent goes on.", memory_id="parent")
        if (await user.get("ada fact 2")).content != before:
            return "wrong", "a memory has changed"
    async with example.opened(path, first_id=8_000) as memory:
        report, diverged = await memory.verify(), await memory.check_replay()
        if not report.ok or diverged:
            return "damaged", f"{report.findings[:2]} {diverged}"
        await memory.user("ada").get("parent")
    return ending.kind, ending.detail


def _in_the_fork(memory: MemorySystem) -> tuple[str, str]:
    return asyncio.run(_used_in_the_fork(memory))


async def _used_in_the_fork(memory: MemorySystem) -> tuple[str, str]:
    user, started = memory.user("ada"), perf_counter()
    calls: list[Callable[[], Any]] = [
        lambda: user.add("The child writes."),
        lambda: user.get("ada fact 2"),
        lambda: memory.user("somebody new").add("The child writes."),
        lambda: memory.verify(),
    ]
    error: Exception | None = None
    for call in calls:
        try:
            async with asyncio.timeout(ERROR_S_MAX):
                await call()
        except example.TYPED as refusal:
            error = refusal
        else:
            return "used after a fork", f"call {calls.index(call)}"
    assert error is not None
    return _typed(started, error)


# --- a clock


class _Session:
    """The messages that a session must read as, whatever the clock does."""

    def __init__(self, ttl_s: int):
        self._ttl_us = ttl_s * 1_000_000
        self._said: list[str] = []
        self._expires_us = 0

    def messages(self, now_us: int) -> list[str]:
        return self._said if now_us < self._expires_us else []

    def say(self, message: str, now_us: int) -> None:
        self._said = [*self.messages(now_us), message][-LIMITS.short_term_messages :]
        self._expires_us = now_us + self._ttl_us


async def _clock(path: Path, seed: int) -> tuple[str, str]:
    rng, clock = random.Random(seed), example.Clock()
    settings = Settings(tiers={Tier.LOCAL: Plan(limits=LIMITS)})
    async with example.opened(path, first_id=9_000, clock=clock, settings=settings) as memory:
        user = memory.user("clock", session_id="s")
        session = _Session(user.short_term.ttl)
        for n in range(STEPS):
            clock.now_us = _jumped(clock.now_us, rng)
            wrong = await _step(user, session, clock.now_us, n, rng)
            if wrong:
                return "wrong", f"{wrong} at step {n}"
        changes = [entry.data.get("content") for entry in await user.history("changing")]
        if changes != [f"content {n}" for n in range(STEPS)]:
            return "wrong", f"the history is in another order: {changes}"
        if not (await memory.verify()).ok or await memory.check_replay():
            return "wrong", "it does not verify, or state and replay differ"
    return "survived", ""


def _jumped(now_us: int, rng: random.Random) -> int:
    """Return another time, within what a date can say."""
    now_us = max(0, now_us + rng.choice(JUMPS_US))
    return now_us if now_us < LATEST_US else example.NOW_US


async def _step(user: Any, session: _Session, now_us: int, n: int, rng: random.Random) -> str:
    found = [message.content for message in await user.short_term.messages()]
    if found != session.messages(now_us):
        return f"{found} and not {session.messages(now_us)}"
    if rng.random() < 0.6:
        session.say(f"message {n}", now_us)
        await user.short_term.add_message(f"message {n}")
    await _other_writes(user, n)
    return await _over_quota(user)


async def _other_writes(user: Any, n: int) -> None:
    if n == 0:
        await user.add("content 0", memory_id="changing", pinned=True)
    else:
        await user.update("changing", content=f"content {n}")
    await user.add_with_auto_prune(f"fact {n}")
    await user.working.set(f"key {n % 7}", n, auto_prune=True)
    try:
        await user.working.set(f"another key {n}", n)
    except QuotaExceededError:
        return
    if len(await user.working.items()) > LIMITS.working_keys:
        raise AssertionError("one key too many")


async def _over_quota(user: Any) -> str:
    counts = {
        "keys": (len(await user.working.items()), LIMITS.working_keys),
        "facts": (len(await user.list_memories(["long_term"])), LIMITS.long_term_memories),
        "messages": (len(await user.short_term.messages()), LIMITS.short_term_messages),
    }
    return ", ".join(f"{count} {name}" for name, (count, most) in counts.items() if count > most)
