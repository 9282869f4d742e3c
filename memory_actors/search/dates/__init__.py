"""Spans of time that a query names, and the closeness of memories to them. UTC days.

Names of months, days and units are English. Dates in digits are read in any language.

Plain patterns, since date libraries find too much: dateparser reads "we" as Wednesday and "may" as
May. A span too many ranks memories by a time that nobody asked for, so in doubt there is none.

Absolute
- A day: 13 October 2023, 13th of Oct., October 13th, 2023, 2023-10-13, 11-15 August 2023, the first
  of May; in digits 13.10.2023, 10/13/2023 (5/6/2023 is both 5 June and May 6), 2023年10月13日.
- A period: May 2023, May to July 2023, 2023-10, Q3 2023, third quarter of 2023, summer (of) 2023;
  2023, a month or a season with a word before it that makes it a time, like "in" or "since".
- Without a year it is one span in each of the user's years. "last", "this", "next" and "since"
  pick one, as seen from the reference.
- "may" and "march" in small letters need a year, or a word before them that no verb has. Months
  that are first names (April, June) are none after a mere "of", or with "'s".
- A day that a month does not have, with a year, is that month: 31 June 2023.

Relative to the reference
- today, tonight, last night, yesterday, the day before yesterday, tomorrow
- last, this, next week, weekend, month, year: of the calendar, weeks from Monday
- 2 weeks ago, a month ago: that day, and less so those around it, within half a unit
- (in) the last 3 days, the past year: the days up to the reference
- on, last, this, next Monday: "last" is before today, "on" may be today
- Beside a full date they are dropped: "last Friday, on 23 January 2022" looks back from that date.

Around any of them
- "since" reaches to the reference. Between two of them "to", and "and" after "between", span both.
- early, mid, late (beginning, middle, end of) take a third of a period; first half and second week
  of a period take that.

Not understood: a year with no word before it ("Porto 2023"), May '23, the 13th, a bare
Monday, times of day, holidays, "a few weeks ago", "the other day", "recently", and how far from a
date ("two weeks before 11 August" is 11 August). Seasons are the northern ones.
"""

import re
from collections.abc import Callable, Collection, Iterable
from itertools import islice
from operator import attrgetter
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from eventlog.core.records import DAY_US
from memory_actors.search.dates.days import Days, Reader, When, adjusted, day_number
from memory_actors.search.dates.expressions import (
    ABSOLUTE,
    MONTH,
    RELATIVE,
    WEEKDAY,
    fading_days,
    in_digits,
)

QUERY_CHARS_MAX: Final = 2_000  # a question has 100; it bounds the time that patterns may take
SPANS_MAX: Final = 64  # one in each of 64 years; `closeness` takes a pass over the times for each
FADES_AFTER_DAYS: Final = 7.0  # things are told after they happened: see the retrieval study
FADES_BEFORE_DAYS: Final = 3.0
TODAY_MIN: Final = day_number(101, 1, 1)
TODAY_MAX: Final = day_number(9899, 1, 1)
"""So that no "last" and no "next" leads out of the calendar."""
_LOOK_BACK_CHARS: Final = 40  # "since the beginning of the" and the like
_TIMES_MAX: Final = 16  # nobody asks of more at once; each may be in every year
_HINT: Final = re.compile(
    r"(?=[\dadefjmnostwy])"  # all first letters: without it the search takes twice as long
    rf"(?:\d|\b(?:{MONTH}|{WEEKDAY}|(?:to|yester)day|tonight|tomorrow|night"
    r"|morning|afternoon|evening|spring|summer|autumn|fall|winter|weekend"
    r"|(?:day|week|fortnight|month|year)s?\b))",
    re.ASCII | re.IGNORECASE,
)
_TO: Final = ("to", "until", "till", "through", "-", "\u2013", "\u2014")


class Span(NamedTuple):
    """A half-open span of UTC days, in microseconds, and how closeness fades around it."""

    start_us: int
    end_us: int
    after_days: float = FADES_AFTER_DAYS
    before_days: float = FADES_BEFORE_DAYS


