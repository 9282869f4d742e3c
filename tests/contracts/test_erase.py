"""Erasure, as every event store must do it."""

from typing import Any

import pytest
from contracts.stores import COUNT, FOREVER, Noted

from eventlog import (
    Checkpoint,
    CorruptLog,
    Dropped,
    EventStore,
    Fenced,
    InvalidAppend,
    LogClosed,
    PayloadDropped,
    PayloadErased,
    Snapshot,
    replay,
    subscribe,
)

pytestmark = pytest.mark.anyio


async def fill(store: EventStore) -> None:
    """s 1-5 at 1-5, t 1-3 at 6-8, s 6 at 9."""
    events = [Noted(f"{n} " * 600, (f"k{n}", "all")) for n in range(5)]
    await store.append("s", events, 0, meta={"by": "me"}, counters={"notes": 5, "mine": 1})
    await store.append("t", [Noted("x"), Noted("y"), Noted("z")], 0, counters={"notes": 3})
    await store.append("s", [Noted("last", ("all",))], 5, idempotency_key="k")


async def test_the_receipt_says_how_many_events_were_erased_and_when(store: EventStore):
    await fill(store)

    erased = await store.erase("s")

    assert erased.events == 6
    assert 1000 <= erased.erased_at_us < 2000


async def test_an_erased_event_does_not_say_whose_it_was(store: EventStore):
    """An erased event says so, and since when, and not whose it was."""
    await fill(store)
    before = await store.read_stream("s")
    erased = await store.erase("s")

    marked = await store.read_all(dropped="mark")

    gone = [event for event in marked if event.stream != "t"]
    assert [event.data for event in gone] == [Dropped(erased.erased_at_us, erased=True)] * 6
    assert {event.meta == {} for event in gone} == {True}
    assert "s" not in {event.stream for event in gone}
    for name in ("version", "position", "tag", "recorded_at_us", "raw_bytes", "stored_bytes"):
        assert [getattr(e, name) for e in gone] == [getattr(e, name) for e in before]
    assert await store.read_stream("s", dropped="mark") == gone
    assert await store.read_versions("s", [2, 6], dropped="mark") == [gone[1], gone[5]]
    assert await store.read_event(9, dropped="mark") == gone[5]


async def test_reading_an_erased_event_unprepared_is_a_typed_error(store: EventStore):
    await fill(store)
    await store.erase("s")

    reads = [
        lambda: store.read_stream("s"),
        lambda: store.read_all(),
        lambda: store.read_event(2),
        lambda: store.read_versions("s", [2]),
    ]
    for read in reads:
        with pytest.raises(PayloadErased, match="was erased"):
            await read()
    assert issubclass(PayloadErased, PayloadDropped)


async def test_an_event_that_never_was_is_told_before_one_that_is_erased(store: EventStore):
    """Whatever the order in which they are asked for."""
    await store.append("s", [Noted("one")], 0)
    await store.erase("s")
    for versions in ([1, 0], [2, 1], [1, 2]):
        with pytest.raises(CorruptLog):
            await store.read_versions("s", versions)


async def test_nothing_finds_what_was_erased(store: EventStore):
    await fill(store)
    await store.save_snapshot("s", Snapshot(5, b"state"), "f")
    await store.save_checkpoint(Checkpoint("view of s", 5, {b"a": b"1", b"b": b"2"}))
    await store.save_checkpoint(Checkpoint("view", 5, {b"a": b"1"}))

    await store.erase("s", projections=["view of s", "never was"])

    assert await store.streams() == ["t"]
    assert await store.versions_about("s", "all") == []
    assert await store.load_snapshot("s", "f") is None
    assert await store.find_request("s", "k", b"anything") is None
    assert await store.load_checkpoint("view of s") == 0
    assert await store.load_entry("view of s", b"a") is None
    assert await store.load_entry("view of s", b"b") is None
    assert (await store.load_checkpoint("view"), await store.load_entry("view", b"a")) == (5, b"1")


async def test_the_head_says_how_far_a_stream_is_erased(store: EventStore):
    """The head stays, and says up to which version the stream is erased."""
    await fill(store)
    before = await store.head("s")
    assert not before.is_empty

    await store.erase("s")
    after = await store.head("s")

    assert (after.version, after.chain, after.stored_bytes) == (
        before.version,
        before.chain,
        before.stored_bytes,
    )
    assert (after.erased_version, after.is_empty) == (6, True)
    assert (await store.head("never")).is_empty


