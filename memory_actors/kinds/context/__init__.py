"""Context documents: Markdown that an agent loads into every prompt, and an archive beside it.

A document is a sequence of blocks, headings and entries, each with an id, its exact text and a rank
that it is sorted by. Entries leave for the archive, where they are found by meaning, and come back
to their place. Headings are no memories: they are not counted, found or listed.

As in every kind there are `events`, `state`, `decide` and, here, the reads. `commands` can be given
by callers, too, as changes of a document; `markdown` takes texts apart and joins them, `alignment`
finds which block of a new text was which, `rank` sorts; `decide` uses `draft` (a document while it
changes) and `sizes` (limits, and what is archived to keep them).
"""

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from memory_actors.base.quota import Limits
from memory_actors.base.records import QuotaUse
from memory_actors.kinds import kind
from memory_actors.kinds.context.commands import RestoreEntries
from memory_actors.kinds.context.decide import COMMANDS, decide
from memory_actors.kinds.context.events import BlockRemoved, registry
from memory_actors.kinds.context.markdown import entry_text
from memory_actors.kinds.context.purging import without
from memory_actors.kinds.context.sizes import NAME
from memory_actors.kinds.context.state import (
    ContextState,
    DocumentState,
    Dump,
    Row,
    block,
    dump,
    fold,
    in_order,
    initial,
    load,
)
from memory_actors.kinds.defaults import by_rows, deleting, no_chain, none_at_hand, timeless
from memory_actors.kinds.kind import Events, Nature, Passage, Tally

NATURE = Nature(is_searched=False, export_place=3)
"""A document is loaded whole, and its archive has a search of its own."""

# --- reads

at = timeless


def tally(state: ContextState) -> Tally:
    """Return counts and bytes: entries are counted, the bytes of headings too."""
    return Tally(state.entries, state.size_bytes, state.stored_bytes)


def held_bytes(state: ContextState) -> int:
    """Return the memory that the state takes: the texts of what lives are in it."""
    return by_rows(tally)(state) + state.living_bytes


def quotas(state: ContextState, limits: Limits, _scope: str | None) -> Sequence[QuotaUse]:
    """Return how full each limit is."""
    return (
        QuotaUse("entries", "count", state.entries, limits.context_entries),
        QuotaUse("documents", "count", len(state.documents), limits.context_documents),
        QuotaUse("bytes", "bytes", state.size_bytes, limits.context_bytes),
    )


def rows(state: ContextState) -> Iterable[Row]:
    """Yield every entry, living or archived."""
    for name in sorted(state.documents):
        yield from (row for row in _rows(state.documents[name]) if row.heading is None)


def indexed_rows(state: ContextState) -> Iterable[Row]:
    """Yield every archived entry: what lives is loaded whole."""
    for document in state.documents.values():
        yield from document.archived.values()


def exported(state: ContextState) -> Iterable[Row]:
    """Yield what an export has: every block, and for an empty document a row without a rank."""
    for name in sorted(state.documents):
        document = state.documents[name]
        yield from _rows(document) or [_empty(name, document)]


def _rows(document: DocumentState) -> list[Row]:
    return in_order([*document.blocks.values(), *document.archived.values()])


def _empty(name: str, document: DocumentState) -> Row:
    at_us = document.created_at_us
    return Row(
        memory_id=f"document:{name}", version=0, size_bytes=0, stored_bytes=0, created_at_us=at_us,
        occurred_at_us=at_us, metadata={}, document=name, rank="", raw="", heading=None,
        pinned=False, touched_at_us=at_us,
    )  # fmt: skip


def find(state: ContextState, memory_id: str) -> Row | None:
    """Return the row of an entry, living or archived."""
    row = block(state, memory_id)
    return None if row is None or row.heading is not None else row


def passages(row: Row) -> Sequence[Passage]:
    """Return one passage for an archived entry: what lives is loaded whole, and not searched."""
    return (Passage(kind.label(row.version), row.digest),) if row.archived else ()


def passage_text(row: Row, _label: int, events: Events) -> str:
    """Return what an archived entry says."""
    return content(row, events)


def sources(row: Row) -> Sequence[int]:
    """Return the version of the event that has an archived text; others are in the state."""
    return (row.version,) if row.archived else ()


def raw_of(row: Row, events: Events) -> str:
    """Return the exact text of a block."""
    return str(events[row.version].data.raw) if row.raw is None else row.raw


def content(row: Row, events: Events) -> str:
    """Return what an entry says; of a heading, its title."""
    return entry_text(raw_of(row, events)) if row.heading is None else row.heading


def data(row: Row, events: Events) -> dict[str, Any]:
    """Return where a block is, its exact text, and what it stood under if it is archived."""
    if not row.rank:
        return {"document": row.document}
    found = {
        "document": row.document,
        "raw": raw_of(row, events),
        "rank": row.rank,
        "heading": row.heading,
        "touched_at_us": row.touched_at_us,
        "archived": row.archived,
    }
    section = row.section if row.archived else None
    return found if section is None else {**found, "section": msgspec.to_builtins(section)}


at_hand = none_at_hand
chain = no_chain
worded = block
"""A heading is no memory, but has words."""
deleted = deleting(BlockRemoved)
