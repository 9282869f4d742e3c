"""Plots of reports, as PNG and SVG. The only file here that needs matplotlib."""

from collections.abc import Mapping, Sequence
from itertools import cycle
from pathlib import Path
from typing import Any, NamedTuple

import click

from bench.calibration import Bin
from bench.report import Report, Table

INCHES_WIDE = 8.0
BAR_HEIGHT = 0.26
INCHES_A_BAR_GROUP, INCHES_AROUND_BARS = 0.62, 1.6
INCHES_A_PANEL, INCHES_A_PANEL_OF_DOTS = 3.6, 3.8
BAR_COLOURS = ("#1b6ca8", "#7fb3d5", "#c9d6df")
DOTS_PER_INCH = 150


class Panel(NamedTuple):
    """One set of axes with lines."""

    title: str
    ylabel: str
    xs: Sequence[float]
    lines: Mapping[str, Sequence[float]]
    """A line by its name: a y for each x."""
    xlabel: str = "memories of one user"
    logarithmic: bool = False
    """Whether the ys are shown so, too: where they grow over decades."""


def check_matplotlib() -> None:
    """Raise ClickException if nothing can be drawn."""
    try:
        import matplotlib as mpl  # noqa: F401 - only whether it is there
    except ImportError as error:
        raise click.ClickException(
            "--plot needs matplotlib: pip install matplotlib, or 'memory-actors[peers]'"
        ) from error


def recall_bars(
    report: Report,
    folder: Path,
    name: str,
    measures: Sequence[str],
    title: str,
    unit: str | None = None,
) -> list[Path]:
    """Draw measures of a report's first table, the row with the best first one on top.

    `measures` are up to three columns of the table; its first column names the rows. With a `unit`,
    less is better and the axis is logarithmic. Returns the files.
    """
    rows = _rows(report.tables[0], measures)
    height = INCHES_AROUND_BARS + INCHES_A_BAR_GROUP * len(rows)
    figure, (axes,) = canvas(name, 1, height)
    _draw_bars(axes, rows, measures)
    axes.set_yticks(range(len(rows)), [label for label, _ in rows])
    if unit is None:
        axes.set_xlim(0, 1.08)
        axes.set_xlabel("fraction of the evidence found")
    else:
        axes.invert_yaxis()
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter("{x:g}")
        axes.set_xlabel(f"{unit} (less is better)")
    axes.set_title(title, fontsize=10)
    figure.legend(loc="outside lower center", ncols=len(measures), frameon=False, fontsize=8)
    return save_figure(figure, report, folder, name)


def size_lines(report: Report, folder: Path, name: str, panels: Sequence[Panel]) -> list[Path]:
    """Draw lines over a number of memories, on a logarithmic axis; return the files."""
    figure, axes = canvas(name, len(panels), INCHES_A_PANEL * len(panels))
    for panel, one in zip(panels, axes, strict=True):
        _draw_lines(one, panel)
    return save_figure(figure, report, folder, name)


def cost_dots(
    report: Report, folder: Path, name: str, measure: str, costs: Sequence[str], title: str
) -> list[Path]:
    """Draw a measure of the first table over what it costs, a panel a cost; return the files.

    A cost is a column of the last table that has it, with the same names in its first column; a row
    without one is left out of its panel.
    """
    figure, axes = canvas(name, len(costs), INCHES_A_PANEL_OF_DOTS * len(costs))
    from matplotlib.ticker import LogFormatter  # behind the choice of what draws

    reached = _by_name(report, measure)
    for one, cost in zip(axes, costs, strict=True):
        for number, (label, spent) in enumerate(_by_name(report, cost).items()):
            if spent is not None:
                one.plot(spent, reached[label], "o", markersize=5)
                one.annotate(
                    label, (spent, reached[label]), xytext=(6, -9 if number % 2 else 3),
                    textcoords="offset points", fontsize=8,
                )  # fmt: skip
        one.set_xscale("log")
        one.xaxis.set_major_formatter(LogFormatter())
        one.xaxis.set_minor_formatter(LogFormatter(minor_thresholds=(1, 0.4)))
        one.set(xlabel=f"{cost} (less is better)", ylabel=measure, ylim=(0, 1))
        one.margins(x=0.25)
        one.grid(linewidth=0.4, alpha=0.5)
    axes[0].set_title(title, fontsize=10)
    return save_figure(figure, report, folder, name)


