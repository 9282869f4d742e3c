"""The model of a disk that loses its power, and what the log syncs before it acknowledges."""

import random
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from bench.faults.journal import SECTOR_BYTES, Disk, Op, Step, read_journal
from bench.faults.preload import CannotBuild, build, journaled

FILE, OTHER = Path("/store/log.mdb"), Path("/store/new")
ENOUGH = 200
WRITER = """
import asyncio, os, sys
from pathlib import Path
from eventlog import EventLog, EventRegistry
import msgspec
registry = EventRegistry()
@registry.event("test.noted")
class Noted(msgspec.Struct, frozen=True):
    text: str
async def main():
    async with EventLog.open(Path(sys.argv[1]), registry) as log:
        await log.append("a", [Noted("hello")], 0)
        os.write(1, b"acknowledged")
asyncio.run(main())
"""


def create(file: int, path: Path) -> Step:
    return Step(Op.CREATE, False, file, 0, bytes(path) + b"\0")


def write(file: int, offset: int, data: bytes, *, durable: bool = False) -> Step:
    return Step(Op.WRITE, durable, file, offset, data)


def sync(file: int) -> Step:
    return Step(Op.SYNC, False, file, 0, b"")


SYNC_STORE = Step(Op.SYNC_DIR, False, 0, 0, bytes(FILE.parent) + b"\0")


def disk(*steps: Step) -> Disk:
    made = Disk()
    for step in steps:
        made.do(step)
    return made


def states(made: Disk) -> list[dict[Path, bytes]]:
    return [made.after_power_loss(random.Random(seed)) for seed in range(ENOUGH)]


def test_what_was_synced_is_always_there() -> None:
    made = disk(create(1, FILE), write(1, 0, b"data"), sync(1), SYNC_STORE)

    assert all(state == {FILE: b"data"} for state in states(made))


def test_unsynced_sectors_are_there_or_not_independently() -> None:
    """Sectors that were not synced are there or not, each for itself."""
    old, new = b"o" * 2 * SECTOR_BYTES, b"n" * 2 * SECTOR_BYTES
    made = disk(create(1, FILE), write(1, 0, old), sync(1), SYNC_STORE, write(1, 0, new))

    found = {state[FILE][::SECTOR_BYTES] for state in states(made)}

    assert found == {b"oo", b"on", b"no", b"nn"}


def test_a_syncing_descriptors_write_is_there_alone() -> None:
    made = disk(
        create(1, FILE), SYNC_STORE, write(1, 0, b"x" * SECTOR_BYTES),
        write(1, SECTOR_BYTES, b"y", durable=True),
    )  # fmt: skip

    found = {state[FILE] for state in states(made)}

    assert found == {bytes(SECTOR_BYTES) + b"y", b"x" * SECTOR_BYTES + b"y"}


def test_a_name_is_sure_after_its_directory_synced() -> None:
    made = disk(create(1, FILE), write(1, 0, b"data"), sync(1))
    assert {FILE in state for state in states(made)} == {True, False}

    made.do(SYNC_STORE)
    assert {FILE in state for state in states(made)} == {True}


def test_a_rename_leaves_the_old_file_or_the_new_one() -> None:
    made = disk(
        create(1, FILE), write(1, 0, b"old"), sync(1),
        create(2, OTHER), write(2, 0, b"new"), sync(2), SYNC_STORE,
        Step(Op.RENAME, False, 0, 0, bytes(OTHER) + b"\0" + bytes(FILE) + b"\0"),
    )  # fmt: skip

    assert {state[FILE] for state in states(made)} == {b"old", b"new"}


def test_a_record_that_was_cut_off_is_left_out(tmp_path: Path) -> None:
    whole = struct.pack("=IIQQQ", Op.WRITE, 0, 1, 0, 4) + b"data"
    (tmp_path / "journal").write_bytes(whole + whole[:-1])

    assert [step.data for step in read_journal(tmp_path / "journal")] == [b"data"]


@pytest.fixture(scope="module")
def steps(tmp_path_factory: pytest.TempPathFactory) -> list[Step]:
    """The steps on disk of a process that makes a log and appends to it."""
    scratch = tmp_path_factory.mktemp("journal")
    try:
        shared = build(scratch)
    except CannotBuild as error:
        pytest.skip(str(error))
    (scratch / "root").mkdir()
    env = journaled(shared, scratch / "root", scratch / "journal", 1 << 30)
    env["PYTHONPATH"] = str(Path(__file__).parents[2])
    store = scratch / "root" / "made" / "store"
    command = [sys.executable, "-c", WRITER, str(store)]
    subprocess.run(command, env=env, check=True, capture_output=True, timeout=60)
    return list(read_journal(scratch / "journal"))


def test_a_named_log_is_on_disk_before_acknowledging(
    steps: list[Step],
) -> None:
    acknowledged = next(n for n, step in enumerate(steps) if step.op is Op.MARK)
    made = disk(*steps[: acknowledged + 1])

    for state in states(made):
        assert [path for path in state if path.name == "log.mdb" and state[path]]


def test_the_journal_sees_every_write_of_a_log(steps: list[Step]) -> None:
    made = disk(*steps).everything()

    files = {path for path in made if path.exists() and not path.name.endswith("-lock")}
    assert {path.name for path in files} == {"log.mdb", "log.mdb.lock", "log.anchor"}
    assert all(path.read_bytes() == made[path] for path in files)
