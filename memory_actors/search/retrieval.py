"""Retrieval: the memories of one user that answer a query.

Each index ranks its own memories. Working and short-term memory are few: they are indexed when
first asked for, in memory only. A memory of several passages ranks as its best one. The best
`top_k` of all kinds together come back; where several kinds were named, the best of each among
them, and kind by kind. Up to two summaries of compressed memories come last, in the place of
memories that score less. The conditions of a query (a filter, a span of time) select rows before
anything is ranked, so no match is lost to the cut.

A hit that repeats a better one is folded into it (`folding`). Retrieval therefore ranks some more
than are wanted, and if that is not enough, four times as many.
"""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from heapq import merge
from itertools import islice
from operator import attrgetter
from typing import NamedTuple, Protocol

import anyio.to_thread
import numpy as np
from msgspec.structs import replace

from eventlog import EventStore
from memory_actors.base.records import Hit
from memory_actors.base.tokens import most
from memory_actors.kinds import long_term
from memory_actors.kinds.kind import Found, Kind
from memory_actors.kinds.passages import Passage, index_of, shown, spoken, version_of
from memory_actors.kinds.rows import Row
from memory_actors.kinds.user_state import KINDS, UserState
from memory_actors.search.candidates import EmbeddedQuery
from memory_actors.search.choosing import (
    Choice,
    Folding,
    Searchable,
    diverse,
    newest_first,
    superseding,
)
from memory_actors.search.embedding.default import JoinedEmbedder
from memory_actors.search.embedding.protocol import Embedded, Embedder, Vectors
from memory_actors.search.embedding.token_states import unpack
from memory_actors.search.indexes.dense import DenseIndex
from memory_actors.search.indexes.memory_index import MemoryIndex
from memory_actors.search.indexes.pending import EmbeddedText
from memory_actors.search.indexes.user_indexes import UserIndexes
from memory_actors.search.query import (
    SPARE,
    Query,
    Rows,
    foreign_share,
    is_read,
    narrowed,
    row_test,
)
from memory_actors.search.ranking import Ranked, answered, rank
from memory_actors.search.reading import fields, texts

KIND_ORDER = {kind.NAME: place for place, kind in enumerate(KINDS)}
"""Working memory first."""
INLINE_ROWS_MAX = 12_000  # ranked on the loop, in 1.5 ms: a hop to a thread costs 0.2 ms
INLINE_POOL_MAX = 256  # memories to choose from: of 1,000, diversity takes 75 ms
COMPRESSED_MAX = 2  # summaries are long, and a query rarely needs more
COMPRESSED_SCORE_MIN = 0.1  # one that hardly answers is noise in a prompt


class Searched(Protocol):
    """A user as a search needs them, live or past."""

    @property
    def stream(self) -> str:
        """The stream that has the texts."""

    @property
    def state(self) -> UserState:
        """The confirmed state."""

    @property
    def indexes(self) -> UserIndexes:
        """The indexes over that state."""


class _Best(NamedTuple):
    """The memories chosen to be read, best first: each is looked up when it is asked for."""

    memories: Iterator[Choice]
    summaries: Iterator[Choice]
    left_out: int = 0
    """Memories that diversity has not chosen."""
    answered: float = 0.0
    """The chance that the best of them answer at all."""


async def retrieve(log: EventStore, live: Searched, query: Query) -> list[Hit]:
    """Return the best memories for a query; `log` has the texts.

    :raises EmbedderError: the query could not be embedded.
    """
    indexes = live.indexes.of(query.kinds)
    for _, index in indexes:
        await index.indexed()
    if not indexes and not _transient_rows(live, query):
        await asyncio.sleep(0)  # nothing else would let the others have a turn
        return []
    service = live.indexes.embeddings.service
    background = await service.background_mean()
    embedded = await service.embed_query(query.text)
    query = query._replace(pool=query.pool_at_first)
    best = await _searched(log, live, query, embedded, background)
    if await live.indexes.recovered(query.kinds):
        best = await _searched(log, live, query, embedded, background)
    while True:
        memories, summaries, looked_at = await _read(log, live, best, query)
        budget = query.token_budget
        if (
            len(memories) >= query.wanted
            or not query.folds
            or (budget is not None and budget <= sum(_tokens(hit, query) for hit in memories))
            # Or all that there are were ranked: those that are left are counted.
            or looked_at + sum(1 for _ in best.memories) + best.left_out < query.pool
        ):
            return within(memories, summaries, query.top_k)
        query = query._replace(pool=4 * query.pool)
        best = await _searched(log, live, query, embedded, background)