def _by_name(report: Report, column: str) -> dict[str, Any]:
    table = next(table for table in reversed(report.tables) if column in table.columns)
    place = list(table.columns).index(column)
    return {str(row[0]): row[place] for row in table.rows}


def reliability(
    report: Report, folder: Path, name: str, sets: Mapping[str, Sequence[Bin]]
) -> list[Path]:
    """Draw the share that answers over the score, a line a set, all in black; return the files."""
    figure, (axes,) = canvas(name, 1, INCHES_WIDE * 0.75)
    axes.plot([0, 1], [0, 1], color="#c9d6df", linewidth=1, label="what a score promises")
    for (label, found), marker in zip(sets.items(), cycle("osv^Dx"), strict=False):
        style = {"color": "black", "linewidth": 2} if label == "all" else {"linewidth": 0.8}
        xs, ys = [one.score for one in found], [one.answers for one in found]
        axes.plot(xs, ys, marker=marker, markersize=4, label=label, **style)
    axes.set(xlim=(0, 1), ylim=(0, 1), xlabel="score shown", ylabel="share that answers")
    axes.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5))
    return save_figure(figure, report, folder, name)


def _rows(table: Table, measures: Sequence[str]) -> list[tuple[str, list[float]]]:
    places = [list(table.columns).index(measure) for measure in measures]
    rows = [(str(row[0]), [row[place] or 0.0 for place in places]) for row in table.rows]
    return sorted(rows, key=lambda row: row[1][0])


def _draw_bars(axes: Any, rows: Sequence[tuple[str, list[float]]], measures: Sequence[str]) -> None:
    for number, (measure, colour) in enumerate(zip(measures, BAR_COLOURS, strict=False)):
        places = [row - (number - 1) * BAR_HEIGHT for row in range(len(rows))]
        values = [values[number] for _, values in rows]
        bars = axes.barh(places, values, BAR_HEIGHT, label=measure, color=colour)
        axes.bar_label(bars, [f"{one:.3g}" if one else "" for one in values], fontsize=7, padding=2)


def _draw_lines(axes: Any, panel: Panel) -> None:
    for (label, ys), marker in zip(panel.lines.items(), cycle("osv^Dx"), strict=False):
        axes.plot(panel.xs, ys, marker=marker, markersize=4, linewidth=1.4, label=label)
    axes.set_xscale("log")
    axes.set_xticks(panel.xs, [f"{x:,}" for x in panel.xs])
    axes.minorticks_off()
    if panel.logarithmic:
        axes.set_yscale("log")
    else:
        axes.set_ylim(bottom=0)
    axes.yaxis.set_major_formatter("{x:,g}")
    axes.set_xlabel(panel.xlabel)
    axes.set_ylabel(panel.ylabel)
    axes.set_title(panel.title, fontsize=10)
    axes.grid(axis="y", linewidth=0.4, alpha=0.5)
    axes.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5))


def canvas(name: str, panels: int, height: float) -> tuple[Any, list[Any]]:
    """Return a figure of `height` inches and its panels, one below the other."""
    import matplotlib as mpl

    mpl.use("agg")
    mpl.rcParams["svg.hashsalt"] = name  # the same report gives the same file
    mpl.rcParams["svg.fonttype"] = "none"  # text, not outlines: a quarter of the size
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(
        panels, figsize=(INCHES_WIDE, height), layout="constrained", squeeze=False
    )
    for one in axes.flat:
        one.spines[["top", "right"]].set_visible(False)
    return figure, list(axes.flat)


def save_figure(figure: Any, report: Report, folder: Path, name: str) -> list[Path]:
    """Write both files, with what made them at their foot."""
    from matplotlib import pyplot as plt

    figure.supxlabel(_made_by(report), fontsize=6, color="#777777", x=0.995, ha="right")
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{name}.{kind}" for kind in ("png", "svg")]
    for path in paths:
        metadata = {"Date": None} if path.suffix == ".svg" else None
        figure.savefig(path, dpi=DOTS_PER_INCH, metadata=metadata)
    plt.close(figure)
    return paths


def _made_by(report: Report) -> str:
    version = str(report.facts.get("packages", "memory-actors")).partition(",")[0]
    return f"{version}, seed {report.facts.get('seed', '-')}"
