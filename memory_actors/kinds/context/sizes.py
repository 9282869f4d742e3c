"""Limits of a document: refusals and, where that is asked for, entries that make room.

A decision counts the text that the document would have. A change that does not grow a document is
always accepted: a limit may have been lowered.
"""

from bisect import bisect_left
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NoReturn

from memory_actors.base.context_documents import BlockChange, InsertBlock, RemoveBlock
from memory_actors.base.errors import ContextLimitError, QuotaExceededError
from memory_actors.base.quota import Limits, refuse_bytes, refuse_count, size
from memory_actors.base.tokens import TokenBudget
from memory_actors.kinds.context.commands import DocumentRoom
from memory_actors.kinds.context.events import ArchivedEntry, EntriesArchived, Section
from memory_actors.kinds.context.markdown import entry_text
from memory_actors.kinds.context.state import (
    BlockRow,
    ContextState,
    blocks,
    text,
    under_sections,
)
from memory_actors.kinds.passages import text_digest

NAME = "context"


# --- limits of a document


def fits(limits: Limits, budget: TokenBudget, tokens_max: int, document: str) -> bool:
    """Say whether the text of a document is within its bytes and so many tokens."""
    within = len(document.encode()) <= limits.context_document_bytes
    return within and budget.counter.count(document) <= tokens_max


def check_document(
    name: str, old: ContextState, new: ContextState, limits: Limits, budget: TokenBudget
) -> None:
    """Refuse a document that has grown to its limit of tokens, or beyond that of bytes.

    :raises ContextLimitError: as many tokens as the hard limit, or more.
    :raises QuotaExceededError: more bytes than it may have.
    """
    now = text(blocks(new, name))
    if fits(limits, budget, budget.tokens_max, now):
        return
    was = text(blocks(old, name))
    if len(now.encode()) > max(len(was.encode()), limits.context_document_bytes):
        asked = len(now.encode()) - len(was.encode())
        _refuse_document_bytes(
            name, asked, len(was.encode()), limits
        )  # nobody counts megabytes of tokens
    tokens, before = budget.counter.count(now), budget.counter.count(was)
    if tokens > max(before, budget.tokens_max):
        limit, instead = budget.hard_tokens, "Archive before continuing"
        if tokens - before > limit:
            instead = f"What is new takes {tokens - before:,} by itself: shorten it"
        raise ContextLimitError(
            f"{name} exceeds hard limit ({limit:,} tokens). {instead}",
            kind=NAME, used=before, limit=limit, unit="tokens", tier=limits.tier,
        )  # fmt: skip


def check_bytes(
    name: str, asked_bytes: int, state: ContextState, limits: Limits, capacity: int = 1
) -> None:
    """Refuse a text that a document cannot hold, by its bytes alone: before any work on it.

    :raises QuotaExceededError: it is beyond the limit times `capacity`, and not smaller than what
        there is.
    """
    if asked_bytes > limits.context_document_bytes * capacity:
        was = len(text(blocks(state, name)).encode())
        if asked_bytes > was:
            _refuse_document_bytes(name, asked_bytes, was, limits)


def check_changes(
    name: str,
    changes: Sequence[BlockChange],
    state: ContextState,
    limits: Limits,
    *,
    auto_archive: bool,
) -> None:
    """Refuse changes that no document can take: before they are carried out.

    With `auto_archive`, a change may bring twice the capacity of a document.

    :raises QuotaExceededError: too many bytes or entries.
    """
    raws = {one.block_id: "" if isinstance(one, RemoveBlock) else one.raw for one in changes}
    asked_bytes = sum(len(raw.encode()) for raw in raws.values())
    check_bytes(name, asked_bytes, state, limits, 2 if auto_archive else 1)
    inserts = sum(isinstance(one, InsertBlock) and one.heading is None for one in changes)
    removes = sum(isinstance(one, RemoveBlock) for one in changes)
    _check_entries(state.entries, state.entries + inserts - removes, limits)


def _refuse_document_bytes(name: str, new: int, used: int, limits: Limits) -> NoReturn:
    limit = limits.context_document_bytes
    instead = "Archive or remove entries of it first."
    if new > limit:
        instead = f"What is new takes {size(new)} by itself: shorten it."
    raise QuotaExceededError(
        f"{name} would take more than {size(limit)}. {instead}",
        kind=NAME, used=used, limit=limit, unit="bytes", tier=limits.tier,
    )  # fmt: skip


# --- limits of all documents


def check_quotas(old: ContextState, new: ContextState, limits: Limits) -> None:
    """Refuse what has grown beyond the limits on all documents of a user.

    :raises QuotaExceededError: too many documents or entries, or too many bytes.
    """
    was, count, most = len(old.documents), len(new.documents), limits.context_documents
    if count > max(was, most):
        refuse_count(NAME, "documents", was, limits, "context_documents", new=count - was)
    _check_entries(old.entries, new.entries, limits)
    if new.size_bytes > max(old.size_bytes, limits.context_bytes):
        grows = new.size_bytes - old.size_bytes
        refuse_bytes(NAME, old.size_bytes, limits, "context_bytes", new=grows)


def _check_entries(was: int, asked: int, limits: Limits) -> None:
    limit = limits.context_entries
    if asked <= max(was, limit):
        return
    if was >= limit:
        refuse_count(NAME, "entries", was, limits, "context_entries")
    raise QuotaExceededError(
        f"That would make {asked:,} context entries of {was:,} (max: {limit:,}). "
        "Write fewer at once, or delete some.",
        kind=NAME, used=was, limit=limit, unit="count", tier=limits.tier,
    )  # fmt: skip


# --- the archive


def roomy(room: DocumentRoom) -> int:
    """Return up to how many tokens so much of the soft limit is free that nothing has to go."""
    return round(room.budget.soft_tokens * (1 - room.free))


def archiving(
    state: ContextState, document: str, memory_ids: Collection[str], cause: str
) -> EntriesArchived:
    """Return the event by which living entries go to the archive, with what they stood under."""
    gone = set(memory_ids)
    entries = [
        ArchivedEntry(
            memory_id=row.memory_id,
            digest=text_digest(entry_text(row.raw or "")),
            section=None
            if heading is None
            else Section(heading.memory_id, heading.heading or "", heading.raw or "", heading.rank),
        )
        for row, heading in under_sections(blocks(state, document))
        if row.memory_id in gone
    ]
    return EntriesArchived(document=document, entries=tuple(entries), cause=cause)


def stalest(
    state: ContextState, document: str, read_at_us: Mapping[str, int], new: Collection[str] = ()
) -> list[BlockRow]:
    """Return the entries that may be archived, the least recently used first; new ones last."""
    rows = [row for row in blocks(state, document) if row.heading is None and not row.pinned]
    return sorted(
        rows,
        key=lambda row: (
            row.memory_id in new,
            max(row.touched_at_us, read_at_us.get(row.memory_id, 0)),
            row.rank,
        ),
    )


def fewest(
    state: ContextState, document: str, rows: Sequence[BlockRow], enough: Callable[[str], bool]
) -> int | None:
    """Return how many of these entries, from the first, must go until a text is small enough.

    None if all together are too few.
    """
    found = bisect_left(
        range(len(rows) + 1), True, key=lambda gone: enough(without(state, document, rows[:gone]))
    )
    return found if found <= len(rows) else None


def without(state: ContextState, document: str, rows: Sequence[BlockRow]) -> str:
    """Return the text of a document without some of its entries."""
    gone = {row.memory_id for row in rows}
    return text(row for row in blocks(state, document) if row.memory_id not in gone)
