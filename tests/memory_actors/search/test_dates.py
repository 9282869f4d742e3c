"""The times that queries name: each rule of the package's docstring, and what is no time at all."""

import string
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventlog.core.records import DAY_US
from memory_actors.search.dates import QUERY_CHARS_MAX, SPANS_MAX, Span, closeness, named_spans

NOW = datetime(2026, 7, 17, 15, tzinfo=UTC)  # a Friday
YEARS = (2025, 2026)


def microseconds(day: date) -> int:
    return (day - date(1970, 1, 1)).days * DAY_US


def span(first: date, last: date) -> Span:
    return Span(microseconds(first), microseconds(last + timedelta(days=1)))


def named(query: str, now: datetime = NOW) -> tuple[Span, ...]:
    """Positions of the spans; how closeness fades around them is another matter."""
    return tuple(Span(*found[:2]) for found in spans_of(query, now))


def spans_of(query: str, now: datetime = NOW) -> tuple[Span, ...]:
    return named_spans(query, microseconds(now.date()) + 15 * 3_600_000_000, lambda: YEARS)


def spans(text: str) -> tuple[Span, ...]:
    """Read "2023-10-13 2026-05-01..2026-05-31"."""
    ends = [part.split("..") for part in text.split()]
    return tuple(span(date.fromisoformat(end[0]), date.fromisoformat(end[-1])) for end in ends)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        # days
        ("What on 13 October 2023?", "2023-10-13"),
        ("13th of Oct., 2023", "2023-10-13"),
        ("on October the 13th, 2023", "2023-10-13"),
        ("Dec 1,2023", "2023-12-01"),
        ("2023-10-13T10:00Z", "2023-10-13"),
        ("2023/10/13", "2023-10-13"),
        ("on the first of May 2025", "2025-05-01"),
        ("the twenty-third of June 2025", "2025-06-23"),
        ("Was war am 13.10.2023?", "2023-10-13"),
        ("10/13/2023", "2023-10-13"),
        ("on 5/6/2023", "2023-05-06 2023-06-05"),
        ("on 6.5.2023", "2023-05-06"),
        ("31.02.2023", ""),
        ("version 1.2.2023.4", ""),
        ("2023年10月13日发生了什么", "2023-10-13"),
        ("2023년 10월 13일에", "2023-10-13"),
        ("Oct 13", "2025-10-13 2026-10-13"),
        ("29 February", ""),
        ("on 29 February 2024", "2024-02-29"),
        ("on may 3", "2025-05-03 2026-05-03"),
        ("the 3rd of may", "2025-05-03 2026-05-03"),
        ("August 11-15, 2023", "2023-08-11..2023-08-15"),
        ("11 to 15 August", "2025-08-11..2025-08-15 2026-08-11..2026-08-15"),
        # months
        ("in 2023-10", "2023-10-01..2023-10-31"),
        ("May 2023", "2023-05-01..2023-05-31"),
        ("in\n may", "2025-05-01..2025-05-31 2026-05-01..2026-05-31"),
        ("the weather of October", "2025-10-01..2025-10-31 2026-10-01..2026-10-31"),
        ("since may 2025", "2025-05-01..2026-07-17"),
        ("since May", "2026-05-01..2026-07-17"),
        ("since August", "2025-08-01..2026-07-17"),
        ("since next year", "2027-01-01..2027-12-31"),
        ("last May", "2026-05-01..2026-05-31"),
        ("last July", "2025-07-01..2025-07-31"),
        ("this July", "2026-07-01..2026-07-31"),
        ("this December", "2026-12-01..2026-12-31"),
        ("next May", "2027-05-01..2027-05-31"),
        ("from November to February 2024", "2023-11-01..2024-02-29"),
        ("between March and May", "2025-03-01..2025-05-31 2026-03-01..2026-05-31"),
        # parts
        ("early in May 2025", "2025-05-01..2025-05-10"),
        ("mid-May 2025", "2025-05-11..2025-05-20"),
        ("the end of may 2025", "2025-05-21..2025-05-31"),
        ("the second week of November 2025", "2025-11-08..2025-11-14"),
        ("the last week of May 2025", "2025-05-25..2025-05-31"),
        ("first half of September 2025", "2025-09-01..2025-09-15"),
        ("in the second half of 2025", "2025-07-02..2025-12-31"),
        ("late 2025", "2025-09-01..2025-12-31"),
        ("start of last month", "2026-06-01..2026-06-10"),
        ("When did he start in May 2025", "2025-05-01..2025-05-31"),
        # quarters, seasons, years
        ("Q3 2023 results", "2023-07-01..2023-09-30"),
        ("2023-Q1", "2023-01-01..2023-03-31"),
        ("third quarter of 2023", "2023-07-01..2023-09-30"),
        ("last quarter of 2023", "2023-10-01..2023-12-31"),
        ("the summer of 2023", "2023-06-01..2023-08-31"),
        ("during the summer", "2025-06-01..2025-08-31 2026-06-01..2026-08-31"),
        ("last summer", "2025-06-01..2025-08-31"),
        ("this summer", "2026-06-01..2026-08-31"),
        ("last fall", "2025-09-01..2025-11-30"),
        ("winter 2023", "2022-12-01..2023-02-28 2023-12-01..2024-02-29"),
        ("last winter", "2025-12-01..2026-02-28"),
        ("in 2025?", "2025-01-01..2025-12-31"),
        ("between 2021 and 2023", "2021-01-01..2023-12-31"),
        # ranges
        ("between August 11 and August 15 2025", "2025-08-11..2025-08-15"),
        ("from 3 May 2024 to 7 June 2024", "2024-05-03..2024-06-07"),
        ("on 3 May 2024 and 7 June 2024", "2024-05-03 2024-06-07"),
        ("from last Monday to today", "2026-07-13..2026-07-17"),
        # relative
        ("today", "2026-07-17"),
        ("what did I say last night?", "2026-07-16"),
        ("the day before yesterday", "2026-07-15"),
        ("tomorrow", "2026-07-18"),
        ("last week", "2026-07-06..2026-07-12"),
        ("this week", "2026-07-13..2026-07-19"),
        ("last weekend", "2026-07-11..2026-07-12"),
        ("next month", "2026-08-01..2026-08-31"),
        ("last year's trip", "2025-01-01..2025-12-31"),
        ("3 days ago", "2026-07-14"),
        ("two weeks ago", "2026-07-03"),
        ("a couple of weeks ago", "2026-07-03"),
        ("a year ago", "2025-07-17"),
        ("the last 3 days", "2026-07-14..2026-07-17"),
        ("over the past two weeks", "2026-07-03..2026-07-17"),
        ("in the last few weeks", "2026-06-12..2026-07-17"),
        ("in the past month", "2026-06-17..2026-07-17"),
        ("last Monday", "2026-07-13"),
        ("last Friday", "2026-07-10"),
        ("on Friday", "2026-07-17"),
        ("on Sun", "2026-07-12"),
        ("this Sunday", "2026-07-19"),
        ("next Friday", "2026-07-24"),
        ("since Monday", "2026-07-13..2026-07-17"),
        ("since two weeks ago", "2026-07-03..2026-07-17"),
        # together
        ("yesterday about the trip in June 2025", "2025-06-01..2025-06-30 2026-07-16"),
        ("What did he finish last Friday, on 23 January, 2022?", "2022-01-23"),
        ("last week, as mentioned on November 6, 2023", "2023-11-06"),
        ("last Sunday before May 3", "2025-05-03 2026-05-03"),
    ],
)
def test_a_query_names_spans(query: str, expected: str) -> None:
    assert named(query) == spans(expected)


