"""The parts that a store is opened with. A client loads this, but no engine."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from memory_actors.base.settings import Encrypt, Settings

if TYPE_CHECKING:
    from memory_actors.compaction.summarizers import Summarizer
    from memory_actors.extraction.protocol import Extract, Extractor
    from memory_actors.observing.alerts import AlertSink
    from memory_actors.observing.metrics import Metrics
    from memory_actors.search.embedding.protocol import Embedder
    from memory_actors.search.reranking import Reranker
    from memory_actors.search.superseding import Supersedes, Superseding


@dataclass(frozen=True, kw_only=True)  # no msgspec struct: its signature needs the types below
class StoreParts:
    """The parts of a store; fields are None if nothing was chosen. See `MemorySystem.open`."""

    embedder: "Embedder | str | None" = None
    summarizer: "Summarizer | None" = None
    supersedes: "Supersedes | Superseding | bool | None" = None
    extractor: "Extractor | Extract | str | None" = None
    reranker: "Reranker | str | None" = None
    clock: Callable[[], int] | None = None
    new_id: Callable[[int], str] | None = None
    settings: Settings | None = None
    alerts: "Sequence[AlertSink] | None" = None
    metrics: "Metrics | None" = None
    reindex: bool = False
    encrypt: Encrypt = False
