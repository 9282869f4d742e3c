"""The port of a source, and the records that it hands over, in the words of a line.

A reader is a plain function from a path to records, in their order; how they become memories is in
`importing`. A file that is damaged is an error. A record that cannot be understood is left out
whole, and told; so is whatever a record says that has no place here.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, TypeAlias

import msgspec

from memory_actors.base.errors import InvalidInputError
from memory_actors.base.records import JsonObject
from memory_actors.interchange.noting import SourceReading as SourceReading
from memory_actors.kinds.entity.graph import name_key

NAMES_MAX: Final = 1_000_000
"""The limit for entities of a file, which a reader keeps in memory: far above any quota of them."""
OUR_ID: Final = re.compile(r"mem_[0-9a-f]{30}|imp_[0-9a-f]{40}|[a-z0-9-]{1,20}_[0-9a-f]{32}")
"""Matches ids of memories that were added here, or by an import."""


Fields: TypeAlias = JsonObject
Raw: TypeAlias = Mapping[str, Any]
"""A record as its program has it."""


class SourceRecord(msgspec.Struct, kw_only=True):
    """A record, as one memory."""

    place: str
    fields: Fields
    """The fields of a line; without content or data it can be understood only if told how."""
    raw: Raw
    """The record as its program has it, where `--user-field` and `--map` look."""
    user: str | None = None
    key: object = None
    """The key that tells it from others of its file, if it has one; JSON."""
    ends: tuple[object, object] = (None, None)
    """Of a relationship: the keys of the records that are its source and its target, if known."""
    own_id: object = None
    """Its id, if that is one in all the world: it keeps it, unless another memory has it here."""
    replaces: bool = False
    """True if it stays the same memory when it says something else: its key alone makes its id."""


Records: TypeAlias = Iterator[SourceRecord]
Read: TypeAlias = Callable[[Path, SourceReading], Records]


def words(*of_them: str) -> frozenset[str]:
    """Return the words of some texts."""
    return frozenset(" ".join(of_them).split())


def metadata_of(record: Raw, known: frozenset[str], reading: SourceReading) -> Fields:
    """Return the fields of a record that its reader does not know: they are kept, and told."""
    others = {name: value for name, value in record.items() if name not in known}
    for name in others:
        reading.note(f"{name[:60]!r} is no field that is understood: it is kept as metadata")
    return {name: value for name, value in others.items() if value is not None}


def present(**fields: object) -> Fields:
    """Return the fields that have a value."""
    return {name: value for name, value in fields.items() if value not in (None, "", [], {})}


def entity(name: object, kind: object, observations: object = None) -> Fields:
    """Return an entity as the `data` of a line."""
    return present(name=name, type=kind, observations=observations)


def relationship(source: object, relation: object, target: object, **more: object) -> Fields:
    """Return a relationship as the `data` of a line; without a relation it is refused as none."""
    return present(source=source, target=target, **more) | {"relation": relation}


def of_graph(
    place: str,
    raw: Raw,
    key: object,
    data: Mapping[str, object],
    *,
    user: str | None = None,
    ends: tuple[object, object] = (None, None),
    **fields: object,
) -> SourceRecord:
    """Return the record of an entity or a relationship: it stays the same memory."""
    return SourceRecord(
        place=place, raw=raw, user=user, key=key, ends=ends, replaces=True,
        fields=present(memory_type="entity", data=data, **fields),
    )  # fmt: skip


def document(collection: str, key: object, value: object) -> Fields:
    """Return the fields of a line that is a document."""
    data = {"collection": collection, "key": key, "value": value}
    return {"memory_type": "structured", "data": data}


def as_object(value: object, place: str, reading: SourceReading) -> Fields | None:
    """Return a record if it is a JSON object; what is none is left out."""
    if isinstance(value, dict):
        return value
    reading.leave_out(place, f"a record must be a JSON object, not {type(value).__name__}")
    return None


def entity_key(sort: str, name: object, kind: object) -> list[object]:
    """Return the key of an entity: what memory takes for one entity has one."""
    return [sort, *(name_key(one) if isinstance(one, str) else one for one in (name, kind))]


def is_ours(own_id: object) -> bool:
    """Say whether an id is one of our own, as an export has it: what comes back is not doubled."""
    return isinstance(own_id, str) and bool(OUR_ID.fullmatch(own_id))


def check_names(names: object, place: str) -> None:
    """Refuse a file that has more entities than can be told apart."""
    if len(names) > NAMES_MAX:  # type: ignore[arg-type]
        raise InvalidInputError(f"{place} has over {NAMES_MAX:,} entities: split the file")
