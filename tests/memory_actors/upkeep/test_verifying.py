"""Verification of a closed store in a process of its own."""

import mmap
from pathlib import Path
from typing import Any

import pytest

from eventlog import Environment, LogLocked, LogUnavailable
from eventlog.core.rows import seal_record, unseal_record
from eventlog.lmdb.ledger import ROW, TotalsRecord
from eventlog.lmdb.snapshots import SnapshotRecord
from eventlog.lmdb.tables import TABLES
from memory_actors import Item, MemorySystem, verify_store
from memory_actors.base.compressing import decompressed

pytestmark = pytest.mark.anyio


async def filled(open_memory: Any) -> None:
    """Leave a store with two users, one of them with a snapshot."""
    async with open_memory(check_replay=False) as memory:
        await memory.user("ada").add_many([Item(content=f"note {n}") for n in range(120)])
        for n in range(120):
            await memory.user("ada").working.set(f"k{n % 7}", n)
        await memory.user("bob").add("rows a boat")


async def test_a_whole_store_has_no_findings(open_memory: Any, tmp_path: Path) -> None:
    """A whole store has no findings, and tells how far it is."""
    await filled(open_memory)
    seen: list[tuple[int, int]] = []

    report = verify_store(tmp_path / "memory", lambda *at: seen.append(at))

    assert (report.findings, report.streams) == ([], 2)
    assert seen[-1] == (report.events, report.events)


async def test_a_store_that_is_open_or_none_is_refused(open_memory: Any, tmp_path: Path) -> None:
    async with open_memory():
        with pytest.raises(LogLocked):
            verify_store(tmp_path / "memory")
    (tmp_path / "file").touch()
    with pytest.raises(LogUnavailable):
        verify_store(tmp_path / "file")


async def test_a_snapshot_unlike_its_replay_is_found(open_memory: Any, tmp_path: Path) -> None:
    """A snapshot that differs from a replay is found."""
    await filled(open_memory)
    change_rows(tmp_path / "memory", "snapshots", another_state)

    (found,) = verify_store(tmp_path / "memory").findings

    assert "snapshot is not what a replay gives" in found.message


def another_state(_key: bytes, value: bytes) -> bytes:
    record = unseal_record(value, SnapshotRecord, "a snapshot")
    state = decompressed(record.data)
    data = state.replace(b"k3", b"k9")
    assert data != state
    return seal_record(SnapshotRecord(record.fingerprint, data))


async def test_totals_that_are_not_the_sum_are_found(open_memory: Any, tmp_path: Path) -> None:
    await filled(open_memory)
    wrong = seal_record(TotalsRecord({"long_term.count": 7}), ROW)
    change_rows(tmp_path / "memory", "meta", lambda key, old: wrong if key == ROW else old)

    (found,) = verify_store(tmp_path / "memory").findings

    assert "the totals are not the sum" in found.message


def change_rows(directory: Path, table: str, change: Any) -> None:
    env = Environment(directory / "log.mdb", TABLES)

    def put(txn: Any) -> None:
        with txn.cursor(env.tables[table]) as cursor:
            rows = list(cursor)
        for key, value in rows:
            txn.put(key, change(key, value), db=env.tables[table])

    env.write(put)
    env.close()


async def test_a_file_that_ends_its_reader_is_a_finding(open_memory: Any, tmp_path: Path) -> None:
    """Pages of noise in the middle of the tree: this process lives on and tells."""
    await filled(open_memory)
    path = tmp_path / "memory" / "log.mdb"
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as data:
        data[3 * 4096 :] = bytes([0x5A]) * (len(data) - 3 * 4096)

    report = verify_store(tmp_path / "memory")

    assert not report.ok


async def test_who_has_died_is_told_by_its_signal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "dies"
    script.write_text("#!/bin/sh\ncat > /dev/null\nkill -BUS $$\n")
    script.chmod(0o700)
    monkeypatch.setattr("sys.executable", str(script))

    (found,) = verify_store(tmp_path).findings

    assert "SIGBUS" in found.message


async def test_heads_are_compared_on_the_way(open_memory: Any, tmp_path: Path) -> None:
    await filled(open_memory)
    async with MemorySystem.open(tmp_path / "other") as other:
        empty = await other.heads()
    async with open_memory() as memory:
        mine = await memory.heads()

    assert verify_store(tmp_path / "memory", against=mine).ok
    assert verify_store(tmp_path / "memory", against=empty).ok
    assert not verify_store(tmp_path / "other", against=mine).ok
