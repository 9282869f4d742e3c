"""mem0: what `get_all` returns, as JSON; or the directory of its local Qdrant store.

    {"results": [{"id", "memory", "user_id", "agent_id", "run_id", "role", "created_at",
                  "updated_at", "metadata", "categories", ...}, ...]}

A list alone will do, and one of `search`. Each memory becomes a fact as our stand-in for mem0 keeps
it (`integrations/mem0`), which so serves what was imported: under the id that it had, all that mem0
tells of it in its metadata, the session `run_id`. It is of its `user_id`; one that only an agent or
a run has is of a user `agent_id=…` or `run_id=…`. For a store, the reader reads the points of every
collection that has memories: see points.py.
"""

from contextlib import suppress
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, Final
from uuid import UUID

from memory_actors.base.errors import InvalidInputError
from memory_actors.interchange.sources import port
from memory_actors.interchange.sources.databases import VALUE_BYTES_MAX, database, rows
from memory_actors.interchange.sources.json_items import json_values
from memory_actors.interchange.sources.points import fields_of

TEXTS: Final = ("memory", "text", "data", "content")
SCOPES: Final = ("user_id", "agent_id", "run_id")
KEPT: Final = (
    *SCOPES, "app_id", "actor_id", "role", "categories", "attributed_to", "expiration_date",
    "created_at", "updated_at",
)  # fmt: skip
KNOWN: Final = port.words(
    "memory text data content agent_id app_id actor_id categories attributed_to expiration_date",
    "id user_id run_id role created_at updated_at metadata hash score score_details",
    "text_lemmatized",
)
LISTS: Final = ("", "results", "memories")
STORAGE: Final = "storage.sqlite"
POINTS: Final = "SELECT point FROM points NOT INDEXED"
OTHER_COLLECTIONS: Final = ("entities", "migrations")
"""Ends of the names of collections that hold no memories."""
PARTS_MAX: Final = 200_000  # of one payload, its names among them
DEPTH_MAX: Final = 100


def read(path: Path, reading: port.SourceReading) -> port.Records:
    """Yield the memories of a file or a store."""
    stores = [path] if path.name == STORAGE else []
    if path.is_dir():
        found = (one for one in sorted(path.rglob(STORAGE)) if one.is_file())
        stores = [one for one in found if not one.parent.name.endswith(OTHER_COLLECTIONS)]
    if path.is_dir() and not stores:
        raise InvalidInputError(
            f"the directory {path} has no {STORAGE}: name the `path` of the vector store, or a "
            "file with what `get_all` returns"
        )
    for store in stores:
        yield from _read_store(store, reading)
    for number, member, value in () if stores else json_values(path, LISTS):
        if member not in LISTS:
            reading.note(f"{member[:60]!r} beside the memories was not taken over")
            continue
        place = f"{path}, memory {number}"
        record = port.as_object(value, place, reading)
        if record is not None:
            yield from _found(record, place, reading)


def _found(record: port.Raw, place: str, reading: port.SourceReading) -> port.Records:
    with suppress(ValueError):
        day = date.fromisoformat(str(record.get("expiration_date"))[:10])
        if day < datetime.now(UTC).date():
            reading.note("it has expired, so mem0 would not return it: it was not taken over")
            return
    given = record.get("metadata")
    if given is not None and not isinstance(given, dict):
        reading.leave_out(place, "its metadata is no JSON object")
        return
    own_id = record.get("id")
    kept = port.present(**{name: record.get(name) for name in KEPT})
    keeps_id = _is_uuid(own_id) or port.is_ours(own_id)
    if not keeps_id:
        kept |= port.present(mem0_id=own_id)
    yield port.SourceRecord(
        place=place,
        user=owner_of(record),
        key=own_id,
        own_id=own_id if keeps_id else None,
        raw=record,
        fields=port.present(
            content=next((record[name] for name in TEXTS if name in record), None),
            timestamp=record.get("created_at"),
            session=record.get("run_id"),
            role=record.get("role"),
            metadata={**port.metadata_of(record, KNOWN, reading), **(given or {}), **kept},
        ),
    )


def owner_of(record: port.Raw) -> Any:
    """Return the user here who has what a record or a scope names: its user, else agent or run."""
    name = next((name for name in SCOPES if record.get(name)), None)
    value = record.get(name) if name else None
    if name == "user_id" and not str(value).startswith(tuple(f"{one}=" for one in SCOPES)):
        return value
    return value if value is None else f"{name}={value}"


def _is_uuid(own_id: object) -> bool:
    try:
        return isinstance(own_id, str) and str(UUID(own_id)) == own_id
    except ValueError:
        return False


# --- the store


def _read_store(store: Path, reading: port.SourceReading) -> port.Records:
    with database(store, "points") as connection:
        for number, (blob,) in enumerate(rows(connection, POINTS), start=1):
            place = f"{store}, point {number}"
            try:
                record = _record(blob)
            except (ValueError, TypeError, LookupError, OverflowError) as error:
                reading.leave_out(place, f"its point cannot be read ({type(error).__name__})")
                continue
            yield from _found(record, place, reading)


def _record(blob: object) -> port.Fields:
    """Return a point as `get_all` has it: its payload has metadata beside the other fields."""
    point = fields_of(blob)
    payload = point["payload"]
    _Room().take(payload)
    own = {name: value for name, value in payload.items() if name in KNOWN}
    others = {name: value for name, value in payload.items() if name not in KNOWN}
    own_id = point.get("id")
    if not isinstance(own_id, str | int | None):
        raise TypeError("the id of a point must be a text or a number")
    return {**own, "id": own_id, "metadata": others}


class _Room:
    """The limits of a payload: one part of a point may stand in many places of it."""

    def __init__(self) -> None:
        self._parts, self._characters = PARTS_MAX, VALUE_BYTES_MAX

    def take(self, value: object, depth: int = 0) -> None:
        """Take in a value with all that is in it, or raise `ValueError`."""
        self._parts -= 1
        self._characters -= len(value) if isinstance(value, str | bytes) else 0
        if self._parts < 0 or self._characters < 0 or depth > DEPTH_MAX:
            raise ValueError("a payload is too large")
        if isinstance(value, dict):
            for name, one in value.items():
                self.take(name, depth + 1)
                self.take(one, depth + 1)
        elif isinstance(value, list | tuple | set | frozenset):
            for one in value:
                self.take(one, depth + 1)
