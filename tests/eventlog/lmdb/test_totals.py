"""The totals on LMDB: what survives, what is noticed, and what the loop knows without reading."""

import asyncio
import os
from collections.abc import Callable, Iterator
from itertools import chain, combinations
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from contracts.stores import Noted, registry
from hypothesis import given, settings
from hypothesis import strategies as st

from eventlog import (
    CorruptLog,
    DiskFull,
    Environment,
    EventLog,
    InvalidAppend,
    StorageFailed,
    WrongExpectedVersion,
)
from eventlog.core.rules import count
from eventlog.lmdb.intake import TotalsTally
from eventlog.lmdb.ledger import ROW, put_totals
from eventlog.lmdb.tables import TABLES

pytestmark = pytest.mark.anyio


def large() -> Noted:
    """Return an event that does not fit into the small logs made here."""
    return Noted(os.urandom(500_000).hex())


async def opens(path: Path) -> dict[str, int]:
    async with EventLog.open(path, registry) as log:
        assert await log.totals() == log.totals_nowait()
        return log.totals_nowait()


def change(path: Path, make: Callable[[Environment, Any], object]) -> None:
    """Change the closed log in `path` behind its back."""
    env = Environment(path / "log.mdb", TABLES)
    env.write(lambda txn: make(env, txn))
    env.close()


# --- what is refused or fails


async def test_a_commit_without_room_is_judged_append_by_append(tmp_path: Path):
    """The one that is too large takes its count with it, and no other's."""
    async with EventLog.open(tmp_path, registry, size_max_bytes=300_000) as log:
        outcomes = await asyncio.gather(
            *(log.append(f"s{n}", [Noted("a")], 0, counters={"n": 1}) for n in range(5)),
            log.append("large", [large()], 0, counters={"n": 100, "large": 1}),
            log.append("wrong", [Noted("a")], 7, counters={"n": 1000}),
            log.append("low", [Noted("a")], 0, counters={"n": -10_000}),
            *(log.append(f"t{n}", [Noted("a")], 0, counters={"n": 1}) for n in range(5)),
            return_exceptions=True,
        )

        failed = [type(outcome) for outcome in outcomes if isinstance(outcome, Exception)]
        assert failed == [DiskFull, WrongExpectedVersion, InvalidAppend]
        assert log.totals_nowait() == await log.totals() == {"n": 10}
    assert await opens(tmp_path) == {"n": 10}


async def test_a_relaxed_append_that_was_lost_is_taken_out_again(tmp_path: Path):
    async with EventLog.open(tmp_path, registry, size_max_bytes=200_000) as log:
        await log.append("s", [Noted("a")], 0, counters={"n": 1})
        await log.append("s", [large()], 1, counters={"n": 5}, durability="relaxed")
        assert log.totals_nowait() == {"n": 6}
        assert await log.totals() == {"n": 1}
        await log.flush()

        assert log.statistics().relaxed_lost == 1
        assert log.totals_nowait() == await log.totals() == {"n": 1}


@pytest.mark.parametrize("landed", [True, False])
async def test_totals_after_an_unknown_outcome_match_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, landed: bool
):
    """After a failure whose outcome is unknown, the totals are those on disk.

    A caller who drops its reservation when the append raises may not pass a limit by that.
    """
    async with EventLog.open(tmp_path, registry) as log:
        await log.append("s", [Noted("a")], 0, counters={"n": 1})
        write = log._env.write

        def fail(change: Any) -> Any:
            if landed:
                write(change)
            raise StorageFailed("injected")

        monkeypatch.setattr(log._env, "write", fail)
        with pytest.raises(StorageFailed):
            await log.append("s", [Noted("b")], 1, counters={"n": 5})
        assert log.totals_nowait() == await log.totals() == {"n": 6 if landed else 1}
        assert len(await log.read_all()) == 1 + landed
        monkeypatch.undo()

        await log.append("t", [Noted("c")], 0, counters={"n": 1})
        assert log.totals_nowait() == await log.totals() == {"n": 7 if landed else 2}


