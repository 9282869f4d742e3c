"""Chroma: a persistent directory, or JSON of `collection.get()`; and MemPalace, which keeps one.

The `chroma.sqlite3` of a directory has the documents and their metadata. JSON is an object
{"ids": [...], "documents": [...], "metadatas": [...]} on one line, or one a line, as
`memory-actors export --to chroma` writes it.

Each document becomes a fact, of the user that its metadata names as `user_id`. It is as old as
its metadata says in `occurred_at`, `timestamp` or `created_at`, else as its row. Embeddings are not
read: ours are made anew. A record without a document is left out, unless `--map` says which
field of its metadata is its text.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from msgspec.structs import replace

from memory_actors.base.errors import InvalidInputError
from memory_actors.base.json_text import decoded
from memory_actors.interchange.files import open_file
from memory_actors.interchange.noting import is_time
from memory_actors.interchange.sources import port
from memory_actors.interchange.sources.databases import SqliteDB, database, has_table, rows
from memory_actors.interchange.sources.json_items import json_lines

FILE: Final = "chroma.sqlite3"
DOCUMENT: Final = "chroma:document"
TIMES: Final = ("occurred_at", "timestamp", "created_at")
"""Fields of metadata that say when it was true, if they read as a time."""
OURS: Final = ("user_id", "session_id", "role")
COLLECTIONS: Final = "SELECT id, name FROM collections NOT INDEXED"
RECORDS: Final = """
SELECT id, embedding_id, created_at FROM embeddings NOT INDEXED WHERE EXISTS (
    SELECT 1 FROM segments WHERE segments.id = embeddings.segment_id AND segments.collection = ?
)
"""
"""In the order of the table."""
FIELDS: Final = "SELECT key, string_value, int_value, float_value, bool_value FROM {} WHERE id = ?"
FIELDS_MAX: Final = 10_000


def read(path: Path, reading: port.SourceReading) -> port.Records:
    """Yield the records of all collections, each collection in the order it was filled."""
    path = path / FILE if path.is_dir() else path
    with open_file(path) as file:
        is_database = path.name == FILE or file.read(6) == b"SQLite"
    if is_database:
        yield from _read_database(path)
    else:
        for place, batch in json_lines(path, reading):
            yield from _of_batch(batch, place, reading)


# --- the directory


def _read_database(path: Path) -> port.Records:
    tables = ("collections", "segments", "embeddings", "embedding_metadata")
    with database(path, *tables) as connection:
        has_lists = has_table(connection, "embedding_metadata_array")
        for own_id, name in rows(connection, COLLECTIONS):
            for number, record_id, at in rows(connection, RECORDS, (own_id,)):
                record = {"collection": name, "id": record_id, "added_at": at}
                metadata = dict(_fields(connection, "embedding_metadata", number))
                lists: dict[str, list[Any]] = {}
                if has_lists:
                    for key, value in _fields(connection, "embedding_metadata_array", number):
                        lists.setdefault(key, []).append(value)
                metadata |= lists
                record["document"] = metadata.pop(DOCUMENT, None)
                place = f"{path}, {name} {record_id!r:.60}"
                yield _found(record | {"metadata": metadata}, place)


def _fields(connection: SqliteDB, table: str, number: int) -> Iterator[tuple[str, Any]]:
    found = rows(connection, FIELDS.format(table), (number,))
    for count, (key, *values) in enumerate(found, start=1):
        if count > FIELDS_MAX:
            raise InvalidInputError(
                f"{connection.path}: a record has over {FIELDS_MAX:,} fields of metadata"
            )
        *others, flag = values
        if key is not None:
            known = (one for one in others if one is not None)
            yield str(key), next(known, None) if flag is None else bool(flag)


# --- JSON


def _of_batch(batch: object, place: str, reading: port.SourceReading) -> port.Records:
    if not isinstance(batch, dict):
        raise InvalidInputError(f"{place} is no object with a list of 'ids'. Nothing was added")
    ids = batch.get("ids")
    nothing = [None] * len(ids) if isinstance(ids, list) else []
    lists: list[Any] = [ids, batch.get("documents") or nothing, batch.get("metadatas") or nothing]
    if not all(isinstance(one, list) and len(one) == len(lists[0]) for one in lists):
        raise InvalidInputError(
            f"{place}: 'ids', 'documents' and 'metadatas' must be lists of one length. Nothing was "
            "added"
        )
    for own_id, text, metadata in zip(*lists, strict=True):
        one = f"{place}, {own_id!r:.60}"
        if metadata is not None and not isinstance(metadata, dict):
            reading.leave_out(one, "its metadata is no JSON object")
            continue
        yield _found({"id": own_id, "document": text, "metadata": metadata or {}}, one)


def _found(record: port.Raw, place: str) -> port.SourceRecord:
    metadata = dict(record["metadata"])
    times = (metadata[name] for name in TIMES if is_time(metadata.get(name)))
    own = {name: metadata.pop(name, None) for name in OURS}
    our_id = record["id"] if port.is_ours(record["id"]) else None
    kept = port.present(collection=record.get("collection"), chroma_id=record["id"])
    return port.SourceRecord(
        place=place,
        raw=record,
        user=own["user_id"],
        key=None if record["id"] is None else [record.get("collection"), record["id"]],
        own_id=our_id,
        fields=port.present(
            content=record["document"],
            timestamp=next(times, record.get("added_at")),
            session=own["session_id"],
            role=own["role"],
            metadata={**metadata, **kept},
        ),
    )


# --- MemPalace


GRAPH: Final = "knowledge_graph.sqlite3"
CLOSETS: Final = "mempalace_closets"
POINTS: Final = "a closet points at drawers, and is not imported"
DRAWER_TIMES: Final = ("authored_at", "filed_at", "timestamp")
ENTITIES: Final = "SELECT id, name, type, properties FROM entities ORDER BY rowid"
TRIPLES: Final = """
SELECT id, subject, predicate, object, valid_from, valid_to, confidence, source_file
FROM triples ORDER BY rowid
"""


def read_mempalace(path: Path, reading: port.SourceReading) -> port.Records:
    """Yield the drawers of `~/.mempalace`, then the entities, then the relationships.

    A drawer, word for word, is a fact of its wing (a project or a person), which is the user.
    Closets point at drawers, and are left out. The graph names no wing: it belongs to the user of
    the import.
    """
    directory = path if path.is_dir() else path.parent
    stores = [one / FILE for one in (directory, directory / "palace")]
    graphs = [one / GRAPH for one in (directory, directory.parent)]
    if path.is_file():
        stores, graphs = [path] * (path.name != GRAPH), [path] * (path.name == GRAPH)
    drawers = next(filter(Path.is_file, stores), None)
    graph = next(filter(Path.is_file, graphs), None)
    if drawers is None and graph is None:
        raise InvalidInputError(
            f"{path} has no {FILE}, no palace/{FILE} and no {GRAPH}: is it the "
            "directory of MemPalace, ~/.mempalace?"
        )
    if drawers is not None:
        for record in read(drawers, reading):
            if record.raw.get("collection") == CLOSETS:
                reading.note(POINTS)
            else:
                said = record.raw["metadata"]
                time = next((said[name] for name in DRAWER_TIMES if is_time(said.get(name))), None)
                user = None if said.get("wing") is None else str(said["wing"])
                fields = record.fields | port.present(timestamp=time)
                yield replace(record, user=user, fields=fields)
    if graph is not None:
        with database(graph, "entities", "triples") as connection:
            yield from _graph(connection, reading)


def _graph(connection: SqliteDB, reading: port.SourceReading) -> port.Records:
    keys: dict[str, tuple[str, list[object]]] = {}
    """The name and the key of an entity, by its id there."""
    for own_id, name, kind, properties in rows(connection, ENTITIES):
        keys[str(own_id)] = str(name), port.entity_key("entity", name, kind)
        port.check_names(keys, str(connection.path))
        raw = {"id": own_id, "name": name, "type": kind, "properties": properties}
        place = f"{connection.path}, entity {own_id!r:.60}"
        about = _object(properties, reading)
        yield port.of_graph(
            place, raw, keys[str(own_id)][1], port.entity(name, kind), metadata=about
        )
    for own_id, source, relation, target, since, until, sure, file in rows(connection, TRIPLES):
        ends = [keys.get(str(end), (end, None)) for end in (source, target)]
        raw = {"id": own_id, "subject": source, "predicate": relation, "object": target}
        data = port.relationship(ends[0][0], relation, ends[1][0], valid_from=since, valid_to=until)
        place = f"{connection.path}, triple {own_id!r:.60}"
        about = port.present(confidence=sure, source_file=file)
        both = ends[0][1], ends[1][1]
        yield port.of_graph(place, raw, ["triple", own_id], data, ends=both, metadata=about)


def _object(text: object, reading: port.SourceReading) -> port.Fields:
    if text in (None, "", "{}"):
        return {}
    if isinstance(said := decoded(text), dict):
        return said
    reading.note("properties that are no JSON object were not taken over")
    return {}
