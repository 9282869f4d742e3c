"""Made by scripts/generate_routes.py from the routes of the server: do not edit."""

from collections.abc import Mapping
from typing import Final

from eventlog.core.errors import KeyGone
from memory_actors.base.errors import (
    AccessDeniedError,
    EmbedderError,
    ExtractorError,
    ForgottenError,
    HeldError,
    InvalidInputError,
    MemoryLimitError,
    MissingExtraError,
    NotFoundError,
    QuotaExceededError,
    StorageFullError,
    UnavailableError,
)
from memory_actors.sharing.declaration import Offered

# fmt: off
OFFERED: Final[Mapping[str, Offered]] = {
    "add": Offered('POST', '/v1/users/{user_id}/memories', {'content': 'content', 'memory_type': 'memory_type', 'metadata': 'metadata', 'occurred_at': 'occurred_at', 'session_id': 'session_id', 'role': 'role', 'key': 'key', 'memory_id': 'memory_id', 'pinned': 'pinned', 'auto_prune': 'auto_prune', 'idempotency_key': 'idempotency_key', 'on_duplicate': 'on_duplicate', 'ttl_s': 'ttl_s', 'source': 'source', 'trust': 'trust'}, True, None, False),
    "add_many": Offered('POST', '/v1/users/{user_id}/memories/bulk', {'items': 'items', 'auto_prune': 'auto_prune', 'idempotency_key': 'idempotency_key', 'on_duplicate': 'on_duplicate', 'ttl_s': 'ttl_s', 'source': 'source', 'trust': 'trust'}, True, 'receipts', False),
    "retrieve": Offered('POST', '/v1/users/{user_id}/memories/search', {'query': 'query', 'memory_types': 'memory_types', 'memory_type': 'memory_type', 'top_k': 'top_k', 'filters': 'filters', 'since': 'since', 'until': 'until', 'as_of': 'as_of', 'session_id': 'session_id', 'exclude_ids': 'exclude_ids', 'exclude_session': 'exclude_session', 'min_score': 'min_score', 'token_budget': 'token_budget', 'diversity': 'diversity', 'order': 'order', 'explain': 'explain', 'weights': 'weights', 'reference_time': 'reference_time', 'compressed': 'compressed', 'sources': 'sources', 'min_trust': 'min_trust', 'agent_id': 'agent_id'}, True, 'hits', True),
    "list_memories": Offered('GET', '/v1/users/{user_id}/memories', {'memory_types': 'memory_type', 'filters': 'filters', 'sources': 'source', 'min_trust': 'min_trust', 'limit': 'limit', 'offset': 'offset', 'agent_id': 'agent_id', 'session_id': 'session', 'since': 'since', 'until': 'until', 'contains': 'contains'}, False, 'memories', True),
    "count": Offered('GET', '/v1/users/{user_id}/count', {'filters': 'filters', 'memory_types': 'memory_type', 'sources': 'source', 'min_trust': 'min_trust', 'agent_id': 'agent_id', 'session_id': 'session', 'since': 'since', 'until': 'until', 'contains': 'contains'}, False, 'count', True),
    "delete_many": Offered('DELETE', '/v1/users/{user_id}/memories', {'filters': 'filters', 'memory_types': 'memory_type', 'sources': 'source', 'min_trust': 'min_trust', 'agent_id': 'agent_id'}, False, 'receipts', False),
    "get": Offered('GET', '/v1/users/{user_id}/memories/{memory_id}', {}, False, None, True),
    "update": Offered('PATCH', '/v1/users/{user_id}/memories/{memory_id}', {'content': 'content', 'metadata': 'metadata', 'pinned': 'pinned', 'filters': 'filters', 'source': 'source', 'trust': 'trust'}, True, None, False),
    "delete": Offered('DELETE', '/v1/users/{user_id}/memories/{memory_id}', {'filters': 'filters'}, False, None, False),
    "history": Offered('GET', '/v1/users/{user_id}/memories/{memory_id}/history', {}, False, 'entries', True),
    "why": Offered('GET', '/v1/users/{user_id}/memories/{memory_id}/why', {}, False, None, True),
    "pending": Offered('GET', '/v1/users/{user_id}/pending', {'memory_types': 'memory_type', 'limit': 'limit', 'offset': 'offset'}, False, 'memories', True),
    "approve": Offered('POST', '/v1/users/{user_id}/pending/approve', {'memory_ids': 'memory_ids'}, True, 'receipts', False),
    "reject": Offered('POST', '/v1/users/{user_id}/pending/reject', {'memory_ids': 'memory_ids'}, True, 'receipts', False),
    "purge": Offered('POST', '/v1/users/{user_id}/purge', {'source': 'source', 'trust': 'trust', 'dry_run': 'dry_run'}, True, None, False),
    "forget": Offered('POST', '/v1/users/{user_id}/forget', {'what': 'what', 'everywhere': 'everywhere', 'similar': 'similar', 'reason': 'reason', 'dry_run': 'dry_run'}, True, None, False),
    "forgotten": Offered('GET', '/v1/users/{user_id}/forgotten', {}, False, 'forgotten', True),
    "unforget": Offered('POST', '/v1/users/{user_id}/unforget', {'what': 'what'}, True, None, False),
    "extract": Offered('POST', '/v1/users/{user_id}/extract', {'session_id': 'session_id', 'message_ids': 'message_ids', 'metadata': 'metadata', 'within': 'within', 'batches_max': 'batches_max', 'dry_run': 'dry_run'}, True, None, False),
    "extractions": Offered('GET', '/v1/users/{user_id}/extractions', {'limit': 'limit'}, False, 'extractions', True),
    "undo": Offered('POST', '/v1/users/{user_id}/undo', {'extraction_id': 'extraction_id'}, True, None, False),
    "usage": Offered('GET', '/v1/users/{user_id}/usage', {}, False, None, True),
    "grants": Offered('GET', '/v1/users/{user_id}/grants', {}, False, 'grants', True),
    "right": Offered('GET', '/v1/users/{user_id}/right', {}, False, 'right', True),
    "grant": Offered('POST', '/v1/users/{user_id}/grants', {'subject': 'subject', 'right': 'right'}, True, 'grants', False),
    "revoke": Offered('POST', '/v1/users/{user_id}/revoke', {'subject': 'subject'}, True, 'grants', False),
    "turn": Offered('POST', '/v1/users/{user_id}/turns', {'content': 'content', 'role': 'role', 'session_id': 'session_id', 'metadata': 'metadata', 'occurred_at': 'occurred_at', 'memory_id': 'memory_id', 'auto_prune': 'auto_prune', 'source': 'source', 'trust': 'trust'}, True, None, False),
    "context": Offered('POST', '/v1/users/{user_id}/context', {'query': 'query', 'session_id': 'session_id', 'limit': 'limit', 'token_budget': 'token_budget', 'max_item_tokens': 'max_item_tokens', 'document': 'document'}, True, None, True),
    "context.documents": Offered('GET', '/v1/users/{user_id}/context/documents', {}, False, 'documents', True),
    "context.render": Offered('GET', '/v1/users/{user_id}/context/documents/{document}', {}, False, 'text', True),
    "system.compact": Offered('POST', '/admin/compress/run', {'user_id': 'user_id', 'dry_run': 'dry_run', 'older_than': 'older_than', 'episodes': 'episodes'}, True, None, False),
    "system.compaction_stats": Offered('GET', '/admin/compress/stats', {'user_id': 'user_id'}, False, None, True),
}
"""The operations that a server carries out, by name."""
PROBLEMS: Final[Mapping[str, type[Exception]]] = {
    "quota-exceeded": QuotaExceededError,
    "forgotten": ForgottenError,
    "invalid-input": InvalidInputError,
    "forbidden": AccessDeniedError,
    "not-found": NotFoundError,
    "held": HeldError,
    "memory-limit": MemoryLimitError,
    "storage-full": StorageFullError,
    "embedder": EmbedderError,
    "extractor": ExtractorError,
    "key-gone": KeyGone,
    "not-implemented": MissingExtraError,
    "unavailable": UnavailableError,
}
"""The errors that problem details stand for, by the last part of their type."""
