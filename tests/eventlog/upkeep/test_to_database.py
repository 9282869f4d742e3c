"""Copying a log to a database: all of it is there, also after kills, and nothing twice."""

import os
import random
import select
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from contracts.stores import Counted, Noted, registry
from support.postgres import fresh_url, server

from eventlog import (
    ANY_VERSION,
    Checkpoint,
    EncryptionMismatch,
    EventLog,
    EventStore,
    LogUnavailable,
    PgEventStore,
    Snapshot,
    WrongExpectedVersion,
)
from eventlog.keys import keyfile
from eventlog.postgres import database
from eventlog.upkeep import to_database

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).parents[3]
STREAMS = ["ada", "b\0b", "ünï", "gone", "back"]
KILLS = 10
CHILD = """
import asyncio, sys
sys.path[:0] = [{tests!r}, {root!r}]
from contracts.stores import registry
from eventlog import EventLog
from eventlog.upkeep import to_database

async def main() -> None:
    to_database.BYTES_AT_ONCE = 32 << 10
    async with EventLog.open(sys.argv[1], registry) as log:
        print("go", flush=True)
        await log.copy_to(sys.argv[2], settings={{"one": b"1"}})

asyncio.run(main())
"""


@pytest.fixture
def url() -> str:
    return fresh_url()


def ticking() -> Any:
    times = iter(range(10**15, 10**16))
    return lambda: next(times)


async def filled(directory: Path, events: int = 60) -> None:
    """Make a log with something of all that a log can have."""
    async with EventLog.open(directory, registry, clock=ticking()) as log:
        for number in range(events):
            stream = STREAMS[number % len(STREAMS)]
            long = "x" * 3_000 if number % 7 == 0 else f"{number}"
            await log.append(
                stream,
                [Noted(f"{number} {long}", about=(f"m{number}", "all")), Counted(number)],
                ANY_VERSION,
                idempotency_key=f"key {number}", request=b"%d" % number, meta={"by": "me"},
                counters={"events": 2, "bytes": len(long)},
                checkpoint=Checkpoint(f"p {stream}", number, {b"at\0": b"%d" % number}),
            )  # fmt: skip
        await log.acquire("ada", 7)
        await log.acquire("never", 3)
        await log.save_snapshot("ada", Snapshot(10, b"state"), "schema")
        await log.save_checkpoint(Checkpoint("watcher", 2**64 - 1, {b"": b"entry"}))
        await log.archive("ada", [1, 2, 3, 7])
        await log.drop_archived(2**62, "ada")
        await log.archive("ada", [4, 5, 8])
        await log.archive("back", [1, 2])
        for stream in ("gone", "back"):
            await log.erase(stream, counted={"events": 24}, projections=[f"p {stream}"])
        await log.append(
            "back", [Noted("again", about=("m", "all"))], ANY_VERSION, idempotency_key="key 4"
        )


async def told(store: EventStore) -> dict[str, Any]:
    """Return all that a store can be asked for."""
    log: Any = store
    events = await log.read_all(limit=10**6, dropped="mark")
    names = [*STREAMS, "never"]
    heads = await log.heads()
    return {
        "events": events,
        "of streams": {name: await log.read_stream(name, dropped="mark") for name in names},
        "streams": sorted(await log.streams()),
        "heads": (heads.position, heads.digest, heads.streams),
        "head of": {name: await log.head(name) for name in names},
        "totals": await log.totals(),
        "about": {name: await log.versions_about(name, "all") for name in names},
        "requests": [
            await log.find_request(STREAMS[number % 5], f"key {number}", b"%d" % number)
            for number in range(60)
            if number != 4
        ],
        "snapshot": await log.load_snapshot("ada", "schema"),
        "checkpoints": {n: await log.load_checkpoint(f"p {n}") for n in names},
        "entries": {n: await log.load_entry(f"p {n}", b"at\0") for n in names},
        "watcher": (await log.load_checkpoint("watcher"), await log.load_entry("watcher", b"")),
    }


def files_of(directory: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in directory.rglob("*")
        if path.is_file() and path.name != "log.mdb.lock"
    }


async def test_all_of_a_log_is_copied_and_the_log_is_not_changed(tmp_path, url):
    await filled(tmp_path / "log")
    seen: list[tuple[int, int]] = []
    async with EventLog.open(tmp_path / "log", registry) as log:
        before, files = await told(log), files_of(tmp_path / "log")
        done = await log.copy_to(
            url, settings={"one": b"1"}, progress=lambda *one: seen.append(one)
        )
        assert files_of(tmp_path / "log") == files

    async with PgEventStore.open(url, registry) as moved:
        assert await told(moved) == before
        report = await moved.verify()
        assert report.ok
        assert (report.archived_events, report.dropped_events) == (3, 4)
        assert await moved.load_setting("one") == b"1"
        await moved.append("ada", [Noted("more")], before["head of"]["ada"].version, epoch=7)
        with pytest.raises(WrongExpectedVersion):
            await moved.append("ünï", [Noted("more")], 0)
        assert (await moved.drop_archived(2**62)).events == 3
    assert done.position == 121
    assert seen[-1] == (242, 242)
    assert seen == sorted(seen)


async def test_a_schema_that_has_a_store_is_refused_and_left_alone(tmp_path, url):
    await filled(tmp_path / "log")
    async with PgEventStore.open(url, registry) as there:
        await there.append("s", [Noted("mine")], 0)
        async with EventLog.open(tmp_path / "log", registry) as log:
            with pytest.raises(LogUnavailable, match="there is a store in schema"):
                await log.copy_to(url, settings={})
        assert [one.data.text for one in await there.read_all()] == ["mine"]
    async with PgEventStore.open(url, registry) as there:
        assert len(await there.read_all()) == 1


