"""Names and labels: each leads to its number or row, whatever came and went."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory_actors.base.interning import Names
from memory_actors.search.indexes import labels as of_labels
from memory_actors.search.indexes.labels import Labels

NAMES = st.lists(st.text(max_size=4), max_size=60)


@given(NAMES)
def test_a_name_keeps_its_number(given_names: list[str]) -> None:
    names, known = Names(), dict[str, int]()
    for name in given_names:
        assert names.find(name) == known.get(name)
        assert names.of(name) == known.setdefault(name, len(known))
    assert list(names) == list(known)
    again = Names.of_bytes(*names.saved())
    assert [again.find(name) for name in known] == list(known.values())
    assert list(Names.listed(known)) == list(known)


@pytest.mark.parametrize("ends", [[1], [3], [2, 1], []])
def test_names_that_do_not_fit_are_refused(ends: list[int]) -> None:
    with pytest.raises(ValueError, match="do not fit"):
        Names.of_bytes(b"ab", np.array(ends, np.uint32).tobytes())


CHANGES = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(-20, 20)),
        st.tuples(st.just("remove"), st.integers(-20, 20)),
    ),
    max_size=60,
)


@settings(max_examples=200)
@given(CHANGES, st.integers(0, 5), st.integers(0, 9))
def test_a_label_leads_to_its_living_row(changes: list, recent_max: int, begun: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(of_labels, "RECENT_MAX", recent_max)
        labels = Labels(np.arange(5, 5 - begun, -1))
        living, count = {5 - row: row for row in range(begun)}, begun
        for what, said in changes:
            if what == "remove":
                assert labels.remove(said) == living.pop(said, None)
                continue
            if said not in living:
                labels.append(said)
                living[said] = count
                count += 1
    assert (labels.count, labels.living) == (count, len(living))
    assert {label: labels.row_of(label) for label in range(-20, 21) if label in labels} == living
    assert labels.there() == sorted(living, key=living.__getitem__)
    assert labels.rows_of([99, *living]).tolist() == list(living.values())
