"""Incremental export and import: another log gets the very same events, or nothing."""

import re
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from eventlog import (
    ANY_VERSION,
    CorruptLog,
    DiskFull,
    EventLog,
    EventRegistry,
    LogUnavailable,
    PayloadDropped,
    Snapshot,
    UnknownEvent,
    WrongExpectedVersion,
)
from eventlog.core import frame
from eventlog.core.rows import seal, seal_record, unseal_record
from eventlog.lmdb.tables import RequestRecord
from eventlog.upkeep import exporting, importing

pytestmark = pytest.mark.anyio

registry = EventRegistry()


@registry.event("test.noted", keys=lambda event: [event.text[:3]])
class Noted(msgspec.Struct, frozen=True):
    text: str


class Later(msgspec.Struct, frozen=True):
    n: int


@asynccontextmanager
async def opened(path: Path) -> AsyncIterator[EventLog]:
    async with EventLog.open(path, registry) as log:
        yield log


async def fill(log: EventLog, streams: str = "abcab", key: str = "", epoch: int = 0) -> None:
    for n, stream in enumerate(streams):
        await log.append(
            stream, [Noted(f"{stream} {n} " * 300), Noted("short")], ANY_VERSION,
            idempotency_key=f"{key}{n}" if key else None, meta={"by": "me"},
            counters={stream: 2}, epoch=epoch,
        )  # fmt: skip


async def everything(log: EventLog) -> dict[str, Any]:
    streams = "abcde"
    return {
        "all": await log.read_all(0, 1000, dropped="mark"),
        "heads": [await log.head(stream) for stream in streams],
        "published": msgspec.structs.replace(await log.heads(), published_at_us=0),
        "streams": sorted(await log.streams()),
        "about": [await log.versions_about(stream, "sho") for stream in streams],
        "totals": (await log.totals(), log.totals_nowait()),
        "verified": (await log.verify()).findings,
    }


