"""`user.extract(...)`: new messages are read, and what an extractor proposes is carried out.

Each batch is one command, so it is whole or not at all. Each user has at most one extraction at a
time: two would read the same messages twice, and pay twice.
"""

import asyncio
from collections import deque
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple, get_args

import msgspec
from anyio import to_thread

from eventlog import Recorded
from eventlog.core.records import to_datetime
from memory_actors.base import errors, validation
from memory_actors.base.origins import Origins
from memory_actors.base.records import Item, Metadata
from memory_actors.base.reports import Extraction, ProposedFact, Undone
from memory_actors.base.validation import check_count, check_name
from memory_actors.extraction.batches import (
    MessageBatch,
    MessageShown,
    new_batches,
    read_before,
    shown,
)
from memory_actors.extraction.protocol import Action, Extractor, Proposal, Spoken
from memory_actors.kinds.extracting import Extract, Proposed, Target, UndoExtraction
from memory_actors.kinds.long_term import AddMemories, MemoryAdded
from memory_actors.kinds.provenance import EXTRACTIONS, Extracted, ExtractionUndone, together
from memory_actors.search.reading import events_about
from memory_actors.users.handles.long_term import LongTermMemory
from memory_actors.users.handles.scope import Scope
from memory_actors.users.live_user import LiveUser

FACT_CHARACTERS_MAX: Final = 2_000
"""A fact is a sentence: what is longer is no fact."""
REASON_CHARACTERS_MAX: Final = 200


def checked(
    said: Proposal, seen: MessageShown, spoken: Mapping[str, Spoken]
) -> tuple[Proposal, str]:
    """Return a proposal, and why it is not carried out; "" if it may be.

    One whose fields are not what they must be comes back as one that says nothing.
    """
    try:
        one = _well_formed(said)
    except errors.InvalidInputError as error:
        action = next((one for one in get_args(Action) if one == said.action), "unknown")
        return msgspec.structs.replace(Proposal(), action=action), str(error)
    return one, _refused(one, seen, spoken)


def _well_formed(said: Proposal) -> Proposal:
    """Return a proposal with fields of its types, or raise `InvalidInputError`."""
    if said.action not in get_args(Action):
        raise errors.InvalidInputError(f"there is no such action: {said.action!r:.80}")
    if not isinstance(said.message_ids, list | tuple):
        raise errors.InvalidInputError("message_ids must be a list of ids")
    if not isinstance(said.occurred_at, datetime | None):
        raise errors.InvalidInputError("occurred_at must be a datetime")
    validation.time_us(said.occurred_at, "occurred_at")
    check = validation.check_text
    return msgspec.structs.replace(
        said,
        action=check(said.action, "action"),
        text=None if said.text is None else check(said.text, "text"),
        replaces=None if said.replaces is None else check(said.replaces, "replaces"),
        message_ids=tuple(check(one, "message_ids") for one in said.message_ids),
        reason=check(said.reason, "reason"),
    )


def _refused(one: Proposal, seen: MessageShown, said: Mapping[str, Spoken]) -> str:
    if not set(one.message_ids) <= said.keys():
        return "it names a message that is not among those that were read"
    if one.action != "add" and one.replaces not in seen.digests:
        known = one.replaces in {fact.memory_id for fact in seen.conversation.facts}
        return "that fact is more trusted than the messages" if known else "it names no known fact"
    if one.action == "forget":
        return ""
    if one.text is None or len(one.text) > FACT_CHARACTERS_MAX:
        return f"a fact needs a text of at most {FACT_CHARACTERS_MAX:,} characters"
    try:
        validation.content_bytes(one.text)
    except errors.InvalidInputError as error:
        return str(error)
    return ""


def proposed(one: Proposal, new: MemoryAdded | None, seen: MessageShown, why: str) -> Proposed:
    """Return the log's record of a proposal: its outcome, or `why` it was refused."""
    target = None
    if not why and one.action != "add" and one.replaces is not None:
        target = Target(memory_id=one.replaces, digest=seen.digests[one.replaces])
    shown_ids = [each.memory_id for each in seen.conversation.messages]
    named = [each for each in shown_ids if not one.message_ids or each in one.message_ids]
    return Proposed(
        action=one.action,
        memory_id=None if new is None else new.memory_id,
        target=target,
        message_ids=tuple(named),
        reason=one.reason[:REASON_CHARACTERS_MAX],
        refused=why[:REASON_CHARACTERS_MAX],
    )


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
        """Validate the request; the session defaults to that of the handle."""
        session_id = validation.check_optional_name(self.session_id, "session_id")
        ids = self.message_ids
        validation.check_count(self.batches_max, "batches_max")
        validation.check_flag(self.dry_run, "dry_run")
        if ids is None:
            session_id = session_id or scope.on.session_id
        elif session_id is not None:
            raise errors.InvalidInputError("name a session to read, or messages, but not both")
        else:
            ids = validation.check_names(ids, "message_ids")
        within = validation.own_metadata(self.within)
        metadata = validation.own_metadata({**validation.own_metadata(self.metadata), **within})
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
        raise errors.InvalidInputError(
            "this store has no extractor: open it with extractor=, a function or a "
            "name such as 'ollama:MODEL'; the command line takes one from MEMORY_ACTORS_EXTRACTOR"
        )
    run = _ExtractionRun(scope, facts, extractor, asked)
    with scope.measured("Extract", "any", kinds=()):
        async with scope.services.turn("extract", scope.stream):
            return await run.extract()


