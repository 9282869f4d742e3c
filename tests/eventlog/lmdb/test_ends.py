"""What the writer knows of the ends of streams is what the file says."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from contracts.stores import Noted, registry

from eventlog import DiskFull, EventLog, StorageFailed
from eventlog.lmdb import ledger as ends

pytestmark = pytest.mark.anyio


@pytest.fixture
async def log(tmp_path: Path) -> AsyncIterator[EventLog]:
    async with EventLog.open(tmp_path / "log", registry) as log:
        yield log


@pytest.mark.parametrize("failure", [DiskFull("no room"), StorageFailed("the disk broke")])
async def test_ends_that_a_failed_commit_has_put_are_forgotten(
    log: EventLog, monkeypatch: pytest.MonkeyPatch, failure: Exception
):
    await log.append("a", [Noted("one")], 0)
    with monkeypatch.context() as patched:
        patched.setattr(type(log._env), "check_room", _failing(failure))
        with pytest.raises(type(failure)):
            await log.append("a", [Noted("lost")], 1)

    appended = await log.append("a", [Noted("two")], 1)

    assert (appended.last_version, appended.last_position) == (2, 2)
    assert (await log.verify()).ok


async def test_more_streams_than_are_kept_in_memory_all_go_on(
    log: EventLog, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(ends, "ENDS_MAX", 3)
    for version in range(3):
        for stream in "abcde":
            await log.append(stream, [Noted("again")], version)
    await log.shrink()
    for stream in "abcde":
        await log.append(stream, [Noted("again")], 3)
    assert (await log.verify()).ok


def _failing(failure: Exception):
    def fail(*_: object, **__: object) -> None:
        raise failure

    return fail
