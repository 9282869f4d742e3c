"""Malformed bytes, unknown event types and versions: typed errors only, and the bytes stay.

Two parts. Bytes are given to all that reads them (fuzz_targets.py): noise, and whole ones with some
bytes changed, cut out or doubled; in a full run, those that atheris finds as well, guided by
coverage (the extra `fuzz`). And a user of a store gets an event that this version does not know:
one of a future type for each part of its state, one of a future schema for each type that exists,
and one of each type with content of another form. The known part of that user can be read, and the
user takes no writes; nobody else notices, and not a byte of the event changes.
"""

import asyncio
import importlib.util
import random
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from bench.faults import example
from bench.faults.fuzz_targets import TARGETS, UntypedError, feed, samples
from bench.faults.row import Counts, Row
from bench.faults.trials import Ending, in_child, in_loop
from bench.kill import ROOT
from eventlog import CorruptLog, EventLog, EventRegistry
from eventlog.core.frame import stream_id
from memory_actors import UnavailableError
from memory_actors.base.streams import stream_of
from memory_actors.upkeep.store import event_registry

INPUTS = {"quick": 5_000, "middle": 200_000, "full": 1_000_000}
GUIDED = {"quick": 0, "middle": 20_000, "full": 1_000_000}
GUIDED_S_MAX = 3_600
CHANGES_MAX = 4
QUICK_EVERY = 10


class FromTomorrow(msgspec.Struct):
    """An event of a version to come."""

    text: str


def run(counts: Counts, seed: int, scratch: Path) -> Row:
    """Feed bytes, and open stores from the future."""
    row = Row(fault="malformed bytes; unknown event types and versions")
    ending = in_child(partial(_fed, INPUTS[counts], seed), GUIDED_S_MAX)
    _note(row, "bytes", ending, INPUTS[counts])
    if GUIDED[counts]:
        if importlib.util.find_spec("atheris") is None:
            row.detail["guided by coverage"] = "skipped: atheris is not installed"
        else:
            _note(row, "guided", _guided(GUIDED[counts], seed, scratch), GUIDED[counts])
    _try_strangers(row, counts, scratch)
    return row


def _note(row: Row, name: str, ending: Ending, tried: int) -> None:
    if ending.kind == "survived":
        row.tried += tried
        row.survived += tried
        row.count(name, tried)
    else:
        row.fail(f"{name}: {ending.kind}", ending.detail)


# --- bytes


def _fed(inputs: int, seed: int) -> tuple[str, str]:
    rng, known = random.Random(seed), samples()
    for _ in range(inputs):
        data = _changed(rng, known)
        try:
            feed(data)
        except UntypedError as error:
            return "untyped", f"{error!r} for {data.hex()}"
    return "survived", ""


def _changed(rng: random.Random, known: dict[str, bytes]) -> bytes:
    """Return noise, or whole bytes with a few changes, for one of the targets."""
    name = rng.choice(list(TARGETS))
    data = bytearray(known[name] if rng.random() < 0.9 else rng.randbytes(rng.randrange(300)))
    for _ in range(rng.randint(1, CHANGES_MAX)):
        at, until = sorted(rng.randrange(len(data) + 1) for _ in range(2))
        choice = rng.random()
        if choice < 0.6 and at < len(data):
            data[at] = rng.randrange(256)
        elif choice < 0.8:
            del data[at : min(until, at + 8)]
        else:
            data[at:at] = data[at:until][:64] or rng.randbytes(4)
    return bytes([list(TARGETS).index(name)]) + bytes(data)


def _guided(runs: int, seed: int, scratch: Path) -> Ending:
    corpus = scratch / "corpus"
    corpus.mkdir()
    for number, (name, data) in enumerate(samples().items()):
        (corpus / name).write_bytes(bytes([number]) + data)
    command = [
        sys.executable, "-m", "bench.faults.fuzz_targets", f"-runs={runs}", f"-seed={seed}",
        "-max_len=1024", str(corpus),
    ]  # fmt: skip
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=GUIDED_S_MAX, check=False
    )
    return Ending("survived", "") if done.returncode == 0 else Ending("untyped", done.stderr[-500:])


# --- a store from the future


class OfAnotherShape(msgspec.Struct, array_like=True):
    """No event of any type: a list where events are maps."""

    text: str


class Stranger(NamedTuple):
    """An event that is not understood."""

    what: str
    tag: str
    schema: int


def strangers(counts: Counts) -> list[Stranger]:
    """Return what is tried: all of it, or one in so many."""
    known = event_registry().tags()
    parts = sorted({tag.partition(".")[0] for tag in known})
    found = [
        *(Stranger("unknown type", f"{part}.of_tomorrow", 1) for part in [*parts, "tomorrow"]),
        *(Stranger("unknown schema", tag, known[tag] + 1) for tag in sorted(known)),
        *(Stranger("malformed", tag, known[tag]) for tag in sorted(known)),
    ]
    return found[::QUICK_EVERY] if counts == "quick" else found


def _try_strangers(row: Row, counts: Counts, scratch: Path) -> None:
    whole, store = scratch / "whole", scratch / "store"
    asyncio.run(_made(whole))
    for what, tag, schema in strangers(counts):
        shutil.rmtree(store, ignore_errors=True)
        shutil.copytree(whole, store)
        ending = in_loop(partial(_from_tomorrow, store, what, tag, schema))
        if ending.kind == "survived":
            row.survive(what)
        else:
            row.fail(what, f"{tag} {schema}: {ending}")


async def _made(store: Path) -> None:
    async with example.opened(store) as memory:
        await example.fill(memory)


async def _from_tomorrow(store: Path, what: str, tag: str, schema: int) -> tuple[str, str]:
    event = OfAnotherShape if what == "malformed" else FromTomorrow
    before = await _append(store, event, tag, schema)
    async with example.opened(store, first_id=9_000) as memory:
        ada, ben = memory.user("ada"), memory.user("ben")
        await ben.add("Nobody else notices.", memory_id="unharmed")
        await ben.get("ben fact 2")
        try:
            await ada.get("ada fact 2")
            await ada.add("This must not be written behind what is not understood.")
            return "written", "behind an event that is not understood"
        except UnavailableError:
            pass
        except CorruptLog:  # what it said is not known: nothing is answered, reads included
            if what != "malformed":
                raise
    return ("survived", "") if await _bytes(store) == before else ("changed", "bytes of the event")


async def _append(
    store: Path, event: type[FromTomorrow | OfAnotherShape], tag: str, schema: int
) -> bytes:
    """Append an event that this version does not know to a user's stream; return its bytes."""
    registry = EventRegistry()
    registry.event(tag, schema=schema)(event)
    async with EventLog.open(store, registry) as log:
        stream = stream_of("ada")
        head = await log.head(stream)
        await log.append(stream, [event("hello")], head.version, epoch=head.epoch)
    return await _bytes(store)


async def _bytes(store: Path) -> bytes:
    async with EventLog.open(store, event_registry()) as log:
        version = (await log.head(stream_of("ada"))).version
        parts: Any = log  # the bytes have no public face
        with parts._env.read() as txn:  # noqa: SLF001
            stream = stream_of("ada")
            row: bytes = parts._reading.row(  # noqa: SLF001
                txn, stream, stream_id(stream), version
            )[1]
            return row
