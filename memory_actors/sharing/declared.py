"""Made by scripts/declared.py from the methods of the API: do not edit."""

from collections.abc import Mapping
from typing import Any, Final

from eventlog.core.records import BackedUp, Exported, Heads, VerifyReport
from memory_actors.base.context_documents import (
    ContextEntry,
    ContextHit,
    ContextReceipt,
    ContextSize,
    DocumentBlock,
    DocumentInfo,
)
from memory_actors.base.records import (
    Document,
    Entity,
    Episode,
    HistoryEntry,
    Hit,
    Memory,
    Neighbour,
    Receipt,
    Relationship,
)
from memory_actors.base.reports import (
    CompactionReport,
    CompactionStats,
    Context,
    Diff,
    EraseReceipt,
    Extraction,
    LogEntry,
    Purged,
    PurgeReport,
    Recall,
    Undone,
    Why,
)
from memory_actors.base.statistics import SystemStatistics
from memory_actors.base.usage import CostEstimate, SystemUsage, Usage
from memory_actors.sharing.declaration import AT_ONCE, AWAITED, ITERATED, Declared

DECLARED: Final[Mapping[str, Declared]] = {
    "add": Declared(
        AWAITED,
        Receipt,
        lambda self, content, memory_type="long_term", *, metadata=None, occurred_at=None, session_id=None, role=None, key=None, memory_id=None, pinned=False, auto_prune=None, idempotency_key=None, on_duplicate=None: (
            ...
        ),
    ),
    "add_many": Declared(
        AWAITED,
        list[Receipt],
        lambda self, items, *, auto_prune=None, idempotency_key=None, on_duplicate=None: ...,
    ),
    "add_with_auto_prune": Declared(
        AWAITED,
        Receipt,
        lambda self, content, memory_type="long_term", *, metadata=None, occurred_at=None, session_id=None, role=None, key=None, memory_id=None, pinned=False, idempotency_key=None, on_duplicate=None: (
            ...
        ),
    ),
    "count": Declared(
        AWAITED,
        int,
        lambda self, filters=None, *, memory_types=None, sources=None, min_trust=None: ...,
    ),
    "delete": Declared(AWAITED, Receipt, lambda self, memory_id, *, filters=None: ...),
    "delete_many": Declared(
        AWAITED,
        list[Receipt],
        lambda self, filters, *, memory_types=None, sources=None, min_trust=None: ...,
    ),
    "estimate_monthly_cost": Declared(AWAITED, CostEstimate, lambda self: ...),
    "expand": Declared(AWAITED, list[Memory], lambda self, compressed_id: ...),
    "export": Declared(ITERATED, Memory, lambda self: ...),
    "extract": Declared(
        AWAITED,
        Extraction,
        lambda self, session_id=None, *, message_ids=None, metadata=None, within=None, batches_max=10, dry_run=False: (
            ...
        ),
    ),
    "extractions": Declared(AWAITED, list[Extraction], lambda self, *, limit=100: ...),
    "full_id": Declared(AWAITED, str, lambda self, beginning: ...),
    "get": Declared(AWAITED, Memory, lambda self, memory_id: ...),
    "history": Declared(AWAITED, list[HistoryEntry], lambda self, memory_id: ...),
    "list_memories": Declared(
        AWAITED,
        list[Memory],
        lambda self, memory_types=None, *, filters=None, sources=None, min_trust=None, limit=100, offset=0: (
            ...
        ),
    ),
    "purge": Declared(AWAITED, Purged, lambda self, source=None, *, trust=None, dry_run=False: ...),
    "restore": Declared(AWAITED, list[Receipt], lambda self, memory_ids: ...),
    "retrieve": Declared(
        AWAITED,
        list[Hit],
        lambda self, query, *, memory_types=None, memory_type=None, top_k=None, filters=None, since=None, until=None, as_of=None, session_id=None, exclude_ids=(), exclude_session=None, min_score=0.0, token_budget=None, diversity=0.0, order=None, explain=False, weights=None, reference_time=None, compressed=True, sources=None, min_trust=None: (
            ...
        ),
    ),
    "set_tier": Declared(AWAITED, None, lambda self, tier: ...),
    "undo": Declared(AWAITED, Undone, lambda self, extraction_id: ...),
    "undo_compaction": Declared(AWAITED, list[Receipt], lambda self, compressed_id: ...),
    "update": Declared(
        AWAITED, Receipt, lambda self, memory_id, *, content=None, metadata=None, filters=None: ...
    ),
    "usage": Declared(AWAITED, Usage, lambda self: ...),
    "why": Declared(AWAITED, Why, lambda self, memory_id: ...),
    "context": Declared(
        AWAITED,
        Context,
        lambda self, query, session_id=None, limit=None, *, token_budget=None, max_item_tokens=None: (
            ...
        ),
    ),
    "context.add": Declared(
        AWAITED,
        ContextReceipt,
        lambda self, section, text, *, pinned=False, metadata=None, auto_archive=False: ...,
    ),
    "context.archive": Declared(
        AWAITED, ContextReceipt, lambda self, entry_ids=None, *, free=0.4: ...
    ),
    "context.archived": Declared(AWAITED, list[ContextEntry], lambda self: ...),
    "context.blocks": Declared(AWAITED, list[DocumentBlock], lambda self: ...),
    "context.change": Declared(
        AWAITED, ContextReceipt, lambda self, changes, *, expected=None, auto_archive=False: ...
    ),
    "context.check_text": Declared(AWAITED, None, lambda self, text: ...),
    "context.create": Declared(AWAITED, ContextReceipt, lambda self, name, text="": ...),
    "context.delete": Declared(AWAITED, ContextReceipt, lambda self, name: ...),
    "context.delete_all": Declared(AWAITED, None, lambda self, names: ...),
    "context.documents": Declared(AWAITED, list[DocumentInfo], lambda self: ...),
    "context.edit": Declared(
        AWAITED, ContextReceipt, lambda self, entry_id, text, *, auto_archive=False: ...
    ),
    "context.entries": Declared(AWAITED, list[ContextEntry], lambda self: ...),
    "context.get": Declared(AWAITED, ContextEntry, lambda self, entry_id: ...),
    "context.note_read": Declared(AWAITED, None, lambda self, entry_id: ...),
    "context.pin": Declared(AWAITED, ContextReceipt, lambda self, *entry_ids, pinned=True: ...),
    "context.remove": Declared(AWAITED, ContextReceipt, lambda self, entry_id: ...),
    "context.rename": Declared(AWAITED, ContextReceipt, lambda self, old, new: ...),
    "context.rename_all": Declared(AWAITED, None, lambda self, names: ...),
    "context.render": Declared(AWAITED, str, lambda self: ...),
    "context.restore": Declared(AWAITED, ContextReceipt, lambda self, entry_ids: ...),
    "context.search_archive": Declared(AWAITED, list[ContextHit], lambda self, query, top_k=5: ...),
    "context.size": Declared(AWAITED, ContextSize, lambda self: ...),
    "context.synced": Declared(
        AWAITED, tuple[tuple[str, bytes], ...] | None, lambda self, label="": ...
    ),
    "context.touch": Declared(AWAITED, ContextReceipt, lambda self, *entry_ids: ...),
    "working.delete": Declared(AWAITED, Receipt, lambda self, key: ...),
    "working.get": Declared(AWAITED, Any, lambda self, key, default=None: ...),
    "working.items": Declared(AWAITED, dict[str, Any], lambda self: ...),
    "working.set": Declared(
        AWAITED,
        Receipt,
        lambda self, key, value, *, metadata=None, memory_id=None, auto_prune=None: ...,
    ),
    "short_term.add_message": Declared(
        AWAITED,
        Receipt,
        lambda self, content, *, role=None, session_id=None, metadata=None, occurred_at=None, memory_id=None: (
            ...
        ),
    ),
    "short_term.messages": Declared(
        AWAITED, list[Memory], lambda self, session_id=None, *, last=None: ...
    ),
    "entities.add_entity": Declared(
        AWAITED,
        Receipt,
        lambda self, name, type="entity", observations=(), *, metadata=None, occurred_at=None, memory_id=None, pinned=False, auto_prune=None: (
            ...
        ),
    ),
    "entities.delete": Declared(AWAITED, Receipt, lambda self, entity_ref: ...),
    "entities.end": Declared(AWAITED, Receipt, lambda self, relationship_id, at=None: ...),
    "entities.get": Declared(AWAITED, Entity, lambda self, entity_ref, type=None: ...),
    "entities.neighbours": Declared(
        AWAITED,
        list[Neighbour],
        lambda self, entity_ref, depth=1, *, relation=None, direction="both", as_of=None, ended=False, limit=100: (
            ...
        ),
    ),
    "entities.observe": Declared(AWAITED, Receipt, lambda self, entity_ref, *observations: ...),
    "entities.relate": Declared(
        AWAITED,
        Receipt,
        lambda self, source, relation, target, *, fact=None, valid_from=None, valid_to=None, exclusive=None, metadata=None, memory_id=None, pinned=False, auto_prune=None: (
            ...
        ),
    ),
    "entities.relationships": Declared(
        AWAITED,
        list[Relationship],
        lambda self, entity_ref, *, relation=None, direction="both", as_of=None, ended=False: ...,
    ),
    "entities.remove_observation": Declared(
        AWAITED, Receipt, lambda self, entity_ref, observation: ...
    ),
    "episodes.finish": Declared(
        AWAITED, Receipt, lambda self, episode_id, result=None, *, success=True: ...
    ),
    "episodes.get": Declared(AWAITED, Episode, lambda self, episode_id: ...),
    "episodes.put": Declared(AWAITED, Receipt, lambda self, episode: ...),
    "episodes.recent": Declared(
        AWAITED, list[Episode], lambda self, agent_id=None, *, limit=20: ...
    ),
    "episodes.start": Declared(
        AWAITED,
        Receipt,
        lambda self, goal, *, agent_id=None, session_id=None, metadata=None, occurred_at=None, memory_id=None, pinned=False, auto_prune=None: (
            ...
        ),
    ),
    "episodes.step": Declared(
        AWAITED,
        Receipt,
        lambda self, episode_id, action, *, observation=None, outcome=None, error=None: ...,
    ),
    "documents.collections": Declared(AWAITED, dict[str, int], lambda self: ...),
    "documents.count": Declared(AWAITED, int, lambda self, collection="default", filters=None: ...),
    "documents.delete": Declared(AWAITED, Receipt, lambda self, key, collection="default": ...),
    "documents.find": Declared(
        AWAITED,
        list[Document],
        lambda self, collection="default", filters=None, *, order_by=None, limit=100, offset=0: ...,
    ),
    "documents.get": Declared(AWAITED, Document, lambda self, key, collection="default": ...),
    "documents.put": Declared(
        AWAITED,
        Receipt,
        lambda self, collection, document, *, key=None, metadata=None, occurred_at=None, memory_id=None, pinned=None, auto_prune=None: (
            ...
        ),
    ),
    "system.backup": Declared(
        AWAITED, BackedUp, lambda self, directory, *, derived=False: ..., (0, "directory")
    ),
    "system.check_replay": Declared(AWAITED, list[str], lambda self: ...),
    "system.compact": Declared(
        AWAITED,
        CompactionReport,
        lambda self, user_id=None, *, dry_run=False, older_than=None, episodes=None, progress=None, stop=None: (
            ...
        ),
    ),
    "system.compaction_stats": Declared(AWAITED, CompactionStats, lambda self, user_id=None: ...),
    "system.diff": Declared(
        AWAITED, Diff, lambda self, user_id, a, b=None, *, dropped="raise": ...
    ),
    "system.erase": Declared(AWAITED, EraseReceipt, lambda self, user_id: ...),
    "system.events": Declared(
        ITERATED,
        LogEntry,
        lambda self, user_id=None, *, after=0, since=None, until=None, follow=False: ...,
    ),
    "system.export_since": Declared(
        AWAITED, Exported, lambda self, position, file, *, progress=None: ..., (1, "file")
    ),
    "system.heads": Declared(AWAITED, Heads, lambda self: ...),
    "system.purge": Declared(
        AWAITED,
        PurgeReport,
        lambda self, source=None, *, trust=None, dry_run=False, progress=None: ...,
    ),
    "system.recalls": Declared(
        AWAITED,
        list[Recall],
        lambda self, user_id, *, query=None, memory_id=None, since=None, until=None, limit=100: ...,
    ),
    "system.usage": Declared(AWAITED, SystemUsage, lambda self: ...),
    "system.users": Declared(AWAITED, list[str], lambda self: ...),
    "system.verify": Declared(
        AWAITED, VerifyReport, lambda self, progress=None, *, against=None: ...
    ),
    "system.statistics": Declared(AT_ONCE, SystemStatistics, lambda self: ...),
    "short_term.ttl": Declared(AT_ONCE, int, lambda self: ...),
    "context.new_entry_id": Declared(AT_ONCE, str, lambda self: ...),
    "context._put_block": Declared(AWAITED, Receipt, lambda self, memory_id, item, data: ...),
    "context._note_synced": Declared(
        AWAITED,
        ContextReceipt,
        lambda self, base, changes=(), *, expected=None, auto_archive=False, label="": ...,
    ),
    "context._archive_digest": Declared(AWAITED, bytes, lambda self: ...),
    "_put_summary": Declared(AWAITED, Receipt, lambda self, memory: ...),
}
"""What can be called, by its name."""
