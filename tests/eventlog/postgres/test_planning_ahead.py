"""A batch is planned while the one before is with the database, which may refuse or lose that one.

The proxy holds back what a store and the database say of the first batch until the second one is
planned behind it.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from contracts.stores import Noted, registry
from support.postgres import server
from support.proxy import Harm, Proxy

from eventlog import (
    ANY_VERSION,
    LogUnavailable,
    StorageFailed,
    TotalExceeded,
    WrongExpectedVersion,
)
from eventlog.core import frame

pytestmark = pytest.mark.anyio
CALL = b"append_batch"
CALLERS = 200  # several halves of what waits
SOON_S = 20  # of a store that waits for 30 s for each batch


@asynccontextmanager
async def through(url: str) -> AsyncIterator[tuple[Any, Proxy]]:
    """Yield a store behind a proxy, which has the event "first" in stream "s"."""
    from eventlog import PgEventStore

    async with Proxy(server().port) as proxy:
        behind = url.replace(f":{server().port}/", f":{proxy.port}/")
        async with PgEventStore.open(behind, registry) as store:
            await store.append("s", [Noted("first")], 0)
            yield store, proxy


async def begun(work: Awaitable[Any], has_come: Callable[[], Any]) -> "asyncio.Future[Any]":
    """Start work, and return it once it has come so far."""
    started = asyncio.ensure_future(work)
    with anyio.fail_after(5):
        while not has_come():
            await asyncio.sleep(0)
    return started


async def planned_behind(store: Any, append: Awaitable[Any]) -> "asyncio.Future[Any]":
    """Start an append, and return it when it is planned behind the batch that is on its way."""
    return await begun(append, lambda: store._writer._ahead.jobs)  # nothing else tells of a plan


async def sent(store: Any, append: Awaitable[Any]) -> "asyncio.Future[Any]":
    """Start an append, and return it when it is on its way."""
    return await begun(append, lambda: store._writer._on_its_way)


async def at_once(*appends: Awaitable[Any]) -> list[Any]:
    return await asyncio.gather(*appends, return_exceptions=True)


async def texts(store: Any, stream: str = "s", after: int = 0) -> list[str]:
    return [event.data.text for event in await store.read_stream(stream, after)]


async def test_what_was_planned_ahead_lands_behind_the_batch_before_it(url):
    async with through(url) as (store, proxy):
        proxy.do("hold back the answer", CALL)
        first = asyncio.ensure_future(store.append("s", [Noted("a")], 1))
        await proxy.done.wait()
        second = await planned_behind(store, store.append("s", [Noted("b")], 2))
        stale = asyncio.ensure_future(store.append("s", [Noted("c")], 1))
        await asyncio.sleep(0.05)
        assert not first.done()
        assert not second.done()
        assert not stale.done()  # it rests on the first as well, which is not confirmed
        proxy.released.set()

        assert [(await one).last_position for one in (first, second)] == [2, 3]
        with pytest.raises(WrongExpectedVersion) as refusal:
            await stale
        assert refusal.value.actual == 3
        assert await texts(store) == ["first", "a", "b"]


async def test_a_plan_behind_a_refused_batch_is_not_used(url):
    """What was refused goes first, and what came later is decided anew behind it."""
    from eventlog import PgEventStore

    async with through(url) as (store, proxy), PgEventStore.open(url, registry) as other:
        await other.append("s", [Noted("of another node")], 1)
        proxy.do("hold back the answer", CALL)
        first = asyncio.ensure_future(store.append("s", [Noted("a")], ANY_VERSION))
        await proxy.done.wait()
        second = await planned_behind(store, store.append("s", [Noted("b")], ANY_VERSION))
        third = asyncio.ensure_future(store.append("s", [Noted("c")], 4))
        await asyncio.sleep(0)
        proxy.released.set()

        assert [(await one).last_version for one in (first, second, third)] == [3, 4, 5]
        assert await texts(store) == ["first", "of another node", "a", "b", "c"]


@pytest.mark.parametrize("harm", ["lose the request", "lose the answer"])
async def test_a_plan_behind_a_lost_batch_lands_once(url, harm: Harm):
    async with through(url) as (store, proxy):
        proxy.do(harm, CALL)
        first = await sent(store, store.append("s", [Noted("a")], 1))
        second = await planned_behind(store, store.append("s", [Noted("b")], 2))

        assert [(await one).last_position for one in (first, second)] == [2, 3]
        assert proxy.done.is_set()
        assert await texts(store) == ["first", "a", "b"]


async def test_a_refusal_that_rests_on_a_lost_batch_is_not_given(url, monkeypatch):
    """The batch before it never came to the database, so the stream is where it was expected."""
    from eventlog.postgres import calls

    async with through(url) as (store, proxy):
        monkeypatch.setattr(calls, "PATIENCE_S", 0.3)
        proxy.do("lose the request", CALL)
        proxy.is_away = True
        lost = await sent(store, store.append("s", [Noted("a")], 1))
        second = await planned_behind(store, store.append("s", [Noted("b")], 1))

        with pytest.raises(StorageFailed, match="unknown"):
            await lost
        proxy.is_away = False
        assert (await second).last_version == 2
        assert await texts(store) == ["first", "b"]


async def test_a_plan_behind_a_batch_that_falls_apart_is_not_used(url):
    """One append passes a cap; the one beside it lands before what came later to its stream."""
    async with through(url) as (store, proxy):
        store.cap_totals({"n": 5})
        proxy.do("hold back the answer", CALL)
        batch = asyncio.ensure_future(
            at_once(
                store.append("t", [Noted("too much")], 0, counters={"n": 9}),
                store.append("s", [Noted("a")], 1, counters={"n": 1}),
            )
        )
        await proxy.done.wait()
        behind = [
            await planned_behind(store, store.append("s", [Noted("b")], ANY_VERSION)),
            asyncio.ensure_future(store.append("t", [Noted("enough")], 0, counters={"n": 2})),
        ]
        await asyncio.sleep(0)
        proxy.released.set()

        refused, landed = await batch
        assert isinstance(refused, TotalExceeded)
        assert landed.last_version == 2
        assert [(await one).last_version for one in behind] == [3, 1]
        assert await texts(store) == ["first", "a", "b"]
        assert await texts(store, "t") == ["enough"]
        assert store.totals_nowait() == await store.totals() == {"n": 3}


async def test_a_key_of_the_batch_on_its_way_stands_for_its_append(url):
    async with through(url) as (store, proxy):
        proxy.do("hold back the answer", CALL)

        def once() -> Awaitable[Any]:
            return store.append("s", [Noted("a")], ANY_VERSION, idempotency_key="k")

        first = asyncio.ensure_future(once())
        await proxy.done.wait()
        again = await planned_behind(store, once())
        proxy.released.set()

        assert (await first).last_position == (await again).last_position == 2
        assert (await again).duplicate
        assert await texts(store) == ["first", "a"]


async def test_other_work_keeps_its_place_among_what_is_planned_ahead(url):
    async with through(url) as (store, proxy):
        proxy.do("hold back the answer", CALL)
        first = asyncio.ensure_future(store.append("s", [Noted("a")], 1))
        await proxy.done.wait()
        before = await planned_behind(store, store.append("s", [Noted("b")], 2))
        erased = await begun(store.erase("s"), lambda: store._writer._queue)
        behind = asyncio.ensure_future(store.append("s", [Noted("c")], ANY_VERSION))
        await asyncio.sleep(0)
        proxy.released.set()

        assert [(await one).last_version for one in (first, before)] == [2, 3]
        assert (await erased).events == 3
        assert (await behind).last_version == 4
        assert await texts(store, after=3) == ["c"]


async def test_a_plan_that_fails_does_no_harm_to_the_batch_on_its_way(url, monkeypatch):
    pack: Callable[..., Any] = frame.pack

    def failing(prepared: Any, **more: Any) -> Any:
        if prepared.event.text == "bad":
            raise ValueError("no frame for this")
        return pack(prepared, **more)

    async with through(url) as (store, proxy):
        monkeypatch.setattr(frame, "pack", failing)
        await store.append("t", [Noted("good")], 0)
        proxy.do("hold back the answer", CALL)
        first = asyncio.ensure_future(store.append("s", [Noted("a")], 1))
        await proxy.done.wait()
        bad = asyncio.ensure_future(store.append("t", [Noted("bad")], 1))
        await asyncio.sleep(0)
        proxy.released.set()

        assert (await first).last_version == 2
        with pytest.raises(StorageFailed, match="no frame"):
            await bad
        assert (await store.append("t", [Noted("b")], 1)).last_version == 2


@pytest.mark.parametrize("harm", ["hold back the answer", "lose the request", "lose the answer"])
async def test_a_node_takes_another_row_between_batches_that_are_planned_ahead(
    url, monkeypatch, harm: Harm
):
    """It takes one after every batch, while a snapshot is open, and half of them are harmed."""
    import psycopg

    from eventlog.postgres import calls

    monkeypatch.setattr(calls, "ROW_S_MAX", -1)  # it is due whenever somebody asks
    rows, appends = set(), []
    async with through(url) as (store, proxy):
        with psycopg.connect(server().url) as dump:
            dump.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            dump.execute(f"SELECT FROM {url.rpartition('=')[2]}.log_tail")
            for version in range(1, 21, 2):
                first, second = f"number {version}", f"number {version + 1}"
                proxy.done.clear()
                proxy.released.clear()
                proxy.do(harm, first.encode())
                on_its_way = await sent(store, store.append("s", [Noted(first)], version))
                behind = await planned_behind(
                    store, store.append("s", [Noted(second)], version + 1)
                )
                rows.add(store._writer._calls._row)
                await proxy.done.wait()
                proxy.released.set()
                appends += [await on_its_way, await behind]

        assert [append.last_position for append in appends] == list(range(2, 22))
        assert len(rows) == 10
        assert await texts(store) == ["first", *(f"number {version}" for version in range(1, 21))]
        assert (await store.verify()).ok
        assert (await store._database.run("SELECT count(*) FROM node")) == [(1,)]


# --- a database that stays away


async def told_together(appends: "list[asyncio.Future[Any]]") -> Counter[type]:
    """Return what callers are told, all at the moment in which the first one is told something."""
    await asyncio.wait(appends, return_when=asyncio.FIRST_COMPLETED)
    assert all(append.done() for append in appends)
    return Counter(map(type, await at_once(*appends)))


def many_appends(store: Any) -> "list[asyncio.Future[Any]]":
    return [
        asyncio.ensure_future(store.append("s", [Noted(str(number))], ANY_VERSION))
        for number in range(CALLERS)
    ]


def be_patient_for(seconds: float, monkeypatch: pytest.MonkeyPatch) -> None:
    from eventlog.postgres import calls, writer

    for module in (calls, writer):
        monkeypatch.setattr(module, "PATIENCE_S", seconds)


async def go_away(store: Any, proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a batch be lost, and the store find out that the database is away."""
    be_patient_for(0.3, monkeypatch)
    proxy.do("lose the request", CALL)
    proxy.is_away = True
    with pytest.raises(StorageFailed, match="unknown"):
        await store.append("s", [Noted("lost")], 1)


