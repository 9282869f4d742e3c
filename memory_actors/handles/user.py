"""`memory.user(...)`: everything one user's memory can do."""

from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any

import anyio.to_thread

from eventlog.records import to_datetime
from memory_actors import retrieval
from memory_actors.audit.why import why
from memory_actors.audit_records import Why
from memory_actors.errors import InvalidInputError, NotFoundError
from memory_actors.filters import predicate
from memory_actors.handles.documents import Documents
from memory_actors.handles.entities import EntityGraph
from memory_actors.handles.episodes import Episodes
from memory_actors.handles.exporting import in_export_order
from memory_actors.handles.finding import found, found_summary, kind_ever
from memory_actors.handles.lineage import expand, originals_of
from memory_actors.handles.listing import SEARCHED, named_kinds, newest_first
from memory_actors.handles.prompt import prompt
from memory_actors.handles.short_term import ShortTermMemory
from memory_actors.handles.user_context import UserContext
from memory_actors.handles.working import WorkingMemory
from memory_actors.kinds import context
from memory_actors.ranking import Weights, check_weights
from memory_actors.reading import history, memories
from memory_actors.records import (
    HistoryEntry,
    Hit,
    Item,
    Memory,
    MemoryType,
    Metadata,
    Receipt,
    Tier,
    Usage,
)
from memory_actors.usage import CostEstimate, estimate, usage
from memory_actors.validation import (
    QUERY_BYTES_MAX,
    check_count,
    check_memory_type,
    check_name,
    check_optional_name,
    check_share,
    check_top_k,
    text_bytes,
    time_us,
)
from memory_actors.writers.account import set_tier
from memory_actors.writers.context import ContextWriter
from memory_actors.writers.entity import EntityWriter
from memory_actors.writers.episodic import EpisodicWriter
from memory_actors.writers.long_term import LongTermWriter
from memory_actors.writers.scope import Scope
from memory_actors.writers.short_term import ShortTermWriter
from memory_actors.writers.structured import StructuredWriter
from memory_actors.writers.working import WorkingWriter

LIST_PAGE = 256