class _Found(NamedTuple):
    start: int
    end: int
    days: list[Days]
    full: bool
    """It is a day with its year."""
    fades_days: float | None
    """To both sides; a date has none, as things are told after it."""


def named_spans(
    query: str, reference_us: int, years: Callable[[], Collection[int]]
) -> tuple[Span, ...]:
    """Return the spans that a query names: in order, disjoint, the latest 64; () if it names none.

    :param reference_us: when it is asked, for "today"; brought to the years 101 to 9899.
    :param years: returns those the user has memories of; a month without a year is in each of them.
    """
    if _HINT.search(query, 0, QUERY_CHARS_MAX) is None:
        return ()
    text = in_digits(" ".join(query[:QUERY_CHARS_MAX].split()))
    reference = min(max(reference_us // DAY_US, TODAY_MIN), TODAY_MAX)
    when = When(reference, sorted(set(years()))[-SPANS_MAX:])
    rest, found = _scan(text, ABSOLUTE, when)
    if not any(one.full for one in found):
        found += _scan(rest, RELATIVE, when)[1]
    united = _united(_joined(text, sorted(found, key=attrgetter("start", "end"))))
    fades = [one.fades_days for one in found if one.fades_days is not None]
    # Mixed with a date, what is relative to now only says where the date lies.
    around = (min(fades), min(fades)) if len(fades) == len(found) and fades else ()
    return tuple(Span(first * DAY_US, end * DAY_US, *around) for first, end in united[-SPANS_MAX:])


def closeness(spans: Collection[Span], times_us: NDArray[np.int64]) -> NDArray[np.float32]:
    """Return how close times are to the nearest span: 1 within, 0 if there are no spans.

    exp(-a / 7) for `a` days after a date, exp(-b / 3) for `b` days before it: whole days, by the
    date. Around a time that is relative to now it fades within the unit that is named: see
    `fading_days`.
    """
    if not spans:
        return np.zeros(len(times_us), np.float32)
    days = np.floor_divide(times_us, DAY_US).astype(np.float32)
    away = np.full(len(days), np.inf, np.float32)
    for span in spans:
        after = (days - (span.end_us // DAY_US - 1)) / span.after_days
        before = (span.start_us // DAY_US - days) / span.before_days
        np.minimum(away, np.maximum(after, before), out=away)
    np.exp(-np.maximum(away, 0), out=away)
    return away


def _scan(
    text: str, rules: Iterable[tuple[re.Pattern[str], Reader]], when: When
) -> tuple[str, list[_Found]]:
    """Return the text with what the rules find blotted out, and that."""
    found: list[_Found] = []
    for pattern, read in rules:
        for match in islice(pattern.finditer(text), _TIMES_MAX):
            start, end = match.span()
            before = text[max(0, start - _LOOK_BACK_CHARS) : start]
            days = [adjusted(one, before, when) for one in read(match, before, when)]
            if days:
                fades = fading_days(match) if rules is RELATIVE else None
                named = match.groupdict()
                full = bool(named.get("day") and named.get("year"))
                found.append(_Found(start, end, days, full, fades))
                text = text[:start] + "#" * (end - start) + text[end:]
    return text, found


def _joined(text: str, found: list[_Found]) -> list[Days]:
    """Make one of the two ends of a range."""
    groups: list[list[Days]] = []
    for at, one in enumerate(found):
        if at and _are_ends(text, found[at - 1], one):
            # Each end with the latest start before it: the start may leave out its year.
            pairs = []
            for end in one.days:
                first = max((start[0] for start in groups[-1] if start[0] < end[1]), default=end[0])
                pairs.append((first, end[1]))
            groups[-1] = pairs
        else:
            groups.append(one.days)
    return [days for group in groups for days in group]


def _are_ends(text: str, left: _Found, right: _Found) -> bool:
    gap = text[left.end : right.start].strip(" ,").lower()
    between = text[: left.start].lower().endswith("between ")
    return gap in _TO or (gap == "and" and between)


def _united(spans: Iterable[Days]) -> list[Days]:
    united: list[Days] = []
    for first, end in sorted(spans):
        if united and first <= united[-1][1]:
            united[-1] = (united[-1][0], max(end, united[-1][1]))
        else:
            united.append((first, end))
    return united
