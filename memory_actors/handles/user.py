"""`memory.user(...)`: everything one user's memory can do."""

from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import datetime
from typing import Any

import anyio.to_thread
import msgspec

from eventlog.records import to_datetime
from memory_actors import retrieval
from memory_actors.errors import InvalidInputError, NotFoundError
from memory_actors.filters import Predicate, predicate
from memory_actors.handles.long_term import LongTermMemory
from memory_actors.handles.scope import Scope
from memory_actors.handles.short_term import ShortTermMemory
from memory_actors.handles.working import WorkingMemory
from memory_actors.kinds import short_term
from memory_actors.live_user import LiveUser
from memory_actors.reading import Found, memories
from memory_actors.records import (
    HistoryEntry,
    Hit,
    Item,
    Memory,
    MemoryType,
    Metadata,
    Receipt,
    Usage,
)
from memory_actors.services import Services
from memory_actors.user import KIND_BY_NAME, UserState
from memory_actors.validation import (
    QUERY_BYTES_MAX,
    check_count,
    check_name,
    check_optional_name,
    check_top_k,
    memory_type,
    text_bytes,
)

LIST_PAGE = 256


class UserMemory:
    """One user's memory, as one agent and session see it. Cheap to make; no I/O until it is used.

    Every method may raise `UnavailableError` (the log could not be written), `QuarantinedError`
    (this user's actor keeps failing; reads still work) and `SystemClosedError`.
    """

    def __init__(
        self,
        services: Services,
        user_id: str,
        *,
        agent_id: str | None = None,
        session_id: str | None = None,
    ):
        self._scope = Scope(services, user_id, agent_id, session_id)
        self.working = WorkingMemory(self._scope)
        self.short_term = ShortTermMemory(self._scope)
        self._long_term = LongTermMemory(self._scope)

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
        idempotency_key: str | None = None,
    ) -> Receipt:
        """Add one memory.

        `key` is for working memory only (without one, a text is kept under its own id);
        `occurred_at`, `session_id` and `role` are for the others, `pinned` and `idempotency_key`
        for long-term memory. Long-term and short-term memories are durable when this returns;
        working memory is on disk within 50 ms.

        :raises InvalidInputError: empty content, an unknown type, metadata that is not JSON, …
        :raises QuotaExceededError: no room for it.
        """
        item = Item(
            content=content,
            metadata=metadata,
            occurred_at=occurred_at,
            session_id=session_id,
            role=role,
            memory_id=memory_id,
            pinned=pinned,
        )
        return await self._add(item, memory_type, False, key, idempotency_key)

    async def add_with_auto_prune(
        self,
        content: str,
        memory_type: MemoryType | str = MemoryType.LONG_TERM,
        *,
        metadata: Metadata | None = None,
        occurred_at: datetime | str | None = None,
        session_id: str | None = None,
        role: str | None = None,
        key: str | None = None,
        pinned: bool = False,
    ) -> Receipt:
        """Add one memory, and make room first if there is none.

        Long-term: the oldest tenth (at least one, never a pinned one) is deleted, and the receipt's
        operation is `add_with_prune`. Working: the least recently used entries go. Short-term
        memory makes room by itself.

        :raises QuotaExceededError: everything else is pinned, or it could never fit.
        """
        item = Item(
            content=content,
            metadata=metadata,
            occurred_at=occurred_at,
            session_id=session_id,
            role=role,
            pinned=pinned,
        )
        return await self._add(item, memory_type, True, key, None)

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
        return await self._long_term.add(
            items, auto_prune=auto_prune, idempotency_key=idempotency_key
        )

    async def update(
        self, memory_id: str, *, content: str | None = None, metadata: Metadata | None = None
    ) -> Receipt:
        """Replace a memory's content, its metadata (as a whole), or both.

        :raises NotFoundError: there is no such memory.
        """
        if content is None and metadata is None:
            raise InvalidInputError("nothing to update: give a content, metadata, or both")
        async with self._scope.live() as live:
            found = self._find(live, memory_id)
        if found.kind is MemoryType.WORKING:
            return await self.working.update(memory_id, content, metadata)
        if found.kind is MemoryType.SHORT_TERM:
            return await self.short_term.update(found.row, content, metadata)
        return await self._long_term.update(found.row, content, metadata)

    async def delete(self, memory_id: str) -> Receipt:
        """Delete a memory: it is never returned again. The log keeps what it was, for audits.

        :raises NotFoundError: there is no such memory.
        """
        async with self._scope.live() as live:
            found = self._find(live, memory_id)
        if found.kind is MemoryType.WORKING:
            return await self.working.delete_memory(memory_id)
        if found.kind is MemoryType.SHORT_TERM:
            return await self.short_term.delete_memory(memory_id)
        return await self._long_term.delete_memory(memory_id)

    # --- read

    async def retrieve(
        self,
        query: str,
        *,
        memory_types: Sequence[MemoryType | str] | None = None,
        top_k: int = 5,
        filters: Mapping[str, Any] | None = None,
        session_id: str | None = None,
    ) -> list[Hit]:
        """Return the `top_k` memories closest in meaning to a query.

        Working memory comes first, then short-term, then the rest by score. `memory_types` None
        means all. `filters` are metadata that must be equal, applied before ranking. Short-term
        memory is searched in `session_id`, the handle's session, or the three used last.

        :raises InvalidInputError: an empty query, an unknown type, a bad filter.
        :raises EmbedderError: the query could not be embedded.
        """
        text_bytes(query, "query", QUERY_BYTES_MAX)
        asked = retrieval.Query(
            text=query,
            kinds=_kinds(memory_types),
            top_k=check_top_k(top_k),
            matches=predicate(filters),
            session_id=check_optional_name(session_id, "session_id") or self._scope.session_id,
            now_us=self._scope.now_us(),
        )
        async with self._scope.live() as live:
            return await retrieval.retrieve(self._scope.services, live, asked)

    async def get(self, memory_id: str) -> Memory:
        """Return one memory.

        :raises NotFoundError: there is none with this id: never was, deleted, evicted or expired.
        """
        async with self._scope.live() as live:
            found = self._find(live, memory_id)
            (memory,) = await memories(self._scope.services.log, self._scope.stream, [found])
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
        kinds, matches = _kinds(memory_types), predicate(filters)
        first = check_count(offset, "offset")
        until = first + check_count(limit, "limit")
        async with self._scope.live() as live:
            rows = await anyio.to_thread.run_sync(self._rows, live.state, kinds, matches)
            page = rows[first:until]
            return await memories(self._scope.services.log, self._scope.stream, page)

    async def history(self, memory_id: str) -> list[HistoryEntry]:
        """Return every event that touched a memory, oldest first; also of one that is deleted.

        :raises NotFoundError: no event ever named it.
        """
        log, stream = self._scope.services.log, self._scope.stream
        check_name(memory_id, "memory_id")
        await log.flush()  # working memory is acknowledged before it is in the log
        versions = await log.versions_about(stream, memory_id)
        if not versions:
            raise NotFoundError(f"no event names memory {memory_id!r}")
        return [
            HistoryEntry(
                position=recorded.position,
                version=recorded.version,
                recorded_at=recorded.recorded_at,
                event=recorded.tag,
                data=msgspec.to_builtins(recorded.data),
                cause=recorded.meta,
            )
            for recorded in await log.read_versions(stream, versions)
        ]

    async def usage(self) -> Usage:
        """Return how much of each kind this user holds, and the limits."""
        now_us = self._scope.now_us()
        limits = self._scope.services.settings.limits
        async with self._scope.live() as live:
            state = live.state
        kinds = {
            name: kind.usage(state.of(kind), limits, now_us) for name, kind in KIND_BY_NAME.items()
        }
        return Usage(user_id=self.user_id, at=to_datetime(now_us), kinds=kinds)

    async def export(self) -> AsyncIterator[Memory]:
        """Yield every living memory, oldest first, as it was when the export began."""
        async with self._scope.live() as live:
            rows = await anyio.to_thread.run_sync(self._rows, live.state, list(MemoryType), None)
        rows.reverse()
        for start in range(0, len(rows), LIST_PAGE):
            page = rows[start : start + LIST_PAGE]
            for memory in await memories(self._scope.services.log, self._scope.stream, page):
                yield memory

    # --- plumbing

    async def _add(
        self,
        item: Item,
        kind: MemoryType | str,
        auto_prune: bool,
        key: str | None,
        idempotency_key: str | None,
    ) -> Receipt:
        wanted = memory_type(kind)
        _refuse_what_does_not_apply(wanted, item, key, idempotency_key)
        if wanted is MemoryType.WORKING:
            return await self.working.add(
                item.content,
                metadata=item.metadata,
                key=key,
                memory_id=item.memory_id,
                auto_prune=auto_prune,
            )
        if wanted is MemoryType.SHORT_TERM:
            return await self.short_term.add_message(
                item.content,
                role=item.role,
                session_id=item.session_id,
                metadata=item.metadata,
                occurred_at=item.occurred_at,
                memory_id=item.memory_id,
            )
        (receipt,) = await self._long_term.add(
            [item], auto_prune=auto_prune, idempotency_key=idempotency_key
        )
        return receipt

    def _find(self, live: LiveUser, memory_id: str) -> Found:
        check_name(memory_id, "memory_id")
        now_us = self._scope.now_us()
        for name, kind in KIND_BY_NAME.items():
            row = kind.find(live.state.of(kind), memory_id, now_us)
            if row is not None:
                return Found(MemoryType(name), row)
        raise NotFoundError(f"no memory {memory_id!r}: never there, deleted, evicted or expired")

    def _rows(
        self, state: UserState, kinds: Sequence[MemoryType], matches: Predicate | None
    ) -> list[Found]:
        """Return the rows of these kinds that match, newest first. Slow for many: in a thread."""
        rows = []
        if MemoryType.WORKING in kinds:
            rows += [Found(MemoryType.WORKING, row) for row in state.working.rows.values()]
        if MemoryType.SHORT_TERM in kinds:
            sessions = short_term.living_sessions(state.short_term, self._scope.now_us())
            rows += [Found(MemoryType.SHORT_TERM, row) for s in sessions for row in s.rows]
        if MemoryType.LONG_TERM in kinds:
            rows += [Found(MemoryType.LONG_TERM, row) for row in state.long_term.rows.values()]
        if matches is not None:
            rows = [found for found in rows if matches(found.row.metadata)]
        return sorted(rows, key=_age)


