"""Events that are packed, read and checked many at a time: as Python alone does it.

Each example damages a row of a real log, has it verified both ways, and puts the row back.
"""

import asyncio
import platform
import shutil
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from eventlog import EventLog, EventRegistry, VerifyReport
from eventlog.core import frame, plain_events
from eventlog.core.compiled import HAS_SHA256, LOG_LIBRARY
from eventlog.core.errors import EventLogError
from eventlog.core.plain_events import Run, packed
from eventlog.core.rows import U64, key_check, key_rows, seal_record
from eventlog.keys import keyfile
from eventlog.lmdb.tables import ErasureRecord
from eventlog.upkeep import event_walk
from eventlog.upkeep.event_walk import END, PackedEnds, PlainEvents
from eventlog.upkeep.verification import Verification

needs_c = pytest.mark.skipif(
    LOG_LIBRARY.instruction_set != HAS_SHA256,
    reason="it is not compiled here, or the processor has no SHA-256",
)
TABLES = "events", "versions", "keys"
LONG_TAG = "test.long" + "é" * 123  # with 255 bytes it is as long as a tag may be


class Noted(msgspec.Struct, frozen=True):
    text: str
    about: Any = ()


class Counted(msgspec.Struct, frozen=True):
    n: int


def registered(**changes: Any) -> EventRegistry:
    """Return the types of the log's events, or others under their names."""
    registry = EventRegistry()
    keys = changes.get("keys", lambda event: event.about)
    registry.event("test.noted", keys=keys, schema=changes.get("schema", 1))(Noted)
    if "schema" in changes:
        registry.upcaster("test.noted", from_schema=1)(lambda fields: fields)
    registry.event("test.counted")(Counted)
    if not changes.get("unknown"):
        registry.event(LONG_TAG, schema=65_535)(msgspec.defstruct("Long", [("text", str)]))
    return registry


REGISTRY = registered()


def noted(n: int) -> Noted:
    return Noted(f"noted {n}", tuple(f"key {n}" for n in range(n % 4)))


async def fill(log: EventLog) -> None:
    """Append events of all kinds, of several streams, one after the other."""
    long = next(cls for cls in REGISTRY.classes() if cls.__name__ == "Long")
    ends = dict.fromkeys("abcd", 0)
    for n in range(12):
        for stream in "abcd":
            events = [noted(n), Counted(n), long("x"), Noted("long " * (300 * (n % 3 == 0)))]
            await log.append(stream, events[: n % 4 + 1], ends[stream], meta={"by": "me"})
            ends[stream] += n % 4 + 1
    await log.archive("b", range(1, 9))
    await log.erase("c")


class Opened:
    """An open log whose rows are changed past its rules."""

    def __init__(self, log: EventLog):
        self.log = log
        log._reading._archive._loop_thread = None  # it is read here
        self.rows: dict[str, list[tuple[bytes, bytes]]] = {}
        with log._env.read() as txn:
            for table in TABLES:
                with txn.cursor(txn.tables[table]) as cursor:
                    self.rows[table] = list(cursor)

    @contextmanager
    def changed(self, table: str, *rows: tuple[bytes, bytes | None]) -> Iterator[None]:
        """Put rows, None for one that is to go; afterwards they are as before."""
        before = dict(self.rows.get(table, ()))

        def put(rows: Any) -> None:
            def run(txn: Any) -> None:
                handle = txn.tables[table]
                for key, value in rows:
                    if value is None:
                        txn.delete(key, db=handle)
                    else:
                        txn.put(key, value, db=handle)

            self.log._env.write(run)

        put(rows)
        try:
            yield
        finally:
            put([(key, before.get(key)) for key, _ in rows])

    def report(self) -> VerifyReport:
        return Verification(self.log._files, None).run()

    def reports(self) -> tuple[VerifyReport, int]:
        """Return the report and how many rows were taken.

        The report, and what is read of the streams, are the same without the library.
        """
        with taking() as taken:
            report, read = self.report(), self.read()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(LOG_LIBRARY, "instruction_set", 0)
            assert self.report() == report
            assert self.read() == read
        return report, sum(taken)

    def read(self) -> list[object]:
        """Return the events of each stream, or the error of reading them."""
        found: list[object] = []
        for stream in "abcd":
            try:
                with self.log._env.read() as txn:
                    found.append(self.log._reading.stream_events(txn, stream, 0, 99, "mark"))
            except (EventLogError, UnicodeDecodeError) as error:
                found.append((type(error), str(error)))
        return found

    @property
    def plain(self) -> int:
        return sum(data[5] == 0 for _, data in self.rows["events"])