async def _searched(
    log: EventStore, live: Searched, query: Query, embedded: Embedded, background: Vectors
) -> _Best:
    parts = await _warmed(log, live, query)
    for kind, index in live.indexes.of(query.kinds):
        searched, rows = await narrowed(index, query, live.state.provenance)
        passes = row_test(query, live.state.provenance)
        parts.append(Searchable(kind, live.state.of(kind), searched, rows, passes))
    embedded, foreign = _as_read(live.indexes.embeddings.embedder, query.text, embedded)
    question = EmbeddedQuery(query, embedded, live.indexes.centre(background), foreign)
    count = sum(part.searched.size if part.rows is None else len(part.rows) for part in parts)
    if count <= INLINE_ROWS_MAX and query.pool <= INLINE_POOL_MAX:
        return _rank(parts, question)

    def ranked_whole() -> _Best:
        best = _rank(parts, question)  # each memory is looked up in the thread
        memories, summaries = iter(list(best.memories)), iter(list(best.summaries))
        return best._replace(memories=memories, summaries=summaries)

    return await anyio.to_thread.run_sync(ranked_whole)


def _as_read(embedder: Embedder, text: str, embedded: Embedded) -> tuple[Embedded, float]:
    """Return the embedding to compare a query by, and how foreign it is to the vector's model.

    If another model makes the token states and cannot read the query, the states are left out.
    """
    if embedded.tokens is None:
        return embedded, 0.0
    token_ids = unpack(embedded.tokens).token_ids
    unknown = getattr(embedder, "unknown_token_id", None)
    if not isinstance(embedder, JoinedEmbedder):
        return embedded, foreign_share(text, token_ids, unknown)
    if is_read(text, token_ids, unknown):
        return embedded, 0.0
    return embedded._replace(tokens=None, states=None), 0.0


# --- what may be found


def _transient_rows(live: Searched, query: Query) -> list[tuple[Kind, object, Sequence[Row]]]:
    """Return the kinds without a lasting index, each as it reads now, and the rows asked for."""
    found = []
    for kind in query.kinds:
        if not kind.NATURE.is_indexed:
            now = kind.at(live.state.of(kind), query.now_us)
            if rows := kind.at_hand(now, query.session_id):
                found.append((kind, now, rows))
    return found


class _Synced(NamedTuple):
    """A state that an index in memory is synced with, and its rows, in order."""

    now: object
    dense: DenseIndex
    """Rows have other numbers once it is made anew."""
    rows: Rows


async def _warmed(log: EventStore, live: Searched, query: Query) -> list[Searchable]:
    """Index the transient rows that are not indexed yet; return what they are searched in."""
    parts = []
    for kind, now, rows in _transient_rows(live, query):
        state = live.state.of(kind)
        session_id = None if kind.chain(rows[0]) is None else query.session_id
        index = live.indexes.transient(kind, session_id)
        known: _Synced | None = None if query.is_narrow else index.synced
        if known is None or known.now is not now or known.dense is not index.dense:
            passages = {p.label: (Found(kind, row), p) for row in rows for p in kind.passages(row)}
            was_whole = await _warm(log, live, index, passages)
            passes = row_test(query, live.state.provenance)
            labels = [label for label, (one, _) in passages.items() if passes(one.row)]
            known = _Synced(now, index.dense, np.sort(index.rows.rows_of(labels)))
            if was_whole and not query.is_narrow:
                index.synced = known
        parts.append(Searchable(kind, state, index.parts, known.rows, lambda _row: True))
    return parts


async def _warm(
    log: EventStore,
    live: Searched,
    index: MemoryIndex,
    passages: Mapping[int, tuple[Found, Passage]],
) -> bool:
    """Bring an index in memory in step with passages, by label; say whether it had them all."""
    missing = [passages[label] for label in index.retain(passages)]
    if not missing:
        return True
    events = await texts(log, live.stream, [one for one, _ in missing])
    phrased = [kind.passage_text(row, p.label, events) for (kind, row), p in missing]
    embedded = await live.indexes.embeddings.service.embed(phrased)
    index.synced = None  # another query may have been there meanwhile
    for ((_, row), passage), text, one in zip(missing, phrased, embedded, strict=True):
        index.insert(row, passage, EmbeddedText(text, one))
    return False


