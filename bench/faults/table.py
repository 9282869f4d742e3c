"""The matrix as a table, in Markdown, so that it can go into the documentation as it is."""

from collections.abc import Sequence
from datetime import UTC, datetime

from bench.faults.row import Counts, Row


def header(counts: Counts, seed: int) -> str:
    """Return the head of a table that is printed row by row."""
    today = datetime.now(UTC)
    return (
        f"{today:%Y-%m-%d}, counts: {counts}, seed: {seed}\n\n"
        "| row | fault | tried | survived | lost | seconds | |\n|---|---|--:|--:|--:|--:|---|"
    )


def line(row: Row) -> str:
    """Return a row of the table."""
    verdict = "skipped" if row.skipped else "ok" if row.ok else "**failed**"
    return (
        f"| `{row.name}` | {row.fault} | {row.tried:,} | {row.survived:,} | {row.lost:,} "
        f"| {row.seconds:,.0f} | {verdict} |"
    )


def more(rows: Sequence[Row]) -> str:
    """Return the other counts, and the reasons of failures."""
    return "\n".join(["", *(part for row in rows for part in _more(row))])


def _more(row: Row) -> list[str]:
    counted = ", ".join(f"{what} {_figure(count)}" for what, count in row.detail.items())
    said = [f"- `{row.name}`: {row.skipped or counted}"]
    return said + [f"  - {failure}" for failure in row.failures]


def _figure(count: int | float | str) -> str:
    return count if isinstance(count, str) else f"{count:,}"
