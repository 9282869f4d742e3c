"""The contract of every event store. Runs over each implementation of the port."""

import asyncio
from collections.abc import Awaitable
from contextlib import suppress
from types import MappingProxyType
from typing import Any

import anyio
import msgspec
import pytest
from contracts.stores import Counted, Noted, registry

from eventlog import (
    ANY_VERSION,
    Checkpoint,
    CorruptLog,
    EventStore,
    Fenced,
    IdempotencyConflict,
    InvalidAppend,
    LogClosed,
    Prepared,
    Snapshot,
    StreamHead,
    WrongExpectedVersion,
    subscribe,
)

pytestmark = pytest.mark.anyio

SURROGATE = "\ud800"
I64_MAX = 2**63 - 1


class Unregistered(msgspec.Struct, frozen=True):
    text: str


def texts(events: list[Any]) -> list[str]:
    return [event.data.text for event in events]


# --- append


async def test_the_first_append_starts_at_version_and_position_one(store: EventStore):
    result = await store.append("s", [Noted("a"), Noted("b")], 0)

    assert (result.stream, result.first_version, result.last_version) == ("s", 1, 2)
    assert (result.last_position, result.duplicate) == (2, False)


async def test_what_is_appended_is_read_back_whole(store: EventStore):
    event = Noted("x" * 5000, about=("k",), detail={"deep": [1, 2.5, None, b"\0"]})

    await store.append("s", [event], 0, meta={"by": "me"}, recorded_at_us=-5)

    (read,) = await store.read_stream("s")
    assert (read.stream, read.version, read.position, read.tag) == ("s", 1, 1, "test.noted")
    assert (read.data, read.meta, read.recorded_at_us) == (event, {"by": "me"}, -5)
    assert read.compressed
    assert read.raw_bytes > 5000 > read.stored_bytes


async def test_the_clock_gives_the_time_where_the_caller_gives_none(store: EventStore):
    await store.append("s", [Noted("a"), Noted("b")], 0)

    await store.append("s", [Noted("c")], 2)

    first, second, later = [event.recorded_at_us for event in await store.read_stream("s")]
    assert first == second == later - 1 >= 1000


async def test_positions_have_no_gaps_across_streams_and_refused_appends(store: EventStore):
    await store.append("a", [Noted("1"), Noted("2")], 0)
    with pytest.raises(WrongExpectedVersion):
        await store.append("a", [Noted("no")], 0)
    await store.append("b", [Noted("3")], 0)
    await store.append("a", [Noted("4")], 2)

    events = await store.read_all()
    assert [event.position for event in events] == [1, 2, 3, 4]
    assert [(event.stream, event.version) for event in events] == [
        ("a", 1), ("a", 2), ("b", 1), ("a", 3),
    ]  # fmt: skip


async def test_a_wrong_expected_version_says_what_the_version_is(store: EventStore):
    await store.append("s", [Noted("a")], 0)

    for expected in (0, 2, 2**70):
        with pytest.raises(WrongExpectedVersion) as caught:
            await store.append("s", [Noted("b")], expected)
        assert (caught.value.stream, caught.value.expected, caught.value.actual) == (
            "s", expected, 1,
        )  # fmt: skip
    assert (await store.head("s")).version == 1


async def test_any_version_appends_wherever_the_stream_stands(store: EventStore):
    for version in (1, 2, 3):
        result = await store.append("s", [Noted("a")], ANY_VERSION)
        assert result.last_version == version


async def test_a_refused_append_harms_none_of_those_beside_it(store: EventStore):
    async def append(stream: str, expected: int) -> Any:
        try:
            return (await store.append(stream, [Noted(stream)], expected)).last_version
        except WrongExpectedVersion as error:
            return error.actual

    outcomes = await asyncio.gather(*(append(f"s{n}", n % 2) for n in range(20)))

    assert outcomes == [1, 0] * 10
    assert len(await store.read_all()) == 10


async def test_one_of_many_racing_for_a_version_wins(store: EventStore):
    outcomes = await asyncio.gather(
        *(store.append("s", [Noted(str(n))], 0) for n in range(20)), return_exceptions=True
    )

    refused = [outcome for outcome in outcomes if isinstance(outcome, WrongExpectedVersion)]
    assert len(refused) == 19
    assert (await store.head("s")).version == 1


async def test_an_event_prepared_beforehand_is_appended_as_it_is(store: EventStore):
    prepared = registry.prepare(Noted("ahead"), registry.packed_meta({"by": "me"}))
    assert isinstance(prepared, Prepared)

    await store.append("s", [prepared], 0)

    (read,) = await store.read_stream("s")
    assert (read.data, read.meta) == (Noted("ahead"), {"by": "me"})


async def test_a_cancelled_caller_does_not_undo_its_append(store: EventStore):
    appending = asyncio.create_task(store.append("s", [Noted("a")], 0))
    await asyncio.sleep(0)
    appending.cancel()
    await asyncio.wait([appending])

    await store.flush()
    assert texts(await store.read_stream("s")) == ["a"]


# --- requests that can never succeed


NO_STREAMS: tuple[Any, ...] = ("", "x" * 1025, "é" * 513, SURROGATE, None, 7, b"s")


