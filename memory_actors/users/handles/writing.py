"""The way of a command of a handle into the log, and of its texts into the indexes.

Texts are embedded while the log writes, so an add takes the longer of the two and not both. It is
answered when it is durable and searchable. If the embedder fails, the memory is kept all the same,
the receipt says `indexed=False` and why, and it is indexed when the embedder works again.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from contextvars import copy_context
from copy import copy
from time import perf_counter
from typing import ClassVar, Self, TypeVar

import msgspec

from eventlog.core.logs import get_logger
from eventlog.core.records import DAY_US, AnyRecorded
from memory_actors.actors.asking import Reply
from memory_actors.base.errors import (
    DeadlineExceededError,
    EmbedderError,
    EmbeddingNeededError,
    InvalidInputError,
    MemoryActorsError,
)
from memory_actors.base.privacy import hashed, reason
from memory_actors.base.records import Trust, least
from memory_actors.base.validation import check_ttl
from memory_actors.kinds.commands import Add, Command, Restore
from memory_actors.kinds.effects import Pruned
from memory_actors.kinds.kind import Kind
from memory_actors.kinds.long_term import MemorySuperseded
from memory_actors.kinds.passages import text_digest
from memory_actors.kinds.review import MemoryHeld
from memory_actors.search.embedding.embeddings import EmbeddingRequest
from memory_actors.search.indexes.pending import EmbeddedText
from memory_actors.search.superseding import Reach
from memory_actors.users.handles.redacting import Redacting
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

C = TypeVar("C", bound=Command)


class Written:
    """The outcome of a command."""

    def __init__(
        self,
        reply: Reply,
        started_s: float,
        unindexed: str | None,
        codes: Mapping[bytes, bytes] | None,
    ):
        self.reply = reply
        self.started_s = started_s
        self.unindexed = unindexed
        """Why it is not indexed yet; None: it is, or there is nothing to index."""
        self.codes = codes
        """The embeddings that were compared with what was forgotten."""
        self.events = [recorded.data for recorded in reply.events]
        self.evicted: tuple[str, ...] = ()
        self.pruned: tuple[str, ...] = ()
        self.pending = set[str]()
        """The memories that wait for a review."""
        self.marks = [event for event in self.events if isinstance(event, MemorySuperseded)]
        """The events about facts that hold no more: few, of as many as a batch has."""
        for event in self.events:
            self.evicted += getattr(event, "evicted_ids", ())
            if isinstance(event, Pruned):
                self.pruned += event.memory_ids
            elif isinstance(event, MemoryHeld):
                self.pending.add(event.memory_id)


class Writing(Redacting):
    """Carries out the commands of a handle."""

    kind: ClassVar[Kind]

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
        return Written(reply, started_s, unindexed, command.codes)

    def _by_settings(self, command: C, *, extracted: bool = False) -> C:
        """Return a command with the expiry and the wait for a review that the settings ask for.

        :raises InvalidInputError: it changes what is there, and its words need a review.
        """
        rewords = any(getattr(command, name) for name in command.rewords)
        if not (isinstance(command, Add) or rewords) or getattr(command, "approves", None):
            return command
        said: dict[str, object] = {}
        at_us = self._scope.expires_at_us(self.kind.NAME, command.now_us)
        if isinstance(command, Add) and at_us is not None:
            said["expires_at_us"] = at_us
        until_us = self._held_until_us(command, extracted=extracted)
        if until_us is not None:
            if rewords:
                raise InvalidInputError(
                    f"this text needs a review, and in {self.kind.NAME} memory only new memories "
                    "can wait for one: add it as a new memory, and delete the old one"
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
        accepted, here = asyncio.Event(), copy_context()
        async with AsyncExitStack() as entered:
            live = await entered.enter_async_context(self._scope.writable())
            requests = list[EmbeddingRequest]()
            for start in range(0, len(texts), EMBEDDED_AT_ONCE):
                if start:  # looking up so many takes some milliseconds
                    await asyncio.sleep(0)
                some = {text_digest(text): text for text in texts[start : start + EMBEDDED_AT_ONCE]}
                request = EmbeddingRequest(live.embeddings, some, background=command.background)
                requests.append(request)

            def accept() -> None:  # what is refused is not embedded
                accepted.set()
                if requests:
                    here.run(requests[0].begin)

            answer = await self._scope.post(
                live, command, idempotency_key=idempotency_key, digest=digest, accepted=accept
            )
            work = self._indexed(entered.pop_all(), live, command, requests, accepted, answer)
            return await self._scope.unattended(work)

    async def _indexed(
        self,
        entered: AsyncExitStack,
        live: LiveUser,
        command: Command,
        requests: Sequence[EmbeddingRequest],
        accepted: asyncio.Event,
        answer: "asyncio.Future[Reply]",
    ) -> tuple[Reply, str | None]:
        """Embed the texts of a command that is asked, and index them when the log has them."""
        async with entered:
            try:
                reply = await self._scope.answered(live, answer)
            except BaseException as error:
                # After a deadline it may yet be added.
                is_refused = isinstance(error, MemoryActorsError) and not isinstance(
                    error, DeadlineExceededError
                )
                if accepted.is_set() or not is_refused:
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
        self, live: LiveUser, requests: Sequence[EmbeddingRequest], events: Sequence[AnyRecorded]
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
