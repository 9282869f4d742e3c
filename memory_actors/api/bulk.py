"""Many memories of a user at once: deletes, restores, originals of a summary, and reviews.

Each kind has its own command to restore, and so an append of its own. So that a refusal leaves
nothing half done, every id is looked up and every command made before the first is carried out; and
where there are several, each is decided once beforehand.
"""
# ruff: noqa: SLF001 - a user's memory calls what the handles of its kinds have in common

import asyncio
import secrets
from collections.abc import Mapping, Sequence
from typing import Final

import anyio.to_thread
from immutables import Map
from msgspec.structs import replace

from eventlog import Dropped, Recorded
from memory_actors.api.finding import Chosen, chosen, found_summary, matching, named_kinds
from memory_actors.api.forgetting import KEY_BYTES
from memory_actors.api.reads import UserReads
from memory_actors.base.errors import InvalidInputError, NotFoundError
from memory_actors.base.filters import Predicate
from memory_actors.base.origins import origins_of
from memory_actors.base.records import Memory, MemoryType, Receipt, Trust
from memory_actors.base.validation import check_count, check_name, check_names
from memory_actors.kinds import provenance
from memory_actors.kinds.compacting import Compressed, Summary
from memory_actors.kinds.kind import Found, Kind
from memory_actors.kinds.provenance import Provenance
from memory_actors.kinds.review import MemoryHeld, Reject, pending_row
from memory_actors.kinds.rows import Row
from memory_actors.kinds.tombstones import tombstones_of
from memory_actors.kinds.user_state import KIND_BY_NAME, kind_of, kind_of_event
from memory_actors.search.reading import About, memory, pages, versions_about
from memory_actors.upkeep.store import event_registry
from memory_actors.users.handles.handle import Summarized
from memory_actors.users.handles.scope import Scope

DELETED_AT_ONCE: Final = 64
"""As many as an actor takes of its mailbox: it decides them in one batch, for one commit."""

AMBIGUOUS_NAMED_MAX: Final = 3


