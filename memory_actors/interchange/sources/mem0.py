"""mem0: what `get_all` returns, as JSON.

    {"results": [{"id", "memory", "user_id", "agent_id", "run_id", "role", "created_at",
                  "updated_at", "metadata", "categories", ...}, ...]}

A list alone will do, and one of `search`. Each memory becomes a fact as our stand-in for mem0 keeps
it (`integrations/mem0`), which so serves what was imported: under the id that it had, all that mem0
tells of it in its metadata, the session `run_id`. It is of its `user_id`; one that only an agent or
a run has is of a user `agent_id=…` or `run_id=…`.
"""

from contextlib import suppress
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, Final
from uuid import UUID

from memory_actors.interchange.sources import port
from memory_actors.interchange.sources.json_items import json_values

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


def read(path: Path, reading: port.SourceReading) -> port.Records:
    """Yield the memories of a file."""
    for number, member, value in json_values(path, LISTS):
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
