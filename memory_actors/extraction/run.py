"""`user.extract(...)`: new messages are read, and what an extractor proposes is carried out.

An extraction reads batch by batch; each is one command, so it is whole or not at all, and an
extraction that breaks off is continued by the next one. Each user has at most one extraction at a
time: two would read the same messages twice, and pay twice.
"""

import asyncio
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import msgspec
from anyio import to_thread

from eventlog import Recorded
from eventlog.core.records import to_datetime
from memory_actors.base.errors import (
    ExtractorError,
    InvalidInputError,
    MemoryActorsError,
    UnusableProposalsError,
)
from memory_actors.base.origins import Origins
from memory_actors.base.records import Item, Metadata
from memory_actors.base.reports import Extraction
from memory_actors.base.validation import (
    check_count,
    check_flag,
    check_names,
    check_optional_name,
    own_metadata,
)
from memory_actors.extraction.batches import (
    MessageBatch,
    MessageShown,
    new_batches,
    read_before,
    shown,
)
from memory_actors.extraction.proposals import checked, proposed
from memory_actors.extraction.protocol import Extractor, Proposal, Spoken
from memory_actors.extraction.recorded import read_and_found, told
from memory_actors.kinds.extracting import Extract, Proposed
from memory_actors.kinds.long_term import AddMemories, MemoryAdded
from memory_actors.kinds.provenance import Extracted, together
from memory_actors.users.handles.long_term import LongTermMemory
from memory_actors.users.handles.scope import Scope
from memory_actors.users.live_user import LiveUser

BATCHES_MAX: Final = 10
"""The default limit of one call: up to 200 messages, and as many requests to a model."""
PROPOSALS_MAX: Final = 100
"""Of one batch: five a message; more is nonsense."""
ANSWERED_WITHIN_S: Final = 600.0
"""Longer than a language model may take with all its attempts."""


class ExtractRequest(NamedTuple):
    """The messages that a call reads, and what marks the facts it finds: `UserMemory.extract`."""

    session_id: str | None = None
    message_ids: Sequence[str] | None = None
    metadata: Metadata | None = None
    within: Metadata | None = None
    batches_max: int = BATCHES_MAX
    dry_run: bool = False

    def checked(self, scope: Scope) -> "ExtractRequest":
        """Validate the request; the session defaults to that of the handle.

        :raises InvalidInputError: an argument is invalid.
        """
        session_id, ids = check_optional_name(self.session_id, "session_id"), self.message_ids
        check_count(self.batches_max, "batches_max")
        check_flag(self.dry_run, "dry_run")
        if ids is None:
            session_id = session_id or scope.on.session_id
        elif session_id is not None:
            raise InvalidInputError("name a session to read, or messages, but not both")
        else:
            ids = check_names(ids, "message_ids")
        within = own_metadata(self.within)
        metadata = own_metadata({**own_metadata(self.metadata), **within})
        return self._replace(
            session_id=session_id, message_ids=ids, metadata=metadata, within=within
        )


async def extract(scope: Scope, facts: LongTermMemory, asked: ExtractRequest) -> Extraction:
    """Read new messages, and do what the extractor proposes. See `UserMemory.extract`."""
    scope.check_writable()
    scope.services.runtime.check_open()
    extractor = scope.services.extractor
    asked = asked.checked(scope)
    if extractor is None:
        raise InvalidInputError(
            "this store has no extractor: open it with extractor=, a function or a "
            "name such as 'ollama:MODEL'; the command line takes one from MEMORY_ACTORS_EXTRACTOR"
        )
    run = _Run(scope, facts, extractor, asked)
    with scope.measured("Extract", "any", kinds=()):
        async with scope.services.turn("extract", scope.stream):
            return await run.extract()


