"""`memory.user(...)`: everything one user's memory can do."""
# ruff: noqa: SLF001 - a user's memory calls what the handles of its kinds have in common

from collections.abc import Mapping, Sequence
from copy import copy
from typing import Final, Self, get_type_hints

import msgspec

from eventlog.core.records import to_datetime
from memory_actors.api.bulk import UserBulk
from memory_actors.api.data_protection import UserDataProtection
from memory_actors.api.finding import found
from memory_actors.api.user_context import UserContext
from memory_actors.base import validation
from memory_actors.base.errors import InvalidInputError
from memory_actors.base.filters import predicate
from memory_actors.base.origins import origin
from memory_actors.base.records import (
    Item,
    Memory,
    MemoryType,
    Metadata,
    OnDuplicate,
    Receipt,
    Right,
    Tier,
    Time,
    Trust,
)
from memory_actors.base.reports import Extraction, Undone
from memory_actors.extraction.run import BATCHES_MAX, ExtractRequest, extract, undo
from memory_actors.kinds.account import SetTier
from memory_actors.kinds.grants import SetRight
from memory_actors.users.handles.documents import Documents
from memory_actors.users.handles.entities import EntityGraph
from memory_actors.users.handles.episodes import Episodes
from memory_actors.users.handles.handle import Adding, Handle, Summarized
from memory_actors.users.handles.scope import Scope
from memory_actors.users.handles.short_term import ShortTermMemory
from memory_actors.users.handles.working import WorkingMemory


