"""Properties of an actor: commands that wait together are as those that come one by one.

They are appended together, though, and then the strictest decides how.
"""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from support.in_memory_log import InMemoryLog

from eventlog import Decider, EventRegistry, Recorded
from memory_actors import InvalidInputError, QuotaUse
from memory_actors.actors.actor import Actor
from memory_actors.actors.asking import Reply, Request
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


# --- one after the other

ROOM = 20
HALF = 10


@registry.event("level.moved")
class Moved(msgspec.Struct, frozen=True):
    by: int


@registry.event("level.crossed")
class Crossed(msgspec.Struct, frozen=True):
    level: int


class Move(NamedTuple):
    """Move a level that stays from 0 to ROOM; a key stands for one move."""

    by: int
    key: str | None


def moved(move: Move, level: int) -> list[Moved]:
    if not 0 <= level + move.by <= ROOM:
        raise InvalidInputError("no room")
    return [Moved(move.by)] if move.by else []


def crossed(before: int, after: int) -> list[Crossed]:
    return [Crossed(after)] if (before < HALF) != (after < HALF) else []


def level_after(level: int, recorded: Recorded[Any]) -> int:
    return level + getattr(recorded.data, "by", 0)


class Counting(Silent):
    """A behaviour that claims what is added until the log has counted it."""

    def __init__(self) -> None:
        self.claimed: Counter[str] = Counter()

    def admit(self, before: int, after: int) -> dict[str, int]:
        changes = {"level": after - before}
        self.claimed.update(changes)
        return changes

    def release(self, changes: Mapping[str, int]) -> None:
        self.claimed.subtract(changes)

    def published(self, _events: Sequence[Recorded[Any]], _before: int, _after: int) -> None:
        assert not any(self.claimed.values()), "what is committed is claimed no more"


MOVES = st.builds(Move, st.integers(-4, 8), st.sampled_from([None, None, None, "k", "l"]))


@given(waves=st.lists(st.lists(MOVES, min_size=1, max_size=8), min_size=1, max_size=4))
@settings(max_examples=60, deadline=None)
def test_commands_that_wait_together_are_decided_one_after_the_other(
    waves: list[list[Move]],
) -> None:
    """Each sees those before it; refusals, alarms, keys and totals are as in a simple model."""
    outcomes, log = asyncio.run(_moved(waves))
    level, told = 0, list[Moved | Crossed]()
    first: dict[str, tuple[int, list[int]]] = {}
    for move, outcome in zip([move for wave in waves for move in wave], outcomes, strict=True):
        by, versions = first.get(move.key or "", (move.by, None))
        if by != move.by or (versions is None and not 0 <= level + by <= ROOM):
            assert isinstance(outcome, InvalidInputError)
            continue
        assert isinstance(outcome, Reply)
        assert outcome.duplicate == (versions is not None)
        if versions is None:
            events = [*moved(move, level), *crossed(level, level + by)]
            versions = [*range(len(told) + 1, len(told) + len(events) + 1)]
            assert (outcome.before, outcome.state) == (level, level + by)
            told, level = told + events, level + by
            if move.key is not None and events:
                first[move.key] = by, versions
        assert [one.version for one in outcome.events] == versions
        assert [one.data for one in outcome.events] == [told[n - 1] for n in versions]
    assert [one.data for one in asyncio.run(log.read_stream("s"))] == told
    assert log.totals_nowait().get("level", 0) == level


async def _moved(waves: list[list[Move]]) -> tuple[list[Any], InMemoryLog]:
    log = InMemoryLog(registry)

    async def rebuild() -> tuple[int, int]:
        raise AssertionError("nothing fails")

    actor = Actor[int](
        "s", decider=Decider(0, moved, level_after, follow_up=crossed), behaviour=Counting(),
        log=log, clock=lambda: 1, rebuild=rebuild, state=0, version=0, epoch=0,
    )  # fmt: skip
    outcomes = []
    for wave in waves:
        answers = [
            await actor.post(
                Request(command=one, idempotency_key=one.key, digest=str(one.by).encode())
            )
            for one in wave
        ]
        outcomes += await asyncio.gather(*answers, return_exceptions=True)
    return outcomes, log


# --- sums


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