class UserMemory:
    """One user's memory, as one agent and session see it. Cheap to make; no I/O until it is used.

    Every method may raise `UnavailableError` (the log could not be written), `QuarantinedError`
    (this user's actor keeps failing; reads still work) and `SystemClosedError`.
    """

    def __init__(self, scope: Scope):
        self._scope = scope
        working, short_term = WorkingWriter(scope), ShortTermWriter(scope)
        self._long_term, episodic = LongTermWriter(scope), EpisodicWriter(scope)
        entity, structured = EntityWriter(scope), StructuredWriter(scope)
        self._documents = ContextWriter(scope)
        kinds = (working, short_term, self._long_term, entity, episodic, structured)
        self._writers = {writer.kind.NAME: writer for writer in (*kinds, self._documents)}
        self._compacted = {writer.kind.NAME: writer for writer in (self._long_term, episodic)}
        self.working = WorkingMemory(scope, working)
        self.short_term = ShortTermMemory(scope, short_term)
        self.entities = EntityGraph(scope, entity)
        self.episodes = Episodes(scope, episodic)
        self.documents = Documents(scope, structured)
        self.context = UserContext(scope, self._documents, partial(prompt, self))

    @property
    def user_id(self) -> str:
        """Whose memory it is."""
        return self._scope.user_id

    # --- write

    async def add(
        self,
        content: str,
        memory_type: MemoryType | str = MemoryType.LONG_TERM,
        *,
        metadata: Metadata | None = None,
        occurred_at: datetime | str | None = None,
        session_id: str | None = None,
        role: str | None = None,
        key: str | None = None,
        memory_id: str | None = None,
        pinned: bool = False,
        auto_prune: bool = False,
        idempotency_key: str | None = None,
    ) -> Receipt:
        """Add one memory, given as a text.

        What the text is depends on the type: a fact (long_term), a message (short_term), the value
        of `key` (working; without one, kept under its own id), an entity's name (entity; with
        `key`, that is the name and the text an observation), the goal of a new episode (episodic),
        a JSON document (structured; a text that is no JSON object becomes {"text": …}), or an entry
        of MEMORY.md (context; in the section `key`).
        `session_id` and `role` are for messages and facts, `pinned` for what can be pruned,
        `idempotency_key` for long-term memory; what means nothing for a type is refused. All but
        working memory is durable when this returns; that is on disk within 50 ms.

        :raises InvalidInputError: empty content, an unknown type, metadata that is not JSON, …
        :raises QuotaExceededError: no room for it, and no leave to make some (`auto_prune`).
        """
        item = Item(
            content=content,
            metadata=metadata,
            occurred_at=occurred_at,
            session_id=session_id,
            role=role,
            key=key,
            memory_id=memory_id,
            pinned=pinned,
        )
        writer = self._writers[check_memory_type(memory_type)]
        return await writer.add(item, auto_prune=auto_prune, idempotency_key=idempotency_key)

    async def add_with_auto_prune(
        self,
        content: str,
        memory_type: MemoryType | str = MemoryType.LONG_TERM,
        **fields: Any,
    ) -> Receipt:
        """Add one memory, and make room first if there is none; `fields` as for `add`.

        The oldest tenth (at least one, never a pinned one) of its kind is pruned: the receipt's
        operation is then `add_with_prune`, and `restore(receipt.pruned)` brings them back. Working
        memory lets the least recently used entries go, short-term memory always makes room.

        :raises QuotaExceededError: everything else is pinned, or it could never fit.
        """
        return await self.add(content, memory_type, auto_prune=True, **fields)

    async def add_many(
        self,
        items: Sequence[Item],
        *,
        auto_prune: bool = False,
        idempotency_key: str | None = None,
    ) -> list[Receipt]:
        """Add up to 1,000 long-term memories in one embedding batch and one commit, all or none.

        An item with a `memory_id` that this user has used before adds nothing (its receipt says
        `unchanged`), so an interrupted run can be repeated.

        :raises QuotaExceededError: they do not all fit; none was added.
        """
        return await self._long_term.add_many(
            items, auto_prune=auto_prune, idempotency_key=idempotency_key
        )

    async def update(
        self, memory_id: str, *, content: str | None = None, metadata: Metadata | None = None
    ) -> Receipt:
        """Replace what a memory says, its metadata (as a whole), or both.

        :raises NotFoundError: there is no such memory.
        """
        if content is None and metadata is None:
            raise InvalidInputError("nothing to update: give a content, metadata, or both")
        kind, row = await found(self._scope, memory_id)
        return await self._writers[kind.NAME].update(row, content, metadata)

    async def delete(self, memory_id: str) -> Receipt:
        """Delete a memory: it is never returned again. The log keeps what it was, for audits.

        :raises NotFoundError: there is no such memory.
        """
        kind, row = await found(self._scope, memory_id)
        return await self._writers[kind.NAME].delete(row)

    async def restore(self, memory_ids: Sequence[str]) -> list[Receipt]:
        """Bring back memories that were pruned, evicted or deleted, as they were.

        All or none of those of one kind. What lives is left as it is. Working and short-term
        memory does not come back.

        :raises QuotaExceededError: there is no room for them.
        :raises NotFoundError: one of them never was.
        """
        if isinstance(memory_ids, str) or not isinstance(memory_ids, Sequence):
            raise InvalidInputError("restore takes a list of memory ids")
        by_kind: dict[str, list[str]] = {}
        for memory_id in memory_ids:
            kind = await kind_ever(self._scope, memory_id)
            by_kind.setdefault(kind.NAME, []).append(memory_id)
        return [
            receipt
            for name, ids in by_kind.items()
            for receipt in await self._writers[name].restore(ids)
        ]

    async def set_tier(self, tier: Tier | str) -> None:
        """Set this user's tier, and with it the limits, from now on and durably.

        A tier below the present use deletes nothing: reads work, adds are refused until there is
        room, and `usage` says so.

        :raises InvalidInputError: there is no such tier.
        """
        await set_tier(self._scope, tier)

    async def put_block(self, memory_id: str, item: Item, data: Mapping[str, Any]) -> Receipt:
        """Put a block of a context document as an export of another store has it.

        :raises QuotaExceededError: there is no room for it.
        :raises InvalidInputError: it is no block, or its id stands for another memory.
        """
        return await self._documents.put_block(memory_id, item, data)

    async def put_summary(self, memory: Memory) -> Receipt:
        """Add a summary as an export of another store has it: an import does that.

        :raises QuotaExceededError: there is no room for it.
        :raises InvalidInputError: it is no summary, or its id stands for another memory.
        """
        writer = self._compacted.get(memory.memory_type)
        if writer is None:
            raise InvalidInputError(f"{memory.memory_type} memory has no summaries")
        return await writer.put_summary(memory)

    # --- read

    async def retrieve(
        self,
        query: str,
        *,
        memory_types: Sequence[MemoryType | str] | None = None,
        top_k: int = 5,
        filters: Mapping[str, Any] | None = None,
        since: datetime | str | None = None,
        until: datetime | str | None = None,
        as_of: datetime | str | None = None,
        session_id: str | None = None,
        min_score: float = 0.0,
        token_budget: int | None = None,
        diversity: float = 0.0,
        explain: bool = False,
        weights: Weights | None = None,
        reference_time: datetime | str | None = None,
        compressed: bool = True,
    ) -> list[Hit]:
        """Return the `top_k` memories that best answer a query.

        Working memory comes first, then short-term, then the rest by score. `memory_types` None
        means all but context documents: named, their archives are searched. What narrows a query
        down is exact and comes before ranking: `filters` on metadata (see filters.py), `since` and
        `until` on when a memory was true, `as_of` (what was recorded by then; relationships that
        were true at it). Short-term memory is searched in `session_id`, the handle's session, or
        the three used last.

        `token_budget` returns as many (1,000 at most) as fit that many tokens, 4 bytes each, about,
        instead of `top_k`. `diversity` (0 to 1) makes results that repeat better ones give way.
        `explain` gives each hit its signals. `weights` changes what a signal counts for; 0 switches
        it off. `reference_time` is what "last week" in a query is relative to (None: now).

        Behind them come up to two summaries of compressed memories (`source="compressed"`), the
        best ones; `compressed=False` leaves them out.

        :raises InvalidInputError: an empty query, an unknown type, a bad filter or number.
        :raises EmbedderError: the query could not be embedded.
        """
        text_bytes(query, "query", QUERY_BYTES_MAX)
        asked = retrieval.Query(
            text=query,
            kinds=named_kinds(memory_types, SEARCHED),
            top_k=check_top_k(top_k),
            now_us=self._scope.now_us(),
            filters=filters,
            matches=predicate(filters),
            since_us=time_us(since, "since"),
            until_us=time_us(until, "until"),
            as_of_us=time_us(as_of, "as_of"),
            session_id=check_optional_name(session_id, "session_id") or self._scope.session_id,
            min_score=check_share(min_score, "min_score"),
            token_budget=None if token_budget is None else check_count(token_budget, "budget"),
            diversity=check_share(diversity, "diversity"),
            explain=explain,
            weights=Weights() if weights is None else check_weights(weights),
            reference_us=time_us(reference_time, "reference_time"),
            compressed=compressed,
        )
        with self._scope.observed("Retrieve", "any"):
            async with self._scope.searching() as live:
                hits = await retrieval.retrieve(self._scope.services, live, asked)
                await self._scope.recalled(query, [hit.memory_id for hit in hits])
        return hits

    async def expand(self, compressed_id: str) -> list[Memory]:
        """Return the originals of a summary as they were, from the log, in order of time.

        :raises NotFoundError: it is no summary, or its originals are not here (any more).
        """
        return await expand(self._scope, await found_summary(self._scope, compressed_id))

    async def undo_compaction(self, compressed_id: str) -> list[Receipt]:
        """Bring the originals of a summary back, all or none; the summary goes.

        They are left alone by compaction from then on.

        :raises QuotaExceededError: there is no room for all of them.
        :raises NotFoundError: it is no summary, or its originals are not here (any more).
        """
        kind, row = await found_summary(self._scope, compressed_id)
        ids = await originals_of(self._scope, row)
        return await self._compacted[kind.NAME].undo_compaction(compressed_id, ids)

    async def get(self, memory_id: str) -> Memory:
        """Return one memory.

        :raises NotFoundError: there is none with this id: never was, deleted, evicted or expired.
        """
        one = await found(self._scope, memory_id)
        if one.kind is context:
            await self.context.note_read(memory_id)
        (memory,) = await memories(self._scope.services.log, self._scope.stream, [one])
        return memory

    async def list_memories(
        self,
        memory_types: Sequence[MemoryType | str] | None = None,
        *,
        filters: Mapping[str, Any] | None = None,
        limit: int = 100,
        offset: int = 0,
    ) -> list[Memory]:
        """Return memories, newest first by the time they were true."""
        kinds, matches = named_kinds(memory_types), predicate(filters)
        first = check_count(offset, "offset")
        until = first + check_count(limit, "limit")
        async with self._scope.live() as live:
            state = live.state.at(self._scope.now_us())
            rows = await anyio.to_thread.run_sync(newest_first, state, kinds, matches)
            page = rows[first:until]
            return await memories(self._scope.services.log, self._scope.stream, page)

    async def history(self, memory_id: str) -> list[HistoryEntry]:
        """Return every event that touched a memory, oldest first; also of one that is deleted.

        Of an event whose payload retention has dropped, `data` says since when it is gone.

        :raises NotFoundError: no event ever named it.
        """
        log, stream = self._scope.services.log, self._scope.stream
        versions = await self._scope.versions_about(check_name(memory_id, "memory_id"))
        if not versions:
            raise NotFoundError(f"no event names memory {memory_id!r}")
        return history(await log.read_versions(stream, versions, dropped="mark"))

    async def why(self, memory_id: str) -> Why:
        """Return why a memory is there, or no longer is: each event of its life in words.

        Of a memory that was compressed, with what became of its summary; of a summary, with the ids
        of its originals. Entities, relationships, episodes and documents alike.

        :raises NotFoundError: no event ever named it.
        """
        return await why(self._scope, check_name(memory_id, "memory_id"))

    async def usage(self) -> Usage:
        """Return how much of each kind this user holds, and how full each limit is."""
        now_us = self._scope.now_us()
        async with self._scope.live() as live:
            state = live.state.at(now_us)
        return usage(self.user_id, state, self._scope.limits(state), to_datetime(now_us))

    async def estimate_monthly_cost(self) -> CostEstimate:
        """Return what this user's memory would cost a month at the prices in the settings."""
        settings = self._scope.services.settings
        async with self._scope.searching() as live:
            vector_bytes = live.indexes.vector_bytes
            plan = settings.plan(live.state.account.tier)
        return estimate(await self.usage(), vector_bytes, settings.prices, plan)

    async def export(self) -> AsyncIterator[Memory]:
        """Yield every living memory as it was when the export began, kind by kind.

        The order is that of handles/exporting.py: what a memory needs comes before it.
        """
        async with self._scope.live() as live:
            state = live.state.at(self._scope.now_us())
        rows = await anyio.to_thread.run_sync(in_export_order, state)
        for start in range(0, len(rows), LIST_PAGE):
            page = rows[start : start + LIST_PAGE]
            for memory in await memories(self._scope.services.log, self._scope.stream, page):
                yield memory
