"""MemPalace: the directory `~/.mempalace`, with a Chroma store of drawers and a knowledge graph.

A drawer is a piece of text, word for word. It becomes a fact of its wing (a project or a person),
which is the user. It is as old as it was authored, else filed. Closets point at drawers, and are
left out. The graph, `knowledge_graph.sqlite3`, names no wing: its entities and relationships belong
to the user of the import.
"""

from pathlib import Path
from typing import Final

from msgspec.structs import replace

from memory_actors.base.errors import InvalidInputError
from memory_actors.base.json_text import decoded
from memory_actors.interchange.noting import is_time
from memory_actors.interchange.sources import chroma, port
from memory_actors.interchange.sources.databases import SqliteDB, database, rows

GRAPH: Final = "knowledge_graph.sqlite3"
CLOSETS: Final = "mempalace_closets"
POINTS: Final = "a closet points at drawers, and is not imported"
TIMES: Final = ("authored_at", "filed_at", "timestamp")
"""Fields of a drawer that say how old it is, the best first."""
ENTITIES: Final = "SELECT id, name, type, properties FROM entities ORDER BY rowid"
TRIPLES: Final = """
SELECT id, subject, predicate, object, valid_from, valid_to, confidence, source_file
FROM triples ORDER BY rowid
"""


def read(path: Path, reading: port.SourceReading) -> port.Records:
    """Yield the drawers, then the entities, then the relationships."""
    directory = path if path.is_dir() else path.parent
    stores = [one / chroma.FILE for one in (directory, directory / "palace")]
    graphs = [one / GRAPH for one in (directory, directory.parent)]
    if path.is_file():
        stores, graphs = [path] * (path.name != GRAPH), [path] * (path.name == GRAPH)
    drawers = next(filter(Path.is_file, stores), None)
    graph = next(filter(Path.is_file, graphs), None)
    if drawers is None and graph is None:
        raise InvalidInputError(
            f"{path} has no {chroma.FILE}, no palace/{chroma.FILE} and no {GRAPH}: is it the "
            "directory of MemPalace, ~/.mempalace?"
        )
    if drawers is not None:
        for record in chroma.read(drawers, reading):
            if record.raw.get("collection") == CLOSETS:
                reading.note(POINTS)
            else:
                said = record.raw["metadata"]
                time = next((said[name] for name in TIMES if is_time(said.get(name))), None)
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