class Stopped(Exception):
    """A copy is cut off."""


async def cut_off(log: EventLog, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Begin a copy, and stop it in the middle of the events."""

    def stop(done: int, _total: int) -> None:
        if done >= 40:
            raise Stopped

    monkeypatch.setattr(to_database, "BYTES_AT_ONCE", 80 << 10)
    with pytest.raises(Stopped):
        await log.copy_to(url, settings={}, progress=stop)


async def test_the_target_is_no_store_until_the_copy_is_whole(tmp_path, url, monkeypatch):
    """A copy that was cut off starts anew, also of a log that was written to since."""
    await filled(tmp_path / "log")
    async with EventLog.open(tmp_path / "log", registry) as log:
        await cut_off(log, url, monkeypatch)
        with pytest.raises(LogUnavailable, match="run `memory-actors copy` again"):
            async with PgEventStore.open(url, registry):
                pass
        await log.append("ada", [Noted("more")], ANY_VERSION, epoch=7)
        await log.copy_to(url, settings={})
        before = await told(log)
    async with PgEventStore.open(url, registry) as moved:
        assert await told(moved) == before


@pytest.mark.parametrize("where", ["between two chunks", "within a chunk"])
async def test_a_database_that_freezes_is_not_waited_for(tmp_path, url, monkeypatch, where):
    await filled(tmp_path / "log")
    frozen: list[int] = []
    real_connected, real_copy = to_database.connected, to_database.copy_rows

    @asynccontextmanager
    async def connected(*given: Any) -> AsyncIterator[Any]:
        async with real_connected(*given) as connection:
            frozen.append(connection.info.backend_pid)
            yield connection

    async def copy_rows(connection: Any, target: str, rows: Any) -> None:
        await real_copy(connection, target, rows)
        if where == "within a chunk":
            os.kill(frozen[0], signal.SIGSTOP)

    def freeze(_done: int, _total: int) -> None:
        if where == "between two chunks":
            os.kill(frozen[0], signal.SIGSTOP)

    async with EventLog.open(tmp_path / "log", registry) as log:
        before = await told(log)
        with monkeypatch.context() as patched:
            patched.setattr(to_database, "connected", connected)
            patched.setattr(to_database, "copy_rows", copy_rows)
            patched.setattr(to_database, "BYTES_AT_ONCE", 80 << 10)
            patched.setattr(database, "ANSWER_S", 0.5)
            try:
                with pytest.raises(LogUnavailable, match="run the copy again"):
                    await log.copy_to(url, settings={}, progress=freeze)
            finally:
                os.kill(frozen[0], signal.SIGCONT)
        await log.copy_to(url, settings={})
    async with PgEventStore.open(url, registry) as moved:
        assert await told(moved) == before


async def test_what_came_out_wrong_is_no_store(tmp_path, url, monkeypatch):
    """The target is verified, event by event, before anybody can open it."""
    await filled(tmp_path / "log")
    real = to_database.CopyToDatabase._event

    def wrong(self: Any, txn: Any, key: bytes, data: bytes) -> Any:
        for target, (position, *ids, header, payload, gone) in real(self, txn, key, data):
            if position == 6:
                payload = payload[:-1] + bytes([payload[-1] ^ 1])
            yield target, (position, *ids, header, payload, gone)

    monkeypatch.setattr(to_database.CopyToDatabase, "_event", wrong)
    async with EventLog.open(tmp_path / "log", registry) as log:
        with pytest.raises(Exception, match="the copy is not what is in the source"):
            await log.copy_to(url, settings={})
    with pytest.raises(LogUnavailable):
        async with PgEventStore.open(url, registry):
            pass


async def test_an_encrypted_log_is_not_opened_for_it(tmp_path):
    with keyfile.opened(tmp_path / "keys") as keys:
        async with EventLog.open(tmp_path / "log", registry, keys=keys) as log:
            await log.append("s", [Noted("secret")], 0)
    with pytest.raises(EncryptionMismatch):
        async with EventLog.open(tmp_path / "log", registry):
            pass


async def test_a_copy_that_is_killed_again_and_again_loses_and_doubles_nothing(tmp_path):
    """It is killed ten times, whatever it was doing, and run again until it is whole."""
    await filled(tmp_path / "log", events=400)
    async with EventLog.open(tmp_path / "log", registry) as log:
        before = await told(log)
    chance, kills = random.Random(20), 0
    url, longest_s = fresh_url(), 0.5
    while kills < KILLS:
        if killed(tmp_path / "log", url, chance.uniform(0, longest_s)):
            kills += 1
            continue
        await same(url, before)
        url, longest_s = f"{server().url}?schema=moved_{kills}_{chance.random()}", longest_s / 2
    assert not killed(tmp_path / "log", url, 60)
    await same(url, before)


def killed(directory: Path, url: str, after_s: float) -> bool:
    """Run a copy and kill it so long after it began; say whether it was not whole by then."""
    code = CHILD.format(tests=str(ROOT / "tests"), root=str(ROOT))
    command = [sys.executable, "-c", code, str(directory), url]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"go\n"
        has_ended, _, _ = select.select([process.stdout], [], [], after_s)
        if has_ended:  # or been refused, if the last one was killed when it was whole
            process.wait(30)
        process.kill()
        return not has_ended


async def same(url: str, before: dict[str, Any]) -> None:
    async with PgEventStore.open(url, registry) as moved:
        assert await told(moved) == before
        assert (await moved.verify()).ok
        assert await moved.load_setting("one") == b"1"
