"""Episodes as callers have them, checked, and their parts as events have them."""

from datetime import datetime

import msgspec

from memory_actors.base.errors import InvalidInputError
from memory_actors.base.records import Episode
from memory_actors.base.validation import (
    CONTENT_BYTES_MAX,
    check_name,
    check_optional_name,
    content_bytes,
    own_metadata,
    plain,
    text_bytes,
    time_us,
)
from memory_actors.kinds.episodic.events import (
    EpisodeFinished,
    EpisodeRestored,
    StepAdded,
    StepMarker,
    StepTexts,
)
from memory_actors.kinds.episodic.state import MARKERS_MAX
from memory_actors.kinds.phrasing import text_digest


def checked_episode(given: Episode) -> Episode:
    """Return an episode whose parts are what they must be, its texts exact strings.

    :raises InvalidInputError: it is no `Episode`, a part of it is not what it must be, or it is a
        summary of some.
    """
    if not isinstance(given, Episode):
        raise InvalidInputError(f"give an Episode, as `episodes.get` returns, not {given!r:.80}")
    given = msgspec.structs.replace(given, metadata=own_metadata(given.metadata, shown=True))
    try:
        parts = msgspec.to_builtins(given, builtin_types=(datetime,), enc_hook=plain)
        given = msgspec.convert(parts, Episode)
    except (TypeError, RecursionError, msgspec.ValidationError) as error:
        raise InvalidInputError(f"{given.memory_id!r:.80} is no Episode: {error}") from error
    if given.original_count:
        raise InvalidInputError(
            f"{given.memory_id!r} is a summary of {given.original_count} episodes: give "
            "`put_summary` the memory that `get` returns"
        )
    _check_numbers(given)
    return given


def checked_texts(texts: StepTexts) -> StepTexts:
    """Return the texts of a step as exact strings; one that is empty is none.

    :raises InvalidInputError: one of them is no text, or they are too long together.
    """
    for name, said in texts._asdict().items():
        if said or name == "action":
            text_bytes(said, name, CONTENT_BYTES_MAX)
    exact = StepTexts(plain(texts.action), *(plain(one) if one else None for one in texts[1:]))
    text_bytes(exact.line, "step", CONTENT_BYTES_MAX)
    return exact


def steps_of(given: Episode) -> tuple[StepAdded, ...]:
    """Return the events of the steps that an episode has kept."""
    return tuple(
        checked_texts(StepTexts.of(one)).added(given.memory_id, one.number) for one in given.steps
    )


def restored(given: Episode, now_us: int, session_id: str | None) -> EpisodeRestored:
    """Return the event by which an episode comes from elsewhere; `session_id` if it has none.

    :raises InvalidInputError: a name is none, or a digest is not hexadecimal.
    """
    occurred_at_us = time_us(given.occurred_at, "occurred_at")
    return EpisodeRestored(
        memory_id=check_name(given.memory_id, "memory_id"),
        agent_id=check_name(given.agent_id, "agent_id"),
        goal=given.goal,
        size_bytes=content_bytes(given.goal),
        digest=text_digest(given.goal),
        occurred_at_us=now_us if occurred_at_us is None else occurred_at_us,
        metadata=given.metadata,
        session_id=check_optional_name(given.session_id, "session_id") or session_id,
        pinned=given.pinned,
        created_at_us=now_us,
        evicted=tuple(
            StepMarker(gone.number, _sha256(gone.sha256), gone.snippet)
            for gone in given.evicted[-MARKERS_MAX:]
        ),
        steps_evicted=given.steps_evicted,
    )


def _sha256(said: str) -> bytes:
    try:
        return bytes.fromhex(said)
    except ValueError as error:
        raise InvalidInputError(f"sha256 {said!r:.80} is not hexadecimal") from error


def end_of(given: Episode) -> EpisodeFinished | None:
    """Return the event that an episode ended with, None while it runs.

    :raises InvalidInputError: it runs and has a result.
    """
    if given.status == "running":
        if given.result is not None:
            raise InvalidInputError("a running episode has no result: say how it ended")
        return None
    size_bytes = 0 if given.result is None else content_bytes(given.result)
    return finished(given.memory_id, given.result, size_bytes, failed=given.status == "failed")


def finished(
    memory_id: str, result: str | None, size_bytes: int, *, failed: bool
) -> EpisodeFinished:
    """Return the event by which an episode ends."""
    digest = b"" if result is None else text_digest(result)
    return EpisodeFinished(
        memory_id=memory_id, failed=failed, result=result, size_bytes=size_bytes, digest=digest
    )


def _check_numbers(given: Episode) -> None:
    """Check that each number is used once, and that those missing between them were evicted."""
    kept = [step.number for step in given.steps]
    gone = [marker.number for marker in given.evicted]
    total = len(kept) + given.steps_evicted
    used = {*kept, *gone}
    if (
        kept != sorted(kept)
        or len(used) != len(kept) + len(gone)
        or len(gone) > given.steps_evicted
        or any(not 0 < number <= total for number in used)
        or (total and (not kept or kept[-1] != total))
    ):
        raise InvalidInputError(
            f"the numbers of the steps, {len(kept)} kept and {given.steps_evicted} evicted, do not "
            f"add up: each from 1 to {total} once, in order, and the last one kept"
        )
