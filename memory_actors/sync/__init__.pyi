"""Made by scripts/sync_stub.py from the async API: do not edit."""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from eventlog import (
    BackedUp,
    Exported,
    Heads,
    Imported,
    OnDropped,
    Progress,
    Restored,
    VerifyReport,
)
from memory_actors.base.context_documents import (
    BlockChange,
    ContextEntry,
    ContextHit,
    ContextReceipt,
    ContextSize,
    DocumentBlock,
    DocumentInfo,
)
from memory_actors.base.records import (
    AsOf,
    Direction,
    Document,
    Entity,
    Episode,
    HistoryEntry,
    Hits,
    Item,
    Memory,
    MemoryType,
    Metadata,
    Neighbour,
    OnDuplicate,
    Order,
    Receipt,
    Relationship,
    Tier,
    Time,
    Trust,
)
from memory_actors.base.reports import (
    CompactionProgress,
    CompactionReport,
    CompactionStats,
    Diff,
    EraseReceipt,
    Extraction,
    LogEntry,
    Moment,
    Purged,
    PurgeReport,
    Recall,
    Undone,
    Why,
)
from memory_actors.base.reports import Context as Prompt
from memory_actors.base.settings import Encrypt, Settings
from memory_actors.base.statistics import SystemStatistics
from memory_actors.base.usage import CostEstimate, SystemUsage, Usage
from memory_actors.base.weights import Weights
from memory_actors.compaction.summarizers import Summarizer
from memory_actors.extraction import Extract, Extractor
from memory_actors.observing.alerts import AlertSink
from memory_actors.observing.metrics import Metrics
from memory_actors.search.embedding.protocol import Embedder
from memory_actors.search.superseding import Supersedes, Superseding
from memory_actors.sync.blocking import on_loop as on_loop

class UserMemory:
    context: UserContext
    working: WorkingMemory
    short_term: ShortTermMemory
    entities: EntityGraph
    episodes: Episodes
    documents: Documents
    @property
    def user_id(self) -> str: ...
    def retrieve(
        self,
        query: str,
        *,
        memory_types: Sequence[MemoryType | str] | None = None,
        memory_type: MemoryType | str | None = None,
        top_k: int | None = None,
        filters: Mapping[str, Any] | None = None,
        since: Time | None = None,
        until: Time | None = None,
        as_of: Time | None = None,
        session_id: str | None = None,
        exclude_ids: Sequence[str] = ...,
        exclude_session: str | None = None,
        min_score: float = 0.0,
        token_budget: int | None = None,
        diversity: float = 0.0,
        order: Order | None = None,
        explain: bool = False,
        weights: Weights | None = None,
        reference_time: Time | None = None,
        compressed: bool = True,
        sources: Sequence[str] | None = None,
        min_trust: Trust | str | None = None,
        agent_id: str | None = None,
    ) -> Hits: ...
    def expand(self, compressed_id: str) -> list[Memory]: ...
    def get(self, memory_id: str) -> Memory: ...
    def list_memories(
        self,
        memory_types: Sequence[MemoryType | str] | None = None,
        *,
        filters: Mapping[str, Any] | None = None,
        sources: Sequence[str] | None = None,
        min_trust: Trust | str | None = None,
        limit: int = 100,
        offset: int = 0,
        agent_id: str | None = None,
    ) -> list[Memory]: ...
    def count(
        self,
        filters: Mapping[str, Any] | None = None,
        *,
        memory_types: Sequence[MemoryType | str] | None = None,
        sources: Sequence[str] | None = None,
        min_trust: Trust | str | None = None,
        agent_id: str | None = None,
    ) -> int: ...
    def history(self, memory_id: str) -> list[HistoryEntry]: ...
    def extractions(self, *, limit: int = 100) -> list[Extraction]: ...
    def why(self, memory_id: str) -> Why: ...
    def usage(self) -> Usage: ...
    def estimate_monthly_cost(self) -> CostEstimate: ...
    def export(self) -> Iterator[Memory]: ...
    def from_source(self, source: str | None, trust: Trust | str | None = None) -> Self: ...
    def add(
        self,
        content: str,
        memory_type: MemoryType | str = ...,
        *,
        metadata: Metadata | None = None,
        occurred_at: Time | None = None,
        session_id: str | None = None,
        role: str | None = None,
        key: str | None = None,
        memory_id: str | None = None,
        pinned: bool = False,
        auto_prune: bool | None = None,
        idempotency_key: str | None = None,
        on_duplicate: OnDuplicate | None = None,
        ttl_s: float | None = None,
    ) -> Receipt: ...
    def add_with_auto_prune(
        self,
        content: str,
        memory_type: MemoryType | str = ...,
        *,
        metadata: Metadata | None = None,
        occurred_at: Time | None = None,
        session_id: str | None = None,
        role: str | None = None,
        key: str | None = None,
        memory_id: str | None = None,
        pinned: bool = False,
        idempotency_key: str | None = None,
        on_duplicate: OnDuplicate | None = None,
        ttl_s: float | None = None,
    ) -> Receipt: ...
    def add_many(
        self,
        items: Sequence[Item],
        *,
        auto_prune: bool | None = None,
        idempotency_key: str | None = None,
        on_duplicate: OnDuplicate | None = None,
        ttl_s: float | None = None,
    ) -> list[Receipt]: ...
    def update(
        self,
        memory_id: str,
        *,
        content: str | None = None,
        metadata: Metadata | None = None,
        pinned: bool | None = None,
        filters: Mapping[str, Any] | None = None,
    ) -> Receipt: ...
    def delete(self, memory_id: str, *, filters: Mapping[str, Any] | None = None) -> Receipt: ...
    def full_id(self, beginning: str) -> str: ...
    def delete_many(
        self,
        filters: Mapping[str, Any],
        *,
        memory_types: Sequence[MemoryType | str] | None = None,
        sources: Sequence[str] | None = None,
        min_trust: Trust | str | None = None,
        agent_id: str | None = None,
    ) -> list[Receipt]: ...
    def restore(self, memory_ids: Sequence[str]) -> list[Receipt]: ...
    def purge(
        self, source: str | None = None, *, trust: Trust | str | None = None, dry_run: bool = False
    ) -> Purged: ...
    def extract(
        self,
        session_id: str | None = None,
        *,
        message_ids: Sequence[str] | None = None,
        metadata: Metadata | None = None,
        within: Metadata | None = None,
        batches_max: int = ...,
        dry_run: bool = False,
    ) -> Extraction: ...
    def undo(self, extraction_id: str) -> Undone: ...
    def set_tier(self, tier: Tier | str) -> None: ...
    def undo_compaction(self, compressed_id: str) -> list[Receipt]: ...

