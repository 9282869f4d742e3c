"""Late interaction: MaxSim as it is defined, on states that were packed and fetched."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory_actors.search.embedding.protocol import (
    DIMENSIONS,
    TOKENS_MAX,
    learn_projection,
    pack,
    project,
    unpack,
)
from memory_actors.search.indexes import late
from memory_actors.search.indexes.late import LateIndex, max_sim

WIDTH = 96


def states(count: int, seed: int, width: int = DIMENSIONS):
    rows = np.random.default_rng(seed).standard_normal((count, width)).astype(np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def asked(count: int, seed: int):
    """States as a query has them: unpacked."""
    return unpack(pack([0] * count, states(count, seed))).states


def ids(count: int, seed: int) -> list[int]:
    return np.random.default_rng(seed).integers(0, 50, count).tolist()


def build(sizes: list[int]) -> LateIndex:
    index = LateIndex()
    for label, size in enumerate(sizes):
        index.add(label, pack(ids(size, label), states(size, label)))
    return index


def by_definition(sizes: list[int], query_ids: list[int], query) -> list[float]:
    """The score, written out."""
    tokens = [set(ids(size, label)) for label, size in enumerate(sizes)]
    weights = []
    for token in query_ids:
        df = sum(token in memory for memory in tokens)
        weights.append(np.log((len(sizes) + 1) / (df + 0.5)))
    scores = []
    for label, size in enumerate(sizes):
        if size == 0:
            scores.append(0.0)
            continue
        best = (query @ states(size, label).T).max(axis=1)
        scores.append(float(np.average(best, weights=weights)))
    return scores


def test_a_score_is_independent_of_its_batch():
    """A score does not depend on the others that it is computed with."""
    memories = [unpack(pack(ids(9, n), states(9, n))).states.tobytes() for n in range(50)]
    query = build([9] * 50).query(ids(37, 99), asked(37, 99))
    alone = [max_sim(query, [memory])[0] for memory in memories]
    assert max_sim(query, memories).tolist() == alone


@pytest.mark.parametrize("chunk", [1, 3, 128])
def test_scores_follow_the_definition(chunk: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(late, "_CHUNK_MEMORIES", chunk)
    sizes = [7, 1, 0, 30, 12, 0]
    index, query = build(sizes), states(5, 99)
    tokens = index.query(ids(5, 99), asked(5, 99))
    expected = by_definition(sizes, ids(5, 99), query)
    assert index.score(tokens, range(6)) == pytest.approx(expected, abs=0.02)


def test_a_text_is_closest_to_itself():
    index = build([5, 9, 14, 3])
    for label, size in enumerate([5, 9, 14, 3]):
        tokens = index.query(ids(size, label), asked(size, label))
        scores = index.score(tokens, range(4))
        assert int(scores.argmax()) == label
        assert scores[label] == pytest.approx(1, abs=0.02)


def test_rare_tokens_weigh_more():
    index = LateIndex()
    for label in range(9):
        index.add(label, pack([1], states(1, 1)))
    index.add(9, pack([2], states(1, 2)))
    weights = index.query([1, 2, 3], asked(3, 5)).weights
    assert weights[0] < weights[1] < weights[2]
    assert weights.sum() == pytest.approx(1)


def test_a_long_query_leaves_out_what_tells_least():
    index = LateIndex()
    for label in range(200):
        index.add(label, pack([1, 2, 3, 4, 5], states(5, label)))
    rare = list(range(10, 20))
    tokens = index.query([1, 2, 3, *rare, 4, 5], asked(15, 1))
    assert len(tokens.weights) == len(tokens.states) == 10
    assert tokens.states.tolist() == asked(15, 1)[3:13].tolist()
    assert tokens.weights.sum() == pytest.approx(1)
    endless = index.query(list(range(10, 210)), asked(200, 1))
    assert len(endless.weights) == late.TOKENS_MAX


def test_removed_memories_score_nothing_and_count_no_more():
    index = build([5, 6])
    weights = index.query(ids(5, 0), asked(5, 0)).weights
    assert index.remove(1)
    assert not index.remove(1)
    alone = build([5])
    assert index.query(ids(5, 0), asked(5, 0)).weights.tolist() == pytest.approx(
        alone.query(ids(5, 0), asked(5, 0)).weights.tolist()
    )
    tokens = index.query(ids(6, 1), asked(6, 1))
    assert index.score(tokens, [1]).tolist() == [0]
    assert (0 in index, 1 in index) == (True, False)
    assert len(weights) == 5


def test_removing_all_gives_the_memory_back():
    index = build([5, 6, 7])
    for label in range(3):
        index.remove(label)
    assert len(index) == 0
    assert index.size_bytes == LateIndex().size_bytes


@pytest.mark.parametrize("count", [0, 3])
def test_nothing_to_compare_is_no_error(count: int):
    index, tokens = LateIndex(), LateIndex().query(ids(count, 1), asked(count, 1))
    assert index.score(tokens, []).tolist() == []
    assert index.score(tokens, [7]).tolist() == [0]
    assert max_sim(tokens, [b""]).tolist() == [0]


def test_adding_a_label_twice_changes_nothing():
    index = build([5])
    before = index.size_bytes
    index.add(0, pack(ids(9, 3), states(9, 3)))
    assert index.size_bytes == before


def test_states_that_do_not_fit_are_fetched():
    sizes = [20] * 30
    table = {n: pack(ids(size, n), states(size, n)) for n, size in enumerate(sizes)}
    fetched: list[int] = []

    def fetch(labels):
        fetched.extend(labels)
        return [table.get(label) for label in labels]

    index = LateIndex(fetch, bytes_max=10 * 20 * DIMENSIONS)
    for label, packed in table.items():
        index.add(label, packed)
    whole, query = build(sizes), asked(4, 77)
    scores = index.score(index.query(ids(4, 77), query), range(30))
    assert scores == pytest.approx(whole.score(whole.query(ids(4, 77), query), range(30)))
    assert 20 <= len(fetched) < 30
    assert index.size_bytes < whole.size_bytes


def test_states_that_cannot_be_fetched_score_nothing():
    index = LateIndex(lambda labels: [None for _ in labels], bytes_max=0)
    index.add(1, pack(ids(4, 1), states(4, 1)))
    assert index.score(index.query(ids(4, 1), asked(4, 1)), [1, 2]).tolist() == [0, 0]


# --- format


def test_what_is_packed_is_unpacked():
    packed = pack([5, 30521], states(2, 1))
    token_ids, codes = unpack(packed)
    assert token_ids.tolist() == [5, 30521]
    assert codes / 127 == pytest.approx(states(2, 1), abs=0.005)
    assert len(packed) == 4 + 2 * 2 + 2 * DIMENSIONS


def test_the_format_does_not_change():
    packed = pack([1, 258], np.array([[1, 0, -1], [0.5, 0, -0.5]], np.float32))
    assert packed.hex() == "01030200" + "01000201" + "7f0081" + "4000c0"


@pytest.mark.parametrize("data", [b"", b"\1\3", b"\2\1\0\0", b"\1\3\1\0\0\0\0", bytes(40)])
def test_other_bytes_are_refused(data: bytes):
    with pytest.raises(ValueError, match="token states"):
        unpack(data)


def test_ids_and_states_must_be_as_many():
    with pytest.raises(ValueError, match="3 token ids for 2 states"):
        pack([1, 2, 3], states(2, 1))
    with pytest.raises(ValueError, match="at most"):
        pack([1] * (TOKENS_MAX + 1), states(TOKENS_MAX + 1, 1))


@settings(max_examples=50, deadline=None)
@given(st.binary(max_size=300))
def test_any_bytes_are_read_or_refused(data: bytes):
    try:
        token_ids, codes = unpack(data)
    except ValueError:
        return
    assert len(token_ids) == len(codes)


# --- projection


def general():
    """Return states that are uneven and off centre, as token states are."""
    rng = np.random.default_rng(7)
    return (rng.standard_normal((2000, WIDTH)) * np.linspace(3, 0.1, WIDTH) + 1).astype(np.float32)


def test_a_projection_is_the_same_each_time():
    first, second = learn_projection(general()), learn_projection(general())
    assert first.shape == (WIDTH, DIMENSIONS)
    assert first.dtype == np.float32
    assert np.array_equal(first, second)


def test_a_projection_ignores_scale_and_order():
    """A projection does not depend on the scale or the order of states."""
    shuffled = np.random.default_rng(1).permutation(general()) * 5
    assert learn_projection(shuffled) == pytest.approx(learn_projection(general()), abs=1e-3)


def test_components_are_at_right_angles_and_evened_out():
    projection = learn_projection(general()).astype(np.float64)
    products = projection.T @ projection
    lengths = np.sqrt(np.diag(products))
    assert products / np.outer(lengths, lengths) == pytest.approx(np.eye(DIMENSIONS), abs=1e-4)
    assert (np.diff(lengths) > 0).all()  # the weaker a component, the more it is lifted


def test_projected_states_keep_who_is_close_to_whom():
    projection = learn_projection(general())
    rows = general()[:200]
    near = rows + 0.05 * np.random.default_rng(2).standard_normal(rows.shape).astype(np.float32)
    similar = project(rows, projection) @ project(near, projection).T
    assert (similar.argmax(axis=1) == np.arange(200)).all()
    assert np.linalg.norm(project(rows, projection), axis=1) == pytest.approx(np.ones(200))


def test_a_state_of_zeros_stays_finite():
    projected = project(np.zeros((1, WIDTH), np.float32), learn_projection(general()))
    assert np.isfinite(projected).all()
