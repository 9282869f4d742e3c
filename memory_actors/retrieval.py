"""Retrieval: the memories of one user that are closest in meaning to a query.

Long-term memories are scored by their index, working and short-term ones by the same centred cosine
on the fly: they are few, and their vectors are computed when first asked for and not kept on disk.
The best `top_k` of all kinds together come back, working memory first, then short-term, then the
rest by score. A filter picks the rows before anything is ranked, so no match is lost to the cut.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import anyio.to_thread
import msgspec
import numpy as np

from memory_actors.embedding.protocol import Vectors
from memory_actors.embedding.spoken import spoken
from memory_actors.filters import Predicate
from memory_actors.indexes.dense import DenseIndex, Match
from memory_actors.kinds import short_term
from memory_actors.live_user import LiveUser
from memory_actors.reading import Found, memories, texts
from memory_actors.records import Hit, MemoryType
from memory_actors.services import Services
from memory_actors.user import UserState

GROUPS = (MemoryType.WORKING, MemoryType.SHORT_TERM)
"""Kinds that come before the others, whatever their score."""
SESSIONS_MAX = 3  # searched when none is named: their messages are embedded on the way
INLINE_ROWS_MAX = 1_000  # filtered and searched on the loop: a hop to a thread costs as much


class Query(NamedTuple):
    """A checked request."""

    text: str
    kinds: Sequence[MemoryType]
    top_k: int
    matches: Predicate | None
    session_id: str | None
    """Whose short-term memory; None means the three sessions that were used last."""
    now_us: int


class _Scored(NamedTuple):
    found: Found
    score: float


async def retrieve(services: Services, live: LiveUser, query: Query) -> list[Hit]:
    """Return the best memories for a query.

    :raises EmbedderError: the query could not be embedded.
    """
    state = live.state
    small = _small_rows(state, query)
    long_term = MemoryType.LONG_TERM in query.kinds and len(state.long_term.rows) > 0
    if not small and not long_term:
        return []
    background = await services.embeddings.background_mean()
    (vector,) = await services.embeddings.embed([query.text], keep=False)
    scored = await _score_small(services, live, small, vector, background)
    if long_term:
        scored += await _search_index(live, query, vector, background)
    best = sorted(scored, key=lambda item: -item.score)[: query.top_k]
    return await _hits(services, live, best)


def _small_rows(state: UserState, query: Query) -> list[Found]:
    """Return the rows of working and short-term memory that the query may find."""
    rows: list[Found] = []
    if MemoryType.WORKING in query.kinds:
        rows += [Found(MemoryType.WORKING, row) for row in state.working.rows.values()]
    if MemoryType.SHORT_TERM in query.kinds:
        for message in _messages(state.short_term, query):
            rows.append(Found(MemoryType.SHORT_TERM, message))
    matches = query.matches
    return rows if matches is None else [r for r in rows if matches(r.row.metadata)]


def _messages(state: short_term.ShortTerm, query: Query) -> list[short_term.Row]:
    if query.session_id is not None:
        return list(short_term.messages(state, query.session_id, query.now_us))
    recent = short_term.recent_sessions(state, query.now_us, SESSIONS_MAX)
    return [message for session in recent for message in session.rows]


async def _score_small(
    services: Services, live: LiveUser, rows: list[Found], vector: Vectors, background: Vectors
) -> list[_Scored]:
    if not rows:
        return []
    contents = await texts(services.log, live.stream, rows)
    phrased = [_phrase(found, content) for found, content in zip(rows, contents, strict=True)]
    vectors = np.stack(await services.embeddings.embed(phrased, keep=False))
    scores = live.index.dense.score(vectors, vector, background)
    return [_Scored(found, float(score)) for found, score in zip(rows, scores, strict=True)]


def _phrase(found: Found, content: str) -> str:
    """Return a text with what says whom or what it is about: its speaker, or its key."""
    if found.kind is not MemoryType.WORKING:
        return spoken(content, found.row.role)
    if found.row.key == found.row.memory_id:
        return content
    return f"{found.row.key.replace('_', ' ')}: {content}"


async def _search_index(
    live: LiveUser, query: Query, vector: Vectors, background: Vectors
) -> list[_Scored]:
    await live.index.indexed()
    search = partial(_found, live.state, live.index.dense, query, vector, background)
    small = len(live.state.long_term.rows) <= INLINE_ROWS_MAX and live.index.dense.cheap
    found = search() if small else await anyio.to_thread.run_sync(search)
    living = ((live.index.row_of(match.label), match.score) for match in found)
    return [_Scored(Found(MemoryType.LONG_TERM, row), s) for row, s in living if row is not None]


def _found(
    state: UserState, index: DenseIndex, query: Query, vector: Vectors, background: Vectors
) -> list[Match]:
    """Filter, then search: what may take milliseconds, in a thread."""
    rows, matches = state.long_term.rows.values(), query.matches
    allowed = None if matches is None else [r.version for r in rows if matches(r.metadata)]
    return index.search(vector, query.top_k, background, allowed)


async def _hits(services: Services, live: LiveUser, best: Sequence[_Scored]) -> list[Hit]:
    ordered = [
        *(s for group in GROUPS for s in best if s.found.kind is group),
        *(s for s in best if s.found.kind not in GROUPS),
    ]
    read = await memories(services.log, live.stream, [scored.found for scored in ordered])
    return [
        Hit(**_fields(memory), score=min(1.0, max(0.0, (1 + scored.score) / 2)))
        for memory, scored in zip(read, ordered, strict=True)
    ]


def _fields(memory: msgspec.Struct) -> dict[str, Any]:
    return {name: getattr(memory, name) for name in memory.__struct_fields__}
