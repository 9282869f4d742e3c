"""Faults of a text: one list of places for each kind.

The critic counts them and the reviser mends them, so that both speak of the same places. English.
The replacements of phrases are safe where they stand: none needs another word around it changed.
Passive voice is only found, never edited: who did it is not in the sentence.
"""

import re
from collections.abc import Container, Iterator
from types import MappingProxyType
from typing import Final

from memory_actors.improve.local.prose import Edit, Prose, Sentence
from memory_actors.improve.local.terms import Terms

REPEAT_WORDS_MIN: Final = 3
"""A shorter sentence may well stand twice: "Yes." """
SENTENCE_WORDS_MAX: Final = 30
"""Of a sentence that is easily read: guides to plain English say 20 to 30."""

SHORTER: Final = MappingProxyType(
    {
        "absolutely essential": "essential",
        "as a consequence of": "because of", "as of yet": "yet",
        "at the present time": "now", "at this point in time": "now", "by means of": "by",
        "completely eliminate": "eliminate", "despite the fact that": "although",
        "due to the fact that": "because", "during the course of": "during",
        "each and every": "every", "first and foremost": "first",
        "for the purpose of": "for", "for the reason that": "because",
        "has the ability to": "can", "have the ability to": "can",
        "in a timely manner": "promptly", "in addition to": "besides",
        "in close proximity to": "near", "in light of the fact that": "because",
        "in order to": "to", "in spite of the fact that": "although", "in the event that": "if",
        "in the near future": "soon",
        "is able to": "can", "are able to": "can",
        "it is important to note that": "", "it should be noted that": "",
        "needless to say,": "", "on a daily basis": "daily", "on a regular basis": "regularly",
        "past history": "history", "prior to": "before", "subsequent to": "after",
        "until such time as": "until",
        "with regard to": "about", "with respect to": "about", "with the exception of": "except",
    }
)  # fmt: skip

_PARTICIPLES: Final = (
    "begun bought broken brought built caught chosen done drawn driven eaten fallen felt found "
    "given held hidden hit kept known led left lost made meant met paid put read run said seen "
    "sent set shown shut sold spent split spoken stolen struck taken taught thought thrown told "
    "understood won worn written"
)
_PASSIVE: Final = re.compile(
    r"\b(?:am|is|are|was|were|be|been|being)\s+(?:\w+ly\s+|not\s+|also\s+|then\s+)?"
    rf"(?:(?!(?:need|indeed|hundred|sacred|red|bed)\b)\w+ed|{_PARTICIPLES.replace(' ', '|')})\b",
    re.IGNORECASE,
)
_ONCE: Final = "a|an|and|he|if|or|she|the|they|we"
"""Words that never rightly stand twice. Others may: `what it is is good`, `if you need it it is
there`, `the one I was in in May`."""
_DOUBLED: Final = re.compile(
    rf"(?<![\w'\u2019-])(?P<word>{_ONCE})(?:[ \t]+(?P=word))+(?![\w'\u2019-])", re.IGNORECASE
)

_PHRASES: Final = "|".join(
    re.escape(phrase).replace(r"\ ", r"[ \t]+")
    for phrase in sorted(SHORTER, key=len, reverse=True)  # the longest that holds is the one
)
_WORDY: Final = re.compile(rf"\b(?P<phrase>{_PHRASES})(?![\w-])(?P<next>[ \t]+\S)?", re.IGNORECASE)

_TOKEN: Final = re.compile(r"[^\W\d_]+(?:\d+|[^\W\d_])*")
_BARE: Final = re.compile(r"[\W_]+")


def misspelt(prose: Prose, terms: Terms) -> list[Edit]:
    """Return the words that misspell a known term."""
    return [
        Edit(found.start(), found.end(), meant, found[0], f"write {meant!r}")
        for found in _TOKEN.finditer(prose.text)
        if prose.may_change(found.start(), found.end())
        and (meant := terms.meant(found[0])) is not None
    ]


def repeated(prose: Prose) -> list[Sentence]:
    """Return the sentences that stand, but for marks and capitals, further ahead already.

    A heading is none: it may say what the text below it begins with.
    """
    seen: set[str] = set()
    spans = []
    for span in prose.sentences:
        bare = _BARE.sub(" ", span.text).strip().casefold()
        if span.words < REPEAT_WORDS_MIN or not prose.may_go(span):
            continue
        if bare in seen:
            spans.append(span)
        seen.add(bare)
    return spans


def wordy(prose: Prose) -> list[Edit]:
    """Return the phrases that can be shorter, and the small words that stand twice."""
    starts = {span.start for span in prose.sentences}
    found = [*_shorter(prose.text), *_doubled(prose.text, starts)]
    return [one for one in found if prose.may_change(one.start, one.end)]


def _shorter(text: str) -> Iterator[Edit]:
    """Yield the phrases that can be shortened, in order, and what to say instead."""
    for found in _WORDY.finditer(text):
        said = found["phrase"]
        shorter = SHORTER[" ".join(said.split()).casefold()]
        end, put = found.end("phrase"), shorter
        if not shorter:  # what follows takes its place, and its capital
            end, put = found.end(), (found["next"] or "").lstrip()
        if said[:1].isupper():
            put = put[:1].upper() + put[1:]
        yield Edit(found.start(), end, put, said, f"write {put!r}" if shorter else "leave it out")


def _doubled(text: str, starts: Container[int]) -> Iterator[Edit]:
    """Yield small words that stand twice in a row, in order.

    They are written alike (`vitamin A a day` has no word twice), but for the first one's capital
    where a sentence starts.
    """
    for found in _DOUBLED.finditer(text):
        first, *others = found[0].split()
        capital = found.start() in starts and first.istitle()
        if all(one == (first.lower() if capital else first) and one.islower() for one in others):
            yield Edit(found.start(), found.end(), found["word"], found[0], "stands twice")


def long_sentences(prose: Prose) -> list[Sentence]:
    """Return the sentences of more than 30 words."""
    return [span for span in prose.sentences if span.words > SENTENCE_WORDS_MAX]


def passive(prose: Prose) -> list[Sentence]:
    """Return the sentences in the passive voice."""
    return [span for span in prose.sentences if _PASSIVE.search(span.text)]
