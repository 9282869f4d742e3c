"""What requests and answers hold where the library has no record for it.

A field that is not known is refused: a misspelt one would otherwise be left out in silence.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

import msgspec

from memory_actors.base.errors import InvalidInputError
from memory_actors.base.records import HistoryEntry, Hit, Memory, OnDuplicate, Order, Receipt, Trust
from memory_actors.search.weights import Weights

PAGE_MAX: Final = 1_000  # hits or memories in one answer, of at most 256 KB each


class AddMemory(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """One memory to add; the fields mean what they mean for `UserMemory.add`."""

    content: str
    memory_type: str = "long_term"
    metadata: dict[str, Any] | None = None
    occurred_at: str | float | None = None
    """ISO 8601, or seconds since 1970."""
    session_id: str | None = None
    role: str | None = None
    key: str | None = None
    memory_id: str | None = None
    pinned: bool = False
    auto_prune: bool = False
    idempotency_key: str | None = None
    on_duplicate: OnDuplicate | None = None
    source: str | None = None
    """Where it comes from, and how far that is trusted: as for `UserMemory.from_source`."""
    trust: Trust | None = None

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of `add`."""
        return _but(self, "source", "trust")


class UpdateMemory(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """What to replace."""

    content: str | None = None
    metadata: dict[str, Any] | None = None
    """As a whole."""
    source: str | None = None
    trust: Trust | None = None


class Purge(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """What to purge: a source, a trust, or both."""

    source: str | None = None
    trust: Trust | None = None
    dry_run: bool = False
    """Say what would go, and change nothing."""


class Search(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """A query; the fields mean what they mean for `UserMemory.retrieve`."""

    query: str
    memory_types: list[str] | None = None
    memory_type: str | None = None
    top_k: int | None = None
    filters: dict[str, Any] | None = None
    since: str | float | None = None
    until: str | float | None = None
    as_of: str | float | None = None
    session_id: str | None = None
    exclude_ids: list[str] = []
    exclude_session: str | None = None
    min_score: float = 0.0
    token_budget: int | None = None
    diversity: float = 0.0
    order: Order | None = None
    explain: bool = False
    weights: dict[str, float] | None = None
    reference_time: str | float | None = None
    compressed: bool = True
    sources: list[str] | None = None
    min_trust: Trust | None = None

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of `retrieve`, the query aside.

        :raises InvalidInputError: too many results, or an unknown weight.
        """
        if self.top_k is not None:
            check_page(self.top_k, "top_k")
        return _but(self, "query") | {"weights": _weights(self.weights)}


class Compress(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """Which memories to compress."""

    user_id: str | None = None
    """Whose; None: everybody's."""
    dry_run: bool = False
    """Report what would be done, and change nothing."""
    older_than: str | None = None
    """For example "90d"; None: what the settings say."""
    episodes: bool | None = None
    """Whether ended episodes are compressed, too; None: what the settings say."""


class Hits(msgspec.Struct, frozen=True):
    """What a query found, best first."""

    hits: list[Hit]


class Memories(msgspec.Struct, frozen=True):
    """A page of memories, newest first."""

    memories: list[Memory]


class Count(msgspec.Struct, frozen=True):
    """How many memories match."""

    count: int


class Deleted(msgspec.Struct, frozen=True):
    """A receipt for each memory that was deleted."""

    receipts: list[Receipt]


class History(msgspec.Struct, frozen=True):
    """Every event that touched a memory, oldest first."""

    entries: list[HistoryEntry]


class CompressionStats(msgspec.Struct, frozen=True, kw_only=True):
    """What compaction has done so far."""

    summaries: int
    """Compressed memories there are."""
    originals: int
    """Memories that they stand for."""
    bytes_before: int
    bytes_after: int
    bytes_saved: int
    compression_ratio: float
    """Bytes after to a byte before; 0 if nothing was compressed."""
    failed_clusters: int
    """Since the server was started, as are the next two."""
    runs: int
    last_run_at: datetime | None
    schedule: str | None
    """When it runs by itself, a cron expression; null: only when asked."""


class Health(msgspec.Struct, frozen=True):
    """The server answers."""

    status: str
    version: str


def check_page(count: int, what: str) -> int:
    """Return a number of results that one answer can hold.

    :raises InvalidInputError: it is more than 1,000.
    """
    if count > PAGE_MAX:
        raise InvalidInputError(f"{what} must be at most {PAGE_MAX:,} over HTTP, not {count:,}")
    return count


def _but(body: msgspec.Struct, *names: str) -> dict[str, Any]:
    return {name: getattr(body, name) for name in body.__struct_fields__ if name not in names}


def _weights(given: Mapping[str, float] | None) -> Weights | None:
    if given is None:
        return None
    unknown = given.keys() - set(Weights.__struct_fields__)
    if unknown:
        known = ", ".join(Weights.__struct_fields__)
        raise InvalidInputError(f"unknown weight {min(unknown)!r:.80}: use some of {known}")
    return Weights(**given)
