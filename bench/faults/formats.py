"""Every format there has been is opened by this version; a newer one is refused and left alone.

Each golden store (golden.py) is unpacked and opened: it must verify, its states must be what a
replay gives, it must answer as it did when it was made, and take writes. Then its format is raised
to one that nobody knows: opening must refuse with a typed error and leave every byte as it is.
"""

import asyncio
import hashlib
from functools import partial
from pathlib import Path

import msgspec

from bench.faults.golden import GOLDEN, answers, opened, unpack
from bench.faults.row import Counts, Row
from bench.faults.trials import Ending, in_child, in_loop
from eventlog import Environment, UnknownEvent
from eventlog.core.rows import seal_record
from eventlog.lmdb.file import Transaction
from eventlog.lmdb.opening import ROW, load_format
from eventlog.lmdb.tables import TABLES

NEWER = 99


def run(_counts: Counts, _seed: int, scratch: Path) -> Row:
    """Open every golden store, as it is and made newer."""
    row = Row(fault="every released format; a newer one")
    for archive in sorted(GOLDEN.glob("*.tar.xz")):
        name = archive.name.partition(".")[0]
        _note(row, name, in_loop(partial(_opened, archive, scratch / name)))
        _note(row, f"newer than {name}", in_child(partial(_newer, archive, scratch / f"{name}n")))
    return row


def _note(row: Row, name: str, ending: Ending) -> None:
    if ending.kind == "survived":
        row.survive()
    else:
        row.fail(ending.kind, f"{name}: {ending.detail}", lost=ending.kind == "wrong")


async def _opened(archive: Path, store: Path) -> tuple[str, str]:
    expected = unpack(archive, store)
    answered = await answers(store)
    if answered != expected:
        return "wrong", f"{answered} and not {expected}"
    async with opened(store) as memory:
        user = memory.user("ada")
        receipt = await user.add("It still takes writes.")
        await user.get(receipt.memory_id)
    return "survived", ""


def _newer(archive: Path, store: Path) -> tuple[str, str]:
    unpack(archive, store)
    make_newer(store)
    before = digests(store)
    try:
        asyncio.run(_open(store))
    except UnknownEvent as error:
        changed = {name for name, digest in digests(store).items() if before.get(name) != digest}
        changed -= {"log.mdb-lock", "log.mdb.lock"}
        return ("touched", str(changed)) if changed else ("survived", str(error))
    return "opened", "although nobody knows its format"


async def _open(store: Path) -> None:
    async with opened(store):
        pass


def make_newer(store: Path) -> None:
    """Raise the format of a store to one that no version knows."""
    env = Environment(store / "log.mdb", TABLES)

    def put(txn: Transaction) -> None:
        record = msgspec.structs.replace(load_format(txn), format=NEWER)
        txn.put(ROW, seal_record(record), db=txn.tables["meta"])

    env.write(put)
    env.close()


def digests(store: Path) -> dict[str, str]:
    """Return the digest of every file of a store, by name."""
    return {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(store.rglob("*"))
        if path.is_file()
    }
