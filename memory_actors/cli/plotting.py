"""Bars in the terminal, and the same as a picture: `--plot`, `--plot FILE.svg`."""

import io
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import click
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from eventlog.files.datafile import write_whole
from memory_actors.base.errors import InvalidInputError
from memory_actors.cli.output import print_table, printable, say

TERMINAL: Final = "-"
CELLS: Final = 30
PICTURE_COLUMNS: Final = 110
EIGHTHS: Final = " ▏▎▍▌▋▊▉"
_FONT: Final = re.compile(r"\s*@font-face \{.*?\}", re.DOTALL)

plot_option = click.option(
    "--plot",
    is_flag=False,
    flag_value=TERMINAL,
    metavar="[FILE.svg]",
    help="Draw it: in the terminal, or as a picture in a file.",
)


class Bar(NamedTuple):
    """A line of a plot."""

    label: str
    part: float
    """The share of the whole width, from 0 to 1."""
    said: str = ""
    """Beside it."""
    colour: str = "green"
    begin: float = 0.0
    """The place at which it begins, from 0 to 1; a bar without a length is a mark there."""


def draw(title: str, bars: Sequence[Bar], where: str) -> None:
    """Draw bars in the terminal, or into a file.

    :raises InvalidInputError: the file is none of SVG, or cannot be written.
    """
    made = Table(title=printable(title), title_justify="left", box=None, pad_edge=False)
    made.show_header = False
    for justify in ("left", "left", "right"):
        made.add_column(justify=justify, no_wrap=True, overflow="ellipsis")
    for bar in bars:
        made.add_row(Text(printable(bar.label)), drawn(bar), Text(printable(bar.said)))
    if where == TERMINAL:
        print_table(made)
        return
    if not where.lower().endswith(".svg"):
        raise InvalidInputError(f"--plot draws SVG: name a file that ends in .svg, not {where!r}")
    try:
        write_whole(Path(where), picture("memory-actors", [made], PICTURE_COLUMNS).encode())
    except OSError as error:
        raise InvalidInputError(f"{where} cannot be written: {error.strerror}") from error
    say(f"Drawn into {where}")


def picture(title: str, shown: Iterable[RenderableType], columns: int) -> str:
    """Render terminal output as SVG in the reader's own font: no font is fetched."""
    console = Console(
        record=True, width=columns, file=io.StringIO(), force_terminal=True, highlight=False
    )
    for each in shown:
        console.print(each)
    return _FONT.sub("", console.export_svg(title=title, unique_id="picture"))


def drawn(bar: Bar, cells: int = CELLS) -> Text:
    """Return a bar as so many characters."""
    before = round(min(max(bar.begin, 0.0), 1.0) * (cells - 1))
    if bar.part <= 0 and bar.begin > 0:
        return Text("·" * before, "dim") + Text("●", bar.colour)
    eighths = round(min(max(bar.part, 0.0), 1.0) * cells * 8)
    filled = "█" * (eighths // 8) + EIGHTHS[eighths % 8].strip()
    rest = cells - before - len(filled)
    return Text("·" * before, "dim") + Text(filled, bar.colour) + Text("·" * max(0, rest), "dim")


def marks(times: Sequence[Any]) -> list[float]:
    """Return where moments stand between the first and the last of them, from 0 to 1."""
    first, last = min(times), max(times)
    span = (last - first).total_seconds()
    return [0.0 if not span else (at - first).total_seconds() / span for at in times]