class UserBulk(UserReads):
    """Operations of a user on many memories. See `UserMemory`."""

    async def delete_many(
        self,
        filters: Mapping[str, object],
        *,
        memory_types: Sequence[MemoryType | str] | None = None,
        sources: Sequence[str] | None = None,
        min_trust: Trust | str | None = None,
        agent_id: str | None = None,
    ) -> list[Receipt]:
        """Delete the memories that match; return a receipt for each. `count` says how many do.

        The arguments choose as in `list_memories`. It is done in batches: each memory is deleted or
        not, and after a crash, or an error, repeat it. One that is changed meanwhile, and no longer
        matches `filters`, stays. Memories that are deleted along with another (an entity's
        relationships) have no receipt.

        :raises InvalidInputError: an unknown type, a bad filter, source or trust; or `{}`, which
            matches everything, without `memory_types`.
        """
        self._scope.check_writable()
        which = chosen(memory_types, filters, sources, min_trust, agent_id)
        if not filters and memory_types is None:
            raise InvalidInputError(
                "no filter matches everything: name memory_types as well, or use "
                "`MemorySystem.erase` to forget the user"
            )
        return await self._scope.unattended(self._deleted(which))

    async def _deleted(self, which: Chosen) -> list[Receipt]:
        state = await self._scope.state_now()
        found = await anyio.to_thread.run_sync(lambda: list(matching(state, which)))
        receipts: list[Receipt] = []
        for start in range(0, len(found), DELETED_AT_ONCE):
            batch = found[start : start + DELETED_AT_ONCE]
            deleting = [self._deleted_one(one, which.matches) for one in batch]
            for outcome in await asyncio.gather(*deleting, return_exceptions=True):
                if isinstance(outcome, BaseException):
                    raise outcome
                receipts += outcome
        return receipts

    async def _deleted_one(self, one: Found, matches: Predicate | None) -> list[Receipt]:
        """Delete one; return no receipt if it went, or was changed to match no more, meanwhile."""
        try:
            return [await self._handles[one.kind.NAME]._delete(one.row, matches)]
        except NotFoundError:
            return []

    async def restore(self, memory_ids: Sequence[str]) -> list[Receipt]:
        """Bring back memories that were pruned, evicted or deleted, as they were.

        A memory with a time to live keeps its expiry. If that is over, it lives as long again.
        All or none: a refused call changes nothing. Living memories stay unchanged. Working and
        short-term memory does not come back. Each kind is one append: where the process dies
        between two of them, or another write takes the room meanwhile, those of the first kinds are
        back; repeat it.

        :raises QuotaExceededError: there is no room for them.
        :raises NotFoundError: one of them never was.
        :raises InvalidInputError: one is a summary whose originals all live.
        """
        self._scope.check_writable()
        by_kind: dict[str, list[str]] = {}
        for memory_id, kind in (await self._kinds_ever(memory_ids)).items():
            by_kind.setdefault(kind.NAME, []).append(memory_id)
        handles = [(self._handles[name], ids) for name, ids in by_kind.items()]
        commands = [(handle, handle._restoring(ids)) for handle, ids in handles]

        async def carried_out() -> list[Receipt]:
            if len(commands) > 1:
                async with self._scope.writable() as live:
                    for _, command in commands:
                        await live.actor.dry_run(command)
            return [one for handle, command in commands for one in await handle._restored(command)]

        return await self._scope.unattended(carried_out())

    async def _kinds_ever(self, memory_ids: Sequence[str]) -> dict[str, Kind]:
        """Return the kinds of memories, alive or not, by id: by the events they began with."""
        self._scope.services.runtime.check_open()
        log, stream = self._scope.services.log, self._scope.stream
        ids = check_names(memory_ids, "memory_ids")
        about = dict(await versions_about(log, stream, ids))
        if unknown := [one for one in ids if not about[one]]:  # they may be on their way to the log
            await log.flush()
            about |= await versions_about(log, stream, unknown)
        firsts = (versions[0] for versions in about.values() if versions)
        begun = [one async for page in pages(log, stream, firsts) for one in page]
        kinds = {recorded.version: kind_of(recorded) for recorded in begun}
        found: dict[str, Kind] = {}
        for memory_id in ids:
            kind = kinds.get(next(iter(about[memory_id]), 0))
            if kind is None:
                raise NotFoundError(f"no memory {memory_id!r} to restore: it was never there")
            found[memory_id] = kind
        return found

    async def full_id(self, beginning: str) -> str:
        """Return the id that begins so, of a memory that is there or, if none is, that was.

        If no living memory matches, this reads all events of the user.

        :raises NotFoundError: none does.
        :raises InvalidInputError: several do.
        """
        check_name(beginning, "memory_id")
        if await self._scope.versions_about(beginning):
            return beginning
        state = await self._scope.state_now()
        every = (row.memory_id for _, row in state.rows())
        ids: set[str] = {memory_id for memory_id in every if memory_id.startswith(beginning)}
        if not ids:  # one that was
            log, about, version = self._scope.services.log, event_registry().keys, 0
            while page := await log.read_stream(self._scope.stream, version, dropped="mark"):
                version = page[-1].version
                events = (
                    recorded.data for recorded in page if not isinstance(recorded.data, Dropped)
                )
                ids.update(
                    one for event in events for one in about(event) if one.startswith(beginning)
                )
        if len(ids) > 1:
            some = ", ".join(sorted(ids)[:AMBIGUOUS_NAMED_MAX])
            raise InvalidInputError(
                f"{len(ids):,} ids begin with {beginning!r}: write more of it (such as {some})"
            )
        if not ids:
            raise NotFoundError(f"no memory of this user has an id that begins with {beginning!r}")
        return ids.pop()

    async def expand(self, compressed_id: str) -> list[Memory]:
        """Return the originals of a summary as they were, from the log, in order of time.

        :raises NotFoundError: it is no summary, or its originals are not here (any more).
        """
        kind, row = await found_summary(self._scope, compressed_id)
        log, ids = self._scope.services.log, await self._originals_of(row)
        versions = await log.versions_about(self._scope.stream, row.memory_id)
        (first,) = await log.read_versions(self._scope.stream, versions[:1])
        made_at = first.version if isinstance(first.data, Compressed) else 0  # 0: made elsewhere
        about = await versions_about(log, self._scope.stream, ids, before=made_at)
        rows, dropped, known = await _as_they_were(self._scope, kind, about)
        if len(rows) < len(ids):
            gone = (
                "" if dropped is None else f" Retention dropped them on {dropped.since:%Y-%m-%d}."
            )
            raise NotFoundError(
                f"{len(ids) - len(rows)} of {len(ids)} originals of {row.memory_id!r} are not in "
                f"this store.{gone} The summary is what is left of them"
            )
        rows.sort(key=lambda one: (one.occurred_at_us, one.version))
        return await self._read([Found(kind, one) for one in rows], known)

    async def undo_compaction(self, compressed_id: str) -> list[Receipt]:
        """Bring the originals of a summary back, all or none; the summary goes.

        They are left alone by compaction from then on.

        :raises QuotaExceededError: there is no room for all of them.
        :raises NotFoundError: it is no summary, or its originals are not here (any more).
        """
        self._scope.check_writable()
        kind, row = await found_summary(self._scope, compressed_id)
        ids = await self._originals_of(row)
        handle = self._handles[kind.NAME]
        assert isinstance(handle, Summarized)
        return await handle._undo_compaction(compressed_id, ids)

    async def _originals_of(self, row: Row) -> Sequence[str]:
        (recorded,) = await self._scope.services.log.read_versions(
            self._scope.stream, [row.version]
        )
        summary: Summary = recorded.data
        return summary.compressed_from_ids

    # --- reviews

    async def pending(
        self,
        memory_types: Sequence[MemoryType | str] | None = None,
        *,
        limit: int = 100,
        offset: int = 0,
    ) -> list[Memory]:
        """Return the memories that wait for a review, the last that was added first.

        No other read returns them. `expires_at` is when the wait ends: what nobody has approved by
        then is rejected. `Settings.review` says what has to wait.
        """
        names = {kind.NAME for kind in named_kinds(memory_types)}
        first, count = check_count(offset, "offset"), check_count(limit, "limit")
        waiting = (await self._scope.managed()).review.pending.values()
        versions = sorted((one.version for one in waiting if one.kind in names), reverse=True)
        page = sorted(versions[first : first + count])
        read = await self._scope.services.log.read_versions(self._scope.stream, page)
        return [_memory(held) for held in reversed(read)]

    async def approve(self, memory_ids: Sequence[str]) -> list[Receipt]:
        """Add pending memories, as if they were added now by the one who had added them.

        One by one: where one is refused, those before it are there. A fact that is there by now is
        `seen`, and an observation goes to the entity that has its name: the receipt has its id.

        :raises NotFoundError: one of them is not pending; nothing was approved.
        :raises QuotaExceededError: the context document has no room for it.
        """
        self._scope.check_writable()
        receipts = []
        for one in await self._held(memory_ids):
            names = {name: one.meta.get(name) for name in ("agent_id", "session_id")}
            author = self._with(**names, origins=origins_of(one), lives_until_us=None)
            receipts.append(await author._handles[one.data.kind]._approve(one))
        return receipts

    async def reject(self, memory_ids: Sequence[str]) -> list[Receipt]:
        """Reject pending memories, all or none: they never begin.

        Their facts are refused from now on, as if forgotten (`forgotten` lists it, and
        `unforget` lets one come again). The log keeps the words, unless you `forget` them.

        :raises NotFoundError: one of them is not pending.
        """
        self._scope.check_writable()
        held = await self._held(memory_ids)
        facts = [text for one in held for text in one.data.facts]
        now_us, known = self._scope.now_us(), (await self._scope.state()).tombstones
        stones = tombstones_of(facts, known, secrets.token_bytes(KEY_BYTES), now_us, "rejected")
        ids = tuple(one.data.memory_id for one in held)
        command = Reject(now_us=now_us, memory_ids=ids, tombstones=stones)
        written = await self._long_term._write(command)
        of_kinds = [(self._handles[one.data.kind], one.data.memory_id) for one in held]
        return [handle._receipt(memory_id, "reject", written) for handle, memory_id in of_kinds]

    async def _held(self, memory_ids: Sequence[str]) -> list[Recorded[MemoryHeld]]:
        """Return the events of pending memories, in the order of their ids here, each once."""
        ids = check_names(memory_ids, "memory_ids")
        review = (await self._scope.managed()).review
        review.check(ids)
        versions = [review.pending[one].version for one in ids]
        read = await self._scope.services.log.read_versions(self._scope.stream, sorted(versions))
        by_version = {one.version: one for one in read}
        return [by_version[version] for version in versions]