async def refuses(**calls: Awaitable[Any]) -> None:
    """Check that each of these calls raises InvalidAppend."""
    answers = await asyncio.gather(*calls.values(), return_exceptions=True)
    answered = dict(zip(calls, answers, strict=True))
    assert {name: one for name, one in answered.items() if not isinstance(one, InvalidAppend)} == {}


async def test_a_name_that_is_no_streams_is_refused(store: EventStore):
    for name in NO_STREAMS:
        await refuses(
            append=store.append(name, [Noted("a")], 0),
            acquire=store.acquire(name, 1),
            save_snapshot=store.save_snapshot(name, Snapshot(0, b""), "f"),
            head=store.head(name),
            read_stream=store.read_stream(name),
            read_versions=store.read_versions(name, []),
            versions_about=store.versions_about(name, "k"),
            find_request=store.find_request(name, "k", b""),
            load_snapshot=store.load_snapshot(name, "f"),
        )
        if name is not None:  # that is all streams
            await refuses(drop_archived=store.drop_archived(0, name))
    assert await store.read_all() == []


async def test_no_read_takes_a_name_that_cannot_be_stored(store: EventStore):
    """No read takes a key, or another name, that could not be stored."""
    await store.append("s", [Noted("a", about=("k",))], 0)
    texts: tuple[Any, ...] = (SURROGATE, None, 7, b"s")
    for text in texts:
        await refuses(
            versions_about=store.versions_about("s", text),
            find_request=store.find_request("s", text, b""),
            load_snapshot=store.load_snapshot("s", text),
            load_checkpoint=store.load_checkpoint(text),
            load_entry=store.load_entry(text, b"k"),
        )


async def test_an_entry_checks_its_key_on_read(store: EventStore):
    keys: tuple[Any, ...] = (b"k" * 401, "k", None, 7)
    for key in keys:
        await refuses(load_entry=store.load_entry("p", key))


async def test_an_expected_version_that_is_none_is_refused(store: EventStore):
    versions: tuple[Any, ...] = (-2, -(2**70), None, "1", 1.5)
    for expected in versions:
        await refuses(append=store.append("s", [Noted("a")], expected))


async def test_an_append_without_events_is_refused(store: EventStore):
    await refuses(append=store.append("s", [], 0))


NOT_STORABLE = {
    "unregistered": Unregistered("a"),
    "no struct": "text",
    "int over 64 bits": Counted(2**64),
    "surrogate in a field": Noted(SURROGATE),
    "type without an encoding": Noted("a", detail=object()),
    "another type than the field's": Counted("many"),  # type: ignore[arg-type]
    "over 16 MiB": Noted("x" * (16 << 20)),
    "surrogate in a key": Noted("a", about=(SURROGATE,)),
    "key that is no string": Noted("a", about=(7,)),  # type: ignore[arg-type]
    "one string as keys": Noted("a", about="abc"),  # type: ignore[arg-type]
}


async def test_an_event_that_could_not_be_read_back_is_refused(store: EventStore):
    appends = {what: store.append("s", [Noted("fine"), it], 0) for what, it in NOT_STORABLE.items()}
    await refuses(**appends)

    assert await store.read_all() == []


async def test_an_event_nested_too_deeply_is_refused(store: EventStore):
    detail: list[Any] = []
    for _ in range(100_000):
        detail = [detail]

    with pytest.raises(InvalidAppend):
        await store.append("s", [Noted("a", detail=detail)], 0)


NO_ARGUMENTS: dict[str, dict[str, Any]] = {
    "time over 64 bits": {"recorded_at_us": 2**63},
    "time under 64 bits": {"recorded_at_us": -(2**63) - 1},
    "time that is a float": {"recorded_at_us": 1.5},
    "epoch over 63 bits": {"epoch": 2**63},
    "epoch that is a float": {"epoch": 1.5},
    "epoch that is a bool": {"epoch": True},
    "epoch that is text": {"epoch": "7"},
    "surrogate in the idempotency key": {"idempotency_key": SURROGATE},
    "idempotency key that is a number": {"idempotency_key": 7},
    "request that is text": {"idempotency_key": "k", "request": "text"},
    "meta of numbers": {"meta": {"a": 1}},
    "meta with a surrogate": {"meta": {"a": SURROGATE}},
    "meta that is a list": {"meta": [1]},
    "meta over 4 KiB": {"meta": {"a": "x" * 5000}},
    "durability of another kind": {"durability": "eventual"},
    "checkpoint below 0": {"checkpoint": Checkpoint("p", -1)},
    "checkpoint over 64 bits": {"checkpoint": Checkpoint("p", 2**64)},
    "checkpoint with a surrogate": {"checkpoint": Checkpoint(SURROGATE, 1)},
    "checkpoint with a long key": {"checkpoint": Checkpoint("p", 1, {b"k" * 401: b""})},
    "counters in a list": {"counters": ["memories"]},
    "counter without a name": {"counters": {"": 1}},
    "counter's name over 1 KiB": {"counters": {"x" * 1025: 1}},
    "counter's name with a surrogate": {"counters": {SURROGATE: 1}},
    "counter's name that is a number": {"counters": {7: 1}},
    "counter of a float": {"counters": {"memories": 1.0}},
    "counter of a bool": {"counters": {"memories": True}},
    "counter over 64 bits": {"counters": {"memories": 2**63}},
    "counter under 64 bits": {"counters": {"memories": -(2**63) - 1}},
    "counter that leads below zero": {"counters": {"memories": -1}},
    "counters over 256": {"counters": {f"n{n}": 1 for n in range(257)}},
    "checkpoint of text": {"checkpoint": Checkpoint("p", 1, {b"k": "text"})},  # type: ignore[dict-item]
}