class WorkingMemory:
    def lasting(self, ttl_s: float | None) -> Self: ...
    def set(
        self,
        key: str,
        value: Any,
        *,
        metadata: Metadata | None = None,
        memory_id: str | None = None,
        auto_prune: bool | None = None,
        ttl_s: float | None = None,
    ) -> Receipt: ...
    def get(self, key: str, default: Any = None) -> Any: ...
    def delete(self, key: str) -> Receipt: ...
    def items(self) -> dict[str, Any]: ...

class ShortTermMemory:
    def lasting(self, ttl_s: float | None) -> Self: ...
    @property
    def ttl(self) -> int: ...
    def add_message(
        self,
        content: str,
        *,
        role: str | None = None,
        session_id: str | None = None,
        metadata: Metadata | None = None,
        occurred_at: Time | None = None,
        memory_id: str | None = None,
    ) -> Receipt: ...
    def messages(
        self, session_id: str | None = None, *, last: int | None = None
    ) -> list[Memory]: ...

class EntityGraph:
    def lasting(self, ttl_s: float | None) -> Self: ...
    def add_entity(
        self,
        name: str,
        type: str = ...,
        observations: Sequence[str] = ...,
        *,
        metadata: Metadata | None = None,
        occurred_at: Time | None = None,
        memory_id: str | None = None,
        pinned: bool = False,
        auto_prune: bool | None = None,
    ) -> Receipt: ...
    def observe(self, entity_ref: str, *observations: str) -> Receipt: ...
    def remove_observation(self, entity_ref: str, observation: str) -> Receipt: ...
    def relate(
        self,
        source: str,
        relation: str,
        target: str,
        *,
        fact: str | None = None,
        valid_from: Time | None = None,
        valid_to: Time | None = None,
        exclusive: bool | None = None,
        metadata: Metadata | None = None,
        memory_id: str | None = None,
        pinned: bool = False,
        auto_prune: bool | None = None,
    ) -> Receipt: ...
    def end(self, relationship_id: str, at: Time | None = None) -> Receipt: ...
    def delete(self, entity_ref: str) -> Receipt: ...
    def get(self, entity_ref: str, type: str | None = None) -> Entity: ...
    def relationships(
        self,
        entity_ref: str,
        *,
        relation: str | None = None,
        direction: Direction = "both",
        as_of: Time | None = None,
        ended: bool = False,
    ) -> list[Relationship]: ...
    def neighbours(
        self,
        entity_ref: str,
        depth: int = 1,
        *,
        relation: str | None = None,
        direction: Direction = "both",
        as_of: Time | None = None,
        ended: bool = False,
        limit: int = 100,
    ) -> list[Neighbour]: ...

