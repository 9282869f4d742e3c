"""Verification of a closed store in a process of its own."""

import mmap
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from eventlog import Environment, LogLocked, LogUnavailable
from eventlog.core.rows import seal_record, unseal_record
from eventlog.lmdb.ledger import ROW, TotalsRecord
from eventlog.lmdb.tables import (
    TABLES,
    SnapshotRecord,
)
from memory_actors import Item, MemorySystem, verify_store
from memory_actors.base.compressing import decompressed

pytestmark = pytest.mark.anyio
READ_ONLY = """
mount --bind "$1" "$1" && mount -o remount,ro,bind "$1" && ! touch "$1/x" 2>/dev/null || exit 77
exec "$2" -c "from memory_actors import verify_store; print(verify_store('$1').findings)"
"""
NO_MOUNTS = 77


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


@pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts a directory")
@pytest.mark.parametrize("damage", [False, True])
async def test_a_store_on_a_read_only_mount_is_verified(
    open_memory: Any, tmp_path: Path, *, damage: bool
) -> None:
    await filled(open_memory)
    if damage:
        change_rows(tmp_path / "memory", "snapshots", another_state)
    before, temporary = files_of(tmp_path / "memory"), tmp_path / "temporary"
    temporary.mkdir()
    verify = ["unshare", "-m", "bash", "-c", READ_ONLY, "bash", str(tmp_path / "memory")]

    done = subprocess.run(
        [*verify, sys.executable], capture_output=True, text=True, check=False,
        env={**os.environ, "TMPDIR": str(temporary)},
    )  # fmt: skip

    if done.returncode == NO_MOUNTS or "unshare" in done.stderr:
        pytest.skip("this container may not mount")
    assert done.stderr == ""
    assert ("snapshot is not what a replay gives" in done.stdout) is damage
    assert (done.stdout == "[]\n") is not damage
    assert files_of(tmp_path / "memory") == before
    assert list(temporary.iterdir()) == []


@pytest.mark.parametrize("is_open", [False, True])
async def test_a_store_that_nobody_may_write_to_is_copied_while_it_is_closed(
    open_memory: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_open: bool
) -> None:
    """As on a read-only mount of a directory that a process may have open elsewhere."""
    await filled(open_memory)
    copied: list[str] = []
    copyfile = shutil.copyfile
    monkeypatch.setattr(os, "access", lambda *_: False)
    monkeypatch.setattr(
        shutil, "copyfile", lambda *both: copied.append(Path(both[0]).name) or copyfile(*both)
    )
    if not is_open:
        assert verify_store(tmp_path / "memory").findings == []
        assert {"log.mdb", "log.anchor"} <= set(copied)
        return
    async with open_memory(check_replay=False):
        with pytest.raises(LogLocked):
            verify_store(tmp_path / "memory")
    assert copied == []


def files_of(directory: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


async def test_a_snapshot_unlike_its_replay_is_found(open_memory: Any, tmp_path: Path) -> None:
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
        with txn.cursor(txn.tables[table]) as cursor:
            rows = list(cursor)
        for key, value in rows:
            txn.put(key, change(key, value), db=txn.tables[table])

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


async def test_heads_are_compared_on_the_way(open_memory: Any, tmp_path: Path) -> None:
    await filled(open_memory)
    async with MemorySystem.open(tmp_path / "other") as other:
        empty = await other.heads()
    async with open_memory() as memory:
        mine = await memory.heads()

    assert verify_store(tmp_path / "memory", against=mine).ok
    assert verify_store(tmp_path / "memory", against=empty).ok
    assert not verify_store(tmp_path / "other", against=mine).ok
