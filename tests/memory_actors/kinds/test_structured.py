"""Structured memory: what its commands decide, and what a document says."""

from typing import Any

import msgspec
import pytest
from support.given import Given, fold, recorded
from support.proposing import proposing

from memory_actors.base.errors import InvalidInputError, NotFoundError, QuotaExceededError
from memory_actors.base.quota import MIB, Limits
from memory_actors.kinds import structured
from memory_actors.kinds.kind import Tally
from memory_actors.kinds.passages import Passage, label
from memory_actors.kinds.structured import (
    TEXT_CHARS_MAX,
    DeleteDocument,
    DocumentDeleted,
    DocumentPut,
    DocumentRestored,
    DocumentsPruned,
    DocumentUpdated,
    PutDocument,
    RestoreDocuments,
    UpdateDocument,
    document_text,
    value_json,
)


def put(
    name: str, value: Any = 1, *, collection: str = "c", key: str | None = None, at: int = 0,
    size: int = 10, **how: Any,
) -> DocumentPut:  # fmt: skip
    """Return the event; a document's key is its id unless one is given."""
    return DocumentPut(
        memory_id=name, collection=collection, key=key or name, value=value, size_bytes=size,
        digest=f"text {value}".encode(), value_digest=f"json {value}".encode(),
        occurred_at_us=at, **how,
    )  # fmt: skip


def to_put(name: str, value: Any = 1, **how: Any) -> PutDocument:
    """Return the command that leads to `put`."""
    given = {f: how.pop(f) for f in ("collection", "key", "at", "size") if f in how}
    fields = msgspec.structs.asdict(put(name, value, **given))
    return proposing(PutDocument, now_us=1, **(fields | {"metadata": None, "pinned": None} | how))


def updated(name: str, value: Any, size: int = 10, **how: Any) -> DocumentUpdated:
    return DocumentUpdated(
        memory_id=name, value=value, size_bytes=size, digest=f"text {value}".encode(),
        value_digest=f"json {value}".encode(), **how,
    )  # fmt: skip


def to_update(name: str, value: Any = None, size: int = 10, **how: Any) -> UpdateDocument:
    if value is None:
        return proposing(UpdateDocument, now_us=1, memory_id=name, **how)
    change = updated(name, value, size, **how)
    return UpdateDocument(now_us=1, change=change)


def given(*events: Any, **limits: Any) -> Given:
    return Given(structured.KIND, *events, limits=Limits(**limits))


def restore(events: list[Any], *names: str) -> RestoreDocuments:
    """Return the command with the past that the log would find under each id."""
    log = [recorded(event, version) for version, event in enumerate(events, start=1)]
    past = {
        name: [entry for entry in log if name in structured.KIND.registry.keys(entry.data)]
        for name in names
    }
    return RestoreDocuments(now_us=1, memory_ids=names, past=past)


def deleted(name: str) -> DocumentDeleted:
    return DocumentDeleted(memory_id=name)


# --- put


def test_a_put_is_one_event_with_the_value() -> None:
    assert given().when(to_put("d", {"a": [1, None]})) == [put("d", {"a": [1, None]})]
    (event,) = given().when(to_put("d", metadata={"k": 1}, pinned=True))
    assert event == put("d", metadata={"k": 1}, pinned=True)


def test_a_put_replaces_the_value_and_keeps_the_document() -> None:
    """A put replaces the value under its key, and keeps the document."""
    past = [put("d", 1, key="k", metadata={"m": 1}, pinned=True)]
    (event,) = given(*past).when(to_put("new", 2, key="k", at=7, size=12))
    assert event == put("d", 2, key="k", at=7, size=12, metadata={"m": 1}, pinned=True)
    row = fold(structured.KIND, [*past, event]).held.named("c", "k")
    assert row is not None
    assert (row.memory_id, row.created_at_us, row.version, row.size_bytes) == ("d", 1_001, 2, 12)


def test_a_put_replaces_metadata_and_pin_where_it_names_them() -> None:
    past = put("d", metadata={"m": 1}, pinned=True)
    (event,) = given(past).when(to_put("d", metadata={}, pinned=False))
    assert event == put("d")


def test_a_put_that_changes_nothing_is_satisfied() -> None:
    past = put("d", metadata={"m": 1}, pinned=True)
    for same in ({}, {"metadata": {"m": 1}}, {"pinned": True}, {"at": 9}):
        assert given(past).when(to_put("other", key="d", **same)) == []
    assert given(past).when(to_put("d", metadata={"m": True})) != []


