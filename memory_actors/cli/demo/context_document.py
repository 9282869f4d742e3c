"""A part of the demonstration: the document that goes into every prompt, and its archive.

What Maya says in the bundled conversation is put under the date of its session until the document
is full; then entries make room, are found in the archive by meaning, and come back.
"""

from collections.abc import Sequence

import msgspec

from memory_actors.api.handles.user import UserMemory
from memory_actors.base.errors import ContextLimitError
from memory_actors.base.records import Item
from memory_actors.base.reports import ContextHit, ContextReceipt

SPEAKER = "Maya"
QUERY = "Where does the dog come from?"


class ContextReport(msgspec.Struct, frozen=True, kw_only=True):
    """A document that gets full, and goes on."""

    entries: int
    """When nothing more fitted."""
    warned_at: ContextReceipt | None
    """The first write over the soft limit."""
    refused: str
    """What the refusal said."""
    made_room: ContextReceipt
    """The same write, with leave to archive."""
    query: str
    found: list[ContextHit]
    """In the archive."""
    restored: ContextReceipt
    same_bytes: bool
    """Whether archive, then restore gave back the very text."""


async def run_context_document(user: UserMemory, turns: Sequence[Item]) -> ContextReport:
    """Fill a user's document with what one speaker said, and make room in it."""
    said = [turn for turn in turns if turn.role == SPEAKER]
    warned_at, refused, last = await _fill(user, said)
    entries = len(await user.context.entries())
    made_room = await user.context.add(_section(last), last.content, auto_archive=True)
    found = await user.context.search_archive(QUERY, top_k=1)
    restored = await user.context.restore([hit.entry_id for hit in found])
    before = await user.context.render()
    await user.context.archive(restored.entry_ids)
    await user.context.restore(restored.entry_ids)
    return ContextReport(
        entries=entries,
        warned_at=warned_at,
        refused=refused,
        made_room=made_room,
        query=QUERY,
        found=found,
        restored=restored,
        same_bytes=await user.context.render() == before,
    )


async def _fill(user: UserMemory, said: Sequence[Item]) -> tuple[ContextReceipt | None, str, Item]:
    """Add until nothing fits; return the first warning, the refusal and what did not fit."""
    warned_at = None
    for turn in said:
        try:
            receipt = await user.context.add(_section(turn), turn.content)
        except ContextLimitError as error:
            return warned_at, str(error), turn
        if receipt.warning is not None:
            warned_at = warned_at or receipt
    raise AssertionError("the conversation is longer than a document may be")


def _section(turn: Item) -> str:
    return str(turn.occurred_at)[:10]
