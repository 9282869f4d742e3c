"""Late interaction: MaxSim as it is defined, on states that were packed and fetched."""

import platform
import shutil

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.indexes import LateIndex, late_scores

from memory_actors.search.dot_products import INSTRUCTION_SETS, LIBRARY
from memory_actors.search.embedding.token_states import (
    DIMENSIONS,
    PLAIN,
    Codebook,
    Tokens,
    learn_codebook,
    learn_projection,
    pack,
    plain_codebook,
    project,
    rounded,
    states_of,
    tokens_of,
    unpack,
)
from memory_actors.search.indexes import late
from memory_actors.search.indexes import max_sim as max_sim_module
from memory_actors.search.indexes.labels import Labels
from memory_actors.search.indexes.max_sim import QueryTokens, max_sim

WIDTH = 96


def states(count: int, seed: int, width: int = DIMENSIONS):
    rows = np.random.default_rng(seed).standard_normal((count, width)).astype(np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def ids(count: int, seed: int) -> list[int]:
    return np.random.default_rng(seed).integers(0, 50, count).tolist()


def build(sizes: list[int]) -> LateIndex:
    index = LateIndex(Labels())
    for label, size in enumerate(sizes):
        index.add(label, pack(ids(size, label), states(size, label)))
    return index


def asked(token_ids: list[int], seed: int):
    """What a query is given as: its tokens, and its states as they were before coding."""
    found = states(len(token_ids), seed)
    return pack(token_ids, found), rounded(found)


def unit(rows):
    rows = rows.astype(np.float64)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def decoded(packed: bytes, codebook=PLAIN):
    """Unit rows of what was packed."""
    return unit(states_of(packed, codebook)[:, : codebook.dimensions])


def by_definition(sizes: list[int], query_ids: list[int], query) -> list[float]:
    """The score, written out."""
    tokens = [set(ids(size, label)) for label, size in enumerate(sizes)]
    weights = []
    for token in query_ids:
        df = sum(token in memory for memory in tokens)
        weights.append(np.log((np.count_nonzero(sizes) + 1) / (df + 0.5)))
    scores = []
    for label, size in enumerate(sizes):
        if size == 0:
            scores.append(0.0)
            continue
        best = (query @ decoded(pack(ids(size, label), states(size, label))).T).max(axis=1)
        scores.append(float(np.average(best, weights=weights)))
    return scores


def compare_by(instruction_set: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let states be compared with one of the instruction sets that there are."""
    if instruction_set > (best := LIBRARY.instruction_set):
        pytest.skip(f"states are compared by {INSTRUCTION_SETS[best]} here: see max_sim.py")
    monkeypatch.setattr(LIBRARY, "instruction_set", instruction_set)


@pytest.mark.parametrize("chunk", [1, 3, 128])
@pytest.mark.parametrize("instruction_set", range(len(INSTRUCTION_SETS)), ids=INSTRUCTION_SETS)
def test_scores_follow_the_definition(
    instruction_set: int, chunk: int, monkeypatch: pytest.MonkeyPatch
):
    compare_by(instruction_set, monkeypatch)
    monkeypatch.setattr(max_sim_module, "_CHUNK_MEMORIES", chunk)
    sizes = [7, 1, 0, 30, 12, 0]
    index, query = build(sizes), asked(ids(5, 99), 99)
    expected = by_definition(sizes, ids(5, 99), unit(query[1]))
    assert late_scores(index, query, range(6)) == pytest.approx(expected, abs=1e-6)


@pytest.mark.skipif(
    not LIBRARY.instruction_set, reason="MaxSim is not compiled here: see max_sim.py"
)
@settings(max_examples=200, deadline=None)
@given(st.data())
def test_all_ways_to_compare_states_agree(data: st.DataObject):
    """Extreme states, states of length 0, unknown ids, and texts without tokens, too."""
    made = np.random.default_rng(data.draw(st.integers(0, 1 << 32)))
    counts = np.array(data.draw(st.lists(st.integers(0, 70), min_size=1, max_size=20)), np.int64)
    steps = made.integers(0, 43, DIMENSIONS).astype(np.int8)
    lowest = made.integers(-127, 1, (7, DIMENSIONS)).astype(np.int8)
    codebook = Codebook("made up", lowest, steps)
    rows = np.empty(int(counts.sum()) + 5, [("id", "<u2"), ("codes", "u1", (DIMENSIONS // 4,))])
    rows["id"] = made.integers(0, 9, len(rows))
    rows["codes"] = made.integers(0, 256, rows["codes"].shape)
    starts = np.minimum(made.integers(0, len(rows), len(counts)), len(rows) - counts)
    memories = Tokens(rows.view(np.dtype((np.void, rows.itemsize))), starts, counts)
    asked_for = made.integers(-127, 128, (data.draw(st.integers(1, 64)), DIMENSIONS))
    asked_for[made.random(len(asked_for)) < 0.1] = 0
    query = QueryTokens(asked_for.astype(np.int8), made.random(len(asked_for)).astype(np.float32))
    by_numpy = max_sim_module._by_numpy(query, memories, codebook)
    for number in range(1, 1 + LIBRARY.instruction_set):
        compiled = max_sim_module._compiled(number, query, memories, codebook)
        assert compiled == pytest.approx(by_numpy, abs=2e-5)


def test_what_c_cannot_read_goes_to_numpy(monkeypatch: pytest.MonkeyPatch):
    """Which refuses it, where C would read what is not there."""
    monkeypatch.setattr(max_sim_module, "_compiled", None)
    narrow = tokens_of([pack(ids(4, 1), states(4, 1, 16), plain_codebook(16))])
    query = build([4]).query(*asked([1], 1))
    with pytest.raises(ValueError, match="dtype"):
        max_sim(query, narrow, PLAIN)
    wide = query._replace(states=query.states.astype(np.int16))
    assert max_sim(wide, tokens_of([b""]), PLAIN).tolist() == [0]
    many = QueryTokens(np.ones((65, DIMENSIONS), np.int8), np.ones(65, np.float32))
    assert max_sim(many, tokens_of([pack([1], states(1, 1))]), PLAIN).shape == (1,)


def test_it_is_compiled_where_it_can_be():
    """scripts/setup.sh installs the checkout, which compiles it."""
    if platform.machine() not in ("x86_64", "aarch64", "arm64") or not shutil.which("cc"):
        pytest.skip("MaxSim is compiled where there is a C compiler")
    assert LIBRARY.path.exists()


def test_states_that_do_not_fit_are_fetched():
    sizes = [20] * 30
    table = {n: pack(ids(size, n), states(size, n)) for n, size in enumerate(sizes)}
    fetched: list[int] = []

    def fetch(labels):
        fetched.extend(labels)
        return [table.get(label) for label in labels]

    index = LateIndex(Labels(), fetch, bytes_max=10 * (len(table[0]) + 150))
    for label, packed in table.items():
        index.add(label, packed)
    whole, query = build(sizes), asked(ids(4, 77), 77)
    scores = late_scores(index, query, range(30))
    assert scores == pytest.approx(late_scores(whole, query, range(30)))
    assert 15 <= len(fetched) < 30
    assert index.size_bytes < whole.size_bytes
    assert sorted(index.kept().token_ids) == sorted(whole.kept().token_ids)


def test_the_first_text_may_have_no_token():
    """A zero-width space alone has none."""
    index = build([0, 3])
    scores = late_scores(index, asked(ids(3, 1), 7), [0, 1])

    assert scores.astype(bool).tolist() == [False, True]
    assert len(index) == 1


def test_what_is_restored_counts_tokens_and_takes_states_when_they_come():
    sizes = [7, 1, 30, 12]
    index, query = build(sizes), asked(ids(5, 99), 99)
    rows = Labels(np.arange(4))
    again = LateIndex.restored(
        index.kept(), rows, lambda labels: [None for _ in labels], lambda: PLAIN
    )
    assert again.query(*query).weights.tolist() == index.query(*query).weights.tolist()
    assert late_scores(again, query, range(4)).tolist() == [0, 0, 0, 0]
    packed = [pack(ids(size, n), states(size, n)) for n, size in enumerate(sizes)]
    assert again.unheld.tolist() == [0, 1, 2, 3]
    again.hold(range(6), [*packed, b"of none that is known", None])
    assert not len(again.unheld)
    assert late_scores(again, query, range(4)).tolist() == (
        late_scores(index, query, range(4)).tolist()
    )
    assert len(again) == len(index)
    for label in range(4):
        assert again.drop(label)
    assert len(again) == 0


def test_what_comes_while_an_index_is_saved_changes_nothing():
    """Columns are read in a thread, for rows that lived when it began."""
    index = build([7, 1, 30])
    before = index.kept()
    kept = np.flatnonzero(index.rows.alive)
    index.add(3, pack(ids(4, 3), states(4, 3)))
    index.drop(0)
    assert index.saved(kept) == before


class Watched(dict):
    """The segments of an index; `hook` is called before a look at one, once."""

    hook = None

    def get(self, number, default=None):
        hook, self.hook = self.hook, None
        if hook is not None:
            hook()
        return super().get(number, default)


def watched(bytes_max: int):
    """An index of two memories, and its segments."""
    packed = {n: pack(ids(4, n), states(4, n)) for n in (1, 2)}
    index = LateIndex(Labels(), lambda labels: [packed[n] for n in labels], bytes_max=bytes_max)
    for label, one in packed.items():
        index.add(label, one)
    index._segments = Watched(index._segments)
    return index, index._segments, packed


def scored(index: LateIndex) -> float:
    return float(late_scores(index, asked(ids(4, 1), 1), [1])[0])


def test_a_memory_is_found_while_its_states_are_let_go():
    index, segments, packed = watched(9_999)

    def hold_more() -> None:
        index._bytes_max = 0
        index.hold([2], [packed[2]])

    segments.hook = hold_more
    assert scored(index) > 0.85
    assert not segments


def test_a_memory_is_found_while_its_states_are_read():
    """They may come after a search has seen that they are not held."""
    index, segments, packed = watched(0)
    index._bytes_max = 9_999

    def fetch(labels):
        index.hold([1], [packed[1]])
        return [packed[label] for label in labels]

    index._fetch = fetch
    assert scored(index) > 0.85
    assert segments


def test_a_memory_is_found_while_all_is_made_anew():
    index, segments, _ = watched(9_999)
    made = []
    segments.hook = lambda: made.append(index.taken(np.array([0]), Labels(np.array([1]))))
    index.drop(2)
    assert scored(index) > 0.85
    assert scored(made[0]) > 0.85


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.booleans(), st.integers(0, 9)), max_size=60), st.sampled_from([5, 99]))
def test_after_any_changes_scores_are_those_of_a_new_index(changes, changes_max):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(late, "CHANGES_MAX", changes_max)
        patch.setattr(late, "SEGMENT_BYTES", 300)
        index, living = LateIndex(Labels()), {}
        for adds, label in changes:
            if adds:
                living[label] = living.get(label) or pack(ids(5, label), states(5, label))
                if label not in index.rows:
                    index.add(label, living[label])
            elif label == 9:
                kept = np.flatnonzero(index.rows.alive)
                made = index.taken(kept, Labels(index.rows.labels[kept]))
                index = LateIndex(made.rows)
                index.__dict__ |= made.__dict__
            else:
                assert index.drop(label) == (living.pop(label, None) is not None)
        fresh = LateIndex(Labels())
        for label, packed in living.items():
            fresh.add(label, packed)
    query = asked(ids(6, 50), 50)
    expected = late_scores(fresh, query, range(10)).tolist()
    assert late_scores(index, query, range(10)).tolist() == expected
    assert sorted(index.rows.there()) == sorted(living)
    assert len(index) == len(fresh)


# --- format


def test_the_format_does_not_change():
    codebook = plain_codebook(3)
    rows = np.array([[1, 0.1, -1], [0.2, -0.1, -0.2]], np.float32)
    packed = pack([1, 258], rows, codebook)
    assert packed.hex() == "0203cf62" + "0100" + "03020000" + "0201" + "02010100"
    assert states_of(packed, codebook)[:, :3].tolist() == [[109, 36, -110], [36, -37, -37]]


@pytest.mark.parametrize("data", [b"", b"\1\3", b"\1\1\0\0", b"\2\3\1\0\0\0\0", bytes(40)])
def test_other_bytes_are_refused(data: bytes):
    with pytest.raises(ValueError, match="token states"):
        unpack(data)


def test_a_learnt_codebook_is_closer_than_the_plain_one():
    """What a token's own vector says of its states is not coded again with each of them."""
    rng = np.random.default_rng(3)
    words = rng.standard_normal((500, WIDTH)).astype(np.float32)
    own = words @ rng.standard_normal((WIDTH, DIMENSIONS)).astype(np.float32) / 10
    token_ids = rng.integers(0, 400, 4_000).astype(np.uint16)
    rows = own[token_ids] + 0.5 * rng.standard_normal((4_000, DIMENSIONS)).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    learnt = learn_codebook(token_ids[:3_000], rows[:3_000], words)
    late, ids_of_late = rows[3_000:3_200], token_ids[3_000:3_200]
    errors = [
        1 - (decoded(pack(ids_of_late, late, book), book) * late).sum(axis=1).mean()
        for book in (learnt, PLAIN)
    ]
    assert errors[0] < 0.7 * errors[1]


@settings(max_examples=50, deadline=None)
@given(st.data())
def test_what_is_decoded_is_within_the_bytes_that_hold_it(data: st.DataObject):
    """No sum of a level and its steps wraps around, whatever was learnt."""
    rng = np.random.default_rng(data.draw(st.integers(0, 999)))
    words = rng.standard_normal((20, 4)).astype(np.float32)
    scale = data.draw(st.sampled_from([0.01, 1.0, 30.0]))
    rows = (scale * rng.standard_normal((60, 6))).astype(np.float32)
    book = learn_codebook(rng.integers(0, 20, 60).astype(np.uint16), rows, words)
    levels = book.lowest.astype(np.int64)[:, None] + np.arange(4)[:, None] * book.steps
    assert levels.min() >= -127
    assert levels.max() <= 127


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


def test_projected_states_keep_who_is_close_to_whom():
    projection = learn_projection(general())
    rows = general()[:200]
    near = rows + 0.05 * np.random.default_rng(2).standard_normal(rows.shape).astype(np.float32)
    similar = project(rows, projection) @ project(near, projection).T
    assert (similar.argmax(axis=1) == np.arange(200)).all()
    assert np.linalg.norm(project(rows, projection), axis=1) == pytest.approx(np.ones(200))
