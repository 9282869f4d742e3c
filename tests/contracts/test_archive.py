"""Archiving and retention, as every event store must do them."""

import asyncio
from typing import Any

import pytest
from contracts.stores import COUNT, FOREVER, Noted

from eventlog import (
    Dropped,
    EventLogError,
    EventStore,
    InvalidAppend,
    LogClosed,
    PayloadDropped,
    PoisonedStream,
    Snapshot,
    replay,
    subscribe,
)

pytestmark = pytest.mark.anyio


async def fill(store: EventStore) -> None:
    """s 1-5 at 1-5, t 1-3 at 6-8, s 6 at 9."""
    events = [Noted(f"{n} " * 600, (f"k{n}", "all")) for n in range(5)]
    await store.append("s", events, 0, meta={"by": "me"})
    await store.append("t", [Noted("x"), Noted("y"), Noted("z")], 0)
    await store.append("s", [Noted("last", ("all",))], 5)


async def everything(store: EventStore) -> dict[str, Any]:
    """Return what every read says."""
    return {
        "all": await store.read_all(0, 100),
        "some": await store.read_all(3, 2),
        "s": await store.read_stream("s"),
        "tail": await store.read_stream("s", 4),
        "versions": await store.read_versions("s", [6, 1, 3, 1]),
        "event": [await store.read_event(position) for position in range(1, 10)],
        "about": await store.versions_about("s", "all"),
        "heads": [await store.head(stream) for stream in ("s", "t")],
        "fold": await replay(store, COUNT, "s"),
    }


async def test_no_read_shows_that_events_were_archived(store: EventStore):
    await fill(store)
    before = await everything(store)

    archived = await store.archive("s", [1, 2, 4])

    assert archived.events == 3
    assert await everything(store) == before
    assert before["s"][0].meta == {"by": "me"}


async def test_what_is_archived_already_is_passed_over(store: EventStore):
    await fill(store)
    await store.archive("s", [2, 3])
    before = await everything(store)

    again = await store.archive("s", [3, 2])
    more = await store.archive("s", [1, 2, 3, 3])

    assert (again.events, more.events) == (0, 1)
    assert await everything(store) == before


async def test_archiving_nothing_is_nothing(store: EventStore):
    await fill(store)

    assert (await store.archive("s", [])).events == 0
    assert (await store.archive("never", [])).events == 0


async def test_an_unknown_event_is_refused_and_nothing_moves(store: EventStore):
    await fill(store)
    unknown: tuple[Any, ...] = ([0], [7], [-1], [1, 2**64], [1.0], [True], ["1"])
    for versions in unknown:
        with pytest.raises(InvalidAppend):
            await store.archive("s", versions)

    assert (await store.archive("s", [1])).events == 1


async def test_a_stream_goes_on_behind_what_is_archived(store: EventStore):
    await fill(store)
    await store.archive("s", range(1, 7))

    result = await store.append("s", [Noted("next", ("all",))], 6, idempotency_key="k")

    assert (result.first_version, result.last_position) == (7, 10)
    assert (await store.append("s", [Noted("next", ("all",))], 6, idempotency_key="k")).duplicate
    assert await store.versions_about("s", "all") == [1, 2, 3, 4, 5, 6, 7]
    assert [event.version for event in await store.read_stream("s")] == list(range(1, 8))


async def test_a_relaxed_append_may_be_archived_at_once(store: EventStore):
    await store.append("s", [Noted("a")], 0, durability="relaxed")

    assert (await store.archive("s", [1])).events == 1
    assert (await store.read_stream("s"))[0].data == Noted("a")


async def test_a_subscription_reads_through_the_archive(store: EventStore):
    await fill(store)
    await store.archive("s", range(1, 6))

    seen: list[int] = []
    async for event in subscribe(store, batch=2):
        seen.append(event.position)
        if len(seen) == 9:
            break

    assert seen == list(range(1, 10))


async def test_calls_made_at_once_move_each_event_once(store: EventStore):
    await fill(store)
    before = await everything(store)

    moved = await asyncio.gather(*(store.archive("s", [1, 2, 3, n]) for n in (4, 5, 4)))

    assert sum(archived.events for archived in moved) == 5
    assert await everything(store) == before


# --- retention


async def test_retention_drops_by_time_of_archiving(store: EventStore):
    """Retention drops the payloads that were archived before a time, and only those."""
    await fill(store)
    before = await everything(store)
    await store.archive("s", [1, 2])

    assert (await store.drop_archived(1000)).events == 0
    assert await everything(store) == before
    dropped = await store.drop_archived(FOREVER)

    assert dropped.events == 2
    assert (await store.drop_archived(FOREVER)).events == 0
    assert await store.read_versions("s", [3, 6]) == [before["s"][2], before["s"][5]]


