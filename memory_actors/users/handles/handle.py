"""The base of the handles of all kinds: the way of a command into the log and the indexes.

Texts are embedded while the log writes, so an add takes the longer of the two and not both. It is
answered when it is durable and searchable. If the embedder fails, the memory is kept all the same,
the receipt says `indexed=False` and why, and it is indexed when the embedder works again.
"""

import asyncio
from abc import ABCMeta, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from copy import copy
from functools import partial
from time import perf_counter
from typing import Any, ClassVar, NamedTuple, Self, TypeVar

import msgspec

from eventlog import Recorded
from eventlog.core.logs import get_logger
from eventlog.core.records import DAY_US
from eventlog.core.waiting import settle
from memory_actors.actors.asking import Reply
from memory_actors.base.errors import (
    DeadlineExceededError,
    EmbedderError,
    EmbeddingNeededError,
    InvalidInputError,
    MemoryActorsError,
)
from memory_actors.base.filters import Predicate
from memory_actors.base.privacy import hashed, reason
from memory_actors.base.records import (
    Item,
    Memory,
    Metadata,
    OnDuplicate,
    Receipt,
    Time,
    Trust,
    as_record,
    least,
)
from memory_actors.base.validation import (
    CONTENT_BYTES_MAX,
    check_flag,
    check_optional_name,
    check_ttl,
    content_bytes,
    own_metadata,
    plain,
    time_us,
)
from memory_actors.kinds.commands import Add, Command, Condition, Restore
from memory_actors.kinds.context.commands import DocumentRoom
from memory_actors.kinds.kind import Found, Kind, Pruned, Row
from memory_actors.kinds.phrasing import text_digest
from memory_actors.kinds.provenance import Provenance
from memory_actors.kinds.review import MemoryHeld, approving, pending_row
from memory_actors.search.embedding.embeddings import EmbeddingRequest
from memory_actors.search.indexes.pending import EmbeddedText
from memory_actors.search.reading import memories
from memory_actors.search.superseding import Reach
from memory_actors.users.handles import superseding
from memory_actors.users.handles.redacting import Redacting
from memory_actors.users.handles.scope import Scope
from memory_actors.users.live_user import LiveUser

EMBEDDED_AT_ONCE = 128  # texts of one call: the first are indexed while the others are embedded
SETTLED_AT_ONCE = 32  # texts indexed before the loop gets its turn: 2 ms

After = Callable[[LiveUser, Reply], Awaitable[str | None]]
"""A function that is called once the log has the events of a command, and returns why they are
not indexed."""
NO_VECTOR_YET = (
    "the embedder has given no vector for its text yet: it is indexed as soon as there is one"
)

_logger = get_logger("memory_actors.user")

T = TypeVar("T", bound=msgspec.Struct)
A = TypeVar("A", bound=Add)
C = TypeVar("C", bound=Command)


OPTIONAL = {
    field.name: field
    for field in msgspec.structs.fields(Item)
    if field.name not in {"content", "metadata", "memory_id"}
}
"""The fields of an item that not every kind has."""
_IN_EVENTS = {"occurred_at": "occurred_at_us", "last_seen_at": "last_seen_us"}
"""The names that times have in events, which count them in microseconds."""


def taken(event: type[msgspec.Struct], *others: str) -> frozenset[str]:
    """Return the optional fields of an item that an event keeps, and others that a kind takes."""
    kept = (name for name in OPTIONAL if _IN_EVENTS.get(name, name) in event.__struct_fields__)
    return frozenset((*kept, *others))


class Written(NamedTuple):
    """The outcome of a command."""

    reply: Reply
    evicted: tuple[str, ...]
    pruned: tuple[str, ...]
    started_s: float
    unindexed: str | None = None
    """Why it is not indexed yet; None: it is, or there is nothing to index."""
    codes: Mapping[bytes, bytes] | None = None
    """The embeddings that were compared with what was forgotten."""
    pending: frozenset[str] = frozenset()
    """The memories that wait for a review."""


class Adding(NamedTuple):
    """The way in which memories are to be added."""

    auto_prune: bool | None = None
    """None: as the handle says."""
    idempotency_key: str | None = None
    on_duplicate: OnDuplicate | None = None


