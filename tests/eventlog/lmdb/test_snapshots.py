"""Snapshots: derived data that is used when it is whole, and ignored when it is not."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from contracts.stores import Counted, registry

from eventlog import Environment, EventLog, Snapshot
from eventlog.core import frame
from eventlog.core.rows import U64
from eventlog.lmdb.tables import TABLES

pytestmark = pytest.mark.anyio


async def make(path: Path, *versions: int) -> None:
    async with EventLog.open(path, registry) as log:
        await log.append("s", [Counted(n) for n in range(9)], 0)
        for version in versions:
            await log.save_snapshot("s", Snapshot(version, b"state %d" % version), "f")


def damage(path: Path, version: int, change: Callable[[bytes], bytes]) -> None:
    env = Environment(path / "log.mdb", TABLES)
    key = frame.stream_id("s") + U64.pack(version)

    def put(txn: Any) -> None:
        table = txn.tables["snapshots"]
        txn.put(key, change(txn.get(key, db=table)), db=table)

    env.write(put)
    env.close()


def flipped(data: bytes) -> bytes:
    return data[:-1] + bytes([data[-1] ^ 1])


DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "a flipped bit": flipped,
    "cut short": lambda data: data[:-3],
    "cut to nothing": lambda _data: b"",
    "no record": lambda _data: U64.pack(7) * 4,
    "a flipped checksum": lambda data: bytes([data[0] ^ 1]) + data[1:],
}


async def load(path: Path, fingerprint: str = "f") -> Snapshot | None:
    async with EventLog.open(path, registry) as log:
        return await log.load_snapshot("s", fingerprint)


@pytest.mark.parametrize("kind", DAMAGE)
async def test_a_damaged_snapshot_gives_way_to_the_one_before_it(tmp_path: Path, kind: str):
    await make(tmp_path, 3, 6)
    damage(tmp_path, 6, DAMAGE[kind])

    assert await load(tmp_path) == Snapshot(3, b"state 3")


async def test_a_late_old_snapshot_pushes_out_no_newer(tmp_path: Path):
    await make(tmp_path, 6, 7, 2)

    assert await load(tmp_path) == Snapshot(7, b"state 7")
