"""Retrieval: the memories of one user that are closest in meaning to a query.

What is indexed is scored by its index; working and short-term memory by the same centred cosine on
the fly: they are few, and their vectors are computed when first asked for and not kept on disk. A
memory of several passages scores as its best one. The best `top_k` of all kinds together come back,
working memory first, then short-term, then the rest by score. A filter picks the rows before
anything is ranked, so no match is lost to the cut.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import anyio.to_thread
import msgspec
import numpy as np

from memory_actors.embedding.protocol import Vectors
from memory_actors.filters import Predicate
from memory_actors.indexes.dense import score
from memory_actors.indexes.memory_index import MemoryIndex
from memory_actors.kinds import short_term, working
from memory_actors.kinds.kind import Kind
from memory_actors.live_user import LiveUser
from memory_actors.reading import Found, memories, texts
from memory_actors.records import Hit
from memory_actors.services import Services

GROUPS = (working.NAME, short_term.NAME)
"""Kinds that come before the others, whatever their score."""


class Query(NamedTuple):
    """A checked request."""

    text: str
    kinds: Sequence[Kind]
    top_k: int
    matches: Predicate | None
    session_id: str | None
    """Whose short-term memory; None means the three sessions that were used last."""
    now_us: int


class _Scored(NamedTuple):
    found: Found
    score: float


class _Indexed(NamedTuple):
    """A kind with an index, and the state of it that the answer is about."""

    kind: Kind
    state: Any
    vectors: MemoryIndex


async def retrieve(services: Services, live: LiveUser, query: Query) -> list[Hit]:
    """Return the best memories for a query.

    :raises EmbedderError: the query could not be embedded.
    """
    await live.indexes.indexed(query.kinds)
    if not _at_hand(live, query) and not _indexed(live, query):
        return []
    background = await services.embeddings.background_mean()
    (vector,) = await services.embeddings.embed([query.text], keep=False)
    centre = live.indexes.centre(background)
    scored = await _score_at_hand(services, live, _at_hand(live, query), vector, centre)
    scored += await _search(_indexed(live, query), query, vector, centre)
    best = sorted(scored, key=lambda item: -item.score)[: query.top_k]
    return await _hits(services, live, best)


def _indexed(live: LiveUser, query: Query) -> list[_Indexed]:
    return [
        _Indexed(kind, live.state.of(kind), index)
        for kind in query.kinds
        if (index := live.indexes.get(kind)) is not None
    ]


def _at_hand(live: LiveUser, query: Query) -> list[Found]:
    """Return the rows without an index that the query may find."""
    state = live.state.at(query.now_us)
    found = [
        Found(kind, row)
        for kind in query.kinds
        for row in kind.at_hand(state.of(kind), query.session_id)
    ]
    matches = query.matches
    return found if matches is None else [one for one in found if matches(one.row.metadata)]


async def _score_at_hand(
    services: Services, live: LiveUser, found: list[Found], vector: Vectors, centre: Vectors
) -> list[_Scored]:
    if not found:
        return []
    events = await texts(services.log, live.stream, found)
    phrased = [
        kind.passage_text(row, passage.label, events)
        for kind, row in found
        for passage in kind.passages(row)
    ]
    vectors = np.stack(await services.embeddings.embed(phrased, keep=False))
    scores = score(vectors, vector, centre)
    return [_Scored(one, float(value)) for one, value in zip(found, scores, strict=True)]


async def _search(
    indexed: Sequence[_Indexed], query: Query, vector: Vectors, centre: Vectors
) -> list[_Scored]:
    """Search the indexes: on the loop if that is quick, else in one thread."""
    search = partial(_searched, indexed, query, vector, centre)
    small = all(one.vectors.dense.cheap for one in indexed)
    return search() if small else await anyio.to_thread.run_sync(search)


def _searched(
    indexed: Sequence[_Indexed], query: Query, vector: Vectors, centre: Vectors
) -> list[_Scored]:
    return [scored for one in indexed for scored in _search_one(one, query, vector, centre)]


def _search_one(one: _Indexed, query: Query, vector: Vectors, centre: Vectors) -> list[_Scored]:
    """Return the best rows of one kind, each by its best passage."""
    kind, state, index = one
    allowed = _allowed(kind, state, query)
    wanted = query.top_k
    while True:
        matches = index.dense.search(vector, wanted, centre, allowed)
        best: dict[str, _Scored] = {}
        for match in matches:
            row = kind.find(state, index.owner(match.label) or "")
            if row is not None:
                best.setdefault(row.memory_id, _Scored(Found(kind, row), match.score))
        if len(best) >= query.top_k or len(matches) < wanted:
            return list(best.values())[: query.top_k]
        wanted *= 4  # some rows were found by several passages


def _allowed(kind: Kind, state: Any, query: Query) -> list[int] | None:
    """Return the labels of the rows that match the filter; None for all."""
    matches = query.matches
    if matches is None:
        return None
    rows = (row for row in kind.rows(state) if matches(row.metadata))
    return [passage.label for row in rows for passage in kind.passages(row)]


async def _hits(services: Services, live: LiveUser, best: Sequence[_Scored]) -> list[Hit]:
    ordered = [
        *(s for group in GROUPS for s in best if group == s.found.kind.NAME),
        *(s for s in best if s.found.kind.NAME not in GROUPS),
    ]
    read = await memories(services.log, live.stream, [scored.found for scored in ordered])
    return [
        Hit(**_fields(memory), score=min(1.0, max(0.0, (1 + scored.score) / 2)))
        for memory, scored in zip(read, ordered, strict=True)
    ]


def _fields(memory: msgspec.Struct) -> dict[str, Any]:
    return {name: getattr(memory, name) for name in memory.__struct_fields__}