def _kinds(memory_types: Sequence[MemoryType | str] | None) -> list[MemoryType]:
    if memory_types is None:
        return list(MemoryType)
    if isinstance(memory_types, str):
        return [memory_type(memory_types)]
    if not isinstance(memory_types, Sequence):
        raise InvalidInputError(f"memory_types must be a list of types, not {memory_types!r:.80}")
    return [memory_type(kind) for kind in memory_types]


def _age(found: Found) -> tuple[int, int]:
    """Sort newest first: by the time it was true, then by the order of arrival."""
    when = getattr(found.row, "occurred_at_us", found.row.created_at_us)
    return -when, -found.row.version


def _refuse_what_does_not_apply(
    kind: MemoryType, item: Item, key: str | None, idempotency_key: str | None
) -> None:
    """Refuse arguments that mean nothing for a kind: dropping them silently would lose data."""
    of_working: dict[str, Any] = {"key": key}
    of_others: dict[str, Any] = {
        "occurred_at": item.occurred_at,
        "role": item.role,
        "session_id": item.session_id,
    }
    of_long_term: dict[str, Any] = {
        "idempotency_key": idempotency_key,
        "pinned": item.pinned or None,
    }
    wrong = {
        MemoryType.WORKING: of_others | of_long_term,
        MemoryType.SHORT_TERM: of_working | of_long_term,
        MemoryType.LONG_TERM: of_working,
    }[kind]
    given = [name for name, value in wrong.items() if value is not None]
    if given:
        raise InvalidInputError(f"{kind} memory has no {given[0]}: leave it out")