def test_a_value_that_differs_beyond_its_text_is_another_one() -> None:
    past = put("d")
    other = msgspec.structs.replace(past, value=2, value_digest=b"json 2")
    command = msgspec.structs.replace(to_put("d"), document=other)
    assert given(past).when(command) == [other]


def test_the_same_key_in_another_collection_is_another_document() -> None:
    assert given(put("d", key="k")).when(to_put("e", collection="other", key="k")) == [
        put("e", collection="other", key="k")
    ]


@pytest.mark.parametrize(
    "first", [put("d", collection="other"), put("d", key="other"), deleted("d")]
)
def test_an_id_that_stands_for_another_memory_is_refused(first: Any) -> None:
    with pytest.raises(InvalidInputError, match="stands for another"):
        given().when(to_put("d", own_ids=("d",), used={"d": first}))
    if isinstance(first, DocumentPut):
        with pytest.raises(InvalidInputError, match="stands for another"):
            given(first).when(to_put("d"))


def test_a_document_that_was_deleted_can_be_put_again() -> None:
    past = [put("d"), deleted("d")]
    events = given(*past).when(to_put("d", own_ids=("d",), used={"d": past[0]}))
    assert events == [put("d")]
    row = structured.KIND.find(fold(structured.KIND, past + events), "d")
    assert row is not None
    assert row.created_at_us == 1_003


# --- the limits


def full(count: int, **limits: Any) -> Given:
    return given(*(put(f"d{i:02}", at=i) for i in range(count)), documents=count, **limits)


def test_a_full_memory_refuses_with_advice() -> None:
    with pytest.raises(QuotaExceededError) as refused:
        full(20).when(to_put("x"))
    assert str(refused.value) == (
        "User has 20 structured documents (max: 20). "
        "Delete old memories, or raise documents in Settings.tiers."
    )
    assert (refused.value.kind, refused.value.used, refused.value.limit) == ("structured", 20, 20)


def test_a_memory_full_by_size_refuses_with_both_sizes() -> None:
    past = put("d", size=int(49.98 * MIB))
    with pytest.raises(QuotaExceededError, match=r"\(49\.98 MB of 50 MB\)"):
        given(past).when(to_put("x", size=MIB))


def test_a_refusal_names_the_limit_that_is_passed() -> None:
    past = [put("d", size=60), put("e", size=40)]
    tight = given(*past, documents=3, structured_bytes=100)
    gone = restore([*past, put("f", size=10), deleted("f")], "f")
    for command in (to_put("f", size=10), to_update("d", 2, size=61), gone):
        with pytest.raises(QuotaExceededError) as refused:
            tight.when(command)
        assert (refused.value.unit, refused.value.limit) == ("bytes", 100)
    with pytest.raises(QuotaExceededError) as refused:
        given(*past, documents=2).when(gone)
    assert (refused.value.unit, refused.value.limit) == ("count", 2)


def test_a_replacement_fits_into_a_memory_full_by_count() -> None:
    assert full(3).when(to_put("d01", 2)) == [put("d01", 2)]


def test_a_replacement_above_the_size_may_only_shrink() -> None:
    """A replacement may not grow beyond the size, but may shrink above it."""
    past = [put("d", size=60), put("e", size=60)]
    with pytest.raises(QuotaExceededError):
        given(*past, structured_bytes=100).when(to_put("d", 2, size=61))
    assert len(given(*past, structured_bytes=100).when(to_put("d", 2, size=60))) == 1


def test_a_prune_names_the_oldest_tenth() -> None:
    """A prune names the oldest tenth, and comes before the put."""
    assert full(40).when(to_put("x", auto_prune=True)) == [
        DocumentsPruned(memory_ids=("d00", "d01", "d02", "d03"), cause="quota"), put("x")
    ]  # fmt: skip


def test_a_pinned_document_is_never_pruned() -> None:
    past = [put("pin", at=0, pinned=True), put("free", at=9)]
    prune, _ = given(*past, documents=2).when(to_put("x", auto_prune=True))
    assert prune.memory_ids == ("free",)
    with pytest.raises(QuotaExceededError):
        given(past[0], documents=1).when(to_put("x", auto_prune=True))


def test_a_prune_by_size_takes_as_many_tenths_as_needed() -> None:
    prune, _ = full(40, structured_bytes=400).when(to_put("x", size=95, auto_prune=True))
    assert len(prune.memory_ids) == 12


