"""Phrases that say in many words what one says, and sentences in the passive voice. English.

The replacements are safe where they stand: none needs another word around it changed. Passive voice
is only found, never edited: who did it is not in the sentence.
"""

import re
from collections.abc import Container, Iterator
from types import MappingProxyType
from typing import Final

from memory_actors.improve.local.prose import Better

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


def _pattern() -> re.Pattern[str]:
    longest_first = sorted(SHORTER, key=len, reverse=True)
    phrases = "|".join(re.escape(one).replace(r"\ ", r"[ \t]+") for one in longest_first)
    return re.compile(rf"\b(?P<phrase>{phrases})(?![\w-])(?P<next>[ \t]+\S)?", re.IGNORECASE)


_WORDY: Final = _pattern()


def wordy(text: str) -> Iterator[Better]:
    """Yield the phrases that can be shortened, in order, and what to say instead."""
    for found in _WORDY.finditer(text):
        said = found["phrase"]
        shorter = SHORTER[" ".join(said.split()).casefold()]
        end, put = found.end("phrase"), shorter
        if not shorter:  # what follows takes its place, and its capital
            end, put = found.end(), (found["next"] or "").lstrip()
        if said[:1].isupper():
            put = put[:1].upper() + put[1:]
        yield Better(found.start(), end, said, put, f"write {put!r}" if shorter else "leave it out")


def doubled(text: str, starts: Container[int]) -> Iterator[Better]:
    """Yield small words that stand twice in a row, in order.

    They are written alike (`vitamin A a day` has no word twice), but for the first one's capital
    where a sentence starts.
    """
    for found in _DOUBLED.finditer(text):
        first, *others = found[0].split()
        capital = found.start() in starts and first.istitle()
        if all(one == (first.lower() if capital else first) and one.islower() for one in others):
            yield Better(found.start(), found.end(), found[0], found["word"], "stands twice")


def is_passive(sentence: str) -> bool:
    """Tell whether a sentence is in the passive voice, by its form."""
    return _PASSIVE.search(sentence) is not None
