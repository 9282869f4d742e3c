"""Two stores on one database, as two processes have them."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable
from contextlib import AsyncExitStack

import anyio
import pytest
from contracts.stores import Noted, registry
from support.canaries import found_in_database
from support.postgres import lent_url, server

from eventlog import (
    ANY_VERSION,
    EncryptionMismatch,
    EventLogError,
    Fenced,
    InvalidAppend,
    LogUnavailable,
    Snapshot,
    UnknownEvent,
    stream_id,
)

pytestmark = pytest.mark.anyio
NUMBERS = itertools.count()


@pytest.fixture
async def stores(url: str) -> AsyncIterator[tuple]:
    from eventlog import PgEventStore

    async with AsyncExitStack() as opened:
        yield tuple(
            [await opened.enter_async_context(PgEventStore.open(url, registry)) for _ in range(2)]
        )


async def whole(store) -> list[str]:
    """Return the texts of all events, once positions and versions have no gaps."""
    events = await store.read_all(0, 10_000)
    versions: dict[str, int] = {}
    for position, event in enumerate(events, 1):
        versions[event.stream] = versions.get(event.stream, 0) + 1
        assert (event.position, event.version) == (position, versions[event.stream])
    return [event.data.text for event in events]


# --- ownership


async def test_of_competing_claims_the_highest_holds(stores):
    claims = await asyncio.gather(
        *(stores[epoch % 2].acquire("s", epoch) for epoch in range(1, 21)), return_exceptions=True
    )

    refused = [claim for claim in claims if isinstance(claim, Fenced)]
    assert all(refusal.current > refusal.epoch for refusal in refused)
    assert claims[-1].epoch == 20
    assert [(await store.head("s")).epoch for store in stores] == [20, 20]


async def test_an_old_epoch_is_refused_in_the_other_store(stores):
    """A former owner, which knows of nothing, is refused."""
    former, owner = stores
    await former.append("s", [Noted("a")], 0, epoch=1)
    await owner.acquire("s", 2)

    with pytest.raises(Fenced) as caught:
        await former.append("s", [Noted("late")], 1, epoch=1)

    assert (caught.value.epoch, caught.value.current) == (1, 2)
    await owner.append("s", [Noted("b")], 1, epoch=2)
    with pytest.raises(Fenced):
        await former.append("s", [Noted("later")], 2, epoch=1, durability="relaxed")
    assert await whole(former) == ["a", "b"]


async def test_a_key_counts_once_in_both(stores):
    results = await asyncio.gather(
        *(
            stores[n % 2].append("s", [Noted("a")], ANY_VERSION, idempotency_key="k")
            for n in range(8)
        )
    )

    assert [result.duplicate for result in results].count(False) == 1
    assert {result.last_position for result in results} == {1}
    assert await stores[1].find_request("s", "other", b"") is None


async def test_time_never_goes_back_within_a_stream(url):
    """Nodes whose clocks are a day apart append in turn."""
    from eventlog import PgEventStore

    day_us = 86_400_000_000
    async with (
        PgEventStore.open(url, registry, clock=lambda: 2 * day_us) as ahead,
        PgEventStore.open(url, registry, clock=lambda: day_us) as behind,
    ):
        for version in range(6):
            await (ahead, behind)[version % 2].append("s", [Noted("a")], version)
        await behind.append("t", [Noted("a")], 0)

        times = [event.recorded_at_us for event in await ahead.read_stream("s")]
        assert times == [2 * day_us] * 6
        assert (await ahead.read_stream("t"))[0].recorded_at_us == day_us


# --- totals


async def test_no_total_goes_below_zero_whoever_counts(stores):
    await stores[0].append("s", [Noted("a")], 0, counters={"n": 10})

    outcomes = await asyncio.gather(
        *(stores[n % 2].append(f"s{n}", [Noted("a")], 0, counters={"n": -1}) for n in range(16)),
        return_exceptions=True,
    )

    assert sum(isinstance(outcome, InvalidAppend) for outcome in outcomes) == 6
    assert await stores[1].totals() == {}


# --- waiting


async def test_a_waiter_is_woken_by_an_append_of_the_other(stores):
    waiting = asyncio.create_task(stores[1].wait_beyond(0))
    await asyncio.sleep(0)

    await stores[0].append("s", [Noted("a")], 0)

    with anyio.fail_after(10):
        assert await waiting == 1


async def test_a_waiter_is_woken_though_nothing_is_told(stores):
    """Notifications may be lost: a store looks for itself, each second."""
    telling = stores[0]._tail._tasks[1]
    telling.cancel()
    await asyncio.wait([telling])
    waiting = asyncio.create_task(stores[1].wait_beyond(0))
    await asyncio.sleep(0)

    await stores[0].append("s", [Noted("a")], 0)

    with anyio.fail_after(20):
        assert await waiting == 1


# --- erasing


async def test_what_is_erased_is_in_no_column_of_any_table(stores, url):
    """Wherever a caller may put something: texts, keys, snapshots, pieces, the archive."""
    one, other = stores
    name, events = "a canary", [Noted(f"canary {n}", (f"canary key {n}",)) for n in range(4)]
    await one.append(name, events, 0, meta={"by": "canary"}, idempotency_key="canary once")
    await other.archive(name, [2, 3])
    await one.save_snapshot(name, Snapshot(4, b"canary state"), "canary fingerprint")
    await one.save_derived(name, {b"canary piece": b"canary vector"}, epoch=0)
    await other.append("t", [Noted("stays")], 0)
    tables = {table for table, _, _ in found_in_database(url, "canary")}
    assert tables == {"stream", "event", "event_archive", "snapshot", "derived"}

    await other.erase(name)

    assert found_in_database(url, "canary") == set()
    assert found_in_database(url, "stays")


# --- the row that all commits take turns at


@pytest.mark.parametrize("commits", [1, 700])
async def test_who_waits_for_the_lock_of_the_tail_gets_its_newest_version(stores, url, commits):
    """However often others have changed it since the wait began, and whatever its era is then."""
    one, _ = stores
    await one.append("s", [Noted("a")], 0)
    waiting = [asyncio.to_thread(changed, url) for _ in range(2)]
    (position, revision), seen = await behind_changes(url, commits, waiting, LOCKED)

    assert sorted(seen) == [(position + n, revision + n) for n in (commits, commits + 1)]


@pytest.mark.parametrize("commits", [1, 700])
async def test_a_batch_that_waits_for_the_tail_goes_behind_its_newest_version(stores, url, commits):
    one, other = stores
    await asyncio.gather(one.append("s", [Noted("a")], 0), other.append("t", [Noted("a")], 0))
    waiting = [
        one.append("s", [Noted("b"), Noted("c")], 1, counters={"n": 1}),
        other.append("t", [Noted("d")], 1),
    ]
    (position, revision), landed = await behind_changes(url, commits, waiting, "%append_batch%")

    two, single = (appended.last_position - position - commits for appended in landed)
    assert (two, single) in ((2, 3), (3, 1))
    found = await one._database.run("SELECT position, revision FROM log_tail")
    assert found == [(position + commits + 3, revision + commits + 2)]
    assert await other.totals() == {"n": 1}


LOCKED = "SELECT position, revision FROM lock_tail()"
CHANGED = """
    UPDATE log_tail SET position = position + 1, revision = revision + 1,
        era = greatest(era, (revision + 1) / 256)
