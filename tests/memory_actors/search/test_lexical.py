"""The keyword index: BM25's scores, over windows, right after every change."""

import random
from collections import Counter
from collections.abc import Iterable
from itertools import pairwise

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rank_bm25 import BM25Okapi
from support.indexes import LexicalIndex

from memory_actors.base.compressing import narrowed
from memory_actors.search.indexes import lexical as passages
from memory_actors.search.indexes.lexical import EMPTY, K1, B
from memory_actors.search.indexes.postings import ROWS_BEFORE
from memory_actors.search.indexes.words import words

VOCABULARY = [f"w{number}x" for number in range(30)]
WEIGHTS = [1 / (1 + number) for number in range(30)]


def build(texts: dict[int, str], sessions: list[list[int]] | None = None) -> LexicalIndex:
    before = {later: earlier for chain in sessions or [] for earlier, later in pairwise(chain)}
    index = LexicalIndex.restored(EMPTY)
    for label, text in texts.items():
        index.add(label, text, before.get(label))
    return index


def scores(index: LexicalIndex, query: str, labels: Iterable[int]) -> list[float]:
    """The score of each label; 0 for one that is not there."""
    found = index.windows(query).of_all()
    of = dict(zip(index.rows.labels.tolist(), found.tolist(), strict=True))
    return [of.get(label, 0.0) for label in labels]


def found_by(index: LexicalIndex, query: str) -> set[int]:
    found = index.windows(query).of_all()
    return set(index.rows.labels[found > 0].tolist())


def random_texts(count: int, seed: int = 1) -> dict[int, str]:
    rng = np.random.default_rng(seed)
    chances = np.array(WEIGHTS) / sum(WEIGHTS)
    sizes = rng.integers(1, 20, count)
    return {
        label: " ".join(rng.choice(VOCABULARY, size, p=chances)) for label, size in enumerate(sizes)
    }


def idf(n: int, df: int) -> float:
    return float(np.log(1 + (n - df + 0.5) / (df + 0.5)))


def by_rank_bm25(texts: dict[int, str], query: str, sessions: list[list[int]] | None = None):
    """The scores of rank_bm25 with our idf, over windows, as a share of the most there can be."""
    own = {label: words(text) for label, text in texts.items()}
    chain_of = {label: chain for chain in sessions or [] for label in chain}
    whole = []
    for label in texts:
        chain = chain_of.get(label, [label])
        place = chain.index(label)
        near = chain[max(0, place - ROWS_BEFORE) : place + 1]
        whole.append([word for part in near for word in own[part]])
    judge = BM25Okapi(whole, k1=K1, b=B)
    frequencies = Counter(word for text in own.values() for word in set(text))
    judge.idf = {word: idf(len(texts), df) for word, df in frequencies.items()}
    known = sorted({word for word in words(query) if word in frequencies})
    most = sum(judge.idf[word] for word in known) * (K1 + 1)
    return dict(zip(texts, judge.get_scores(known) / max(most, 1e-9), strict=True))


def in_chains(count: int, size: int) -> list[list[int]]:
    return [list(range(start, min(start + size, count))) for start in range(0, count, size)]


@pytest.mark.parametrize("spread_share", [0.0, 0.2, 2.0])
@pytest.mark.parametrize("size", [1, 2, 7])
def test_scores_are_those_of_rank_bm25(
    size: int, spread_share: float, monkeypatch: pytest.MonkeyPatch
):
    """Scores agree however long the sessions, and whichever way a word's rows are reached."""
    monkeypatch.setattr(passages, "_SPREAD_SHARE", spread_share)
    texts, sessions = random_texts(120), in_chains(120, size)
    index = build(texts, sessions)
    for query in ("w0x w3x w17x", "w1x nowhere", "w29x w28x w2x w2x"):
        expected = by_rank_bm25(texts, query, sessions)
        assert scores(index, query, texts) == pytest.approx(list(expected.values()), abs=1e-5)


@pytest.mark.parametrize("sessions", [1, 7, None])
def test_the_best_rows_have_the_scores_that_they_have_among_all(sessions: int | None):
    """Rows in one session, in several by turns, or each for itself; some are removed."""
    index, chance = LexicalIndex.restored(EMPTY), random.Random(3)
    names = [f"word{number}" for number in range(40)]
    weights = [1 / (1 + number) for number in range(40)]
    for label in range(2_000):
        text = " ".join(chance.choices(names, weights, k=12))
        after = None if sessions is None or label < sessions else label - sessions
        index.add(label, text, after)
    for label in range(0, 2_000, 9):
        index.drop(label)
    others, missed = np.array([3, 500, 1_999]), 0
    for _ in range(20):
        query = " ".join(chance.choices(names, k=6))
        every = index.windows(query).of_all()
        rows, scores = index.windows(query).best(20, others)
        assert scores.tolist() == every[rows].tolist()
        assert rows.tolist() == sorted(rows.tolist())
        assert set(others.tolist()) <= set(rows.tolist())
        assert len(rows) <= 23
        best = np.flatnonzero(every > np.sort(every)[-20])
        missed += len(set(best.tolist()) - set(rows.tolist()))
    assert missed <= 4, "nearly all of the best are found"


