"""The loop: order of events, ends, limits, failures, closing, and memory that stays flat."""

import asyncio
import gc
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from typing import Any

import anyio
import pytest
from support.improving import FakeCritic, FakeReviser

from memory_actors import (
    Critique,
    ImprovementError,
    Improver,
    InvalidInputError,
    MemoryLimitError,
    MemoryMonitor,
    improve,
    improve_stream,
)
from memory_actors.base.quota import MIB
from memory_actors.improve import (
    Critiqued,
    Event,
    Evicted,
    Failed,
    Finished,
    MemoryLimits,
    Result,
    Revised,
    Round,
    Scored,
    Started,
    State,
    Warned,
)
from memory_actors.improve.bounded import Marker
from memory_actors.observing.monitor import resident_bytes

pytestmark = pytest.mark.anyio


async def events_of(
    text: str = "text 0", critic: Any = None, reviser: Any = None, **options: Any
) -> list[Event]:
    stream = improve_stream(
        text, critic=critic or FakeCritic(), reviser=reviser or FakeReviser(), **options
    )
    return [event async for event in stream]


async def improved(
    text: str = "text 0", critic: Any = None, reviser: Any = None, **options: Any
) -> Result:
    return await improve(
        text, critic=critic or FakeCritic(), reviser=reviser or FakeReviser(), **options
    )


async def collect(stream: AsyncIterator[Event], into: list[Event]) -> None:
    """Put events into a list, also those before an error."""
    async for event in stream:
        into.append(event)  # noqa: PERF401 - a comprehension would lose them


def tags(events: list[Event]) -> list[str]:
    return [type(event).__struct_config__.tag for event in events]  # type: ignore[misc]


def stats(result: Result) -> dict[str, Any]:
    return result.metadata["memory_stats"]


# --- order and result


async def test_events_come_in_order() -> None:
    """Events come in order, and the last revision is judged too."""
    events = await events_of(critic=FakeCritic(0.1, 0.2, 0.3), memory_limits={"max_iterations": 2})
    round_ = ["critiqued", "scored", "revised"]
    assert tags(events) == ["started", *round_, *round_, "critiqued", "scored", "finished"]
    assert events[0] == Started(text_bytes=6, max_iterations=2)
    assert [event.round for event in events[1:-1]] == [1, 1, 1, 2, 2, 2, 3, 3]
    last = events[-1].result
    assert (last.text, last.score) == ("text 2", 0.3)
    assert last.history == (
        Round(number=1, critique=events[1].critique, text="text 1"),
        Round(number=2, critique=events[4].critique, text="text 2"),
        Round(number=3, critique=events[7].critique),
    )


async def test_the_result_is_the_earliest_best_text() -> None:
    critic = FakeCritic(0.1, 0.8, 0.3, 0.8, 0.2)
    events = await events_of(critic=critic)
    result = events[-1].result
    assert (result.text, result.score) == ("text 1", 0.8)
    scored = [event for event in events if isinstance(event, Scored)]
    assert [one.best_round for one in scored] == [1, 2, 2, 2, 2]
    assert [one.best_score for one in scored] == [0.1, 0.8, 0.8, 0.8, 0.8]
    assert stats(result)["stopped_because"] == "no_rise"


# --- ends


@pytest.mark.parametrize(
    ("critic", "reviser", "options", "because", "iterations"),
    [
        (FakeCritic(0.7, text=" "), None, {}, "nothing_found", 0),
        (None, FakeReviser([]), {}, "unchanged", 1),
        (None, None, {}, "no_rise", 3),
        (None, None, {"patience": 1}, "no_rise", 1),
        (FakeCritic(*(n / 100 for n in range(50))), None, {}, "max_iterations", 10),
        (FakeCritic(0.1, 0.5, 0.9), None, {"stop": 0.5}, "target_reached", 1),
        (None, None, {"stop": lambda state: state.round == 6}, "stop", 5),
        (None, FakeReviser([]), {"stop": lambda _: False}, "max_iterations", 10),
        (None, None, {"memory_limits": {"max_iterations": 0}}, "max_iterations", 0),
    ],
)
async def test_a_run_says_why_it_ended(
    critic: Any, reviser: Any, options: dict[str, Any], because: str, iterations: int
) -> None:
    result = await improved(critic=critic, reviser=reviser, **options)
    assert (stats(result)["stopped_because"], stats(result)["iterations"]) == (because, iterations)


