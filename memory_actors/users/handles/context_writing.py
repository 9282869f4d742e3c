"""The way of a change into a context document, and of its entries into the archive."""

from collections.abc import Mapping, Sequence
from time import perf_counter
from typing import Any, ClassVar

import msgspec

from memory_actors.actors.asking import Reply
from memory_actors.base import validation
from memory_actors.base.context_documents import (
    DEFAULT_DOCUMENT,
    BlockChange,
    ContextReceipt,
    ContextSize,
    EditBlock,
    InsertBlock,
    RemoveBlock,
)
from memory_actors.base.errors import InvalidInputError
from memory_actors.base.records import Item, Receipt
from memory_actors.base.tokens import TokenBudget, disagreement
from memory_actors.kinds import context
from memory_actors.kinds.commands import Command
from memory_actors.kinds.context import commands, sizes
from memory_actors.kinds.context.commands import FREE, DocumentRoom, RestoreEntries
from memory_actors.kinds.context.events import (
    ArchivedEntry,
    BlockData,
    BlockImported,
    BlockInserted,
    EntriesArchived,
)
from memory_actors.kinds.context.markdown import check_one, entry_text, title_of
from memory_actors.kinds.context.rank import RANK_CHARACTERS_MAX, is_rank
from memory_actors.kinds.context.state import BlockRow, ContextState, blocks, text
from memory_actors.kinds.kind import Kind
from memory_actors.kinds.passages import text_digest
from memory_actors.kinds.rows import derived
from memory_actors.users.handles.handle import Adding, Handle, taken
from memory_actors.users.handles.redacting import OF_HANDLES
from memory_actors.users.handles.writing import After
from memory_actors.users.live_user import LiveUser


class ContextWriting(Handle):
    """Makes and carries out the commands about context documents."""

    kind: ClassVar[Kind] = context.KIND
    takes = taken(BlockInserted, "key")
    _left = OF_HANDLES | {"name", "old", "new", "names", "document", "label", "base"}

    # --- as all kinds

    async def _add(self, item: Item, adding: Adding) -> Receipt:
        """Add an entry to MEMORY.md, in the section that `key` names; make room by archiving."""
        self._check_item(item, adding)
        makes_room = self._scope.prunes(adding.auto_prune)
        command = self._adding(DEFAULT_DOCUMENT, item, auto_archive=makes_room)
        return self._receipt(command.memory_id, "add", await self._write(command))

    def _check_pinnable(self, _row: BlockRow) -> None:
        raise InvalidInputError("context memory cannot be pinned so: use user.context.pin")

    def _updating(
        self,
        row: BlockRow,
        content: str | None,
        metadata: dict[str, object] | None,
        _pinned: bool | None,
    ) -> tuple[Command, list[str]]:
        command = commands.EditEntry(
            now_us=self._scope.now_us(),
            memory_id=row.memory_id,
            text=content,
            metadata=metadata,
            room=self._room(),
        )
        return command, []

    async def _put_block(self, memory_id: str, item: Item, data: Mapping[str, object]) -> Receipt:
        """Put a block as an export of another store has it in `Memory.data`."""
        if not isinstance(item, Item):
            raise InvalidInputError(f"give an Item, as for `add_many`, not {item!r:.80}")
        memory_id, block = validation.check_name(memory_id, "memory_id"), _checked_block(data)
        raw, now_us = _checked_raw(block.raw), self._scope.now_us()
        if block.touched_at_us is not None:
            validation.check_time_us(block.touched_at_us, "touched_at_us")
        check_one(raw, block.heading)
        occurred_at_us = validation.time_us(item.occurred_at, "timestamp")
        archived = ArchivedEntry(
            memory_id=memory_id, digest=text_digest(entry_text(raw)), section=block.section
        )
        imported = BlockImported(
            memory_id=memory_id,
            document=validation.check_name(block.document, "document"),
            raw=raw,
            rank=_checked_rank(block.rank),
            heading=block.heading,
            pinned=item.pinned,
            metadata=validation.own_metadata(item.metadata, shown=True),
            occurred_at_us=now_us if occurred_at_us is None else occurred_at_us,
            touched_at_us=now_us if block.touched_at_us is None else block.touched_at_us,
            archived=archived if block.archived and block.heading is None else None,
        )
        command = commands.ImportBlock(
            now_us=now_us, own_ids=(memory_id,), block=imported, budget=self._budget
        )
        return self._receipt(memory_id, "add", await self._write(command))

    # --- commands

    @property
    def _budget(self) -> TokenBudget:
        return self._scope.services.settings.context_budget()

    def _room(self, *, auto_archive: bool = False, free: float = FREE) -> DocumentRoom:
        """Return how much room a document has, and whether its stalest entries make some."""
        return DocumentRoom(budget=self._budget, auto_archive=auto_archive, free=free)

    def _adding(
        self, document: str, item: Item, *, auto_archive: bool, section: str | None = None
    ) -> commands.AddEntry:
        """Return the command that adds an entry; `key` names the section if `section` does not."""
        now_us = self._scope.now_us()
        own_id = validation.check_optional_name(item.memory_id, "memory_id")
        validation.content_bytes(item.content)
        if not isinstance(item.pinned, bool):
            raise InvalidInputError(f"pinned must be True or False, not {item.pinned!r:.40}")
        return commands.AddEntry(
            now_us=now_us,
            memory_id=own_id or self._scope.new_id(now_us),
            own_ids=() if own_id is None else (own_id,),
            document=document,
            section=checked_section(section or item.key or ""),
            text=validation.plain(item.content),
            heading_id=self._scope.new_id(now_us),
            pinned=item.pinned,
            metadata=validation.own_metadata(item.metadata),
            occurred_at_us=validation.time_us(item.occurred_at, "occurred_at"),
            room=self._room(auto_archive=auto_archive),
        )

    def _restoring(self, memory_ids: Sequence[str]) -> RestoreEntries:
        ids = tuple(validation.check_name(one, "entry_id") for one in memory_ids)
        return RestoreEntries(now_us=self._scope.now_us(), memory_ids=ids, budget=self._budget)

    async def _change(
        self,
        document: str,
        operation: str,
        changes: Sequence[BlockChange],
        *,
        auto_archive: bool = False,
        **more: Any,
    ) -> ContextReceipt:
        """Carry out changes of a document, all or none; `more` are other fields of the command.

        A change that does not fit the document is refused before any work.

        :raises QuotaExceededError: it has no room for so many bytes or entries.
        :raises InvalidInputError: they are no changes, or a text is not one block.
        """
        _check_changes(changes)
        state = await self._scope.state()
        limits = self._scope.limits(state)
        sizes.check_changes(document, changes, state.context, limits, auto_archive=auto_archive)
        for change in changes:
            if isinstance(change, InsertBlock):
                check_one(change.raw, change.heading)
            elif isinstance(change, EditBlock):
                check_one(change.raw)
        command = commands.ChangeDocument(
            now_us=self._scope.now_us(),
            document=document,
            changes=tuple(changes),
            room=self._room(auto_archive=auto_archive),
            **more,
        )
        ids = tuple(dict.fromkeys(change.block_id for change in changes))
        return await self._changed(document, operation, command, ids)

    async def _changed(
        self, document: str, operation: str, command: Command, ids: Sequence[str]
    ) -> ContextReceipt:
        """Carry out a command about a document, and say what came of it and how large that is."""
        written = await self._write(command)
        size = self._size(document, written.reply.state.context)
        operation = "pending" if written.pending else operation
        return derived(
            ContextReceipt,
            size,
            operation=operation if written.events else "unchanged",
            entry_ids=tuple(ids),
            limit=size.soft_limit,
            remaining=size.remaining,
            message=size.message,
            warning=size.warning,
            archived=_archived(written.reply),
            latency_ms=(perf_counter() - written.started_s) * 1e3,
        )

    def _size(self, document: str, state: ContextState) -> ContextSize:
        budget, said = self._budget, text(blocks(state, document))
        return ContextSize(
            document=document,
            tokens=budget.counter.count(said),
            soft_limit=budget.soft_tokens,
            hard_limit=budget.hard_tokens,
            note=disagreement(budget.counter, said, document),
        )

    def _after(self, _command: Command) -> After:
        return self._index_archived

    async def _index_archived(self, live: LiveUser, reply: Reply) -> str | None:
        events = [recorded.data for recorded in reply.events]
        imported = any(isinstance(event, BlockImported) and event.archived for event in events)
        found = imported or _archived(reply)
        return await self._index_from_log(live, reply) if found else None


