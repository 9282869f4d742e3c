"""Legal holds as the log has them: who placed and released each, and when. No user is activated."""

from collections.abc import Sequence

from msgspec.structs import replace

from eventlog import EventStore, Recorded
from memory_actors.base.errors import HeldError
from memory_actors.base.reports import Hold
from memory_actors.base.streams import user_of
from memory_actors.kinds.account import HOLDS, HoldPlaced, HoldReleased


async def holds_of(log: EventStore, stream: str, *, released: bool = False) -> list[Hold]:
    """Return the holds of a user in the order they were placed; also those released, if asked."""
    await log.flush()
    found: dict[str, Hold] = {}
    versions = await log.versions_about(stream, HOLDS)
    for recorded in await log.read_versions(stream, versions):
        event: HoldPlaced | HoldReleased = recorded.data
        if isinstance(event, HoldPlaced):
            found[event.hold_id] = _hold(stream, event, recorded)
        elif released:
            by = recorded.meta.get("agent_id")
            changed = {"released_at": recorded.recorded_at, "released_by": by}
            found[event.hold_id] = replace(found[event.hold_id], **changed)
        else:
            del found[event.hold_id]
    return [*found.values()]


def _hold(stream: str, event: HoldPlaced, recorded: Recorded[HoldPlaced]) -> Hold:
    return Hold(
        user_id=user_of(stream),
        hold_id=event.hold_id,
        reason=event.reason,
        placed_at=recorded.recorded_at,
        placed_by=recorded.meta.get("agent_id"),
    )


def refuse_held(holds: Sequence[Hold]) -> None:
    """Refuse to take words of a user out of the log while there are holds.

    :raises HeldError: there is one.
    """
    if holds:
        raise HeldError(
            f"under a legal hold since {holds[0].placed_at:%Y-%m-%d} ({holds[0].reason}): release "
            f"{', '.join(one.hold_id for one in holds)} first; an erasure can be despite_hold"
        )