async def test_other_streams_read_as_before(store: EventStore):
    await fill(store)
    before = await store.read_stream("t")

    await store.erase("s")

    assert await store.read_stream("t") == before
    assert await replay(store, COUNT, "t") == (3, 3)


async def test_what_the_stream_counted_leaves_the_totals(store: EventStore):
    await fill(store)

    await store.erase("s", counted={"notes": 5, "mine": 7, "unknown": 2})

    assert await store.totals() == {"notes": 3}
    assert store.totals_nowait() == {"notes": 3}


async def test_to_erase_what_is_erased_is_to_erase_nothing(store: EventStore):
    await fill(store)
    await store.erase("s", counted={"notes": 5})

    again = await store.erase("s", counted={"notes": 3})

    assert (again.events, again.erased_at_us) == (0, 0)
    assert (await store.erase("never was")).events == 0
    assert (await store.totals())["notes"] == 3


async def test_the_stream_goes_on_behind_what_was_erased(store: EventStore):
    await fill(store)
    await store.erase("s")

    result = await store.append("s", [Noted("new", ("all",))], 6, idempotency_key="k")

    assert (result.first_version, result.last_position, result.duplicate) == (7, 10, False)
    assert sorted(await store.streams()) == ["s", "t"]
    assert await store.versions_about("s", "all") == [7]
    assert (await store.read_versions("s", [7]))[0].stream == "s"
    assert [event.data for event in await store.read_stream("s", 6)] == [Noted("new", ("all",))]
    head = await store.head("s")
    assert (head.version, head.erased_version, head.is_empty) == (7, 6, False)
    assert await replay(store, COUNT, "s", after=6) == (1, 7)
    old = await store.read_stream("s", 0, 6, dropped="mark")
    assert "s" not in {event.stream for event in old}


async def test_a_second_life_is_erased_like_the_first(store: EventStore):
    await fill(store)
    await store.erase("s")
    await store.append("s", [Noted("new", ("all",))], 6)

    erased = await store.erase("s")

    assert erased.events == 1
    assert (await store.head("s")).erased_version == 7
    assert await store.streams() == ["t"]
    since = [event.data.since_us for event in await store.read_stream("s", dropped="mark")]
    assert len(set(since[:6])) == 1
    assert since[6] == erased.erased_at_us > since[0]


async def test_archived_and_dropped_payloads_are_erased_too(store: EventStore):
    await fill(store)
    await store.archive("s", [1, 2])
    await store.drop_archived(FOREVER)
    await store.archive("s", [3, 4])
    await store.archive("t", [1])

    await store.erase("s")

    marked = await store.read_stream("s", dropped="mark")
    assert [event.data.erased for event in marked] == [True] * 6
    assert (await store.archive("s", [1, 5])).events == 0
    assert (await store.drop_archived(FOREVER, "s")).events == 0
    assert (await store.read_stream("t"))[0].data == Noted("x")


async def test_a_second_life_may_be_archived(store: EventStore):
    await fill(store)
    await store.archive("s", [1, 2])
    await store.erase("s")
    await store.append("s", [Noted("new"), Noted("newer")], 6)

    assert (await store.archive("s", [7])).events == 1
    assert [event.data for event in await store.read_stream("s", 6)] == [
        Noted("new"),
        Noted("newer"),
    ]


async def test_a_subscription_passes_over_erased_events(store: EventStore):
    await fill(store)
    await store.erase("s")

    seen = []
    async for event in subscribe(store, dropped="mark"):
        seen.append(event.position)
        if len(seen) == 9:
            break
    assert seen == list(range(1, 10))
    with pytest.raises(PayloadErased):
        await anext(subscribe(store))


async def test_a_name_that_is_no_streams_is_refused(store: EventStore):
    names: tuple[Any, ...] = ("", "\ud800", 7, "x" * 2000)
    for name in names:
        with pytest.raises(InvalidAppend):
            await store.erase(name)


async def test_a_closed_store_erases_nothing(opened: Any):
    async with opened as store:
        await store.append("s", [Noted("a")], 0)

    with pytest.raises(LogClosed):
        await store.erase("s")


async def test_an_erasure_of_another_epoch_erases_nothing(store: EventStore) -> None:
    """Who no longer owns a stream does not erase what its new owner serves."""
    await store.append("s", [Noted("a")], 0, epoch=1)
    await store.acquire("s", 2)

    with pytest.raises(Fenced):
        await store.erase("s", epoch=1)

    assert [event.data.text for event in await store.read_stream("s")] == ["a"]
    assert (await store.erase("s", epoch=2)).events == 1
