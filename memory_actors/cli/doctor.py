"""doctor: checks whether everything is there that the memory needs, and what to do if not.

Each check looks only, and says what to do if it finds fault.
"""

import os
import re
import shutil
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import click
import msgspec
import numpy as np

from eventlog import CorruptLog, EventLogError, MissingExtra
from memory_actors.base.errors import MemoryActorsError
from memory_actors.cli import options
from memory_actors.cli.options import App
from memory_actors.cli.output import print_json, print_table, say, size, table, text
from memory_actors.cli.running import run
from memory_actors.search.dot_products import INSTRUCTION_SETS, LIBRARY
from memory_actors.search.embedding.default import DefaultEmbedder
from memory_actors.search.indexes import graph
from memory_actors.search.model.installed import model_dir, model_path
from memory_actors.sharing.address import is_shared, server_url, shown
from memory_actors.sharing.system import join, open_or_join
from memory_actors.upkeep.store import closed_log

if TYPE_CHECKING:
    from eventlog.postgres.database import Looked

Status: TypeAlias = Literal["ok", "warning", "failed"]
Look: TypeAlias = tuple[str, Status, str]
"""A finding, its status, and an advice for when that is not ok."""

FREE_BYTES_MIN: Final = 1 << 30
POSTGRES_MIN: Final = 16
COPYING: Final = 1_000_000  # eventlog/postgres/database.py
FSYNC_MS_MAX: Final = 20.0  # above it one add at a time feels slow
FSYNC_PROBES: Final = 9
PROBE_BYTES: Final = 4096
NETWORK_FILE_SYSTEMS: Final = frozenset(
    ("9p", "afs", "beegfs", "ceph", "cifs", "fuse.glusterfs", "fuse.sshfs", "glusterfs", "gpfs")
) | {"lustre", "ncpfs", "nfs", "nfs4", "smb3", "smbfs"}

