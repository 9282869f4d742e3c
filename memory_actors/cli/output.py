"""The output of the program: JSON for programs, tables for people, errors for both.

JSON goes to stdout as UTF-8 whatever the terminal's encoding is. Texts of memories are printed with
their control characters made visible: a stored text must not be able to command a terminal.
"""

import sys
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import msgspec
from rich.console import Console
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from memory_actors.base.quota import KIB
from memory_actors.cli.options import App

if TYPE_CHECKING:  # it brings all formats of files along
    from memory_actors.interchange import Progress as OnProgress

T = TypeVar("T")


def stdout() -> Console:
    """Return the console for results."""
    return Console(file=sys.stdout, highlight=False)


def stderr() -> Console:
    """Return the console for everything else."""
    return Console(file=sys.stderr, highlight=False)


def print_result(
    app: App,
    result: T,
    to_people: Callable[[T], object] | str,
    as_json: Callable[[T], object] = lambda result: result,
) -> None:
    """Print a result: to programs as JSON, to people a line, or what `to_people` prints."""
    if app.json:
        print_json(as_json(result))
    elif isinstance(to_people, str):
        say(to_people)
    else:
        to_people(result)


def print_for_programs(app: App, result: object) -> bool:
    """Print a result as JSON if that is asked for; return whether it is."""
    if app.json:
        print_json(result)
    return app.json


# --- for programs


def print_json(value: object) -> None:
    """Print one document."""
    document = msgspec.json.format(msgspec.json.encode(value), indent=2)
    write_bytes(document + b"\n")


def print_json_line(value: object) -> None:
    """Print one line: what goes on after it is read line by line."""
    write_bytes(msgspec.json.encode(value) + b"\n")


def write_bytes(data: bytes) -> None:
    """Write to stdout as it is."""
    sys.stdout.flush()
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


# --- for people


def say(message: str, style: str = "") -> None:
    """Print a line."""
    stdout().print(Text(printable(message), style=style), soft_wrap=True)


def note(message: str, style: str = "dim") -> None:
    """Print a line beside the results, on stderr."""
    stderr().print(Text(printable(message), style=style), soft_wrap=True)


def table(
    *columns: str, title: str | None = None, right: Sequence[str] = (), whole: Sequence[str] = ()
) -> Table:
    """Return an empty table; the columns in `right` hold numbers, those in `whole` never wrap."""
    made = Table(
        title=None if title is None else text(title),
        title_justify="left",
        header_style="bold",
        box=None,
        pad_edge=False,
    )
    for column in columns:
        if column in right:
            made.add_column(column, justify="right", no_wrap=True)
        else:
            made.add_column(column, overflow="fold", no_wrap=column in whole)
    return made


def text(value: object, style: str = "") -> Text:
    """Return a cell that shows a value as it is, without markup."""
    return Text(printable("" if value is None else str(value)), style=style)


def print_table(made: Table | Tree, nothing: str | None = None) -> None:
    """Print a table, or a tree; of a table without rows, say that there is `nothing`."""
    if nothing is not None and isinstance(made, Table) and not made.row_count:
        say(nothing)
    else:
        stdout().print(made)


def printable(value: str) -> str:
    """Return a text with its control characters, line feeds and tabs aside, made visible."""
    return "".join(
        f"\\x{ord(one):02x}"
        if one not in "\n\t" and unicodedata.category(one) in ("Cc", "Cs")
        else one
        for one in value
    )


def shortened(value: str, characters_max: int) -> str:
    """Return a text on one line, cut where it is too long."""
    line = " ".join(value.split())
    return line if len(line) <= characters_max else line[: characters_max - 1] + "…"


def excerpt(value: str, lines_max: int, characters_max: int) -> str:
    """Return the first lines of a text, each cut where it is too long."""
    lines = [line for line in value.splitlines() if line.strip()]
    more = len(lines) - lines_max
    shown = [shortened(line, characters_max) for line in lines[:lines_max]]
    return "\n".join([*shown, f"… {counted(more, 'more line')}"] if more > 0 else shown)


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """Return `1 user`, `2 users`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {plural or f'{noun}s'}"


def pretty_json(value: object) -> str:
    """Return JSON as people read it."""
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()


def local(time: datetime) -> str:
    """Return a time in the zone of whoever reads it."""
    return time.astimezone().strftime("%Y-%m-%d %H:%M")


def size(size_bytes: int) -> str:
    """Return a size as people read it (1 KB = 1024 B)."""
    if size_bytes < KIB:
        return f"{size_bytes} B"
    number, unit = size_bytes / KIB, "KB"
    for larger in ("MB", "GB", "TB"):
        if number < KIB:
            break
        number, unit = number / KIB, larger
    return f"{number:.1f} {unit}"


def of_unit(number: int, unit: str) -> str:
    """Return how much there is of something that is counted, or measured in bytes."""
    return size(number) if unit == "bytes" else f"{number:,}"


# --- long work


@contextmanager
def progress_bar(what: str, *, quiet: bool) -> "Iterator[OnProgress]":
    """Hold a progress bar on a terminal's stderr; yield what moves it. Elsewhere it is silent."""
    with progress_bars(what, quiet=quiet) as (progress,):
        yield progress


@contextmanager
def progress_bars(*whats: str, quiet: bool) -> "Iterator[list[OnProgress]]":
    """Hold a progress bar for each step of a work, one below the other."""
    console = stderr()
    if quiet or not console.is_terminal:
        yield [lambda _done, _total: None for _ in whats]
        return
    from rich.progress import (
        BarColumn,
        Progress,
        TaskID,
        TaskProgressColumn,
        TextColumn,
        TimeElapsedColumn,
    )

    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn())

    def move(bars: Progress, task: TaskID, done: int, total: int) -> None:
        bars.update(task, completed=done, total=total or None)

    with Progress(*columns, TimeElapsedColumn(), console=console, transient=True) as bars:
        yield [partial(move, bars, bars.add_task(what, total=None)) for what in whats]


# --- errors


def print_error(kind: str, message: str, *, as_json: bool) -> None:
    """Print an error: for programs a line of JSON on stdout, for people red on stderr.

    One line, because what stands before it may be JSON lines already.
    """
    if as_json:
        print_json_line({"error": {"type": kind, "message": message}})
    else:
        stderr().print(Text(f"Error: {printable(message)}", style="red"), soft_wrap=True)