# --- what it costs


async def test_the_row_is_written_once_a_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    written: list[dict[str, int]] = []

    def note(txn: Any, totals: dict[str, int]) -> None:
        written.append(totals)
        put_totals(txn, totals)

    async with EventLog.open(tmp_path, registry) as log:
        monkeypatch.setattr("eventlog.lmdb.ledger.put_totals", note)
        await asyncio.gather(*(log.append(f"s{n}", [Noted("a")], 0) for n in range(100)))
        assert written == []

        before = log.statistics().batches
        await asyncio.gather(
            *(log.append(f"t{n}", [Noted("a")], 0, counters={"n": 1}) for n in range(100))
        )
        assert len(written) == log.statistics().batches - before < 20
        assert written[-1] == {"n": 100}


# --- damage


@pytest.mark.parametrize("row", [ROW, b"format"])
async def test_a_missing_row_is_never_a_new_log(tmp_path: Path, row: bytes):
    async with EventLog.open(tmp_path, registry) as log:
        await log.append("s", [Noted("a")], 0, counters={"n": 3})
    change(tmp_path, lambda env, txn: txn.delete(row, db=txn.tables["meta"]))

    for _ in range(2):
        with pytest.raises(CorruptLog):
            await opens(tmp_path)


async def test_a_damaged_row_stops_only_what_counts(tmp_path: Path):
    """A row damaged under an open log stops the appends that count, and nothing else."""
    async with EventLog.open(tmp_path, registry) as log:
        await log.append("s", [Noted("a")], 0, counters={"n": 3})
        log._env.write(lambda txn: txn.put(ROW, b"\0" * 30, db=txn.tables["meta"]))

        one, other = await asyncio.gather(
            log.append("s", [Noted("b")], 1, counters={"n": 1}),
            log.append("t", [Noted("c")], 0),
            return_exceptions=True,
        )

        assert isinstance(one, CorruptLog)
        assert not isinstance(other, BaseException)
        assert log.totals_nowait() == {"n": 3}
        with pytest.raises(CorruptLog):
            await log.totals()
        assert not (await log.verify()).ok


# --- by themselves


deltas = st.dictionaries(
    st.sampled_from("ab"), st.integers(-5, 5).filter(bool) | st.just(2**63 - 1), max_size=2
)
Deltas: TypeAlias = dict[str, int]


def total_of(*parts: Deltas) -> Deltas:
    """Return the sums, without any rule."""
    return {name: sum(part.get(name, 0) for part in parts) for name in "ab"}


@settings(deadline=None)
@given(
    committed=deltas.map(lambda totals: {name: abs(total) for name, total in totals.items()}),
    under_way=st.lists(st.tuples(deltas, st.booleans()), max_size=4),
    counters=deltas,
)
def test_certain_appends_are_accepted_beside_open_ones(
    committed: Deltas, under_way: list[tuple[Deltas, bool]], counters: Deltas
):
    """An append that fits in any case is accepted, whatever comes of those under way."""
    tally = TotalsTally(committed)
    relaxed = [deltas for deltas, is_relaxed in under_way if is_relaxed]
    others = [deltas for deltas, is_relaxed in under_way if not is_relaxed]
    for deltas in relaxed:
        tally.note(deltas, 1, relaxed=True)
    for deltas in others:
        tally.note(deltas, 1, relaxed=False)

    if tally.is_certain(counters):
        for landed in powerset(others):
            count(total_of(committed, *relaxed, *landed), counters)
    for deltas in relaxed:
        tally.note(deltas, -1, relaxed=True)
    for deltas in others:
        tally.note(deltas, -1, relaxed=False)
    assert tally.now() == committed
    assert tally._swing == tally._accepted == {}


def powerset(parts: list[Deltas]) -> Iterator[tuple[Deltas, ...]]:
    return chain.from_iterable(combinations(parts, size) for size in range(len(parts) + 1))
