"""The examples in the OpenAPI document: made of the records themselves, so they cannot go stale."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

import msgspec
from litestar.openapi.datastructures import ResponseSpec
from litestar.openapi.spec import Example

from memory_actors.base.records import (
    HistoryEntry,
    Hit,
    KindUsage,
    Memory,
    QuotaUse,
    Receipt,
    Usage,
)
from memory_actors.base.reports import CompactionProgress, CompactionReport, Purged, Why, WhyStep
from memory_actors.server.bodies import (
    AddMemory,
    Compress,
    CompressionStats,
    Count,
    Deleted,
    Health,
    History,
    Hits,
    Memories,
    Purge,
    Search,
    UpdateMemory,
)
from memory_actors.server.jobs import Job, as_told
from memory_actors.server.problems import MEDIA_TYPE, TYPE_PREFIX, Problem

USER_ID, MEMORY_ID, JOB_ID = (
    "user_123",
    "mem_0605f1c5a0b4801f2e3d4c5b6a7980",
    "job_9f86d081884c7d65",
)
_AT: Final = datetime(2025, 11, 14, 9, 30, tzinfo=UTC)
_FACT: Final[dict[str, Any]] = {
    "memory_id": MEMORY_ID,
    "content": "User enjoys skiing",
    "memory_type": "long_term",
    "metadata": {"category": "sports"},
    "created_at": _AT,
    "occurred_at": _AT,
    "session_id": "sess_abc123",
    "size_bytes": 18,
    "stored_bytes": 203,
}

ADD: Final = AddMemory(
    content="User enjoys skiing", metadata={"category": "sports"}, session_id="sess_abc123"
)
UPDATE: Final = UpdateMemory(content="User enjoys skiing and snowboarding")
SEARCH: Final = Search(query="winter sports", top_k=3, filters={"category": "sports"})
SOURCE: Final = "https://news.example/article"
PURGE: Final = Purge(source=SOURCE)
PURGED: Final = Purged(
    user_id=USER_ID,
    source=SOURCE,
    trust=None,
    dry_run=False,
    purged_at=_AT,
    gone={"long_term": (MEMORY_ID,)},
)
COMPRESS: Final = Compress(user_id=USER_ID, dry_run=True, older_than="90d")

RECEIPT: Final = Receipt(
    memory_id=MEMORY_ID,
    operation="add",
    memory_type="long_term",
    latency_ms=4.1,
    quota_remaining=9_999,
)
UPDATED: Final = msgspec.structs.replace(RECEIPT, operation="update")
DELETED: Final = msgspec.structs.replace(RECEIPT, operation="delete", quota_remaining=10_000)
DELETED_MANY: Final = Deleted([DELETED])
COUNT: Final = Count(1)
MEMORY: Final = Memory(**_FACT)
MEMORIES: Final = Memories([MEMORY])
HITS: Final = Hits([Hit(**_FACT, score=0.83)])
HISTORY: Final = History(
    [
        HistoryEntry(
            position=41,
            version=7,
            recorded_at=_AT,
            event="long_term.added",
            data={"memory_id": MEMORY_ID, "content": "User enjoys skiing"},
            cause={"command": "AddMemories", "agent_id": "travel_agent"},
        )
    ]
)
WHY: Final = Why(
    memory_id=MEMORY_ID,
    memory_type="long_term",
    alive=True,
    summary_id=None,
    originals=(),
    steps=(
        WhyStep(
            memory_id=MEMORY_ID,
            position=41,
            version=7,
            at=_AT,
            event="long_term.added",
            effect="added",
            command="AddMemories",
            agent_id="travel_agent",
            session_id=None,
            source=None,
            trust=None,
            cause=None,
            by=None,
            says="Added by agent travel_agent.",
        ),
    ),
    says="It is there.",
)
USAGE: Final = Usage(
    user_id=USER_ID,
    at=_AT,
    tier="pro",
    kinds={
        "long_term": KindUsage(
            count=1,
            size_bytes=18,
            stored_bytes=203,
            evicted=0,
            pruned=0,
            quotas=(QuotaUse("memories", "count", 1, 10_000),),
        )
    },
)
QUEUED: Final = Job(
    job_id=JOB_ID,
    state="queued",
    user_id=USER_ID,
    dry_run=True,
    older_than="90d",
    episodes=None,
    created_at=_AT,
)
DONE: Final = msgspec.structs.replace(
    QUEUED,
    state="done",
    started_at=_AT,
    finished_at=_AT,
    progress=msgspec.to_builtins(
        CompactionProgress(
            users_done=1, users_total=1, user_id=USER_ID, clusters_done=3, clusters_total=3
        )
    ),
    report=as_told(
        CompactionReport(
            dry_run=True,
            users=1,
            memories_considered=412,
            clusters=(),
            compressed=3,
            originals=267,
            failed=0,
            bytes_before=60_112,
            bytes_after=7_410,
            file_bytes_before=4_194_304,
            file_bytes_after=4_194_304,
            took_s=1.3,
        ),
        "bytes_saved",
        "compression_ratio",
    ),
)
STATS: Final = CompressionStats(
    summaries=3,
    originals=267,
    bytes_before=60_112,
    bytes_after=7_410,
    bytes_saved=52_702,
    compression_ratio=0.1233,
    failed_clusters=0,
    runs=1,
    last_run_at=_AT,
    schedule="0 3 * * 0",
)
HEALTH: Final = Health(status="ok", version="0.1.0")

_PROBLEMS: Final[Mapping[int, tuple[str, str, str]]] = {
    400: ("invalid-input", "Invalid input", "query is empty: give it some text"),
    401: ("unauthorized", "Unauthorized", "Send an API key: Authorization: Bearer ma_…"),
    403: ("forbidden", "Forbidden", "This key is for the memory of another user."),
    404: ("not-found", "Not found", f"no memory {MEMORY_ID!r}"),
    409: (
        "quota-exceeded",
        "Quota exceeded",
        "User has 10,000 long-term memories (max: 10,000). Delete old memories or upgrade quota.",
    ),
    413: (
        "content-too-large",
        "Content too large",
        "The body is over 1 MiB: send less at a time.",
    ),
    503: ("unavailable", "Unavailable", "The server cannot do this now."),
}  # fmt: skip


def example(value: object) -> list[Example]:
    """Return a value as the one example of something."""
    return [Example(summary="Example", value=msgspec.to_builtins(value))]


def answers(status: int, value: object, *problems: int) -> dict[int, ResponseSpec]:
    """Return what a route answers: an example of success, and of each of its problems."""
    success = ResponseSpec(
        type(value), generate_examples=False, description=_first_line(value),
        examples=example(value),
    )  # fmt: skip
    return {status: success, **{number: _problem(number) for number in (*problems, 503)}}


def _first_line(value: object) -> str:
    return (type(value).__doc__ or "").splitlines()[0]


def _problem(status: int) -> ResponseSpec:
    name, title, detail = _PROBLEMS[status]
    problem = Problem(
        type=TYPE_PREFIX + name,
        title=title,
        status=status,
        detail=detail,
        instance="urn:uuid:7f1c1a52-1a0b-4a6e-9a86-0f4a3f0c2d11",
    )
    return ResponseSpec(
        Problem, generate_examples=False, description=title, media_type=MEDIA_TYPE,
        examples=example(problem),
    )  # fmt: skip