# --- ranked


def _rank(parts: Sequence[Searchable], question: EmbeddedQuery) -> _Best:
    query = question.query
    together = [[part] for part in parts] if query.each_kind else [parts]
    ranked = [
        pair
        for some in together
        for pair in zip(some, rank([(p.searched, p.rows) for p in some], question), strict=True)
    ]
    memories = _by_score(ranked, query, summaries=False)
    facts = next((part.state for part in parts if part.kind is long_term.KIND), None)
    if facts is not None:
        memories = iter(newest_first(memories, facts, query))
    memories = (one for one in memories if one.score >= query.min_score)
    left_out = 0
    if query.diversity or query.each_kind:
        ordered = list(memories)
        chosen = _chosen(ordered, query)
        memories, left_out = iter(chosen), len(ordered) - len(chosen)
    found = _by_score(ranked, query, summaries=True) if query.compressed else iter(())
    least = max(query.min_score, COMPRESSED_SCORE_MIN)
    summaries = (one for one in found if one.score >= least)
    return _Best(memories, summaries, left_out, answered([one for _, one in ranked]))


def _by_score(
    ranked: Sequence[tuple[Searchable, Ranked]], query: Query, *, summaries: bool
) -> Iterator[Choice]:
    """Yield the memories that ranked passages belong to, or the summaries, best first."""
    of_each = [_rows(part, one, query, summaries=summaries) for part, one in ranked]
    if len(of_each) == 1:
        yield from of_each[0]
        return
    seen: set[str] = set()
    for scored in merge(*of_each, key=attrgetter("score"), reverse=True):
        if scored.found.row.memory_id not in seen:
            seen.add(scored.found.row.memory_id)
            yield scored


def _rows(part: Searchable, ranked: Ranked, query: Query, *, summaries: bool) -> Iterator[Choice]:
    """Yield the rows that ranked passages belong to, as many as may be wanted of one kind."""
    seen: set[int] = set()
    find, memory_ids = part.kind.find, part.searched.traits.owners
    owners, labels, scores = ranked.signals.owners, ranked.signals.labels, ranked.scores
    for place in ranked.places(summaries=summaries):
        if len(seen) == query.pool:
            return
        owner = int(owners[place])
        row = None if owner in seen else find(part.state, memory_ids[owner])
        if row is not None and part.passes(row):
            seen.add(owner)
            signals = ranked.explained(place) if query.explain else None
            shown, raw = float(ranked.shown[place]), float(scores[place])
            yield Choice(Found(part.kind, row), shown, raw, signals, part, int(labels[place]))


def _chosen(ordered: Sequence[Choice], query: Query) -> Sequence[Choice]:
    """Return memories in the order in which they are taken until there are enough."""
    chosen = ordered
    if query.diversity and ordered:
        best = ordered[: query.pool]
        vectors = np.stack([one.part.searched.dense.vector_of(one.label) for one in best])
        scores = np.array([one.raw for one in best], np.float32)
        # As many as are read, or all where those were not enough.
        count = query.wanted + SPARE if query.pool == query.pool_at_first else query.pool
        chosen = [best[place] for place in diverse(scores, vectors, query.diversity, count)]
    if not query.each_kind:
        return chosen
    first = {scored.found.kind.NAME: scored for scored in reversed(ordered)}
    leading = sorted(first.values(), key=lambda scored: -scored.score)
    led = {scored.found.row.memory_id for scored in leading}
    return [*leading, *(one for one in chosen if one.found.row.memory_id not in led)]


# --- as callers see them


async def _read(
    log: EventStore, live: Searched, best: _Best, query: Query
) -> tuple[list[Hit], list[Hit], int]:
    """Return memories in order and summaries, equal ones folded, and how many memories were read.

    As many as are wanted are read.
    """
    folding = Folding() if query.folds else None
    read = partial(_folded, log, live, query=query, folding=folding, answer=best.answered)
    memories, looked_at = await read(best.memories, wanted=query.wanted)
    summaries, _ = await read(best.summaries, wanted=COMPRESSED_MAX)
    if folding is not None:
        memories, summaries = folding.with_duplicates(memories), folding.with_duplicates(summaries)
    if query.token_budget is not None:
        memories, left = fitting(memories, query, query.token_budget)
        summaries, _ = fitting(summaries, query, left)
    if not query.diversity:  # else they were chosen one after another
        memories.sort(key=attrgetter("score"), reverse=True)
    if query.order != "score":
        memories.sort(key=lambda hit: KIND_ORDER[hit.memory_type])
    return memories, summaries, looked_at