async def test_a_request_that_cannot_be_carried_out_is_refused_alone(store: EventStore):
    """The append raises InvalidAppend and leaves nothing; others in the batch go through."""
    for number, (what, arguments) in enumerate(NO_ARGUMENTS.items()):
        before, bad, behind = await asyncio.gather(
            store.append("before", [Noted("1")], number),
            store.append("bad", [Noted("2")], 0, **arguments),
            store.append("behind", [Noted("3")], number),
            return_exceptions=True,
        )
        assert isinstance(bad, InvalidAppend), (what, bad)
        assert not isinstance(before, BaseException), what
        assert not isinstance(behind, BaseException), what

    assert (await store.head("bad")) == StreamHead(chain=(await store.head("bad")).chain)
    assert texts(await store.read_all()).count("2") == 0
    assert await store.load_checkpoint("p") == 0
    assert await store.totals() == store.totals_nowait() == {}


async def test_a_snapshot_that_cannot_be_kept_is_refused_alone(store: EventStore):
    snapshots: tuple[Any, ...] = (
        (Snapshot(-1, b""), "f"), (Snapshot(2**64, b""), "f"), (Snapshot(1.5, b""), "f"),  # type: ignore[arg-type]
        (Snapshot(1, "text"), "f"), (Snapshot(1, b""), SURROGATE),  # type: ignore[arg-type]
    )  # fmt: skip
    for number, (snapshot, fingerprint) in enumerate(snapshots):
        appended, saved = await asyncio.gather(
            store.append("s", [Noted("a")], number),
            store.save_snapshot("s", snapshot, fingerprint),
            return_exceptions=True,
        )
        assert isinstance(saved, InvalidAppend)
        assert not isinstance(appended, BaseException)


async def test_the_largest_numbers_that_are_allowed_come_back(store: EventStore):
    await store.append("s", [Counted(2**64 - 1)], 0, recorded_at_us=I64_MAX, epoch=I64_MAX)
    await store.append("s", [Counted(-(2**63))], 1, recorded_at_us=-I64_MAX - 1, epoch=I64_MAX)

    first, second = await store.read_stream("s")
    assert (first.data.count, first.recorded_at_us) == (2**64 - 1, I64_MAX)
    assert (second.data.count, second.recorded_at_us) == (-(2**63), -I64_MAX - 1)
    assert (await store.head("s")).epoch == I64_MAX


async def test_meta_may_be_any_mapping(store: EventStore):
    await store.append("s", [Noted("a")], 0, meta=MappingProxyType({"by": "me"}))

    assert (await store.read_stream("s"))[0].meta == {"by": "me"}


# --- names


HOSTILE_NAMES = [
    "u1", "u10", "u", "u1\0", "\0", " ", "../u1", "u1/..", "é", "e\u0301", "\U0001f9e0" * 256,
    "x" * 1024, "x" * 1023, "\uffff", "\ufeffu1", "U1", "u1 ",
]  # fmt: skip


async def test_streams_of_similar_names_never_see_each_other(store: EventStore):
    for name in HOSTILE_NAMES:
        await store.append(name, [Noted(name, ("k",))], 0, idempotency_key="k", request=b"r")
        await store.save_snapshot(name, Snapshot(1, name.encode()), "f")

    for name in HOSTILE_NAMES:
        assert texts(await store.read_stream(name)) == [name]
        assert await store.versions_about(name, "k") == [1]
        assert await store.load_snapshot(name, "f") == Snapshot(1, name.encode())
        assert (await store.find_request(name, "k", b"r")).stream == name  # type: ignore[union-attr]
    assert sorted(await store.streams()) == sorted(HOSTILE_NAMES)


async def test_a_stream_that_never_was_is_empty(store: EventStore):
    head = await store.head("never")

    assert (head.version, head.epoch, head.stored_bytes) == (0, 0, 0)
    assert await store.read_stream("never") == []
    assert await store.versions_about("never", "k") == []
    assert await store.find_request("never", "k", b"r") is None
    assert await store.load_snapshot("never", "f") is None
    assert await store.streams() == []


# --- idempotency


async def test_the_same_request_again_returns_the_first_result(store: EventStore):
    first = await store.append("s", [Noted("a"), Noted("b")], 0, idempotency_key="k")
    await store.append("s", [Noted("c")], 2)

    again = await store.append("s", [Noted("a"), Noted("b")], 0, idempotency_key="k")

    assert again == msgspec.structs.replace(first, duplicate=True)
    assert texts(await store.read_stream("s")) == ["a", "b", "c"]


async def test_another_request_under_the_same_key_is_refused(store: EventStore):
    await store.append("s", [Noted("a")], 0, idempotency_key="k")

    for events in ([Noted("b")], [Noted("a"), Noted("a")], [Counted(1)]):
        with pytest.raises(IdempotencyConflict, match="'k' of stream 's'") as refused:
            await store.append("s", events, 1, idempotency_key="k")
        assert (refused.value.stream, refused.value.key) == ("s", "k")
    assert (await store.head("s")).version == 1


