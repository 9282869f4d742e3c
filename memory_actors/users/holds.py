"""Legal holds as the log has them: who placed and released each, and when. No user is activated."""

from collections.abc import Sequence

from msgspec.structs import replace

from eventlog import EventStore, KeyGone
from memory_actors.base.errors import HeldError
from memory_actors.base.reports import Hold
from memory_actors.base.streams import user_of
from memory_actors.kinds.account import HOLDS


async def holds_of(log: EventStore, stream: str, *, released: bool = False) -> list[Hold]:
    """Return the holds of a user in the order they were placed; also those released, if asked.

    A user whose key is gone has none: nobody can read the data.
    """
    await log.flush()
    found: dict[str, Hold] = {}
    try:
        versions = await log.versions_about(stream, HOLDS)
    except KeyGone:
        return []
    for recorded in await log.read_versions(stream, versions):
        hold_id, at, meta = recorded.data.hold_id, recorded.recorded_at, recorded.meta
        by = meta.get("source", meta.get("agent_id"))  # the subject; an agent id is only a label
        if (reason := recorded.data.reason) is not None:
            found[hold_id] = Hold(
                user_id=user_of(stream), hold_id=hold_id, reason=reason, placed_at=at, placed_by=by
            )
        else:
            found[hold_id] = replace(found[hold_id], released_at=at, released_by=by)
    return [one for one in found.values() if released or one.released_at is None]


def refuse_held(holds: Sequence[Hold]) -> None:
    """Refuse to take words of a user out of the log while there are holds.

    :raises HeldError: there is one.
    """
    if holds:
        raise HeldError(
            f"under a legal hold since {holds[0].placed_at:%Y-%m-%d} ({holds[0].reason}): release "
            f"{', '.join(one.hold_id for one in holds)} first; an erasure can be despite_hold"
        )
