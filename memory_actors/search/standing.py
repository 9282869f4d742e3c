"""Facts that hold no more rank behind those that took their place.

A superseded memory is often the better match: "I live in Hamburg" answers "where do I live?" word
by word, and "I moved to Vienna for the new job" does not. So where one is found, the newer one that
says otherwise takes its score, if its own is lower, and goes before it; also one that was not among
the best, for it answers the same. Nothing changes where the newer one may not be found (a filter, a
time), nor where a query asks of the time before it: names a time that it came after, or says so
("used to", "previous", "before").
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from heapq import heapify, heappop, heappush
from typing import Any, Final

from eventlog.core.records import to_datetime
from memory_actors.kinds import kind, long_term
from memory_actors.kinds.long_term import LongTerm, Row
from memory_actors.search.dates import named_spans
from memory_actors.search.query import Query

_OF_BEFORE: Final = re.compile(
    r"\b(?:used to|previous(?:ly)?|former(?:ly)?|before|earlier|originally|in the past|back then"
    r"|no longer|history)\b",
    re.IGNORECASE,
)


def superseded_by(row: Any, state: LongTerm, as_of_us: int | None) -> str | None:
    """Return the newest memory that says otherwise than a row of any kind."""
    if not getattr(row, "superseded", ()):
        return None
    newer = long_term.newer_ones(row, state.held.rows, as_of_us)
    return newer[0].memory_id if newer else None


def newest_first(ordered: Sequence[Any], state: LongTerm, query: Query) -> list[Any]:
    """Return scored memories, best first, each superseded one behind what took its place."""
    superseded = [one for one in ordered if getattr(one.found.row, "superseded", ())]
    if not superseded or _OF_BEFORE.search(query.text):
        return list(ordered)
    counted = _counted(query, state, [one.found.row for one in superseded])
    found = {one.found.row.memory_id: one for one in ordered}
    _take_scores(found, superseded, counted)
    behind = _places_behind(found, counted)
    return sorted(
        found.values(), key=lambda one: (-one.score, behind.get(one.found.row.memory_id, 0))
    )


Newer = Callable[[Row], list[Row]]
"""Returns the memories that a row ranks behind."""


def _counted(query: Query, state: LongTerm, rows: Iterable[Row]) -> Newer:
    """Return what finds newer memories that were true by the end of the times a query names."""
    years = {to_datetime(row.occurred_at_us).year for row in rows}
    spans = named_spans(query.text, query.asked_us, years)

    def newer(row: Row) -> list[Row]:
        if not getattr(row, "superseded", ()):
            return []
        ones = long_term.newer_ones(row, state.held.rows, query.as_of_us)
        return [one for one in ones if not spans or one.occurred_at_us < spans[-1].end_us]

    return newer


def _take_scores(found: dict[str, Any], superseded: Iterable[Any], newer: Newer) -> None:
    """Raise newer memories to the scores of those they replaced, from the oldest on."""
    waiting = [(long_term.age(one.found.row), one.found.row.memory_id) for one in superseded]
    heapify(waiting)
    while waiting:
        older = found[heappop(waiting)[1]]
        for row in filter(older.part.passes, newer(older.found.row)):
            known = found.get(row.memory_id)
            if known is not None and known.score >= older.score:
                continue
            if known is None:
                label = kind.label(row.version)
                known = older._replace(found=older.found._replace(row=row), label=label)
            found[row.memory_id] = known._replace(score=older.score, raw=older.raw)
            if row.superseded:
                heappush(waiting, (long_term.age(row), row.memory_id))


def _places_behind(found: Mapping[str, Any], newer: Newer) -> dict[str, int]:
    """Return how many that took each other's place go before each memory."""
    behind: dict[str, int] = {}
    rows = [one.found.row for one in found.values() if one.found.kind is long_term]
    for row in sorted(rows, key=long_term.age, reverse=True):
        before = [behind[one.memory_id] for one in newer(row) if one.memory_id in behind]
        behind[row.memory_id] = 1 + max(before) if before else 0
    return behind
