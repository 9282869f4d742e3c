"""How archived and removed entries come back: where they were, as they were.

An archived entry is a row of the state; its text is in the event that the row names. One that was
removed is known to the log alone: its row is what its events make of it. If the heading that it
stood under is gone, that comes back too, unless another one of the same title leads to its place.
"""

from collections.abc import Sequence
from typing import Any

from eventlog import Recorded
from memory_actors.base.errors import NotFoundError
from memory_actors.kinds.context.commands import RestoreEntries
from memory_actors.kinds.context.draft import Draft
from memory_actors.kinds.context.events import BlockRestored, Event, Section
from memory_actors.kinds.context.state import Context, Row, block, evolve, initial


def restored(command: RestoreEntries, state: Context) -> list[Event]:
    """Return the events by which entries come back; none for those that are there.

    :raises NotFoundError: one of them never was.
    """
    drafts: dict[str, Draft] = {}
    came = False
    for memory_id in dict.fromkeys(command.memory_ids):
        row = block(state, memory_id)
        if row is not None and not row.archived:
            continue
        past = command.past.get(memory_id, ())
        row = row or _as_it_was(memory_id, past)
        if row.document not in drafts:
            drafts[row.document] = Draft(state, row.document)
        in_state = memory_id in state.names
        _put_back(row, _raw(row, past), drafts[row.document], in_state=in_state)
        came = True
    return [event for draft in drafts.values() for event in draft.events] if came else []


def _put_back(row: Row, raw: str, draft: Draft, *, in_state: bool) -> None:
    if row.memory_id in draft:  # a heading that came back with an entry
        return
    if row.section is not None and _is_wanting(row, row.section, draft):
        draft.put_back(_heading(row, row.section, draft))
    draft.put_back(
        BlockRestored(
            memory_id=row.memory_id,
            document=draft.document,
            raw=raw,
            rank=row.rank if in_state else draft.free_rank(row.rank),
            heading=row.heading,
            pinned=row.pinned,
            metadata=row.metadata,
            occurred_at_us=row.occurred_at_us,
            created_at_us=row.created_at_us,
        )
    )


def _is_wanting(row: Row, section: Section, draft: Draft) -> bool:
    """Say whether the heading is gone, and the one before the entry's place is another one."""
    if section.heading_id in draft:
        return False
    before = [one for one in draft.order if one.heading is not None and one.rank < row.rank]
    return not before or before[-1].heading != section.title


def _heading(row: Row, section: Section, draft: Draft) -> BlockRestored:
    return BlockRestored(
        memory_id=section.heading_id,
        document=draft.document,
        raw=section.raw,
        rank=draft.free_rank(section.rank),
        heading=section.title,
        created_at_us=row.created_at_us,
    )


def _as_it_was(memory_id: str, past: Sequence[Recorded[Any]]) -> Row:
    """Return the last row that a block had."""
    state, last = initial, None
    for recorded in past:
        if not isinstance(recorded.data, Event):  # of another kind of memory
            continue
        state = evolve(state, recorded)
        last = block(state, memory_id) or last
    if last is None:
        raise NotFoundError(f"no entry {memory_id!r} to restore: it was never there")
    return last


def _raw(row: Row, past: Sequence[Recorded[Any]]) -> str:
    if row.raw is not None:
        return row.raw
    (found,) = (recorded for recorded in past if recorded.version == row.version)
    return str(found.data.raw)
