"""Plots come out as files, the same ones for the same report."""

import sys
from pathlib import Path

import click
import pytest

from bench.peers_run import RECALL
from bench.plots import Panel, check_matplotlib, cost_dots, recall_bars, size_lines
from bench.report import Report, Table

FACTS = {"questions": 3, "seed": 1, "packages": "memory-actors 1.2.3, numpy 9"}


def recall_report() -> Report:
    rows = [["ours", 3, 0.8, 0.9, 1.0], ["theirs", 3, 0.4, 0.6, 0.8]]
    return Report("Peers", FACTS, [Table("Recall", ["system", "questions", *RECALL], rows)])


def test_recall_is_drawn_as_png_and_svg(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    paths = recall_bars(recall_report(), tmp_path / "new", "recall", RECALL, "A title")
    assert [path.name for path in paths] == ["recall.png", "recall.svg"]
    assert all(path.stat().st_size > 1_000 for path in paths)


def test_the_same_report_gives_the_same_drawing(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    first, again = (
        recall_bars(recall_report(), tmp_path / name, "recall", RECALL, "A title")[1].read_bytes()
        for name in ("first", "again")
    )
    assert first == again
    assert b"memory-actors 1.2.3, seed 1" in first or b"<path" in first  # text may be outlines


def test_lines_are_drawn_in_a_panel_each(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    lines = {"one": [3.0, 2.0, 1.0], "two": [1.0, 1.0, 1.0]}
    panels = [Panel(title, "bytes", (10, 100, 1_000), lines) for title in ("Disk", "Memory")]
    paths = size_lines(Report("Storage", FACTS, []), tmp_path, "sizes", panels)
    assert [path.suffix for path in paths] == [".png", ".svg"]


def test_one_size_can_be_drawn(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    panels = [Panel("Disk", "bytes", (10,), {"one": [3.0]})]
    assert size_lines(Report("Storage", FACTS, []), tmp_path, "sizes", panels)


def test_a_measure_is_drawn_over_each_cost_that_a_row_has(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    recall = recall_report()
    costs = Table("Cost", ["system", "ms", "KB"], [["ours", 1.0, 2.0], ["theirs", 30.0, None]])
    report = Report("Peers", FACTS, [*recall.tables, costs])
    paths = cost_dots(report, tmp_path, "cost", RECALL[0], ("ms", "KB"), "A title")
    assert [path.name for path in paths] == ["cost.png", "cost.svg"]
    assert all(path.stat().st_size > 1_000 for path in paths)


def test_a_plot_is_refused_by_name_of_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(click.ClickException, match=r"memory-actors\[peers\]"):
        check_matplotlib()
