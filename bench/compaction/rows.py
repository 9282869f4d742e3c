"""The rows of the tables, and their drawing."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.compaction.checks import Check
from bench.compaction.store import Stopwatch
from bench.plots import canvas, save_figure
from bench.report import Report, disk_bytes, percentile

FILES = ("log", "archive", "derived", "indexes", "other")
STORED = ["what", "before MB", "after MB", "after / before", "saved"]
RETRIEVES = ["store", "p50 ms", "p99 ms", "p50: times as fast"]
BUSY = ["call", "idle p50 ms", "idle p99", "busy p50", "busy p99", "p99: busy / idle", "calls"]
STEPS = ["step", "seconds", "share", "calls"]
CHECKS = ["what", "so", "found"]


def weighed(store: Path) -> dict[str, int]:
    """Return the disk usage of each part of a closed store."""
    found = dict.fromkeys(FILES, 0)
    for path in store.iterdir():
        part = path.name.partition(".")[0]
        found[part if part in FILES else "other"] += disk_bytes(path)
    return found


def stored_rows(before: Mapping[str, int], after: Mapping[str, int]) -> list[list[Any]]:
    """Return a row for each part, and one for all; bytes by part are given."""
    together = [("together", sum(before.values()), sum(after.values()))]
    parts = [(name, before[name], after[name]) for name in FILES]
    return [
        [name, old / 2**20, new / 2**20, new / old if old else None, 1 - new / old if old else None]
        for name, old, new in [*parts, *together]
    ]


def retrieve_rows(
    before: Mapping[str, Sequence[float]], after: Mapping[str, Sequence[float]]
) -> list[list[Any]]:
    """Return a row for before, and one for each kind of search after."""
    base = percentile(before[""], 50)
    rows = [("before", before[""]), *((f"after{name}", times) for name, times in after.items())]
    return [
        [name, percentile(times, 50), percentile(times, 99), base / percentile(times, 50)]
        for name, times in rows
    ]


def busy_rows(
    idle: Mapping[str, Sequence[float]], busy: Mapping[str, Sequence[float]]
) -> list[list[Any]]:
    """Return a row for each call, by whose name the times are given."""
    rows = []
    for name, times in idle.items():
        quiet, loud = percentile(times, 99), percentile(busy[name], 99)
        p50s = percentile(times, 50), percentile(busy[name], 50)
        rows.append([name, p50s[0], quiet, p50s[1], loud, loud / quiet, len(busy[name])])
    return rows


def check_rows(checks: Sequence[Check]) -> list[list[Any]]:
    """Return a row for each check."""
    return [[name, "yes" if ok else "NO", found] for name, ok, found in checks]


def step_rows(watch: Stopwatch, took_s: float) -> list[list[Any]]:
    """Return a row for each step that was timed, for the rest, and for the job."""
    rest_s = took_s - sum(watch.took_s.values())
    steps = [(name, took, watch.calls[name]) for name, took in watch.took_s.items()]
    whole = [("read, replace, the rest", rest_s, None), ("together", took_s, None)]
    return [[name, took, took / took_s, calls] for name, took, calls in [*steps, *whole]]


# --- drawing


def draw(report: Report, folder: Path) -> list[Path]:
    """Draw bytes and times, before and after."""
    stored, retrieved, busy = report.tables[:3]
    figure, (left, right) = canvas("compaction", 2, 6.0)
    _draw_stored(left, stored.rows[:-1])
    left.set_xlabel(f"MB on the disk, {report.facts['memories']:,} memories")
    _draw_times(right, [*retrieved.rows, *busy.rows])
    return save_figure(figure, report, folder, "compaction")


def _draw_stored(axes: Any, rows: Sequence[Sequence[Any]]) -> None:
    for number, (name, *sizes) in enumerate(row[:3] for row in rows):
        starts = [sum(row[place] for row in rows[:number]) for place in (1, 2)]
        axes.barh(("before", "after"), sizes, left=starts, color=f"C{number}", label=name)
    axes.invert_yaxis()
    axes.legend(frameon=False, fontsize=8, ncols=len(rows))


def _draw_times(axes: Any, rows: Sequence[Sequence[Any]]) -> None:
    bars: list[tuple[str, float, float]] = []
    for name, *figures in rows:
        if name.startswith(("before", "after")):
            bars.append((f"retrieve, {name}", *figures[:2]))
        else:
            bars += [(f"{name}, idle", *figures[:2]), (f"{name}, busy", *figures[2:4])]
    for number, label in ((1, "p50"), (2, "p99")):
        places = [place + 0.4 * number - 0.6 for place in range(len(bars))]
        axes.barh(places, [bar[number] for bar in bars], 0.4, label=label)
    axes.set_yticks(range(len(bars)), [bar[0] for bar in bars])
    axes.invert_yaxis()
    axes.set_xlabel("ms, embedding of queries left out")
    axes.legend(frameon=False, fontsize=8)