async def test_a_stop_function_sees_where_the_run_is() -> None:
    seen: list[State] = []

    def stop(state: State) -> bool:
        seen.append(state)
        return state.score < state.best_score

    result = await improved(critic=FakeCritic(0.2, 0.6, 0.4), stop=stop)
    assert [state.round for state in seen] == [1, 2, 3]
    assert (seen[2].text, seen[2].best_text, seen[2].best_round) == ("text 2", "text 1", 2)
    assert result.text == "text 1"


# --- what is refused at once


@pytest.mark.parametrize(
    ("text", "options", "said"),
    [
        ("", {}, "the text is empty"),
        (" \n", {}, "the text is empty"),
        ("\ud800", {}, "not valid Unicode"),
        ("x" * (100 * 1024 + 1), {}, r"takes 102,401 bytes \(max: 102,400\)"),
        ("ä" * 6, {"memory_limits": {"max_text_length": 11}}, "takes 12 bytes"),
        ("x", {"memory_limits": {"max_rounds": 3}}, "`max_rounds`. It takes max_history_size"),
        ("x", {"memory_limits": {"max_iterations": -1}}, "max_iterations"),
        ("x", {"memory_limits": {"max_history_size": 1.5}}, "max_history_size"),
        ("x", {"memory_limits": MemoryLimits(max_critique_length=3)}, "max_critique_length"),
        ("x", {"memory_limits": {"soft_limit_bytes": 2, "hard_limit_bytes": 1}}, "is above"),
        ("x", {"stop": 1.5}, "stop must be a number from 0 to 1"),
        ("x", {"patience": 0}, "patience"),
        ("x", {"call_timeout_s": 0.0}, "call_timeout_s"),
        ("x", {"call_timeout_s": "3"}, "call_timeout_s must be a number above 0, not '3'"),
        ("x", {"call_timeout_s": None}, "call_timeout_s"),
        ("x", {"call_timeout_s": float("nan")}, "call_timeout_s"),
        ("x", {"stpo": 3, "memory_limit": {}}, "has no memory_limit, stpo: it takes memory_limits"),
        ("x", {"memory_limits": 5}, "memory_limits must be MemoryLimits or a mapping"),
        ("x", {"memory_limits": 0}, "memory_limits must be MemoryLimits or a mapping"),
        ("x", {"memory_limits": []}, "memory_limits must be MemoryLimits or a mapping"),
        ("x", {"monitor": 3}, "monitor must be a MemoryMonitor, not 3"),
        ("x", {"record_to": "ann"}, "record_to must be a UserMemory, not 'ann'"),
        ("x", {"stop": anyio.sleep}, "stop must be a plain function"),
        ("x", {"stop": FakeCritic()}, "stop must be a plain function"),
        ("x", {"critic": 5}, "critic must be an async function, not 5"),
        ("x", {"reviser": "me"}, "reviser must be an async function, not 'me'"),
        (
            "x",
            {"memory_limits": {"soft_limit_bytes": 1}, "monitor": MemoryMonitor()},
            "to the monitor or to memory_limits",
        ),
    ],
)
async def test_what_cannot_be_is_refused_before_any_work(
    text: str, options: dict[str, Any], said: str
) -> None:
    critic = FakeCritic()
    given = {"critic": critic, "reviser": FakeReviser(), **options}
    with pytest.raises(InvalidInputError, match=said):
        improve_stream(text, **given)
    with pytest.raises(InvalidInputError, match=said):
        await improve(text, **given)
    assert critic.asked == []


# --- what is too long on the way


@pytest.mark.parametrize(
    ("revised", "said"),
    [("x" * 200, "takes 200 bytes"), (" ", "empty"), (None, "not NoneType"), ("\ud800", "Unicode")],
)
async def test_an_impossible_revision_is_refused(revised: Any, said: str) -> None:
    """A revision that cannot stand is refused, and the run goes on."""
    critic, limits = FakeCritic(0.1, 0.1, 0.9, 0.1), {"max_text_length": 100, "max_iterations": 2}
    events = await events_of("first", critic, FakeReviser([revised, "good"]), memory_limits=limits)
    (warning,) = [event for event in events if isinstance(event, Warned)]
    assert (warning.round, said in warning.message) == (1, True)
    assert [event.text for event in events if isinstance(event, Revised)] == ["good"]
    result = events[-1].result
    assert (result.text, result.history[0].text) == ("good", None)
    assert result.history[0].error == warning.message
    assert critic.asked == ["first", "first", "good"]


