"""Context documents: Markdown that an agent loads into every prompt, and an archive beside it.

A document is a sequence of blocks, headings and entries, each with an id, its exact text and a rank
that it is sorted by. Headings are no memories: they are not counted, found or listed.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec

from eventlog import Recorded
from memory_actors.base.errors import QuotaExceededError
from memory_actors.base.quota import Limits
from memory_actors.base.records import JsonObject
from memory_actors.kinds.context.commands import BUDGET
from memory_actors.kinds.context.decide import DocumentDecisions
from memory_actors.kinds.context.events import BlockEdited, BlockInserted, BlockRemoved
from memory_actors.kinds.context.markdown import entry_text
from memory_actors.kinds.context.sizes import NAME, check_document
from memory_actors.kinds.context.state import (
    BlockRow,
    ContextState,
    DocumentState,
    archive,
    block,
    everything,
)
from memory_actors.kinds.kind import Bound, Nature, Tally
from memory_actors.kinds.passages import Passage, label
from memory_actors.kinds.past import Events, TaintedPast
from memory_actors.kinds.rows import derived


class ContextKind(DocumentDecisions):
    """The context documents of a user."""

    NAME = NAME
    NATURE = Nature(is_searched=False, is_reviewed=True, export_place=3)
    """A document is loaded whole, and its archive has a search of its own."""
    NOUN = "entry"
    MISSING = "it was never there, or it was removed"
    BOUNDS = (
        Bound("entries", "context_entries"),
        Bound("documents", "context_documents"),
        Bound("bytes", "context_bytes"),
    )
    DELETED = BlockRemoved

    # --- purges

    def without(
        self, past: TaintedPast, row: BlockRow, state: ContextState, limits: Limits
    ) -> list[BlockEdited] | None:
        """Return the event that makes a block say what others have said of it last.

        A block that is archived, and one whose earlier text has no room any more, goes as a whole.
        """
        texts = [one.data for one in past.clean if getattr(one.data, "raw", None) is not None]
        if row.archived or not texts:
            return None
        said = [getattr(one.data, "metadata", None) for one in past.clean]
        last = next((one for one in reversed(said) if one is not None), None)
        edited = derived(BlockEdited, texts[-1], metadata=last or {}, spacing=False)
        try:
            check_document(row.document, state, self.after(state, [edited]), limits, BUDGET)
        except QuotaExceededError:
            return None
        return [edited]

    # --- reads

    def tally(self, state: ContextState) -> Tally:
        """Return counts and bytes: entries are counted, the bytes of headings too."""
        return Tally(state.entries, state.size_bytes, state.stored_bytes)

    def held_bytes(self, state: ContextState) -> int:
        """Return the memory that the state takes: the texts of what lives are in it."""
        return super().held_bytes(state) + state.living_bytes

    def used(self, state: ContextState, _whose: str | None) -> tuple[int, ...]:
        """Return the entries, the documents, and the bytes."""
        return state.entries, len(state.documents), state.size_bytes

    def rows(self, state: ContextState) -> Iterable[BlockRow]:
        """Yield every entry, living or archived."""
        for name in sorted(state.documents):
            yield from (row for row in everything(state, name) if row.heading is None)

    def indexed_rows(self, state: ContextState) -> Iterable[BlockRow]:
        """Yield every archived entry: what lives is loaded whole."""
        for name in state.documents:
            yield from archive(state, name)

    def exported(self, state: ContextState) -> Iterable[BlockRow]:
        """Yield what an export has: every block, and for an empty document a row without a rank."""
        for name in sorted(state.documents):
            yield from everything(state, name) or [_empty(name, state.documents[name])]

    def find(self, state: ContextState, memory_id: str) -> BlockRow | None:
        """Return the row of an entry, living or archived."""
        row = block(state, memory_id)
        return None if row is None or row.heading is not None else row

    def passages(self, row: BlockRow) -> Sequence[Passage]:
        """Return one passage for an archived entry: what lives is loaded whole."""
        return (Passage(label(row.version), row.digest),) if row.archived else ()

    def passage_text(self, row: BlockRow, _label: int, events: Events) -> str:
        """Return the text of an archived entry."""
        return self.content(row, events)

    def sources(self, row: BlockRow) -> Sequence[int]:
        """Return the version of the event that has an archived text; others are in the state."""
        return (row.version,) if row.archived else ()

    def content(self, row: BlockRow, events: Events) -> str:
        """Return the text of an entry; of a heading, its title."""
        return entry_text(raw_of(row, events)) if row.heading is None else row.heading

    def data(self, row: BlockRow, events: Events) -> JsonObject:
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

    def worded(self, state: ContextState, memory_id: str) -> BlockRow | None:
        """Return the row of an entry or of a heading: that is no memory, but has words."""
        return block(state, memory_id)


def _empty(name: str, document: DocumentState) -> BlockRow:
    at_us = document.created_at_us
    return BlockRow(
        memory_id=f"document:{name}", version=0, size_bytes=0, stored_bytes=0, created_at_us=at_us,
        occurred_at_us=at_us, metadata={}, document=name, rank="", raw="", heading=None,
        pinned=False, touched_at_us=at_us,
    )  # fmt: skip


def raw_of(row: BlockRow, events: Events) -> str:
    """Return the exact text of a block."""
    return str(events[row.version].data.raw) if row.raw is None else row.raw


KIND = ContextKind()
