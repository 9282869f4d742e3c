"""One context document: what an agent loads into every prompt."""

from collections.abc import Sequence

import msgspec

from eventlog.core.records import to_datetime
from memory_actors.base import validation
from memory_actors.base.context_documents import (
    DEFAULT_DOCUMENT,
    BlockChange,
    ContextEntry,
    ContextHit,
    ContextReceipt,
    ContextSize,
    DocumentBlock,
)
from memory_actors.base.errors import InvalidInputError, NotFoundError
from memory_actors.base.records import Hit, Item, Metadata
from memory_actors.kinds import context
from memory_actors.kinds.commands import Command
from memory_actors.kinds.context import commands, sizes
from memory_actors.kinds.context.commands import FREE, FREE_MAX, FREE_MIN
from memory_actors.kinds.context.markdown import entry_text
from memory_actors.kinds.context.state import BlockRow, archive, blocks, text, under_sections
from memory_actors.kinds.kind import Found
from memory_actors.kinds.passages import composed, text_digest
from memory_actors.search import retrieval
from memory_actors.search.query import Query
from memory_actors.search.reading import texts
from memory_actors.users.handles.context_writing import ContextWriting, checked_section
from memory_actors.users.handles.scope import Scope
from memory_actors.users.live_user import UserView

Base = Sequence[tuple[str, bytes]]
"""Each block by id, and the digest of its text: what a file and the document last had in common."""


