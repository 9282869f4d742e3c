"""A backup whose manifest was made up, and an export whose messages were: by who can write files.

Values of every field are replaced by what somebody might try (other names and paths, huge and
negative numbers, zero bytes, values of other files), entries are left out, doubled and added, and
files are emptied, exchanged for those of another backup, or planted, with their right digests in
the manifest. An export that was changed gets its right checksum. A trial has survived when it was
refused by a typed error and not a byte of the store in question has changed; or when what came of
it is what an unchanged file gives (a restore), or a log that verifies (an import).
"""

import asyncio
import hashlib
import random
import shutil
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from bench.faults import example
from bench.faults.row import Counts, Row
from bench.faults.trials import in_loop
from eventlog import CorruptLog, EventLogError
from eventlog.core.rows import seal_record, unseal_record
from eventlog.lmdb.tables import RequestRecord
from eventlog.upkeep import exporting
from eventlog.upkeep.backup import MANIFEST
from memory_actors import MemorySystem

TRIALS = {"quick": 5, "middle": 150, "full": 1_000}  # of each
PLANTED = ("api_keys.json", "evil.so", "archive/evil.so", "recall.key", "indexes/x.words")
JUNK: tuple[Any, ...] = (
    None, -1, 0, 1, 10**9, 2**63, 2**64 - 1, "", "log.mdb", "log.anchor", "derived.mdb", [], {},
    "../log.mdb", "/etc/passwd", "a\0b", "n" * 5000, "00" * 32, "0" * 64, True, 1.5, b"\x00" * 16,
)  # fmt: skip


def run(counts: Counts, seed: int, scratch: Path) -> Row:
    """Forge backups and exports, and try to restore and to import them."""
    row = Row(fault="a made-up manifest of a backup, a made-up export")
    truth = asyncio.run(_made(scratch))
    rng = random.Random(seed)
    kinds = {"manifest": partial(_restored, scratch, truth), "export": partial(_imported, scratch)}
    for kind, trial in kinds.items():
        for n in range(TRIALS[counts]):
            for name, whole in (("backup", "first"), ("store", "mine"), ("other", "restored")):
                shutil.rmtree(scratch / name, ignore_errors=True)
                shutil.copytree(scratch / whole, scratch / name)
            ending = in_loop(partial(trial, rng.randrange(2**32)))
            if ending.kind in ("refused", "harmless"):
                row.survive(f"{kind} {ending.kind}")
            else:
                row.fail(ending.kind, f"{kind}, trial {n}: {ending.detail}", lost=1)
    return row


async def _made(scratch: Path) -> dict[str, Any]:
    """Make two backups of one store, what came between them, and a store of somebody else."""
    async with example.opened(scratch / "log") as memory:
        await example.fill(memory)
        first = await memory.backup(scratch / "first", derived=True)
        await memory.user("ada").add("What came later.", idempotency_key="later")
        await memory.user("carl").add("Who came later.")
        await memory.erase("carl")
        await memory.backup(scratch / "second", derived=True)
        await memory.export_since(first.position, scratch / "export")
    await MemorySystem.restore_backup(scratch / "first", scratch / "restored")
    async with example.opened(scratch / "mine") as memory:
        await memory.user("mine").add("This is mine.")
    return await _answered(scratch / "restored")


async def _answered(path: Path) -> dict[str, Any]:
    async with example.opened(path, first_id=10_000) as memory:
        await example.at_rest(memory)
        return (await example.answers(memory))[0]


def _bytes_of(directory: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in sorted(directory.rglob("*"))
        if path.is_file() and not path.name.endswith("lock")  # which says who looked last
    }


# --- a manifest