def test_what_can_never_fit_prunes_nothing() -> None:
    with pytest.raises(QuotaExceededError):
        full(40, structured_bytes=400).when(to_put("x", size=401, auto_prune=True))


def test_a_document_is_not_pruned_for_its_own_replacement() -> None:
    past = [put("d", at=0), put("e", at=1)]
    events = given(*past, structured_bytes=20).when(to_put("d", 2, size=15, auto_prune=True))
    assert events == [DocumentsPruned(memory_ids=("e",), cause="quota"), put("d", 2, size=15)]


# --- update, delete


def test_an_update_replaces_the_value() -> None:
    assert given(put("d")).when(to_update("d", 2, 12)) == [updated("d", 2, 12)]
    row = structured.KIND.find(fold(structured.KIND, [put("d"), updated("d", 2, 12)]), "d")
    assert row is not None
    assert (row.version, row.size_bytes, row.value_digest, row.key) == (2, 12, b"json 2", "d")


def test_an_update_keeps_what_it_does_not_name() -> None:
    (event,) = given(put("d")).when(to_update("d", metadata={"k": 1}))
    assert event == DocumentUpdated(memory_id="d", metadata={"k": 1})
    row = structured.KIND.find(fold(structured.KIND, [put("d"), event]), "d")
    assert row is not None
    assert (row.metadata, row.version, row.size_bytes) == ({"k": 1}, 1, 10)


def test_an_update_that_changes_nothing_is_satisfied() -> None:
    assert given(put("d")).when(to_update("d", 1, metadata={})) == []


def test_an_update_above_the_quota_may_only_shrink() -> None:
    """An update may not grow beyond the quota, but may shrink above it."""
    above = given(put("d", size=60), put("e", size=60), structured_bytes=100)
    with pytest.raises(QuotaExceededError):
        above.when(to_update("d", 2, 61))
    assert above.when(to_update("d", 2, 60)) == [updated("d", 2, 60)]


def test_a_delete_is_one_event_and_leaves_nothing() -> None:
    assert given(put("d")).when(DeleteDocument(now_us=1, memory_id="d")) == [deleted("d")]
    assert fold(structured.KIND, [put("d"), deleted("d")]) == structured.KIND.initial


@pytest.mark.parametrize(
    "command",
    [DeleteDocument(now_us=1, memory_id="d"), to_update("d", 2), restore([], "d")],
    ids=lambda command: type(command).__name__,
)
def test_a_document_that_is_not_there_cannot_be_changed(command: Any) -> None:
    with pytest.raises(NotFoundError, match="'d'"):
        given().when(command)


# --- restore


@pytest.mark.parametrize("gone", [deleted("d"), DocumentsPruned(memory_ids=("d",), cause="quota")])
def test_a_document_comes_back_as_it_was(gone: Any) -> None:
    past = [
        put("d", at=5, pinned=True), put("d", 2, at=6, pinned=True, metadata={"m": 1}),
        updated("d", 3, 13), DocumentUpdated(memory_id="d", metadata={"k": 1}), gone,
    ]  # fmt: skip
    assert given(*past).when(restore(past, "d", "d")) == [
        DocumentRestored(
            **msgspec.structs.asdict(put("d", 3, at=6, size=13, pinned=True, metadata={"k": 1})),
            created_at_us=1_001,
        )
    ]


def test_it_comes_back_a_second_time_from_its_last_life() -> None:
    past: list[Any] = [put("d"), deleted("d")]
    past += given(*past).when(restore(past, "d"))
    past += [updated("d", 2), deleted("d")]
    (event,) = given(*past).when(restore(past, "d"))
    assert (event.value, event.created_at_us) == (2, 1_001)
    past += [put("d", 4), deleted("d")]
    (event,) = given(*past).when(restore(past, "d"))
    assert (event.value, event.created_at_us) == (4, 1_006)


def test_a_document_that_is_there_needs_no_restoring() -> None:
    assert given(put("d")).when(restore([put("d")], "d")) == []


def test_a_document_whose_key_is_taken_is_not_restored() -> None:
    past = [put("d", key="k"), deleted("d"), put("e", key="k")]
    with pytest.raises(InvalidInputError, match="'k' of collection 'c' is now another document's"):
        given(*past).when(restore(past, "d"))
    past.append(deleted("e"))
    with pytest.raises(InvalidInputError, match="'k' of collection 'c' is now another document's"):
        given(*past).when(restore(past, "d", "e"))