NO_TIME = """
Who may I ask? | What may be done? | You may 2 times ask | This may be the reason | by may |
The 3 may be related | the place he is in may have changed | did they march 5 miles | last wed |
the last march he joined | What about the march? | Where he last sat | in the sun | mon ami |
second place | one day | the other day | these days | How long ago was that? | years ago |
recently | a few weeks ago | 2.5 years ago | half a year ago | a year and two months ago |
twenty-one days ago | in 2000 words | by 2000 dollars | room 2023 | $2023 | the 2023 conference |
call 555-2023-10 | in 2023.5 | May 3pm | May 3:30 | May 3,000 be enough | the friend of June |
What is the opinion of April? | in June's house | letter from Jan | hurt in the fall | April |
bathed in the spring | Monday blues | on Mondays | How many days | How many weeks passed? |
the last week of the trip | the last day | last time | Why did Maria decide? | She is 18 | 2 + 2 |
version 2.10 | 5K run | 2023-13-01 | 2023-02-30 | 31 April | the next two weeks | in 2025-2023 |
last | since | in | ago | \u0660 may | on fr\u0131day | on fr\u0130day | 13/13/2023
"""


@pytest.mark.parametrize("query", [text.strip() for text in NO_TIME.split("|")])
def test_a_query_that_names_no_time_has_no_spans(query: str) -> None:
    assert named(query) == ()


# --- any date, in each of the ways to write it

days = st.dates(date(1900, 1, 1), date(2099, 12, 31))
wrapped = st.sampled_from(["{}", "What was on {}?", "{}, said Jo", "(the {}) trip", "WHAT {}"])


def ordinal(day: int) -> str:
    last = {1: "st", 2: "nd", 3: "rd"}.get(day % 10, "th")
    return f"{day}{'th' if day in (11, 12, 13) else last}"