class _Run:
    """One extraction."""

    def __init__(
        self, scope: Scope, facts: LongTermMemory, extractor: Extractor, asked: ExtractRequest
    ):
        self._scope = scope
        self._facts = facts
        self._extractor = extractor
        self._asked = asked
        self._now_us = scope.now_us()
        # Not of the scope: the answer to a call that is asked again comes from its events.
        self._new_id = scope.services.new_id
        self._id = f"ext_{self._new_id(self._now_us).removeprefix('mem_')}"
        self._recorded = list[Recorded[Extracted]]()
        self._tried: list[Extracted] = []
        self._texts: dict[str, str] = {}

    async def extract(self) -> Extraction:
        """Read up to so many batches as are asked for."""
        asked, read = self._asked, await read_before(self._scope)
        state = (await self._scope.state()).at(self._now_us)
        # In a thread: there may be 10,000 turns in long-term memory.
        found = await to_thread.run_sync(
            new_batches, state, read, asked.session_id, asked.message_ids
        )
        pending = deque(found)
        for _ in range(asked.batches_max):
            if pending:
                pending.extendleft(reversed(await self._extract(pending.popleft())))
        left = sum(len(batch.messages) for batch in pending)
        if self._recorded:
            done = await told(self._scope, self._recorded)
            return msgspec.structs.replace(done, messages_left=left)
        return Extraction(
            user_id=self._scope.user_id, extraction_id=None, extractor=self._extractor.name,
            dry_run=asked.dry_run, at=to_datetime(self._now_us), messages_left=left,
            **read_and_found(self._tried, self._texts),
        )  # fmt: skip

    async def _extract(self, batch: MessageBatch) -> list[MessageBatch]:
        """Read a batch; return what is still to be read of it."""
        async with self._scope.searching() as live:
            seen = await shown(self._scope, live, batch, self._asked.within or {})
            origins = together(live.state.provenance, batch.message_ids)
        proposals: Sequence[Proposal] | str
        try:
            proposals = await self._proposals(seen)
        except UnusableProposalsError as error:
            if len(batch.messages) > 1:
                return batch.halves()
            proposals = str(error)
        command = self._command(batch, seen, proposals, origins)
        self._texts |= {one.memory_id: one.content for one in command.add.memories}
        self._texts |= {one.memory_id: one.text for one in seen.conversation.facts}
        async with self._scope.writable() as live:
            if self._asked.dry_run:
                decided = await live.actor.dry_run(command)
                self._tried += [event for event in decided if isinstance(event, Extracted)]
                return []
            await self._check_unchanged(live, batch, origins)
            events = await self._facts._extracted(command)  # noqa: SLF001 - as handles are called
        (done,) = (one for one in events if isinstance(one.data, Extracted))
        self._recorded.append(done)
        # A call that is asked again may have been answered with an earlier batch.
        return [] if done.data.message_ids == batch.message_ids else [batch]

    async def _check_unchanged(self, live: LiveUser, batch: MessageBatch, origins: Origins) -> None:
        """Refuse to remember what was erased, or purged, while the extractor was asked.

        :raises ExtractorError: it was.
        """
        head = await self._scope.services.log.head(live.stream)
        erased = any(one.row.version <= head.erased_version for one in batch.messages)
        if erased or together(live.state.provenance, batch.message_ids) != origins:
            raise ExtractorError(
                "the messages were erased, purged or pushed out while they were read: nothing of "
                "them is remembered; extract again"
            )

    async def _proposals(self, seen: MessageShown) -> Sequence[Proposal]:
        """Return the extractor's proposals.

        :raises ExtractorError: the extractor timed out, or its answer is no list of proposals.
        """
        name = self._extractor.name
        try:
            async with asyncio.timeout(ANSWERED_WITHIN_S):
                said = await self._extractor.extract(seen.conversation)
        except MemoryActorsError:
            raise
        except Exception as error:
            raise ExtractorError(
                f"extractor {name} failed with {type(error).__name__}: see its cause; the messages "
                "are new still"
            ) from error
        if not isinstance(said, Sequence) or not all(isinstance(one, Proposal) for one in said):
            raise ExtractorError(f"extractor {name} returned no list of Proposals: mend it")
        if len(said) > PROPOSALS_MAX:
            raise UnusableProposalsError(
                f"extractor {name} made {len(said):,} proposals of a few messages (max: "
                f"{PROPOSALS_MAX}): that is nonsense, and none was carried out"
            )
        return await self._scope.masked(said)

    def _command(
        self,
        batch: MessageBatch,
        seen: MessageShown,
        proposals: Sequence[Proposal] | str,
        origins: Origins,
    ) -> Extract:
        """Return a command that applies the proposals, or records why there are none."""
        now_us = self._scope.now_us()
        said = {one.memory_id: one for one in seen.conversation.messages}
        memories: list[MemoryAdded] = []
        results = []
        if isinstance(proposals, str):
            ids = batch.message_ids
            results = [Proposed(action="read", message_ids=ids, refused=proposals)]
            proposals = ()
        for each in proposals:
            one, why = checked(each, seen, said)
            new = None
            if not why and one.action != "forget":
                new = self._fact(one, said, now_us)
                memories.append(new)
            results.append(proposed(one, new, seen, why))
        return Extract(
            now_us=now_us,
            extraction_id=self._id,
            extractor=self._extractor.name,
            message_ids=batch.message_ids,
            add=AddMemories(  # without leave to prune: undoing it would not bring that back
                now_us=now_us,
                memories=tuple(memories),
                origins=origins,
            ),
            within=self._asked.within or {},
            proposed=tuple(results),
        )

    def _fact(self, one: Proposal, said: Mapping[str, Spoken], now_us: int) -> MemoryAdded:
        """Return the fact that a proposal is about, true since the last of its messages."""
        times = [said[each].said_at for each in one.message_ids or said]
        item = Item(
            content=str(one.text),
            occurred_at=one.occurred_at or max(times),
            memory_id=self._new_id(now_us),
            metadata=self._asked.metadata,
        )
        return self._facts._fact(item, now_us)  # noqa: SLF001
