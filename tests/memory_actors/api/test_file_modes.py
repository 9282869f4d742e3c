"""The files of a store can be read by its owner alone, whatever the umask."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.compacting import SHORT, with_a_past

from memory_actors import copy_store, repair_store
from memory_actors.base.api_keys import KeyStore

pytestmark = [pytest.mark.anyio, pytest.mark.user]


@pytest.fixture(autouse=True)
def open_to_all() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def others_may_enter(root: Path) -> list[str]:
    wanted = {True: 0o700, False: 0o600}
    found = {path: stat.S_IMODE(path.stat().st_mode) for path in root.rglob("*")}
    return [f"{p.relative_to(root)} {m:o}" for p, m in found.items() if m != wanted[p.is_dir()]]


@pytest.mark.no_node
@pytest.mark.parametrize("encrypt", [False, True])
async def test_everything_in_a_store_is_for_its_owner_alone(
    open_memory, tmp_path: Path, encrypt: bool
) -> None:
    """Log, archive, indexes, keys, recalls, schedule; and what is made of a store."""
    settings = {"recall_audit": "hashed", "compaction_schedule": "0 3 * * 0"}
    async with open_memory(encrypt=encrypt, summarizer=SHORT, **settings) as memory:
        await with_a_past(memory)
        await memory.compact()
        await memory.user("ada").retrieve("login")
        await memory.backup(tmp_path / "backup", derived=True)
        assert others_may_enter(tmp_path) == []  # some files are only there while it is open
    KeyStore(tmp_path / "memory").create("ada")
    async with open_memory(encrypt=encrypt) as memory:
        await memory.user("ben").add("likes cake")
        await memory.erase("ben")
    made = {path.name for path in (tmp_path / "memory").rglob("*")}
    assert {"log.mdb", "archive", "indexes", "api_keys.json", "recall.key"} <= made
    assert any(name.endswith(".words") for name in made)

    keys = tmp_path / "memory.keys" if encrypt else None
    repair_store(tmp_path / "memory", tmp_path / "repaired", key_file=keys)
    copy_store(tmp_path / "backup", tmp_path / "memory")

    assert others_may_enter(tmp_path) == []


@pytest.mark.no_node
async def test_index_files_left_readable_are_closed(open_memory, tmp_path: Path) -> None:
    """Index files that an earlier version let others read are closed to them."""
    async with open_memory() as memory:
        await memory.user("ada").add("likes tea")
    indexes = tmp_path / "memory" / "indexes"
    indexes.chmod(0o755)
    async with open_memory():
        assert stat.S_IMODE(indexes.stat().st_mode) == 0o700
