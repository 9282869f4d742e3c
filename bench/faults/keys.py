"""Damage to the file of keys of an encrypted store, and power that goes while a key is made.

One bit flipped, one record zeroed or noise, the end cut off; or, behind a whole file, what a power
loss leaves of records that were being appended. The store is opened, everything is asked, and a new
user writes, whose key goes into the file. A trial has survived when every answer was right or
refused by a typed error, when a user who cannot be read is reported by `verify`, when a file that
was refused is as it was, and when the old users are read again with the whole file put back. A torn
record must not lock out any user.
"""

import asyncio
import random
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from bench.faults import example
from bench.faults.row import Counts, Row
from bench.faults.trials import in_loop
from eventlog import KeysUnavailable
from memory_actors.base.streams import stream_of

TRIALS = {"quick": 2, "middle": 40, "full": 250}  # of each
HEAD_BYTES, RECORD_BYTES = 28, 52
TORN = "torn"
NEW = "somebody new"
Damage = Callable[[bytes, random.Random], bytes]


def _flipped(data: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(HEAD_BYTES, len(data)) if rng.random() < 0.9 else rng.randrange(HEAD_BYTES)
    return data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :]


def _overwritten(data: bytes, rng: random.Random, record: bytes) -> bytes:
    at = HEAD_BYTES + RECORD_BYTES * rng.randrange((len(data) - HEAD_BYTES) // RECORD_BYTES)
    return data[:at] + record + data[at + RECORD_BYTES :]


def _torn(data: bytes, rng: random.Random) -> bytes:
    """Append records of which some sectors were written, up to a length."""
    behind = rng.randbytes(RECORD_BYTES * rng.randrange(1, 4))
    first = rng.randrange(len(behind))
    return (data + behind[:first] + bytes(len(behind) - first))[: len(data) + 1 + first * 2]


KINDS: dict[str, Damage] = {
    "bit": _flipped,
    "zeros": lambda data, rng: _overwritten(data, rng, bytes(RECORD_BYTES)),
    "noise": lambda data, rng: _overwritten(data, rng, rng.randbytes(RECORD_BYTES)),
    "cut": lambda data, rng: data[: rng.randrange(len(data))],
    "record gone": lambda data, rng: data[: rng.randrange(HEAD_BYTES, len(data), RECORD_BYTES)],
    TORN: _torn,
}


def run(counts: Counts, seed: int, scratch: Path) -> Row:
    """Damage the keys of copies of a store and look at them."""
    row = Row(fault="a bit, a record, the end of the file of keys; a key that was being made")
    whole, store = scratch / "whole" / "memory", scratch / "store" / "memory"
    truth = asyncio.run(_made(whole))
    keys, rng = whole.with_suffix(".keys").read_bytes(), random.Random(seed)
    for kind, damage in KINDS.items():
        for n in range(TRIALS[counts]):
            shutil.rmtree(store.parent, ignore_errors=True)
            shutil.copytree(whole.parent, store.parent)
            store.with_suffix(".keys").write_bytes(damage(keys, rng))
            ending = in_loop(partial(_used, store, truth, is_torn=kind == TORN))
            if ending.kind in ("right", "refused"):
                store.with_suffix(".keys").write_bytes(keys)
                back = in_loop(partial(_put_back, store, truth))
                ending = ending if back.kind == "right" else back
            if ending.kind in ("right", "refused"):
                row.survive(f"{kind} {ending.kind}")
            else:
                row.fail(ending.kind, f"{kind}, trial {n}: {ending.detail}", lost=1)
    return row


async def _made(path: Path) -> dict[str, Any]:
    async with example.opened(path, encrypt=True) as memory:
        await example.fill(memory)
    async with example.opened(path, first_id=10_000, encrypt=True) as memory:
        await example.at_rest(memory)
        answered, refused = await example.answers(memory)
    assert not refused, refused
    return answered


async def _used(path: Path, truth: dict[str, Any], *, is_torn: bool) -> tuple[str, str]:
    file = path.with_suffix(".keys")
    before = file.read_bytes()
    try:
        async with example.opened(path, first_id=10_000, encrypt=True) as memory:
            answered, refused = await example.answers(memory)
            await memory.user(NEW).add("It goes on.")
            report = await memory.verify()
    except KeysUnavailable as error:
        unchanged = file.read_bytes() == before and not is_torn
        return ("refused", str(error)) if unchanged else ("changed or torn", str(error))
    wrong = [name for name, answer in answered.items() if answer != truth[name]]
    if wrong or (refused and report.ok) or (refused and is_torn):
        return "wrong", f"{wrong} {refused} {report.findings[:2]}"
    if not refused and not report.ok:
        return "wrong", f"everything is read, but {report.findings[:2]}"
    async with example.opened(path, first_id=20_000, encrypt=True) as memory:
        (again,) = await memory.user(NEW).list_memories()
    right = again.content == "It goes on."
    return ("refused" if refused else "right", str(refused)) if right else ("wrong", stream_of(NEW))


async def _put_back(path: Path, truth: dict[str, Any]) -> tuple[str, str]:
    async with example.opened(path, first_id=30_000, encrypt=True) as memory:
        answered, refused = await example.answers(memory)
    wrong = [name for name, answer in answered.items() if answer != truth[name]]
    return ("lost", f"{wrong} {refused}") if wrong or refused else ("right", "")
