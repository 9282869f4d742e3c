"""The reads of `memory.user(...)`, live or of the past."""

import sys
from abc import abstractmethod
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Self, get_args

import anyio.to_thread

from eventlog.core.records import to_datetime
from memory_actors.api.finding import (
    Chosen,
    chosen,
    found_in,
    in_export_order,
    matching,
    newest,
    searched_kinds,
)
from memory_actors.api.user_context import UserContext
from memory_actors.base import validation
from memory_actors.base.errors import NotFoundError
from memory_actors.base.filters import parsed
from memory_actors.base.origins import wanted
from memory_actors.base.records import (
    HistoryEntry,
    Hit,
    Hits,
    Memory,
    MemoryType,
    Order,
    Right,
    Time,
    Trust,
)
from memory_actors.base.reports import Extraction, Why
from memory_actors.base.statistics import CostEstimate, Usage
from memory_actors.base.weights import Weights, check_weights
from memory_actors.extraction.run import extractions
from memory_actors.history.why import why
from memory_actors.kinds import context
from memory_actors.kinds.kind import Found
from memory_actors.kinds.passages import composed
from memory_actors.kinds.provenance import Provenance
from memory_actors.kinds.user_state import UserState
from memory_actors.search import retrieval
from memory_actors.search.query import BUDGET_TOP_K, TOP_K, Query
from memory_actors.search.reading import history, memories
from memory_actors.users.handles.handle import Handle
from memory_actors.users.handles.long_term import LongTermMemory
from memory_actors.users.handles.redacting import OF_HANDLES, Redacting
from memory_actors.users.handles.scope import Scope
from memory_actors.users.live_user import UserView
from memory_actors.users.totals import estimate, usage

LIST_PAGE = 256


