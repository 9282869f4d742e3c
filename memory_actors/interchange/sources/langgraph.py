"""LangGraph: the SQLite file of a `SqliteStore`, with its table `store`.

An item becomes a document as our store for LangGraph keeps it (`integrations/langgraph`), which so
serves what was imported as if it had been put there. Which label of a namespace is the user nobody
says: `--user-field namespace.1` makes it the second one, as `user=1` of that store does; without
it, all is of one user. The rule for names:

    ("memories", "ada")   namespace.1   ada              langgraph@1/memories
    ("docs",)             namespace.1   langgraph        langgraph/docs
    ("memories", "ada")                 that of --user   langgraph/memories.ada

Items that have expired are left out, as the store itself would not return them.
"""

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from eventlog.core.records import to_us
from memory_actors.base.json_text import decoded
from memory_actors.interchange.sources import port
from memory_actors.interchange.sources.databases import columns, database, rows

SHARED_USER: Final = "langgraph"
"""Has the items whose namespaces are too short to name a user."""
OF_NAMESPACE: Final = re.compile(r"namespace\.(\d{1,9})")
ITEMS: Final = (
    "SELECT prefix, key, value, coalesce(updated_at, created_at), created_at, "
    "expires_at, ttl_minutes FROM store NOT INDEXED"
)
ITEMS_WITHOUT_END: Final = ITEMS.replace("expires_at, ttl_minutes", "NULL, NULL")
EXPIRED: Final = "it has expired, so the store would not return it: it was not taken over"
ONE_USER: Final = (
    "its namespace names no user: `--user-field namespace.1` says that its second label does"
)


def read(path: Path, reading: port.SourceReading) -> port.Records:
    """Yield the items, in the order in which they were first put."""
    place_of_user = OF_NAMESPACE.fullmatch(reading.user_field or "")
    at = int(place_of_user[1]) if place_of_user else None
    with database(path, "store") as connection:
        whole = {"expires_at", "ttl_minutes"} <= columns(connection, "store")
        for prefix, key, value, when, created_at, *ends in rows(
            connection, ITEMS if whole else ITEMS_WITHOUT_END
        ):
            place = f"{path}, {prefix!r:.60} {key!r:.60}"
            expires_us = _moment_us(ends[0])
            if expires_us is not None and expires_us <= to_us(datetime.now(UTC)):
                reading.note(EXPIRED)
                continue
            text = value.decode(errors="replace") if isinstance(value, bytes) else value
            item = {"namespace": str(prefix).split("."), "key": str(key), "value": decoded(text)}
            if not isinstance(item["value"], dict):
                reading.leave_out(place, "its value is no JSON object")
                continue
            if reading.user_field is None:
                reading.note(ONE_USER)
            created_us = _moment_us(created_at)
            life = port.present(ttl=ends[1], expires_us=expires_us, created_us=created_us)
            yield _found(item, at, when, life, place)


def _moment_us(time: object) -> int | None:
    try:
        moment = datetime.fromisoformat(str(time))
    except ValueError:
        return None
    return to_us(moment if moment.tzinfo else moment.replace(tzinfo=UTC))


def _found(
    item: port.Raw, at: int | None, when: object, life: port.Raw, place: str
) -> port.SourceRecord:
    user, collection = place_of(item["namespace"], at)
    about = {"namespace": item["namespace"], **life}
    return port.SourceRecord(
        place=place,
        raw=item,
        user=user,
        key=[collection, item["key"]],
        replaces=True,
        fields={
            **port.document(collection, item["key"], item["value"]),
            **port.present(timestamp=when, metadata={"langgraph": about}),
        },
    )


def place_of(namespace: Sequence[str], user: int | str | None) -> tuple[str | None, str]:
    """Return the user and the collection of a namespace; `user` is the place of a label, or fixed.

    A namespace that is too short for the label, or in which it is blank, is of `SHARED_USER`.
    """
    if not isinstance(user, int):
        return user, f"langgraph/{'.'.join(namespace)}"
    if user >= len(namespace) or not namespace[user].strip():
        return SHARED_USER, f"langgraph/{'.'.join(namespace)}"
    others = [*namespace[:user], *namespace[user + 1 :]]
    return namespace[user], f"langgraph@{user}/{'.'.join(others)}"
