"""The printed form of a measurement: command, machine, and plain tables of figures."""

import os
import platform
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import click
import msgspec
import numpy as np

FSYNC_SAMPLES = 30
MEMORY_FILESYSTEMS = ("tmpfs", "ramfs")


class Table(msgspec.Struct, frozen=True):
    """Rows of figures; a cell is a str, an int, a float or None."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]


class Report(msgspec.Struct, frozen=True):
    """Everything one command has to say."""

    name: str
    facts: dict[str, Any]
    tables: Sequence[Table]
    notes: Sequence[str] = ()
    ok: bool = True
    """False if what was measured must not be so: the command exits with 1."""


class Options(msgspec.Struct, frozen=True):
    """The options of every command."""

    directory: Path | None
    """The directory to write to; by default a new directory in the current one."""
    seed: int
    runs: int


# --- on what


@contextmanager
def scratch(options: Options) -> Iterator[Path]:
    """Make a directory to write in, and delete it afterwards.

    :raises click.ClickException: it would lie in memory, and nobody asked for that.
    """
    base = options.directory or Path.cwd()
    if options.directory is None and filesystem(base) in MEMORY_FILESYSTEMS:
        raise click.ClickException(
            f"{base} is in memory, where an fsync costs nothing: choose a disk with --dir"
        )
    with tempfile.TemporaryDirectory(prefix=".bench-", dir=base) as name:
        yield Path(name)


def facts(
    directory: Path, options: Options, packages: Sequence[str], **more: Any
) -> dict[str, Any]:
    """Return facts that a reader needs to judge the figures, measured now."""
    return {
        "python": platform.python_version(),
        "packages": ", ".join(f"{name} {_version(name)}" for name in ("memory-actors", *packages)),
        "system": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        "load": f"{os.getloadavg()[0]:.2f} at the end",
        "filesystem": filesystem(directory),
        "fsync": _fsync(directory),
        "seed": options.seed,
        "runs": options.runs,
        **more,
    }


def filesystem(path: Path) -> str:
    """Return the type of the filesystem that a path is on, "unknown" where /proc does not say."""
    try:
        lines = Path("/proc/self/mounts").read_text().splitlines()
    except OSError:
        return "unknown"
    mounts = [(Path(fields[1]), fields[2]) for fields in map(str.split, lines)]
    resolved = path.resolve()
    around = [(len(str(at)), kind) for at, kind in mounts if resolved.is_relative_to(at)]
    return max(around)[1] if around else "unknown"


def _fsync(directory: Path) -> str:
    path, page, times = directory / "fsync", os.urandom(4096), []
    with path.open("wb", buffering=0) as file:
        for _ in range(FSYNC_SAMPLES):
            file.seek(0)
            file.write(page)
            started_s = time.perf_counter()
            os.fsync(file.fileno())
            times.append((time.perf_counter() - started_s) * 1e3)
    path.unlink()
    return f"{statistics.median(times):.3f} ms median, {max(times):.3f} ms worst of {len(times)}"


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "(from source)"


# --- figures


def disk_bytes(path: Path) -> int:
    """Return the disk usage of a file, or of all files below a directory; holes take nothing."""
    files = [path] if path.is_file() else [p for p in path.rglob("*") if p.is_file()]
    return 512 * sum(file.stat().st_blocks for file in files)


def percentile(values: Sequence[float], percent: float) -> float:
    """Return a percentile, 0 of nothing."""
    return float(np.percentile(values, percent)) if len(values) else 0.0


def median(values: Sequence[float]) -> float:
    """Return the median, 0 of nothing."""
    return statistics.median(values) if values else 0.0


# --- print


def show(report: msgspec.Struct, as_json: bool) -> None:
    """Print a report, for a program or for people."""
    if as_json:
        click.echo(msgspec.json.encode(report).decode())
    elif isinstance(report, Report):
        click.echo(_text(report))
    else:
        fields = report.__struct_fields__
        click.echo(_fields({name: getattr(report, name) for name in fields}))


def _text(report: Report) -> str:
    parts = [f"{report.name}\n\n{_fields(report.facts)}"]
    parts += [_table(table) for table in report.tables]
    parts += ["\n".join(f"- {note}" for note in report.notes)] if report.notes else []
    return "\n\n".join(parts)


def _fields(fields: dict[str, Any]) -> str:
    width = max(map(len, fields))
    return "\n".join(f"{name:>{width}}  {value}" for name, value in fields.items())


def _table(table: Table) -> str:
    lines = [list(table.columns), *([_cell(value) for value in row] for row in table.rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    texts = [isinstance(value, str) for value in (table.rows[0] if table.rows else table.columns)]
    aligned = [
        "  ".join(
            cell.ljust(width) if left else cell.rjust(width)
            for cell, width, left in zip(line, widths, texts, strict=True)
        ).rstrip()
        for line in lines
    ]
    rule = "  ".join("-" * width for width in widths)
    return "\n".join([table.title, "", aligned[0], rule, *aligned[1:]])


def _cell(value: Any) -> str:
    """Return a figure with about three digits that count."""
    if value is None:
        return "-"
    if isinstance(value, float):
        size = abs(value)
        digits = 0 if size >= 100 else 1 if size >= 10 else 2 if size >= 1 else 3
        return f"{value:,.{digits}f}"
    return f"{value:,}" if isinstance(value, int) else str(value)