class ContextDocument(ContextWriting):
    """A document of sections and entries. One that is not there reads as empty; a write makes it.

    Every write counts the tokens that the document would have and raises `ContextLimitError`
    beyond the hard limit, `QuotaExceededError` beyond 64 KiB or a quota; nothing is written then.
    """

    def __init__(self, scope: Scope, name: str = DEFAULT_DOCUMENT):
        super().__init__(scope)
        self.name = name

    # --- write

    async def add(
        self,
        section: str,
        text: str,
        *,
        pinned: bool = False,
        metadata: Metadata | None = None,
        auto_archive: bool = False,
    ) -> ContextReceipt:
        """Put an entry at the end of a section; "" is the part before the first heading.

        A section that is not there begins at the end of the document. With `auto_archive` the
        stalest entries go to the archive if there is no room.
        """
        item = Item(content=text, pinned=pinned, metadata=metadata)
        command = self._adding(
            self.name, item, section=checked_section(section), auto_archive=auto_archive
        )
        return await self._changed(self.name, "add", command, (command.memory_id,))

    async def edit(self, entry_id: str, text: str, *, auto_archive: bool = False) -> ContextReceipt:
        """Let an entry say something else. Its list marker and place stay.

        :raises NotFoundError: there is no such entry.
        """
        validation.content_bytes(text)
        entry_id = validation.check_name(entry_id, "entry_id")
        command = commands.EditEntry(
            now_us=self._scope.now_us(),
            memory_id=entry_id,
            text=validation.plain(text),
            room=self._room(auto_archive=auto_archive),
        )
        return await self._changed_mine("edit", command, (entry_id,))

    async def remove(self, entry_id: str) -> ContextReceipt:
        """Remove an entry. `restore` brings it back.

        :raises NotFoundError: there is no such entry.
        """
        entry_id = validation.check_name(entry_id, "entry_id")
        command = commands.DeleteEntry(now_us=self._scope.now_us(), memory_id=entry_id)
        return await self._changed_mine("remove", command, (entry_id,))

    async def touch(self, *entry_ids: str) -> ContextReceipt:
        """Mark entries as used: the stalest are archived first.

        :raises NotFoundError: one of them is not there.
        """
        ids = validation.check_names(entry_ids, "entry_ids")
        command = commands.TouchEntries(now_us=self._scope.now_us(), memory_ids=ids)
        return await self._changed_mine("touch", command, ids)

    async def pin(self, *entry_ids: str, pinned: bool = True) -> ContextReceipt:
        """Keep entries from being archived to make room, or no longer.

        :raises NotFoundError: one of them is not there.
        """
        ids = validation.check_names(entry_ids, "entry_ids")
        command = commands.PinEntries(now_us=self._scope.now_us(), memory_ids=ids, pinned=pinned)
        return await self._changed_mine("pin", command, ids)

    async def change(
        self,
        changes: Sequence[BlockChange],
        *,
        expected: bytes | None = None,
        auto_archive: bool = False,
    ) -> ContextReceipt:
        """Carry out changes in their order, all or none, in one append.

        `expected` is `text_digest(await render())` of what the changes were made for.

        :raises StaleDocumentError: `expected` is not the digest of the document's text.
        :raises InvalidInputError: a text is not one block, or not of the heading it says it is.
        :raises NotFoundError: a change names a block that is not there.
        """
        return await self._change(
            self.name, "change", changes, expected=expected, auto_archive=auto_archive
        )

    async def check_text(self, text: str, *, auto_archive: bool = False) -> str:
        """Return a text as the document would hold it: masked, as the settings say.

        See, before any work on it, that the document can hold as many bytes; with `auto_archive`,
        twice as many.

        :raises QuotaExceededError: it cannot, and has fewer now.
        """
        text = validation.check_text(text, "text")
        state = await self._scope.state()
        limits, capacity = self._scope.limits(state), 2 if auto_archive else 1
        sizes.check_bytes(self.name, len(text.encode()), state.context, limits, capacity)
        return text

    def new_entry_id(self) -> str:
        """Return an id that was never used, for an `InsertBlock`."""
        return self._scope.new_id(self._scope.now_us())

    # --- archive

    async def archive(
        self, entry_ids: Sequence[str] | None = None, *, free: float = FREE
    ) -> ContextReceipt:
        """Move entries to the archive: those named, or the stalest until a good part is free.

        Stalest is least recently added, edited, touched or read; pinned ones stay unless named.
        `free` is which part of what is there is to go, from 0.3 to 0.5. A document of which that
        part of the soft limit is free anyway stays as it is. If nothing was archived, or less than
        0.3, the receipt's `warning` gives the reason.

        :raises NotFoundError: there is no such document or entry.
        """
        if isinstance(free, bool) or not isinstance(free, int | float):
            raise InvalidInputError(f"free must be a number, not {free!r:.40}")
        if not FREE_MIN <= free <= FREE_MAX:
            raise InvalidInputError(f"free must be from {FREE_MIN} to {FREE_MAX}, not {free:g}")
        ids = None if entry_ids is None else validation.check_names(entry_ids, "entry_ids")
        command = commands.ArchiveEntries(
            now_us=self._scope.now_us(),
            document=self.name,
            memory_ids=ids,
            room=self._room(free=float(free)),
        )
        before = (await self.size()).tokens
        receipt = await self._changed(self.name, "archive", command, ids or ())
        if ids is not None or receipt.tokens <= (1 - FREE_MIN) * before:
            return receipt
        return _with_reason(receipt, before, sizes.roomy(command.room))

    async def restore(self, entry_ids: Sequence[str]) -> ContextReceipt:
        """Bring archived or removed entries back to their place, all or none.

        :raises ContextLimitError: there is no room for all of them.
        :raises NotFoundError: one of them never was.
        """
        ids = validation.check_names(entry_ids, "entry_ids")
        return await self._changed_mine("restore", self._restoring(ids), ids)

    async def archived(self) -> list[ContextEntry]:
        """Return the archived entries in the order of their places."""
        return await self._read(archive((await self._scope.state()).context, self.name))

    async def search_archive(self, query: str, top_k: int = 5) -> list[ContextHit]:
        """Return the archived entries of this document that best answer a query, by meaning.

        :raises InvalidInputError: an empty query, a bad number.
        :raises EmbedderError: the query could not be embedded.
        """
        validation.text_bytes(query, "query", validation.QUERY_BYTES_MAX)
        validation.check_top_k(top_k)
        with self._scope.measured("SearchArchive", context.KIND.NAME):
            async with self._scope.searching() as live:
                hits = await self._hits(live, query, top_k)
        return [_hit(hit) for hit in hits[:top_k]]

    async def _hits(self, live: UserView, query: str, top_k: int) -> list[Hit]:
        """Return this document's hits: more are asked for until there are enough or no more."""
        asked = top_k
        while True:
            now_us = self._scope.now_us()
            request = Query(composed(query), [context.KIND], asked, now_us, folds=False)
            hits = await retrieval.retrieve(self._scope.services.log, live, request)
            mine = [hit for hit in hits if hit.data["document"] == self.name]
            if len(mine) >= top_k or len(hits) < asked:
                return mine
            asked *= 4

    # --- read

    async def render(self) -> str:
        """Return the text of the document."""
        return text(await self._blocks())

    async def size(self) -> ContextSize:
        """Return how large the document is, in tokens, and what its limits are."""
        return self._size(self.name, (await self._scope.state()).context)

    async def entries(self) -> list[ContextEntry]:
        """Return the entries in order; headings are in their `section`."""
        return [_entry_under(*pair) for pair in under_sections(await self._blocks())]

    async def get(self, entry_id: str) -> ContextEntry:
        """Return an entry, living or archived; that counts as a use of it, in memory only.

        :raises NotFoundError: there is no such entry in this document.
        """
        validation.check_name(entry_id, "entry_id")
        state = await self._scope.state()
        row = context.KIND.find(state.context, entry_id)
        if row is None or row.document != self.name:
            raise NotFoundError(f"no entry {entry_id!r} in {self.name}: never there, or removed")
        await self.note_read(entry_id)
        if row.archived:
            return (await self._read([row]))[0]
        pairs = under_sections(blocks(state.context, self.name))
        return next(_entry_under(*pair) for pair in pairs if pair[0].memory_id == entry_id)

    async def note_read(self, entry_id: str) -> None:
        """Note that an entry was of use; in memory only."""
        validation.check_name(entry_id, "entry_id")
        async with self._scope.live() as live:
            if entry_id in live.state.context.rows:
                live.note_read(entry_id, self._scope.now_us())

    async def blocks(self) -> list[DocumentBlock]:
        """Return headings and entries in order, with their own texts: `render` joins them."""
        return [
            DocumentBlock(block_id=row.memory_id, raw=row.raw or "", heading=row.heading)
            for row in await self._blocks()
        ]

    async def synced(self, label: str = "") -> tuple[tuple[str, bytes], ...] | None:
        """Return the base that `note_synced` recorded last, or None if it has another label.

        A line missing in one file was not deleted in another: a base is good for its own file only.
        """
        document = (await self._scope.state()).context.documents.get(self.name)
        synced = None if document is None else document.synced
        return None if synced is None or synced.label != label else synced.base

    # --- how

    async def _blocks(self) -> list[BlockRow]:
        return blocks((await self._scope.state()).context, self.name)

    async def _changed_mine(
        self, operation: str, command: Command, entry_ids: Sequence[str]
    ) -> ContextReceipt:
        """Carry out a command about entries of this document."""
        rows = (await self._scope.state()).context.rows
        for row in filter(None, map(rows.get, entry_ids)):
            if row.document != self.name:
                raise NotFoundError(
                    f"no entry {row.memory_id!r} in {self.name}: it is in {row.document}"
                )
        return await self._changed(self.name, operation, command, entry_ids)

    async def _read(self, rows: Sequence[BlockRow]) -> list[ContextEntry]:
        found = [Found(context.KIND, row) for row in rows]
        events = await texts(self._scope.services.log, self._scope.stream, found)
        return [
            _entry(
                row, "" if row.section is None else row.section.title, context.raw_of(row, events)
            )
            for row in rows
        ]

    # --- for syncing and imports

    async def _note_synced(
        self,
        base: Base,
        changes: Sequence[BlockChange] = (),
        *,
        expected: bytes | None = None,
        auto_archive: bool = False,
        label: str = "",
    ) -> ContextReceipt:
        """Carry out changes and note what a file and the document then have in common."""
        if not isinstance(base, Sequence):
            raise InvalidInputError(f"base must be what `synced` returns, not {base!r:.80}")
        return await self._change(
            self.name, "change", changes, expected=expected, auto_archive=auto_archive,
            base=tuple(base), label=label,
        )  # fmt: skip

    async def _archive_digest(self) -> bytes:
        """Return a digest of what is in the archive: another one when that has changed."""
        rows = archive((await self._scope.state()).context, self.name)
        return text_digest("\n".join(sorted(f"{row.memory_id} {row.version}" for row in rows)))