async def test_where_the_caller_says_what_the_request_was_that_decides(store: EventStore):
    await store.append("s", [Noted("a")], 0, idempotency_key="k", request=b"add")

    again = await store.append("s", [Noted("other")], 9, idempotency_key="k", request=b"add")

    assert (again.duplicate, again.last_version) == (True, 1)
    with pytest.raises(IdempotencyConflict):
        await store.append("s", [Noted("a")], 1, idempotency_key="k", request=b"drop")


async def test_what_a_request_got_can_be_asked_for(store: EventStore):
    first = await store.append("s", [Noted("a")], 0, idempotency_key="k", request=b"add")

    found = await store.find_request("s", "k", b"add")

    assert found == msgspec.structs.replace(first, duplicate=True)
    assert await store.find_request("s", "other", b"add") is None
    with pytest.raises(IdempotencyConflict):
        await store.find_request("s", "k", b"drop")


async def test_a_key_belongs_to_one_stream(store: EventStore):
    await store.append("a", [Noted("1")], 0, idempotency_key="k")

    result = await store.append("b", [Noted("2")], 0, idempotency_key="k")

    assert not result.duplicate


async def test_a_key_may_be_any_text(store: EventStore):
    for number, key in enumerate(("", "\0", "x" * 10_000, "\U0001f9e0")):
        first = await store.append("s", [Noted("1")], number, idempotency_key=key)
        again = await store.append("s", [Noted("1")], number, idempotency_key=key)

        assert (again.last_position, again.duplicate) == (first.last_position, True)


async def test_a_key_used_twice_at_once_counts_once(store: EventStore):
    results = await asyncio.gather(
        *(store.append("s", [Noted("a")], 0, idempotency_key="k") for _ in range(5))
    )

    assert sorted(result.duplicate for result in results) == [False, True, True, True, True]
    assert (await store.head("s")).version == 1


async def test_a_refused_append_does_not_use_up_its_key(store: EventStore):
    with pytest.raises(WrongExpectedVersion):
        await store.append("s", [Noted("a")], 4, idempotency_key="k")

    assert not (await store.append("s", [Noted("a")], 0, idempotency_key="k")).duplicate


# --- relaxed


async def test_relaxed_appends_are_answered_in_order_and_kept_by_flush(store: EventStore):
    for n in range(50):
        result = await store.append("s", [Noted(str(n))], n, durability="relaxed")
        assert (result.last_version, result.last_position) == (n + 1, 0)

    await store.flush()
    assert texts(await store.read_stream("s")) == [str(n) for n in range(50)]


async def test_commit_and_relaxed_appends_of_one_stream_keep_their_order(store: EventStore):
    await store.append("s", [Noted("a")], 0, durability="relaxed")
    await store.append("s", [Noted("b")], 1)
    await store.append("s", [Noted("c")], 2, durability="relaxed")
    await store.append("s", [Noted("d")], ANY_VERSION)

    assert texts(await store.read_stream("s")) == ["a", "b", "c", "d"]


async def test_a_relaxed_append_at_the_wrong_version_is_refused(store: EventStore):
    await store.append("s", [Noted("a")], 0, durability="relaxed")

    for expected in (0, 2):
        with pytest.raises(WrongExpectedVersion) as caught:
            await store.append("s", [Noted("b")], expected, durability="relaxed")
        assert caught.value.actual == 1


async def test_a_relaxed_append_of_a_fenced_owner_is_refused(store: EventStore):
    await store.append("s", [Noted("a")], 0)
    await store.acquire("s", 2)

    with pytest.raises(Fenced):
        await store.append("s", [Noted("b")], 1, epoch=1, durability="relaxed")
    await store.flush()
    assert (await store.head("s")).version == 1


async def test_a_relaxed_append_takes_no_key_and_needs_a_version(store: EventStore):
    with pytest.raises(InvalidAppend):
        await store.append("s", [Noted("a")], 0, durability="relaxed", idempotency_key="k")
    with pytest.raises(InvalidAppend):
        await store.append("s", [Noted("a")], ANY_VERSION, durability="relaxed")


async def test_a_relaxed_append_beside_a_refused_one(
    store: EventStore,
):
    """An acknowledged append never depends on one that is refused."""
    await store.append("s", [Noted("a")], 0)

    wrong, phantom, right = await asyncio.gather(
        store.append("s", [Noted("wrong")], 10),
        store.append("s", [Noted("phantom")], 11, durability="relaxed"),
        store.append("s", [Noted("right")], 1, durability="relaxed"),
        return_exceptions=True,
    )
    await store.flush()

    assert isinstance(wrong, WrongExpectedVersion)
    assert isinstance(phantom, WrongExpectedVersion)
    assert not isinstance(right, BaseException)
    assert texts(await store.read_stream("s")) == ["a", "right"]


async def test_a_relaxed_append_beside_a_repeated_request(
    store: EventStore,
):
    await store.append("s", [Noted("a")], 0, idempotency_key="k")
    await store.append("s", [Noted("b")], 1)

    again, right = await asyncio.gather(
        store.append("s", [Noted("a")], 0, idempotency_key="k"),
        store.append("s", [Noted("c")], 2, durability="relaxed"),
        return_exceptions=True,
    )
    await store.flush()

    assert again.duplicate  # type: ignore[union-attr]
    assert not isinstance(right, BaseException)
    assert texts(await store.read_stream("s")) == ["a", "b", "c"]


