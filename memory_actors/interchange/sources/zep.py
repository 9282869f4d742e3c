"""Zep and Graphiti: a JSON object of what their clients return, each list as it is.

    {"nodes": [...], "edges": [...], "episodes": [...], "messages": [...]}

Any of the lists may be missing. A node becomes an entity, its summary an observation; an edge a
relationship with its fact, true from `valid_at` to `invalid_at`; an episode and a message a memory
of its thread. `user_id`, `user_uuid` or `group_id` says whose. Times are those of the record:
`reference_time` or `created_at`.

Two nodes may have several edges of one name at a time, each with a fact. Here there is one such
relationship: it has the fact of the first edge, and those of the others become facts.
"""

import hashlib
from collections.abc import Iterator
from math import inf
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from memory_actors.interchange.noting import is_time, micros_of, time_of_others
from memory_actors.interchange.sources import port
from memory_actors.interchange.sources.json_items import json_values
from memory_actors.kinds.entity.graph import name_key, relation_key

USERS: Final = ("user_id", "user_uuid", "group_id")
NODE: Final = port.words(
    "user_id user_uuid group_id graph_uuid uuid uuid_ name labels summary attributes created_at",
    "score relevance degree name_embedding episode_uuids episode_uuids_truncated",
)
EDGE: Final = port.words(
    "user_id user_uuid group_id graph_uuid uuid uuid_ name fact attributes created_at expired_at",
    "valid_at invalid_at score relevance fact_embedding episodes episode_uuids scope",
    "hyperedge_uuid source_node_uuid source_node_name source_node_labels",
    "target_node_uuid target_node_name target_node_labels reference_time",
)
SAID: Final = port.words(
    "user_id user_uuid group_id graph_uuid uuid uuid_ name content role role_name role_type",
    "metadata created_at reference_time valid_at thread_id thread_uuid session_id score relevance",
    "processed source source_description content_policy document_id entity_edges labels",
)
LISTS: Final = ("nodes", "edges", "episodes", "messages")
SPANS_MAX: Final = 100  # of one relationship: each is compared with all of them
ANOTHER_FACT: Final = (
    "an edge has another fact of a relationship that is there at that time: it became a fact"
)
USUAL_LABELS: Final = ("Entity", "EntityNode")


class ZepNode(NamedTuple):
    """A node that edges may name."""

    name: str
    key: list[object] | None
    """The key of its record; it is None if the file has none."""


Nodes: TypeAlias = dict[tuple[str, str], ZepNode]
"""Nodes by their uuids, and by their names: of several that share a name, the first."""


def read(path: Path, reading: port.SourceReading) -> port.Records:
    """Yield nodes first, as edges name them, then all else in the order of the file."""
    nodes: Nodes = {}
    for place, _, record in _records(path, reading, ("nodes",)):
        if isinstance(name := record.get("name"), str):
            node = ZepNode(name, _key_of_node(record))
            nodes.setdefault(("name", name_key(name)), node)
            if (uuid := _uuid(record)) is not None:
                nodes.setdefault(("uuid", uuid), node)
        port.check_names(nodes, str(path))
        summary = record.get("summary")
        yield port.of_graph(
            place,
            record,
            _key_of_node(record),
            port.entity(record.get("name"), _label(record), [summary] if summary else None),
            user=_user(record),
            timestamp=record.get("created_at"),
            metadata=_more(record, reading, NODE),
        )
    told = _KnownFacts()
    for place, member, record in _records(path, reading, LISTS[1:]):
        if member != "edges":
            yield _said(record, place, reading)
            continue
        edge = _edge(record, place, nodes, reading)
        yield _fact_of(edge, reading) if told.before(edge) else edge
        port.check_names(told.facts, str(path))
    for _, member, _ in json_values(path, LISTS):
        if member not in LISTS:
            reading.note(f"{member[:60]!r} is none of {', '.join(LISTS)}: it was not read")


def _records(
    path: Path, reading: port.SourceReading, members: tuple[str, ...]
) -> Iterator[tuple[str, str, port.Fields]]:
    for number, member, value in json_values(path, LISTS):
        if member in members:
            place = f"{path}, {member} {number}"
            record = port.as_object(value, place, reading)
            if record is not None:
                yield place, member, record


def _uuid(record: port.Raw) -> str | None:
    uuid = record.get("uuid") or record.get("uuid_")
    return None if uuid is None else str(uuid)


def _user(record: port.Raw) -> Any:
    return next((record[name] for name in USERS if record.get(name)), None)


