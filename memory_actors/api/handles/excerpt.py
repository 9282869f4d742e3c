"""The part of a long text that a query is about, as whole sentences where they fit."""

from collections.abc import Iterator

from memory_actors.base.tokens import TokenCounter
from memory_actors.compaction.summarizers.sentences import MARKER, clip, count_words, sentences
from memory_actors.search.indexes.words import words

PIECE_WORDS_MAX = 40  # a longer sentence is taken in pieces: transcripts know no full stops


def excerpt(text: str, query: str, counter: TokenCounter, tokens_max: int) -> str:
    """Return a text of at most so many tokens, cut around the sentence with most of the query.

    `…` stands where something is left out. "" if not even a word fits.
    """
    if counter.count(text) <= tokens_max:
        return text
    pieces = list(_pieces(text))
    asked = set(words(query))
    best = max(range(len(pieces)), key=lambda n: (len(asked & set(words(pieces[n]))), -n))
    first, end = best, best + 1
    if counter.count(_between(pieces, first, end)) > tokens_max:
        return _clipped(pieces[best], counter, tokens_max)
    grown = True
    while grown:  # a sentence behind it, one before it, and so on
        grown = False
        for new_first, new_end in ((first, end + 1), (first - 1, end + grown)):
            if new_first < 0 or new_end > len(pieces):
                continue
            if counter.count(_between(pieces, new_first, new_end)) <= tokens_max:
                first, end, grown = new_first, new_end, True
    return _between(pieces, first, end)


def _pieces(text: str) -> Iterator[str]:
    for sentence in sentences(text):
        rest = sentence
        while count_words(rest) > PIECE_WORDS_MAX:
            head = clip(rest, PIECE_WORDS_MAX, len(rest.encode())).removesuffix(MARKER)
            if not head:
                break
            yield head
            rest = rest[len(head) :].strip()
        if rest:
            yield rest


def _between(pieces: list[str], first: int, end: int) -> str:
    before = [MARKER] if first else []
    behind = [MARKER] if end < len(pieces) else []
    return " ".join([*before, *pieces[first:end], *behind])


def _clipped(piece: str, counter: TokenCounter, tokens_max: int) -> str:
    for count in range(count_words(piece), 0, -1):
        head = clip(piece, count, len(piece.encode()))
        if head and counter.count(head) <= tokens_max:
            return head
    return ""