# --- history


async def test_the_history_is_bounded_and_tells_what_left() -> None:
    limits = {"max_history_size": 10_000, "max_iterations": 30}
    events = await events_of(
        reviser=FakeReviser(make=lambda number: f"{number} ".ljust(2_000, "x")),
        memory_limits=limits, stop=lambda _: False,
    )  # fmt: skip
    evicted = [event for event in events if isinstance(event, Evicted)]
    result = events[-1].result
    assert [event.round for event in evicted] == list(range(2, 2 + len(evicted)))
    assert stats(result)["history_entries_evicted"] == len(evicted) > 20
    rounds = [entry for entry in result.history if isinstance(entry, Round)]
    markers = [entry for entry in result.history if isinstance(entry, Marker)]
    assert [one.number for one in rounds][:1] + [one.number for one in rounds][-1:] == [1, 31]
    assert sum(one.size_bytes for one in rounds) + sum(one.size for one in markers) <= 10_000
    assert markers[-1].sha256 == evicted[-1].sha256
    assert markers[-1].snippet.startswith(f"{evicted[-1].round} x")


# --- memory of the process


class Readings:
    """The values that a monitor reads, one after the other, the last for ever."""

    def __init__(self, *readings: int):
        self.readings = list(readings)

    def __call__(self) -> int:
        return self.readings.pop(0) if len(self.readings) > 1 else self.readings[0]


def monitor(*readings_mib: int, soft: int | None = None, hard: int | None = None) -> MemoryMonitor:
    ticks = iter(range(1_000_000))
    return MemoryMonitor(
        soft and soft * MIB, hard and hard * MIB,
        interval_s=0.5, clock=lambda: float(next(ticks)),
        read=Readings(*(one * MIB for one in readings_mib)),
    )  # fmt: skip


async def test_crossing_the_soft_limit_warns_once() -> None:
    events = await events_of(monitor=monitor(10, 10, 10, 10, 60, 60, 62, soft=50))
    warnings = [event for event in events if isinstance(event, Warned)]
    assert [one.message for one in warnings] == [
        "the process holds 60.0 MiB of memory (soft limit: 50.0 MiB)"
    ]
    assert stats(events[-1].result)["peak_usage_mb"] == 62.0


async def test_the_hard_limit_ends_with_the_result_so_far() -> None:
    """Over the hard limit the run ends, with the result so far in the error."""
    watched, seen = monitor(*[10] * 12, 101, hard=100), []
    stream = improve_stream(
        "text 0", critic=FakeCritic(0.1, 0.7, 0.2, 0.1), reviser=FakeReviser(), monitor=watched,
        stop=lambda _: False, memory_limits={"max_iterations": 100},
    )  # fmt: skip
    with pytest.raises(MemoryLimitError, match=r"101\.0 MiB") as caught:
        await collect(stream, seen)
    failed = seen[-1]
    assert isinstance(failed, Failed)
    assert (failed.error, failed.result) == ("MemoryLimitError", caught.value.result)
    assert (failed.result.text, failed.result.score) == ("text 1", 0.7)
    assert stats(failed.result)["stopped_because"] == "memory_limit"


# --- failures


@pytest.mark.parametrize(
    ("critic", "reviser", "said"),
    [
        (FakeCritic(0.4, ValueError("SECRET")), None, "the critic raised ValueError; see"),
        (None, FakeReviser(["text 1", InvalidInputError("why")]), "InvalidInputError: why; see"),
        (FakeCritic(0.4, None), None, "no Critique: it is of type NoneType"),
        (FakeCritic(0.4, Critique(score=1.5)), None, "its score is 1.5"),
        (FakeCritic(0.4, Critique(score=float("nan"))), None, "its score is nan"),
        (FakeCritic(0.4, Critique(score=0.5, text=3)), None, "written as JSON"),
        (FakeCritic(0.4, Critique(score=0.5, text="\ud800")), None, "written as JSON"),
    ],
)
async def test_a_failure_ends_the_run_with_the_result_so_far(
    critic: Any, reviser: Any, said: str
) -> None:
    seen: list[Event] = []
    stream = improve_stream(
        "text 0", critic=critic or FakeCritic(0.4, 0.2), reviser=reviser or FakeReviser()
    )
    with pytest.raises(ImprovementError, match=said) as caught:
        await collect(stream, seen)
    assert "SECRET" not in str(caught.value)
    assert isinstance(seen[-1], Failed)
    assert seen[-1].result == caught.value.result
    assert (seen[-1].result.text, seen[-1].result.score) == ("text 0", 0.4)
    assert stats(seen[-1].result)["stopped_because"] == "error"


