"""Context documents as files that people edit: `sync` once, `watch` while an agent runs."""

from memory_actors.integrations.context_files.merge import Conflict
from memory_actors.integrations.context_files.syncing import SyncReport, sync, watch

__all__ = ["Conflict", "SyncReport", "sync", "watch"]
