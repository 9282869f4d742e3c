"""PgVerification finds whatever was changed behind the store's back, and nothing else."""

from collections.abc import AsyncIterator

import pytest
from contracts.stores import FOREVER, Noted, registry
from support.postgres import lent_url, server

from eventlog import CorruptLog

pytestmark = pytest.mark.anyio


@pytest.fixture
async def filled() -> AsyncIterator[tuple]:
    """Yield a store with events in every state, and the name of its schema."""
    from eventlog import PgEventStore

    with lent_url() as url:
        async with PgEventStore.open(url, registry) as store:
            events = [Noted(f"{n} " * 600, (f"k{n}",)) for n in range(5)]
            await store.append("s", events, 0)
            await store.append("t", [Noted("x"), Noted("y"), Noted("z")], 0)
            await store.append("u", [Noted("gone")], 0)
            await store.archive("s", [1])
            await store.drop_archived(FOREVER)
            await store.archive("s", [2, 3])
            await store.erase("u")
            yield store, url.rpartition("=")[2]


async def test_a_store_in_which_nothing_was_changed_is_whole(filled):
    store, _ = filled
    seen: list[tuple[int, int]] = []
    heads = await store.heads()
    await store.append("t", [Noted("later")], 3)

    report = await store.verify(lambda done, total: seen.append((done, total)), against=heads)

    assert report.ok, report.findings
    assert (report.events, report.streams) == (10, 3)
    assert (report.archived_events, report.dropped_events, report.erased_events) == (2, 1, 1)
    assert seen[-1] == (10, 10)


def change(schema: str, query: str) -> None:
    import psycopg

    with psycopg.connect(server().url, autocommit=True) as connection:
        connection.execute(f"SET search_path = {schema}")
        assert connection.execute(query).rowcount == 1


FLIPPED = "set_byte({0}, {1}, get_byte({0}, {1}) # 1)"


@pytest.mark.parametrize("at", [0, 5, 30, 40, 60, 100, 118])
async def test_a_flipped_bit_of_a_header_is_found(filled, at: int):
    store, schema = filled
    change(schema, f"UPDATE event SET frame = {FLIPPED.format('frame', at)} WHERE position = 7")

    with pytest.raises(CorruptLog):
        await store.read_stream("t")
    assert not (await store.verify()).ok


@pytest.mark.parametrize(
    ("table", "where"), [("event", "position = 7"), ("event_archive", "version = 2")]
)
async def test_a_flipped_bit_of_a_payload_is_found(filled, table: str, where: str):
    store, schema = filled
    change(schema, f"UPDATE {table} SET payload = {FLIPPED.format('payload', 20)} WHERE {where}")

    with pytest.raises(CorruptLog):
        await store.read_stream("t" if table == "event" else "s", 1, dropped="mark")
    assert not (await store.verify()).ok


@pytest.mark.parametrize(
    "query",
    [
        "DELETE FROM event WHERE position = 7",
        "DELETE FROM event WHERE position = 8",
        "DELETE FROM event_archive WHERE version = 2",
        "UPDATE stream SET version = 2 WHERE name = 't'",
        "UPDATE stream SET version = 4 WHERE name = 't'",
        "UPDATE stream SET chain = sha256(chain) WHERE name = 't'",
        "UPDATE event SET version = 9 WHERE position = 8",
        f"UPDATE event SET frame = {FLIPPED.format('frame', 60)} WHERE position = 9",
    ],
)
async def test_what_was_taken_out_or_moved_is_found(filled, query: str):
    store, schema = filled
    heads = await store.heads()

    change(schema, query)

    assert not (await store.verify(against=heads)).ok


async def test_a_damaged_snapshot_is_passed_over(filled):
    from eventlog import Snapshot

    store, schema = filled
    await store.save_snapshot("s", Snapshot(3, b"three"), "f")
    await store.save_snapshot("s", Snapshot(4, b"four"), "f")

    change(schema, f"UPDATE snapshot SET data = {FLIPPED.format('data', 6)} WHERE version = 4")

    assert await store.load_snapshot("s", "f") == Snapshot(3, b"three")
