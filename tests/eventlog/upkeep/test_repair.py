"""Repair: what is whole of a damaged log is in the new one, and nothing else."""

from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest
from contracts.stores import Keyed, changed, opened, registry

from eventlog import (
    ANY_VERSION,
    CorruptLog,
    Environment,
    LogLocked,
    LogUnavailable,
    RepairReport,
    repair,
)
from eventlog.core.rows import U64
from eventlog.files.log_directory import Tail
from eventlog.lmdb.ledger import Ledger

pytestmark = pytest.mark.anyio

NOW_US = 1_700_000_000_000_000


async def fill(path: Path) -> None:
    """a at 1, 4, …, 28; b at 2, 5, …; c at 3, 6, …."""
    async with opened(path) as log:
        for n in range(10):
            for stream in "abc":
                text = f"{stream} {n} " * (300 if n % 4 == 0 else 3)
                await log.append(stream, [Keyed(text)], n, idempotency_key=f"k{n}")


def repaired(tmp_path: Path) -> RepairReport:
    return repair(tmp_path / "log", tmp_path / "new", registry, NOW_US)


async def texts(path: Path) -> dict[str, list[str]]:
    async with opened(path) as log:
        assert (await log.verify()).findings == []
        return {
            stream: [e.data.text[:3] for e in await log.read_stream(stream)]
            for stream in sorted(await log.streams())
        }


ALL = {stream: [f"{stream} {n}" for n in range(10)] for stream in "abc"}


async def test_the_totals_are_those_that_were_counted_anew(tmp_path: Path):
    await fill(tmp_path / "log")
    seen: list[dict[str, list[str]]] = []

    def recount(new: Path) -> dict[str, int]:
        seen.append(anyio.run(texts, new))
        return {"notes": 30, "none": 0}

    def work() -> None:
        repair(tmp_path / "log", tmp_path / "new", registry, NOW_US, recount=recount)

    await anyio.to_thread.run_sync(work)
    async with opened(tmp_path / "new") as log:
        assert await log.totals() == log.totals_nowait() == {"notes": 30}
    assert seen == [ALL]


async def test_a_whole_log_comes_whole(tmp_path: Path):
    await fill(tmp_path / "log")
    async with opened(tmp_path / "log") as log:
        await log.archive("a", [1, 2, 3])
        await log.archive("b", [1, 2])
        await log.drop_archived(2**62, "b")
        await log.erase("c")
        await log.append("c", [Keyed("again")], 10)
        before = await log.read_all(0, 100, dropped="mark")
        heads = [await log.head(stream) for stream in "abc"]

    report = repaired(tmp_path)

    assert (report.events, report.streams, report.unreadable, report.left_behind) == (31, 3, 0, [])
    assert report.missing == 0
    assert report.is_whole
    async with opened(tmp_path / "new") as log:
        assert await log.read_all(0, 100, dropped="mark") == before
        assert [await log.head(stream) for stream in "abc"] == heads
        assert (await log.verify()).findings == []
        assert (await log.append("a", [Keyed("a 3 " * 3)], 3, idempotency_key="k3")).duplicate
        await log.append("a", [Keyed("on")], 10)


async def test_a_stream_ends_before_its_first_damaged_event(tmp_path: Path):
    await fill(tmp_path / "log")

    def damage(env: Environment, txn: Any) -> None:
        table = txn.tables["events"]
        data = txn.get(U64.pack(14), db=table)  # version 5 of b
        txn.put(U64.pack(14), data[:-1] + b"?", db=table)

    changed(tmp_path / "log", damage)
    report = repaired(tmp_path)

    assert await texts(tmp_path / "new") == {**ALL, "b": ALL["b"][:4]}
    (left,) = report.left_behind
    assert (left.kept, left.lost, left.reason) == (4, 6, "version 5 is missing")
    assert (report.events, report.unreadable) == (24, 1)
    async with opened(tmp_path / "new") as log:
        assert [event.position for event in await log.read_all(0, 100)] == list(range(1, 25))
        assert (await log.find_request("b", "k7", b"")) is None


async def test_a_payload_lost_in_the_archive_ends_its_stream(tmp_path: Path):
    await fill(tmp_path / "log")
    async with opened(tmp_path / "log") as log:
        await log.archive("a", [6, 7])
    (segment,) = (tmp_path / "log" / "archive").iterdir()
    segment.unlink()

    (left,) = repaired(tmp_path).left_behind

    assert "payload of version 6" in left.reason
    assert await texts(tmp_path / "new") == {**ALL, "a": ALL["a"][:5]}