async def test_a_dropped_payload_says_since_when(store: EventStore):
    await fill(store)
    await store.archive("s", [2])
    await store.drop_archived(FOREVER)

    reads = [
        lambda: store.read_stream("s"),
        lambda: store.read_all(),
        lambda: store.read_event(2),
        lambda: store.read_versions("s", [2]),
    ]
    for read in reads:
        with pytest.raises(PayloadDropped, match="event 2 of stream 's' was dropped") as caught:
            await read()
        gone = caught.value
        assert (gone.stream, gone.version) == ("s", 2)
        assert 1000 < gone.since_us < 2000
    assert issubclass(PayloadDropped, EventLogError)


async def test_who_asks_for_marks_reads_past_what_is_gone(store: EventStore):
    await fill(store)
    before = await everything(store)
    await store.archive("s", [2])
    await store.drop_archived(FOREVER)

    marked = await store.read_stream("s", dropped="mark")

    assert isinstance(marked[1].data, Dropped)
    assert marked[1].data.since.year == 1970
    assert marked[1].meta == {}
    assert [each for each in marked if each.version != 2] == [
        each for each in before["s"] if each.version != 2
    ]
    place = marked[1], before["s"][1]
    for name in ("version", "position", "tag", "recorded_at_us", "raw_bytes", "stored_bytes"):
        assert len({getattr(event, name) for event in place}) == 1
    assert (await store.read_all(dropped="mark"))[1] == marked[1]
    assert await store.read_event(2, dropped="mark") == marked[1]
    assert await store.read_versions("s", [2], dropped="mark") == [marked[1]]
    assert await store.versions_about("s", "k1") == [2]
    assert await store.head("s") == before["heads"][0]


async def test_retention_may_be_of_one_stream(store: EventStore):
    await fill(store)
    await store.archive("s", [1])
    await store.archive("t", [1, 2])

    dropped = await store.drop_archived(FOREVER, "t")

    assert dropped.events == 2
    assert (await store.read_event(1)) is not None
    assert (await store.drop_archived(FOREVER, "never")).events == 0


async def test_what_is_gone_is_not_archived_again(store: EventStore):
    await fill(store)
    await store.archive("s", [1])
    await store.drop_archived(FOREVER)

    assert (await store.archive("s", [1])).events == 0
    with pytest.raises(PayloadDropped):
        await store.read_versions("s", [1])


async def test_a_replay_stops_at_a_dropped_payload(store: EventStore):
    """A replay stops at a dropped payload, unless it is told to fold it."""
    await fill(store)
    await store.archive("s", [2])
    await store.drop_archived(FOREVER)

    with pytest.raises(PoisonedStream) as caught:
        await replay(store, COUNT, "s")
    assert isinstance(caught.value.__cause__, PayloadDropped)
    assert await replay(store, COUNT, "s", dropped="mark") == (6, 6)
    assert await replay(store, COUNT, "s", state=2, after=2) == (6, 6)


async def test_a_subscription_passes_over_dropped_payloads(store: EventStore):
    await fill(store)
    await store.archive("s", [2])
    await store.drop_archived(FOREVER)

    with pytest.raises(PayloadDropped):
        await anext(subscribe(store))
    assert (await anext(subscribe(store, dropped="mark"))).position == 1
    assert (await anext(subscribe(store, after=2))).position == 3


async def test_a_dropped_payload_elsewhere_ends_no_subscription(store: EventStore):
    """Dropped payloads of another stream do not end a subscription.

    Neither of the past nor live: it reads its own stream alone.
    """
    await fill(store)
    await store.archive("t", [1, 2])
    await store.drop_archived(FOREVER)
    source = subscribe(store, 4, stream="s")

    assert [(await anext(source)).position for _ in range(2)] == [5, 9]
    coming = asyncio.ensure_future(anext(source))
    await asyncio.sleep(0)
    await store.append("t", [Noted("gone")], 3)
    await store.archive("t", [4])
    await store.drop_archived(FOREVER)
    await store.append("s", [Noted("new")], 6)

    assert (await asyncio.wait_for(coming, 10)).data == Noted("new")
    await store.archive("s", [1])
    await store.drop_archived(FOREVER)
    with pytest.raises(PayloadDropped):
        await anext(subscribe(store, stream="s"))
    marked = subscribe(store, stream="s", dropped="mark")
    assert [isinstance((await anext(marked)).data, Dropped) for _ in range(2)] == [True, False]


async def test_snapshots_are_untouched(store: EventStore):
    await fill(store)
    await store.save_snapshot("s", Snapshot(5, b"state"), "f")
    await store.archive("s", range(1, 6))
    await store.drop_archived(FOREVER)

    assert await store.load_snapshot("s", "f") == Snapshot(5, b"state")
    assert [event.version for event in await store.read_stream("s", 5)] == [6]


async def test_a_closed_store_archives_nothing(opened: Any):
    async with opened as store:
        await store.append("s", [Noted("a")], 0)

    with pytest.raises(LogClosed):
        await store.archive("s", [1])
    with pytest.raises(LogClosed):
        await store.drop_archived(FOREVER)
