"""Pending memories of one user: those that wait for a review, an approval or a rejection."""
# ruff: noqa: SLF001 - a user's memory calls what the handles of its kinds have in common

import secrets
from collections.abc import Sequence

from immutables import Map
from msgspec.structs import replace

from eventlog import Recorded
from memory_actors.api.finding import named_kinds
from memory_actors.api.forgetting import KEY_BYTES
from memory_actors.api.reads import UserReads
from memory_actors.base.on import origins_of
from memory_actors.base.records import Memory, MemoryType, Receipt
from memory_actors.base.validation import check_count, check_names
from memory_actors.kinds import provenance
from memory_actors.kinds.kind import Found
from memory_actors.kinds.provenance import Provenance
from memory_actors.kinds.review import MemoryHeld, Reject, pending_row
from memory_actors.kinds.tombstones import tombstones_of
from memory_actors.kinds.user_state import KIND_BY_NAME
from memory_actors.search.reading import memory


class UserReviews(UserReads):
    """The memories of a user that wait for a review. See `UserMemory`."""

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


def _memory(held: Recorded[MemoryHeld]) -> Memory:
    kind, memory_id = KIND_BY_NAME[held.data.kind], held.data.memory_id
    row, events = pending_row(kind, held)
    known = provenance.follow(Provenance(), events.values(), lambda _event: (memory_id,))
    known = replace(known, expires=Map({memory_id: held.data.until_us}))
    return memory(Found(kind, row), events, known)