class _ExtractionRun:
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
        except errors.UnusableProposalsError as error:
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
        """Refuse to remember what was erased, or purged, while the extractor was asked."""
        head = await self._scope.services.log.head(live.stream)
        erased = any(one.row.version <= head.erased_version for one in batch.messages)
        if erased or together(live.state.provenance, batch.message_ids) != origins:
            raise errors.ExtractorError(
                "the messages were erased, purged or pushed out while they were read: nothing of "
                "them is remembered; extract again"
            )

    async def _proposals(self, seen: MessageShown) -> Sequence[Proposal]:
        name = self._extractor.name
        try:
            async with asyncio.timeout(ANSWERED_WITHIN_S):
                said = await self._extractor.extract(seen.conversation)
        except errors.MemoryActorsError:
            raise
        except Exception as error:
            raise errors.ExtractorError(
                f"extractor {name} failed with {type(error).__name__}: see its cause; the messages "
                "are new still"
            ) from error
        if not isinstance(said, Sequence) or not all(isinstance(one, Proposal) for one in said):
            raise errors.ExtractorError(f"extractor {name} returned no list of Proposals: mend it")
        if len(said) > PROPOSALS_MAX:
            raise errors.UnusableProposalsError(
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
        times = [said[each].said_at for each in one.message_ids or said]
        item = Item(
            content=str(one.text),
            occurred_at=one.occurred_at or max(times),
            memory_id=self._new_id(now_us),
            metadata=self._asked.metadata,
        )
        return self._facts._fact(item, now_us)  # noqa: SLF001


# --- extractions in the log


async def undo(scope: Scope, facts: LongTermMemory, extraction_id: str) -> Undone:
    """Take back what an extraction has done. See `UserMemory.undo`."""
    scope.check_writable()
    check_name(extraction_id, "extraction_id")
    command = UndoExtraction(now_us=scope.now_us(), extraction_id=extraction_id)
    with scope.measured("UndoExtraction", "any", kinds=()):
        events = await facts._extracted(command)  # noqa: SLF001 - as handles are called
    undone = (one.data for one in events if isinstance(one.data, ExtractionUndone))
    said = next(undone, ExtractionUndone(extraction_id=extraction_id))
    return Undone(user_id=scope.user_id, **msgspec.structs.asdict(said))


async def extractions(scope: Scope, limit: int) -> list[Extraction]:
    """Return the extractions of a user, the newest first. See `UserMemory.extractions`."""
    check_count(limit, "limit")
    found = dict[str, list[Any]]()
    for recorded in await scope.events_about(EXTRACTIONS):
        if isinstance(recorded.data, Extracted):
            found.setdefault(recorded.data.extraction_id, []).append(recorded)
    return [
        await told(scope, done) for done in reversed([*found.values()][-limit:] if limit else [])
    ]


async def told(scope: Scope, done: Sequence[Recorded[Extracted]]) -> Extraction:
    """Return an extraction as its batches in the log tell it."""
    first = done[0]
    outcomes = [one for each in done for one in each.data.outcomes]
    ids = {one.memory_id for one in outcomes if one.memory_id is not None}
    about = await events_about(scope.services.log, scope.stream, sorted(ids))
    texts: dict[str, str | None] = {}  # as they were then; None: retention has dropped one
    for one, events in about.items():
        before = [event.data for event in events if event.version <= done[-1].version]
        said = (getattr(event, "content", None) for event in reversed(before))
        texts[one] = next((text for text in said if text is not None), None)
    last = (await scope.events_about(first.data.extraction_id))[-1]
    return Extraction(
        user_id=scope.user_id,
        extraction_id=first.data.extraction_id,
        extractor=first.data.extractor,
        dry_run=False,
        at=first.recorded_at,
        messages_left=0,
        undone_at=last.recorded_at if isinstance(last.data, ExtractionUndone) else None,
        **read_and_found([one.data for one in done], texts),
    )


def read_and_found(done: Sequence[Extracted], texts: Mapping[str, str | None]) -> dict[str, Any]:
    """Return the messages that batches have read, and what became of each proposal."""
    facts = []
    for outcome in (one for each in done for one in each.outcomes):
        fields = msgspec.structs.asdict(outcome)
        del fields["digest"]
        facts.append(ProposedFact(**fields, content=texts.get(outcome.memory_id or "")))
    read = (one for each in done for one in each.message_ids)
    return {"message_ids": tuple(read), "facts": tuple(facts)}