class Documents:
    def lasting(self, ttl_s: float | None) -> Self: ...
    def put(
        self,
        collection: str,
        document: Mapping[str, Any],
        *,
        key: str | None = None,
        metadata: Metadata | None = None,
        occurred_at: Time | None = None,
        memory_id: str | None = None,
        pinned: bool | None = None,
        auto_prune: bool | None = None,
        ttl_s: float | None = None,
    ) -> Receipt: ...
    def get(self, key: str, collection: str = ...) -> Document: ...
    def find(
        self,
        collection: str = ...,
        filters: Mapping[str, Any] | None = None,
        *,
        order_by: str | Sequence[str] | None = None,
        limit: int = 100,
        offset: int = 0,
    ) -> list[Document]: ...
    def count(self, collection: str = ..., filters: Mapping[str, Any] | None = None) -> int: ...
    def delete(self, key: str, collection: str = ...) -> Receipt: ...
    def collections(self) -> dict[str, int]: ...

class MemorySystem:
    @classmethod
    def open(
        cls,
        directory: str | Path | Sequence[str],
        *,
        share: bool = True,
        embedder: Embedder | str | None = None,
        summarizer: Summarizer | None = None,
        supersedes: Supersedes | Superseding | bool | None = None,
        extractor: Extractor | Extract | None = None,
        clock: Callable[[], int] | None = None,
        new_id: Callable[[int], str] | None = None,
        settings: Settings | None = None,
        alerts: Sequence[AlertSink] | None = None,
        metrics: Metrics | None = None,
        reindex: bool = False,
        encrypt: Encrypt = False,
    ) -> MemorySystem: ...
    @classmethod
    def connect(
        cls, url: str, *, key: str | None = None, timeout_s: float = 30.0
    ) -> MemorySystem: ...
    def erase(self, user_id: str) -> EraseReceipt: ...
    def purge(
        self,
        source: str | None = None,
        *,
        trust: Trust | str | None = None,
        dry_run: bool = False,
        progress: Progress | None = None,
    ) -> PurgeReport: ...
    def backup(self, directory: str | Path, *, derived: bool = False) -> BackedUp: ...
    @staticmethod
    def restore_backup(backup: str | Path, directory: str | Path) -> Restored: ...
    def export_since(
        self, position: int, file: str | Path, *, progress: Progress | None = None
    ) -> Exported: ...
    @staticmethod
    def import_events(
        file: str | Path,
        directory: str | Path,
        *,
        key_file: str | Path | None = None,
        progress: Progress | None = None,
    ) -> Imported: ...
    def watch_erasures(self, forget: Callable[[str], object]) -> None: ...
    def heads(self) -> Heads: ...
    def verify(
        self, progress: Progress | None = None, *, against: Heads | None = None
    ) -> VerifyReport: ...
    def check_replay(self) -> list[str]: ...
    def close(self) -> None: ...
    def user(
        self,
        user_id: str,
        *,
        agent_id: str | None = None,
        session_id: str | None = None,
        source: str | None = None,
        trust: Trust | str | None = None,
        auto_prune: bool = False,
    ) -> UserMemory: ...
    def replay(
        self,
        user_id: str,
        as_of: AsOf = None,
        *,
        agent_id: str | None = None,
        session_id: str | None = None,
        dropped: OnDropped = "raise",
    ) -> PastMemory: ...
    def diff(
        self, user_id: str, a: AsOf, b: AsOf = None, *, dropped: OnDropped = "raise"
    ) -> Diff: ...
    def events(
        self,
        user_id: str | None = None,
        *,
        after: int = 0,
        since: Time | None = None,
        until: Time | None = None,
        follow: bool = False,
    ) -> Iterator[LogEntry]: ...
    def recalls(
        self,
        user_id: str,
        *,
        query: str | None = None,
        memory_id: str | None = None,
        since: Time | None = None,
        until: Time | None = None,
        limit: int = 100,
    ) -> list[Recall]: ...
    def users(self) -> list[str]: ...
    def compact(
        self,
        user_id: str | None = None,
        *,
        dry_run: bool = False,
        older_than: timedelta | str | None = None,
        episodes: bool | None = None,
        progress: Callable[[CompactionProgress], object] | None = None,
        stop: asyncio.Event | None = None,
    ) -> CompactionReport: ...
    def compaction_stats(self, user_id: str | None = None) -> CompactionStats: ...
    def usage(self) -> SystemUsage: ...
    def statistics(self) -> SystemStatistics: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...

