"""The plot of `bench peers`: recall by system, as PNG and SVG. Needs matplotlib."""

from pathlib import Path
from typing import Any

import click

from bench.report import Report

NAME = "recall_by_system"
BAR_HEIGHT = 0.26
INCHES_WIDE, INCHES_A_SYSTEM, INCHES_AROUND = 8.0, 0.62, 1.6
COLOURS = ("#1b6ca8", "#7fb3d5", "#c9d6df")


def plot(report: Report, folder: Path, measures: tuple[str, ...]) -> list[Path]:
    """Draw the first table of a report, best system on top; return the files."""
    rows = _rows(report, measures)
    figure = _figure(rows, measures, report.facts["questions"])
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{NAME}.{kind}" for kind in ("png", "svg")]
    for path in paths:
        figure.savefig(path, dpi=150, metadata={"Date": None} if path.suffix == ".svg" else None)
    return paths


def check_matplotlib() -> None:
    """Raise ClickException if nothing can be drawn."""
    try:
        import matplotlib as mpl  # noqa: F401 - only whether it is there
    except ImportError as error:
        raise click.ClickException(
            "--plot needs matplotlib: pip install 'memory-actors[peers]'"
        ) from error


def _rows(report: Report, measures: tuple[str, ...]) -> list[tuple[str, list[float]]]:
    table = report.tables[0]
    places = [list(table.columns).index(measure) for measure in measures]
    rows = [(str(row[0]), [row[place] for place in places]) for row in table.rows]
    return sorted(rows, key=lambda row: row[1][0])


def _figure(rows: list[tuple[str, list[float]]], measures: tuple[str, ...], questions: int) -> Any:
    figure, axes = _canvas(len(rows))
    for number, (measure, colour) in enumerate(zip(measures, COLOURS, strict=True)):
        places = [row - (number - 1) * BAR_HEIGHT for row in range(len(rows))]
        values = [values[number] for _, values in rows]
        bars = axes.barh(places, values, BAR_HEIGHT, label=measure, color=colour)
        axes.bar_label(bars, fmt="%.3f", fontsize=7, padding=2)
    axes.set_yticks(range(len(rows)), [name for name, _ in rows])
    axes.set_xlim(0, 1.08)
    axes.set_xlabel("fraction of the evidence found")
    axes.set_title(f"LoCoMo, {questions} questions, the same MiniLM for all, no LLM", fontsize=10)
    figure.legend(loc="outside lower center", ncols=3, frameon=False, fontsize=8)
    return figure


def _canvas(systems: int) -> tuple[Any, Any]:
    import matplotlib as mpl

    mpl.use("agg")
    mpl.rcParams["svg.hashsalt"] = NAME  # the same report gives the same file
    from matplotlib import pyplot as plt

    height = INCHES_AROUND + INCHES_A_SYSTEM * systems
    figure, axes = plt.subplots(figsize=(INCHES_WIDE, height), layout="constrained")
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes
