"""The reference MCP memory server: its file of JSON lines, `memory.json` or `memory.jsonl`.

    {"type": "entity", "name", "entityType", "observations": [...]}
    {"type": "relation", "from", "to", "relationType"}

A JSON object {"entities": [...], "relations": [...]}, as its tool `read_graph` returns it, will do
too. That server lets a relation name an entity that is not there: it becomes one, and that is told.
The graph says neither whose it is nor when anything was true.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from memory_actors.interchange.files import open_file
from memory_actors.interchange.sources.found import (
    Found,
    Reading,
    Source,
    as_object,
    check_names,
    metadata_of,
    present,
)
from memory_actors.interchange.sources.json_items import json_items, json_lines

ENTITY: Final = frozenset(("type", "name", "entityType", "observations"))
RELATION: Final = frozenset(("type", "from", "to", "relationType"))
MISSING: Final = "a relation names an entity that is not there: it was added without observations"
MEMBERS: Final = {"entities": "entity", "relations": "relation"}


def read(path: Path, reading: Reading) -> Iterator[Found]:
    """Yield the entities, then the relations: in the file they stand in any order."""
    names: set[str] = set()
    for place, record in _records(path, reading):
        if record.get("type") == "entity":
            names.add(str(record.get("name")))
            check_names(names, str(path))
            yield _entity(record, place, reading)
    quiet = Reading()
    for place, record in _records(path, quiet):
        if record.get("type") == "relation":
            yield from _missing(record, place, names, reading)
            yield _relation(record, place, reading)


def _records(path: Path, reading: Reading) -> Iterator[tuple[str, dict[str, Any]]]:
    for place, value in _values(path):
        record = as_object(value, place, reading)
        if record is None:
            continue
        if record.get("type") in MEMBERS.values():
            yield place, record
        else:
            reading.leave_out(place, f"of the type {record.get('type')!r:.60}")


def _values(path: Path) -> Iterator[tuple[str, Any]]:
    with open_file(path) as file:
        beginning = file.read(200)
    is_graph = any(f'"{member}"'.encode() in beginning for member in MEMBERS)
    yield from _of_graph(path) if is_graph else json_lines(path)


def _of_graph(path: Path) -> Iterator[tuple[str, Any]]:
    with open_file(path) as file:
        for number, (member, value) in enumerate(json_items(file, str(path)), start=1):
            named = isinstance(value, dict) and {**value, "type": MEMBERS.get(member, member)}
            yield f"{path}, {member} {number}", named or value


def _entity(record: Mapping[str, Any], place: str, reading: Reading) -> Found:
    name, kind = record.get("name"), record.get("entityType")
    parts = present(name=name, type=kind, observations=record.get("observations"))
    return Found(
        place=place,
        raw=record,
        key=["entity", name],
        replaces=True,
        fields=present(
            memory_type="entity", data=parts, metadata=metadata_of(record, ENTITY, reading)
        ),
    )


def _missing(
    record: Mapping[str, Any], place: str, names: set[str], reading: Reading
) -> Iterator[Found]:
    for end in ("from", "to"):
        name = record.get(end)
        if isinstance(name, str) and name not in names:
            names.add(name)
            reading.note(MISSING)
            yield _entity({"name": name}, place, reading)


def _relation(record: Mapping[str, Any], place: str, reading: Reading) -> Found:
    ends = [record.get("from"), record.get("to")]
    relation = record.get("relationType")
    return Found(
        place=place,
        raw=record,
        key=["relation", *ends, relation],
        replaces=True,
        fields=present(
            memory_type="entity",
            data=present(source=ends[0], target=ends[1]) | {"relation": relation},
            metadata=metadata_of(record, RELATION, reading),
        ),
    )


SOURCE: Final = Source("mcp-memory", "the file of the reference MCP memory server", read)
