"""Days as numbers, and which of them a word before a date picks: "since", "last", "end of"."""

import re
from collections.abc import Callable, Iterable, Sequence
from datetime import date
from typing import Final, NamedTuple, TypeAlias

from memory_actors.search import patterns

Days: TypeAlias = tuple[int, int]
"""Half-open, numbered from 1970-01-01."""


class When(NamedTuple):
    """The moment from which times are seen."""

    today: int
    years: Sequence[int]
    """The years the user has memories of."""


Match: TypeAlias = re.Match[str]
Reader: TypeAlias = Callable[[Match, str, When], list[Days]]
"""(match, the text before it, when) -> its days; none if it is no time after all."""

NTH: Final = {"first": 0, "second": 1, "third": 2, "fourth": 3, "last": -1}
PART: Final = re.compile(
    r"\b(?:(?:(?P<third>(?:early|late)(?: in)?|mid|(?:beginning|start|middle|end) of)"
    r"|(?P<half>first|second|last) half(?: of)?)"
    r"|(?P<week>first|second|third|fourth|last) week (?:of|in))(?: the)?[ -]$",
    re.ASCII | re.IGNORECASE,
)
_THIRDS: Final = {
    **dict.fromkeys(("early", "beginning", "start"), 0),
    **dict.fromkeys(("mid", "middle"), 1),
    **dict.fromkeys(("late", "end"), 2),
}
_SINCE: Final = re.compile(r"\b(since) (?:[a-z]+ ){0,4}$", re.ASCII | re.IGNORECASE)
_PICKED: Final = re.compile(r"\b(last|this|next) $", re.ASCII | re.IGNORECASE)
_EPOCH: Final = date(1970, 1, 1).toordinal()


def pattern(text: str) -> re.Pattern[str]:
    """Return a pattern of English words, in capitals or not."""
    return patterns.pattern(text, re.ASCII | re.IGNORECASE)


def day_number(year: int, month: int, day: int) -> int:
    """Return a day's number. :raises ValueError: there is no such day."""
    return date(year, month, day).toordinal() - _EPOCH


def date_of(day: int) -> date:
    """Return the date of a day's number."""
    return date.fromordinal(day + _EPOCH)


def months(year: int, month: int, count: int) -> Days:
    """Return months in a row; a month under 1 or over 12 is one of another year."""
    at = year * 12 + month - 1
    return _first_of(at), _first_of(at + count)


def _first_of(month: int) -> int:
    return day_number(month // 12, month % 12 + 1, 1)


def in_years(make: Callable[[int], Days], year: str | None, before: str, when: When) -> list[Days]:
    """Return a period in the year that is named, in the one the words before it pick, or in all."""
    if year:
        return _existing(make, [int(year)])
    word = picked(before) or ("since" if _SINCE.search(before) else None)
    if word is None:
        return _existing(make, when.years)
    now = date_of(when.today).year
    # Candidates are last year's, this year's and the next: the last one that is over, the next to
    # begin.
    days = _existing(make, [now - 1, now, now + 1])
    if word == "last":
        return [one for one in days if one[1] <= when.today][-1:]
    if word == "since":
        return [one for one in days if one[0] <= when.today][-1:]
    if word == "next":
        return [one for one in days if one[0] > when.today][:1]
    this = [one for one in days if one[0] <= when.today < one[1]]
    return this or [one for one in days if date_of(one[0]).year == date_of(when.today).year]


def picked(before: str) -> str | None:
    """Return the "last", "this" or "next" before a date."""
    found = _PICKED.search(before)
    return found[1].lower() if found else None


def _existing(make: Callable[[int], Days], years: Iterable[int]) -> list[Days]:
    days = []
    for year in years:
        try:
            days.append(make(year))
        except ValueError:  # 29 February, 31 June
            continue
    return days


def adjusted(days: Days, before: str, when: When) -> Days:
    """Take the part of a period, or all since then, that the words before it ask for."""
    first, end = _part(days, before)
    if first <= when.today and _SINCE.search(before):
        return first, max(end, when.today + 1)
    return first, end


def _part(days: Days, before: str) -> Days:
    first, end = days
    named = PART.search(before)
    if named is None or end - first <= 7:  # a day and a week have no parts here
        return days
    if named["week"]:
        week = NTH[named["week"].lower()]
        return (end - 7, end) if week < 0 else (first + 7 * week, min(first + 7 * week + 7, end))
    if named["half"]:
        return _share(days, abs(NTH[named["half"].lower()]), 2)
    return _share(days, _THIRDS[named["third"].lower().split()[0]], 3)


def _share(days: Days, at: int, of: int) -> Days:
    first, end = days
    return first + (end - first) * at // of, first + (end - first) * (at + 1) // of
