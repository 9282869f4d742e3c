"""The pictures of the documentation: published tables as charts, the demo, the dashboard."""

import io
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path
from tempfile import TemporaryDirectory

import click
from rich.console import Console
from rich.text import Text

from bench.growth import FIGURES, panels
from bench.plots import check_matplotlib, cost_dots, recall_bars, size_lines
from bench.report import Report, Table

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PUBLISHED = (
    "system", "turn recall@10", "session recall@5", "session recall@10", "add ms", "search ms",
    "filtered ms", "disk KB a memory", "RSS KB a memory", "reopening ms",
)  # fmt: skip
"""The columns of the table of systems in docs/comparison.md, in their order."""
LATENCIES, PUBLISHED_COSTS = ("search ms", "filtered ms", "add ms"), (PUBLISHED[5], *PUBLISHED[7:9])
TERMINAL = {"FORCE_COLOR": "1", "COLUMNS": "100", "TERM": "xterm-256color"}
FONT = re.compile(r"\s*@font-face \{.*?\}", re.DOTALL)
VIEWS = ROOT / "tests" / "memory_actors" / "server" / "dashboard" / "test_demo.py"


def draw_all(folder: Path) -> Iterator[Path]:
    """Draw each picture anew and yield its file."""
    check_matplotlib()
    yield from charts(folder)
    yield recorded_demo(folder)
    yield from views(folder)


def charts(folder: Path) -> list[Path]:
    """Draw the table of systems, its costs and times, and the table of growth."""
    systems, growth = DOCS / "comparison.md", DOCS / "internals" / "limits.md"
    rows = _rows(systems, "| system | turn recall@10 |")
    for row in rows:
        row[7:8] = row[7].split(",")  # disk, RSS
    figures = [[row[0].strip(" *"), *map(_figure, row[1:10])] for row in rows]
    report = _report(systems, Table("Systems", PUBLISHED, figures))
    title = "LoCoMo, 997 questions, the same MiniLM for all, no LLM"
    grown = [[_figure(cell) for cell in row] for row in _rows(growth, "| memories of one user |")]
    sizes = [int(size or 0) for size, *_ in grown]
    by_size = Table("One user, by memories; KB a memory", ["memories", *FIGURES], grown)
    return [
        *recall_bars(report, folder, "recall_by_system", PUBLISHED[1:4], title),
        *cost_dots(report, folder, "cost_against_recall", PUBLISHED[1], PUBLISHED_COSTS, title),
        *recall_bars(report, folder, "latency_by_system", LATENCIES, "10,000 memories", "ms"),
        *size_lines(_report(growth, by_size), folder, "growth_by_memories", panels(by_size, sizes)),
    ]


def _report(page: Path, table: Table) -> Report:
    return Report("Published", {"packages": page.name}, [table])


def _rows(page: Path, heading: str) -> list[list[str]]:
    """Return the cells of the table whose first line begins with `heading`."""
    lines = iter(page.read_text("utf-8").splitlines())
    next(line for line in lines if line.startswith(heading))
    next(lines)  # the rule
    return [line.strip("|").split("|") for line in takewhile(lambda one: one[:1] == "|", lines)]


def _figure(cell: str) -> float | None:
    """Return the number that a cell begins with."""
    found = re.match(r"[\d.,]*\d", cell.strip())
    return float(found[0].replace(",", "")) if found else None


def recorded_demo(folder: Path) -> Path:
    """Run the demo and draw its output as a terminal shows it."""
    command = [sys.executable, "-m", "memory_actors.cli", "demo"]
    said = subprocess.run(
        command, check=True, capture_output=True, text=True, env={**os.environ, **TERMINAL}
    )
    console = Console(
        record=True, width=int(TERMINAL["COLUMNS"]), file=io.StringIO(), force_terminal=True,
        highlight=False,
    )  # fmt: skip
    for shown in (Text("$ ./scripts/demo", style="bold"), Text.from_ansi(said.stdout)):
        console.print(shown)
    svg = console.export_svg(title="memory-actors demo", unique_id="picture")
    path = folder / "demo.svg"
    path.write_text(FONT.sub("", svg) + "\n")  # in the reader's own font: none is fetched
    return path


def views(folder: Path) -> list[Path]:
    """Take a picture of each view of the dashboard, over the demo's store."""
    with TemporaryDirectory() as scratch:
        subprocess.run(
            [sys.executable, "-m", "pytest", "-q", VIEWS, "-k", "view and 1100"],
            check=True, stdout=sys.stderr, cwd=ROOT,
            env={**os.environ, "MEMORY_ACTORS_PICTURES": scratch},
        )  # fmt: skip
        taken = sorted(Path(scratch, "1100-light").glob("*.png"))
        if not taken:
            raise click.ClickException("the dashboard needs Chromium: `apt-get install chromium`")
        return [Path(shutil.copy(picture, folder)) for picture in taken]
