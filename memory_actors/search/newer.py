"""The newer of two texts about the same thing.

If a query asks about the present, a newer text about the same thing goes before an older one, even
if the older one has more words of the query: "I'm back on coffee" before "I stopped drinking
coffee". The more alike both are, the more the newer one may gain, in the unit of scores. If two
differ in one thing only ("is a citizen of Spain", "is a citizen of Denmark"), the newer one gains
whatever the query asks. Replies, questions and summaries gain nothing. Turns between people gain
only if they are nearly the same, or if the query names the present.
"""

from typing import Final, cast

import numpy as np

from memory_actors.kinds.phrasing import REPLYING
from memory_actors.search.candidates import EmbeddedQuery, FirstStage, Flags, Numbers, Rows
from memory_actors.search.indexes.parts import ASKING
from memory_actors.search.query import is_about_now, is_about_past

NEWEST_OF: Final = 16  # of the best passages
ALIKE_MIN: Final = 0.3  # likeness of two that are about the same thing
SAME_MIN: Final = 0.7
ALIKE_GAIN: Final = 4.0
SAME_GAIN: Final = 2.0
BRIEF_WORDS: Final = (10, 20)
"""The words of a text, stop words left out: up to so many it says one thing; from so many on,
several."""
LATER_US: Final = 1_000_000  # what was said in one breath does not replace its own parts
_LIFT: Final = 1e-3


def gains_of_newer(
    first: FirstStage, rows: Rows, order: Rows, scores: Numbers, question: EmbeddedQuery
) -> Numbers:
    """Return the gains of newer passages: as much as puts them before those that they replace."""
    columns, mixture, query = first.columns, first.mixture, question.query
    gained = np.zeros(len(scores), np.float32)
    best = order[:NEWEST_OF]
    may = ~columns.summaries[rows[best]] & (columns.asks[rows[best]] < ASKING)
    if first.reply is not None:
        may &= ~cast("Flags", first.parts.traits.are_of(REPLYING, columns.speakers[rows[best]]))
    best = best[may]
    if len(best) < 2 or mixture.foreign == 1 or mixture.statement:
        return gained
    times = columns.occurred_us[rows[best]]
    by_age = best[np.argsort(times, kind="stable")]
    times = columns.occurred_us[rows[by_age]]
    if times[-1] - times[0] < LATER_US:
        return gained
    vectors = first.parts.dense.vectors(rows[by_age])
    usual = float(question.centre @ question.centre)  # the cosine of two texts about nothing alike
    alike = (vectors @ vectors.T - usual) / max(1 - usual, 1e-6)
    present = 1.0 if is_about_now(query.text) else 1 - mixture.people
    if is_about_past(query.text):
        present = 0.0
    gains = SAME_GAIN * np.clip((alike - SAME_MIN) / (1 - SAME_MIN), 0, 1)
    one_thing, several = BRIEF_WORDS
    words = first.parts.words.lengths(first.parts.size)[rows[by_age]]
    brief = np.clip((several - words) / (several - one_thing), 0, 1)
    likeness = np.clip((alike - ALIKE_MIN) / (1 - ALIKE_MIN), 0, 1)
    gains += present * ALIKE_GAIN * likeness * np.minimum.outer(brief, brief)
    gains *= 1 - mixture.foreign
    own = scores[by_age]
    raised = own.copy()
    for older in range(len(by_age)):
        newer = times >= times[older] + LATER_US
        newer &= (raised < raised[older]) & (raised[older] - own < gains[older])
        raised[newer] = raised[older] + _LIFT
    gained[by_age] = raised - own
    return gained
