"""Retrieval: the memories of one user that answer a query.

What is indexed is ranked by its index. Working and short-term memory are few: they are indexed when
first asked for, in memory only. A memory of several passages ranks as its best one. The best
`top_k` of all kinds together come back, working memory first, then short-term, then the rest by
score. Behind them come the two best summaries of compressed memories: ranked apart, so that neither
takes the place of the other. What narrows a query down (a filter, a span of time) picks rows before
anything is ranked, so no match is lost to the cut.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import anyio.to_thread
import numpy as np

from memory_actors.embedding.protocol import Embedded, Embedder, Vectors
from memory_actors.embedding.tokens import unpack
from memory_actors.filters import Predicate
from memory_actors.fluency import foreign_share
from memory_actors.indexes.memory_index import MemoryIndex
from memory_actors.indexes.narrowing import Rows, matching, narrowed, of_origin
from memory_actors.indexes.parts import Parts
from memory_actors.indexes.traits import times
from memory_actors.indexes.wanting import Text
from memory_actors.kinds import short_term, working
from memory_actors.kinds.kind import Kind, Row
from memory_actors.live_user import UserView
from memory_actors.provenance import Provenance
from memory_actors.ranking import Question, Ranked, Weights, rank
from memory_actors.reading import Found, fields, texts
from memory_actors.records import Hit
from memory_actors.services import Services
from memory_actors.sourcing import Wanted

GROUPS = (working.NAME, short_term.NAME)
"""Kinds that come before the others, whatever their score."""
INLINE_ROWS_MAX = 12_000  # ranked on the loop, in 1.5 ms: a hop to a thread costs 0.2 ms
INLINE_POOL_MAX = 256  # memories to choose from: of 1,000, diversity takes 75 ms
BYTES_PER_TOKEN = 4  # of English, about: what `token_budget` reckons with
BUDGET_TOP_K = 1_000  # how many memories a budget of tokens chooses from, at most
HIT_TOKENS_MIN = 4  # of a memory, in the mean: "Ada likes tea." has four
COMPRESSED_MAX = 2  # summaries are long, and a query rarely needs more
COMPRESSED_CANDIDATES = 24  # passages of summaries, 150 tokens each, that all signals score
DIVERSE_POOL_MAX = 1_000  # each is compared with all that were chosen before it


class Query(NamedTuple):
    """A checked request."""

    text: str
    kinds: Sequence[Kind]
    top_k: int
    now_us: int
    filters: Mapping[str, Any] | None = None
    matches: Predicate | None = None
    """The test that `filters` make."""
    since_us: int | None = None
    """Of the time a memory was true; half-open with `until_us`."""
    until_us: int | None = None
    as_of_us: int | None = None
    """Only what was recorded by then, and relationships that were true at it."""
    session_id: str | None = None
    """Whose short-term memory; None means the three sessions that were used last."""
    min_score: float = 0.0
    token_budget: int | None = None
    """Instead of `top_k`: as many as fit."""
    diversity: float = 0.0
    """How much a result that is like a better one loses, 0 to 1."""
    explain: bool = False
    weights: Weights = Weights()
    reference_us: int | None = None
    """What "last week" is relative to; None is now."""
    compressed: bool = True
    """Whether summaries of compressed memories are wanted beside the others."""
    of_origin: Wanted | None = None
    """Says by its origins whether a memory may be found; None: all may."""


class _Scored(NamedTuple):
    found: Found
    score: float
    signals: dict[str, float] | None
    part: "_Part"
    label: int


class _Part(NamedTuple):
    """A kind with an index, the state that the answer is about, and what of it may be found."""

    kind: Kind
    state: Any
    searched: Parts
    owner: Callable[[int], str | None]
    """Returns the memory of a label."""
    rows: Rows | None
    """Those that may be found; None for all."""
    passes: Callable[[Row], bool] = lambda _row: True
    """Says of a row of the state whether it may be found: a graph proposes others, too, and it may
    have changed meanwhile."""


async def retrieve(services: Services, live: UserView, query: Query) -> list[Hit]:
    """Return the best memories for a query.

    :raises EmbedderError: the query could not be embedded.
    """
    await asyncio.sleep(0)  # with all in memory nothing else would let the others have a turn
    await live.indexes.indexed(query.kinds)
    if not _at_hand(live, query) and not _indexes(live, query):
        return []
    background = await services.embeddings.background_mean()
    (embedded,) = await services.embeddings.embed([services.embeddings.as_query(query.text)])
    best = await _searched(services, live, query, embedded, background)
    if await live.indexes.recovered(query.kinds):
        best = await _searched(services, live, query, embedded, background)
    return await _hits(services, live, best, query)


async def _searched(
    services: Services, live: UserView, query: Query, embedded: Embedded, background: Vectors
) -> list[_Scored]:
    warmed = await _warmed(services, live, query)
    parts = [*warmed, *[await _narrowed(live, *each, query) for each in _indexes(live, query)]]
    foreign = _foreign(query, embedded, services.embeddings.embedder)
    return await _ranked(parts, _question(live, query, embedded, background, foreign), query)


def _foreign(query: Query, embedded: Embedded, embedder: Embedder) -> float:
    """Return how little the model can read of a query."""
    if embedded.tokens is None:
        return 0.0
    unknown = getattr(embedder, "unknown_token_id", None)
    return foreign_share(query.text, unpack(embedded.tokens).token_ids, unknown)


def _question(
    live: UserView, query: Query, embedded: Embedded, background: Vectors, foreign: float
) -> Question:
    return Question(
        text=query.text,
        embedded=embedded,
        centre=live.indexes.centre(background),
        weights=query.weights,
        reference_us=query.now_us if query.reference_us is None else query.reference_us,
        many=_pool(query),
        summaries=COMPRESSED_CANDIDATES if query.compressed else 0,
        foreign=foreign,
    )


# --- what may be found


def _indexes(live: UserView, query: Query) -> list[tuple[Kind, MemoryIndex]]:
    found = [(kind, live.indexes.get(kind)) for kind in query.kinds]
    return [(kind, index) for kind, index in found if index is not None]


async def _narrowed(live: UserView, kind: Kind, index: MemoryIndex, query: Query) -> _Part:
    """Return an index with the rows that a query is narrowed down to."""
    numbers = None
    if query.matches is not None and query.filters is not None:
        numbers = await matching(index, query.filters, query.matches)
    parts = index.parts
    if query.of_origin is not None:
        numbers = of_origin(parts, numbers, live.state.provenance, query.of_origin)
    rows = narrowed(parts, numbers, query.since_us, query.until_us, query.as_of_us)
    passes = _narrowing(query, live.state.provenance)
    return _Part(kind, live.state.of(kind), parts, index.owner, rows, passes=passes)


# --- rows at hand


def _at_hand(live: UserView, query: Query) -> list[tuple[Kind, Sequence[Row]]]:
    """Return the rows without a lasting index that a query asks for, by kind."""
    state = live.state.at(query.now_us)
    asked = [(kind, kind.at_hand(state.of(kind), query.session_id)) for kind in query.kinds]
    return [(kind, rows) for kind, rows in asked if rows]


async def _warmed(services: Services, live: UserView, query: Query) -> list[_Part]:
    """Index the rows at hand that are not, and return what they are searched in."""
    passes, parts = _narrowing(query, live.state.provenance), []
    for kind, rows in _at_hand(live, query):
        state = live.state.of(kind)
        session_id = None if kind.chain(rows[0]) is None else query.session_id
        index = live.indexes.at_hand(kind, session_id)
        await _warm(services, live, index, [Found(kind, row) for row in rows])
        labels = [p.label for row in rows if passes(row) for p in kind.passages(row)]
        numbers = np.sort(index.dense.rows_of(labels))
        parts.append(_Part(kind, state, index.parts, index.owner, numbers))
    return parts


def _narrowing(query: Query, provenance: Provenance) -> Callable[[Row], bool]:
    """Return a test of the few rows at hand."""

    def passes(row: Row) -> bool:
        return (
            (query.matches is None or query.matches(row.metadata))
            and (query.of_origin is None or query.of_origin(provenance.of(row.memory_id)))
            and (not timed or in_time(row))
        )

    def in_time(row: Row) -> bool:
        occurred, begins, ends = times(row)
        return (
            (query.since_us is None or occurred >= query.since_us)
            and (query.until_us is None or occurred < query.until_us)
            and (query.as_of_us is None or begins <= query.as_of_us < ends)
        )

    timed = (query.since_us, query.until_us, query.as_of_us) != (None, None, None)
    return passes


async def _warm(
    services: Services, live: UserView, index: MemoryIndex, rows: Sequence[Found]
) -> None:
    """Bring an index in memory in step with the rows that are asked for."""
    passages = [(one, passage) for one in rows for passage in one.kind.passages(one.row)]
    missing = set(index.retain({passage.label for _, passage in passages}))
    found = [one for one, passage in passages if passage.label in missing]
    events = await texts(services.log, live.stream, found)
    phrased = {
        passage.label: kind.passage_text(row, passage.label, events)
        for (kind, row), passage in passages
        if passage.label in missing
    }
    embedded = await services.embeddings.embed(list(phrased.values()))
    texts_of = dict(zip(phrased, map(Text, phrased.values(), embedded), strict=True))
    for (_, row), passage in passages:
        if passage.label in missing:
            index.insert(row, passage, texts_of[passage.label])


# --- ranked


async def _ranked(parts: Sequence[_Part], question: Question, query: Query) -> list[_Scored]:
    """Rank: on the loop if that is quick, else in a thread."""
    rows = sum(part.searched.size if part.rows is None else len(part.rows) for part in parts)
    if rows <= INLINE_ROWS_MAX and question.many <= INLINE_POOL_MAX:
        return _rank(parts, question, query)
    return await anyio.to_thread.run_sync(_rank, parts, question, query)


def _rank(parts: Sequence[_Part], question: Question, query: Query) -> list[_Scored]:
    """Return the best memories, and behind them the best summaries."""
    ranked = list(zip(parts, rank([(p.searched, p.rows) for p in parts], question), strict=True))
    memories = _best(ranked, query, summaries=False)
    if not query.compressed:
        return memories
    few = query._replace(top_k=COMPRESSED_MAX, token_budget=None)
    return memories + _best(ranked, few, summaries=True)


def _best(
    ranked: Sequence[tuple[_Part, Ranked]], query: Query, *, summaries: bool
) -> list[_Scored]:
    """Return the first `top_k`; with a budget of tokens, all that may be within it."""
    best: dict[str, _Scored] = {}
    for part, passages in ranked:
        for scored in _rows(part, passages, query, summaries=summaries):
            known = best.get(scored.found.row.memory_id)
            if known is None or known.score < scored.score:
                best[scored.found.row.memory_id] = scored
    ordered = sorted(best.values(), key=lambda scored: -scored.score)
    ordered = [scored for scored in ordered if scored.score >= query.min_score]
    return _diverse(ordered, query) if query.diversity else ordered[: _wanted(query)]


def _rows(part: _Part, ranked: Ranked, query: Query, *, summaries: bool) -> Iterable[_Scored]:
    """Yield the rows that ranked passages belong to, as many as may be wanted of one kind."""
    seen: set[str] = set()
    for place in ranked.places(summaries=summaries):
        if len(seen) == _pool(query):
            return
        label = int(ranked.signals.labels[place])
        memory_id = part.owner(label)
        if memory_id is None or memory_id in seen:
            continue
        row = part.kind.find(part.state, memory_id)
        if row is not None and part.passes(row):
            seen.add(row.memory_id)
            signals = ranked.explained(place) if query.explain else None
            score = float(ranked.shown[place])
            yield _Scored(Found(part.kind, row), score, signals, part, label)


def _wanted(query: Query) -> int:
    """Return how many results are wanted, at most."""
    if query.token_budget is None:
        return query.top_k
    return min(BUDGET_TOP_K, 1 + query.token_budget // HIT_TOKENS_MIN)


def _pool(query: Query) -> int:
    """Return how many memories the results are chosen from."""
    wanted = _wanted(query)
    return min(max(4 * wanted, 50), max(DIVERSE_POOL_MAX, wanted)) if query.diversity else wanted


def _diverse(ordered: Sequence[_Scored], query: Query) -> list[_Scored]:
    """Choose one after another, each by its score less its likeness to those before it (MMR)."""
    pool = list(ordered[: _pool(query)])
    if not pool:
        return []
    vectors = np.stack([one.part.searched.dense.vector_of(one.label) for one in pool])
    scores = np.array([one.score for one in pool], np.float32)
    likeness = np.zeros(len(pool), np.float32)
    chosen: list[_Scored] = []
    left = np.ones(len(pool), np.bool_)
    while left.any() and len(chosen) < _wanted(query):
        gain = np.where(left, (1 - query.diversity) * scores - query.diversity * likeness, -np.inf)
        place = int(np.argmax(gain))
        left[place] = False
        chosen.append(pool[place])
        likeness = np.maximum(likeness, vectors @ vectors[place])
    return chosen


# --- as callers see them


async def _hits(
    services: Services, live: UserView, best: Sequence[_Scored], query: Query
) -> list[Hit]:
    found, provenance = [scored.found for scored in best], live.state.provenance
    read = await fields(services.log, live.stream, found, provenance)
    hits = [
        Hit(**told, score=scored.score, signals=scored.signals)
        for told, scored in zip(read, best, strict=True)
    ]
    if query.token_budget is not None:
        hits = _fitting(hits, query.token_budget)
    return [
        *(hit for group in GROUPS for hit in hits if hit.memory_type == group),
        *(hit for hit in hits if hit.memory_type not in GROUPS),
    ]


def _fitting(hits: Sequence[Hit], budget: int) -> list[Hit]:
    """Return the best that fit a budget; one that is too long leaves room for the next."""
    fitting, left = [], budget
    for hit in hits:
        tokens = -(-hit.size_bytes // BYTES_PER_TOKEN)
        if tokens <= left:
            fitting.append(hit)
            left -= tokens
    return fitting