class UserReads(Redacting):
    """The reads of one user's memory. See `UserMemory`."""

    _left = OF_HANDLES | {"source", "sources", "document"}

    context: UserContext
    _long_term: LongTermMemory
    _handles: dict[str, Handle]
    """By the names of their kinds."""

    def __init__(self, scope: Scope):
        self._scope = scope

    @abstractmethod
    def _with(self, **fields: object) -> Self:
        """Return a handle that says something else of itself. See `On`."""

    @property
    def user_id(self) -> str:
        """The id of the user whose memory it is."""
        return self._scope.user_id

    async def retrieve(
        self,
        query: str,
        *,
        memory_types: Sequence[MemoryType | str] | None = None,
        memory_type: MemoryType | str | None = None,
        top_k: int | None = None,
        filters: Mapping[str, object] | None = None,
        since: Time | None = None,
        until: Time | None = None,
        as_of: Time | None = None,
        session_id: str | None = None,
        exclude_ids: Sequence[str] = (),
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
    ) -> Hits:
        """Return the `top_k` memories that best answer a query.

        `top_k` defaults to 5, or with a `token_budget` to as many as fit. `memory_types` None means
        all but context documents: named, their archives are searched; `memory_type` names one. The
        best comes first. If you name several kinds, results are grouped by kind, working memory
        first, with the best of each among the `top_k`; `order` ("score", "kind") says otherwise.
        Short-term memory is searched in `session_id`, the handle's session, or the three used
        last.

        Filters are exact and apply before ranking: `filters` on metadata (see docs/reference.md),
        `since` and `until` on when a memory was true (first, last, or in between; for a summary,
        from its first original to its last), `as_of` (memories recorded until then; relationships
        that were true at it), `exclude_ids` and `exclude_session` (the message that was just stored
        is no answer to itself).

        Messages and facts that say the same are one hit; `near_duplicates` names the others.
        `token_budget` returns as many hits as fit, a line each: up to 1,000, and about one for four
        tokens; `Settings.token_counter` counts. `diversity` (0 to 1) makes results that are like
        better ones give way: then they come in the order in which they were chosen. `explain` gives
        each hit its signals. `weights` multiplies what a signal counts for; 0 switches it
        off.
        `reference_time` is what "last week" in a query is relative to (None: now).

        `sources` finds only what came from these and from nobody else, `min_trust` only what nobody
        less trusted had a say in: "unknown" leaves out what is untrusted, "trusted" all but that.
        `agent_id` finds only what this agent wrote (None: what any wrote).

        Up to two summaries of compressed memories (`source="compressed"`) are among the `top_k`,
        last, if they score more than the memories they displace; `compressed=False` leaves them
        out. `hits.answered` is the chance that the first hits answer at all. If the store has a
        reranker, it orders the best `Settings.reranker_hits`, summaries too; `score` stays as it
        was. It has no say with a `diversity`, or kind by kind.

        A handle of `reads` searches its other scopes, too: all hits are ranked together, and each
        names its `scope`.

        :raises InvalidInputError: an empty query, an unknown type, a bad filter or number.
        :raises EmbedderError: the query could not be embedded.
        :raises AccessDeniedError: one of the scopes may not be read.
        """
        given = {name: value for name, value in locals().items() if name != "self"}
        validation.text_bytes(query, "query", validation.QUERY_BYTES_MAX)
        kinds = searched_kinds(memory_type, memory_types)
        several = memory_types is not None and len(kinds) > 1
        usual_order: Order = "kind" if several else "score"
        most = TOP_K if token_budget is None else BUDGET_TOP_K
        asked = Query(
            text=composed(query),
            kinds=kinds,
            top_k=most if top_k is None else validation.check_top_k(top_k),
            now_us=self._scope.now_us(),
            filters=parsed(filters),
            since_us=validation.time_us(since, "since"),
            until_us=validation.time_us(until, "until"),
            as_of_us=validation.time_us(as_of, "as_of"),
            session_id=validation.check_optional_name(session_id, "session_id")
            or self._scope.on.session_id,
            exclude_ids=frozenset(validation.check_names(exclude_ids, "exclude_ids")),
            exclude_session=validation.check_optional_name(exclude_session, "exclude_session"),
            min_score=validation.check_share(min_score, "min_score"),
            token_budget=None
            if token_budget is None
            else validation.check_count(token_budget, "token_budget"),
            counter=self._scope.services.settings.context_budget().counter,
            diversity=validation.check_share(diversity, "diversity"),
            explain=explain,
            weights=Weights() if weights is None else check_weights(weights),
            reference_us=validation.time_us(reference_time, "reference_time"),
            compressed=compressed,
            of_origin=wanted(sources, min_trust),
            agent_id=validation.check_optional_name(agent_id, "agent_id"),
            each_kind=several,
            order=usual_order
            if order is None
            else validation.check_choice(order, get_args(Order), "order"),
        )
        if self._scope.on.reads:
            return Hits(await self._of_all_scopes(asked, given))
        with self._scope.measured("Retrieve", "any", kinds=[kind.NAME for kind in asked.kinds]):
            async with self._scope.searching() as live:
                hits = await self._found(live, asked)
                await self._scope.recalled(live, query, [hit.memory_id for hit in hits])
        return Hits(hits)

    async def _of_all_scopes(self, asked: Query, given: Mapping[str, object]) -> list[Hit]:
        """Return the hits of a search of the user and of the other scopes that the handle reads.

        One after the other, so that the query is embedded once.
        """
        scopes = dict.fromkeys((self.user_id, *self._scope.on.reads))
        hits = retrieval.merged(
            {one: await self._scope.elsewhere("retrieve", one, **given) for one in scopes}, asked
        )
        reranking = self._scope.services.reranking
        if reranking is None or asked.order != "score" or asked.diversity:
            return hits
        return await reranking.ordered(asked.text, hits)

    async def _found(self, live: UserView, asked: Query) -> list[Hit]:
        """Return the hits of a query; where a reranker has a say, it reads some more of them."""
        log, reranking = self._scope.services.log, self._scope.services.reranking
        if reranking is None or asked.order != "score" or asked.diversity:
            return await retrieval.retrieve(log, live, asked)
        more = asked._replace(top_k=max(asked.top_k, reranking.hits_max))
        hits = await retrieval.retrieve(log, live, more)
        return (await reranking.ordered(asked.text, hits))[: asked.top_k]

    async def get(self, memory_id: str) -> Memory:
        """Return one memory.

        :raises NotFoundError: there is none with this id: never was, deleted, evicted, expired, or
            compressed into a summary: `why` tells.
        """
        validation.check_name(memory_id, "memory_id")
        state = await self._scope.state()
        one = found_in(state, memory_id, self._scope.now_us())
        with self._scope.measured("Get", one.kind.NAME):
            if one.kind is context.KIND:
                await self.context.note_read(memory_id)
            (memory,) = await self._read([one], state.provenance)
        return memory

    async def list_memories(
        self,
        memory_types: Sequence[MemoryType | str] | None = None,
        *,
        filters: Mapping[str, object] | None = None,
        sources: Sequence[str] | None = None,
        min_trust: Trust | str | None = None,
        limit: int = 100,
        offset: int = 0,
        agent_id: str | None = None,
        session_id: str | None = None,
        since: Time | None = None,
        until: Time | None = None,
        contains: str | None = None,
    ) -> list[Memory]:
        """Return memories, newest first by the time they were true.

        `sources`, `min_trust` and `agent_id` are as in `retrieve`. `since` and `until` bound the
        time at which a memory was true, `session_id` names its session. `contains` is a text in its
        content, in any case: contents are read until enough are found.
        """
        which = chosen(
            memory_types, filters, sources, min_trust, agent_id, session_id, since, until
        )
        first = validation.check_count(offset, "offset")
        last = first + validation.check_count(limit, "limit")
        async with self._scope.live() as live:
            state = live.state.at(self._scope.now_us())
            if contains is not None:
                return (await self._containing(state, which, contains, last))[first:]
            rows = await anyio.to_thread.run_sync(newest, state, which, last)
            return await self._read(rows[first:], state.provenance)

    async def _containing(
        self, state: UserState, which: Chosen, text: str, most: int | None = None
    ) -> list[Memory]:
        """Return the newest memories with a text in their content, `most` of them."""
        validation.text_bytes(text, "contains", validation.QUERY_BYTES_MAX)
        rows = await anyio.to_thread.run_sync(newest, state, which, sys.maxsize)
        found: list[Memory] = []
        for start in range(0, len(rows), LIST_PAGE):
            page = await self._read(rows[start : start + LIST_PAGE], state.provenance)
            found += [one for one in page if text.casefold() in one.content.casefold()]
            if most is not None and len(found) >= most:
                break
        return found[:most]

    async def count(
        self,
        filters: Mapping[str, object] | None = None,
        *,
        memory_types: Sequence[MemoryType | str] | None = None,
        sources: Sequence[str] | None = None,
        min_trust: Trust | str | None = None,
        agent_id: str | None = None,
        session_id: str | None = None,
        since: Time | None = None,
        until: Time | None = None,
        contains: str | None = None,
    ) -> int:
        """Return how many memories `list_memories` would list with the same arguments.

        :raises InvalidInputError: an unknown type, a bad filter, source, trust or time.
        """
        which = chosen(
            memory_types, filters, sources, min_trust, agent_id, session_id, since, until
        )
        state = await self._scope.state_now()
        if contains is not None:
            return len(await self._containing(state, which, contains))
        return await anyio.to_thread.run_sync(lambda: sum(1 for _ in matching(state, which)))

    async def history(self, memory_id: str) -> list[HistoryEntry]:
        """Return every event that touched a memory, oldest first; also of one that is deleted.

        If retention has dropped an event's payload, `data` says since when.

        :raises NotFoundError: no event ever named it.
        """
        events = await self._scope.events_about(validation.check_name(memory_id, "memory_id"))
        if not events:
            raise NotFoundError(f"no event names memory {memory_id!r}")
        return history(events)

    async def extractions(self, *, limit: int = 100) -> list[Extraction]:
        """Return past extractions with the facts they found, newest first.

        `undone_at` is set if an extraction was undone.
        """
        return await extractions(self._scope, limit)

    async def why(self, memory_id: str) -> Why:
        """Return why a memory is there, or no longer is: each event of its life in words.

        For a compressed memory it includes the fate of its summary; for a summary, the ids of
        its originals. Entities, relationships, episodes and documents alike.

        :raises NotFoundError: no event ever named it.
        """
        return await why(self._scope, validation.check_name(memory_id, "memory_id"))

    async def grants(self) -> dict[str, Right]:
        """Return the right of each subject that has a grant, by subject, in order.

        :raises AccessDeniedError: the subjects of the handle may not read here.
        """
        return (await self._scope.state()).grants.rights

    async def right(self) -> Right | None:
        """Return the right of the subjects of the handle, as it is now; None: they have none."""
        return await self._scope.right()

    async def usage(self) -> Usage:
        """Return how much of each kind this user holds, and how full each limit is."""
        now_us = self._scope.now_us()
        state = (await self._scope.state()).at(now_us)
        return usage(self.user_id, state, self._scope.limits(state), to_datetime(now_us))

    async def estimate_monthly_cost(self) -> CostEstimate:
        """Return the monthly cost of this user's memory at the prices in the settings."""
        settings = self._scope.services.settings
        async with self._scope.searching() as live:
            vector_bytes = live.indexes.vector_bytes
            plan = settings.plan(live.state.account.tier)
        return estimate(await self.usage(), vector_bytes, settings.prices, plan)

    async def export(self) -> AsyncIterator[Memory]:
        """Yield every living memory as it was when the export began, kind by kind.

        The order is that of api/finding.py: what a memory needs comes before it.
        """
        state = await self._scope.state_now()
        rows = await anyio.to_thread.run_sync(in_export_order, state)
        for start in range(0, len(rows), LIST_PAGE):
            if start:  # who may read may have changed
                await self._scope.state()
            page = rows[start : start + LIST_PAGE]
            for memory in await self._read(page, state.provenance):
                yield memory

    async def _read(self, found: Sequence[Found], provenance: Provenance) -> list[Memory]:
        return await memories(self._scope.services.log, self._scope.stream, found, provenance)