def _entry(row: BlockRow, section: str, raw: str) -> ContextEntry:
    return ContextEntry(
        entry_id=row.memory_id,
        section=section,
        text=entry_text(raw),
        raw=raw,
        pinned=row.pinned,
        touched_at=to_datetime(row.touched_at_us),
        archived=row.archived,
    )


def _entry_under(row: BlockRow, heading: BlockRow | None) -> ContextEntry:
    return _entry(row, "" if heading is None else heading.heading or "", row.raw or "")


def _hit(hit: Hit) -> ContextHit:
    section = hit.data.get("section")
    return ContextHit(
        entry_id=hit.memory_id,
        section="" if section is None else section["title"],
        text=hit.content,
        raw=hit.data["raw"],
        pinned=hit.pinned,
        touched_at=to_datetime(hit.data["touched_at_us"]),
        archived=True,
        score=hit.score,
    )


def _with_reason(receipt: ContextReceipt, before: int, roomy: int) -> ContextReceipt:
    if before <= roomy:
        reason = (
            f"Nothing was archived: {receipt.document} has {before:,} tokens, and up to {roomy:,} "
            "there is room enough. Name entries to archive them all the same."
        )
    else:
        reason = (
            f"{receipt.document} still has {receipt.tokens:,} tokens of {before:,}: "
            "what is left is pinned entries and headings. Unpin or remove some."
        )
    return msgspec.structs.replace(receipt, warning=reason)