async def test_a_stream_without_its_record_stays_behind(tmp_path: Path):
    """A stream whose record is lost has no name, and stays behind."""
    from eventlog import stream_id

    await fill(tmp_path / "log")
    changed(
        tmp_path / "log",
        lambda env, txn: txn.put(stream_id("b"), b"noise", db=txn.tables["streams"]),
    )
    (left,) = repaired(tmp_path).left_behind

    assert (left.stream, left.kept, left.lost) == (stream_id("b").hex(), 0, 10)
    assert await texts(tmp_path / "new") == {"a": ALL["a"], "c": ALL["c"]}


async def test_what_opening_refuses_can_be_repaired(tmp_path: Path):
    """Totals lost, an anchor of another log, a file cut short."""
    await fill(tmp_path / "log")
    changed(tmp_path / "log", lambda env, txn: txn.delete(b"totals", db=txn.tables["meta"]))
    with pytest.raises(CorruptLog):
        async with opened(tmp_path / "log"):
            pass

    assert repaired(tmp_path).events == 30
    assert await texts(tmp_path / "new") == ALL


async def test_a_file_cut_short_gives_what_is_left(tmp_path: Path):
    await fill(tmp_path / "log")
    path = tmp_path / "log" / "log.mdb"
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(CorruptLog):
        async with opened(tmp_path / "log"):
            pass

    report = repaired(tmp_path)

    assert 0 <= report.events < 30
    lost = sum(each.lost for each in report.left_behind)
    assert report.missing is not None
    assert report.events + lost + report.missing >= 30
    assert not report.is_whole
    found = await texts(tmp_path / "new")
    assert all(ALL[stream][: len(kept)] == kept for stream, kept in found.items())


async def test_it_never_writes_over_anything_nor_reads_an_open_log(tmp_path: Path):
    async with opened(tmp_path / "log") as log:
        await log.append("a", [Keyed("a")], ANY_VERSION)
        with pytest.raises(LogLocked):
            repaired(tmp_path)
    (tmp_path / "new").mkdir()
    with pytest.raises(LogUnavailable):
        repaired(tmp_path)
    with pytest.raises(LogUnavailable):
        repair(tmp_path / "none", tmp_path / "other", registry, NOW_US)
    assert {path.name for path in tmp_path.iterdir()} == {"log", "new"}


def without_its_end(env: Environment, txn: Any) -> None:
    """Leave nothing of the log that says how many events it had."""
    for name in ("events", "versions", "streams"):
        txn.drop(txn.tables[name], delete=False)


async def test_the_anchor_knows_of_events_of_which_nothing_is_left(tmp_path: Path):
    await fill(tmp_path / "log")
    changed(tmp_path / "log", without_its_end)

    report = repaired(tmp_path)

    assert (report.events, report.left_behind, report.missing) == (0, [], 30)
    assert not report.is_whole


async def test_where_nothing_says_how_many_there_were_nothing_is_promised(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    await fill(tmp_path / "log")
    (tmp_path / "log" / "log.anchor").write_bytes(b"")
    assert repaired(tmp_path).is_whole  # by the log itself
    (tmp_path / "new").rename(tmp_path / "whole")

    tail = Ledger.tail

    def damaged(self: Ledger, txn: Any) -> Tail:
        if self._env.path.name.startswith("damaged-"):
            raise CorruptLog("its root is damaged")
        return tail(self, txn)

    with monkeypatch.context() as patched:
        patched.setattr(Ledger, "tail", damaged)
        report = repaired(tmp_path)

    assert (report.events, report.missing, report.is_whole) == (0, None, False)


@pytest.mark.parametrize("left", [b"", None])
async def test_a_wrongly_empty_log_is_refused(tmp_path: Path, left: bytes | None):
    """A log that is empty where there were events is refused, and stays so."""
    await fill(tmp_path / "log")
    path = tmp_path / "log" / "log.mdb"
    path.unlink()
    if left is not None:
        path.write_bytes(left)

    for _ in range(2):
        with pytest.raises(CorruptLog, match="30 events had been committed"):
            async with opened(tmp_path / "log"):
                pass

    assert (path.read_bytes() if path.exists() else None) == left