"""


def changed(url: str) -> tuple[int, int]:
    """Change the tail, and return where it was: position and revision."""
    import psycopg

    with psycopg.connect(server().url) as connection:
        connection.execute(f"SET search_path = {url.rpartition('=')[2]}")
        seen = connection.execute(LOCKED).fetchone()
        connection.execute(CHANGED)
        return seen


async def behind_changes(
    url: str, commits: int, work: list[Awaitable], query: str
) -> tuple[tuple[int, int], list]:
    """Change the tail while others wait for its lock with a query; return where it was before.

    Of two who wait, either may get the lock first.
    """
    import psycopg

    with psycopg.connect(server().url) as first:
        first.execute(f"SET search_path = {url.rpartition('=')[2]}")
        before = first.execute(LOCKED).fetchone()
        waiting = asyncio.gather(*work)
        await until_waiting(len(work), query)
        for _ in range(commits):
            first.execute(CHANGED)
        first.commit()
        with anyio.fail_after(10):
            return before, await waiting


async def until_waiting(count: int, query: str) -> None:
    """Wait until so many sessions wait for a lock of a row with a query."""
    import psycopg

    counting = (
        "SELECT count(*) FROM pg_stat_activity WHERE query LIKE %s AND wait_event_type = 'Lock'"
    )
    with psycopg.connect(server().url, autocommit=True) as watching, anyio.fail_after(10):
        while watching.execute(counting, [query]).fetchone() != (count,):
            await asyncio.sleep(0.01)


NEWEST = (
    "FROM log_tail ORDER BY era DESC LIMIT 1",
    "FROM log_tail WHERE era >= (SELECT max(era) FROM log_tail)",
    "FROM node WHERE id = %(row)s AND seq >= 0",
)


@pytest.mark.slow
async def test_versions_that_a_snapshot_keeps_are_not_looked_through(stores, url):
    """While a dump is open, a batch looks at a few pages of versions of a row, not at all."""
    import psycopg

    one, _ = stores
    schema = url.rpartition("=")[2]
    with psycopg.connect(server().url) as dump, psycopg.connect(server().url) as asking:
        dump.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        dump.execute(f"SELECT FROM {schema}.log_tail")
        for n in range(3000):
            await one.append(f"s{n}", [Noted("a")], 0, counters={"n": 1})
        asking.execute(f"SET search_path = {schema}; SET enable_seqscan = off")
        for newest in NEWEST:
            explain = f"EXPLAIN (ANALYZE, BUFFERS, FORMAT json) SELECT position {newest}"
            [[found]] = asking.execute(explain, {"row": one._writer._calls._row}).fetchone()
            [pages] = asking.execute(
                "SELECT pg_relation_size(%s) / 8192", [newest.split()[1]]
            ).fetchone()
            plan = found["Plan"]
            assert plan["Actual Rows"] == 1, newest
            assert plan["Shared Hit Blocks"] + plan["Shared Read Blocks"] <= 15, newest
            assert pages > 20, newest


# --- what is derived


async def test_pieces_under_way_come_before_a_new_owner_and_hold_up_no_append(stores, url):
    """A claim waits for who saves pieces of the same stream; appends wait for neither."""
    import psycopg

    one, other = stores
    await one.append("s", [Noted("a")], 0)
    schema, sid = url.rpartition("=")[2], stream_id("s")
    with psycopg.connect(server().url) as saver:
        saver.execute(f"SET search_path = {schema}")
        saver.execute("SELECT pg_advisory_xact_lock_shared(derived_lock(%b))", [sid])
        claim = asyncio.create_task(one.acquire("s", 1))
        with anyio.fail_after(5):
            await other.append("s", [Noted("b")], 1)
            await other.append("t", [Noted("c")], 0)
        assert not claim.done()
        saver.commit()
        assert (await claim).epoch == 1


async def test_a_stream_of_that_name_in_another_schema_waits_for_nobody(stores, url):
    """Saving pieces in one store of a database delays no claim or erasure in another."""
    import psycopg

    from eventlog import PgEventStore

    with lent_url() as elsewhere, psycopg.connect(server().url) as saver:
        saver.execute(f"SET search_path = {url.rpartition('=')[2]}")
        saver.execute("SELECT pg_advisory_xact_lock_shared(derived_lock(%b))", [stream_id("s")])
        async with PgEventStore.open(elsewhere, registry) as other:
            await other.append("s", [Noted("a")], 0)
            with anyio.fail_after(5):
                assert (await other.acquire("s", 1)).epoch == 1
                assert (await other.erase("s")).events == 1


async def test_saves_that_compete_with_claims_and_erasures_leave_nothing_stale(stores):
    """However they interleave, what lies beside a stream is the last owner's, or nothing."""
    owner, late = stores
    for epoch in range(1, 30):
        name = f"s{epoch % 3}"
        await owner.append(name, [Noted("a")], ANY_VERSION, epoch=epoch - 1)
        saves = [late.save_derived(name, {b"%d" % n: b"late"}, epoch=epoch - 1) for n in range(4)]
        end = owner.erase(name) if epoch % 2 else owner.acquire(name, epoch)
        await asyncio.gather(*saves, end)
        if epoch % 2:
            assert await late.load_derived(name) == {}
        else:
            before = await owner.load_derived(name)
            assert not await late.save_derived(name, {b"x": b"late"}, epoch=epoch - 1)
            assert await owner.load_derived(name) == before


