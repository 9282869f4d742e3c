"""Erasing users where files cannot be looked for or removed, and many users at the same time.

Files that cannot be checked are not erased: where `indexes/` or `archive/` cannot be read, or not
be written, there must be no receipt but a typed error, and the others of the store go on. Once it
can be read again, a second try must leave no file of the user. If users are erased at the same
time, each must be erased.
"""

import asyncio
import os
import shutil
from functools import partial
from importlib import import_module
from pathlib import Path

from bench.faults import example
from bench.faults.row import Counts, Row
from bench.faults.trials import in_child, in_loop
from eventlog.core.frame import stream_id
from memory_actors import MemorySystem
from memory_actors.base.streams import stream_of

TIMES = {"quick": 1, "middle": 10, "full": 50}  # each directory in each mode
ROUNDS = {"quick": 3, "middle": 30, "full": 100}
AT_ONCE = 12
MODES = (0o000, 0o300, 0o400, 0o555)
DIRECTORIES = ("indexes", "archive")
NOBODY = 65534
ERASED, OTHER = "ben", "ada"


def run(counts: Counts, _seed: int, scratch: Path) -> Row:
    """Try each directory in each mode, and rounds of erasures at once."""
    row = Row(fault="erasing where indexes/ or archive/ cannot be read or written; many at once")
    whole, store = scratch / "whole", scratch / "store"
    in_loop(partial(_made, whole))
    for name in DIRECTORIES * TIMES[counts]:
        for mode in MODES:
            shutil.rmtree(store, ignore_errors=True)
            shutil.copytree(whole, store)
            what = f"{name} at mode {mode:03o}"
            ending = in_child(partial(_as_an_ordinary_user, whole, store, name, mode))
            if ending.kind == "survived":
                row.survive(name)
            else:
                row.fail(f"{name}: {ending.kind}", f"{what}: {ending.detail}")
    shutil.rmtree(store, ignore_errors=True)
    for n in range(ROUNDS[counts]):
        ending = in_loop(partial(_at_once, scratch / f"many {n}"))
        if ending.kind == "survived":
            row.survive("at once")
        else:
            row.fail(f"at once: {ending.kind}", ending.detail)
    return row


async def _made(path: Path) -> tuple[str, str]:
    async with example.opened(path) as memory:
        await example.fill(memory)
    return "made", ""


def _as_an_ordinary_user(whole: Path, store: Path, name: str, mode: int) -> tuple[str, str]:
    """Become one, where this is root, who may do everything."""
    if os.geteuid() == 0:
        spare = store.with_name("spare")
        shutil.rmtree(spare, ignore_errors=True)
        shutil.copytree(whole, spare)
        # A process that changes its user may be unable to import anything more.
        asyncio.run(_erased(spare))
        import_module("numpy.ma")  # some releases of numpy import it on first use
        for each in (store.parent, store, *store.rglob("*")):
            os.chown(each, NOBODY, NOBODY)
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
    return asyncio.run(_refused_and_repeated(store, name, mode))


async def _erased(path: Path) -> None:
    async with example.opened(path, first_id=7_000) as memory:
        await memory.erase(ERASED)


async def _refused_and_repeated(store: Path, name: str, mode: int) -> tuple[str, str]:
    directory = store / name
    async with example.opened(store, first_id=7_000) as memory:
        directory.chmod(mode)
        try:
            receipt = await memory.erase(ERASED)
        except example.TYPED:
            pass
        else:
            return "receipt", str(receipt)
        finally:
            directory.chmod(0o700)
        await memory.user(OTHER).add("goes on")
        await memory.erase(ERASED)
        if wrong := await _left(memory, store, ERASED):
            return "left", wrong
        if wrong := [*(await memory.verify()).findings, *await memory.check_replay()]:
            return "damaged", str(wrong[:2])
    return "survived", ""


async def _left(memory: MemorySystem, store: Path, user_id: str) -> str:
    files = [*store.rglob(f"{stream_id(stream_of(user_id)).hex()}*")]
    users = await memory.users()
    return f"{files} {user_id in users}" if files or user_id in users else ""


async def _at_once(store: Path) -> tuple[str, str]:
    users = [f"user {n}" for n in range(AT_ONCE)]
    async with example.opened(store) as memory:
        for user_id in users:
            await memory.user(user_id).add(f"fact of {user_id}", memory_id=f"m {user_id}")
        await asyncio.gather(*(memory.erase(user_id) for user_id in users))
        for user_id in users:
            if wrong := await _left(memory, store, user_id):
                return "left", wrong
        if not (await memory.verify()).ok:
            return "damaged", "it does not verify"
    return "survived", ""