SENTENCES: Final = ("User enjoys skiing in the Alps", "They like winter sports")
COSINE_MIN, COSINE_MAX = 0.38, 0.44  # 0.412 in int8, 0.405 at full precision
_RESTORE: Final = "restore a backup, or see what `memory-actors repair` can keep"


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that was looked at."""

    name: str
    status: Status
    found: str
    advice: str = ""


def checks(store: Path | str) -> Iterator[Check]:
    """Yield one check after another; one that crashes has failed and stops no other."""
    looks: list[tuple[str, Callable[[], Look]]] = [
        ("model", _model),
        ("embedding", _embedding),
        ("comparing", _comparing),
        ("vectors", _vectors),
    ]
    if isinstance(store, Path):
        looks += [(name, partial(look, store)) for name, look in OF_DIRECTORY.items()]
    elif server_url(store) is not None:
        looks.append(("server", partial(_server, store)))
    else:
        looks += [("database", partial(_database, store)), ("store", partial(_store, store))]
    for name, look in looks:
        try:
            found, status, advice = look()
        except Exception as error:  # a doctor who faints helps nobody
            found, status = f"{type(error).__name__}: {error}", "failed"
            advice = "this check could not be made: the reason is before you"
        yield Check(
            name=name, status=status, found=found, advice="" if status == "ok" else advice
        )  # fmt: skip


def _or_failed(good: bool) -> Status:
    return "ok" if good else "failed"


# --- the model


def _model() -> Look:
    folder = model_path("int8")
    found = str(folder) if folder is not None else f"none that is whole at {model_dir('int8')}"
    return found, _or_failed(folder is not None), "run `memory-actors model install`"


def _embedding() -> Look:
    if model_path("int8") is None:
        return "no model to try", "failed", "install the model first"
    began_s = time.perf_counter()
    one, other = DefaultEmbedder().embed(SENTENCES)
    took_ms = (time.perf_counter() - began_s) * 1e3
    cosine = float(np.dot(one, other))
    found = (
        f"two known sentences at cosine {cosine:.3f} (expected {COSINE_MIN} to {COSINE_MAX}), "
        f"{took_ms:.0f} ms with loading"
    )
    advice = f"delete {model_dir('int8')} and run `memory-actors model install`"
    return found, _or_failed(COSINE_MIN <= cosine <= COSINE_MAX), advice


def _comparing() -> Look:
    number = LIBRARY.instruction_set
    slower = "" if number else ": a search takes a quarter longer than where the C is compiled"
    return f"by {INSTRUCTION_SETS[number]}{slower}", "ok", ""


def _vectors() -> Look:
    above = f"above {graph.SEGMENT_ROWS:,} memories of a kind"
    if graph.is_usable():
        return f"by HNSW {above}", "ok", ""
    if graph.hnswlib() is None:
        todo = "run `pip install hnswlib`, which needs a C++ compiler"
        return f"hnswlib missing: {above} all are scanned", "warning", todo
    return f"{above} all are scanned: the C parts are not compiled here", "ok", ""


# --- the database


def _server(url: str) -> Look:
    async def looked() -> None:
        await (await open_or_join(url)).close()

    try:
        run(looked)
    except MemoryActorsError as error:
        return f"{shown(url)}: {error}", "failed", "see that `memory-actors serve` runs there"
    return f"{shown(url)} answers", "ok", ""


def _database(url: str) -> Look:
    """Look whether the driver is there, and a server of a version that will do."""
    at = shown(url)
    try:
        server = _looked(url).server
    except MissingExtra as error:
        return "its driver is not installed", "failed", str(error)
    except EventLogError as error:
        advice = "see that it runs, and that user, password and name are right"
        return f"{at}: {error}", "failed", advice
    version, found = int(server.partition(".")[0]), f"{at}, PostgreSQL {server}"
    if version == POSTGRES_MIN:
        advice = "PostgreSQL 17 and later also end by themselves what holds a lock too long"
        return found, "warning", advice
    return found, _or_failed(version > POSTGRES_MIN), f"upgrade to PostgreSQL {POSTGRES_MIN + 1}"


def _store(url: str) -> Look:
    try:
        made = _looked(url).store_format
    except EventLogError:
        return "cannot be looked for", "failed", "see what is said of the database"
    if made is not None and made >= COPYING:
        advice = "run `memory-actors copy` again, or drop the schema"
        return "one is being copied here, and is not whole", "failed", advice
    if made is None:
        return "none in this schema yet", "ok", ""
    return f"in format {made}; `verify` reads what is in it", "ok", ""


def _looked(url: str) -> "Looked":
    from eventlog.postgres.database import look  # psycopg, which most stores do not need

    return look(url)


# --- the data directory


def _existing(directory: Path) -> Path:
    resolved = directory.resolve()
    return next(path for path in (resolved, *resolved.parents) if path.exists())


def _writable(directory: Path) -> Look:
    there = _existing(directory)
    found = str(directory.resolve())
    if there != directory.resolve():
        found += " (not there yet; it is made by the first add)"
    good = there.is_dir() and os.access(there, os.W_OK | os.X_OK)
    advice = f"make {there} a directory you may write to, or name another with --data"
    return found, _or_failed(good), advice


def _free_disk(directory: Path) -> Look:
    free = shutil.disk_usage(_existing(directory)).free
    advice = f"make room: below {size(FREE_BYTES_MIN)} writes may soon be refused"
    return f"{size(free)} free", _or_failed(free >= FREE_BYTES_MIN), advice


def _file_system(directory: Path) -> Look:
    kind = file_system(_existing(directory), _mounts())
    return (
        kind or "unknown (no /proc/mounts here)",
        _or_failed(kind not in NETWORK_FILE_SYSTEMS),
        "keep the data on a local disk: locks and memory maps do not hold over a network",
    )


def file_system(path: Path, mounts: str) -> str:
    """Return the type of the file system a path is on, empty if it is not known."""
    best, kind = "", ""
    for line in mounts.splitlines():
        fields = line.split()
        if len(fields) < 3:
            continue
        at = re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), fields[1])
        if path.is_relative_to(at) and len(at) >= len(best):
            best, kind = at, fields[2]
    return kind


def _mounts() -> str:
    try:
        return Path("/proc/mounts").read_text(errors="replace")
    except OSError:
        return ""


def _lock(directory: Path) -> Look:
    owner = closed_log(directory).owner()
    if owner is None:
        return "free", "ok", ""
    if not is_shared(directory):
        advice = "other processes, and commands, come in when that one has closed it"
        return f"open in {owner}, for itself alone", "warning", advice

    async def ask() -> float:
        async with join(directory) as memory:
            began_s = time.perf_counter()
            await memory.users()
            return (time.perf_counter() - began_s) * 1e3

    try:
        took_ms = run(ask)
    except MemoryActorsError as error:
        advice = "see what that process does; if it is ended, another one takes over"
        return f"open in {owner}, which does not answer: {error}", "failed", advice
    return f"open in {owner}, which answers others in {took_ms:.1f} ms", "ok", ""


def _log_file(directory: Path) -> Look:
    """Look at the log's file as opening does: at its pages, and not at what they say."""
    log = closed_log(directory)
    anchor, has_anchor = log.anchor.name, log.anchor.exists()
    if not log.size_bytes:
        lost = f"{log.path} is missing or empty, and {anchor} is there"
        return lost if has_anchor else "no store here yet", _or_failed(not has_anchor), _RESTORE
    if log.owner() is not None:
        return "not looked at: it is in use; `verify` asks who has it", "ok", ""
    try:
        log.check()
    except CorruptLog as error:
        return str(error), "failed", _RESTORE
    if not has_anchor:
        advice = "commits that were lost would not show: compare with `verify --against`"
        return f"{anchor} is missing", "warning", advice
    return f"{size(log.size_bytes)}, every page in order; `verify` reads what they say", "ok", ""


def _fsync(directory: Path) -> Look:
    took_ms = []
    with TemporaryFile(dir=_existing(directory)) as file:
        for _ in range(FSYNC_PROBES):
            began_s = time.perf_counter()
            file.write(bytes(PROBE_BYTES))
            file.flush()
            os.fsync(file.fileno())
            took_ms.append((time.perf_counter() - began_s) * 1e3)
    median_ms = statistics.median(took_ms)
    status: Status = "ok" if median_ms <= FSYNC_MS_MAX else "warning"
    found = f"{median_ms:.1f} ms (median of {FSYNC_PROBES})"
    return found, status, "a faster disk, or add_many, hides the wait"


OF_DIRECTORY: Final[Mapping[str, Callable[[Path], Look]]] = {
    "data directory": _writable,
    "free disk": _free_disk,
    "file system": _file_system,
    "log lock": _lock,
    "log file": _log_file,
    "fsync": _fsync,
}
MARKS = {"ok": ("✓", "green"), "warning": ("!", "yellow"), "failed": ("✗", "red")}


@options.command(shared=options.OF_STORE)
def doctor(app: App, /) -> None:
    """Check the model, and the data directory and the disk, or the database.

    Changes nothing.
    """
    made = list(checks(app.store))
    failed = sum(check.status == "failed" for check in made)
    if app.json:
        print_json({"ok": not failed, "checks": made})
    else:
        shown = table("", "check", "found")
        for check in made:
            found = text(check.found)
            if check.advice:
                found += text(f"\n→ {check.advice}", "bold")
            shown.add_row(text(*MARKS[check.status]), check.name, found)
        print_table(shown)
        say("Everything is in order." if not failed else f"{failed} to put right.")
    if failed:
        raise click.exceptions.Exit(1)
