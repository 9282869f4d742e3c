"""Packed rows: a map of rows by id, of which most are bytes."""

from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from memory_actors.kinds.long_term.state import ROWS, MemoryRow
from memory_actors.kinds.packed import PackedRows

IDS = st.sampled_from([*"abcdef", "é" * 12, "x" * 31, "y" * 32, "z" * 255, "w" * 300])


def row(memory_id: str, version: int, said: int = 0) -> MemoryRow:
    return MemoryRow(
        memory_id=memory_id, version=version, size_bytes=version, stored_bytes=0,
        created_at_us=1 << 50, occurred_at_us=-5, metadata={"n": version}, pinned=False,
        digest=bytes([said]) * 32, session_id=None, role=None, began=version,
        original_count=int(said == 9),
    )  # fmt: skip


CHANGES = st.lists(
    st.tuples(
        st.sampled_from(["put", "put", "put", "pop", "pack", "begin", "over"]),
        IDS, st.integers(0, 300), st.integers(7, 9),
    ),
    max_size=40,
)  # fmt: skip


def changed(
    rows: PackedRows[MemoryRow], known: dict[str, MemoryRow], change: Any
) -> PackedRows[MemoryRow]:
    what, memory_id, version, said = change
    draft = rows.mutate()
    if what == "put":
        known[memory_id] = draft[memory_id] = row(memory_id, version, said)
    elif memory_id in known:
        assert draft.pop(memory_id) == known.pop(memory_id)
    return draft.finish()


@settings(max_examples=300, deadline=None)
@given(CHANGES)
def test_rows_are_those_of_a_dictionary_whatever_is_packed_when(changes: list[Any]) -> None:
    rows, known = PackedRows(ROWS), dict[str, MemoryRow]()
    then = rows
    for change in changes:
        what = change[0]
        if what == "pack":
            then = rows = PackedRows.unpacked(ROWS, rows.packed())
            assert rows.changed == 0
        elif what == "begin":
            then = rows
        elif what == "over":
            then = rows = rows.over(then, then.in_one_piece())
        else:
            rows = changed(rows, known, change)
        assert rows == known
    assert (len(rows), sorted(rows)) == (len(known), sorted(known))
    assert {name: rows.get(name) for name in [*known, "?"]} == {**known, "?": None}
    for said in (7, 8, 9):
        key = ROWS.key(row("a", 0, said))
        of_key = sorted(name for name, one in known.items() if ROWS.key(one) == key != 0)
        assert rows.with_key(key or 1) == of_key
    anew = PackedRows(ROWS).mutate()
    for one in known.values():
        anew[one.memory_id] = one
    assert rows.packed() == anew.finish().packed(), "the same rows are the same bytes"
    ordered = sorted(known.values(), key=lambda one: (one.version, one.memory_id))
    assert rows.packed().rows == b"".join(map(msgspec.msgpack.encode, ordered))


def test_rows_that_were_made_anew_do_not_rest_on_those_of_then() -> None:
    known: dict[str, MemoryRow] = {}
    then = changed(PackedRows(ROWS), known, ("put", "a", 1, 7)).in_one_piece()
    anew = changed(PackedRows(ROWS), {}, ("put", "b", 2, 8))
    assert anew.over(then, then.in_one_piece()) is anew
