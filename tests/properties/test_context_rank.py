"""Properties of ranks: there is room between any two, and runs of insertions keep them short."""

from bisect import insort

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_actors.kinds.context.rank import DIGITS, FIRST, between, is_rank

RANKS = st.text(DIGITS, min_size=1, max_size=9).filter(is_rank)


@given(st.none() | RANKS, st.none() | RANKS)
def test_there_is_a_rank_between_any_two(one: str | None, other: str | None) -> None:
    if one is not None and one == other:
        with pytest.raises(ValueError, match="does not come before"):
            between(one, other)
        return
    before, after = (one, other) if one is None or other is None else sorted((one, other))
    rank = between(before, after)
    assert is_rank(rank)
    assert before is None or before < rank
    assert after is None or rank < after


@given(st.lists(st.integers(0, 1 << 16), max_size=200))
def test_insertions_anywhere_stay_in_order(places: list[int]) -> None:
    ranks: list[str] = []
    for place in places:
        at = place % (len(ranks) + 1)
        before, after = ranks[at - 1] if at else None, ranks[at] if at < len(ranks) else None
        ranks.insert(at, between(before, after))
    assert ranks == sorted(set(ranks))


@pytest.mark.parametrize("place", ["end", "start", "behind the first", "before the last"])
def test_many_insertions_at_one_place_keep_ranks_short(place: str) -> None:
    ranks = [FIRST, between(FIRST, None)]
    for _ in range(5_000):
        before, after = {
            "end": (ranks[-1], None),
            "start": (None, ranks[0]),
            "behind the first": (ranks[0], ranks[1]),
            "before the last": (ranks[-2], ranks[-1]),
        }[place]
        insort(ranks, between(before, after))
    assert len(set(ranks)) == 5_002
    assert max(map(len, ranks)) <= 9


@pytest.mark.parametrize("bad", ["", "V0", "a-b", "ä", " "])
def test_what_is_no_rank_is_refused(bad: str) -> None:
    with pytest.raises(ValueError, match="is no rank"):
        between(bad, None)
