"""The keyword index: BM25's scores, over windows, right after every change."""

import random
import threading
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

from memory_actors.search.indexes import bm25 as passages
from memory_actors.search.indexes.bm25 import K1, B
from memory_actors.search.indexes.labels import Labels
from memory_actors.search.indexes.lexical import EMPTY, QUERY_WORDS_MAX, Saved
from memory_actors.search.indexes.postings import COUNT_MAX, ROWS_BEFORE
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
    labels_there, found = index.score_all(query)
    of = dict(zip(labels_there.tolist(), found.tolist(), strict=True))
    return [of.get(label, 0.0) for label in labels]


def found_by(index: LexicalIndex, query: str) -> set[int]:
    labels, found = index.score_all(query)
    return set(labels[found > 0].tolist())


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


def test_an_answer_is_found_by_its_question():
    index = build({1: "Did you buy the tent?", 2: "Yes, the green one.", 3: "Bread."}, [[1, 2]])
    question, answer, other = scores(index, "tent", [1, 2, 3])
    assert question > answer > other == 0


def test_other_sessions_are_no_context():
    index = build({1: "tent", 2: "green", 3: "blue"}, [[1, 2], [3]])
    assert found_by(index, "tent") == {1, 2}


def test_rows_come_in_the_order_of_adding():
    """Rows come in the order they were added in, the removed ones too."""
    index = build({3: "tea", 1: "tea", 2: "tea tea", 4: "coffee"})
    index.drop(1)
    labels, found = index.score_all("tea")
    assert labels.tolist() == [3, 1, 2, 4]
    assert found[2] > found[0] > found[1] == found[3] == 0


def test_the_same_texts_have_the_same_score():
    a, b = scores(build({3: "tea", 1: "tea", 2: "coffee"}), "tea", [3, 1])
    assert a == b > 0


def test_scores_are_between_0_and_1():
    index = build({1: "tea " * 200, 2: "tea with milk", 3: "coffee"})
    most, some, none = scores(index, "tea", [1, 2, 3])
    assert 0 == none < some < most <= 1


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
        every = index.score_all(query)[1]
        rows, scores = index.windows(query).best(20, others)
        assert scores.tolist() == every[rows].tolist()
        assert rows.tolist() == sorted(rows.tolist())
        assert set(others.tolist()) <= set(rows.tolist())
        assert len(rows) <= 23
        best = np.flatnonzero(every > np.sort(every)[-20])
        missed += len(set(best.tolist()) - set(rows.tolist()))
    assert missed <= 4, "nearly all of the best are found"


def test_words_nobody_has_do_not_lower_a_score():
    index = build({1: "tea", 2: "coffee"})
    assert scores(index, "tea unheard", [1]) == scores(index, "tea", [1]) != [0]


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


def test_an_empty_index_finds_nothing():
    labels, found = LexicalIndex.restored(EMPTY).score_all("tea")
    assert len(labels) == len(found) == 0


def test_a_removed_text_no_longer_helps_its_neighbours():
    """A removed text is gone, and helps its neighbours no more."""
    index = build({1: "tent", 2: "green", 3: "blue", 4: "red"}, [[1, 2, 3, 4]])
    assert index.drop(1)
    assert not index.drop(1)
    assert found_by(index, "tent") == set()
    assert 1 not in index.rows
    assert index.rows.living == 3


def test_neighbours_meet_across_a_gap():
    index = build({1: "tent", 2: "green", 3: "blue", 4: "red"}, [[1, 2, 3, 4]])
    index.drop(2)
    index.drop(3)
    assert index.previous(4) == 1
    assert found_by(index, "tent") == {1, 4}


def test_a_text_may_take_the_place_of_another():
    index = build({1: "tent", 2: "green", 3: "blue"}, [[1, 2, 3]])
    before = index.previous(2)
    index.drop(2)
    index.add(20, "lantern", before)
    assert index.previous(3) == 20
    assert found_by(index, "lantern") == {20, 3}


def test_a_text_may_take_the_place_of_the_first_one():
    index = build({1: "w1x", 2: "w2x", 3: "w3x"}, [[1, 2, 3]])
    assert (index.following(1), index.following(3)) == (2, None)
    index.drop(1)
    index.add(4, "w4x", ahead_of=2)
    fresh = build({4: "w4x", 2: "w2x", 3: "w3x"}, [[4, 2, 3]])
    assert (index.previous(2), index.following(4)) == (4, 2)
    for query in ("w2x", "w4x w3x"):
        assert scores(index, query, [2, 3, 4]) == scores(fresh, query, [2, 3, 4])


def test_a_very_frequent_word_is_counted_up_to_a_bound():
    """A word that comes very often is counted up to a bound."""
    index = build({1: "tea " * 1000, 2: "tea " * COUNT_MAX})
    a, b = scores(index, "tea", [1, 2])
    assert 0.9 < a == b <= 1