@pytest.mark.parametrize("query", ["", "the of and", "nowhere", "?"])
def test_a_query_without_known_words_finds_nothing(query: str):
    assert found_by(build({1: "tea"}), query) == set()


@given(st.lists(st.sets(st.sampled_from(VOCABULARY[:8])), max_size=3), st.integers(0, 2**32 - 1))
@settings(max_examples=50, deadline=None)
def test_rows_with_all_words_of_a_set_are_found(sets, seed: int):
    """Rows with all words of a set are those whose own words have them."""
    texts = random_texts(400, seed)  # the frequent words are in most of the rows
    index = build(texts, [[1, 2, 3]])
    for label in range(0, 400, 7):
        index.drop(label)
    expected = [
        row
        for row, text in enumerate(texts.values())
        if row % 7 and any(one and one <= set(text.split()) for one in sets)
    ]
    assert index.rows_with(sets).tolist() == expected


def test_rows_of_many_words_are_listed_in_time():
    """Beyond 65,536 words the rows of each word are still those that have it."""
    count = 70_000
    index = build({row: f"n{row}x n{row + 1}x" for row in range(count)})
    assert index.postings.wants_lists
    index.postings.adopt(index.postings.listed())
    assert not index.postings.wants_lists
    for row in (1, 65_535, 65_536, count - 1):
        assert found_by(index, f"n{row}x") == {row - 1, row}


# --- any sequence of changes


class Model:
    """The model of the index: texts and chains, scored by rank_bm25."""

    def __init__(self) -> None:
        self.index = LexicalIndex.restored(EMPTY)
        self.texts: dict[int, str] = {}
        self.chains: list[list[int]] = []
        self.next = 0

    def add(self, text: str, after: int | None) -> None:
        self.index.add(self.next, text, after)
        self.texts[self.next] = text
        chain = next((c for c in self.chains if after in c), None)
        if chain is None:
            self.chains.append([self.next])
        else:
            chain.insert(chain.index(after) + 1, self.next)
        self.next += 1

    def remove(self, label: int) -> None:
        assert self.index.drop(label)
        del self.texts[label]
        self.chains = [[x for x in chain if x != label] for chain in self.chains]

    def remake(self) -> None:
        saved = self.index.saved()
        self.index = LexicalIndex.restored(saved)

    def list_rows(self) -> None:
        listed = self.index.postings.listed()
        self.add("w0x w3x", None)
        self.index.postings.adopt(listed)

    def check(self) -> None:
        assert sorted(self.index.rows.there()) == sorted(self.texts)
        expected = by_rank_bm25(self.texts, "w0x w1x w9x", self.chains) if self.texts else {}
        found = scores(self.index, "w0x w1x w9x", expected)
        assert found == pytest.approx(list(expected.values()), abs=1e-5)


CHANGES = st.lists(
    st.tuples(
        st.sampled_from(
            ["add", "add", "add", "follow", "follow", "remove", "remake", "list", "ask"]
        ),
        st.integers(0, 1000),
        st.lists(st.sampled_from(VOCABULARY[:12]), min_size=1, max_size=5),
    ),
    max_size=40,
)


@settings(max_examples=80, deadline=None)
@given(CHANGES)
def test_after_any_changes_scores_are_those_of_a_new_index(changes):
    model = Model()
    for kind, number, text in changes:
        labels = sorted(model.texts)
        chosen = labels[number % len(labels)] if labels else None
        if kind == "remake":
            model.remake()
        elif kind == "list":
            model.list_rows()
        elif kind == "ask":
            model.check()
        elif kind == "remove" and chosen is not None:
            model.remove(chosen)
        elif kind != "remove":
            model.add(" ".join(text), chosen if kind == "follow" else None)
    model.check()


# --- made anew, and files


@pytest.mark.parametrize(
    "damage",
    [
        {"labels": narrowed(np.zeros(3, np.int64))},
        {"labels": b""},
        {"alive": narrowed(np.ones(1, np.bool_))},
        {"before": narrowed(np.array([-1, 7, -1]))},
        {"before": narrowed(np.array([2, 2, -1]))},
        {"ends": narrowed(np.array([1, 0, 2]))},
        {"ends": narrowed(np.array([1, 2, 9]))},
        {"term_ids": np.full(3, 99, np.uint32).tobytes()},
        {"counts": b""},
        {"labels": b"\1"},
    ],
)
def test_columns_that_do_not_fit_are_refused(damage: dict[str, bytes]):
    saved = build({1: "tea", 2: "milk", 3: "sugar"}, [[1, 2]]).saved()
    with pytest.raises(ValueError, match=r"fit|buffer"):
        LexicalIndex.restored(msgspec.structs.replace(saved, **damage))


@pytest.mark.parametrize("query", ["w0x", "w0x w3x w29x", "w1x w2x w4x w5x w9x", "unknown"])
def test_scores_of_some_rows_are_those_of_all(query: str) -> None:
    index = build(
        random_texts(200), [list(range(start, start + 25)) for start in range(0, 100, 25)]
    )
    for label in (3, 26, 77, 150):
        index.drop(label)
    every, some = index.windows(query).of_all(), np.array([0, 3, 4, 27, 28, 99, 150, 199])
    assert index.windows(query).of(some) == pytest.approx(every[some], abs=1e-6)
