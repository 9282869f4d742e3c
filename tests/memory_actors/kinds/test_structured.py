"""Structured memory: what its commands decide, and what a document says."""

from typing import Any

import msgspec
import pytest
from support.given import Given, fold, recorded
from support.proposing import proposing

from memory_actors.base.quota import Limits
from memory_actors.kinds import structured
from memory_actors.kinds.passages import Passage, label
from memory_actors.kinds.structured import (
    TEXT_CHARS_MAX,
    DocumentPut,
    PutDocument,
    RestoreDocuments,
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


# --- put


def test_a_put_replaces_metadata_and_pin_where_it_names_them() -> None:
    past = put("d", metadata={"m": 1}, pinned=True)
    (event,) = given(past).when(to_put("d", metadata={}, pinned=False))
    assert event == put("d")


def test_a_value_that_differs_beyond_its_text_is_another_one() -> None:
    past = put("d")
    other = msgspec.structs.replace(past, value=2, value_digest=b"json 2")
    command = msgspec.structs.replace(to_put("d"), document=other)
    assert given(past).when(command) == [other]


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
