"""Expressions of time: as seen from the reference (yesterday, on Monday), or named as they are."""

import re
from contextlib import suppress
from typing import Final

from memory_actors.search.dates.days import (
    NTH,
    PART,
    Days,
    Match,
    Reader,
    When,
    date_of,
    day_number,
    in_years,
    months,
    pattern,
    picked,
)

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

    "Yesterday" means one day, "three weeks ago" means a day among some seven.
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


RELATIVE: Final[tuple[tuple[re.Pattern[str], Reader], ...]] = (
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


# --- days, months, quarters, seasons and years that are named by themselves

_MONTH_NAMES: Final = "jan feb mar apr may jun jul aug sep oct nov dec"
_MONTHS: Final = _MONTH_NAMES.split()
_VERBS: Final = ("may", "march")
_FIRST_NAMES: Final = ("jan", "april", "may", "june", "august")
_SEASONS: Final = {"spring": 3, "summer": 6, "autumn": 9, "fall": 9, "winter": 12}

_FIRST: Final = "first second third fourth fifth sixth seventh eighth ninth"
_NEXT: Final = (
    "tenth eleventh twelfth thirteenth fourteenth fifteenth sixteenth seventeenth eighteenth"
    " nineteenth twentieth"
)
_ONES: Final = _FIRST.split()
_ORDINALS: Final = {
    name: number
    for number, name in enumerate(
        [*_ONES, *_NEXT.split(), *(f"twenty-{one}" for one in _ONES), "thirtieth", "thirty-first"],
        1,
    )
}

YEAR: Final = r"(?:19|20)\d\d(?!\d)"
MONTH: Final = (
    r"(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may(?! (?:be|have|not|also|well)\b)|june?"
    r"|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)\b"
)
_TH: Final = r"(?:st|nd|rd|th)?"
_DASH: Final = r"[-\u2013\u2014]"
_TO: Final = rf"(?:{_DASH}|to|until|till|through|and|or)"


_NO_VERB: Final = pattern(
    r"\b(?:in|during|since|until|on|of) (?:the )?(?:\d+(?:st|nd|rd|th)? )?(?:of )?(?:may|march)\b"
)
_MONTH_LEAD: Final = pattern(r"\b(?:in|during|since|by|until|till|throughout|last|this|next) $")
_RANGE_LEAD: Final = pattern(r"\b(?:from|between) $")
_SEASON_LEAD: Final = pattern(
    r"\b(?:(?:last|this|next|since) |(?:in|during|over|throughout) (?:the )?)$"
)
_YEAR_LEAD: Final = pattern(
    r"\b(?:in|during|of|since|by|from|between|until|till|before|after|throughout|year) $"
)


_SPELT: Final = pattern(rf"\b(?:{'|'.join(sorted(_ORDINALS, reverse=True))})(?= of {MONTH})")


def in_digits(text: str) -> str:
    """Return a text with the days of months that it spells out, "the first of May", as numbers."""
    return _SPELT.sub(lambda match: str(_ORDINALS[match[0].lower()]), text)


# --- days


def _read_day(match: Match, before: str, when: When) -> list[Days]:
    name, year, last = match["month"], match["year"], match["last"] or match["day"]
    if not year and _may_be_verb(name, before + match[0]):
        return []

    def make(year: int) -> Days:
        month = _month(name)
        return day_number(year, month, int(match["day"])), day_number(year, month, int(last)) + 1

    return [days for days in in_years(make, year, before, when) if days[0] < days[1]]


def _read_iso_day(match: Match, before: str, when: When) -> list[Days]:
    def make(year: int) -> Days:
        day = day_number(year, int(match["month"]), int(match["day"]))
        return day, day + 1

    return in_years(make, match["year"], before, when)


def _read_digits(match: Match, _before: str, _when: When) -> list[Days]:
    """Read day and month in whichever orders make a date; with dots the day comes first."""
    orders = [(match["a"], match["b"])]
    if match["mark"] != ".":
        orders.append((match["b"], match["a"]))
    days = set()
    for day, month in orders:
        with suppress(ValueError):
            days.add(day_number(int(match["year"]), int(month), int(day)))
    return [(day, day + 1) for day in sorted(days)]


# --- months and quarters


def _read_months(match: Match, before: str, when: When) -> list[Days]:
    name, year = match["month"], match["year"]
    if not year and not _is_month(match, before):
        return []
    first = _month(name)
    count = (_month(match["to"] or name) - first) % 12 + 1
    back = bool(year) and first + count > 13  # November to February 2024 begins in 2023
    return in_years(lambda year: months(year - back, first, count), year, before, when)


def _month(name: str) -> int:
    return _MONTHS.index(name[:3].lower()) + 1


def _may_be_verb(name: str, text: str) -> bool:
    return name in _VERBS and _NO_VERB.search(text) is None


def _is_month(match: Match, before: str) -> bool:
    name = match["month"].lower()
    if _may_be_verb(match["month"], before + name):
        return False
    if match["whose"] and name in _FIRST_NAMES:
        return False
    if PART.search(before) or _MONTH_LEAD.search(before):
        return True
    if match["to"]:
        return _RANGE_LEAD.search(before) is not None
    return name not in _FIRST_NAMES and before.lower().endswith("of ")


def _read_iso_month(match: Match, _before: str, _when: When) -> list[Days]:
    return [months(int(match["year"]), int(match["month"]), 1)]


def _read_quarter(match: Match, _before: str, _when: When) -> list[Days]:
    return [months(int(match["year"]), 3 * int(match["number"]) - 2, 3)]


def _read_nth_quarter(match: Match, _before: str, _when: When) -> list[Days]:
    return [months(int(match["year"]), NTH[match["nth"].lower()] % 4 * 3 + 1, 3)]


# --- seasons and years


def _read_season(match: Match, before: str, when: When) -> list[Days]:
    season, year = match["season"].lower(), match["year"]
    # Without a year "hurt in the fall" and "bathed in the spring" are none.
    plain = season in ("fall", "spring") and before.lower().endswith("the ")
    lead = PART.search(before) or _SEASON_LEAD.search(before)
    if not year and (plain or not lead):
        return []
    days = in_years(lambda year: months(year, _SEASONS[season], 3), year, before, when)
    if season == "winter" and not picked(before):  # a year has the ends of two
        days += in_years(lambda year: months(year - 1, 12, 3), year, before, when)
    return days


def _read_years(match: Match, before: str, _when: When) -> list[Days]:
    first, last = int(match["year"]), int(match["to"] or match["year"])
    if last < first or not (PART.search(before) or _YEAR_LEAD.search(before)):
        return []
    return [months(first, 1, 12 * (last + 1 - first))]


ABSOLUTE: Final[tuple[tuple[re.Pattern[str], Reader], ...]] = (
    (  # 2023-10-13
        pattern(
            rf"(?<![\d/-])(?P<year>{YEAR})(?P<mark>[-/])(?P<month>\d\d?)(?P=mark)(?P<day>\d\d?)"
            r"(?![\d/-])"
        ),
        _read_iso_day,
    ),
    (  # 13.10.2023, 10/13/2023
        pattern(
            rf"(?<![\w./-])(?P<a>\d\d?)(?P<mark>[./-])(?P<b>\d\d?)(?P=mark)(?P<year>{YEAR})"
            r"(?![\w/-]|\.\d)"
        ),
        _read_digits,
    ),
    (  # 2023年10月13日, and in Korean
        pattern(
            rf"(?<!\d)(?P<year>{YEAR}) ?[年년] ?(?P<month>\d\d?) ?[月월]"
            r" ?(?P<day>\d\d?) ?[日일号]"
        ),
        _read_iso_day,
    ),
    (  # 2023-10
        pattern(rf"(?<![\d/-])(?P<year>{YEAR})-(?P<month>0[1-9]|1[0-2])(?![\d/-])"),
        _read_iso_month,
    ),
    (  # 13 October 2023, 11-15 August
        pattern(
            rf"(?<![\w.,:/$€£#-])(?P<day>\d\d?){_TH}(?: ?(?:{_DASH}|to|and) ?(?P<last>\d\d?){_TH})?"
            rf"(?: of)? (?P<month>{MONTH})\.?(?:(?:,? |,)(?P<year>{YEAR}))?"
        ),
        _read_day,
    ),
    (  # October 13th, 2023; not May 3pm, May 3:30, May 3,000, May 3-year-olds
        pattern(
            rf"\b(?P<month>{MONTH})\.? (?:the )?(?P<day>\d\d?){_TH}"
            rf"(?: ?(?:{_DASH}|to) ?(?P<last>\d\d?){_TH})?"
            rf"(?:(?:,? |,)(?:of )?(?P<year>{YEAR}))?(?!\d|[:.,]\d|-?[a-z])"
        ),
        _read_day,
    ),
    (  # May 2023, May to July
        pattern(
            rf"\b(?P<month>{MONTH})(?P<whose>['\u2019]s)?\.?(?: ?{_TO} ?(?P<to>{MONTH})\.?)?"
            rf"(?:,? (?:of )?(?P<year>{YEAR}))?"
        ),
        _read_months,
    ),
    (pattern(rf"\bQ(?P<number>[1-4])(?:,? (?:of )?|[-/])(?P<year>{YEAR})"), _read_quarter),
    (pattern(rf"\b(?P<year>{YEAR})[ /-]?Q(?P<number>[1-4])\b"), _read_quarter),
    (
        pattern(rf"\b(?P<nth>first|second|third|fourth|last) quarter(?: of|,)? (?P<year>{YEAR})"),
        _read_nth_quarter,
    ),
    (
        pattern(
            rf"\b(?P<season>spring|summer|autumn|fall|winter)\b(?:(?: of|,)? (?P<year>{YEAR}))?"
        ),
        _read_season,
    ),
    (  # in 2023; not 2023%, 2000.5, 2000-word, and not so many of something
        pattern(
            rf"(?<![\w.,$€£#])(?P<year>{YEAR})(?: ?{_TO} ?(?P<to>{YEAR}))?"
            r"(?!%|[.,:]\d|[/-]\w| (?:words|dollars|euros|pounds|people|steps|calories|miles|feet"
            r"|km|meters|metres|times|points|hours|minutes|characters|tokens|lines|pages|square)\b)"
        ),
        _read_years,
    ),
)