def test_a_query_of_many_words_keeps_the_rarest():
    common = {label: " ".join(VOCABULARY) for label in range(10)}
    texts = {**common, 99: " ".join(f"r{number}r" for number in range(QUERY_WORDS_MAX))}
    index = build(texts)
    query = " ".join([*VOCABULARY, texts[99]])
    assert found_by(index, query) == {99}


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


def test_what_a_query_keeps_of_the_chains_is_made_anew_after_each_change():
    model = Model()
    for number in range(40):
        model.add("w0x w1x" if number % 3 else "w9x", number - 1 if number % 8 else None)
    model.check()
    model.add("w0x", 20)
    model.check()
    model.remove(10)
    model.check()


# --- made anew, and files


def test_an_index_made_anew_takes_less():
    texts = random_texts(640)
    index = build(texts)
    for label in range(192):
        index.drop(label)
    fresh = LexicalIndex.restored(index.saved())
    assert fresh.size_bytes < index.size_bytes


def test_scores_ignore_the_order_of_words():
    """A score does not depend on the order in which words came."""
    texts = random_texts(40)
    index, otherwise = build(texts, {}), build(dict(reversed(texts.items())), {})
    for query in ("w0x w1x w2x w3x w4x w5x w6x", "w9x w8x w7x w6x w5x"):
        assert scores(index, query, texts) == scores(otherwise, query, texts)


def test_scores_ignore_the_indexs_past():
    """A score does not depend on the past of the index."""
    often = {label: f"w{label}x tea " + "w0x " * 40 * label for label in range(12)}
    sessions = in_chains(12, 4)
    index, fresh = build({}), build(often, sessions)
    for label, text in often.items():
        index.add(label, text, label - 1 if label % 4 else None)
    every = np.arange(len(often))
    rows = Labels(index.rows.labels)
    chains, postings = index.chains.taken(every, rows), index.postings.taken(every, rows)
    taken = LexicalIndex(chains, postings)
    loaded = LexicalIndex.restored(taken.saved())
    for query in ("w0x", "tea w3x", "w0x w11x tea"):
        expected = scores(fresh, query, often)
        for lived in (index, taken, loaded):
            assert scores(lived, query, often) == expected


def test_a_saved_index_goes_through_a_file():
    texts = random_texts(50)
    index = build(texts, in_chains(50, 6))
    data = msgspec.msgpack.encode(index.saved())
    again = LexicalIndex.restored(msgspec.msgpack.decode(data, type=Saved))
    assert scores(again, "w0x w7x", texts) == scores(index, "w0x w7x", texts)
    assert [again.previous(label) for label in texts] == [index.previous(label) for label in texts]


def test_an_empty_index_can_be_saved():
    again = LexicalIndex.restored(LexicalIndex.restored(EMPTY).saved())
    assert again.rows.count == 0
    again.add(1, "tea")
    assert found_by(again, "tea") == {1}


@pytest.mark.parametrize(
    "damage",
    [
        {"labels": np.zeros(3, np.int64).tobytes()},
        {"labels": b""},
        {"alive": b"\1"},
        {"before": np.array([-1, 7, -1], np.int32).tobytes()},
        {"before": np.array([2, 2, -1], np.int32).tobytes()},
        {"ends": np.array([1, 0, 2], np.int64).tobytes()},
        {"ends": np.array([1, 2, 9], np.int64).tobytes()},
        {"term_ids": np.full(3, 99, np.uint32).tobytes()},
        {"counts": b""},
        {"labels": b"\1"},
    ],
)
def test_columns_that_do_not_fit_are_refused(damage: dict[str, bytes]):
    saved = build({1: "tea", 2: "milk", 3: "sugar"}, [[1, 2]]).saved()
    with pytest.raises(ValueError, match=r"fit|buffer"):
        LexicalIndex.restored(msgspec.structs.replace(saved, **damage))


def test_searching_beside_changes_never_fails():
    index = build(random_texts(200), in_chains(200, 10))
    failures: list[Exception] = []
    done = threading.Event()

    def search() -> None:
        try:
            while not done.is_set():
                for query in ("w0x w1x w8x", "w2x"):
                    labels, found = index.score_all(query)
                    assert len(labels) == len(found)
        except Exception as error:
            failures.append(error)

    searchers = [threading.Thread(target=search) for _ in range(2)]
    for thread in searchers:
        thread.start()
    for label, text in random_texts(800, seed=2).items():
        index.add(1000 + label, text, 1000 + label - 1 if label % 9 else None)
        index.drop(label % 200)
    done.set()
    for thread in searchers:
        thread.join()
    assert failures == []


@pytest.mark.parametrize("query", ["w0x", "w0x w3x w29x", "w1x w2x w4x w5x w9x", "unknown"])
def test_scores_of_some_rows_are_those_of_all(query: str) -> None:
    index = build(
        random_texts(200), [list(range(start, start + 25)) for start in range(0, 100, 25)]
    )
    for label in (3, 26, 77, 150):
        index.drop(label)
    every, some = index.score_all(query)[1], np.array([0, 3, 4, 27, 28, 99, 150, 199])
    assert index.windows(query).of(some) == pytest.approx(every[some], abs=1e-6)
