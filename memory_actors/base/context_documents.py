"""Context documents as callers get them, and the changes of their blocks that callers ask for."""

from collections.abc import Mapping
from datetime import datetime
from typing import TypeAlias

import msgspec

from eventlog.core.records import Returned

DEFAULT_DOCUMENT = "MEMORY.md"


class ContextSize(Returned, frozen=True, kw_only=True):
    """The size of a document in tokens."""

    document: str
    tokens: int
    soft_limit: int
    hard_limit: int
    note: str | None = None
    """Both estimates of its tokens, if they differ by more than 10 %, and how to choose."""

    @property
    def remaining(self) -> int:
        """Tokens up to the soft limit; 0 beyond it."""
        return max(0, self.soft_limit - self.tokens)

    @property
    def message(self) -> str:
        """The size in words."""
        return (
            f"{self.document} size: {self.tokens:,} tokens ({self.soft_limit:,} limit)\n"
            f"Remaining capacity: {self.remaining:,} tokens"
        )

    @property
    def warning(self) -> str | None:
        """Advice from the soft limit on, else None."""
        if self.tokens < self.soft_limit:
            return None
        return (
            f"{self.document} approaching soft limit ({self.soft_limit:,} tokens). "
            "Consider archiving."
        )


class ContextReceipt(Returned, frozen=True, kw_only=True):
    """The result of a write to a document, and the size of that now."""

    document: str
    operation: str
    """add, edit, remove, touch, pin, change, archive, restore, create, rename, delete, pending (it
    waits for a review), or unchanged (it was so already)."""
    entry_ids: tuple[str, ...]
    """Ids of the blocks that the write changed."""
    tokens: int
    limit: int
    """The soft one."""
    hard_limit: int
    remaining: int
    """Tokens up to the soft limit."""
    message: str
    """Size and remaining capacity in words, for an agent to read."""
    warning: str | None
    """From the soft limit on; or why `archive()` freed nothing, or less than was asked for."""
    note: str | None
    """Both estimates of its tokens, if they differ by more than 10 %, and how to choose."""
    archived: tuple[str, ...]
    """Entries that the write moved to the archive."""
    latency_ms: float
    masked: Mapping[str, int] = {}
    """How often each label was masked in what was written (`Settings.redact`)."""


class ContextEntry(Returned, frozen=True, kw_only=True):
    """One entry of a document or its archive."""

    entry_id: str
    section: str
    """The title of its heading; "" before the first one."""
    text: str
    """Its text, without list marker and indentation."""
    raw: str
    """Its exact Markdown."""
    pinned: bool
    """True if it is never archived to make room."""
    touched_at: datetime
    """The time it was last added, edited, touched or restored."""
    archived: bool = False


class ContextHit(ContextEntry, frozen=True, kw_only=True):
    """An archived entry that a query found."""

    score: float
    """In [0, 1]. See `Hit`."""


class DocumentBlock(Returned, frozen=True, kw_only=True):
    """One block of a document: a heading or an entry."""

    block_id: str
    raw: str
    heading: str | None
    """The title, None for an entry."""


class DocumentInfo(Returned, frozen=True, kw_only=True):
    """One of a user's documents."""

    name: str
    tokens: int
    size_bytes: int
    """Of its text."""
    updated_at: datetime
    entries: int
    archived: int


class InsertBlock(msgspec.Struct, frozen=True):
    """A new block."""

    block_id: str
    raw: str
    heading: str | None
    """The title of a heading, None for an entry."""
    after: str | None
    """The block it follows; None: it is the first."""


class EditBlock(msgspec.Struct, frozen=True):
    """Another text for a block."""

    block_id: str
    raw: str


class RemoveBlock(msgspec.Struct, frozen=True):
    """A block that goes."""

    block_id: str


BlockChange: TypeAlias = InsertBlock | EditBlock | RemoveBlock
