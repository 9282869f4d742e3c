"""Clients that freeze or die, and connections that are lost: nobody waits, nothing is lost."""

import asyncio
import os
import random
import signal
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest
from contracts.stores import Noted, registry
from support.postgres import Server, fresh_url, server
from support.proxy import Harm, Proxy

from eventlog import ANY_VERSION, LogUnavailable, StorageFailed

pytestmark = pytest.mark.anyio
AWAY_S = 3.5  # a pool that doubles its pauses looks after 1, 3 and 7 s
BACK_S_MAX = 2.5

CALL = b"append_batch"
SOON_S = 5  # far below every timeout that would let others go on


@asynccontextmanager
async def through(url: str) -> AsyncIterator[tuple]:
    """Yield a store behind a proxy, and the proxy."""
    from eventlog import PgEventStore

    async with Proxy(server().port) as proxy:
        behind = url.replace(f":{server().port}/", f":{proxy.port}/")
        async with PgEventStore.open(behind, registry) as store:
            yield store, proxy


async def texts(url: str) -> list[str]:
    """Return the texts of all events, once positions and versions have no gaps."""
    from eventlog import PgEventStore

    async with PgEventStore.open(url, registry) as store:
        events = await store.read_all(0, 100_000)
        versions: Counter[str] = Counter()
        for position, event in enumerate(events, 1):
            versions[event.stream] += 1
            assert (event.position, event.version) == (position, versions[event.stream])
        return [event.data.text for event in events]


# --- lost connections


@pytest.mark.parametrize("harm", ["lose the request", "lose the answer"])
async def test_an_append_whose_connection_is_lost_lands_once(url: str, harm: Harm):
    async with through(url) as (store, proxy):
        await store.append("s", [Noted("a")], 0, counters={"n": 1})
        proxy.do(harm, CALL)

        results = await asyncio.gather(
            store.append("s", [Noted("b"), Noted("c")], 1, counters={"n": 2}),
            store.append("t", [Noted("d")], ANY_VERSION, idempotency_key="k"),
        )

        assert proxy.done.is_set()
        assert [(one.first_version, one.last_position) for one in results] == [(2, 3), (1, 4)]
        assert store.totals_nowait() == await store.totals() == {"n": 3}
        assert (await store.append("s", [Noted("e")], 3)).last_position == 5
    assert await texts(url) == ["a", "b", "c", "d", "e"]


@pytest.mark.parametrize("harm", ["lose the request", "lose the answer"])
async def test_a_connection_that_is_lost_while_a_store_is_opened_is_a_typed_error(
    url: str, harm: Harm
):
    from eventlog import PgEventStore

    async with Proxy(server().port) as proxy:
        behind = url.replace(f":{server().port}/", f":{proxy.port}/")
        proxy.do(harm, b"DELETE FROM node")
        with pytest.raises(LogUnavailable, match="try again"):
            async with PgEventStore.open(behind, registry):
                pass
        async with PgEventStore.open(behind, registry) as store:
            await store.append("s", [Noted("a")], 0)
    assert await texts(url) == ["a"]


async def test_a_refused_append_beside_a_lost_answer_is_refused(url: str):
    async with through(url) as (store, proxy):
        await store.append("s", [Noted("a")], 0)
        proxy.do("lose the answer", CALL)

        landed, refused = await asyncio.gather(
            store.append("t", [Noted("b")], 0),
            store.append("s", [Noted("c")], 7),
            return_exceptions=True,
        )

        assert landed.last_position == 2
        assert refused.actual == 1


@pytest.mark.parametrize("harm", ["lose the request", "lose the answer"])
@pytest.mark.parametrize("lost", [CALL, b"INSERT INTO node"])
async def test_appends_land_once_while_the_node_takes_another_row(
    url: str, monkeypatch: pytest.MonkeyPatch, harm: Harm, lost: bytes
):
    """A connection is lost in a batch, or in the joining that follows after every second one."""
    from eventlog.postgres import calls

    monkeypatch.setattr(calls, "ROW_BATCHES_MAX", 2)
    async with through(url) as (store, proxy):
        for version in range(12):
            if version % 4 == 2:
                proxy.done.clear()
                proxy.do(harm, lost)
            await store.append("s", [Noted(str(version))], version)
        assert proxy.done.is_set()
        [[rows]] = await store._database.run("SELECT count(*) FROM node")
        assert rows == 1
    assert await texts(url) == [str(version) for version in range(12)]


@pytest.mark.parametrize("seed", [1, 2])
async def test_under_many_lost_connections_all_land_once(url: str, seed: int):
    """Two stores append to the same streams while their connections are lost in every way."""
    rng, acknowledged, harms = random.Random(seed), [], 40
    async with through(url) as (one, first), through(url) as (other, second):
        harming = asyncio.gather(*(harm_often(proxy, rng, harms) for proxy in (first, second)))

        async def write(store, name: str) -> None:
            while not harming.done():
                text = f"{name}-{len(acknowledged)}"
                stream = rng.choice(["all", name])
                await store.append(stream, [Noted(text)], ANY_VERSION, counters={"n": 1})
                acknowledged.append(text)

        writers = [
            (store, f"{n}{name}") for store, name in ((one, "a"), (other, "b")) for n in "123"
        ]
        await asyncio.gather(harming, *(write(*writer) for writer in writers))
        assert await one.totals() == await other.totals() == {"n": len(acknowledged)}
        assert (await one.verify()).ok
    assert sorted(await texts(url)) == sorted(acknowledged)


async def harm_often(proxy: Proxy, rng: random.Random, times: int) -> None:
    for _ in range(times):
        await asyncio.sleep(rng.random() / 50)
        harm = rng.choice(["cut", "lose the answer", "lose the request"])
        proxy.done.clear()
        if harm == "cut":
            proxy.cut()
        else:
            proxy.do(harm, CALL)