def within(memories: list[Hit], summaries: list[Hit], top_k: int) -> list[Hit]:
    """Return the hits, summaries last, `top_k` at most: a summary takes the place of worse ones."""
    while len(memories) + len(summaries) > top_k:
        worst = min(range(len(memories)), key=lambda n: memories[n].score, default=None)
        if worst is not None and summaries and memories[worst].score < summaries[-1].score:
            del memories[worst]
        elif summaries:
            summaries.pop()
        else:
            memories.pop()
    return [*memories, *summaries]


def _passage(scored: Choice, content: str) -> str:
    row = scored.found.row
    if not getattr(row, "digests", ()) or version_of(scored.label) != row.version:
        return content
    return shown(content, index_of(scored.label))


async def _folded(
    log: EventStore,
    live: Searched,
    best: Iterator[Choice],
    query: Query,
    wanted: int,
    folding: Folding | None,
    answer: float,
) -> tuple[list[Hit], int]:
    """Return the first of those that say something of their own, and how many were looked at."""
    hits, looked_at = list[Hit](), 0
    provenance, facts = live.state.provenance, live.state.long_term
    while some := list(islice(best, wanted - len(hits))):
        looked_at += len(some)
        read = await fields(log, live.stream, [one.found for one in some], provenance)
        made = (
            Hit(
                **told,
                score=scored.score,
                answered=answer,
                passage=_passage(scored, told["content"]),
                signals=scored.signals,
                **superseding(scored.found.row, facts, query.as_of_us),
            )
            for told, scored in zip(read, some, strict=True)
        )
        hits += [hit for hit in made if folding is None or folding.is_new(hit)]
    return hits, looked_at


def fitting(hits: Sequence[Hit], query: Query, budget: int) -> tuple[list[Hit], int]:
    """Return the best that fit a budget, and what is left; a long one leaves room for the next."""
    fitting, left = [], budget
    for hit in hits:
        if (tokens := _tokens(hit, query)) <= left:
            fitting.append(hit)
            left -= tokens
    return fitting, left


def _tokens(hit: Hit, query: Query) -> int:
    return most(query.counter, f"{spoken(hit.content, hit.role)}\n")


# --- the hits of several scopes as those of one search


def merged(found: Mapping[str, Sequence[Hit]], query: Query) -> list[Hit]:
    """Return the best hits for a query, of those that were found for it by scope.

    Equal hits are one: the best of them, or that of the first scope. With a diversity,
    the hits of each scope keep their order. A score is the chance that a hit answers, whichever
    index it comes from, so hits of several users compare as those of several kinds do.
    """
    answered = max((some[0].answered for some in found.values() if some), default=0.0)
    of_each = [
        [replace(hit, scope=scope, answered=answered) for hit in some]
        for scope, some in found.items()
    ]
    score = attrgetter("score")
    ordered = [one for some in of_each for one in some]
    if query.diversity:
        ordered = list(merge(*of_each, key=score, reverse=True))
    else:
        ordered.sort(key=score, reverse=True)
    folding = Folding()
    hits = folding.with_duplicates([hit for hit in ordered if folding.is_new(hit)])
    memories = [hit for hit in hits if hit.source != "compressed"]
    summaries = [hit for hit in hits if hit.source == "compressed"][:COMPRESSED_MAX]
    if query.each_kind:
        first = {hit.memory_type: hit for hit in reversed(memories)}
        memories.sort(key=lambda hit: first[hit.memory_type] is not hit)
    if query.token_budget is not None:
        memories, left = fitting(memories, query, query.token_budget)
        summaries, _ = fitting(summaries, query, left)
    hits = within(memories, summaries, query.top_k)
    if not query.diversity:
        hits.sort(key=lambda hit: (hit.source == "compressed", -hit.score))
    if query.order == "kind":
        hits.sort(key=lambda hit: (hit.source == "compressed", KIND_ORDER[hit.memory_type]))
    return hits