class UserMemory(UserBulk, UserDataProtection):
    """One user's memory, as one agent and session see it. Cheap to make; no I/O until it is used.

    Every method may raise `UnavailableError` (the log could not be written), `QuarantinedError`
    (this user's actor keeps failing; reads still work) and `SystemClosedError`.
    """

    working: WorkingMemory
    short_term: ShortTermMemory
    entities: EntityGraph
    episodes: Episodes
    documents: Documents
    context: UserContext

    def __init__(self, scope: Scope):
        super().__init__(scope)
        handles: dict[str, Handle] = {
            name: handle(scope) for name, handle in HANDLES.items() if handle is not UserContext
        }
        handles["context"] = UserContext(scope, self)
        vars(self).update(handles)
        self._handles = {handle.kind.NAME: handle for handle in handles.values()}

    def from_source(self, source: str | None, trust: Trust | str | None = None) -> Self:
        """Return a handle for what a source says: all that is written with it comes from there.

        `source` is a name of yours for it: a URL, a tool, a person. `trust` is "trusted" (the user
        or the operator vouches for it), "untrusted" (anybody may have written it: a page, a mail,
        the output of a tool), or "unknown". No I/O.

        :raises InvalidInputError: a source that is empty or over 512 bytes, or an unknown trust.
        """
        return self._with(origins=origin(source, trust))

    def reads(self, *scopes: str) -> Self:
        """Return a handle whose `retrieve` and `context` ask other users or scopes, too. No I/O.

        They ask in the name of the handle's subjects; if it names none, of this user. Everything
        else, writes above all, is still about this user.

        :raises InvalidInputError: a name that is empty or over 512 bytes, or more than 16 scopes.
        """
        return self._with(reads=scopes)

    def _with(self, **fields: object) -> Self:
        handle = copy(self)
        UserMemory.__init__(handle, self._scope.changed(**fields))
        return handle

    # --- write

    async def add(
        self,
        content: str,
        memory_type: MemoryType | str = MemoryType.LONG_TERM,
        *,
        metadata: Metadata | None = None,
        occurred_at: Time | None = None,
        session_id: str | None = None,
        role: str | None = None,
        key: str | None = None,
        memory_id: str | None = None,
        pinned: bool = False,
        auto_prune: bool | None = None,
        idempotency_key: str | None = None,
        on_duplicate: OnDuplicate | None = None,
        ttl_s: float | None = None,
    ) -> Receipt:
        """Add one memory, given as a text.

        The meaning of the text depends on the type: a fact (long_term), a message (short_term), the
        value of `key` (working; without one, kept under its own id), an entity's name (entity; with
        `key`, that is the name and the text an observation), the goal of a new episode (episodic),
        a JSON document (structured; a text that is no JSON object becomes {"text": …}), or an entry
        of MEMORY.md (context; in the section `key`). `session_id` and `role` are for messages and
        facts, `pinned` for what can be pruned, `idempotency_key` for long-term memory; what means
        nothing for a type is refused. All but working memory is durable when this returns; that is
        on disk within 50 ms. `auto_prune` makes room as `add_with_auto_prune` does (None: as the
        handle says).

        A fact in the words of one that is there, of the same session, metadata and source, is that
        one: it was seen once more (`times_seen`), the receipt's operation is `seen`, and its id the
        known one. `on_duplicate` says otherwise: "keep" makes it a memory of its own, "skip" leaves
        all as it was. If it says nothing (the settings do, then), what has a session or an id of
        your own is kept.

        `ttl_s` is the time to live in seconds: after it the memory is deleted, and until then
        compaction leaves it alone. By default (None) the kind's default applies (`Settings.ttl_s`);
        infinity keeps it. A fact that is said again lives as long as the longer of the two.

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
        handle = self._handles[validation.check_member(MemoryType, memory_type, "memory type")]
        return await handle.lasting(ttl_s)._add(
            item, Adding(auto_prune, idempotency_key, on_duplicate)
        )

    async def turn(
        self,
        content: str,
        role: str = "user",
        *,
        session_id: str | None = None,
        metadata: Metadata | None = None,
        occurred_at: Time | None = None,
        memory_id: str | None = None,
        auto_prune: bool | None = None,
    ) -> Receipt:
        """Add a turn of a chat to the messages of its session and to long-term memory, at once.

        Both or neither, in one append. `role` says who speaks: "user", "assistant", or a name. The
        session is `session_id`, else the handle's, else "default". `context(query)` then has the
        turn among the last messages of the session, and every session can find it. The receipt is
        that of the memory; an id of your own that was used before adds nothing.

        :raises InvalidInputError: empty content, metadata that is not JSON, …
        :raises QuotaExceededError: long-term memory has no room and may make none (`auto_prune`),
            or the turn is larger than a session may be.
        """
        item = Item(
            content=content,
            role=role,
            session_id=self.short_term._session(session_id),
            metadata=metadata,
            occurred_at=to_datetime(self._scope.now_us()) if occurred_at is None else occurred_at,
        )
        message = self.short_term._by_settings(self.short_term._adding(item))
        return await self._long_term._add_turn(
            msgspec.structs.replace(item, memory_id=memory_id), message, auto_prune
        )

    async def add_with_auto_prune(
        self,
        content: str,
        memory_type: MemoryType | str = MemoryType.LONG_TERM,
        *,
        metadata: Metadata | None = None,
        occurred_at: Time | None = None,
        session_id: str | None = None,
        role: str | None = None,
        key: str | None = None,
        memory_id: str | None = None,
        pinned: bool = False,
        idempotency_key: str | None = None,
        on_duplicate: OnDuplicate | None = None,
        ttl_s: float | None = None,
    ) -> Receipt:
        """Add one memory, and make room first if there is none; the fields are those of `add`.

        The oldest tenth (at least one, never a pinned one) of its kind is pruned: the receipt's
        operation is then `add_with_prune`, and `restore(receipt.pruned)` brings them back. Working
        memory lets the least recently used entries go, short-term memory always makes room.

        :raises QuotaExceededError: everything else is pinned, or it could never fit.
        """
        return await self.add(
            content,
            memory_type,
            metadata=metadata,
            occurred_at=occurred_at,
            session_id=session_id,
            role=role,
            key=key,
            memory_id=memory_id,
            pinned=pinned,
            auto_prune=True,
            idempotency_key=idempotency_key,
            on_duplicate=on_duplicate,
            ttl_s=ttl_s,
        )

    async def add_many(
        self,
        items: Sequence[Item],
        *,
        auto_prune: bool | None = None,
        idempotency_key: str | None = None,
        on_duplicate: OnDuplicate | None = None,
        ttl_s: float | None = None,
    ) -> list[Receipt]:
        """Add up to 1,000 long-term memories in one embedding batch and one commit, all or none.

        An item with a `memory_id` that this user has used before adds nothing (its receipt says
        `unchanged`), so an interrupted run can be repeated. `on_duplicate` and `ttl_s` are as for
        `add`.

        :raises QuotaExceededError: they do not all fit; none was added.
        """
        adding = Adding(auto_prune, idempotency_key, on_duplicate)
        return await self._long_term.lasting(ttl_s)._add_many(items, adding)

    async def update(
        self,
        memory_id: str,
        *,
        content: str | None = None,
        metadata: Metadata | None = None,
        pinned: bool | None = None,
        filters: Mapping[str, object] | None = None,
    ) -> Receipt:
        """Replace what a memory says or its metadata (as a whole); pin it, or let it go again.

        Pinned memories are never pruned; of working and short-term memory nothing can be pinned,
        and entries of context documents are with `user.context.pin`. With `filters` on its metadata
        (see docs/reference.md) it is changed only if it matches them at the moment of the change:
        what somebody else has written since it was read is not overwritten.

        :raises NotFoundError: there is no such memory, or it does not match.
        :raises InvalidInputError: nothing is given, or it cannot be pinned.
        """
        if content is None and metadata is None and pinned is None:
            raise InvalidInputError("nothing to update: give what changes, such as content")
        self._scope.check_writable()
        matches = predicate(filters)
        kind, row = await found(self._scope, memory_id)
        return await self._handles[kind.NAME]._update(row, content, metadata, pinned, matches)

    async def delete(
        self, memory_id: str, *, filters: Mapping[str, object] | None = None
    ) -> Receipt:
        """Delete a memory: it is never returned again. The log keeps what it was, for audits.

        With `filters` on its metadata it is deleted only if it matches them at that moment.

        :raises NotFoundError: there is no such memory, or it does not match.
        """
        self._scope.check_writable()
        matches = predicate(filters)
        kind, row = await found(self._scope, memory_id)
        return await self._handles[kind.NAME]._delete(row, matches)

    async def extract(
        self,
        session_id: str | None = None,
        *,
        message_ids: Sequence[str] | None = None,
        metadata: Metadata | None = None,
        within: Metadata | None = None,
        batches_max: int = BATCHES_MAX,
        dry_run: bool = False,
    ) -> Extraction:
        """Have the extractor find facts in the messages that are new, and remember them.

        Messages are those of short-term memory, and long-term memories with a role; of a session
        (None: the handle's, or all), or only those of `message_ids`. Each is read once. Facts
        become long-term memories with the origins of the messages and with `metadata`; older facts
        are superseded or forgotten where the extractor proposes that, and `undo` takes it all back.
        `within` is metadata that sets facts apart from others: those that are found have it, and
        only facts that have it are shown to the extractor, changed, or the same as a new one.
        `batches_max` bounds how often the extractor is asked, with up to 20 messages at a time.
        With `dry_run` nothing changes: what is returned is what would be remembered.

        A batch is whole or not at all: where one fails, those before it stand, and its messages are
        read by the next call. If the extractor's answer is invalid, it is asked again with fewer
        messages; one that makes none alone counts as read, and is told as refused.

        :raises InvalidInputError: the store was opened without an extractor, or an argument is not
            what it must be.
        :raises NotFoundError: one of `message_ids` is not there, and was not read before.
        :raises ExtractorError: it failed, or its answer cannot be used.
        :raises QuotaExceededError: there is no room for what was found.
        :raises EmbedderError: the messages could not be embedded.
        """
        asked = ExtractRequest(session_id, message_ids, metadata, within, batches_max, dry_run)
        return await extract(self._scope, self._long_term, asked)

    async def undo(self, extraction_id: str) -> Undone:
        """Take back what an extraction has done, all or none; its messages stay read.

        Facts that it added go, unless somebody has reworded them since. Superseded facts become
        current again, and forgotten facts are restored. Once is enough, and more does no harm.

        :raises NotFoundError: there is no such extraction.
        :raises QuotaExceededError: there is no room for what comes back.
        """
        return await undo(self._scope, self._long_term, extraction_id)

    async def set_tier(self, tier: Tier | str) -> None:
        """Set this user's tier, and with it the limits, from now on and durably.

        A tier below the present use deletes nothing: reads work, adds are refused until there is
        room, and `usage` says so.

        :raises InvalidInputError: there is no such tier.
        """
        tier = validation.check_member(Tier, tier, "tier")
        await self._scope.carry_out(SetTier(now_us=self._scope.now_us(), tier=tier))

    async def grant(self, subject: str, right: Right | str = Right.READ) -> dict[str, Right]:
        """Give a person, an agent or an API key a right, in place of the one that it had.

        Returns the right of each subject then, as `grants` does.

        `subject` is "person:ada" (a name alone is a person), "agent:planner" or "key:" and the id
        of a key. The rights are "read"; "write", which includes it; "manage", which includes both,
        grants and the tier. From its first grant on, the scope is open to nobody else, but for the
        embedding process and the person of the scope's own name.

        :raises AccessDeniedError: the subjects of the handle may not manage here.
        :raises InvalidInputError: no subject, an unknown right, or too many grants.
        """
        return await self._set_right(subject, validation.check_member(Right, right, "right"))

    async def revoke(self, subject: str) -> dict[str, Right]:
        """Take the right of a subject: its next read or write is refused, at every door.

        Returns the right of each subject that still has one.

        :raises AccessDeniedError: the subjects of the handle may not manage here.
        :raises NotFoundError: it has no grant.
        """
        return await self._set_right(subject, None)

    async def _set_right(self, subject: str, right: Right | None) -> dict[str, Right]:
        named = validation.check_subject(subject)
        command = SetRight(now_us=self._scope.now_us(), subject=named, right=right)
        return (await self._scope.carry_out(command)).grants.rights

    async def _put_summary(self, memory: Memory) -> Receipt:
        """Add a summary as an export has it; its originals stay where they are."""
        if not isinstance(memory, Memory):
            raise InvalidInputError(f"give a Memory, as `get` returns, not {memory!r:.80}")
        handle = self._handles[
            validation.check_member(MemoryType, memory.memory_type, "memory type")
        ]
        if not isinstance(handle, Summarized):
            raise InvalidInputError(f"{memory.memory_type} memory has no summaries")
        return await handle._put_summary(memory)


HANDLES: Final[Mapping[str, type[Handle]]] = {
    name: handle
    for name, handle in get_type_hints(UserMemory).items()
    if isinstance(handle, type) and issubclass(handle, Handle)
}
"""The handles of the kinds, by the names under which a user's memory has them."""
TAKES: Final[Mapping[MemoryType, frozenset[str]]] = {
    MemoryType(handle.kind.NAME): handle.takes for handle in HANDLES.values()
}
"""The optional fields of a memory that mean something for its type."""