# --- totals


async def totals(store: EventStore) -> dict[str, int]:
    """Return the totals, once both ways to ask agree."""
    now = store.totals_nowait()
    await store.flush()
    assert await store.totals() == store.totals_nowait() == now
    return now


@pytest.fixture(params=["commit", "relaxed"])
def durability(request: pytest.FixtureRequest) -> Any:
    return request.param


async def test_totals_begin_at_nothing(store: EventStore):
    await store.append("s", [Noted("a")], 0)

    assert await totals(store) == {}


async def test_what_appends_count_is_summed_over_all_streams(store: EventStore, durability: Any):
    counted = [
        {"memories": 2, "bytes": 70}, {"memories": -1}, {}, {"bytes": -20, "é" * 512: 1},
        {"memories": 0, "never": 0},
    ]  # fmt: skip
    for n, counters in enumerate(counted):
        await store.append(f"s{n}", [Noted("a")], 0, counters=counters, durability=durability)

    assert await totals(store) == {"memories": 1, "bytes": 50, "é" * 512: 1}


async def test_a_total_that_comes_to_zero_is_not_listed(store: EventStore, durability: Any):
    await store.append("s", [Noted("a")], 0, counters={"n": 3}, durability=durability)
    await store.append("s", [Noted("b")], 1, counters={"n": -3}, durability=durability)

    assert await totals(store) == {}


async def test_an_append_has_counted_when_it_returns(store: EventStore, durability: Any):
    async def append(stream: str) -> None:
        for version in range(20):
            before = store.totals_nowait().get(stream, 0)
            await store.append(
                stream, [Noted("a")], version, counters={stream: 1}, durability=durability
            )
            assert store.totals_nowait()[stream] == before + 1 == version + 1

    await asyncio.gather(*(append(f"s{n}") for n in range(8)))

    assert await totals(store) == {f"s{n}": 20 for n in range(8)}


async def test_a_reservation_hears_when_it_is_counted(store: EventStore, durability: Any):
    """The caller that has set room aside hears of it when it is counted.

    Whatever the totals tell of is set aside no more, and the reverse: the sum is exact.
    """
    aside, seen = {"n": 8}, []

    def counted() -> None:
        aside["n"] -= 1

    async def write(stream: str) -> None:
        await store.append(
            stream, [Noted("a")], 0, counters={"n": 1}, durability=durability, counted=counted
        )

    writes = asyncio.gather(*(write(f"s{n}") for n in range(8)))
    while not writes.done():
        seen.append(aside["n"] + store.totals_nowait().get("n", 0))
        await asyncio.sleep(0)
    assert (set(seen), aside["n"]) == ({8}, 0)


async def test_of_what_is_not_counted_nobody_hears(store: EventStore):
    heard: list[int] = []
    await store.append("s", [Noted("a")], 0, idempotency_key="k", counters={"n": 1})
    await store.append(
        "s",
        [Noted("a")],
        0,
        idempotency_key="k",
        counters={"n": 1},
        counted=lambda: heard.append(1),
    )
    with pytest.raises(WrongExpectedVersion):
        await store.append("s", [Noted("b")], 0, counters={"n": 1}, counted=lambda: heard.append(2))
    assert not heard


async def test_an_append_that_is_refused_counts_nothing(store: EventStore, durability: Any):
    await store.append("s", [Noted("a")], 0, epoch=2, counters={"n": 5})

    for version, epoch in ((0, 2), (1, 1)):
        with pytest.raises((WrongExpectedVersion, Fenced)):
            await store.append(
                "s", [Noted("b")], version, epoch=epoch, counters={"n": 1}, durability=durability
            )
    assert await totals(store) == {"n": 5}


async def test_a_total_never_leaves_its_range(store: EventStore, durability: Any):
    """The append is refused as a whole: no event, no other total."""
    await store.append("s", [Noted("a")], 0, counters={"n": 5, "top": I64_MAX})

    for counters in ({"m": 1, "n": -6}, {"m": 1, "top": 1}, {"m": -1}, {"n": -I64_MAX - 1}):
        with pytest.raises(InvalidAppend, match="range"):
            await store.append("s", [Noted("b")], 1, counters=counters, durability=durability)
    await store.append("s", [Noted("c")], 1, counters={"n": -5}, durability=durability)
    assert await totals(store) == {"top": I64_MAX}
    assert texts(await store.read_stream("s")) == ["a", "c"]


async def test_there_are_at_most_256_totals(store: EventStore, durability: Any):
    await store.append("s", [Noted("a")], 0, counters={f"n{n}": 1 for n in range(256)})

    with pytest.raises(InvalidAppend, match="257"):
        await store.append("s", [Noted("b")], 1, counters={"new": 1}, durability=durability)
    await store.append("s", [Noted("c")], 1, counters={"new": 1, "n0": -1}, durability=durability)

    assert len(await totals(store)) == 256
    assert texts(await store.read_stream("s")) == ["a", "c"]