def _more(record: port.Raw, reading: port.SourceReading, known: frozenset[str]) -> port.Fields:
    own = record.get("attributes") or record.get("metadata")
    metadata = port.metadata_of(record, known, reading) | (own if isinstance(own, dict) else {})
    return metadata | port.present(zep_uuid=_uuid(record))


def _label(record: port.Raw) -> object:
    labels = record.get("labels")
    labels = labels if isinstance(labels, list) else ()
    return next((one for one in labels if one not in USUAL_LABELS), None)


def _end(record: port.Raw, end: str, nodes: Nodes) -> ZepNode | None:
    """Return the node that an edge names as its source or target, by its uuid or else its name."""
    by_uuid = nodes.get(("uuid", str(record.get(f"{end}_node_uuid"))))
    name = record.get(f"{end}_node_name")
    if by_uuid is not None or not isinstance(name, str):
        return by_uuid
    by_name = nodes.get(("name", name_key(name)))
    return ZepNode(name, None) if by_name is None else by_name


def _key_of_node(record: port.Raw) -> list[object]:
    uuid = _uuid(record)
    by_name = port.entity_key("node", record.get("name"), _label(record))
    return by_name if uuid is None else ["node", uuid]


def _edge(
    record: port.Raw, place: str, nodes: Nodes, reading: port.SourceReading
) -> port.SourceRecord:
    source, target = (_end(record, end, nodes) for end in ("source", "target"))
    data = port.relationship(
        source and source.name,
        record.get("name"),
        target and target.name,
        fact=record.get("fact"),
        valid_from=record.get("valid_at") or record.get("created_at"),
        valid_to=record.get("invalid_at"),
    )
    uuid = _uuid(record)
    return port.of_graph(
        place,
        record,
        ["edge", data if uuid is None else uuid],
        data,
        user=_user(record),
        ends=(source and source.key, target and target.key),
        metadata=_more(record, reading, EDGE),
    )


class _KnownFacts:
    def __init__(self) -> None:
        self.facts: dict[bytes, Any] = {}
        """The fact of each, by what no two relationships have in common at a time."""
        self._spans: dict[bytes, list[tuple[float, float]]] = {}
        """The spans of time in which each holds."""

    def before(self, edge: port.SourceRecord) -> bool:
        """Say whether an edge has another fact of a relationship that was told; remember it."""
        data = edge.fields["data"]
        relation = data["relation"]
        if not isinstance(relation, str):
            return False
        ends = [*edge.ends, data.get("source"), data.get("target")]
        what = repr([edge.user, relation_key(relation), *ends])
        key = hashlib.sha256(what.encode("utf-8", "replace")).digest()
        span = _moment(data.get("valid_from"), -inf), _moment(data.get("valid_to"), inf)
        spans = self._spans.setdefault(key, [])
        told = any(span[0] < end and begin < span[1] for begin, end in spans)
        if told or len(spans) >= SPANS_MAX:
            return data.get("fact") not in (None, self.facts[key])
        spans.append(span)
        self.facts[key] = data.get("fact")
        return False


def _moment(when: object, otherwise: float) -> float:
    micros = micros_of(time_of_others(when), "a time") if is_time(when) else None
    return otherwise if micros is None else micros


def _fact_of(edge: port.SourceRecord, reading: port.SourceReading) -> port.SourceRecord:
    """Convert an edge to a fact, with the entities and times of the edge in its metadata."""
    reading.note(ANOTHER_FACT)
    data = edge.fields["data"]
    about = {name: data.get(name) for name in ("source", "relation", "target", "valid_to")}
    fields = port.present(
        content=data["fact"],
        timestamp=data.get("valid_from"),
        metadata={**edge.fields.get("metadata", {}), **port.present(**about)},
    )
    return msgspec.structs.replace(edge, ends=(None, None), replaces=False, fields=fields)


def _said(record: port.Raw, place: str, reading: port.SourceReading) -> port.SourceRecord:
    when = (record.get(name) for name in ("reference_time", "valid_at", "created_at"))
    threads = (record.get(name) for name in ("thread_id", "session_id", "thread_uuid"))
    speaker = record.get("role_name") or record.get("name")
    uuid = _uuid(record)
    return port.SourceRecord(
        place=place,
        raw=record,
        user=_user(record),
        key=None if uuid is None else ["said", uuid],
        fields=port.present(
            content=record.get("content"),
            timestamp=next(filter(None, when), None),
            session=next(filter(None, threads), None),
            role=record.get("role") or record.get("role_type"),
            metadata=port.present(**_more(record, reading, SAID), speaker=speaker),
        ),
    )
