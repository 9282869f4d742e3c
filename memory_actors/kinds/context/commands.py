"""The commands of context documents."""

from collections.abc import Mapping
from typing import ClassVar, Self

import msgspec
from msgspec.structs import replace

from memory_actors.base.context_documents import BlockChange
from memory_actors.base.records import Metadata
from memory_actors.base.tokens import CalibratedEstimate, TokenBudget
from memory_actors.kinds.commands import Add, Command, Delete, Outside, Restore, plain
from memory_actors.kinds.context.events import BlockImported

FREE_MIN, FREE_MAX = 0.3, 0.5  # of a document: less is soon full again, more leaves half of it
FREE = 0.4
BUDGET = TokenBudget(soft_tokens=1_500, hard_tokens=2_000, counter=CalibratedEstimate())

# --- changes of one document


class DocumentRoom(msgspec.Struct, frozen=True, kw_only=True):
    """The room of a document, and the entries that may go to make some."""

    budget: TokenBudget = BUDGET
    auto_archive: bool = False
    """True: the stalest entries make room on the way to the hard limit."""
    free: float = FREE
    """The part of a document that archiving frees; of the soft limit where entries make room."""
    read_at_us: Mapping[str, int] = {}
    """The times at which entries were last read, which no event knows."""


class MakeRoom(Command, frozen=True, kw_only=True):
    """A command that may archive entries to make room."""

    room: DocumentRoom = DocumentRoom()

    async def informed(self, _state: object, outside: Outside) -> Self:
        """Return the command with the times at which entries were last read."""
        return replace(self, room=replace(self.room, read_at_us=dict(outside.read_at_us)))


class ChangeDocument(MakeRoom, frozen=True, kw_only=True):
    """Carry out changes in their order, all or none. The first write makes a document."""

    rewords: ClassVar[tuple[str, ...]] = ("changes",)
    document: str
    changes: tuple[BlockChange, ...] = ()
    expected: bytes | None = None
    """The digest of the whole text that the caller saw."""
    base: tuple[tuple[str, bytes], ...] | None = None
    """With it: the document is then the same as a file. See `DocumentSynced`."""
    label: str = ""
    create: bool = False
    """True: the document must be a new one."""


class AddEntry(Add, frozen=True, kw_only=True):
    """Put an entry at the end of a section. A section that is not there begins at the end."""

    memory_id: str
    document: str
    section: str
    """The title of a heading; "" is what stands before the first one."""
    text: str
    heading_id: str
    """For the heading of a new section."""
    pinned: bool = False
    metadata: Metadata = {}
    occurred_at_us: int | None = None
    room: DocumentRoom = DocumentRoom()

    async def informed(self, state: object, outside: Outside) -> Self:
        """Return the command with the times at which entries were last read, too."""
        known = await super().informed(state, outside)
        return replace(known, room=replace(self.room, read_at_us=dict(outside.read_at_us)))


class EditEntry(MakeRoom, frozen=True, kw_only=True):
    """Let an entry say something else, give it other metadata, or both."""

    rewords: ClassVar[tuple[str, ...]] = ("text", "metadata")
    memory_id: str
    text: str | None = None
    metadata: Metadata | None = None


class ImportBlock(Add, frozen=True, kw_only=True):
    """Put a block where it was in another store, with all there is to it."""

    rewords: ClassVar[tuple[str, ...]] = ("block",)
    block: BlockImported
    """The event, at the rank that it had."""
    budget: TokenBudget = BUDGET


# --- entries


DeleteEntry = plain(Delete, "DeleteEntry")


class TouchEntries(Command, frozen=True, kw_only=True):
    """Mark entries as used."""

    memory_ids: tuple[str, ...]


class PinEntries(Command, frozen=True, kw_only=True):
    """Keep entries from being archived to make room, or no longer."""

    memory_ids: tuple[str, ...]
    pinned: bool = True


class ArchiveEntries(MakeRoom, frozen=True, kw_only=True):
    """Move entries to the archive: those named, or the stalest until enough is free."""

    frees: ClassVar[bool] = True
    document: str
    memory_ids: tuple[str, ...] | None = None


class RestoreEntries(Restore, frozen=True, kw_only=True):
    """Bring archived or removed entries back to their place."""

    budget: TokenBudget = BUDGET


# --- documents


class RenameDocuments(Command, frozen=True, kw_only=True):
    """Give documents other names, all or none."""

    names: tuple[tuple[str, str], ...]
    """Old and new ones."""


class DeleteDocuments(Command, frozen=True, kw_only=True):
    """Delete documents with their archives, all or none."""

    frees: ClassVar[bool] = True
    documents: tuple[str, ...]
