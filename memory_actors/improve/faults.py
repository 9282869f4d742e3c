"""Faults of a text: its sentences, its misspelt terms, and one list of places for each kind.

The critic counts them and the reviser mends them, so that both speak of the same places. English.
The replacements of phrases are safe where they stand: none needs another word around it changed.
Passive voice is only found, never edited: who did it is not in the sentence.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from rapidfuzz.distance import OSA

from memory_actors.base.errors import InvalidInputError
from memory_actors.base.validation import check_count
from memory_actors.compaction.summarizers.sentences import count_words, sentences
from memory_actors.search.indexes.words import STOP_WORDS

# --- the sentences of a text with their places, and what of it is no prose
#
# Code (fenced, indented by a tab, or between backticks), addresses and tables are left alone: no
# edit touches them, and no finding comes from them. Quotations are somebody's words: nothing in one
# is changed, no sentence is taken out of one, and none that begins or ends inside of one goes. A
# quotation mark that is never closed quotes nothing.


_NO_PROSE: Final = re.compile(
    r"^(?P<fence>```|~~~).*?(?:^(?P=fence)[^\n]*$|\Z)"  # code between fences
    r"|^(?:\t|\|)[^\n]*$"  # indented code, rows of a table
    r"|`[^`\n]+`|https?://\S+"
    r"|(?<![\w.+\-])[\w.+\-]{1,64}@[\w.\-]{1,255}",  # bounded, and one try a run: linear
    re.MULTILINE | re.DOTALL,
)
# Only single classes are possessive: before 3.11.5 Python matched possessive groups wrongly. What
# can end a quotation cannot be inside of one, so nothing is gained by going back in one either.
_QUOTATION: Final = re.compile(
    r"^ {0,3}>[^\n]*+(?:\n {0,3}>[^\n]*+)*"
    r'|(?<!\w)"(?=\S)(?:[^"\n]++|\n(?![ \t]*\n))+"(?!\w)'
    r"|(?<!\w)'(?=\w)(?:[^'\n]|'(?=\w)){1,200}'(?!\w)"  # bounded: it may be an apostrophe
    "|\u201c[^\u201c\u201d]*+\u201d|\u00ab[^\u00ab\u00bb]*+\u00bb"
    r"|\u2018(?:[^\u2018\u2019\n]++|\u2019(?=\w))*\u2019(?!\w)",
    re.MULTILINE,
)
_HEADING: Final = re.compile(
    r"^ {0,3}#{1,6}[ \t][^\n]*+|^[^\n]++(?=\n {0,3}(?:=+|-+)[ \t]*$)", re.MULTILINE
)
_WORD: Final = re.compile(r"[^\W_]+(?:['\u2019\-][^\W_]+)*")


class Sentence(NamedTuple):
    """A sentence and its place in the text."""

    start: int
    end: int
    text: str
    words: int


class Edit(NamedTuple):
    """A stretch that should read otherwise."""

    start: int
    end: int
    text: str
    """The text for its place; for a phrase that is left out, the letter that follows it."""
    said: str = ""
    """The words that are at fault there."""
    advice: str = ""


class _Stretches:
    """The places in a text where a pattern holds."""

    def __init__(self, pattern: re.Pattern[str], text: str):
        found = [one.span() for one in pattern.finditer(text)]
        self._starts = [start for start, _ in found]
        self._ends = [end for _, end in found]

    def touch(self, start: int, end: int) -> bool:
        """Tell whether something between two places is in one of them."""
        return bisect_right(self._ends, start) != bisect_left(self._starts, end)

    def hold(self, start: int, end: int) -> bool:
        """Tell whether all between two places is in one of them."""
        before = bisect_right(self._starts, start) - 1
        return before >= 0 and end <= self._ends[before]

    def part(self, place: int) -> bool:
        """Tell whether a cut at a place would go through one of them."""
        before = bisect_left(self._starts, place) - 1
        return before >= 0 and place < self._ends[before]


class Prose:
    """A text, and where its sentences are."""

    def __init__(self, text: str):
        self.text = text
        self._closed = _Stretches(_NO_PROSE, text)
        self._quoted = _Stretches(_QUOTATION, text)
        self._headings = _Stretches(_HEADING, text)
        self.sentences = [
            span for span in _spans(text) if not self._closed.hold(span.start, span.end)
        ]

    def may_change(self, start: int, end: int) -> bool:
        """Tell whether a stretch may be edited: nothing of it is no prose, or quoted."""
        return not (self._closed.touch(start, end) or self._quoted.touch(start, end))

    def may_go(self, span: Sentence) -> bool:
        """Tell whether a sentence may be left out.

        It is all prose, no heading, and neither begins nor ends inside of a quotation.
        """
        start, end = span.start, span.end
        cut = self._quoted.part(start) or self._quoted.part(end)
        return not (cut or self._closed.touch(start, end) or self._headings.touch(start, end))


def _spans(text: str) -> list[Sentence]:
    spans, place = [], 0
    for sentence in sentences(text):
        start = text.index(sentence, place)
        place = start + len(sentence)
        spans.append(Sentence(start, place, sentence, count_words(sentence)))
    return spans


def words_of(text: str) -> list[str]:
    """Return the words of a text as they stand in it."""
    return _WORD.findall(text)


def quote(text: str, characters_max: int) -> str:
    """Return the beginning of a place in a text, on one line."""
    line = " ".join(text.split())
    return line if len(line) <= characters_max else line[: characters_max - 1] + "…"


def edited(text: str, edits: Sequence[Edit]) -> str:
    """Return a text with edits made. Where two overlap, the first one is made."""
    parts, place = [], 0
    for edit in sorted(edits):
        if edit.start >= place:
            parts += [text[place : edit.start], edit.text]
            place = edit.end
    return "".join([*parts, text[place:]])


def without(text: str, span: Sentence) -> Edit:
    """Return an edit that takes a sentence away, and the space that parted it from others.

    That is the space behind it; at the end of a line the space in front of it.
    """
    end = span.end
    while end < len(text) and text[end] in " \t":
        end += 1
    start = span.start
    if end == len(text) or text[end] in "\r\n":
        while start and text[start - 1] in " \t":
            start -= 1
        whole_line = start == 0 or text[start - 1] == "\n"
        if whole_line and end < len(text):
            end += len(text[end : end + 2]) if text.startswith("\r\n", end) else 1
    return Edit(start, end, "")


# --- known terms, and the words that misspell them: the only use of rapidfuzz
#
# A word is taken for a misspelt term when it begins with the same letter and is one edit away (a
# letter more, less, another, or two in the wrong order), two where the term has eight letters or
# more; or when only its capitals differ and the term has some inside (`postgresql`). What is too
# short to tell, another known term, an inflection or a short form of one (`postgres`), or named as
# right is left alone. That is a guess: a rare word may look like a term. Name such words in
# `right`.


TERMS_MAX: Final = 1_000
LETTERS_MIN: Final = 4
LONG_LETTERS: Final = 8
_ENDINGS: Final = ("", "s", "es", "'s", "\u2019s", "ed", "ing")


class Terms:
    """Terms, and words that look like one but are right.

    :raises InvalidInputError: more than 1,000 terms, or no collection of texts.
    """

    def __init__(self, terms: Iterable[str], right: Iterable[str] = ()):
        given = _texts(terms, "terms")
        if len(given) > TERMS_MAX:
            raise InvalidInputError(f"there are {len(given):,} terms (max: {TERMS_MAX:,})")
        words = {word for term in given for word in words_of(term)}
        long = sorted(word for word in words if len(word) >= LETTERS_MIN)
        self._by_letter: dict[str, list[str]] = {}
        for word in long:
            self._by_letter.setdefault(word[0].casefold(), []).append(word)
        self._exact = {word.casefold(): word for word in long}
        self._right = {one.casefold() for one in _texts(right, "right")} | STOP_WORDS

    def meant(self, word: str) -> str | None:
        """Return the term that a word misspells; None if it misspells none."""
        folded = word.casefold()
        if len(word) < LETTERS_MIN or folded in self._right or self._inflects(folded):
            return self._recased(word)
        near = [
            (distance, term)
            for term in self._by_letter.get(folded[0], ())
            if (distance := _distance(folded, term.casefold())) is not None
        ]
        return min(near)[1] if near else None

    def _inflects(self, folded: str) -> bool:
        return any(
            folded.removesuffix(ending) in self._exact
            for ending in _ENDINGS
            if folded.endswith(ending)
        )

    def _recased(self, word: str) -> str | None:
        """Return a term that is the same but for its capitals, if it has some inside."""
        term = self._exact.get(word.casefold())
        inside = term is not None and term[1:] != term[1:].lower()
        return term if inside and term != word and word.casefold() not in self._right else None


class Knowing:
    """The settings that the local critic and the local reviser share.

    :raises InvalidInputError: `words_max` is not above 0, or too many terms.
    """

    def __init__(
        self,
        terms: Iterable[str] = (),
        *,
        right: Iterable[str] = (),
        words_max: int | None = None,
    ):
        self._terms = Terms(terms, right)
        self._words_max = words_max
        if words_max is not None:
            check_count(words_max, "words_max", 1)


def _texts(given: object, what: str) -> list[str]:
    """Return the texts of a collection; one text alone would be one of letters."""
    texts = None if isinstance(given, str) or not isinstance(given, Iterable) else list(given)
    if texts is None or any(not isinstance(one, str) for one in texts):
        raise InvalidInputError(f"{what} must be a collection of texts, not {given!r:.80}")
    return texts


def _distance(word: str, term: str) -> int | None:
    """Return how many edits lie between two words; None if too many for their length."""
    edits_max = 2 if len(term) >= LONG_LETTERS else 1
    distance = OSA.distance(word, term, score_cutoff=edits_max)
    short_form = distance > 1 and term.startswith(word)
    return distance if 0 < distance <= edits_max and not short_form else None


# --- faults

REPEAT_WORDS_MIN: Final = 3
"""A shorter sentence may well stand twice: "Yes." """
SENTENCE_WORDS_MAX: Final = 30
"""Of a sentence that is easily read: guides to plain English say 20 to 30."""

SHORTER: Final[Mapping[str, str]] = {
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
    }  # fmt: skip

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