def test_documents_come_back_within_the_quota_all_or_none() -> None:
    past = [put("d"), put("e"), DocumentsPruned(memory_ids=("d", "e"), cause="quota")]
    for limits in ({"documents": 1}, {"structured_bytes": 19}):
        with pytest.raises(QuotaExceededError):
            given(*past, **limits).when(restore(past, "d", "e"))
    both = given(*past, documents=2, structured_bytes=20).when(restore(past, "d", "e"))
    assert [event.memory_id for event in both] == ["d", "e"]


# --- reads


def test_sums_follow_every_event() -> None:
    events = [
        put("d"), put("e"), updated("d", 2, 7), deleted("e"), put("f"),
        DocumentsPruned(memory_ids=("f",), cause="quota"),
    ]  # fmt: skip
    assert structured.KIND.tally(fold(structured.KIND, events)) == Tally(
        count=1, size_bytes=7, stored_bytes=10, pruned=1
    )


def test_quotas_are_documents_and_bytes() -> None:
    found = structured.KIND.quotas(
        fold(structured.KIND, [put("d")]), Limits(documents=4, structured_bytes=100), None
    )
    assert [(use.quota, use.unit, use.used, use.limit) for use in found] == [
        ("documents", "count", 1, 4), ("bytes", "bytes", 10, 100)
    ]  # fmt: skip


def test_documents_are_found_by_collection_and_key() -> None:
    state = fold(structured.KIND, [put("d"), put("e", collection="b"), put("f"), deleted("f")])
    assert [row.memory_id for row in state.held.of_group("c")] == ["d"]
    assert list(state.held.of_group("nothing")) == []
    assert structured.KIND.collections(state) == {"b": 1, "c": 1}
    assert state.held.named("b", "e") == structured.KIND.find(state, "e")
    assert state.held.named("b", "d") is None
    assert state.held.named("nothing", "d") is None


def test_a_collection_goes_with_its_last_document() -> None:
    assert structured.KIND.collections(fold(structured.KIND, [put("d"), deleted("d")])) == {}


def test_a_dump_loads_back_to_the_same_state() -> None:
    state = fold(structured.KIND, [put("d"), put("e", collection="b", pinned=True), deleted("d")])
    assert structured.KIND.load(structured.KIND.dump(state)) == state
    encoded = msgspec.msgpack.encode(structured.KIND.dump(state))
    assert structured.KIND.load(msgspec.msgpack.decode(encoded, type=structured.KIND.Dump)) == state


# --- texts


@pytest.mark.parametrize("value", [{"b": 1, "a": [1.5, None, "é"]}, [], "text", 0, False, None])
def test_the_value_comes_back_exactly(value: Any) -> None:
    prepared = structured.KIND.registry.prepare(put("d", value))
    event = structured.KIND.registry.decode(prepared.tag, prepared.schema, prepared.raw)[0]
    row = structured.KIND.find(fold(structured.KIND, [event]), "d")
    log = {1: recorded(event)}
    assert structured.KIND.data(row, log) == {"collection": "c", "key": "d", "value": value}
    assert structured.KIND.content(row, log) == value_json(value)
    assert msgspec.json.decode(structured.KIND.content(row, log)) == value


def test_a_document_is_found_by_its_text() -> None:
    event = put("d", {"name": "Ana"})
    row = structured.KIND.find(fold(structured.KIND, [event]), "d")
    assert row is not None
    assert structured.KIND.passages(row) == (Passage(label(1), row.digest),)
    assert structured.KIND.sources(row) == (1,)
    assert structured.KIND.passage_text(row, label(1), {1: recorded(event)}) == "c: d\nname: Ana"


def test_a_documents_text_is_its_values_by_path() -> None:
    """The text of a document is its values under their paths."""
    value = {"name": "Ana", "address": {"city": "Porto", "no": 7}, "tags": ["a", {"b": True}]}
    assert document_text("people", "ana", value | {"left": None, "none": []}) == (
        "people: ana\nname: Ana\naddress.city: Porto\naddress.no: 7\ntags: a\ntags.b: true"
    )
    assert document_text("notes", "n", "just this") == "notes: n\njust this"


def test_the_text_of_a_document_is_bounded() -> None:
    assert len(document_text("c", "d", {"a": "x" * 5_000})) == TEXT_CHARS_MAX
    many = document_text("c", "d", [{"field": number} for number in range(100_000)])
    assert len(many) == TEXT_CHARS_MAX
