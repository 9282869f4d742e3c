"""Summaries, which stand for memories: their events, rows and sums, and what one is found by.

Each kind that is compacted has subclasses of these events, with their own tags.
"""

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from eventlog import Recorded
from memory_actors.base.errors import InvalidInputError
from memory_actors.base.records import Metadata, Origin
from memory_actors.kinds.keyed import Compactable
from memory_actors.kinds.passages import spans
from memory_actors.kinds.phrasing import text_digest
from memory_actors.kinds.rows import derived, new_row

_HEADING = ("[Summary of ", "]: ")

# --- events


class SummaryPassage(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A part of a summary that is found on its own: `content[start:end]`."""

    start: int
    end: int
    digest: bytes


class Summary(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A text that stands for memories, and what it was made of."""

    memory_id: str
    content: str
    size_bytes: int
    digest: bytes
    """Digest of the content. Its passages are indexed."""
    passages: tuple[SummaryPassage, ...]
    occurred_at_us: int
    """The time at which the last of the originals was true."""
    compressed_from_ids: tuple[str, ...]
    """In order of time."""
    original_count: int
    time_range_start_us: int
    time_range_end_us: int
    compression_method: str
    """The name of the summariser."""
    session_ids: tuple[str, ...] = ()
    bytes_before: int
    """Bytes of the originals' contents."""
    bytes_after: int
    metadata: Metadata = {}
    origins: tuple[Origin, ...] = ()
    """Origins of the originals."""


class Compressed(Summary, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A summary took the place of memories, which went."""


class SummaryPut(Summary, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A summary came back, or from another store; no memory went for it."""

    created_at_us: int | None = None
    """The time at which it was first there; None: now."""


class CompressionUndone(msgspec.Struct, frozen=True, kw_only=True):
    """A summary went, because its originals are to come back: their events follow this one."""

    memory_id: str


R = TypeVar("R", bound=Compactable)
A = TypeVar("A", bound=SummaryPut)


def summary_row(cls: type[R], recorded: Recorded[Any], **fields: Any) -> R:
    """Return the row of a summary, with these fields of its kind."""
    digests = tuple(passage.digest for passage in recorded.data.passages)
    fields["since_us"] = recorded.data.time_range_start_us
    return new_row(cls, recorded, pinned=False, digests=digests, **fields)


# --- summaries that come back


def summary_again(cls: type[A], began: Summary, row: Compactable) -> A:
    """Return the event that brings a summary back, of the one it began with and its last row."""
    return derived(cls, began, created_at_us=row.created_at_us, metadata=row.metadata)


def refuse_beside_originals(events: Sequence[Any], rows: Mapping[str, Any]) -> None:
    """Refuse events that bring back a summary of which every original lives, or comes back too.

    :raises InvalidInputError: there is one.
    """
    back = {event.memory_id for event in events}
    for event in events:
        ids = event.compressed_from_ids if isinstance(event, SummaryPut) else ()
        if ids and all(one in rows or one in back for one in ids):
            raise InvalidInputError(
                f"{event.memory_id!r} is a summary of {event.original_count} memories, and its "
                "originals live: it would say again what they say; restore it when they are deleted"
            )


# --- what a summary is found by


def passages_of(content: str) -> tuple[SummaryPassage, ...]:
    """Return the parts of a summary that are found on their own, its heading left out.

    A summary is longer than a model reads, and one vector for a hundred memories is near to none.
    """
    opening, closing = _HEADING
    end = content.find(closing) + len(closing)
    has_heading = content.startswith(opening) and end >= len(closing) and content[end:].strip()
    return tuple(
        SummaryPassage(start, end, text_digest(content[start:end]))
        for start, end in spans(content, end if has_heading else 0)
    )