DAY_FORMATS = {
    "13 October 2023": lambda d: f"{d.day} {d:%B %Y}",
    "13 October, 2023": lambda d: f"{d.day} {d:%B}, {d.year}",
    "13th of October 2023": lambda d: f"{ordinal(d.day)} of {d:%B %Y}",
    "13 Oct. 2023": lambda d: f"{d.day} {d:%b}. {d.year}",
    "October 13th, 2023": lambda d: f"{d:%B} {ordinal(d.day)}, {d.year}",
    "october 13 2023": lambda d: f"{d:%B} {d.day} {d.year}".lower(),
    "Oct 13, 2023": lambda d: f"{d:%b} {d.day}, {d.year}",
    "2023-10-13": lambda d: f"{d:%Y-%m-%d}",
    "2023/10/13": lambda d: f"{d:%Y/%m/%d}",
}
MONTH_FORMATS = {
    "October 2023": lambda d: f"{d:%B %Y}",
    "oct 2023": lambda d: f"{d:%b %Y}".lower(),
    "October of 2023": lambda d: f"{d:%B} of {d.year}",
    "2023-10": lambda d: f"{d:%Y-%m}",
}


@pytest.mark.parametrize("form", DAY_FORMATS)
@given(day=days, around=wrapped)
def test_a_day_is_read_back(form: str, day: date, around: str) -> None:
    assert named(around.format(DAY_FORMATS[form](day))) == (span(day, day),)


@pytest.mark.parametrize("form", MONTH_FORMATS)
@given(day=days, around=wrapped)
def test_a_month_is_read_back(form: str, day: date, around: str) -> None:
    assert named(around.format(MONTH_FORMATS[form](day))) == (whole_month(day),)


def whole_month(day: date) -> Span:
    following = date(day.year + day.month // 12, day.month % 12 + 1, 1)
    return span(day.replace(day=1), following - timedelta(days=1))


def at(day: date) -> datetime:
    return datetime(day.year, day.month, day.day, tzinfo=UTC)


# --- any text


WORDS = """
january february march april may june july august september october november december on in of since
between and to last this next the end early week year ago a two monday weekend summer winter quarter
q3 2023 2024 3 31 31st , - . 2023-10 ' yesterday
"""


@given(
    st.lists(st.sampled_from(WORDS.split()), max_size=12).map(" ".join),
    st.sets(st.integers(0, 10_000)),
)
def test_spans_of_any_words_are_in_order_and_disjoint(query: str, years: set[int]) -> None:
    found = named_spans(query, microseconds(NOW.date()), lambda: years)
    assert len(found) <= SPANS_MAX
    assert all(one.start_us < one.end_us for one in found)
    assert all(one.end_us < after.start_us for one, after in pairwise(found))


@given(st.text(string.printable + "\u2013\u2019\u017f\u0130\u0131\u212a\u0663", max_size=60))
def test_any_text_is_read_without_an_error(query: str) -> None:
    named(query)


def test_only_the_beginning_of_a_long_query_is_read() -> None:
    padding = "x " * (QUERY_CHARS_MAX // 2)
    assert named(f"May 2023 {padding}") == spans("2023-05-01..2023-05-31")
    assert named(f"{padding} May 2023") == ()


def test_yearly_spans_are_bounded_to_the_latest() -> None:
    found = named_spans("in may " * 200, microseconds(NOW.date()), lambda: range(1900, 2026))
    assert len(found) == SPANS_MAX
    assert found[-1] == span(date(2025, 5, 1), date(2025, 5, 31))


# --- closeness


def test_closeness_falls_by_the_day_and_slower_after_than_before() -> None:
    day = microseconds(date(2023, 5, 3))
    times = np.array([day, day + DAY_US - 1, day + DAY_US, day - 1, day + 7 * DAY_US], np.int64)
    expected = np.exp([0, 0, -1 / 7, -1 / 3, -1])
    found = closeness((Span(day, day + DAY_US),), times)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, rtol=1e-6)


@pytest.mark.parametrize(
    ("query", "fades_days"),
    [
        ("yesterday", 0.5),
        ("two days ago", 0.5),
        ("last Tuesday", 0.5),
        ("three weeks ago", 3.5),
        ("last week", 3.5),
        ("a month ago", 15.22),
    ],
)
def test_closeness_fades_within_the_unit_of_a_relative_time(query: str, fades_days: float) -> None:
    (found,) = spans_of(query)
    assert (found.after_days, found.before_days) == pytest.approx((fades_days, fades_days))
    away = found.end_us - DAY_US + round(fades_days * 2) * DAY_US
    close = closeness((found,), np.array([found.start_us, away], np.int64))
    assert close[0] == 1
    assert close[1] == pytest.approx(np.exp(-round(fades_days * 2) / fades_days), rel=1e-3)


@given(
    st.lists(st.tuples(days, st.integers(0, 400)), min_size=1, max_size=5),
    st.lists(days, max_size=20),
)
def test_closeness_is_that_to_the_best_span(
    ends: list[tuple[date, int]], times: list[date]
) -> None:
    given_ = [(first, first + timedelta(days=length)) for first, length in ends]
    expected = [max(by_hand(time, *one) for one in given_) for time in times]
    found = closeness(
        [span(*one) for one in given_], np.array([microseconds(t) for t in times], np.int64)
    )
    np.testing.assert_allclose(found, np.array(expected), rtol=1e-4, atol=1e-12)


def by_hand(time: date, first: date, last: date) -> float:
    after, before = max((time - last).days, 0), max((first - time).days, 0)
    return float(np.exp(-after / 7 - before / 3))
