"""Something else in the place of a file: a pipe, a socket, a directory, a device, a loop of links.

Each is put in the place of each file of a store, encrypted and not: the log, its anchor and locks,
a segment of the archive, vectors, index files, the files of keys and of API keys, and those that
are written beside and renamed. A loop of links stands for a directory, too. Then the store is
opened and used in every way. A trial has survived when all of that ended in time, every answer was
right or refused by a typed error, and with the file put back everything is answered as before.
"""

import asyncio
import os
import random
import shutil
import socket
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

from bench.faults import example
from bench.faults.row import Counts, Row
from bench.faults.trials import Ending, in_loop
from memory_actors import MemorySystem, Settings
from memory_actors.base.api_keys import KeyStore
from memory_actors.search.indexes.files import INDEXES

TRIALS = {"quick": 12, "middle": 150, "full": 600}
KINDS = ("pipe", "socket", "directory", "device", "loop")
WRITTEN_BESIDE = ("log.mdb.shrunk", "compaction.json.tmp", "api_keys.json.tmp", "recall.key.tmp")
DIRECTORIES = ("archive", INDEXES)


def put(kind: str, path: Path) -> None:
    """Put something in the place of a file or directory, or where there is none."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "directory":
        path.mkdir()
    elif kind == "socket":
        _put_socket(path)
    else:
        path.symlink_to("/dev/zero" if kind == "device" else path)


def _put_socket(path: Path) -> None:
    # By the descriptor of its directory: the name that a socket is bound to has 107 bytes at most.
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        with socket.socket(socket.AF_UNIX) as bound:
            bound.bind(f"/proc/self/fd/{directory}/{path.name}")
    finally:
        os.close(directory)


def run(counts: Counts, seed: int, scratch: Path) -> Row:
    """Put each in the place of each, or a part of that."""
    row = Row(fault="a pipe, a socket, a directory, a device, a loop of links for a file")
    os.chdir(scratch)
    rng = random.Random(seed)
    wholes = {encrypt: scratch / f"whole {encrypt}" / "memory" for encrypt in (False, True)}
    truths = {encrypt: asyncio.run(_made(whole, encrypt)) for encrypt, whole in wholes.items()}
    places = [(encrypt, name) for encrypt, whole in wholes.items() for name in _names(whole.parent)]
    trials = [(*place, kind) for place in places for kind in KINDS]
    rng.shuffle(trials)
    for encrypt, name, kind in trials[: TRIALS[counts]]:
        shutil.rmtree(scratch / "store", ignore_errors=True)
        shutil.copytree(wholes[encrypt].parent, scratch / "store")
        put(kind, scratch / "store" / name)
        path = scratch / "store" / "memory"
        ending = in_loop(partial(_used, path, encrypt, truths[encrypt]))
        if ending.kind in ("right", "refused"):
            back = partial(_put_back, wholes[encrypt].parent / name, scratch / "store" / name)
            ending = _after(
                ending, in_loop(partial(_unharmed, path, encrypt, truths[encrypt], back))
            )
        _note(row, f"{kind} for {name}", ending)
    return row


def _names(directory: Path) -> list[str]:
    """Return the names of a store's files, one of each sort, and of files that may be created."""
    files = [path.relative_to(directory) for path in sorted(directory.rglob("*")) if path.is_file()]
    sorts = {(name.parent.name, name.suffix): name for name in files}
    one_of_each = [name for (parent, _), name in sorts.items() if parent in DIRECTORIES]
    alone = [name for name in files if name.parent.name not in DIRECTORIES]
    index = next(name for name in one_of_each if name.suffix == ".words")
    beside = [index.with_suffix(suffix) for suffix in (".partial", ".graph")]
    beside += [Path("memory", name) for name in (*WRITTEN_BESIDE, *DIRECTORIES)]
    return sorted({str(name) for name in (*one_of_each, *alone, *beside)})


def _after(used: Ending, back: Ending) -> Ending:
    return used if back.kind == "right" else back._replace(detail=f"put back: {back.detail}")


def _note(row: Row, what: str, ending: Ending) -> None:
    if ending.kind in ("right", "refused"):
        row.survive(ending.kind)
    else:
        row.fail(ending.kind, f"{what}: {ending.detail}", lost=ending.kind == "wrong")


def _opened(path: Path, encrypt: bool) -> Any:
    settings = Settings(deadline_s=10.0, recall_audit="hashed", compaction_schedule="0 3 * * *")
    return example.opened(path, first_id=10_000, encrypt=encrypt, settings=settings)


async def _made(path: Path, encrypt: bool) -> dict[str, Any]:
    async with _opened(path, encrypt) as memory:
        await example.fill(memory)
    KeyStore(path).create("ada")
    async with _opened(path, encrypt) as memory:
        await example.at_rest(memory)
        answered, refused = await example.answers(memory)
    assert not refused, refused
    return answered


def _uses(memory: MemorySystem, path: Path) -> list[Callable[[], Awaitable[Any]]]:
    """Return the operations to try besides reads: a refusal must be a typed error."""
    carl = memory.user("carl")
    return [
        lambda: carl.add("It goes on.", memory_id="goes on"),
        lambda: memory.recalls("ada", query="fact that is known"),
        memory.verify,
        memory.compact,
        memory.compaction_stats,
        lambda: asyncio.to_thread(KeyStore(path).create, "carl"),
        lambda: asyncio.to_thread(KeyStore(path).find, "a token"),
        lambda: memory.backup(path.with_name("backup"), derived=True),
        lambda: memory.erase("carl"),
    ]


async def _used(path: Path, encrypt: bool, truth: dict[str, Any]) -> tuple[str, str]:
    refused: dict[str, str] = {}
    try:
        async with _opened(path, encrypt) as memory:
            refused |= await example.at_rest(memory)
            answered, refused_now = await example.answers(memory)
            refused |= refused_now
            for use in _uses(memory, path):
                try:
                    await use()
                except example.TYPED as error:
                    refused[f"{type(error).__name__}"] = str(error)
    except example.TYPED as error:
        return "refused", str(error)
    return _compared(answered, truth, refused)


def _compared(
    answered: dict[str, Any], truth: dict[str, Any], refused: dict[str, str]
) -> tuple[str, str]:
    wrong = [name for name, answer in answered.items() if answer != truth[name]]
    if wrong:
        return "wrong", f"{wrong}: {answered[wrong[0]]!s:.200}"
    return ("refused", str(refused)) if refused else ("right", "")


def _put_back(whole: Path, path: Path) -> None:
    """Take away what stands there, unless it has been replaced, and put the file back."""
    if path.is_symlink() or path.is_fifo() or path.is_socket():
        path.unlink()
    elif path.is_dir() and not whole.is_dir():
        shutil.rmtree(path)
    if whole.is_dir():
        shutil.copytree(whole, path, dirs_exist_ok=True)
    elif whole.exists() and not path.exists():
        shutil.copyfile(whole, path)
        path.chmod(0o600)


async def _unharmed(
    path: Path, encrypt: bool, truth: dict[str, Any], put_back: Callable[[], None]
) -> tuple[str, str]:
    put_back()
    async with _opened(path, encrypt) as memory:
        refused = await example.at_rest(memory)
        answered, refused_now = await example.answers(memory)
    kind, detail = _compared(answered, truth, refused | refused_now)
    return ("harmed", detail) if kind == "refused" else (kind, detail)
