"""From the entries of a file to memories: what an import does with each.

What an import has added before it adds no more, also when it was deleted since, or changed and
exported again. What there is already and has no id from this file is joined: an entity by its name
and type (it gets what is new of it, and what the file relates to it), a document and an entry of
working memory by their key (the file's takes their place). An import ends no relationship that is
there: what it says of two entities it says beside what was known.
"""

from collections.abc import Awaitable, Callable, Sequence
from itertools import groupby

import msgspec

from memory_actors.errors import InvalidInputError, NotFoundError, QuotaExceededError
from memory_actors.handles.user import UserMemory
from memory_actors.interchange.parts import (
    DocumentParts,
    EntityParts,
    EpisodeParts,
    RelationshipParts,
    StepParts,
)
from memory_actors.interchange.records import Entry, ImportReport, datetime_of
from memory_actors.records import Episode, Memory, MemoryType, Receipt, Step
from memory_actors.writers.structured import DEFAULT_COLLECTION

_REFUSALS = (InvalidInputError, NotFoundError, QuotaExceededError)


class Adder:
    """Adds the entries of one file to one user's memory, in their order, and counts them."""

    def __init__(self, user: UserMemory):
        self._user = user
        self._entity_ids: dict[str, str] = {}
        """What the ids of entities in the file are here. Bounded by the quota of entities."""
        self._added = self._unchanged = self._unindexed = 0

    async def add(self, entries: Sequence[Entry]) -> None:
        """Add entries, up to the first that is refused.

        :raises InvalidInputError: one can never be added; the message names its place.
        :raises NotFoundError: a relationship of an entity that is not there.
        :raises QuotaExceededError: no room for one.
        """
        for kind, run in groupby(entries, key=lambda entry: entry.kind):
            if kind is MemoryType.LONG_TERM:
                await self._add_together(list(run))
            else:
                for entry in run:
                    await self._add_one(entry, _HOW[type(entry.parts)])

    def report(self) -> ImportReport:
        """Return what came of all that was added so far."""
        return ImportReport(
            users=[self._user.user_id],
            added=self._added,
            unchanged=self._unchanged,
            unindexed=self._unindexed,
        )

    # --- how it is carried out

    async def _add_together(self, entries: Sequence[Entry]) -> None:
        """Add facts in one commit; if it is refused, line by line, up to the one at fault."""
        try:
            receipts = await self._user.add_many([entry.item for entry in entries])
        except (InvalidInputError, QuotaExceededError):
            for entry in entries:
                await self._add_one(entry, Adder._add_fact)
        else:
            for receipt in receipts:
                self._count(receipt)

    async def _add_one(
        self, entry: Entry, how: "Callable[[Adder, Entry], Awaitable[Receipt | None]]"
    ) -> None:
        try:
            self._count(await how(self, entry))
        except _REFUSALS as error:
            if isinstance(error, InvalidInputError) and await self._was_added(entry):
                self._count(None)
                return
            error.args = (f"{entry.place}: {error}",)
            raise

    def _count(self, receipt: Receipt | None) -> None:
        """Count what came of an entry; None if there was nothing to do."""
        same = receipt is None or receipt.operation == "unchanged"
        self._unchanged += same
        self._added += not same
        self._unindexed += not same and receipt is not None and not receipt.indexed

    # --- what was there before

    async def _was_added(self, entry: Entry) -> bool:
        """Say whether this very memory is there, or was: its content may have changed since."""
        memory = await self._living(entry.memory_id)
        if memory is None:
            return await self._has_gone(entry.memory_id)
        parts = entry.parts
        content = parts.goal if isinstance(parts, EpisodeParts) else entry.item.content
        held = memory.data["goal"] if memory.memory_type == "episodic" else memory.content
        return bool(memory.memory_type == entry.kind and held == content)

    async def _living(self, memory_id: str) -> Memory | None:
        try:
            return await self._user.get(memory_id)
        except NotFoundError:
            return None

    async def _has_gone(self, memory_id: str) -> bool:
        """Say whether an id was used, and its memory lives no more."""
        if await self._living(memory_id) is not None:
            return False
        try:
            return bool(await self._user.history(memory_id))
        except NotFoundError:
            return False

    # --- one entry

    async def _add_fact(self, entry: Entry) -> Receipt:
        (receipt,) = await self._user.add_many([entry.item])
        return receipt

    async def _add_text(self, entry: Entry) -> Receipt | None:
        """Add what is given as a text. A working key that is there already keeps its id."""
        item = entry.item
        if entry.value is not msgspec.UNSET:
            return await self._user.working.set(
                item.key or entry.memory_id,
                entry.value,
                metadata=item.metadata,
                memory_id=item.memory_id,
            )
        if entry.kind is MemoryType.STRUCTURED and await self._has_gone(entry.memory_id):
            return None
        receipt = await self._user.add(
            memory_type=entry.kind, **msgspec.structs.asdict(item)
        )
        if entry.kind is MemoryType.ENTITY:
            self._entity_ids[entry.memory_id] = receipt.memory_id
        return receipt

    async def _add_entity(self, entry: Entry) -> Receipt:
        item, parts = entry.item, entry.parts
        assert isinstance(parts, EntityParts)
        receipt = await self._user.entities.add_entity(
            parts.name,
            parts.type,
            parts.observations,
            metadata=item.metadata,
            occurred_at=item.occurred_at,
            memory_id=item.memory_id,
            pinned=item.pinned,
        )
        self._entity_ids[entry.memory_id] = receipt.memory_id
        return receipt

    async def _relate(self, entry: Entry) -> Receipt | None:
        item, parts = entry.item, entry.parts
        assert isinstance(parts, RelationshipParts)
        ends = (parts.source_id, parts.source), (parts.target_id, parts.target)
        source, target = [await self._end(*end) for end in ends]
        if source is None or target is None:
            return None
        return await self._user.entities.relate(
            source,
            parts.relation,
            target,
            fact=parts.fact,
            valid_from=datetime_of(parts.valid_from, "valid_from") or item.occurred_at,
            valid_to=datetime_of(parts.valid_to, "valid_to"),
            exclusive=False,  # the ends that a line has are those it had where it comes from
            metadata=item.metadata,
            memory_id=item.memory_id,
            pinned=item.pinned,
        )

    async def _end(self, entity_id: str | None, name: str | None) -> str | None:
        """Return the id of an entity that a line names; None if it was there and has gone.

        :raises NotFoundError: it was never there.
        """
        known = self._entity_ids.get(entity_id or "")
        for entity_ref in (known, entity_id, name):
            if entity_ref is None:
                continue
            try:
                return (await self._user.entities.get(entity_ref)).memory_id
            except NotFoundError:
                continue
        if entity_id is not None and await self._has_gone(entity_id):
            return None
        raise NotFoundError(
            f"it relates an entity {name or entity_id!r} that is not there: a line with the entity "
            "must come before it"
        )

    async def _put_document(self, entry: Entry) -> Receipt | None:
        item, parts = entry.item, entry.parts
        assert isinstance(parts, DocumentParts)
        if await self._has_gone(entry.memory_id):
            return None
        return await self._user.documents.put(
            parts.collection or DEFAULT_COLLECTION,
            parts.value,
            key=parts.key,
            metadata=item.metadata,
            occurred_at=item.occurred_at,
            memory_id=item.memory_id,
            pinned=item.pinned,
        )

    # --- an episode: several writes, so an import may have been cut off between them

    async def _add_episode(self, entry: Entry) -> Receipt | None:
        item, parts = entry.item, entry.parts
        assert isinstance(parts, EpisodeParts)
        receipt = await self._user.episodes.start(
            parts.goal,
            agent_id=parts.agent_id,
            session_id=item.session_id,
            metadata=item.metadata,
            occurred_at=item.occurred_at,
            memory_id=item.memory_id,
            pinned=item.pinned,
        )
        try:
            episode = await self._user.episodes.get(receipt.memory_id)
        except NotFoundError:
            return None
        return await self._go_on(episode, parts, receipt)

    async def _go_on(self, episode: Episode, parts: EpisodeParts, receipt: Receipt) -> Receipt:
        """Add the steps and the end that an episode does not have yet."""
        if episode.status != "running":
            return receipt
        _check_steps(episode, parts)
        last = receipt
        for step in parts.steps[len(episode.steps) + episode.steps_evicted :]:
            last = await self._user.episodes.step(
                episode.memory_id,
                step.action,
                observation=step.observation,
                outcome=step.outcome,
                error=step.error,
            )
        if parts.status != "running":
            last = await self._user.episodes.finish(
                episode.memory_id, parts.result, success=parts.status == "done"
            )
        return last


def _check_steps(episode: Episode, parts: EpisodeParts) -> None:
    """See that the steps an episode has are the first of the file's."""
    for step in episode.steps:
        same = step.number > len(parts.steps) or _same(step, parts.steps[step.number - 1])
        if not same:
            raise InvalidInputError(
                f"episode {episode.memory_id!r} took another way since: give the line another id"
            )


def _same(held: Step, given: StepParts) -> bool:
    fields = ("action", "observation", "outcome", "error")
    return all((getattr(held, name) or None) == (getattr(given, name) or None) for name in fields)


_HOW: dict[type, Callable[[Adder, Entry], Awaitable[Receipt | None]]] = {
    type(None): Adder._add_text,
    EntityParts: Adder._add_entity,
    RelationshipParts: Adder._relate,
    EpisodeParts: Adder._add_episode,
    DocumentParts: Adder._put_document,
}