def raises(_text: str) -> Any:
    raise ValueError("SECRET")


@pytest.mark.parametrize("who", ["critic", "reviser"])
async def test_who_hangs_is_cancelled_at_the_deadline(who: str) -> None:
    ended: list[str] = []

    async def hang(*_: Any) -> Any:
        try:
            await anyio.sleep_forever()
        finally:
            ended.append(who)

    with pytest.raises(ImprovementError, match=f"the {who} gave no answer within 0.05 s"):
        await improved(**{who: hang}, call_timeout_s=0.05)
    assert ended == [who]


# --- back-pressure, closing, cancelling


async def test_nothing_goes_on_while_nobody_takes_an_event() -> None:
    critic, reviser = FakeCritic(), FakeReviser()
    async with aclosing(improve_stream("text 0", critic=critic, reviser=reviser)) as stream:
        counts = []
        async for event in stream:
            await anyio.sleep(0.002)  # a consumer that is slower than the loop
            counts.append((type(event), len(critic.asked), len(reviser.asked)))
            if len(counts) == 5:
                break
        assert counts == [
            (Started, 0, 0), (Critiqued, 1, 0), (Scored, 1, 0), (Revised, 1, 1), (Critiqued, 2, 1),
        ]  # fmt: skip
        await anyio.sleep(0.02)
        assert (len(critic.asked), len(reviser.asked)) == (2, 1)


@pytest.mark.parametrize("who", ["critic", "reviser"])
async def test_cancelling_whoever_waits_cancels_what_is_asked(who: str) -> None:
    ended: list[str] = []
    begun = asyncio.Event()

    async def hang(*_: Any) -> Any:
        begun.set()
        try:
            await anyio.sleep_forever()
        except asyncio.CancelledError:
            ended.append(who)
            raise

    task = asyncio.create_task(improved(**{who: hang}))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended == [who]


class Closing:
    """A part that holds something."""

    def __init__(self, part: Callable[..., Any]):
        self._part = part
        self.closed = 0

    async def __call__(self, *given: Any) -> Any:
        return await self._part(*given)

    async def aclose(self) -> None:
        self.closed += 1


async def test_an_improver_closes_its_streams_and_its_pair() -> None:
    critic, reviser = Closing(FakeCritic()), Closing(FakeReviser())
    async with Improver(critic, reviser, patience=1) as improver:
        stream = improver.stream("text 0")
        await anext(stream)
        assert (await improver.improve("text 0")).text == "text 0"
        assert (critic.closed, reviser.closed) == (0, 0)
    with pytest.raises(StopAsyncIteration):
        await anext(stream)
    assert (critic.closed, reviser.closed) == (1, 1)


# --- flat


async def test_memory_stays_flat_over_1200_rounds_of_50_kb() -> None:
    rounds, warm_up, size = 1_200, 200, 50 * 1024
    reviser = FakeReviser(make=lambda number: f"{number:08d} ".ljust(size, "x"))

    async def critic(_text: str) -> Critique:
        reviser.asked.clear()  # it keeps what it was asked
        return Critique(score=0.5, text="Say it better. " * 100)

    texts, warm_bytes, seen = iter(range(rounds)), 0, 0
    reviser.make = lambda _: f"{next(texts):08d} ".ljust(size, "x")
    async for event in improve_stream(
        "x" * size, critic=critic, reviser=reviser, stop=lambda _: False,
        memory_limits={"max_iterations": rounds},
    ):  # fmt: skip
        seen += isinstance(event, Revised)
        if seen == warm_up and not warm_bytes:
            gc.collect()
            warm_bytes = resident_bytes()
        if isinstance(event, Finished):
            evicted = stats(event.result)["history_entries_evicted"]
            del event
    gc.collect()
    assert seen == rounds
    assert evicted > rounds - 25
    assert resident_bytes() - warm_bytes < 5 * MIB