def _archived(reply: Reply) -> tuple[str, ...]:
    events = (recorded.data for recorded in reply.events)
    archivings = (event for event in events if isinstance(event, EntriesArchived))
    return tuple(one.memory_id for event in archivings for one in event.entries)


def checked_section(title: str) -> str:
    """Return the title of a section as its heading will read; "" is the part before the first.

    :raises InvalidInputError: it cannot stand in a heading.
    """
    if not isinstance(title, str):
        raise InvalidInputError(f"section must be a string, not {type(title).__name__}")
    if not title.strip():
        return ""
    validation.check_name(title, "section")
    read = title_of(f"## {title.strip()}") if len(title.splitlines()) == 1 else None
    if read is None:
        raise InvalidInputError(f"section {title!r:.80} is no title: give it one line of text")
    return read


def _check_changes(changes: object) -> None:
    if not isinstance(changes, list | tuple):
        raise InvalidInputError(f"changes must be a list, not {type(changes).__name__}")
    for one in changes:
        if not isinstance(one, InsertBlock | EditBlock | RemoveBlock):
            raise InvalidInputError(
                f"a change is an InsertBlock, EditBlock or RemoveBlock, not {one!r:.80}"
            )
        validation.check_name(one.block_id, "block_id")
        if not isinstance(one, RemoveBlock):
            _checked_raw(one.raw)


def _checked_raw(raw: object) -> str:
    if not isinstance(raw, str) or not raw:
        raise InvalidInputError(f"the text of a block must be a string, not {raw!r:.40}")
    if raw.strip():
        validation.content_bytes(raw)
    return validation.plain(raw)


def _checked_block(data: object) -> BlockData:
    """Return the validated data of an exported block."""
    try:
        block = msgspec.convert(validation.json_copy(data, "data"), BlockData)
    except msgspec.ValidationError as error:
        raise InvalidInputError(
            f"a block is what an export has in `Memory.data`, and this is not: {error}"
        ) from error
    if (section := block.section) is not None:
        validation.check_name(section.heading_id, "heading_id")
        check_one(_checked_raw(section.raw), section.title)
        _checked_rank(section.rank)
    return block


def _checked_rank(rank: str) -> str:
    if len(rank) > RANK_CHARACTERS_MAX or not is_rank(rank):
        raise InvalidInputError(f"rank {rank!r:.80} is none: a rank is what an export wrote")
    return rank
