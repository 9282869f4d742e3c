"""Erasing a large stream: nobody waits for its rows, and repeating it does what was left."""

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import anyio
import pytest
from contracts.stores import Noted, registry
from support.postgres import lent_url, server

from eventlog import Checkpoint, Fenced, LogUnavailable, PayloadErased, Snapshot, stream_id

pytestmark = pytest.mark.anyio
CANARY = b"kumquat"
EVENTS = 60
PAGE = 20
STATEMENTS_MAX = 100


@pytest.fixture
def url() -> Iterator[str]:
    server()
    with lent_url() as lent:
        yield lent


async def fill(store: Any) -> None:
    """Put the canary into every table that keeps something of a stream."""
    texts = [Noted(f"kumquat {n}", (f"k{n}", "all")) for n in range(EVENTS)]
    await store.append("of kumquats", texts, 0, idempotency_key="k", counters={"notes": EVENTS})
    await store.append("of others", [Noted("figs", ("all",))], 0, counters={"notes": 1})
    await store.archive("of kumquats", range(1, EVENTS, 2))
    await store.save_snapshot("of kumquats", Snapshot(EVENTS, CANARY), "f")
    await store.save_checkpoint(Checkpoint("view of kumquats", 5, {b"a": CANARY}))
    pieces = {b"%03d" % n: CANARY for n in range(EVENTS)}
    assert await store.save_derived("of kumquats", pieces, epoch=0)


async def erase(store: Any) -> int:
    counted, projections = {"notes": EVENTS}, ["view of kumquats"]
    return (await store.erase("of kumquats", counted=counted, projections=projections)).events


def places_of(url: str) -> set[str]:
    """Return the columns of all tables in which the canary is."""
    import psycopg

    found, schema = set(), url.rpartition("=")[2]
    with psycopg.connect(server().url, autocommit=True) as connection:
        for table, column in connection.execute(
            "SELECT table_name, column_name FROM information_schema.columns"
            " WHERE table_schema = %s AND data_type = 'bytea'",
            [schema],
        ).fetchall():
            query = f"SELECT FROM {schema}.{table} WHERE position(%s::bytea IN {column}) > 0"
            if connection.execute(query, [CANARY]).fetchone() is not None:
                found.add(f"{table}.{column}")
    return found


def rows_of(url: str, table: str) -> int:
    import psycopg

    schema = url.rpartition("=")[2]
    with psycopg.connect(server().url) as connection:
        query = f"SELECT count(*) FROM {schema}.{table} WHERE sid = %s"
        [rows] = connection.execute(query, [stream_id("of kumquats")]).fetchone() or [0]
        return int(rows)


async def test_others_append_while_the_rows_of_a_large_stream_go(url: str):
    """Somebody holds its rows, so that erasing them cannot end: everybody else goes on."""
    import psycopg

    from eventlog import PgEventStore

    schema, acknowledged = url.rpartition("=")[2], 0
    async with PgEventStore.open(url, registry) as store:
        await fill(store)
        with psycopg.connect(server().url) as holder:
            holder.execute(f"SELECT FROM {schema}.event FOR UPDATE")
            going = asyncio.create_task(erase(store))
            with anyio.fail_after(8):  # less than a call waits for a lock
                while not (await store.head("of kumquats")).erased_version:
                    await asyncio.sleep(0.01)
                for version in range(1, 101):
                    await store.append("of others", [Noted("more")], version)
                    acknowledged += 1
                await store.append("of kumquats", [Noted("of another life")], EVENTS)
            with pytest.raises(PayloadErased):
                await store.read_stream("of kumquats", 0, EVENTS)
            assert (acknowledged, going.done()) == (100, False)
        assert await going == EVENTS
        assert places_of(url) == {"stream.name"}  # of the other life
        [event] = await store.read_stream("of kumquats", EVENTS)
        assert event.data == Noted("of another life")
        assert (await store.verify()).ok


async def test_an_erasure_that_is_cut_off_anywhere_is_finished_by_repeating(
    url: str, monkeypatch: pytest.MonkeyPatch
):
    """After each statement in turn; what the stream had is read by nobody from the mark on."""
    from eventlog import PgEventStore
    from eventlog.postgres import erasing
    from eventlog.postgres.database import Database

    monkeypatch.setattr(erasing, "ROWS_MAX", PAGE)
    run, cut_off = Database.run, 0
    for statements in range(STATEMENTS_MAX):
        left = statements

        async def run_some(self: Database, query: str, values: object = ()) -> object:
            nonlocal left
            left -= query.strip().startswith(("UPDATE", "DELETE", "WITH"))
            if left < 0:
                raise LogUnavailable("cut off")
            return await run(self, query, values)

        with lent_url() as lent:
            async with PgEventStore.open(lent, registry) as store:
                await fill(store)
                assert len(places_of(lent)) == 6
                with monkeypatch.context() as cutting, suppress(LogUnavailable):
                    cutting.setattr(Database, "run", run_some)
                    await erase(store)
                    break
                cut_off += 1
                was_there = not (await store.head("of kumquats")).is_empty
            async with PgEventStore.open(lent, registry) as again:
                assert await erase(again) == (EVENTS if was_there else 0)
                assert places_of(lent) == set()
                tables = ("event_archive", "event_key", "request", "snapshot", "derived")
                assert {rows_of(lent, table) for table in tables} == {0}
                assert await again.totals() == {"notes": 1}
                assert await again.versions_about("of others", "all") == [1]
                assert (await again.verify()).ok
    assert cut_off > 2 * EVENTS / PAGE


async def test_a_fenced_erasure_leaves_what_was_derived(url: str):
    from eventlog import PgEventStore

    async with PgEventStore.open(url, registry) as store:
        await fill(store)
        await store.acquire("of kumquats", 3)

        with pytest.raises(Fenced):
            await store.erase("of kumquats", epoch=2)

        assert len(await store.load_derived("of kumquats")) == EVENTS
        assert len(places_of(url)) == 6


async def test_a_mark_that_is_repeated_after_a_lost_answer_says_the_same(url: str):
    from eventlog import PgEventStore

    async with PgEventStore.open(url, registry) as store:
        await fill(store)
        call = store._writer.call

        async def called_twice(query, values=()):
            await call(query, values)
            return await call(query, values)

        store._writer.call = called_twice
        assert await erase(store) == EVENTS
        assert await store.totals() == {"notes": 1}
        assert await erase(store) == 0