class New(NamedTuple):
    """The identity and the times of a memory that is to be added."""

    now_us: int
    memory_id: str
    own_ids: tuple[str, ...]
    """The id, if it is the caller's own: it may have been used before."""
    occurred_at_us: int


class Handle(Redacting, metaclass=ABCMeta):
    """Reads, adds, changes and deletes memories of one kind for one user.

    Its public methods are operations. `UserMemory` finds the kind of a memory and calls the private
    methods that all kinds have (`_add`, `_update`, `_delete`, `_restoring`).
    """

    kind: ClassVar[Kind]
    takes: ClassVar[frozenset[str]]
    """The optional fields of an `Item` that mean something for this kind."""
    _content_bytes_max: ClassVar[int] = CONTENT_BYTES_MAX

    def __init__(self, scope: Scope):
        self._scope = scope

    @abstractmethod
    async def _add(self, item: Item, adding: Adding) -> Receipt:
        """Add one memory, given as a text. See `_check_item`."""

    def _updating(
        self, row: Any, content: str | None, metadata: dict[str, Any] | None, pinned: bool | None
    ) -> tuple[Command, list[str]]:
        """Return the command that changes what is not None of a memory, and its new texts."""
        texts = [] if content is None else [self._found_by(row, content)]
        command = self.kind.UPDATE(
            now_us=self._scope.now_us(),
            memory_id=row.memory_id,
            content=content,
            size_bytes=0 if content is None else len(content.encode()),
            digest=text_digest(texts[0]) if texts else b"",
            metadata=metadata,
            pinned=pinned,
        )
        return command, texts if self.kind.NATURE.is_indexed else []

    def _found_by(self, _row: Any, content: str) -> str:
        """Return the text that a memory is found by when it says this."""
        return content

    async def _update(
        self,
        row: Any,
        content: str | None,
        metadata: Metadata | None,
        pinned: bool | None,
        matches: Predicate | None = None,
    ) -> Receipt:
        """Replace what a memory says or its metadata, or pin it, if it `matches` when decided."""
        if pinned is not None:
            self._check_pinnable(row)
            check_flag(pinned, "pinned")
        if content is not None:
            content_bytes(content, self._content_bytes_max)
            content = plain(content)
        if metadata is not None:
            metadata = own_metadata(metadata, shown=row.compressed)
        command, texts = self._updating(row, content, metadata, pinned)
        command = _on_condition(command, row, matches)
        return self._updated(row, await self._write(command, texts))

    def _check_pinnable(self, row: Any) -> None:
        """See that a memory can be pinned: of some kinds, none is pruned."""
        if not hasattr(row, "pinned"):
            raise InvalidInputError(f"{self.kind.NAME} memory cannot be pinned so: none is pruned")

    def _updated(self, row: Any, written: Written) -> Receipt:
        return self._receipt(row.memory_id, "update", written, whose=self._whose(row))

    def _new(self, memory_id: str | None, occurred_at: Time | None = None) -> New:
        """Return the identity of a new memory: its id, the caller's own or a new one."""
        now_us, at_us = self._scope.now_us(), time_us(occurred_at, "occurred_at")
        own_id = check_optional_name(memory_id, "memory_id")
        return New(
            now_us=now_us,
            memory_id=own_id or self._scope.new_id(now_us),
            own_ids=() if own_id is None else (own_id,),
            occurred_at_us=now_us if at_us is None else at_us,
        )

    async def _read_rows(self, rows: Sequence[Row], origins: Provenance) -> list[Memory]:
        found = [Found(self.kind, row) for row in rows]
        return await memories(self._scope.services.log, self._scope.stream, found, origins)

    async def _read_as(self, kind: type[T], rows: Sequence[Row], origins: Provenance) -> list[T]:
        return [as_record(kind, one) for one in await self._read_rows(rows, origins)]

    async def _delete(self, row: Row, matches: Predicate | None = None) -> Receipt:
        command = self.kind.DELETE(now_us=self._scope.now_us(), memory_id=row.memory_id)
        command = _on_condition(command, row, matches)
        written = await self._write(command)
        return self._receipt(row.memory_id, "delete", written, whose=self._whose(row))

    def _restoring(self, memory_ids: Sequence[str]) -> Restore:
        """Return the command that brings memories back."""
        if self.kind.RESTORE is None:
            raise InvalidInputError(f"{self.kind.NAME} memory cannot be restored: it is not kept")
        return self.kind.RESTORE(now_us=self._scope.now_us(), memory_ids=tuple(memory_ids))

    async def _approve(self, held: Recorded[MemoryHeld]) -> Receipt:
        """Add a pending memory, on behalf of the one who had added it."""
        room = DocumentRoom(budget=self._scope.services.settings.context_budget())
        command = approving(held.data, self._scope.on.origins, self._scope.now_us(), room)
        row, events = pending_row(self.kind, held)
        parts = self.kind.passages(row)
        texts = [self.kind.passage_text(row, one.label, events) for one in parts]
        written = await self._write(command, texts)
        about = [getattr(one.data, "memory_id", row.memory_id) for one in written.reply.events]
        # An entity may be there by now, or a fact.
        memory_id = row.memory_id if row.memory_id in about[1:] else about[-1]
        marks = superseding.marks([recorded.data for recorded in written.reply.events])
        receipt = self._receipt(memory_id, "approve", written)
        return msgspec.structs.replace(receipt, **superseding.receipt_fields(memory_id, marks))

    async def _restored(self, command: Restore) -> list[Receipt]:
        written = await self._write(command)
        events = (recorded.data for recorded in written.reply.events)
        came = dict.fromkeys(getattr(event, "memory_id", "") for event in events)
        state = written.reply.state.of(self.kind)
        rows = (self.kind.find(state, memory_id) for memory_id in came)
        return [
            self._receipt(row.memory_id, "restore", written, whose=self._whose(row))
            for row in rows
            if row is not None
        ]

    # --- the way of a command

    async def _write(
        self,
        command: Command,
        texts: Sequence[str] = (),
        *,
        idempotency_key: str | None = None,
        digest: bytes = b"",
    ) -> Written:
        """Carry out a command, and index what it adds: these texts, or those in the log already.

        :raises MemoryLimitError: the process holds too much memory for what does not free any.
        """
        if not command.frees:
            self._scope.services.monitor.admit()
        command = self._by_settings(command)
        started_s = perf_counter()
        kinds, calls = () if command.background else None, max(1, len(texts))
        with self._scope.measured(type(command).__name__, self.kind.NAME, kinds=kinds, calls=calls):
            if texts:
                said = [] if command.waits else list(texts), idempotency_key, digest
                try:
                    reply, unindexed = await self._append_texts(command, *said)
                except EmbeddingNeededError:
                    codes = await self._scope.embeddings.codes({text_digest(t): t for t in texts})
                    command = msgspec.structs.replace(command, codes=codes)
                    reply, unindexed = await self._append_texts(command, *said)
            elif (after := self._after(command)) is not None:
                reply, unindexed = await self._scope.unattended(self._append(command, after))
            else:  # the append is all there is: a caller who leaves can leave nothing half done
                reply, unindexed = await self._append(command)
        evicted, pruned = list[str](), list[str]()
        for recorded in reply.events:
            evicted += getattr(recorded.data, "evicted_ids", ())
            if isinstance(recorded.data, Pruned):
                pruned += recorded.data.memory_ids
        events = (recorded.data for recorded in reply.events)
        pending = frozenset(one.memory_id for one in events if isinstance(one, MemoryHeld))
        at = started_s, unindexed, command.codes, pending
        return Written(reply, tuple(evicted), tuple(pruned), *at)

    def _by_settings(self, command: C, *, extracted: bool = False) -> C:
        """Return a command with the expiry and the wait for a review that the settings ask for.

        :raises InvalidInputError: it changes what is there, and its words need a review.
        """
        rewords = any(getattr(command, name) for name in command.rewords)
        if not (isinstance(command, Add) or rewords) or getattr(command, "approves", None):
            return command
        said: dict[str, Any] = {}
        at_us = self._scope.expires_at_us(self.kind.NAME, command.now_us)
        if isinstance(command, Add) and at_us is not None:
            said["expires_at_us"] = at_us
        until_us = self._held_until_us(command, extracted=extracted)
        if until_us is not None:
            if rewords:
                raise InvalidInputError(
                    f"what is said here needs a review, and only what is added to {self.kind.NAME} "
                    "memory can wait for one: add it as a new memory, and delete the old one"
                )
            said["held_until_us"] = until_us
            if hasattr(command, "auto_prune"):  # what is there does not go for it
                said["auto_prune"] = False
        return msgspec.structs.replace(command, **said) if said else command

    def _held_until_us(self, command: Command, *, extracted: bool) -> int | None:
        """Return the time until which a command's words wait for a review; None: they do not."""
        settings = self._scope.services.settings
        if settings.review is None or not self.kind.NATURE.is_reviewed:
            return None
        trust = least(getattr(command, "origins", self._scope.on.origins))
        named = {
            "all": True, "extracted": extracted, "untrusted": trust is Trust.UNTRUSTED
        }  # fmt: skip
        days = settings.review_days
        return command.now_us + int(days * DAY_US) if named[settings.review] else None

    def lasting(self, ttl_s: float | None) -> Self:
        """Return a handle whose adds expire after some seconds; None: as the settings say.

        :raises InvalidInputError: it is not above 0.
        """
        if ttl_s is None:
            return self
        handle = copy(self)
        vars(handle)["_scope"] = scope = copy(self._scope)
        scope.ttl_s = check_ttl(ttl_s)
        return handle

    def _after(self, command: Command) -> After | None:
        """Return the function that indexes a command without texts, or None if nothing changes."""
        return self._index_from_log if isinstance(command, Restore) else None

    async def _index_from_log(self, live: LiveUser, reply: Reply) -> str | None:
        """Index events by their texts in the log; their vectors are mostly still in the table."""
        await live.indexes.catch_up([self.kind])
        versions = {recorded.version for recorded in reply.events}
        return NO_VECTOR_YET if live.indexes.index_what_lacks(self.kind, versions) else None

    async def _append(
        self, command: Command, after: After | None = None
    ) -> tuple[Reply, str | None]:
        async with self._scope.writable() as live:
            reply = await self._scope.ask(live, command, relaxed=self.kind.NATURE.is_cache)
            return reply, None if after is None else await after(live, reply)

    async def _append_texts(
        self,
        command: Command,
        texts: list[str],
        idempotency_key: str | None,
        digest: bytes,
    ) -> tuple[Reply, str | None]:
        """Embed the texts while the log writes, and index them; say why they are not indexed.

        Once the command is in the mailbox, the write continues even if the caller is cancelled.
        """
        accepted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        async with AsyncExitStack() as entered:
            live = await entered.enter_async_context(self._scope.writable())
            requests = await self._requests(live, texts, background=command.background)
            answer = await self._scope.post(
                live, command, idempotency_key=idempotency_key, digest=digest,
                accepted=partial(settle, accepted, None),
            )  # fmt: skip
            work = self._indexed(entered.pop_all(), live, command, requests, accepted, answer)
            return await self._scope.unattended(work)

    async def _requests(
        self, live: LiveUser, texts: list[str], *, background: bool
    ) -> list[EmbeddingRequest]:
        """Look up the embeddings of texts, so many together that they are indexed together, too."""
        found = list[EmbeddingRequest]()
        for start in range(0, len(texts), EMBEDDED_AT_ONCE):
            if start:  # looking up so many takes some milliseconds
                await asyncio.sleep(0)
            some = {text_digest(text): text for text in texts[start : start + EMBEDDED_AT_ONCE]}
            request = EmbeddingRequest(live.embeddings, some, background=background)
            found.append(request)
        return found

    async def _indexed(
        self,
        entered: AsyncExitStack,
        live: LiveUser,
        command: Command,
        requests: Sequence[EmbeddingRequest],
        accepted: "asyncio.Future[None]",
        answer: "asyncio.Future[Reply]",
    ) -> tuple[Reply, str | None]:
        """Embed the texts of a command that is asked, and index them when the log has them."""
        async with entered:
            try:
                if not accepted.done():  # it has not been decided: others go before it
                    await asyncio.wait((accepted, answer), return_when=asyncio.FIRST_COMPLETED)
                if accepted.done() and requests:  # what is refused is not embedded
                    requests[0].begin()
                reply = await self._scope.answered(live, answer)
            except BaseException as error:
                # After a deadline it may yet be added.
                is_refused = isinstance(error, MemoryActorsError) and not isinstance(
                    error, DeadlineExceededError
                )
                if accepted.done() or not is_refused:
                    live.indexes.index_later(self.kind, live.actor.drain)
                for request in requests:
                    request.cancel()
                raise
            ahead = self._read_ahead(command)
            unindexed = await self._index(live, requests, reply.events)
            if unindexed is None:
                reply = await self._compared(live, reply, ahead)
            return reply, unindexed

    def _read_ahead(self, _command: Command) -> Reach | None:
        """Return the part of `_compared` that needs no vectors.

        Called once the log has answered: earlier, it would keep the loop from handing work to the
        log's and the embedder's threads.
        """
        return None

    async def _compared(self, _live: LiveUser, reply: Reply, _ahead: Reach | None) -> Reply:
        """Return the reply, after a command for other memories that it touches, if there is one."""
        return reply

    async def _index(
        self, live: LiveUser, requests: Sequence[EmbeddingRequest], events: Sequence[Recorded[Any]]
    ) -> str | None:
        """Index the texts as they are embedded; if that fails, leave it for later and say why."""
        lacking = list[EmbedderError]()
        for place, request in enumerate(requests, 1):
            if place < len(requests):  # in turn: the embedder's deadline is that of a few texts
                requests[place].begin()
            embedded, failed = await request.each()  # of all, or what comes later is lost
            found = [(d, EmbeddedText(request.texts[d], one)) for d, one in embedded.items()]
            for start in range(0, len(found), SETTLED_AT_ONCE):
                live.indexes.take(dict(found[start : start + SETTLED_AT_ONCE]))
                if len(found) > SETTLED_AT_ONCE:
                    await asyncio.sleep(0)
            lacking += failed.values()
        if lacking:
            _logger.warning(
                "memory kept, not indexed",
                user=hashed(self._scope.user_id),
                count=len(lacking),
                error=reason(lacking[0]),
            )
            live.indexes.index_later(self.kind, live.actor.drain)
            return str(lacking[0])
        # Another spelling of an entity's name, say, may have led to another text.
        live.indexes.index_what_lacks(self.kind, {event.version for event in events})
        return None

    # --- what comes in and goes out

    def _check_item(self, item: Item, adding: Adding = Adding()) -> None:  # noqa: B008 - a tuple
        """Refuse what means nothing for this kind: dropping it in silence would lose data.

        :raises InvalidInputError: something of the item, or of the way to add it.
        """
        given = [name for name in OPTIONAL if getattr(item, name) != OPTIONAL[name].default]
        given += [name for name in adding._fields[1:] if getattr(adding, name) is not None]
        for name in given:
            if name not in self.takes:
                raise InvalidInputError(f"{self.kind.NAME} memory has no {name}: leave it out")

    def _taken(self, item: Item) -> dict[str, Any]:
        names = {"metadata", "memory_id", *self.takes.intersection(OPTIONAL)}
        return {name: getattr(item, name) for name in names}

    def _receipt(
        self,
        memory_id: str,
        operation: str,
        written: Written,
        *,
        whose: str | None = None,
        quota: int = 0,
    ) -> Receipt:
        """Return a receipt; it is about the quota of this number: the user's, or `whose`."""
        if operation == "add" and written.pruned:
            operation = "add_with_prune"
        if memory_id in written.pending:
            operation = "pending"
        state = written.reply.state
        use = state.quotas(self.kind, self._scope.limits(state), whose)[quota]
        return Receipt(
            memory_id=memory_id,
            operation=operation if written.reply.events else "unchanged",
            memory_type=self.kind.NAME,
            latency_ms=(perf_counter() - written.started_s) * 1e3,
            quota_remaining=max(0, use.limit - use.used),
            evicted=written.evicted,
            pruned=written.pruned,
            indexed=written.unindexed is None,
            unindexed_reason=written.unindexed,
        )

    def _receipt_of_put(
        self, memory_id: str, was: Row | None, row: Row | None, written: Written, quota: int = 0
    ) -> Receipt:
        """Return the receipt of a new memory, or of the one that was there and says the same."""
        operation = "add" if was is None else "update"
        if row is not None and memory_id not in written.pending:
            memory_id = row.memory_id
        return self._receipt(memory_id, operation, written, quota=quota)

    def _whose(self, _row: Any) -> str | None:
        """Return the session or agent whose quota a row counts for; None: the user's."""
        return None


def _on_condition(command: C, row: Row, matches: Predicate | None) -> C:
    if matches is None:
        return command
    return msgspec.structs.replace(command, condition=Condition(row.memory_id, matches))
