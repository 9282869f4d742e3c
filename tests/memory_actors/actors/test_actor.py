"""An actor: batches, refusals, crashes, quarantine, deadlines, cancelled callers."""

import asyncio
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from support.in_memory_log import InMemoryLog

from eventlog import (
    ClockOutOfRange,
    Decider,
    DiskFull,
    EventRegistry,
    Recorded,
    StorageFailed,
    replay,
)
from memory_actors import (
    CommandCrashedError,
    DeadlineExceededError,
    InvalidInputError,
    QuarantinedError,
    StorageFullError,
    UnavailableError,
)
from memory_actors.actors import actor as actor_module
from memory_actors.actors.actor import Actor
from memory_actors.actors.asking import Reply, Request
from memory_actors.base.errors import MovedError

pytestmark = pytest.mark.anyio

registry = EventRegistry()


@registry.event("counter.added")
class Added(msgspec.Struct, frozen=True):
    amount: int


class Add(msgspec.Struct, frozen=True):
    amount: int


def decide(command: Add, state: int) -> Sequence[Added]:
    if command.amount == 13:
        raise ZeroDivisionError("a bug")
    if state + command.amount > 1_000:
        raise InvalidInputError("too much")
    return [Added(command.amount)] if command.amount else []


DECIDER = Decider(0, decide, lambda state, recorded: state + recorded.data.amount)


class Watch:
    """A behaviour that remembers what it was told."""

    def __init__(self) -> None:
        self.seen: list[tuple[list[int], int, int]] = []
        self.rebuilds: list[int] = []
        self.failure: Exception | None = None
        self.total_max = 1_000
        self.claimed = 0

    async def enrich(self, command: Any, state: int) -> Any:
        return command

    def check_totals(self, before: int, after: int) -> None:
        if after > self.total_max:
            raise InvalidInputError("too much of all")

    def admit(self, before: int, after: int) -> dict[str, int]:
        self.claimed += after - before
        return {"all": after - before}

    def release(self, changes: dict[str, int]) -> None:
        self.claimed -= changes["all"]

    def published(self, events: Sequence[Recorded[Any]], before: int, after: int) -> None:
        if self.failure is not None:
            failure, self.failure = self.failure, None
            raise failure
        self.seen.append(([e.data.amount for e in events], before, after))

    def rebuilt(self, state: int) -> None:
        self.rebuilds.append(state)

    def fenced(self) -> None:
        self.is_fenced = True


class FlakyLog(InMemoryLog):
    """Fails the next appends, before or after they are carried out."""

    def __init__(self) -> None:
        super().__init__(registry)
        self.failures: list[tuple[str, Exception]] = []
        self.appends = 0
        self.hold: asyncio.Event | None = None
        self.how: dict[str, Any] = {}

    async def append(self, *args: Any, **more: Any) -> Any:
        self.appends += 1
        self.how = more
        if self.hold is not None:
            await self.hold.wait()
        when, failure = self.failures.pop(0) if self.failures else ("never", None)
        if when == "before":
            raise failure
        result = await super().append(*args, **more)
        if when == "after":
            raise failure
        return result


