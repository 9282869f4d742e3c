"""Verification finds each kind of damage, and nothing where there is none."""

import struct
import zlib
from collections.abc import Callable
from pathlib import Path

import anyio
import msgspec
import pytest

from eventlog import (
    Checkpoint,
    CorruptLog,
    Environment,
    EventLog,
    EventRegistry,
    Snapshot,
    VerifyReport,
)
from eventlog.core import frame
from eventlog.core.rows import U64, key_id, seal, seal_record, unseal_record
from eventlog.lmdb.file import Transaction
from eventlog.lmdb.tables import TABLES, StreamRecord

pytestmark = pytest.mark.anyio

Change = Callable[[Environment, Transaction], object]
A, B = frame.stream_id("a"), frame.stream_id("b")


class Noted(msgspec.Struct, frozen=True):
    text: str
    about: tuple[str, ...] = ()


def noting(*tags: str) -> EventRegistry:
    registry = EventRegistry()
    for tag in tags:
        kind = Noted if tag == "noted" else msgspec.defstruct("Other", [("text", str)])
        registry.event(tag, keys=lambda event: getattr(event, "about", ()))(kind)
    return registry


registry = noting("noted")


async def make(path: Path) -> None:
    """Make a log: a 1-3, b 4-5, a 6, single 7."""
    async with EventLog.open(path, registry) as log:
        await log.append("a", [Noted(str(n), ("k",)) for n in range(3)], 0, idempotency_key="r")
        await log.append("b", [Noted("long " * 500), Noted("2")], 0)
        await log.append("a", [Noted("last")], 3)
        await log.append("single", [Noted("only")], 0)
        await log.save_snapshot("a", Snapshot(2, b"state"), "f")
        await log.save_checkpoint(Checkpoint("p", 3, {b"k": b"v"}))


async def verify(path: Path, change: Change | None = None, **options) -> VerifyReport:
    if change is not None:
        env = Environment(path / "log.mdb", TABLES)
        env.write(lambda txn: change(env, txn))
        env.close()
        (path / "log.anchor").unlink()  # or the damage to the last event is found at opening
    async with EventLog.open(path, options.pop("registry", registry)) as log:
        return await log.verify(**options)


def rewrite(position: int, change: Callable[[bytes], bytes], *, reseal: bool) -> Change:
    """Return a change of a frame's bytes, with the CRC made right or left as it was."""

    def run(env: Environment, txn: Transaction) -> None:
        key, table = U64.pack(position), txn.tables["events"]
        data = change(txn.get(key, db=table))
        if reseal:
            crc = zlib.crc32(data[4:]) ^ int.from_bytes(key, "big")
            data = struct.pack(">I", crc) + data[4:]
        txn.put(key, data, db=table)

    return run


def put(table: str, key: bytes, value: bytes) -> Change:
    return lambda env, txn: txn.put(key, value, db=txn.tables[table])


def drop(table: str, key: bytes) -> Change:
    return lambda env, txn: txn.delete(key, db=txn.tables[table])


def swap(env: Environment, txn: Transaction) -> None:
    table = txn.tables["events"]
    first, second = (txn.get(U64.pack(position), db=table) for position in (1, 2))
    txn.put(U64.pack(1), second, db=table)
    txn.put(U64.pack(2), first, db=table)


def record_of(sid: bytes, **changes) -> Change:
    def run(env: Environment, txn: Transaction) -> None:
        table = txn.tables["streams"]
        record = unseal_record(txn.get(sid, db=table), StreamRecord, "")
        txn.put(sid, seal_record(msgspec.structs.replace(record, **changes)), db=table)

    return run


def forged_digest(data: bytes) -> bytes:
    """Return a frame with another payload, and the digest that goes with it."""
    forged = data.replace(b"last", b"lost")
    at = frame._HEADER.size
    payload_at = at + len("noted")
    digest = frame.hashlib.sha256(forged[payload_at:]).digest()
    return forged[: at - 64] + digest + forged[at - 32 :]