class Episodes:
    def lasting(self, ttl_s: float | None) -> Self: ...
    def start(
        self,
        goal: str,
        *,
        agent_id: str | None = None,
        session_id: str | None = None,
        metadata: Metadata | None = None,
        occurred_at: Time | None = None,
        memory_id: str | None = None,
        pinned: bool = False,
        auto_prune: bool | None = None,
    ) -> Receipt: ...
    def step(
        self,
        episode_id: str,
        action: str,
        *,
        observation: str | None = None,
        outcome: str | None = None,
        error: str | None = None,
    ) -> Receipt: ...
    def finish(
        self, episode_id: str, result: str | None = None, *, success: bool = True
    ) -> Receipt: ...
    def put(self, episode: Episode) -> Receipt: ...
    def get(self, episode_id: str) -> Episode: ...
    def recent(self, agent_id: str | None = None, *, limit: int = 20) -> list[Episode]: ...

class PastMemory(UserMemory):
    moment: Moment
    lost: int
    def close(self) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...

class ContextDocument:
    def lasting(self, ttl_s: float | None) -> Self: ...
    def add(
        self,
        section: str,
        text: str,
        *,
        pinned: bool = False,
        metadata: Metadata | None = None,
        auto_archive: bool = False,
    ) -> ContextReceipt: ...
    def edit(self, entry_id: str, text: str, *, auto_archive: bool = False) -> ContextReceipt: ...
    def remove(self, entry_id: str) -> ContextReceipt: ...
    def touch(self, *entry_ids: str) -> ContextReceipt: ...
    def pin(self, *entry_ids: str, pinned: bool = True) -> ContextReceipt: ...
    def change(
        self,
        changes: Sequence[BlockChange],
        *,
        expected: bytes | None = None,
        auto_archive: bool = False,
    ) -> ContextReceipt: ...
    def check_text(self, text: str) -> None: ...
    def new_entry_id(self) -> str: ...
    def archive(
        self, entry_ids: Sequence[str] | None = None, *, free: float = ...
    ) -> ContextReceipt: ...
    def restore(self, entry_ids: Sequence[str]) -> ContextReceipt: ...
    def archived(self) -> list[ContextEntry]: ...
    def search_archive(self, query: str, top_k: int = 5) -> list[ContextHit]: ...
    def render(self) -> str: ...
    def size(self) -> ContextSize: ...
    def entries(self) -> list[ContextEntry]: ...
    def get(self, entry_id: str) -> ContextEntry: ...
    def note_read(self, entry_id: str) -> None: ...
    def blocks(self) -> list[DocumentBlock]: ...
    def synced(self, label: str = "") -> tuple[tuple[str, bytes], ...] | None: ...

class UserContext(ContextDocument):
    def __call__(
        self,
        query: str,
        session_id: str | None = None,
        limit: int | None = None,
        *,
        token_budget: int | None = None,
        max_item_tokens: int | None = None,
    ) -> Prompt: ...
    def document(self, name: str) -> ContextDocument: ...
    def documents(self) -> list[DocumentInfo]: ...
    def create(self, name: str, text: str = "") -> ContextReceipt: ...
    def rename(self, old: str, new: str) -> ContextReceipt: ...
    def rename_all(self, names: Mapping[str, str]) -> None: ...
    def delete(self, name: str) -> ContextReceipt: ...
    def delete_all(self, names: Sequence[str]) -> None: ...