async def test_appends_at_once_count_if_they_are_there(store: EventStore):
    """Of appends made at once, those that are in the log have counted.

    Wrong versions and totals below zero, in the middle of commits with others.
    """

    async def append(n: int) -> None:
        counters = {"events": 1, "low": -1} if n % 5 == 2 else {"events": 1}
        with suppress(WrongExpectedVersion, InvalidAppend):
            await store.append(f"s{n}", [Noted("a")], n % 3 % 2, counters=counters)

    await asyncio.gather(*(append(n) for n in range(60)))

    events = len(await store.read_all(limit=100))
    assert await totals(store) == {"events": events}
    assert events == 32


async def test_a_repeated_request_counts_once(store: EventStore):
    """The repeated request succeeds also where the total would refuse it by now."""
    await store.append("s", [Noted("a")], 0, counters={"n": 3})

    results = await asyncio.gather(
        *(
            store.append("s", [Noted("b")], 1, idempotency_key="k", counters={"n": -2})
            for _ in range(5)
        )
    )

    assert [result.duplicate for result in results].count(False) == 1
    assert await totals(store) == {"n": 1}


async def test_counters_changed_afterwards_do_not_matter(store: EventStore):
    """A caller may change its counters after the append: the log has a copy."""
    counters = {"n": 1}
    appending = asyncio.create_task(store.append("s", [Noted("a")], 0, counters=counters))
    await asyncio.sleep(0)
    counters["n"] = 7
    await appending

    store.totals_nowait()["n"] = 9
    (await store.totals())["n"] = 9
    assert await totals(store) == {"n": 1}


async def test_an_append_whose_caller_was_cancelled_has_counted_after_flush(store: EventStore):
    appending = asyncio.create_task(store.append("s", [Noted("a")], 0, counters={"n": 1}))
    await asyncio.sleep(0)
    appending.cancel()
    await asyncio.wait([appending])

    await store.flush()
    assert store.totals_nowait() == {"n": 1}


async def test_a_relaxed_append_beside_one_over_the_totals(
    store: EventStore,
):
    """An acknowledged append never depends on a counter of a refused one."""
    wrong, short, right = await asyncio.gather(
        store.append("a", [Noted("wrong")], 7, counters={"n": 5}),
        store.append("b", [Noted("short")], 0, counters={"n": -5}, durability="relaxed"),
        store.append("c", [Noted("right")], 0, counters={"n": 1}, durability="relaxed"),
        return_exceptions=True,
    )

    assert isinstance(wrong, WrongExpectedVersion)
    assert isinstance(short, InvalidAppend)
    assert not isinstance(right, BaseException)
    assert await totals(store) == {"n": 1}
    assert texts(await store.read_all()) == ["right"]


async def test_callers_who_reserve_what_they_append_never_pass_a_limit(store: EventStore):
    """Forty writers have more to add than there is room for; some drop what they had."""
    limit, reserved, most = 100, 0, 0

    async def write(stream: str, durability: Any) -> None:
        nonlocal reserved, most
        for version, delta in enumerate((3, 2, -4, 3, 2)):
            if store.totals_nowait().get("n", 0) + reserved + delta > limit:
                return
            reserved += max(delta, 0)
            await store.append(
                stream, [Noted("a")], version, counters={"n": delta}, durability=durability
            )
            reserved -= max(delta, 0)
            most = max(most, store.totals_nowait()["n"])

    await asyncio.gather(*(write(f"s{n}", ("commit", "relaxed")[n % 2]) for n in range(40)))

    assert 90 < most <= limit
    assert (await totals(store))["n"] <= limit


# --- ownership


async def test_a_former_owner_is_fenced(store: EventStore):
    await store.append("s", [Noted("a")], 0, epoch=1)
    head = await store.acquire("s", 3)
    assert (head.version, head.epoch) == (1, 3)

    with pytest.raises(Fenced) as caught:
        await store.append("s", [Noted("b")], 1, epoch=2)
    assert (caught.value.stream, caught.value.epoch, caught.value.current) == ("s", 2, 3)
    with pytest.raises(Fenced):
        await store.append("s", [Noted("b")], 1)
    with pytest.raises(Fenced):
        await store.acquire("s", 2)
    await store.append("s", [Noted("b")], 1, epoch=3)
    assert (await store.head("s")).epoch == 3


async def test_an_append_with_a_higher_epoch_takes_the_stream(store: EventStore):
    await store.append("s", [Noted("a")], 0, epoch=5)

    with pytest.raises(Fenced):
        await store.append("s", [Noted("b")], 1, epoch=4)


async def test_a_stream_can_be_acquired_before_its_first_event(store: EventStore):
    await store.acquire("s", 1)

    with pytest.raises(Fenced):
        await store.append("s", [Noted("a")], 0)
    assert (await store.append("s", [Noted("a")], 0, epoch=1)).last_version == 1


async def test_a_refused_acquire_leaves_no_stream_behind(store: EventStore):
    with pytest.raises((Fenced, InvalidAppend)):
        await store.acquire("s", -1)

    assert await store.streams() == []


async def test_an_epoch_that_is_none_is_refused(store: EventStore):
    epochs: tuple[Any, ...] = (2**63, 1.5, True, "7", None)
    for epoch in epochs:
        await refuses(acquire=store.acquire("s", epoch))

    assert (await store.head("s")).epoch == 0


