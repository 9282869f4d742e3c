"""The place of a passage in its session."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from memory_actors.search.indexes.dense import DenseIndex
from memory_actors.search.indexes.late import LateIndex
from memory_actors.search.indexes.lexical import LexicalIndex
from memory_actors.search.indexes.parts import Parts, SessionOrder
from memory_actors.search.indexes.traits import Times, Trait, Traits, spoken

VECTOR = np.array([1, 0], np.float32)


class Sessions:
    """Some sessions of an index, changed as a memory index changes them."""

    def __init__(self) -> None:
        self.in_session = SessionOrder()
        self.dense, self.words, self.traits = DenseIndex(2), LexicalIndex(), Traits()

    @property
    def parts(self) -> Parts:
        return Parts(self.traits.count, self.dense, self.words, LateIndex(), self.traits)

    def add(self, label: int, place: int | None = None, chain: str | None = "s") -> None:
        """Add a passage; without a place, one that was never reworded."""
        place = label if place is None else place
        text = f"text {label}"
        self.words.add(label, text, *self.in_session.place(label, place, chain, self.parts))
        self.dense.add(label, VECTOR)
        self.traits.append(Trait("m", Times(0, 0, 0), chain, place, spoken(text), summary=False))

    def drop(self, label: int) -> None:
        self.in_session.leave(label, "s")
        self.parts.forget(label)

    def order(self, chain: str = "s") -> list[int]:
        view, columns = self.dense.view(), self.traits.view(self.traits.count)
        in_chain = view.alive & (columns.chains == self.traits.number_of(chain))
        labels = set(view.labels[in_chain].tolist())
        at = next(iter(one for one in labels if self.words.previous(one) is None), None)
        order = []
        while at is not None:
            order.append(at)
            at = self.words.following(at)
        assert set(order) == labels, "it is one session"
        return order


def test_a_passage_reworded_meanwhile_keeps_its_place() -> None:
    """A passage that was reworded while another came stands where it stood."""
    session = Sessions()
    session.add(1)
    session.drop(1)
    session.add(2)
    session.add(3, place=1)
    assert session.order() == [3, 2]


@given(
    st.lists(
        st.tuples(st.sampled_from("st"), st.integers(0, 3), st.booleans()), min_size=1, max_size=30
    ),
    st.randoms(use_true_random=False),
)
def test_sessions_are_in_order_whatever_came_and_went(changes, chance) -> None:
    sessions, expected = Sessions(), {"s": [], "t": []}
    for label, (chain, place, goes) in enumerate(changes, start=1):
        sessions.add(label, place, chain)
        expected[chain].append((place, label))
        if goes:
            gone = chance.choice(expected[chain])
            expected[chain].remove(gone)
            sessions.in_session.leave(gone[1], chain)
            sessions.parts.forget(gone[1])
    for chain, passages in expected.items():
        assert sessions.order(chain) == [label for _, label in sorted(passages)]