async def test_who_waits_behind_a_lost_batch_waits_no_longer_than_those_in_it(url, monkeypatch):
    async with through(url) as (store, proxy):
        be_patient_for(0.3, monkeypatch)
        proxy.do("lose the request", CALL)
        proxy.is_away = True

        told = await told_together(many_appends(store))

        assert told[StorageFailed] > 0  # of its batch nobody knows whether it landed
        assert told[LogUnavailable] == CALLERS - told[StorageFailed] > 0
        assert store.statistics().queued_events == 0
        proxy.is_away = False
        assert (await store.append("s", [Noted("a")], 1)).last_version == 2
        assert await texts(store) == ["first", "a"]


@pytest.mark.parametrize("is_acquired", [False, True])
async def test_who_waits_behind_a_call_that_is_held_up_waits_no_longer(
    url, monkeypatch, is_acquired
):
    """Another session holds the lock of the tail for longer than a call is tried."""
    import psycopg

    from eventlog.postgres import database

    monkeypatch.setattr(database, "LOCK_S", 0.1)
    async with through(url) as (store, _):
        be_patient_for(0.3, monkeypatch)
        with psycopg.connect(server().url) as other:
            other.execute(f"SELECT FROM {url.rpartition('=')[2]}.log_tail FOR UPDATE")
            first = [asyncio.ensure_future(store.acquire("s", 1))] if is_acquired else []
            told = await told_together([*first, *many_appends(store)])

        assert told == {LogUnavailable: len(first) + CALLERS}
        assert (await store.append("s", [Noted("a")], 1)).last_version == 2


