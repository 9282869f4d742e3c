"""From a text and what it was made of to the events of a summary."""

from datetime import datetime
from typing import Any

import msgspec

from eventlog.records import to_us
from memory_actors.errors import InvalidInputError
from memory_actors.kinds import long_term
from memory_actors.kinds.long_term import SummaryAdded
from memory_actors.phrasing import text_digest
from memory_actors.records import Memory
from memory_actors.validation import check_name, content_bytes, own_metadata, plain


class SummaryData(msgspec.Struct, frozen=True, kw_only=True):
    """What `Memory.data` of a summary says."""

    original_count: int
    compressed_from_ids: tuple[str, ...]
    time_range_start: datetime
    time_range_end: datetime
    compression_method: str
    session_ids: tuple[str, ...] = ()
    bytes_before: int
    bytes_after: int


def summary_text(content: str) -> dict[str, Any]:
    """Return the fields that follow from the text of a summary."""
    size_bytes = content_bytes(content)
    content = plain(content)
    return {
        "content": content,
        "size_bytes": size_bytes,
        "bytes_after": size_bytes,
        "digest": text_digest(content),
        "passages": long_term.passages_of(content),
    }


def checked_summary(memory: Memory) -> SummaryAdded:
    """Return a summary as an export has it, ready to be added.

    :raises InvalidInputError: it does not say what it was made of.
    """
    try:
        data = msgspec.convert(memory.data, SummaryData)
        start_us, end_us = to_us(data.time_range_start), to_us(data.time_range_end)
    except (msgspec.ValidationError, TypeError) as error:
        raise InvalidInputError(f"a summary says what it was made of in `data`: {error}") from error
    ids = tuple(check_name(one, "original's id") for one in data.compressed_from_ids)
    if not 0 < data.original_count == len(ids):
        raise InvalidInputError("a summary names its originals, as many as it says it has")
    return SummaryAdded(
        memory_id=check_name(memory.memory_id, "memory_id"),
        occurred_at_us=end_us,
        compressed_from_ids=ids,
        original_count=data.original_count,
        time_range_start_us=start_us,
        time_range_end_us=end_us,
        compression_method=check_name(data.compression_method, "compression_method"),
        session_ids=tuple(check_name(one, "session_id") for one in data.session_ids),
        bytes_before=data.bytes_before,
        metadata=own_metadata(memory.metadata),
        **summary_text(memory.content),
    )
