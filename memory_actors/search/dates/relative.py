"""Times as seen from the reference: yesterday, last week, two months ago, on Monday."""

import re
from typing import Final

from memory_actors.search.dates.days import Days, Match, Reader, When, date_of, months, pattern

_WEEKDAYS: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_NAMED_DAYS: Final = {
    "day before yesterday": -2,
    "yesterday": -1,
    "last night": -1,
    "today": 0,
    "tonight": 0,
    "this morning": 0,
    "this afternoon": 0,
    "this evening": 0,
    "day after tomorrow": 2,
    "tomorrow": 1,
}
_AHEAD: Final = {"last": -1, "this": 0, "next": 1}
_UNIT_DAYS: Final = {"day": 1, "week": 7, "fortnight": 14, "month": 30.44, "year": 365.25}
_COUNTED: Final = "one two three four five six seven eight nine ten eleven twelve"
_NUMBERS: Final = {
    "a couple of": 2,
    "couple of": 2,
    **{word: n for n, word in enumerate(_COUNTED.split(), 1)},
    "fifteen": 15,
    "twenty": 20,
    "thirty": 30,
    "an": 1,
    "a": 1,
}
_FEW: Final = {"few": 5, "several": 7}  # enough to look back; too vague to say how long ago

WEEKDAY: Final = (
    r"(?:monday|tue(?:s(?:day)?)?|wednesday|thu(?:r(?:s(?:day)?)?)?|fri(?:day)?|saturday|sunday"
    r"|(?-i:Mon|Wed|Sat|Sun))\b"  # not where he sat, not in the sun
)
_NUMBER: Final = rf"\d{{1,4}}|{'|'.join(_NUMBERS)}"
_UNIT: Final = rf"(?P<unit>{'|'.join(_UNIT_DAYS)})"
_NOT_OF: Final = r"(?!,? (?:of|before|after|prior)\b)"  # not the last week of the trip


_UNFINISHED: Final = pattern(r"\b(?:half|and|twenty|thirty|forty|fifty|hundred)[ -]$")
_WEEKDAY_LEAD: Final = pattern(r"\b(last|this|next|on|since) $")


def _read_named_day(match: Match, _before: str, when: When) -> list[Days]:
    day = when.today + _NAMED_DAYS[match[0].lower()]
    return [(day, day + 1)]


def _read_ago(match: Match, before: str, when: When) -> list[Days]:
    if _UNFINISHED.search(before):  # half a year ago, a year and two months ago
        return []
    day = when.today - round(_number(match["n"]) * _UNIT_DAYS[match["unit"].lower()])
    return [(day, day + 1)]


def _read_last_few(match: Match, _before: str, when: When) -> list[Days]:
    days = round(_number(match["n"] or "a") * _UNIT_DAYS[match["unit"].lower()])
    return [(when.today - days, when.today + 1)]


def fading_days(match: Match) -> float:
    """Return how many days from a relative time closeness is down to 1 / e: half the unit.

    Who says "yesterday" means a day, who says "three weeks ago" one of some seven.
    """
    unit = match.groupdict().get("unit")
    return _UNIT_DAYS.get(unit.lower(), 1) / 2 if unit else 0.5


def _number(text: str) -> int:
    return int(text) if text.isdigit() else {**_NUMBERS, **_FEW}[text.lower()]


def _read_unit(match: Match, _before: str, when: When) -> list[Days]:
    ahead, unit, now = _AHEAD[match["which"].lower()], match["unit"].lower(), date_of(when.today)
    if unit == "year":
        return [months(now.year + ahead, 1, 12)]
    if unit == "month":
        return [months(now.year, now.month + ahead, 1)]
    monday = when.today - now.weekday() + 7 * ahead
    return [(monday + (5 if unit == "weekend" else 0), monday + 7)]


def _read_weekday(match: Match, before: str, when: When) -> list[Days]:
    lead = _WEEKDAY_LEAD.search(before)
    if lead is None:
        return []
    day = when.today + _days_ahead(match[0], lead[1].lower(), date_of(when.today).weekday())
    return [(day, day + 1)]


def _days_ahead(name: str, lead: str, today: int) -> int:
    in_this_week = _WEEKDAYS.index(name[:3].lower()) - today
    if lead == "this":
        return in_this_week
    if lead == "next":
        return in_this_week % 7 or 7
    back = -in_this_week % 7
    return -7 if lead == "last" and back == 0 else -back


RULES: Final[tuple[tuple[re.Pattern[str], Reader], ...]] = (
    (pattern(rf"\b(?:{'|'.join(_NAMED_DAYS)})\b"), _read_named_day),
    (pattern(rf"(?<![\w.,-])(?P<n>{_NUMBER}) {_UNIT}s? ago\b"), _read_ago),
    (
        pattern(
            rf"\b(?:(?:last|past) (?P<n>{_NUMBER}|{'|'.join(_FEW)})"
            rf"|(?:in|over|during|within|throughout) the (?:last|past)|the past) {_UNIT}s?\b"
            rf"{_NOT_OF}"
        ),
        _read_last_few,
    ),
    (
        pattern(rf"\b(?P<which>last|this|next) (?P<unit>week|weekend|month|year)\b{_NOT_OF}"),
        _read_unit,
    ),
    (pattern(rf"\b{WEEKDAY}{_NOT_OF}"), _read_weekday),
)
