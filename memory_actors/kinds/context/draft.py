"""A document while a command changes it: what stands where, and the events so far.

A new block never takes the rank of an archived entry, so that each comes back to its place.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Sequence
from typing import NoReturn

import msgspec

from eventlog.core.records import AnyRecorded
from memory_actors.base.context_documents import BlockChange, InsertBlock, RemoveBlock
from memory_actors.base.errors import InvalidInputError, NotFoundError
from memory_actors.kinds.commands import refuse_id
from memory_actors.kinds.context import events
from memory_actors.kinds.context.commands import RestoreEntries
from memory_actors.kinds.context.events import Section
from memory_actors.kinds.context.markdown import closed, heading_raw, is_blank, parse
from memory_actors.kinds.context.rank import between
from memory_actors.kinds.context.state import BlockRow, ContextState, archive, block, blocks
from memory_actors.kinds.effects import Event
from memory_actors.kinds.past import Life, Past
from memory_actors.kinds.rows import derived

BLANK_LINE = "\n\n"


class DraftBlock(msgspec.Struct):
    """A living block of a draft."""

    block_id: str
    rank: str
    raw: str
    heading: str | None


class DocumentDraft:
    """One document that changes."""

    def __init__(self, state: ContextState, document: str):
        self.document = document
        self.events: list[Event] = []
        self._state = state
        rows = blocks(state, document)
        self._blocks = {
            row.memory_id: DraftBlock(row.memory_id, row.rank, row.raw or "", row.heading)
            for row in rows
        }
        self._order = [(row.rank, row.memory_id) for row in rows]
        self._ranks = sorted(row.rank for row in [*rows, *archive(state, document)])

    # --- reads

    def __contains__(self, block_id: str) -> bool:
        return block_id in self._blocks

    @property
    def order(self) -> list[DraftBlock]:
        """The living blocks in order."""
        return [self._blocks[block_id] for _, block_id in self._order]

    # --- changes

    def make(self, change: BlockChange) -> None:
        """Carry out one change.

        :raises NotFoundError: it names a block that is not in the document.
        """
        if isinstance(change, InsertBlock):
            self.insert(change)
        elif isinstance(change, RemoveBlock):
            self.remove(change.block_id)
        else:
            self.edit(change.block_id, change.raw)

    def insert(self, new: InsertBlock, **more: object) -> None:
        """Put in a block; `more` are fields of its event."""
        if new.block_id in self._blocks or block(self._state, new.block_id) is not None:
            refuse_id(new.block_id)
        _check_raw(new.raw)
        before = None if new.after is None else self._living(new.after).rank
        rank = self._rank_behind(before)
        event = events.BlockInserted(
            memory_id=new.block_id,
            document=self.document,
            raw=new.raw,
            rank=rank,
            heading=new.heading,
            **more,  # type: ignore[arg-type] # checked where they are given
        )
        self._take(event)

    def put_back(self, event: events.BlockRestored | events.BlockImported) -> None:
        """Put in a block at its rank."""
        _check_raw(event.raw)
        self._take(event)

    def edit(self, block_id: str, raw: str, *, spacing: bool = False) -> None:
        """Give a block another text."""
        one = self._living(block_id)
        _check_raw(raw)
        if raw == one.raw:
            return
        if is_blank(raw) and len(self._blocks) > 1:
            _refuse_blank()
        one.raw, one.heading = raw, parse(raw)[0].heading
        self.events.append(
            events.BlockEdited(memory_id=block_id, raw=raw, heading=one.heading, spacing=spacing)
        )

    def remove(self, block_id: str) -> None:
        """Take a block out."""
        one = self._living(block_id)
        del self._order[bisect_left(self._order, (one.rank, block_id))]
        del self._ranks[bisect_left(self._ranks, one.rank)]
        del self._blocks[block_id]
        self.events.append(events.BlockRemoved(memory_id=block_id))

    def begin_section(self, title: str, heading_id: str) -> str:
        """Put a heading at the end, behind a blank line; return its id."""
        order = self.order
        last = order[-1] if order else None
        if last is not None:
            ended = closed(last.raw)
            ended = ended if ended.endswith(BLANK_LINE) else f"{ended}\n"
            self.edit(last.block_id, ended, spacing=True)
        after = None if last is None else last.block_id
        self.insert(InsertBlock(heading_id, heading_raw(title), title, after))
        return heading_id

    def end_of(self, section: str) -> tuple[str | None, bool, bool]:
        """Return the last block of a section, whether a heading follows, and whether it is there.

        The section "" is always there: its last block is None if it is empty.
        """
        last, inside = None, section == ""
        for one in self.order:
            if one.heading is not None:
                if inside:
                    return last, True, True
                inside = one.heading == section
            if inside:
                last = one.block_id
        return last, False, inside

    # --- how

    def _living(self, block_id: str) -> DraftBlock:
        one = self._blocks.get(block_id)
        if one is None:
            raise NotFoundError(
                f"no block {block_id!r} in {self.document}: never there, removed or archived"
            )
        return one

    def _take(self, event: events.BlockInserted) -> None:
        # Blank lines alone are a block only where there is no other one.
        if is_blank(event.raw) and self._blocks:
            _refuse_blank()
        if len(self._blocks) == 1:
            (only,) = self._blocks.values()
            if is_blank(only.raw):
                self.remove(only.block_id)
        one = DraftBlock(event.memory_id, event.rank, event.raw, event.heading)
        self._blocks[one.block_id] = one
        insort(self._order, (one.rank, one.block_id))
        at = bisect_left(self._ranks, one.rank)
        if self._ranks[at : at + 1] != [one.rank]:  # an archived entry kept its own
            self._ranks.insert(at, one.rank)
        self.events.append(event)

    def free_rank(self, rank: str) -> str:
        """Return a rank that no block has: this one, or one right behind it."""
        at = bisect_left(self._ranks, rank)
        return self._rank_behind(rank) if self._ranks[at : at + 1] == [rank] else rank

    def _rank_behind(self, rank: str | None) -> str:
        at = 0 if rank is None else bisect_right(self._ranks, rank)
        return between(rank, self._ranks[at] if at < len(self._ranks) else None)


def _check_raw(raw: str) -> None:
    if not raw:
        raise InvalidInputError("a block of a document has a text: remove it instead")


def _refuse_blank() -> NoReturn:
    raise InvalidInputError("blank lines are no block of their own: they belong to the one before")


# --- entries that come back
#
# An archived entry is a row of the state; its text is in the event that the row names. One that was
# removed is known to the log alone. If the heading that it stood under is gone, that comes back
# too, unless another one of the same title leads to its place.


def restored(
    last: Callable[[str, Past], Life[BlockRow]], command: RestoreEntries, state: ContextState
) -> list[Event]:
    """Return the events by which entries come back; none for those that are there.

    `last` gives the last life of an entry that is not.

    :raises NotFoundError: one of them never was.
    """
    drafts: dict[str, DocumentDraft] = {}
    came = False
    for memory_id in dict.fromkeys(command.memory_ids):
        row = block(state, memory_id)
        if row is not None and not row.archived:
            continue
        past = command.past.get(memory_id, ())
        row = row or last(memory_id, past).row
        if row.document not in drafts:
            drafts[row.document] = DocumentDraft(state, row.document)
        in_state = block(state, memory_id) is not None
        _put_back(row, _raw(row, past), drafts[row.document], in_state=in_state)
        came = True
    return [event for draft in drafts.values() for event in draft.events] if came else []


def _put_back(row: BlockRow, raw: str, draft: DocumentDraft, *, in_state: bool) -> None:
    if row.memory_id in draft:  # a heading that came back with an entry
        return
    section = row.section
    if section is not None and _is_missing(row, section, draft):
        heading = events.BlockRestored(
            memory_id=section.heading_id,
            document=draft.document,
            raw=section.raw,
            rank=draft.free_rank(section.rank),
            heading=section.title,
            created_at_us=row.created_at_us,
        )
        draft.put_back(heading)
    rank = row.rank if in_state else draft.free_rank(row.rank)
    draft.put_back(derived(events.BlockRestored, row, document=draft.document, raw=raw, rank=rank))


def _is_missing(row: BlockRow, section: Section, draft: DocumentDraft) -> bool:
    """Say whether the heading is gone, and the one before the entry's place is another one."""
    if section.heading_id in draft:
        return False
    before = [one for one in draft.order if one.heading is not None and one.rank < row.rank]
    return not before or before[-1].heading != section.title


def _raw(row: BlockRow, past: Sequence[AnyRecorded]) -> str:
    if row.raw is not None:
        return row.raw
    (found,) = (recorded for recorded in past if recorded.version == row.version)
    return str(found.data.raw)