async def test_a_fenced_owner_repeats_and_gets_its_first_result(store: EventStore):
    await store.append("s", [Noted("a")], 0, epoch=1, idempotency_key="k")
    await store.acquire("s", 2)

    assert (await store.append("s", [Noted("a")], 0, epoch=1, idempotency_key="k")).duplicate


# --- read


async def test_reads_start_behind_a_place_and_stop_at_a_limit(store: EventStore):
    await store.append("s", [Noted(str(n)) for n in range(100)], 0)

    assert texts(await store.read_stream("s", after=10, limit=2)) == ["10", "11"]
    assert texts(await store.read_all(after=97, limit=50)) == ["97", "98", "99"]
    assert len(await store.read_stream("s", limit=1000)) == 100
    assert await store.read_stream("s", limit=0) == await store.read_all(limit=0) == []
    assert await store.read_stream("s", after=100) == await store.read_all(after=100) == []
    assert await store.read_stream("s", after=2**70) == await store.read_all(after=2**70) == []


async def test_a_place_before_the_first_event_is_the_start(store: EventStore):
    await store.append("s", [Noted("a"), Noted("b")], 0)

    for after in (-1, -2, -(2**70)):
        assert texts(await store.read_stream("s", after=after)) == ["a", "b"]
        assert texts(await store.read_all(after=after)) == ["a", "b"]
    assert await store.read_stream("s", limit=-1) == await store.read_all(limit=-1) == []


async def test_an_event_is_found_by_its_position(store: EventStore):
    await store.append("s", [Noted("a"), Noted("b")], 0)

    assert (await store.read_event(2)).data == Noted("b")  # type: ignore[union-attr]
    for position in (0, 3, -1, 2**64, -(2**70)):
        assert await store.read_event(position) is None


async def test_versions_are_read_in_the_order_asked_for(store: EventStore):
    await store.append("s", [Noted(str(n)) for n in range(50)], 0)

    assert texts(await store.read_versions("s", [3, 1, 50, 1])) == ["2", "0", "49", "0"]
    assert len(await store.read_versions("s", range(1, 51))) == 50
    assert await store.read_versions("s", []) == []
    for version in (0, 51, -1, 2**64):
        with pytest.raises(CorruptLog):
            await store.read_versions("s", [version])


async def test_events_are_found_by_what_they_are_about(store: EventStore):
    await store.append("s", [Noted("a", ("x", "y")), Noted("b", ("y",)), Noted("c")], 0)
    await store.append("t", [Noted("d", ("x",))], 0)
    await store.append("s", [Noted("e", ("x", "x"))], 3)

    assert await store.versions_about("s", "x") == [1, 4]
    assert await store.versions_about("s", "y") == [1, 2]
    assert await store.versions_about("s", "z") == []


# --- snapshots


async def test_the_newest_snapshot_of_a_schema_is_loaded(store: EventStore):
    await store.append("s", [Noted(str(n)) for n in range(9)], 0)
    await store.save_snapshot("s", Snapshot(4, b"four"), "f1")
    await store.save_snapshot("s", Snapshot(8, b"eight"), "f2")

    assert await store.load_snapshot("s", "f2") == Snapshot(8, b"eight")
    assert await store.load_snapshot("s", "f1") == Snapshot(4, b"four")
    assert await store.load_snapshot("s", "f3") is None


async def test_a_snapshot_may_be_asked_for_up_to_a_version(store: EventStore):
    await store.append("s", [Noted(str(n)) for n in range(9)], 0)
    for version in (4, 8):
        await store.save_snapshot("s", Snapshot(version, b"state"), "f")

    found = [await store.load_snapshot("s", "f", until=version) for version in (3, 4, 7, 8, 99)]
    assert [None if one is None else one.version for one in found] == [None, 4, 4, 8, 8]


async def test_two_snapshots_are_kept(store: EventStore):
    await store.append("s", [Noted(str(n)) for n in range(9)], 0)
    for version in (2, 4, 6):
        await store.save_snapshot("s", Snapshot(version, b""), f"f{version}")

    loaded = [await store.load_snapshot("s", f"f{version}") for version in (2, 4, 6)]
    assert loaded == [None, Snapshot(4, b""), Snapshot(6, b"")]


async def test_a_snapshot_ahead_of_its_stream_is_ignored(store: EventStore):
    await store.append("s", [Noted("a")], 0)
    await store.save_snapshot("s", Snapshot(1, b"one"), "f")
    await store.save_snapshot("s", Snapshot(2, b"two"), "f")

    assert await store.load_snapshot("s", "f") == Snapshot(1, b"one")


async def test_of_a_stream_without_events_there_is_no_snapshot(store: EventStore):
    await store.save_snapshot("s", Snapshot(0, b"of nothing"), "f")
    assert await store.load_snapshot("s", "f") is None


async def test_a_snapshot_makes_no_stream(store: EventStore):
    await store.save_snapshot("s", Snapshot(0, b""), "f")

    assert await store.streams() == []


# --- checkpoints


