"""A critic and a reviser that need no model: misspelt terms, repetition, wordiness.

Both read English. The reviser mends one kind a round, by edits that need no understanding.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

import anyio.to_thread

from memory_actors.base.errors import InvalidInputError
from memory_actors.compaction.summarizers.sentences import count_words, sentences
from memory_actors.improve.records import QUOTE_CHARACTERS, Critique, CritiqueFinding
from memory_actors.search.indexes.words import STOP_WORDS

WEIGHTS: Final[Mapping[str, float]] = {
    "known term": 0.35, "repetition": 0.35, "wordiness": 0.2, "long sentence": 0.1,
}  # fmt: skip
"""The kinds of fault, in the order in which they are mended. The weights add up to 1."""
SHOWN_MAX: Final = 20  # findings of one kind
SENTENCE_WORDS_MAX: Final = 30  # guides to plain English say 20 to 30
REPEAT_WORDS_MIN: Final = 3  # "Yes." may well stand twice
TERMS_MAX: Final = 1_000
LETTERS_MIN: Final = 4  # of a term that can be told when it is misspelt
LONG_LETTERS: Final = 8  # of one that is still told with two edits

# Every pattern takes linear time: what can end a stretch is not in it, or its length is bounded.
_KEPT: Final = re.compile(
    r"^(?P<fence>```|~~~).*?(?:^(?P=fence)[^\n]*$|\Z)"  # code between fences
    r"|^(?:\t|\||\ {0,3}>|\ {0,3}\#{1,6}[ \t])[^\n]*$"  # code, table, quotation, heading
    r"|^[^\n]++(?=\n\ {0,3}(?:=+|-+)[ \t]*$)"  # a heading that is underlined
    r"|`[^`\n]+`|https?://\S+|(?<![\w.+\-])[\w.+\-]{1,64}@[\w.\-]{1,255}"
    r'|(?<!\w)"(?=\S)(?:[^"\n]++|\n(?![ \t]*\n))+"(?!\w)'
    r"|(?<!\w)'(?=\w)(?:[^'\n]|'(?=\w)){1,200}'(?!\w)"  # bounded: it may be an apostrophe
    "|\u201c[^\u201c\u201d]*+\u201d|\u00ab[^\u00ab\u00bb]*+\u00bb"
    r"|\u2018(?:[^\u2018\u2019\n]++|\u2019(?=\w))*\u2019(?!\w)",
    re.MULTILINE | re.DOTALL,
)
_TOKEN: Final = re.compile(r"[^\W\d_]+(?:\d+|[^\W\d_])*")
_BARE: Final = re.compile(r"[\W_]+")
_SHORTER: Final[Mapping[str, str]] = {
    "at this point in time": "now", "each and every": "every", "despite the fact that": "although",
    "due to the fact that": "because", "for the purpose of": "for", "has the ability to": "can",
    "have the ability to": "can", "in order to": "to", "in the event that": "if",
    "is able to": "can", "are able to": "can", "on a regular basis": "regularly",
    "prior to": "before", "subsequent to": "after", "until such time as": "until",
    "with regard to": "about", "with the exception of": "except",
}  # fmt: skip
_PHRASES: Final = "|".join(one.replace(" ", r"[ \t]+") for one in _SHORTER)
_WORDY: Final = re.compile(
    rf"(?<![\w'\u2019-])(?:(?P<phrase>{_PHRASES})"
    r"|(?P<word>the|and|or|they|we)(?:[ \t]+(?P=word))+)(?![\w'\u2019-])",
    re.IGNORECASE,
)


class _TextEdit(NamedTuple):
    start: int
    end: int
    text: str
    message: str
    quote: str


class _Span(NamedTuple):
    start: int
    end: int
    text: str
    words: int


class _Local:
    def __init__(self, terms: Iterable[str] = (), *, right: Iterable[str] = ()):
        given = _texts(terms, "terms")
        if len(given) > TERMS_MAX:
            raise InvalidInputError(f"there are {len(given):,} terms (max: {TERMS_MAX:,})")
        words = {word for term in given for word in _TOKEN.findall(term)}
        self._terms = {one.casefold(): one for one in sorted(words) if len(one) >= LETTERS_MIN}
        self._right = {one.casefold() for one in _texts(right, "right")} | STOP_WORDS

    def faults(self, text: str) -> Iterator[tuple[str, float, list[_TextEdit]]]:
        """Yield each kind of fault, its rate (1 counts fully), and edits that mend it."""
        kept = [found.span() for found in _KEPT.finditer(text)]
        starts, ends = [start for start, _ in kept], [end for _, end in kept]

        def is_free(start: int, end: int) -> bool:
            return bisect_right(ends, start) == bisect_left(starts, end)

        every = list(_spans(text))
        free = [span for span in every if is_free(span.start, span.end)]
        words, half = max(1, sum(span.words for span in every)), max(1, len(every)) / 2
        misspelt = [one for one in self._misspelt(text) if is_free(one.start, one.end)]
        yield "known term", len(misspelt) / half, misspelt
        repeated = list(_repeated(free))
        said = [_without(text, span) for span in repeated]
        yield "repetition", 2 * sum(span.words for span in repeated) / words, said
        wordy = [one for one in _wordy(text) if is_free(one.start, one.end)]
        yield "wordiness", len(wordy) / half, wordy
        long = [span for span in free if span.words > SENTENCE_WORDS_MAX]
        message = f"has more than {SENTENCE_WORDS_MAX} words"
        unmended = [_TextEdit(*span[:3], message, span.text) for span in long]
        yield "long sentence", len(long) / (2 * half), unmended

    def _misspelt(self, text: str) -> Iterator[_TextEdit]:
        if self._terms:
            meant = {word: self._meant(word) for word in set(_TOKEN.findall(text))}
            for found in _TOKEN.finditer(text):
                if (term := meant[found[0]]) is not None:
                    yield _TextEdit(*found.span(), term, f"write {term!r}", found[0])

    def _meant(self, word: str) -> str | None:
        """Return the term that a word misspells: one edit away, or two from a long one."""
        folded = word.casefold()
        if len(word) < LETTERS_MIN or folded in self._right:
            return None
        if (term := self._terms.get(folded)) is not None:  # right but for capitals inside, perhaps
            return term if term != word and term[1:] != term[1:].lower() else None
        if any(folded.removesuffix(ending) in self._terms for ending in ("s", "es", "ed", "ing")):
            return None
        near = []
        for known, term in self._terms.items():
            edits_max = 2 if len(known) >= LONG_LETTERS else 1
            # An edit changes at most one letter of each word, so most pairs end here.
            if known[0] == folded[0] and len({*known} ^ {*folded}) <= 2 * edits_max:
                distance = _edits(folded, known)
                if distance <= edits_max and not (distance > 1 and known.startswith(folded)):
                    near.append((distance, term))
        return min(near)[1] if near else None


class LocalCritic(_Local):
    """Judges a text by what `WEIGHTS` names.

    `terms` are names that should be spelt as given, `right` words that look like one but are none.
    Works in a thread.

    :raises InvalidInputError: there are too many terms.
    """

    async def __call__(self, text: str, /) -> Critique:
        """Return a critique of a text."""
        return await anyio.to_thread.run_sync(self.judge, text, abandon_on_cancel=True)

    def judge(self, text: str) -> Critique:
        """Judge a text synchronously, in the calling thread."""
        rates, findings = dict[str, float](), list[CritiqueFinding]()
        for kind, rate, edits in self.faults(text):
            rates[kind] = min(1.0, rate)
            for edit in edits[:SHOWN_MAX]:
                line = " ".join(edit.quote.split())
                if len(line) > QUOTE_CHARACTERS:
                    line = line[: QUOTE_CHARACTERS - 1] + "…"
                findings.append(CritiqueFinding(kind=kind, message=edit.message, quote=line))
        score = 1.0 - sum(WEIGHTS[kind] * rate for kind, rate in rates.items())
        said = [f"{kind} {rate:.0%}" for kind, rate in rates.items() if rate]
        return Critique(score=round(score, 6), text=", ".join(said), findings=tuple(findings))


class LocalReviser(_Local):
    """Mends what a critique names, without a model. Takes what `LocalCritic` takes."""

    async def __call__(self, text: str, critique: Critique, /) -> str:
        """Return the text, revised."""
        return await anyio.to_thread.run_sync(self.revise, text, critique, abandon_on_cancel=True)

    def revise(self, text: str, critique: Critique) -> str:
        """Return the text, revised, at once."""
        named = {finding.kind for finding in critique.findings}
        for kind, _, edits in self.faults(text):
            parts, place = [], 0
            for edit in sorted(edits) if kind in named else ():
                if edit.start >= place:  # of two that overlap, the first one
                    parts += [text[place : edit.start], edit.text]
                    place = edit.end
            revised = "".join([*parts, text[place:]])
            if revised.strip() and revised != text:
                return revised
        return text


def _edits(word: str, known: str) -> int:
    """Return how many letters to insert, delete, replace or swap with the next one."""
    before, row = [0], list(range(len(known) + 1))
    for at, letter in enumerate(word):
        earlier, before, row = before, row, [at + 1]
        for place, other in enumerate(known):
            edits = min(before[place + 1] + 1, row[-1] + 1, before[place] + (letter != other))
            if at and place and word[at - 1 : at + 1] == other + known[place - 1]:
                edits = min(edits, earlier[place - 1] + 1)
            row.append(edits)
    return row[-1]


def _texts(given: object, what: str) -> list[str]:
    texts = None if isinstance(given, str) or not isinstance(given, Iterable) else list(given)
    if texts is None or any(not isinstance(one, str) for one in texts):
        raise InvalidInputError(f"{what} must be a collection of texts, not {given!r:.80}")
    return texts


def _spans(text: str) -> Iterator[_Span]:
    end = 0
    for sentence in sentences(text):
        start = text.index(sentence, end)
        end = start + len(sentence)
        yield _Span(start, end, sentence, count_words(sentence))


def _repeated(spans: Iterable[_Span]) -> Iterator[_Span]:
    seen = set[str]()
    for span in spans:
        bare = _BARE.sub(" ", span.text).strip().casefold()
        if span.words >= REPEAT_WORDS_MIN:
            if bare in seen:
                yield span
            seen.add(bare)


def _wordy(text: str) -> Iterator[_TextEdit]:
    for found in _WORDY.finditer(text):
        put = found["word"] or _SHORTER[" ".join(found[0].split()).casefold()]
        put = put[:1].upper() + put[1:] if found[0][0].isupper() else put
        yield _TextEdit(*found.span(), put, f"write {put!r}", found[0])


def _without(text: str, span: _Span) -> _TextEdit:
    """Return an edit that takes a sentence away with the space behind it, or its whole line."""
    start, end = span.start, span.end
    while end < len(text) and text[end] in " \t":
        end += 1
    if end == len(text) or text[end] in "\r\n":
        while start and text[start - 1] in " \t":
            start -= 1
        if start == 0 or text[start - 1] == "\n":
            end += 2 if text.startswith("\r\n", end) else end < len(text)
    return _TextEdit(start, end, "", "is a repetition", span.text)