async def test_an_outcome_that_nobody_can_know_is_said_to_be_unknown(url: str, monkeypatch):
    from eventlog.postgres import calls

    async with through(url) as (store, proxy):
        await store.append("s", [Noted("a")], 0)
        monkeypatch.setattr(calls, "PATIENCE_S", 0.3)
        proxy.do("lose the answer", CALL)
        proxy.is_away = True

        with pytest.raises(StorageFailed, match="unknown"):
            await store.append("s", [Noted("b")], 1)

        proxy.is_away = False
        assert (await store.append("s", [Noted("c")], ANY_VERSION)).last_version == 3
    assert await texts(url) == ["a", "b", "c"]


async def test_a_read_goes_on_behind_a_lost_connection(url: str):
    async with through(url) as (store, proxy):
        await store.append("s", [Noted("a")], 0)
        proxy.cut()

        assert [event.data.text for event in await store.read_stream("s")] == ["a"]
        waiting = asyncio.create_task(store.wait_beyond(1))
        await store.append("s", [Noted("b")], 1)
        with anyio.fail_after(10):
            assert await waiting == 2


async def test_reads_go_on_at_once_when_a_database_comes_back_that_was_away_for_long(url: str):
    """However many wait: the pool does not look for it at growing intervals."""
    async with through(url) as (store, proxy):
        await store.append("s", [Noted("a")], 0)
        proxy.is_away = True
        proxy.cut()
        reads = [asyncio.create_task(store.read_stream("s")) for _ in range(20)]
        await asyncio.sleep(AWAY_S)
        proxy.is_away = False

        with anyio.fail_after(BACK_S_MAX):
            for read in reads:
                assert [event.data.text for event in await read] == ["a"]


async def test_a_server_that_crashes_and_comes_back_has_all_that_was_acknowledged():
    from eventlog import PgEventStore

    own, acknowledged = None, []
    server()  # or skip
    own = await asyncio.to_thread(Server)
    try:
        async with PgEventStore.open(own.url, registry) as store:

            async def write(name: str) -> None:
                for n in range(40):
                    await store.append(name, [Noted(f"{name} {n}")], n)
                    acknowledged.append(f"{name} {n}")

            writing = asyncio.gather(*(write(f"s{n}") for n in range(5)))
            while len(acknowledged) < 50:
                await asyncio.sleep(0.001)
            await asyncio.to_thread(own.stop)
            await asyncio.to_thread(own.start)
            await writing
        assert len(acknowledged) == 200
        assert sorted(await texts(own.url)) == sorted(acknowledged)
    finally:
        await asyncio.to_thread(own.remove)


# --- frozen clients


@pytest.mark.parametrize("harm", ["hold back its end", "hold back the answer"])
async def test_a_client_frozen_in_a_call_holds_up_nobody(url: str, harm: Harm):
    """One message of the call, or its answer, does not come: as if the client had stopped there."""
    from eventlog import PgEventStore

    async with through(url) as (frozen, proxy), PgEventStore.open(url, registry) as store:
        proxy.do(harm, CALL)
        held = asyncio.create_task(frozen.append("s", [Noted("held")], 0))
        await proxy.done.wait()

        try:
            with anyio.fail_after(SOON_S):
                for version in range(5):
                    await store.append("t", [Noted(str(version))], version)
                await store.acquire("s", 3)
        finally:
            proxy.released.set()  # else closing the stores waits for what is held up
        assert (await held).last_version == 1
    assert sorted(await texts(url)) == ["0", "1", "2", "3", "4", "held"]


class Child:
    """A process that appends (child.py)."""

    def __init__(self, process: asyncio.subprocess.Process):
        self._process = process
        self.acknowledged: list[str] = []
        self._reading = asyncio.create_task(self._read())

    @classmethod
    async def start(cls, url: str, name: str) -> "Child":
        here = Path(__file__).parent
        path = os.pathsep.join([str(here.parents[1]), str(here.parents[2])])
        process = await asyncio.create_subprocess_exec(
            sys.executable, here / "child.py", url, name,
            stdout=asyncio.subprocess.PIPE, env=os.environ | {"PYTHONPATH": path},
        )  # fmt: skip
        child = cls(process)
        with anyio.fail_after(60):
            while not child.acknowledged:
                await asyncio.sleep(0.01)
        return child

    async def _read(self) -> None:
        assert self._process.stdout is not None
        while line := await self._process.stdout.readline():
            if line.endswith(b"\n"):
                self.acknowledged.append(line.decode().strip())

    def send(self, number: int) -> None:
        self._process.send_signal(number)

    async def kill(self) -> None:
        """Kill it, and read what it has said."""
        self.send(signal.SIGKILL)
        await self._process.wait()
        await self._reading


async def test_a_process_stopped_at_any_moment_holds_up_nobody():
    from eventlog import PgEventStore

    url, rng = fresh_url(), random.Random(7)
    child = await Child.start(url, "child")
    try:
        async with PgEventStore.open(url, registry) as store:
            for version in range(15):
                await asyncio.sleep(rng.random() / 50)
                child.send(signal.SIGSTOP)
                try:
                    with anyio.fail_after(SOON_S):
                        await store.append("s", [Noted(f"s-{version}")], version)
                        await store.append("of all", [Noted(f"s-{version} again")], ANY_VERSION)
                finally:
                    child.send(signal.SIGCONT)  # else closing the store waits for it
    finally:
        await child.kill()
    await check_all_there(url, child)


async def check_all_there(url: str, *children: Child) -> None:
    found = Counter(await texts(url))
    assert set(found.values()) == {1}
    for child in children:
        for text in child.acknowledged:
            assert found[text] == found[f"{text} again"] == 1