async def test_a_checkpoint_is_stored_with_its_entries(store: EventStore):
    await store.save_checkpoint(Checkpoint("p", 7, {b"a": b"1", b"b": b"", b"c" * 400: b"3"}))
    await store.save_checkpoint(Checkpoint("p", 8, {b"a": None, b"never": None}))

    assert await store.load_checkpoint("p") == 8
    assert await store.load_entry("p", b"a") is None
    assert await store.load_entry("p", b"b") == b""
    assert await store.load_entry("p", b"c" * 400) == b"3"
    assert await store.load_entry("q", b"b") is None
    assert await store.load_checkpoint("q") == 0


async def test_a_checkpoint_goes_with_the_append_that_it_guards(store: EventStore):
    done = Checkpoint("p", 5, {b"k": b"v"})
    with pytest.raises(WrongExpectedVersion):
        await store.append("s", [Noted("a")], 3, checkpoint=done)
    assert await store.load_checkpoint("p") == 0
    assert await store.load_entry("p", b"k") is None

    await store.append("s", [Noted("a")], 0, checkpoint=done)

    assert await store.load_checkpoint("p") == 5
    assert await store.load_entry("p", b"k") == b"v"


async def test_a_checkpoint_that_cannot_be_kept_is_refused_alone(store: EventStore):
    checkpoints = (
        Checkpoint("p", 1, {b"k" * 401: b""}), Checkpoint("p", -1), Checkpoint("p", 2**64),
        Checkpoint(SURROGATE, 1),
    )  # fmt: skip
    for number, checkpoint in enumerate(checkpoints):
        appended, saved = await asyncio.gather(
            store.append("s", [Noted("a")], number),
            store.save_checkpoint(checkpoint),
            return_exceptions=True,
        )
        assert isinstance(saved, InvalidAppend)
        assert not isinstance(appended, BaseException)


# --- waiting and closing


async def test_a_waiter_wakes_when_an_event_comes(store: EventStore):
    waiting = asyncio.create_task(store.wait_beyond(0))
    await asyncio.sleep(0)
    assert not waiting.done()

    await store.append("s", [Noted("a")], 0)

    with anyio.fail_after(5):
        assert await waiting == 1
        await store.append("t", [Noted("b"), Noted("c")], 0)
        assert await store.wait_beyond(0) == 3
        assert await store.wait_beyond(2) == 3


@pytest.mark.parametrize("stream", [None, "s"])
@pytest.mark.parametrize("batch", [1, 2, 512])
async def test_a_subscription_gives_the_past_then_the_new(
    store: EventStore, stream: str | None, batch: int
):
    """A subscription gives the past behind a position, and then the new events."""
    for n in range(6):
        await store.append("st"[n % 2], [Noted(str(n))], n // 2)  # s at 1, 3, 5
    source = subscribe(store, 2, stream=stream, batch=batch)

    with anyio.fail_after(10):
        past = [await anext(source) for _ in range(2 if stream else 4)]
        coming = asyncio.ensure_future(anext(source))
        await asyncio.sleep(0)
        if stream:
            await store.append("t", [Noted("not this one")], 3)
            await asyncio.sleep(0.01)
            assert not coming.done()
        await store.append("s", [Noted("new"), Noted("newer")], 3)
        live = [await coming, await anext(source)]

    assert texts(past) == (["2", "4"] if stream else ["2", "3", "4", "5"])
    assert texts(live) == ["new", "newer"]


@pytest.mark.parametrize("stream", [None, "s"])
async def test_a_subscription_behind_the_end_of_the_log_begins_there(
    store: EventStore, stream: str | None
):
    await store.append("s", [Noted("1"), Noted("2")], 0)
    coming = asyncio.ensure_future(anext(subscribe(store, 3, stream=stream)))
    await asyncio.sleep(0.01)

    await store.append("s", [Noted("3"), Noted("4")], 2)

    with anyio.fail_after(10):
        assert (await coming).position == 4


@pytest.mark.parametrize("stream", [None, "s"])
async def test_a_subscription_of_nothing_waits_for_the_first_event(
    store: EventStore, stream: str | None
):
    """It lets the loop go meanwhile."""
    coming = asyncio.ensure_future(anext(subscribe(store, -1, stream=stream)))
    with anyio.fail_after(10):
        await asyncio.sleep(0.01)
        await store.append("s", [Noted("a")], 0)
        assert (await coming).position == 1


async def test_closing_ends_waiters_and_subscriptions(opened: Any):
    heard: asyncio.Queue[str] = asyncio.Queue()

    async def follow(store: EventStore, stream: str | None) -> None:
        async for event in subscribe(store, stream=stream):
            heard.put_nowait(event.data.text)

    with anyio.fail_after(30):
        async with opened as store:
            waiting = asyncio.create_task(store.wait_beyond(1))
            following = [asyncio.create_task(follow(store, stream)) for stream in (None, "s")]
            await store.append("s", [Noted("a")], 0)
            assert [await heard.get(), await heard.get()] == ["a", "a"]
        assert not await waiting
        await asyncio.gather(*following)
        assert heard.empty()


async def test_a_closed_store_accepts_nothing(opened: Any):
    async with opened as store:
        await store.append("s", [Noted("a")], 0)

    with pytest.raises(LogClosed):
        await store.append("s", [Noted("b")], 1)
    with pytest.raises(LogClosed):
        await store.append("s", [Noted("b")], 1, durability="relaxed")
    with pytest.raises(LogClosed):
        await store.acquire("s", 1)
