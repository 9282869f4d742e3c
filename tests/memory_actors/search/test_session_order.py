"""The place of a passage in its session."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from support.indexes import beside

from memory_actors.search.dot_products import coded_units
from memory_actors.search.indexes.parts import Parts, SessionOrder
from memory_actors.search.indexes.postings import counted
from memory_actors.search.indexes.traits import Times, Trait, spoken
from memory_actors.search.indexes.words import words

VECTOR = coded_units(np.array([[1, 0]], np.float32))


class Sessions:
    """Some sessions of an index, changed as a memory index changes them."""

    def __init__(self) -> None:
        self.in_session = SessionOrder()
        self._parts = Parts.empty(2)

    @property
    def parts(self) -> Parts:
        return self._parts._replace(size=self._parts.rows.count)

    def add(self, label: int, place: int | None = None, chain: str | None = "s") -> None:
        """Add a passage; without a place, one that was never reworded."""
        place = label if place is None else place
        text = f"text {label}"
        trait = Trait("m", Times(0, 0, 0), chain, place, spoken(text), summary=False)
        near = self.in_session.place(label, place, chain, self.parts)
        self.parts.put(label, VECTOR, counted(words(text)), None, trait, near)

    def drop(self, label: int, chain: str = "s") -> None:
        self.in_session.leave(label, chain)
        self.parts.forget(label)

    def order(self, chain: str = "s") -> list[int]:
        size, rows, _, indexed, _, traits = self.parts
        in_chain = rows.alive & (traits.view(size).chains == traits.number_of(chain))
        labels, links = set(rows.labels[in_chain].tolist()), indexed.chains.links
        at = next(iter(one for one in labels if beside(indexed, one, links.before) is None), None)
        order = []
        while at is not None:
            order.append(at)
            at = beside(indexed, at, links.after)
        assert set(order) == labels, "it is one session"
        return order


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


@given(
    st.lists(
        st.tuples(st.sampled_from("st"), st.integers(0, 3), st.booleans()), min_size=1, max_size=30
    ),
    st.integers(0, 30),
    st.integers(0, 30),
    st.randoms(use_true_random=False),
)
def test_parts_made_anew_have_what_happened_meanwhile(changes, begins, ends, chance) -> None:
    """They have the rows, the sessions and the words of parts that nothing was removed from."""
    sessions, expected = Sessions(), {"s": [], "t": []}
    kept, then, made = None, None, None

    def adopt() -> None:
        sessions._parts = then.caught_up(made, kept)

    for number, (chain, place, goes) in enumerate(changes):
        if number == begins:
            then, kept = sessions.parts, np.flatnonzero(sessions.parts.rows.alive)
            made = then.taken(kept)
        if number == ends and made is not None:
            adopt()
            made = None
        sessions.add(number + 1, place, chain)
        expected[chain].append((place, number + 1))
        if goes:
            gone = chance.choice(expected[chain])
            expected[chain].remove(gone)
            sessions.drop(gone[1], chain)
    if made is not None:
        adopt()
    for chain, passages in expected.items():
        assert sessions.order(chain) == [label for _, label in sorted(passages)]
    parts = sessions.parts
    fresh = Sessions()
    for chain, passages in expected.items():
        for place, label in sorted(passages):
            fresh.add(label, place, chain)
    living = parts.rows.there()
    assert sorted(living) == sorted(fresh.parts.rows.there())
    query = "text " + " ".join(map(str, living[:3]))
    scores = parts.words.windows(query).of_all()[parts.rows.rows_of(living)]
    others = fresh.parts.words.windows(query).of_all()[fresh.parts.rows.rows_of(living)]
    assert scores.tolist() == others.tolist()
    assert parts.dense.vectors(parts.rows.rows_of(living)).tolist() == (
        fresh.parts.dense.vectors(fresh.parts.rows.rows_of(living)).tolist()
    )
    view = parts.traits.view(parts.size)
    assert [view.places[parts.rows.row_of(label)] for place, label in expected["s"]] == [
        place for place, _ in expected["s"]
    ]
