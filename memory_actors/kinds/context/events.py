"""Events of context documents. One event a block, so that each has its own history."""

import msgspec

from memory_actors.base.records import Metadata, Origin
from memory_actors.kinds.effects import Deleted, Effect, KindRegistry

registry = KindRegistry()


class Section(msgspec.Struct, frozen=True, gc=False):
    """The heading that an archived entry stood under: it comes back if it is gone by then."""

    heading_id: str
    title: str
    raw: str
    rank: str


class ArchivedEntry(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One entry that was archived."""

    memory_id: str
    digest: bytes
    """Digest of the text in the index."""
    section: Section | None = None
    """The heading before it; None before the first heading."""


class BlockData(msgspec.Struct, frozen=True, kw_only=True):
    """The content of `Memory.data` of a block."""

    document: str
    raw: str
    rank: str
    heading: str | None = None
    touched_at_us: int | None = None
    archived: bool = False
    section: Section | None = None


# --- documents


@registry.event("context.document_created")
class DocumentCreated(msgspec.Struct, frozen=True, kw_only=True):
    """A document began, empty. One that begins with a block needs no event of its own."""

    document: str


@registry.about("context.document_renamed", Effect.CHANGED)
class DocumentRenamed(msgspec.Struct, frozen=True, kw_only=True):
    """A document got another name, and with it all that is in it and in its archive."""

    document: str
    to: str
    memory_ids: tuple[str, ...] = ()


@registry.about("context.document_deleted", Effect.DELETED)
class ContextDocumentDeleted(msgspec.Struct, frozen=True, kw_only=True):
    """A document went, with all that was in it and in its archive."""

    document: str
    memory_ids: tuple[str, ...] = ()


@registry.event("context.document_synced")
class DocumentSynced(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A document and a file were the same: what the next merge of the two starts from."""

    document: str
    base: tuple[tuple[str, bytes], ...] = ()
    """Each block by id, and the digest of its text, in order."""
    label: str = ""
    """The name of the file."""


# --- blocks


@registry.about("context.inserted", Effect.ADDED)
class BlockInserted(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A heading or an entry was put into a document."""

    memory_id: str
    document: str
    raw: str
    """Its exact text."""
    rank: str
    heading: str | None = None
    """The title of a heading, None for an entry."""
    pinned: bool = False
    metadata: Metadata = {}
    occurred_at_us: int | None = None
    """None: when it was recorded."""

    @property
    def size_bytes(self) -> int:
        """Bytes of the text."""
        return len(self.raw.encode())


@registry.about("context.restored", Effect.RESTORED)
class BlockRestored(BlockInserted, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A block came back into its document, from the archive or after it was removed."""

    created_at_us: int = 0
    origins: tuple[Origin, ...] = ()
    """The sources of its words, of which the one who brought it back is none."""
    agent_id: str | None = None
    """The agent that wrote it first."""


@registry.about("context.imported", Effect.ADDED)
class BlockImported(BlockInserted, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A block came from another store, as it was there."""

    touched_at_us: int = 0
    archived: ArchivedEntry | None = None
    """Given for an archived entry."""


@registry.about("context.edited", Effect.CHANGED)
class BlockEdited(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A block got another text, other metadata, or both; None keeps what was."""

    memory_id: str
    raw: str | None = None
    heading: str | None = None
    """The title, where the new text is a heading."""
    metadata: Metadata | None = None
    spacing: bool = False
    """True: blank lines alone changed, to make room for a neighbour, which is no use of it."""

    @property
    def size_bytes(self) -> int | None:
        """Bytes of the new text, if there is one."""
        return None if self.raw is None else len(self.raw.encode())


BlockRemoved = registry.plain(Deleted, "context.removed", Effect.DELETED)


@registry.about("context.touched", Effect.CHANGED)
class EntriesTouched(msgspec.Struct, frozen=True, kw_only=True):
    """Entries were of use: they are not the stalest now."""

    memory_ids: tuple[str, ...]


@registry.about("context.pinned", Effect.CHANGED)
class EntriesPinned(msgspec.Struct, frozen=True, kw_only=True):
    """Entries are never archived to make room, or may be again."""

    memory_ids: tuple[str, ...]
    pinned: bool


@registry.about(
    "context.archived", Effect.CHANGED, keys=lambda event: [one.memory_id for one in event.entries]
)
class EntriesArchived(msgspec.Struct, frozen=True, kw_only=True):
    """Entries left their document for its archive."""

    document: str
    entries: tuple[ArchivedEntry, ...]
    cause: str
    """asked, or room: to make room for what was written with it."""
