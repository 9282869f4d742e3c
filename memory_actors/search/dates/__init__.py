"""Which spans of time a query names, and how close memories are to them. UTC days.

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

from memory_actors.search.dates.spans import Span, closeness, named_spans

__all__ = ["Span", "closeness", "named_spans"]