DAMAGE: dict[str, Change] = {
    "a flipped bit": rewrite(2, lambda d: d[:-1] + bytes([d[-1] ^ 1]), reseal=False),
    "a frame cut short": rewrite(2, lambda d: d[:-5], reseal=False),
    "a frame cut to nothing": rewrite(2, lambda _: b"", reseal=False),
    "frames in each other's place": swap,
    "a payload replaced": rewrite(6, lambda d: d.replace(b"last", b"lost"), reseal=True),
    "a payload and its digest replaced": rewrite(6, forged_digest, reseal=True),
    "a time changed": rewrite(1, lambda d: d[:33] + b"\x01" + d[34:], reseal=True),
    "a payload that does not decompress": rewrite(4, lambda d: d[:-9] + b"x" * 9, reseal=True),
    "a payload of another size": rewrite(4, lambda d: d[:41] + b"\1" + d[42:], reseal=True),
    "a newer format": rewrite(3, lambda d: d[:4] + b"\7" + d[5:], reseal=True),
    "an event missing": drop("events", U64.pack(2)),
    "the first event missing": drop("events", U64.pack(1)),
    "the last event missing": drop("events", U64.pack(7)),
    "an event too many": put("events", U64.pack(9), b"x" * 200),
    "a key of another size": put("events", bytes(9), b"x" * 200),
    "a version missing from the index": drop("versions", A + U64.pack(2)),
    "a version that leads elsewhere": put("versions", A + U64.pack(2), U64.pack(4)),
    "a version too many in the index": put("versions", A + U64.pack(5), U64.pack(4)),
    "a version of no stream": put("versions", b"\7" * 16 + U64.pack(1), U64.pack(4)),
    "a key missing from the index": drop("keys", A + key_id("k") + U64.pack(2)),
    "a key too many in the index": put("keys", A + key_id("k") + U64.pack(4), b""),
    "a stream's record missing": drop("streams", A),
    "a stream's record damaged": put("streams", B, b"\0" * 40),
    "a stream's version too low": record_of(A, version=3),
    "a stream's version too high": record_of(A, version=5),
    "a stream's chain changed": record_of(A, chain=b"\0" * 32),
    "a stream's name changed": record_of(A, name="other"),
    "a stream's size changed": record_of(A, stored_bytes=1),
    "a request damaged": put("requests", A + key_id("r"), b"\0" * 40),
    "a request that got what is not there": put(
        "requests", A + key_id("r"), seal(msgspec.msgpack.encode([b"", 8, 9, 90]))
    ),
    "a checkpoint damaged": put("checkpoints", key_id("p"), b"\0" * 12),
    "a checkpoint of another size": put("checkpoints", key_id("p"), seal(b"\0")),
    "a row of no meaning": put("meta", b"other", b"\0" * 40),
    "an entry damaged": put("projections", key_id("p") + b"k", b"\0" * 12),
}


@pytest.mark.parametrize("kind", DAMAGE)
async def test_damage_is_found(tmp_path: Path, kind: str):
    await make(tmp_path)

    report = await verify(tmp_path, DAMAGE[kind])

    assert not report.ok


@pytest.mark.parametrize("key", [b"\xff" * 9, b"\xff" * 3, U64.pack(8) + b"\0"])
async def test_a_last_row_whose_key_is_no_position_is_found_in_an_open_log(
    tmp_path: Path, key: bytes
):
    await make(tmp_path)
    async with EventLog.open(tmp_path, registry) as log:
        log._env.write(lambda txn: put("events", key, b"x" * 200)(log._env, txn))
        report = await log.verify()

    assert [found.message for found in report.findings] == [f"an event has the key {key.hex()}"]
    with pytest.raises(CorruptLog, match=key.hex()):
        await verify(tmp_path)


async def test_an_index_without_a_position_for_what_is_archived_is_found(tmp_path: Path):
    await make(tmp_path)
    async with EventLog.open(tmp_path, registry) as log:
        await log.archive("a", [1, 2])

    assert not (await verify(tmp_path, put("versions", A + U64.pack(2), b""))).ok


async def test_a_finding_names_position_and_stream(tmp_path: Path):
    await make(tmp_path)

    report = await verify(tmp_path, DAMAGE["a payload replaced"])

    assert [(found.position, found.stream) for found in report.findings] == [(6, A.hex())]


async def test_an_unknown_type_is_found_and_the_rest_still_verified(tmp_path: Path):
    await make(tmp_path)

    report = await verify(tmp_path, registry=noting("other"))

    assert {found.position for found in report.findings} == set(range(1, 8))
    assert all("unknown" in found.message for found in report.findings)


async def test_appends_go_on_while_it_runs(tmp_path: Path):
    async with EventLog.open(tmp_path, registry) as log:
        await log.append("a", [Noted(str(n)) for n in range(3000)], 0)
        async with anyio.create_task_group() as tasks:
            reports: list[VerifyReport] = []

            async def run() -> None:
                reports.append(await log.verify())

            tasks.start_soon(run)
            for n in range(50):
                await log.append("b", [Noted(str(n))], n)

        assert reports[0].ok
        assert (await log.verify()).events == 3050
