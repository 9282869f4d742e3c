"""A JSON document."""

from datetime import datetime
from typing import Any

from memory_actors.base.records.source import Sourced


class Document(Sourced, frozen=True, kw_only=True):
    """One JSON document."""

    memory_id: str
    collection: str
    key: str
    value: dict[str, Any]
    metadata: dict[str, Any]
    created_at: datetime
    occurred_at: datetime
    pinned: bool
    size_bytes: int
    """Of the value as JSON."""