async def test_who_comes_while_the_database_is_away_waits_for_it_once(url, monkeypatch):
    """Appends and other work, however many batches they would be."""
    async with through(url) as (store, proxy):
        await go_away(store, proxy, monkeypatch)
        be_patient_for(60, monkeypatch)
        with anyio.fail_after(SOON_S):
            await store.flush()  # nobody waits before it
            waiting = [
                *many_appends(store),
                *(asyncio.ensure_future(store.acquire("s", 1)) for _ in "123"),
            ]
            flushed = asyncio.ensure_future(store.flush())
            await asyncio.sleep(0.3)
            assert not any(one.done() for one in (*waiting, flushed))

            be_patient_for(0, monkeypatch)
            told = Counter(map(type, await at_once(*waiting)))
            await flushed

        assert told == {LogUnavailable: len(waiting)}
        assert store.statistics().queued_events == 0


@pytest.mark.parametrize("long_ago", ["the database was there", "they asked"])
async def test_who_waits_while_the_database_is_away_lands_when_it_is_back(
    url, monkeypatch, long_ago: str
):
    """Their patience counts while both is so: they wait, and it is away."""
    async with through(url) as (store, proxy):
        await go_away(store, proxy, monkeypatch)
        be_patient_for(60, monkeypatch)
        waiting = many_appends(store)
        await asyncio.sleep(0)
        if long_ago == "they asked":
            for job in store._writer._queue:
                job.asked_s -= 3600
        else:
            store._writer._began_s -= 3600
        await asyncio.sleep(0.3)
        proxy.is_away = False

        assert [(await one).last_version for one in waiting] == list(range(2, CALLERS + 2))
        assert await texts(store) == ["first", *map(str, range(CALLERS))]
