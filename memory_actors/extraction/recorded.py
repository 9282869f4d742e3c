"""The extractions that the log has: `user.extractions()`, and `user.undo(...)` of one."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from eventlog import Recorded
from memory_actors.base.reports import Extraction, ProposedFact, Undone
from memory_actors.base.validation import check_count, check_name
from memory_actors.kinds.extracting import UndoExtraction
from memory_actors.kinds.provenance import EXTRACTIONS, Extracted, ExtractionUndone
from memory_actors.search.reading import events_about
from memory_actors.users.handles.long_term import LongTermMemory
from memory_actors.users.handles.scope import Scope


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