@pytest.fixture(autouse=True)
def no_backoff(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(actor_module, "BACKOFF_S", (0.0, 0.0, 0.0))


def make(log: FlakyLog | None = None) -> tuple[Actor[int], FlakyLog, Watch]:
    log, watch = log or FlakyLog(), Watch()
    made = Actor(
        "s", decider=DECIDER, behaviour=watch, log=log, clock=lambda: 0,
        rebuild=lambda: replay(log, DECIDER, "s"), state=0, version=0, epoch=0,
    )  # fmt: skip
    return made, log, watch


async def ask(actor: Actor[int], request: Request, **deadline: float) -> Reply:
    return await (await actor.post(request, **deadline))


def add(amount: int, **more: Any) -> Request:
    return Request(command=Add(amount), **more)


async def test_commands_that_wait_together_are_appended_together() -> None:
    actor, log, watch = make()
    replies = await asyncio.gather(*(ask(actor, add(n)) for n in (1, 2, 3)))
    assert [reply.state for reply in replies] == [1, 3, 6]
    assert (log.appends, watch.seen) == (1, [([1, 2, 3], 0, 6)])
    assert not actor.busy


async def test_a_dry_run_refuses_like_the_decision_or_totals() -> None:
    actor, _, watch = make()
    await ask(actor, add(600))
    watch.total_max = 700
    with pytest.raises(InvalidInputError, match=r"too much$"):
        await actor.dry_run(Add(600))
    with pytest.raises(InvalidInputError, match="too much of all"):
        await actor.dry_run(Add(101))
    assert await actor.dry_run(Add(100)) == [Added(100)]


async def test_a_refusal_harms_nobody_else_in_its_batch() -> None:
    actor, _, _ = make()
    results = await asyncio.gather(
        ask(actor, add(600)), ask(actor, add(600)), ask(actor, add(1)), return_exceptions=True
    )
    assert isinstance(results[1], InvalidInputError)
    assert actor.state == 601


async def test_a_refusal_waits_for_what_it_rests_on() -> None:
    """A refusal is not answered before the events that it rests on are durable."""
    actor, log, _ = make()
    log.hold = asyncio.Event()
    first = asyncio.create_task(ask(actor, add(600)))
    refused = asyncio.create_task(ask(actor, add(600)))
    for _ in range(20):
        await asyncio.sleep(0)
    assert not refused.done()
    assert actor.state == 0, "readers see confirmed state only"
    log.hold.set()
    await first
    with pytest.raises(InvalidInputError):
        await refused


@pytest.mark.parametrize(
    ("field", "values", "appended"),
    [
        ("durability", ("commit", "relaxed"), ("durability", "commit")),
        ("durability", ("relaxed", "commit"), ("durability", "commit")),
        ("durability", ("relaxed", "relaxed"), ("durability", "relaxed")),
        ("frees", (True, False), ("use_reserve", False)),
        ("frees", (False, True), ("use_reserve", False)),
        ("frees", (True, True), ("use_reserve", True)),
    ],
)
async def test_the_strictest_command_of_a_batch_decides_how_it_is_appended(
    field: str, values: tuple[Any, Any], appended: tuple[str, Any]
) -> None:
    """A durable add is never acknowledged unsynced, nor let into the reserve by a delete."""
    actor, log, _ = make()
    requests = [Request(command=Add(1), **{field: value}) for value in values]
    await asyncio.gather(*[await actor.post(request) for request in requests])
    assert log.appends == 1
    assert log.how[appended[0]] == appended[1]


async def test_a_clock_that_is_wrong_for_a_moment_refuses_one_command() -> None:
    """Each caller hears of it in turn, and who comes when it is right again is served."""
    actor, log, _ = make()
    times: list[int | None] = [None, None, 0]

    def clock() -> int:
        if (time := times.pop(0)) is None:
            raise ClockOutOfRange("set it right")
        return time

    actor._clock = clock
    answers = [await actor.post(add(n)) for n in (1, 2, 3)]
    first, second, third = await asyncio.gather(*answers, return_exceptions=True)
    assert isinstance(first, ClockOutOfRange)
    assert isinstance(second, ClockOutOfRange)
    assert isinstance(third, Reply)
    assert (third.state, log.appends, actor.quarantined) == (3, 1, None)


async def test_an_actor_that_crashes_too_often_is_quarantined() -> None:
    actor, _, _ = make()
    await ask(actor, add(5))
    for _ in range(4):
        with pytest.raises(CommandCrashedError):
            await ask(actor, add(13))
    await actor.drain()
    with pytest.raises(QuarantinedError, match="Reads and export work"):
        await ask(actor, add(1))
    assert actor.state == 5


async def test_crashes_that_are_far_apart_quarantine_nobody(monkeypatch) -> None:
    monkeypatch.setattr(actor_module, "RESTART_WINDOW_S", 0.0)
    actor, _, _ = make()
    for _ in range(5):
        with pytest.raises(CommandCrashedError):
            await ask(actor, add(13))
        await actor.drain()
    assert (await ask(actor, add(1))).state == 1


async def test_a_command_is_answered_though_the_work_is_cancelled_before_it_begins() -> None:
    actor, _, _ = make()
    answer = await actor.post(add(1))
    assert actor._task is not None
    actor._task.cancel()
    assert (await asyncio.wait_for(answer, 5)).state == 1


@pytest.mark.parametrize(("when", "state"), [("before", 1), ("after", 3)])
async def test_an_uncertain_append_is_an_error_and_read_again(when, state) -> None:
    actor, log, watch = make()
    await ask(actor, add(1))
    log.failures = [(when, StorageFailed("who knows"))]
    with pytest.raises(UnavailableError):
        await ask(actor, add(2))
    assert (await ask(actor, add(4))).state == state + 4
    assert (watch.rebuilds, watch.claimed) == ([state], 0)


async def test_a_full_disk_is_told_apart_and_needs_no_rebuild() -> None:
    actor, log, watch = make()
    log.failures = [("before", DiskFull("full"))] * 6
    for _ in range(6):
        with pytest.raises(StorageFullError):
            await ask(actor, add(1))
    assert (watch.rebuilds, watch.claimed) == ([], 0)
    assert (await ask(actor, add(2))).state == 2


async def test_a_fenced_actor_stops_writing() -> None:
    actor, log, watch = make()
    await ask(actor, add(1))
    await log.acquire("s", 5)
    with pytest.raises(MovedError, match="epoch"):
        await ask(actor, add(1))
    with pytest.raises(MovedError):
        await ask(actor, add(1))
    assert (watch.is_fenced, actor.quarantined) == (True, None)


async def test_another_writer_is_noticed_and_read() -> None:
    actor, log, _ = make()
    await log.append("s", [Added(100)], 0)
    with pytest.raises(UnavailableError):
        await ask(actor, add(1))
    assert (await ask(actor, add(1))).state == 101


async def test_a_failed_update_of_indexes_fails_no_write() -> None:
    """A failure to update indexes and other derived data does not fail the write."""
    actor, _, watch = make()
    watch.failure = RuntimeError("index")
    assert (await ask(actor, add(1))).state == 1
    await actor.drain()
    assert watch.rebuilds == [1]


async def test_a_deadline_is_kept_and_the_command_still_carried_out() -> None:
    actor, log, _ = make()
    log.hold = asyncio.Event()
    with pytest.raises(DeadlineExceededError, match="may still be carried out"):
        await ask(actor, add(1), deadline_s=0.01)
    log.hold.set()
    await actor.drain()
    assert actor.state == 1


async def test_a_cancelled_caller_is_dropped_before_its_turn_only() -> None:
    """A caller cancelled before its turn is dropped; after it, the command is carried out."""
    actor, log, _ = make()
    log.hold = asyncio.Event()
    taken = asyncio.create_task(ask(actor, add(1)))
    for _ in range(5):
        await asyncio.sleep(0)
    waiting = asyncio.create_task(ask(actor, add(2)))
    await asyncio.sleep(0)
    taken.cancel()
    waiting.cancel()
    await asyncio.gather(taken, waiting, return_exceptions=True)
    log.hold.set()
    await actor.drain()
    assert actor.state == 1


async def test_a_full_mailbox_makes_callers_wait_and_none_is_lost(monkeypatch) -> None:
    monkeypatch.setattr(actor_module, "MAILBOX_MAX", 4)
    actor, _, _ = make()
    asked = [asyncio.create_task(ask(actor, add(1))) for _ in range(50)]
    await asyncio.sleep(0)
    assert actor.waiting == 4
    await asyncio.gather(*asked)
    assert actor.state == 50


async def test_two_requests_with_one_key_are_carried_out_once() -> None:
    actor, _, _ = make()
    asks = (ask(actor, add(3, idempotency_key="k", digest=b"3")) for _ in range(5))
    replies = await asyncio.gather(*asks)
    assert sorted(reply.duplicate for reply in replies) == [False, True, True, True, True]
    assert actor.state == 3


async def test_a_request_among_others_keeps_its_key() -> None:
    """A key guards one append, so it cannot share one."""
    actor, _, _ = make()
    await asyncio.gather(
        ask(actor, add(1)),
        ask(actor, add(2, idempotency_key="k", digest=b"2")),
        ask(actor, add(4)),
    )
    again = await ask(actor, add(2, idempotency_key="k", digest=b"2"))
    assert (again.duplicate, [e.data for e in again.events]) == (True, [Added(2)])
    assert actor.state == 7


async def test_callers_who_gave_up_hold_up_nobody(monkeypatch) -> None:
    """Callers who gave up waiting do not hold up those behind them."""
    monkeypatch.setattr(actor_module, "MAILBOX_MAX", 1)
    actor, log, _ = make()
    log.hold = asyncio.Event()
    busy = [asyncio.create_task(ask(actor, add(1))) for _ in range(2)]
    for _ in range(5):
        await asyncio.sleep(0)
    gone = [asyncio.create_task(ask(actor, add(1), deadline_s=0.01)) for _ in range(20)]
    await asyncio.gather(*gone, return_exceptions=True)
    waiting = asyncio.create_task(ask(actor, add(1), deadline_s=5))
    await asyncio.sleep(0)
    log.hold.set()
    await asyncio.gather(*busy)
    assert (await waiting).state == 3
