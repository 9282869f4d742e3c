"""Zep and Graphiti: a JSON object of what their clients return, each list as it is.

    {"nodes": [...], "edges": [...], "episodes": [...], "messages": [...]}

Any of the lists may be missing. A node becomes an entity, its summary an observation; an edge a
relationship with its fact, true from `valid_at` to `invalid_at`; an episode and a message a memory
of its thread. `user_id`, `user_uuid` or `group_id` says whose. Times are those of the record:
`reference_time` or `created_at`.
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
    words,
)
from memory_actors.interchange.sources.json_items import json_items

USERS: Final = ("user_id", "user_uuid", "group_id")
NODE: Final = words(
    "user_id user_uuid group_id graph_uuid uuid uuid_ name labels summary attributes created_at",
    "score relevance degree name_embedding episode_uuids episode_uuids_truncated",
)
EDGE: Final = words(
    "user_id user_uuid group_id graph_uuid uuid uuid_ name fact attributes created_at expired_at",
    "valid_at invalid_at score relevance fact_embedding episodes episode_uuids scope",
    "hyperedge_uuid source_node_uuid source_node_name source_node_labels",
    "target_node_uuid target_node_name target_node_labels reference_time",
)
SAID: Final = words(
    "user_id user_uuid group_id graph_uuid uuid uuid_ name content role role_name role_type",
    "metadata created_at reference_time valid_at thread_id thread_uuid session_id score relevance",
    "processed source source_description content_policy document_id entity_edges labels",
)
LISTS: Final = ("nodes", "edges", "episodes", "messages")
USUAL_LABELS: Final = ("Entity", "EntityNode")


def read(path: Path, reading: Reading) -> Iterator[Found]:
    """Yield nodes first, as edges name them, then all else in the order of the file."""
    nodes: dict[str, str] = {}
    for place, _, record in _records(path, reading, ("nodes",)):
        nodes[_uuid(record)] = str(record.get("name"))
        check_names(nodes, str(path))
        yield _node(record, place, reading)
    for place, member, record in _records(path, reading, LISTS[1:]):
        yield (
            _edge(record, place, nodes, reading)
            if member == "edges"
            else _said(record, place, reading)
        )
    _note_others(path, reading)


def _records(
    path: Path, reading: Reading, members: tuple[str, ...]
) -> Iterator[tuple[str, str, dict[str, Any]]]:
    with open_file(path) as file:
        for number, (member, value) in enumerate(json_items(file, str(path)), start=1):
            if member in members:
                place = f"{path}, {member} {number}"
                record = as_object(value, place, reading)
                if record is not None:
                    yield place, member, record


def _note_others(path: Path, reading: Reading) -> None:
    with open_file(path) as file:
        for member, _ in json_items(file, str(path)):
            if member not in LISTS:
                reading.note(f"{member[:60]!r} is none of {', '.join(LISTS)}: it was not read")


def _uuid(record: Mapping[str, Any]) -> str:
    return str(record.get("uuid") or record.get("uuid_"))


def _user(record: Mapping[str, Any]) -> Any:
    return next((record[name] for name in USERS if record.get(name)), None)


def _more(record: Mapping[str, Any], reading: Reading, known: frozenset[str]) -> dict[str, Any]:
    """Return metadata: what is not known, its own attributes, and the id that Zep gave it."""
    own = record.get("attributes") or record.get("metadata")
    own = own if isinstance(own, dict) else {}
    return {**metadata_of(record, known, reading), **own, "zep_uuid": _uuid(record)}


def _node(record: Mapping[str, Any], place: str, reading: Reading) -> Found:
    labels = record.get("labels")
    labels = [one for one in labels if one not in USUAL_LABELS] if isinstance(labels, list) else []
    summary = record.get("summary")
    return Found(
        place=place,
        raw=record,
        user=_user(record),
        key=["node", _uuid(record)],
        replaces=True,
        fields=present(
            memory_type="entity",
            timestamp=record.get("created_at"),
            data=present(
                name=record.get("name"),
                type=labels[0] if labels else None,
                observations=[summary] if summary else None,
            ),
            metadata=_more(record, reading, NODE),
        ),
    )


def _edge(
    record: Mapping[str, Any], place: str, nodes: Mapping[str, str], reading: Reading
) -> Found:
    ends = {
        end: record.get(f"{end}_node_name") or nodes.get(str(record.get(f"{end}_node_uuid")))
        for end in ("source", "target")
    }
    began = record.get("valid_at") or record.get("created_at")
    data = present(
        fact=record.get("fact"), valid_from=began, valid_to=record.get("invalid_at"), **ends
    )
    return Found(
        place=place,
        raw=record,
        user=_user(record),
        key=["edge", _uuid(record)],
        replaces=True,
        fields=present(
            memory_type="entity",
            data=data | {"relation": record.get("name")},
            metadata=_more(record, reading, EDGE),
        ),
    )


def _said(record: Mapping[str, Any], place: str, reading: Reading) -> Found:
    when = (record.get(name) for name in ("reference_time", "valid_at", "created_at"))
    threads = (record.get(name) for name in ("thread_id", "session_id", "thread_uuid"))
    speaker = record.get("role_name") or record.get("name")
    return Found(
        place=place,
        raw=record,
        user=_user(record),
        key=["said", _uuid(record)],
        fields=present(
            content=record.get("content"),
            timestamp=next(filter(None, when), None),
            session=next(filter(None, threads), None),
            role=record.get("role") or record.get("role_type"),
            metadata=present(**_more(record, reading, SAID), speaker=speaker),
        ),
    )


SOURCE: Final = Source("zep", "JSON of what the clients of Zep or Graphiti return", read)