async def test_another_log_follows_export_by_export(tmp_path: Path):
    async with opened(tmp_path / "one") as one, opened(tmp_path / "other") as other:
        position = 0
        for n in range(4):
            await fill(one, "abcab" * 3, key=f"round {n} ", epoch=n)
            await one.acquire("a", n + 1)
            await one.archive("b", [2, position // 10 + 1])
            if n == 2:
                await one.erase("c", counted={"c": 18})
            exported = await one.export_since(position, tmp_path / f"{n}")
            imported = await other.import_events(tmp_path / f"{n}")

            assert (imported.events, imported.position) == (exported.events, exported.position)
            assert await everything(other) == await everything(one)
            assert imported.erased_streams == (n == 2)
            position = exported.position
        again = await other.append(
            "a", [Noted("a 0 " * 300), Noted("short")], ANY_VERSION, epoch=4,
            idempotency_key="round 1 0",
        )  # fmt: skip
        assert again.duplicate


async def test_a_restored_backup_is_brought_up_to_date(tmp_path: Path):
    async with opened(tmp_path / "log") as log:
        await fill(log)
        await log.archive("a", [1])
        made = await log.backup(tmp_path / "backup")
        await fill(log, "abd")
        await log.export_since(made.position, tmp_path / "rest")
        async with opened(tmp_path / "backup") as other:
            await other.import_events(tmp_path / "rest")
            assert await everything(other) == await everything(log)


async def test_who_was_erased_since_is_erased_where_it_is_imported(tmp_path: Path):
    async with opened(tmp_path / "one") as one, opened(tmp_path / "other") as other:
        await fill(one, "aabb")
        await one.export_since(0, tmp_path / "first")
        await other.import_events(tmp_path / "first")
        await other.archive("a", [1])
        await other.save_snapshot("a", Snapshot(2, b"state of a"), "f")
        await one.erase("a", counted={"a": 4})
        await one.append("a", [Noted("second life")], 4)
        await one.export_since(8, tmp_path / "second")

        imported = await other.import_events(tmp_path / "second")

        assert (imported.events, imported.erased_streams) == (1, 1)
        assert await everything(other) == await everything(one)
        assert await other.load_snapshot("a", "f") is None
        assert not list((tmp_path / "other" / "archive").iterdir())
        assert b"a 1 a 1" not in (tmp_path / "other" / "log.mdb").read_bytes()


async def test_who_is_to_be_erased_is_named_before(tmp_path: Path):
    async with opened(tmp_path / "one") as one, opened(tmp_path / "other") as other:
        await one.append("a", [Noted("canary")], 0)
        await one.append("b", [Noted("stays")], 0)
        await one.export_since(0, tmp_path / "first")
        await other.import_events(tmp_path / "first")
        await one.erase("a")
        await one.export_since(2, tmp_path / "second")
        names: list[str] = []

        def erasing(streams: Sequence[str]) -> None:
            names.extend(streams)
            assert (tmp_path / "other" / "log.mdb").read_bytes().count(b"canary")

        await other.import_events(tmp_path / "second", erasing=erasing)
        await other.import_events(tmp_path / "second", erasing=erasing)

        assert names == ["a"]
        assert b"canary" not in (tmp_path / "other" / "log.mdb").read_bytes()


async def test_a_gap_and_what_is_known_already(tmp_path: Path):
    async with opened(tmp_path / "one") as one, opened(tmp_path / "other") as other:
        await fill(one)
        first = await one.export_since(0, tmp_path / "first")
        await fill(one)
        await one.export_since(first.position, tmp_path / "second")
        await one.export_since(0, tmp_path / "both")

        with pytest.raises(
            WrongExpectedVersion, match=r"second begins behind position 10, .* ends at 0: import"
        ):
            await other.import_events(tmp_path / "second")
        await other.import_events(tmp_path / "first")
        assert (await other.import_events(tmp_path / "first")).events == 0
        assert (await other.import_events(tmp_path / "both")).events == 10
        with pytest.raises(WrongExpectedVersion, match=r"first ends at position 10, .* at 20"):
            await other.import_events(tmp_path / "first")
        assert await everything(other) == await everything(one)


async def test_an_import_that_broke_off_is_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(importing, "EVENTS_AT_ONCE", 3)
    async with opened(tmp_path / "one") as one:
        await fill(one, "abcab" * 3, key="k")
        await one.export_since(0, tmp_path / "file")
        async with opened(tmp_path / "other") as other:
            append, calls = importing.Importing.append, []

            def fails(self: Any, txn: Any, events: Any) -> None:
                calls.append(1)
                if len(calls) > 4:
                    raise RuntimeError("dies")
                append(self, txn, events)

            with monkeypatch.context() as patched:
                patched.setattr(importing.Importing, "append", fails)
                with pytest.raises(RuntimeError):
                    await other.import_events(tmp_path / "file")
            assert (await other.verify()).findings == []
        async with opened(tmp_path / "other") as other:
            assert (await other.import_events(tmp_path / "file")).events == 18
            assert await everything(other) == await everything(one)


async def test_a_log_with_another_past_is_left_as_it_was(tmp_path: Path):
    """The log is refused also where the streams that the file continues are the same in both."""
    async with opened(tmp_path / "one") as one, opened(tmp_path / "other") as other:
        await fill(one, "ab")
        await fill(other, "ab")
        await one.append("d", [Noted("new")], 0)
        await one.export_since(4, tmp_path / "file")
        before = await everything(other)

        with pytest.raises(CorruptLog, match="continues another log"):
            await other.import_events(tmp_path / "file")

        assert await everything(other) == before


async def test_any_damage_to_a_file_shows_before_anything_is_written(tmp_path: Path):
    async with opened(tmp_path / "one") as one, opened(tmp_path / "other") as other:
        await one.append("s", [Noted("x")], 0, idempotency_key="k")
        await one.export_since(0, tmp_path / "file")
        whole = (tmp_path / "file").read_bytes()
        for place in range(len(whole)):
            damaged = bytearray(whole)
            damaged[place] ^= 1 << place % 8
            (tmp_path / "file").write_bytes(damaged)
            named = re.escape(str(tmp_path / "file"))
            with pytest.raises((CorruptLog, LogUnavailable, WrongExpectedVersion), match=named):
                await other.import_events(tmp_path / "file")
        for size in range(0, len(whole), 7):
            (tmp_path / "file").write_bytes(whole[:size])
            with pytest.raises((CorruptLog, LogUnavailable)):
                await other.import_events(tmp_path / "file")
        assert await other.streams() == []
        (tmp_path / "file").write_bytes(whole)
        assert (await other.import_events(tmp_path / "file")).events == 1


async def test_what_cannot_be_exported_leaves_no_file(tmp_path: Path):
    async with opened(tmp_path / "log") as log:
        await fill(log)
        await log.archive("a", [1])
        await log.drop_archived(2**62)
        with pytest.raises(PayloadDropped):
            await log.export_since(0, tmp_path / "file")
        with pytest.raises(LogUnavailable):
            await log.export_since(11, tmp_path / "file")
        assert [path.name for path in tmp_path.iterdir()] == ["log"]
        await log.export_since(2, tmp_path / "file")
        with pytest.raises(LogUnavailable, match="another name"):
            await log.export_since(2, tmp_path / "file")


# --- a file that no log has written


Change = Callable[[Any], Any]


def rewritten(path: Path, change: Change) -> None:
    """Change messages of an export; its own checksum and digest are right again."""
    messages = [change(message) for message in exporting.read_export(path)]
    with path.open("wb") as file:
        exporting._write(file, iter(messages))


def of(kind: type, change: Change) -> Change:
    return lambda message: change(message) if isinstance(message, kind) else message


def event(number: int, change: Callable[[int, bytes], bytes]) -> Change:
    def changed(its: exporting.Event) -> exporting.Event:
        is_it = its.position == number
        return msgspec.structs.replace(its, data=change(number, its.data)) if is_it else its

    return of(exporting.Event, changed)


def fields(kind: type, **changes: Any) -> Change:
    return of(kind, lambda its: msgspec.structs.replace(its, **changes))


def request(**changes: Any) -> Change:
    def changed(its: exporting.Key) -> exporting.Key:
        record = unseal_record(its.data, RequestRecord, "a key")
        return exporting.Key(its.key, seal_record(msgspec.structs.replace(record, **changes)))

    return of(exporting.Key, changed)


MADE_UP: dict[str, Change] = {
    "streams under the name of another": fields(exporting.Stream, name="somebody else"),
    "streams without a name": fields(exporting.Stream, name=""),
    "a beginning before the first event": fields(exporting.Begin, since=-1),
    "an erasure of a part": of(
        exporting.Stream,
        lambda its: msgspec.structs.replace(its, erased_version=1, erased_at_us=1),
    ),
    "an erasure of what never was": of(
        exporting.Stream,
        lambda its: msgspec.structs.replace(its, name="", erased_version=10**9),
    ),
    "an epoch that shuts everybody out": fields(exporting.Stream, epoch=2**64 - 1),
    "a time that is none": fields(exporting.Stream, erased_at_us=2**64 - 1),
    "an event whose payload is elsewhere": event(
        9, lambda at, data: frame.stub(at, data, frame.Place(1, 28, 0))
    ),
    "an event that is erased of a stream that is not": event(
        9, lambda at, data: frame.erased(at, data, 5)
    ),
    "a key whose events are not there": request(last_version=99),
    "a key of no events": request(first_version=0),
    "a key under another one": of(
        exporting.Key, lambda its: exporting.Key(its.key[:-1] + b"?", its.data)
    ),
    "totals below nothing": fields(exporting.End, totals={"a": -1}),
    "too many totals": fields(exporting.End, totals={str(n): 1 for n in range(1000)}),
    "lists without an end": of(
        exporting.Key, lambda its: exporting.Key(its.key, seal(b"\x91" * 10_000))
    ),
}


@pytest.mark.parametrize("change", MADE_UP.values(), ids=MADE_UP)
async def test_a_file_no_log_wrote_is_refused(tmp_path: Path, change: Change):
    """A file that no log has written is refused, and nothing is imported."""
    async with opened(tmp_path / "one") as one, opened(tmp_path / "other") as other:
        await fill(one, "abc")
        await one.export_since(0, tmp_path / "first")
        await other.import_events(tmp_path / "first")
        before = await everything(other)
        await fill(one, "abcab", key="k", epoch=1)
        await one.export_since(0, tmp_path / "second")
        rewritten(tmp_path / "second", change)

        with pytest.raises(CorruptLog):
            await other.import_events(tmp_path / "second")

        assert await everything(other) == before


async def test_what_is_being_erased_is_in_no_export(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """The erasure has begun and could not be finished: the payloads are still in the file."""
    async with opened(tmp_path / "one") as one, opened(tmp_path / "other") as other:
        await fill(one, "ab", key="k")
        with monkeypatch.context() as patched:
            patched.setattr("eventlog.lmdb.erasing.Erasing.step", _no_room)
            with pytest.raises(DiskFull):
                await one.erase("a")
        await one.export_since(0, tmp_path / "file")
        imported = await other.import_events(tmp_path / "file")

        assert b"a 0 a 0" not in (tmp_path / "file").read_bytes()
        assert imported.events == 4
        assert (await other.verify()).findings == []
        assert await other.streams() == ["b"]


def _no_room(*_: Any, **__: Any) -> bool:
    raise DiskFull("no space left")


async def test_a_later_versions_event_stops_the_import(tmp_path: Path):
    """An event of a later version is refused before anything is imported."""
    later = EventRegistry()
    later.event("test.noted")(Noted)
    later.event("test.later")(Later)
    async with EventLog.open(tmp_path / "one", later) as one, opened(tmp_path / "other") as other:
        await one.append("a", [Noted("known")] * 600, 0)
        await one.append("b", [Later(1)], 0)
        await one.export_since(0, tmp_path / "file")

        with pytest.raises(UnknownEvent):
            await other.import_events(tmp_path / "file")

        assert await other.read_all() == []