async def _as_they_were(
    scope: Scope, kind: Kind, about: About
) -> tuple[list[Row], Dropped | None, Provenance]:
    """Return the rows of memories after these events, since when others are gone, and origins.

    Ignore the events of a memory before its last event that retention dropped.
    """
    state, gone, origins = await _folded(scope, kind, about)
    if gone:
        lasts = {one: max(gone.keys() & about[one], default=0) for one in about}
        about = {one: [each for each in about[one] if each > lasts[one]] for one in about}
        state, _, origins = await _folded(scope, kind, about)
    found = [kind.find(state, memory_id) for memory_id in about]
    since = next(iter(gone.values()), None)
    return [row for row in found if row is not None], since, origins


async def _folded(
    scope: Scope, kind: Kind, about: About
) -> tuple[object, dict[int, Dropped], Provenance]:
    """Return the state that these events alone make, those whose payloads are gone, and origins."""
    versions = (version for each in about.values() for version in each)
    state, origins = kind.initial, provenance.PART.initial
    gone: dict[int, Dropped] = {}
    async for page in pages(scope.services.log, scope.stream, versions):
        gone |= {one.version: one.data for one in page if isinstance(one.data, Dropped)}
        whole = [one for one in page if one.version not in gone and kind_of_event(one.data) is kind]
        state = kind.fold(state, whole)
        origins = provenance.follow(origins, whole, kind.registry.keys)
    return state, gone, origins


def _memory(held: Recorded[MemoryHeld]) -> Memory:
    kind, memory_id = KIND_BY_NAME[held.data.kind], held.data.memory_id
    row, events = pending_row(kind, held)
    known = provenance.follow(Provenance(), events.values(), lambda _event: (memory_id,))
    known = replace(known, expires=Map({memory_id: held.data.until_us}))
    return memory(Found(kind, row), events, known)