async def _restored(scratch: Path, truth: dict[str, Any], seed: int) -> tuple[str, str]:
    rng, backup, store = random.Random(seed), scratch / "backup", scratch / "store"
    manifest = msgspec.json.decode((backup / MANIFEST).read_bytes())
    for _ in range(rng.randrange(1, 3)):
        rng.choice((_another_value, _another_file, _another_list))(manifest, scratch, rng)
    (backup / MANIFEST).write_bytes(msgspec.json.encode(manifest))
    before, there = _bytes_of(store), set(scratch.iterdir())
    try:
        await MemorySystem.restore_backup(backup, store)
    except EventLogError as error:
        unchanged = _bytes_of(store) == before and set(scratch.iterdir()) == there
        return ("refused", str(error)) if unchanged else ("changed", f"{error}: {manifest!s:.300}")
    for aside in scratch.glob("store.before-*"):
        shutil.rmtree(aside)
    planted = [name for name in PLANTED if (store / name).exists()]
    if planted or await _answered(store) != truth:
        return "accepted", f"{planted} {manifest!s:.300}"
    return "harmless", ""


def _another_value(manifest: dict[str, Any], _scratch: Path, rng: random.Random) -> None:
    part: dict[str, Any] = rng.choice([manifest, *manifest["files"], manifest])
    field = rng.choice([name for name in part if name != "files"])
    part[field] = rng.choice([*JUNK[:-1], *(each.get(field) for each in manifest["files"])])


def _another_file(manifest: dict[str, Any], scratch: Path, rng: random.Random) -> None:
    """Empty a file, exchange it for that of another backup, or plant one; all with its digest."""
    named = [str(each["name"]) for each in manifest["files"]]
    there = [name for name in named if "\0" not in name and len(name) < 200]
    there = [name for name in there if (scratch / "backup" / name).is_file()]
    name = rng.choice([*PLANTED, *there])
    other = scratch / "second" / name
    data = other.read_bytes() if other.is_file() and rng.random() < 0.7 else b""
    (scratch / "backup" / name).parent.mkdir(exist_ok=True)
    (scratch / "backup" / name).write_bytes(data)
    listed = {"name": name, "size_bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    manifest["files"] = [each for each in manifest["files"] if each["name"] != name] + [listed]


def _another_list(manifest: dict[str, Any], _scratch: Path, rng: random.Random) -> None:
    files = manifest["files"]
    manifest["files"] = rng.choice(
        ([], files[1:], files[:-1], [*files, *files[:1]], rng.sample(files, len(files) // 2))
    )


# --- an export


async def _imported(scratch: Path, seed: int) -> tuple[str, str]:
    rng, other = random.Random(seed), scratch / "other"
    messages = list(exporting.read_export(scratch / "export"))
    for _ in range(rng.randrange(1, 3)):
        at = rng.randrange(len(messages))
        change = rng.choice((_forged, _forged, _moved))
        change(messages, at, rng)
    try:
        with (scratch / "forged").open("wb") as file:
            exporting._write(file, iter(messages))  # noqa: SLF001 - as an export is written
    except (TypeError, ValueError, OverflowError):
        return "harmless", "no message can say that"
    before = await _heads(other)
    try:
        await MemorySystem.import_events(scratch / "forged", other)
    except EventLogError as error:
        return ("refused", str(error)) if await _heads(other) == before else ("changed", str(error))
    async with example.opened(other, first_id=10_000) as memory:
        report = await memory.verify()
        _, refused = await example.answers(memory)
    if not report.ok or refused:
        return "accepted", f"{report.findings[:2]} {refused}"
    return "harmless", ""


async def _heads(path: Path) -> Any:
    async with example.opened(path) as memory:
        return msgspec.structs.replace(await memory.heads(), published_at_us=0)


def _forged(messages: list[Any], at: int, rng: random.Random) -> None:
    message = messages[at]
    if isinstance(message, exporting.Key) and rng.random() < 0.7:
        with suppress(CorruptLog):  # an earlier change of this trial left no record in it
            record = _with_another(unseal_record(message.data, RequestRecord, "a key"), rng)
            messages[at] = exporting.Key(message.key, seal_record(record))
    else:
        messages[at] = _with_another(message, rng)


def _with_another(struct: Any, rng: random.Random) -> Any:
    field = rng.choice(struct.__struct_fields__)
    like = [junk for junk in JUNK if type(junk) is type(getattr(struct, field))]
    return msgspec.structs.replace(struct, **{field: rng.choice(like or list(JUNK))})


def _moved(messages: list[Any], at: int, rng: random.Random) -> None:
    other = rng.randrange(len(messages))
    messages[at : at + 1] = rng.choice(([], [messages[at]] * 2, [messages[other]]))
