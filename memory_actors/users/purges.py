"""Memories that are taken out: of a source, by the rules of retention, since they were forgotten.

That is done in batches, each in one append: so a batch is whole or not at all, and the work goes on
after a crash by being asked for again.
"""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from typing import Any

import anyio.to_thread
from msgspec.structs import replace

from eventlog import EventLogError, Progress
from eventlog.core.logs import get_logger
from memory_actors.base.errors import GlobalQuotaExceededError, InvalidInputError, MemoryActorsError
from memory_actors.base.on import On
from memory_actors.base.origins import Origins, matches
from memory_actors.base.privacy import hashed, reason
from memory_actors.base.records import Trust
from memory_actors.base.reports import Purged, PurgeReport
from memory_actors.base.validation import check_flag, check_member, check_optional_name
from memory_actors.base.watching import tell
from memory_actors.kinds.provenance import SourcePurged
from memory_actors.kinds.purging import PURGED_AT_ONCE, Purge, applied
from memory_actors.kinds.user_state import KINDS, UserState
from memory_actors.users.handles.scope import Scope
from memory_actors.users.live_user import LiveUser

_logger = get_logger("memory_actors.users.purges")


def taken_out(done: Sequence[SourcePurged]) -> dict[str, Any]:
    """Return the fields of a `TakenOut` that batches come to."""
    found: dict[str, Any] = {
        name: by_kind(one for each in done for one in getattr(each, name))
        for name in ("gone", "changed")
    }
    ids = ("came_back", "left_out", "lost")
    return found | {n: tuple(one for each in done for one in getattr(each, n)) for n in ids}


async def purge_users(
    purge_one: Callable[[str], Awaitable[Purged]],
    user_ids: Sequence[str],
    source: str | None = None,
    *,
    trust: Trust | str | None = None,
    dry_run: bool = False,
    progress: Progress | None = None,
) -> PurgeReport:
    """Purge many users by source or trust, one by one. See `MemorySystem.purge`."""
    checked_source(source, trust)
    check_flag(dry_run, "dry_run")
    receipts, failed = [], []
    for done, user_id in enumerate(user_ids, start=1):
        try:
            receipt = await purge_one(user_id)
        except (MemoryActorsError, EventLogError) as error:
            _logger.warning("user not purged", user=hashed(user_id), error=reason(error))
            failed.append(user_id)
        else:
            receipts += [receipt] if receipt.count else []
        if progress is not None:
            await tell(progress, done, len(user_ids))
    return PurgeReport(
        users=len(user_ids), dry_run=dry_run, receipts=tuple(receipts), failed=tuple(failed)
    )


def checked_source(
    source: str | None, trust: Trust | str | None
) -> tuple[str | None, Trust | None]:
    """Return the validated source and trust.

    :raises InvalidInputError: neither is given, or one is not what it must be.
    """
    if source is None and trust is None:
        raise InvalidInputError("purge what? Give a source, a trust, or both")
    level = None if trust is None else check_member(Trust, trust, "trust")
    return check_optional_name(source, "source"), level


async def purge_source(
    scope: Scope,
    source: str | None,
    trust: Trust | None,
    *,
    dry_run: bool = False,
    keep_words: bool = False,
) -> list[SourcePurged]:
    """Purge in batches, and return what each came to; `keep_words` takes only the name out."""

    def said_by(origins: Origins) -> bool:
        return any(matches(one, source, trust) for one in origins)

    async with scope.writable() as live:
        found = batches(live.state, live.state.provenance.matching(said_by))
        commands = (
            Purge(
                now_us=scope.now_us(), memory_ids=batch, source=source, trust=trust,
                keep_words=keep_words,
            )
            for batch in found or [()]  # of memories, and what is pending goes with the first
        )  # fmt: skip
        done = await carried_out(scope, live, commands, dry_run=dry_run)
        await live.indexes.catch_up(KINDS)  # with what changed or came back
    return done


def batches(state: UserState, memory_ids: AbstractSet[str]) -> list[tuple[str, ...]]:
    """Return memories in batches, summaries one by one: their originals come back."""
    compacted = memory_ids & {*state.long_term.summaries.ids, *state.episodic.summaries.ids}
    others = sorted(memory_ids - compacted)
    starts = range(0, len(others), PURGED_AT_ONCE)
    some = [tuple(others[start : start + PURGED_AT_ONCE]) for start in starts]
    return [*some, *((one,) for one in sorted(compacted))]


async def carried_out(
    scope: Scope, live: LiveUser, commands: Iterable[Purge], *, dry_run: bool
) -> list[SourcePurged]:
    """Carry out purges, or only decide them; return what each came to."""
    done = list[SourcePurged]()
    for command in commands:
        events = await _decided(scope, live, command, dry_run=dry_run)
        done += [event for event in events if isinstance(event, SourcePurged)]
    return done


async def _decided(
    scope: Scope, live: LiveUser, command: Purge, *, dry_run: bool
) -> Sequence[object]:
    """Decide a batch; where all users together have no room, without what would come back."""

    async def decide(command: Purge) -> Sequence[object]:
        if dry_run:
            return await live.actor.dry_run(command)
        return [recorded.data for recorded in (await scope.ask(live, command)).events]

    try:
        return await decide(command)
    except GlobalQuotaExceededError:
        return await decide(replace(command, bring_back=False))


async def retained(scope: Scope, live: LiveUser, *, dry_run: bool = False) -> list[SourcePurged]:
    """Delete what retention rules no longer allow; return what each batch came to.

    A hold suspends the rules. The log keeps the rule as the cause, whoever has it applied.
    """
    if live.state.account.holds:
        return []
    rules, own = scope.services.settings.retention, Scope(scope.services, On(scope.user_id))
    due = partial(applied, rules, scope.user_id, KINDS, live.state, scope.now_us())
    commands = await anyio.to_thread.run_sync(due)
    return await carried_out(own, live, commands, dry_run=dry_run)


def by_kind(found: Iterable[tuple[str, str]]) -> dict[str, tuple[str, ...]]:
    """Return ids by their kind, each once."""
    kinds: dict[str, dict[str, None]] = {}
    for kind, memory_id in found:
        kinds.setdefault(kind, {})[memory_id] = None
    return {kind: tuple(ids) for kind, ids in kinds.items()}
