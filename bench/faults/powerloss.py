"""Power loss: every acknowledged write survives, whatever the disk has kept of unsynced writes.

Below a process that writes, compacts, archives and shrinks (bench/kill_child.py), every
write and every sync is written down, and what it acknowledges beside them. From that journal, disks
are built as they may be after the power went at any moment (journal.py), and each is opened in a
process of its own, which checks all that bench/kill.py checks, and writes once more. A store may be
refused only if nothing in it was acknowledged: the power went while its file was being made.

The journal is checked for completeness too: all of it, done to an empty disk, must give the very
files that the process has left. LMDB writes to its map only with `writemap`, which is never set
here; the table of readers is mapped, and is left out.
"""

import copy
import itertools
import json
import random
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from bench.faults.journal import Disk, Step, read_journal
from bench.faults.preload import CannotBuild, build, journaled
from bench.faults.row import Counts, Row
from bench.faults.trials import in_loop
from bench.kill import ROOT, Expected, check, command_of
from bench.kill_child import Alike, Beside
from eventlog import EventLogError
from memory_actors import MemorySystem

STATES = {"quick": 5, "middle": 300, "full": 2000}
STATES_A_LIFE = 40
LIVES: tuple[Beside, ...] = ("writing", "compacting", "compacting")
LIFE_BYTES = (500_000, 2_000_000, 6_000_000)  # of writes, until the process ends
LIFE_S_MAX = 60.0
MAPPED = "-lock"


def run(counts: Counts, seed: int, scratch: Path) -> Row:
    """Build disks and open them."""
    row = Row(fault="power loss: any unsynced sectors and names dropped")
    try:
        shared = build(scratch)
    except CannotBuild as error:
        row.skipped = str(error)
        return row
    rng = random.Random(seed)
    wanted = STATES[counts]
    a_life = min(STATES_A_LIFE, max(1, wanted // 3))
    for life in itertools.count():
        if row.tried >= wanted:
            return row
        steps = _journal_of(
            scratch / f"life{life}", shared, seed + life, rng.choice(LIFE_BYTES), LIVES[life % 3]
        )
        _count_what_is_missing(steps, scratch / f"life{life}" / "store", row)
        for disk, expected in _moments(steps, min(a_life, wanted - row.tried), rng):
            _try(disk, expected, scratch, rng, row)
        shutil.rmtree(scratch / f"life{life}")
    raise AssertionError


def _journal_of(
    scratch: Path, shared: Path, seed: int, bytes_max: int, beside: Beside
) -> list[Step]:
    """Let a process live for a while; return what it did to its disk."""
    store, journal = scratch / "store", scratch / "journal"
    store.mkdir(parents=True)
    env = journaled(shared, store, journal, bytes_max)
    command = command_of(store, seed, beside)
    subprocess.run(command, stdout=subprocess.DEVNULL, cwd=ROOT, env=env, timeout=LIFE_S_MAX)
    return list(read_journal(journal))


def _count_what_is_missing(steps: list[Step], store: Path, row: Row) -> None:
    """Compare the files with what the whole journal makes of an empty disk."""
    disk = Disk()
    for step in steps:
        disk.do(step)
    made = disk.everything()
    for path in store.rglob("*"):
        if path.is_file() and not path.name.endswith(MAPPED):
            row.count("files compared with the journal")
            if made.get(path) != path.read_bytes():
                row.fail("not in the journal", str(path))
    row.count("records", len(steps))


def _moments(steps: list[Step], count: int, rng: random.Random) -> Iterator[tuple[Disk, Expected]]:
    """Yield the disk at moments in order, with the acknowledged writes so far."""
    at = sorted(rng.randrange(len(steps)) for _ in range(count))
    disk, expected, done, said = Disk(), Expected(), 0, b""
    for moment in at:
        for step in steps[done : moment + 1]:
            disk.do(step)
        done = moment + 1
        lines = (said + b"".join(disk.marks)).split(b"\n")
        disk.marks.clear()
        said = lines.pop()
        for line in lines:
            expected.take(json.loads(line))
        yield disk, expected


def _try(disk: Disk, expected: Expected, scratch: Path, rng: random.Random, row: Row) -> None:
    state, store = disk.after_power_loss(rng), scratch / "state"
    original = next((path for path in state if path.name == "log.mdb"), None)
    shutil.rmtree(store, ignore_errors=True)
    store.mkdir()
    for path, content in state.items():
        if not path.name.endswith(MAPPED):
            target = store / Path(*path.parts[path.parts.index("store") + 1 :])
            target.parent.mkdir(exist_ok=True)
            target.write_bytes(content)
    row.count("acknowledged, checked", expected.acknowledged)
    row.count("bytes unsynced", disk.pending_bytes())
    ending = in_loop(lambda: _examine(store, copy.deepcopy(expected)))
    if ending.kind == "survived":
        row.survive("stores without a log yet" if original is None else "opened")
    elif ending.kind == "refused" and not expected.acknowledged:
        row.survive("refused, with nothing acknowledged in it")
    else:
        lost = int(ending.detail.split()[0]) if ending.kind == "lost" else 0
        had = " ".join(sorted(f"{path.name} {len(content)}" for path, content in state.items()))
        lost = lost or len(expected.content)
        row.fail(ending.kind, f"{ending.detail} (the disk had {had})", lost=lost)


async def _examine(store: Path, expected: Expected) -> tuple[str, str]:
    try:
        lost, damaged, diverged, _ = await check(store, expected)
    except EventLogError as error:
        return "refused", str(error)
    if lost or damaged or diverged:
        return "lost" if lost else "damaged", f"{lost} lost, {damaged} damaged, {diverged} diverged"
    async with MemorySystem.open(store, embedder=Alike(), alerts=[]) as memory:
        user = memory.user("after the power came back")
        receipt = await user.add("It works again.")
        if (await user.get(receipt.memory_id)).content != "It works again.":
            return "wrong", "what is written afterwards is not there"
    return "survived", ""