@contextmanager
def taking() -> Iterator[list[int]]:
    """Count the rows that are taken."""
    take, taken = PlainEvents.take, []

    def counted(*arguments: Any) -> Any:
        found = take(*arguments)
        taken.append(len(found))
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PlainEvents, "take", counted)
        yield taken


@contextmanager
def opened(path: Path, registry: EventRegistry = REGISTRY, **options: Any) -> Iterator[Opened]:
    with asyncio.Runner() as runner:
        opening = EventLog.open(path, registry, **options)
        log = runner.run(opening.__aenter__())
        if not runner.run(log.streams()):
            runner.run(fill(log))
        yield Opened(log)
        runner.run(opening.__aexit__(None, None, None))


@pytest.fixture(autouse=True, scope="module")
def taken_however_few() -> Iterator[None]:
    """Let no plain row be left to Python because those around it are not plain."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(event_walk, "FEW", 1)
        patch.setattr(plain_events, "FEW", 1)
        yield


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Opened]:
    with opened(tmp_path_factory.mktemp("plain") / "log") as log:
        yield log


def resealed(key: bytes, data: bytes) -> bytes:
    """Return a frame with the CRC that goes with its bytes: the chain alone shows the forgery."""
    position = int.from_bytes(key, "big")
    crc = zlib.crc32(data[4:]) ^ (position ^ position >> 32) & 0xFFFFFFFF
    return crc.to_bytes(4, "big") + data[4:]


def flipped(data: bytes, at: int, by: int = 1) -> bytes:
    return data[:at] + bytes([data[at] ^ by]) + data[at + 1 :]


def test_it_is_compiled_where_it_can_be():
    """scripts/setup.sh installs the checkout, which compiles it."""
    if platform.machine() not in ("x86_64", "aarch64", "arm64") or not shutil.which("cc"):
        pytest.skip("it is compiled where there is a C compiler")
    assert LOG_LIBRARY.path.exists()


@needs_c
def test_all_that_is_plain_is_taken_and_nothing_else(log: Opened):
    report, taken = log.reports()

    assert report.ok
    assert (report.archived_events, report.erased_events) == (8, 30)
    assert 0 < taken == log.plain < len(log.rows["events"])


@dataclass(frozen=True)
class Damage:
    """A change of some bytes."""

    kind: str
    at: int
    by: bytes

    def __call__(self, content: bytes) -> bytes:
        at = self.at % (len(content) or 1)
        if self.kind == "flip" and content:
            return flipped(content, at, self.by[0] or 1)
        if self.kind == "cut":
            return content[:at]
        return (
            content[:at] + self.by + content[at:] if self.kind == "between" else content + self.by
        )


damages = st.builds(
    Damage,
    st.sampled_from(["flip", "cut", "behind", "between"]),
    st.integers(0, 4000),
    st.binary(min_size=1, max_size=40),
)


@needs_c
@settings(max_examples=200)
@given(st.sampled_from(TABLES), st.integers(0, 999), st.booleans(), st.booleans(), damages)
def test_a_damaged_row_is_reported_alike(
    log: Opened, table: str, row: int, is_key: bool, reseal: bool, damage: Damage
):
    """Also where somebody made the CRC of the damaged event anew."""
    key, value = log.rows[table][row % len(log.rows[table])]
    moved, content = (damage(key), value) if is_key else (key, damage(value))
    assume(0 < len(moved) < 512)
    if reseal and table == "events" and len(moved) == 8 and len(content) > 4:
        content = resealed(moved, content)
    with log.changed(table, (key, None), (moved, content)):
        report, taken = log.reports()

    assert taken > log.plain // 2 or is_key
    assert report.ok == ((moved, content) == (key, value)) or reseal


@needs_c
def test_events_in_each_others_place_are_reported_alike(log: Opened):
    rows = [row for row in log.rows["events"] if row[1][5] == 0]
    for (one, first), (other, second) in list(pairwise(rows))[::3]:
        with log.changed("events", (one, resealed(one, second)), (other, resealed(other, first))):
            assert not log.reports()[0].ok
        with log.changed("events", (other, resealed(other, first))):
            assert not log.reports()[0].ok


@needs_c
def test_rows_that_are_missing_or_too_many_are_reported_alike(log: Opened):
    for table in TABLES:
        for key, value in log.rows[table][::4]:
            with log.changed(table, (key, None)):
                assert not log.reports()[0].ok
            with log.changed(table, (key + b"\0", value)):
                assert not log.reports()[0].ok


@needs_c
def test_what_is_just_being_erased_is_not_taken(log: Opened):
    sid = frame.stream_id("a")
    record = seal_record(ErasureRecord(10, 1, 10, 0, []), sid)
    with log.changed("erasures", (sid, record)):
        report, taken = log.reports()

    assert report.erased_events == 40
    assert taken == log.plain - sum(
        data[5] == 0 and data[9:25] == sid and int.from_bytes(data[25:33], "big") <= 10
        for _, data in log.rows["events"]
    )


@needs_c
def test_an_erasure_until_no_version_is_reported_alike(log: Opened):
    sid = frame.stream_id("a")
    with log.changed("erasures", (sid, seal_record(ErasureRecord(-1, 1, 10, 0, []), sid))):
        assert log.reports()[1] == log.plain


OTHER_TYPES: dict[str, dict[str, Any]] = {
    "a type that is unknown": {"unknown": True},
    "a newer schema": {"schema": 2},
    "keys that cannot be found": {"keys": lambda event: event.nothing},
    "keys that are no text": {"keys": lambda event: (event.about, 7)},
    "keys that are no valid Unicode": {"keys": lambda event: ("\ud800", event.text)},
    "one string for keys": {"keys": lambda event: event.text},
    "other keys": {"keys": lambda event: [event.text, *event.about, event.text]},
}


@needs_c
@pytest.mark.parametrize("kind", OTHER_TYPES)
def test_types_that_have_changed_are_reported_alike(log: Opened, tmp_path: Path, kind: str):
    shutil.copytree(log.log._env.path.parent, tmp_path / "log")
    with opened(tmp_path / "log", registered(**OTHER_TYPES[kind])) as other:
        report, taken = other.reports()

    assert taken > 20
    assert report.ok == (kind == "a newer schema")


@needs_c
def test_nothing_of_an_encrypted_log_is_taken(tmp_path: Path):
    with (
        keyfile.opened(tmp_path / "keys") as keys,
        opened(tmp_path / "log", keys=keys) as encrypted,
    ):
        report, taken = encrypted.reports()
        assert report.ok
        key, data = encrypted.rows["events"][3]
        with encrypted.changed("events", (key, resealed(key, flipped(data, 5, frame.ENCRYPTED)))):
            assert not encrypted.reports()[0].ok
        assert taken == 0


@needs_c
def test_a_payload_of_any_length_is_taken(tmp_path: Path):
    """A sum is computed of as many blocks as there are, and of what is left over."""

    asyncio.run(written(tmp_path, [Noted("x" * n) for n in range(300)]))
    with opened(tmp_path) as log:
        report, taken = log.reports()

    assert report.ok
    assert taken == 300


async def written(path: Path, events: list[Any]) -> None:
    async with EventLog.open(path, REGISTRY) as log:
        await log.append("s", events, 0)


@needs_c
@given(st.lists(st.text(max_size=140), max_size=20))
def test_rows_of_keys_are_those_that_python_makes(keys: list[str]):
    sid, version = frame.stream_id("s"), U64.pack(7)
    plain = PlainEvents(PackedEnds({}), {})
    plain.look_at([U64.pack(1)], [bytes(9) + sid + version])

    rows = plain.rows_of_keys(keys, [0] * len(keys))

    assert rows == [(row, key_check(row)) for row in key_rows(sid, keys, version, None)]


texts = st.text(max_size=40) | st.just("long " * 900)
events = st.lists(st.builds(Noted, texts, st.lists(st.text(max_size=20), max_size=3)), min_size=1)


@needs_c
@given(
    st.lists(st.tuples(st.sampled_from("abc"), events), min_size=1, max_size=6),
    st.integers(0, 2**64 - 1000) | st.integers(0, 9),
)
def test_frames_are_those_that_python_packs(appends: list[tuple[str, list[Noted]]], position: int):
    runs = [
        Run([REGISTRY.prepare(one) for one in batch], stream.encode() * 16, number, -number, None)
        for number, (stream, batch) in enumerate(appends)
    ]
    chains = {run.sid: frame.chain_start(run.sid) for run in runs}
    chains_of_python = dict(chains)
    with pytest.MonkeyPatch.context() as patch:
        found = packed(runs, position, chains)
        patch.setattr(LOG_LIBRARY, "instruction_set", 0)
        assert packed(runs, position, chains_of_python) == found
    assert chains == chains_of_python


@needs_c
def test_no_position_has_more_than_64_bits(log: Opened):
    """Behind the last one there is none, and not the first one again."""
    _, data = log.rows["events"][0]
    ends = PackedEnds({})
    plain = PlainEvents(ends, log.log._reading.plain_types())
    plain.look_at([bytes(8)], [resealed(bytes(8), data)])

    assert plain.take(0, 1 << 64) == []
    assert END.unpack(ends[data[9:25]])[0] == 0
