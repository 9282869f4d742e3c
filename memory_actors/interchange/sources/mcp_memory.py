"""The reference MCP memory server: its file of JSON lines, `memory.json` or `memory.jsonl`.

    {"type": "entity", "name", "entityType", "observations": [...]}
    {"type": "relation", "from", "to", "relationType"}

A JSON object {"entities": [...], "relations": [...]}, as its tool `read_graph` returns it, will do
too. That server accepts a relation with an unknown entity: the import creates the entity, and
reports it. The graph says neither whose it is nor when anything was true.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from memory_actors.interchange.files import open_file
from memory_actors.interchange.sources import port
from memory_actors.interchange.sources.json_items import json_lines, json_values
from memory_actors.kinds.entity.graph import name_key

ENTITY: Final = frozenset(("type", "name", "entityType", "observations"))
RELATION: Final = frozenset(("type", "from", "to", "relationType"))
MISSING: Final = "a relation names an entity that is not there: it was added without observations"
MEMBERS: Final = {"entities": "entity", "relations": "relation"}


def read(path: Path, reading: port.SourceReading) -> port.Records:
    """Yield the entities, then the relations: in the file they stand in any order."""
    keys: dict[str, list[Any]] = {}
    for place, record in _records(path, reading):
        if record.get("type") == "entity":
            _know(record, keys)
            port.check_names(keys, str(path))
            yield _entity(record, place, reading)
    quiet = port.SourceReading()
    for place, record in _records(path, quiet):
        if record.get("type") == "relation":
            for name in (record.get(end) for end in ("from", "to")):
                if isinstance(name, str) and name_key(name) not in keys:
                    missing = {"name": name}
                    _know(missing, keys)
                    port.check_names(keys, place)
                    reading.note(MISSING)
                    yield _entity(missing, place, reading)
            yield _relation(record, place, keys, reading)


def _records(path: Path, reading: port.SourceReading) -> Iterator[tuple[str, port.Fields]]:
    with open_file(path) as file:
        beginning = file.read(200)
    is_graph = any(f'"{member}"'.encode() in beginning for member in MEMBERS)
    for place, value in _of_graph(path) if is_graph else json_lines(path, reading):
        record = port.as_object(value, place, reading)
        if record is None:
            continue
        if record.get("type") in MEMBERS.values():
            yield place, record
        else:
            reading.leave_out(place, f"of the type {record.get('type')!r:.60}")


def _of_graph(path: Path) -> Iterator[tuple[str, object]]:
    for number, member, value in json_values(path, MEMBERS):
        named = isinstance(value, dict) and {**value, "type": MEMBERS.get(member, member)}
        yield f"{path}, {member} {number}", named or value


def _know(record: port.Raw, keys: dict[str, list[object]]) -> None:
    name = record.get("name")
    if isinstance(name, str):
        keys.setdefault(name_key(name), _key(record))


def _key(record: port.Raw) -> list[object]:
    return port.entity_key("entity", record.get("name"), record.get("entityType"))


def _entity(record: port.Raw, place: str, reading: port.SourceReading) -> port.SourceRecord:
    name, kind = record.get("name"), record.get("entityType")
    data = port.entity(name, kind, _observations(record, reading))
    metadata = port.metadata_of(record, ENTITY, reading)
    return port.of_graph(place, record, _key(record), data, metadata=metadata)


def _observations(record: port.Raw, reading: port.SourceReading) -> object:
    """Return the observations that are texts; one that is none costs the others nothing."""
    given = record.get("observations")
    if not isinstance(given, list):
        return given
    texts = [one for one in given if isinstance(one, str) and one.strip()]
    for _ in given[len(texts) :]:
        reading.note("an observation that is no text was not taken over")
    return texts


def _relation(
    record: port.Raw, place: str, keys: Mapping[str, list[object]], reading: port.SourceReading
) -> port.SourceRecord:
    ends = [record.get("from"), record.get("to")]
    source, target = (keys.get(name_key(end)) if isinstance(end, str) else None for end in ends)
    relation = record.get("relationType")
    return port.of_graph(
        place,
        record,
        ["relation", source, target, relation],
        port.relationship(ends[0], relation, ends[1]),
        ends=(source, target),
        metadata=port.metadata_of(record, RELATION, reading),
    )
