"""Structured memory: what its commands decide, and what a document says."""

from typing import Any

import msgspec
from support.given import Given
from support.proposing import proposing

from memory_actors import Limits
from memory_actors.kinds import structured
from memory_actors.kinds.structured import (
    TEXT_CHARS_MAX,
    DocumentPut,
    PutDocument,
    document_text,
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


# --- put


def test_a_value_that_differs_beyond_its_text_is_another_one() -> None:
    past = put("d")
    other = msgspec.structs.replace(past, value=2, value_digest=b"json 2")
    command = msgspec.structs.replace(to_put("d"), document=other)
    assert given(past).when(command) == [other]


# --- texts


def test_a_documents_text_is_its_values_by_path() -> None:
    value = {"name": "Ana", "address": {"city": "Porto", "no": 7}, "tags": ["a", {"b": True}]}
    assert document_text("people", "ana", value | {"left": None, "none": []}) == (
        "people: ana\nname: Ana\naddress.city: Porto\naddress.no: 7\ntags: a\ntags.b: true"
    )
    assert document_text("notes", "n", "just this") == "notes: n\njust this"


def test_the_text_of_a_document_is_bounded() -> None:
    assert len(document_text("c", "d", {"a": "x" * 5_000})) == TEXT_CHARS_MAX
    many = document_text("c", "d", [{"field": number} for number in range(100_000)])
    assert len(many) == TEXT_CHARS_MAX
