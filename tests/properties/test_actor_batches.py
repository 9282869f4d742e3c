"""Properties of how an actor appends: the strictest command of a batch decides for all of it."""

import asyncio
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from eventlog import Decider, EventRegistry, InMemoryLog, Recorded
from memory_actors.actors.actor import Actor
from memory_actors.actors.asking import Request
from memory_actors.base.records import QuotaUse
from memory_actors.kinds.long_term import MemoryRow
from memory_actors.kinds.rows import oldest

registry = EventRegistry()


@registry.event("note.made")
class Made(msgspec.Struct, frozen=True):
    number: int


class Silent:
    """A behaviour that knows of no totals and no indexes."""

    async def enrich(self, command: Any, _state: int) -> Any:
        return command

    def check_totals(self, _before: int, _after: int) -> None: ...
    def admit(self, _before: int, _after: int) -> dict[str, int]:
        return {}

    def release(self, _changes: dict[str, int]) -> None: ...
    def published(self, _events: Sequence[Recorded[Any]], _before: int, _after: int) -> None: ...
    def rebuilt(self, _state: int) -> None: ...
    def fenced(self) -> None: ...


class NotingLog(InMemoryLog):
    """Keeps how each batch was appended."""

    def __init__(self) -> None:
        super().__init__(registry)
        self.appended: list[tuple[list[int], str, bool]] = []

    async def append(self, stream: str, events: Any, *args: Any, **how: Any) -> Any:
        numbers = [one.event.number for one in events]
        self.appended.append((numbers, how["durability"], how["use_reserve"]))
        return await super().append(stream, events, *args, **how)


REQUESTS = st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=12)


@given(asked=REQUESTS)
@settings(max_examples=60, deadline=None)
def test_a_batch_is_as_durable_and_as_thrifty_as_its_strictest_command(
    asked: list[tuple[bool, bool]],
) -> None:
    """One durable command makes the batch durable; one add keeps it out of the reserve."""
    log = asyncio.run(_appended(asked))
    assert sorted(n for numbers, _, _ in log.appended for n in numbers) == list(range(len(asked)))
    for numbers, durability, uses_reserve in log.appended:
        relaxed = all(asked[n][0] for n in numbers)
        assert durability == ("relaxed" if relaxed else "commit")
        assert uses_reserve == all(asked[n][1] for n in numbers)


async def _appended(asked: list[tuple[bool, bool]]) -> NotingLog:
    log = NotingLog()

    async def rebuild() -> tuple[int, int]:
        raise AssertionError("nothing fails")

    actor = Actor[int](
        "s", decider=Decider(0, lambda number, _: [Made(number)], lambda state, _: state + 1),
        behaviour=Silent(), log=log, clock=lambda: 1, rebuild=rebuild, state=0, version=0, epoch=0,
    )  # fmt: skip
    requests = [
        Request(command=n, durability="relaxed" if relaxed else "commit", frees=frees)
        for n, (relaxed, frees) in enumerate(asked)
    ]
    answers = [await actor.post(request) for request in requests]
    await asyncio.gather(*answers)
    return log


@given(used=st.integers(0, 1 << 40), limit=st.integers(1, 1 << 40))
def test_the_percent_of_a_quota_is_exact(used: int, limit: int) -> None:
    exact = float(Fraction(100 * used, limit))
    assert abs(QuotaUse("memories", "count", used, limit).percent - exact) <= 1e-9 * exact


@given(
    ages=st.integers(1, 60).flatmap(lambda n: st.lists(st.integers(0, 9), min_size=n, max_size=n)),
    over=st.integers(0, 60),
    pinned=st.sets(st.integers(0, 59)),
)
def test_a_prune_takes_whole_tenths_of_the_oldest_rounded_down(
    ages: list[int], over: int, pinned: set[int]
) -> None:
    rows = [
        MemoryRow(
            memory_id=f"m{n}", version=n, size_bytes=1, stored_bytes=1, created_at_us=0,
            occurred_at_us=at, metadata={}, digest=b"", pinned=n in pinned, session_id=None,
            role=None, began=n,
        )
        for n, at in enumerate(ages)
    ]  # fmt: skip
    may_go = sorted(
        (row for row in rows if not row.pinned), key=lambda row: (row.occurred_at_us, row.version)
    )
    tenth = max(1, len(rows) * 10 // 100)
    wanted = -(-over // tenth) * tenth
    expected = None if over > len(may_go) else tuple(row.memory_id for row in may_go[:wanted])
    assert oldest(rows, len(rows), over, 0) == expected