# --- opening


async def test_those_who_open_a_new_store_at_once_all_get_it():
    from eventlog import PgEventStore

    place = f"{server().url}?schema=at%20once%20%22{next(NUMBERS)}"

    async def use(n: int) -> None:
        async with PgEventStore.open(place, registry) as store:
            await store.append("s", [Noted(str(n))], ANY_VERSION)

    await asyncio.gather(*map(use, range(6)))
    async with PgEventStore.open(place, registry) as store:
        assert len(await whole(store)) == 6


@pytest.mark.parametrize("made_format", [0, 99])
async def test_a_store_of_another_format_is_left_alone(url, made_format):
    import psycopg

    from eventlog import PgEventStore

    async with PgEventStore.open(url, registry):
        pass
    schema = url.rpartition("=")[2]
    with psycopg.connect(server().url, autocommit=True) as connection:
        connection.execute(f"UPDATE {schema}.store SET format = {made_format}")

    with pytest.raises(UnknownEvent, match="the version that made it"):
        async with PgEventStore.open(url, registry):
            pass


async def test_a_store_opens_only_as_what_it_is(url, tmp_path):
    """An encrypted store needs its keys, and a plain one takes none."""
    from eventlog import PgEventStore
    from eventlog.keys import keyfile

    with keyfile.opened(tmp_path / "keys") as keys:
        async with PgEventStore.open(url, registry, keys=keys) as store:
            await store.append("s", [Noted("secret")], 0)
    with pytest.raises(EncryptionMismatch):
        async with PgEventStore.open(url, registry):
            pass
    with lent_url() as plain:
        async with PgEventStore.open(plain, registry):
            pass
        with keyfile.opened(tmp_path / "other") as keys, pytest.raises(EncryptionMismatch):
            async with PgEventStore.open(plain, registry, keys=keys):
                pass


@pytest.mark.parametrize(
    "wrong", ["postgresql://127.0.0.1:1/x?connect_timeout=1", "nonsense", "postgresql://x?schema="]
)
async def test_a_database_that_is_not_there_is_a_typed_error(wrong, monkeypatch):
    from eventlog import PgEventStore
    from eventlog.postgres import store

    server()  # psycopg is there
    monkeypatch.setattr(store, "CONNECT_S", 0.2)
    with pytest.raises((LogUnavailable, EventLogError)):
        async with PgEventStore.open(wrong, registry):
            pass


async def test_a_late_snapshot_of_what_was_erased_is_not_kept(stores):
    """A former owner that was stopped while it saved one leaves nothing of the user behind."""
    former, owner = stores
    await former.append("s", [Noted("a")], 0)
    await owner.erase("s")

    await former.save_snapshot("s", Snapshot(1, b"what ada said"), "f")

    [[left]] = await former._database.run("SELECT count(*) FROM snapshot")
    assert left == 0
    await owner.append("s", [Noted("b")], 1)
    await owner.save_snapshot("s", Snapshot(2, b"b"), "f")
    assert await former.load_snapshot("s", "f") == Snapshot(2, b"b")
