"""Results as a notebook shows them: HTML with bars, and data frames of pandas.

Memory contents are escaped: a notebook would otherwise run what somebody has said.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Final

from memory_actors.base.errors import MissingExtraError

if TYPE_CHECKING:
    import pandas as pd

    from memory_actors.base.records import Hit
    from memory_actors.base.reports import Diff
    from memory_actors.base.statistics import Usage

TEXT_MAX: Final = 300
CHANGES_MAX: Final = 100
BAR_PX: Final = 120
FULL: Final = 80.0
"""Percent of a limit from which a bar warns, as alerts do."""
_PLAIN, _WARNING, _AGAINST = "#4c6ef5", "#c92a2a", "#b45309"


def frame(rows: Iterable[Mapping[str, object]]) -> "pd.DataFrame":
    """Return rows as a data frame.

    :raises MissingExtraError: pandas is not installed.
    """
    try:
        import pandas as pd
    except ImportError as error:
        raise MissingExtraError("to_pandas needs pandas: `pip install pandas`") from error
    return pd.DataFrame(list(rows))


def hits_html(hits: Sequence["Hit"]) -> str:
    """Return hits, the best first, with a bar for the score and for each signal."""
    most = max((abs(v) for hit in hits for v in (hit.signals or {}).values()), default=1.0) or 1.0
    rows = [
        (
            str(at),
            _bar(f"{hit.score:.2f}", hit.score),
            _said(hit.content),
            escape(hit.memory_type),
            escape(f"{hit.occurred_at:%Y-%m-%d}"),
            "".join(
                _bar(f"{name} {value:.2f}", abs(value) / most, _AGAINST if value < 0 else _PLAIN)
                for name, value in (hit.signals or {}).items()
                if value
            ),
        )
        for at, hit in enumerate(hits, start=1)
    ]
    return _table(("", "score", "memory", "kind", "when", "signals"), rows)


def usage_html(usage: "Usage") -> str:
    """Return how full each limit of a user is."""
    rows = [
        (
            escape(f"{name}.{use.quota}"),
            f"{use.used:,}",
            f"{use.limit:,}",
            _bar(
                f"{use.percent:.1f} %",
                use.percent / 100,
                _WARNING if use.percent >= FULL and not use.evicts else _PLAIN,
            ),
        )
        for name, kind in usage.kinds.items()
        for use in kind.quotas
    ]
    title = f"<p>User {escape(usage.user_id)}, tier {escape(usage.tier)}</p>"
    return title + _table(("limit of", "used", "limit", ""), rows)


def diff_html(diff: "Diff") -> str:
    """Return the changes between two moments: before struck out, after beside it."""
    rows = [
        (
            escape(change.change),
            escape(change.memory_type),
            "" if change.before is None else f"<del>{_said(change.before.content)}</del>",
            "" if change.after is None else _said(change.after.content),
            escape(change.steps[-1].says if change.steps else ""),
        )
        for change in diff.changes[:CHANGES_MAX]
    ]
    between = f"{diff.a.at:%Y-%m-%d %H:%M} to {diff.b.at:%Y-%m-%d %H:%M}"
    more = len(diff.changes) - CHANGES_MAX
    rest = f"<p>… and {more:,} more</p>" if more > 0 else ""
    title = f"<p>User {escape(diff.user_id)}, {between}: {len(diff.changes):,} changes</p>"
    return title + _table(("", "kind", "before", "after", "why"), rows) + rest


def diff_rows(diff: "Diff") -> Iterator[dict[str, object]]:
    """Yield a row for each change."""
    for change in diff.changes:
        yield {
            "memory_id": change.memory_id,
            "memory_type": change.memory_type,
            "change": change.change,
            "before": None if change.before is None else change.before.content,
            "after": None if change.after is None else change.after.content,
            "at": change.steps[-1].at if change.steps else diff.b.at,
        }


def usage_rows(usage: "Usage") -> Iterator[dict[str, object]]:
    """Yield a row for each limit."""
    for name, kind in usage.kinds.items():
        for use in kind.quotas:
            yield {"kind": name, **use.to_dict(), "percent": use.percent}


def _table(names: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    head = "".join(f"<th>{name}</th>" for name in names)
    body = "".join(
        "<tr>" + "".join(f'<td style="text-align:left">{cell}</td>' for cell in row) + "</tr>"
        for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _said(text: str) -> str:
    shown = text if len(text) <= TEXT_MAX else f"{text[:TEXT_MAX]}…"
    return f'<span dir="auto" style="unicode-bidi:isolate">{escape(shown)}</span>'


def _bar(label: str, part: float, colour: str = _PLAIN) -> str:
    width = round(BAR_PX * min(max(part, 0.0), 1.0))
    return (
        '<div style="display:flex;align-items:center;gap:.5em;white-space:nowrap">'
        f'<div style="background:{colour};height:.7em;width:{width}px"></div>{escape(label)}</div>'
    )
