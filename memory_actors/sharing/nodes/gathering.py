"""Answers about all users from several databases, put together.

Sums are added and lists joined. What rests on positions (heads, and events behind one) means
nothing between two databases, and is refused; what a database does itself is refused by its node.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import aclosing, suppress
from functools import partial, reduce
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from eventlog import Progress
from eventlog.core.subscription import version_at
from memory_actors.api.purging import purge_users
from memory_actors.base.errors import InvalidInputError
from memory_actors.base.records import Trust
from memory_actors.base.reports import (
    CompactionStats,
    LogEntry,
    PurgeReport,
)
from memory_actors.base.statistics import SystemStatistics
from memory_actors.base.streams import stream_of
from memory_actors.base.usage import SystemUsage
from memory_actors.observing.metrics import Metrics, NoMetrics
from memory_actors.sharing.declaration import Invocation
from memory_actors.sharing.nodes.node import purging, together

if TYPE_CHECKING:
    from memory_actors.sharing.nodes.several import SeveralNodes

LOOK_S: Final = 0.5
"""The time between two looks whether a user who is followed has moved."""
T = TypeVar("T")
S = TypeVar("S", bound=msgspec.Struct)


async def gathered(several: "SeveralNodes", invocation: Invocation) -> Any:
    """Carry out an operation about all users.

    :raises InvalidInputError: it means nothing for several databases.
    """
    name, _, args, kwargs = invocation
    if name == "system.heads" or kwargs.get("against") is not None:
        raise InvalidInputError(
            "heads are of one log, and this memory is in several databases: compare the chains of "
            "users, or take heads of what `export-since` or `pg_dump` makes of each"
        )
    if name == "system.purge":
        return await _purge(several, *args, **kwargs)
    nodes, put = several.nodes, _TOGETHER.get(name)
    if put is None:  # refused by any node, with what to do instead
        return await nodes[0].call(invocation)
    if name in _ONE_BY_ONE:
        return put([await node.call(invocation) for node in nodes])
    return put(await asyncio.gather(*(node.call(invocation) for node in nodes)))


def _users(found: Sequence[list[str]]) -> list[str]:
    return sorted(set().union(*found))


def _diverged(found: Sequence[list[str]]) -> list[str]:
    return [user_id for one in found for user_id in one]


def _usage(found: Sequence[SystemUsage]) -> SystemUsage:
    return msgspec.structs.replace(
        _summed(found),
        at=max(one.at for one in found),
        quotas=tuple(
            msgspec.structs.replace(
                same[0], used=sum(one.used for one in same), limit=sum(one.limit for one in same)
            )
            for same in zip(*(one.quotas for one in found), strict=True)
        ),
    )


def _stats(found: Sequence[CompactionStats]) -> CompactionStats:
    runs = [one.last_run_at for one in found if one.last_run_at is not None]
    return msgspec.structs.replace(_summed(found), last_run_at=max(runs, default=None))


async def _purge(
    several: "SeveralNodes",
    source: str | None = None,
    *,
    trust: Trust | str | None = None,
    dry_run: bool = False,
    progress: Progress | None = None,
) -> PurgeReport:
    """Purge user by user, each where they are, until all who are found have been purged.

    Who moves while the databases are asked for their users may be in none of the answers.
    """
    purge_one = purging(several, source, trust, dry_run=dry_run)
    seen, found = set[str](), list[PurgeReport]()
    while True:
        there = await asyncio.gather(*(node.memory.users() for node in several.nodes))
        new = [user_id for user_id in _users(there) if user_id not in seen]
        if found and not new:
            return _purged(found)
        found.append(
            await purge_users(purge_one, new, source, trust, dry_run=dry_run, progress=progress)
        )
        seen.update(new)


def _purged(found: Sequence[PurgeReport]) -> PurgeReport:
    return msgspec.structs.replace(
        found[0],
        users=sum(one.users for one in found),
        receipts=tuple(receipt for one in found for receipt in one.receipts),
        failed=tuple(user_id for one in found for user_id in one.failed),
    )


def _verified(found: Sequence[Any]) -> Any:
    findings = [finding for one in found for finding in one.findings]
    return msgspec.structs.replace(_summed(found), findings=findings)


def statistics(found: Sequence[SystemStatistics]) -> SystemStatistics:
    """Add up what the nodes of one process have done."""
    return msgspec.structs.replace(
        _summed(found),
        log=_summed([one.log for one in found]),
        runtime=_summed([one.runtime for one in found]),
        embeddings=_summed([one.embeddings for one in found]),
        alerts=_summed([one.alerts for one in found]),
    )


def _summed(found: Sequence[S]) -> S:
    """Return the first of some structs, with the sums of their numbers, and of numbers by name."""
    first, sums = found[0], dict[str, Any]()
    for name in first.__struct_fields__:
        values = [getattr(one, name) for one in found]
        if type(values[0]) in (int, float):
            sums[name] = sum(values)
        elif isinstance(values[0], dict):
            total = Counter[str]()
            for value in values:
                total.update(value)
            sums[name] = dict(total)
    return msgspec.structs.replace(first, **sums)


_TOGETHER: Final[Mapping[str, Callable[[Sequence[Any]], Any]]] = {
    "system.users": _users,
    "system.check_replay": _diverged,
    "system.usage": _usage,
    "system.compact": partial(reduce, together),
    "system.compaction_stats": _stats,
    "system.verify": _verified,
}
_ONE_BY_ONE: Final = {"system.compact", "system.verify"}
"""Operations that tell how far they have come, one database after the other."""


# --- events


async def events_of_all(several: "SeveralNodes", invocation: Invocation) -> AsyncIterator[LogEntry]:
    """Yield the events of all users: those that are there by their time, then as they come.

    :raises InvalidInputError: it is to begin behind a position.
    """
    if invocation.kwargs.get("after"):
        raise InvalidInputError(
            "a position is of one database, and this memory is in several: ask for the events of a "
            "user, or since a time"
        )
    streams = [node.iterate(invocation) for node in several.nodes]
    if invocation.kwargs.get("follow"):
        async for _, entry in _as_they_come(streams):
            yield entry
        return
    await several.look()
    async for at, entry in _by_time(streams):
        if several.at(entry.user_id) in (at, None):  # what a move left is told by the other one
            yield entry


async def _by_time(
    streams: Sequence[AsyncIterator[LogEntry]],
) -> AsyncIterator[tuple[int, LogEntry]]:
    """Yield what each has, the earliest first; each keeps its own order."""
    heads = {at: entry for at, one in enumerate(streams) if (entry := await anext(one, None))}
    while heads:
        at = min(heads, key=lambda one: heads[one].recorded_at)
        yield at, heads.pop(at)
        entry = await anext(streams[at], None)
        if entry is not None:
            heads[at] = entry


async def _as_they_come(
    streams: Sequence[AsyncIterator[T]],
) -> AsyncIterator[tuple[int, T]]:
    """Yield what each has as soon as it has it, until all of them end."""
    coming = {asyncio.ensure_future(anext(one)): at for at, one in enumerate(streams)}
    try:
        while coming:
            done, _ = await asyncio.wait(coming, return_when=asyncio.FIRST_COMPLETED)
            for one in done:
                at = coming.pop(one)
                try:
                    entry = one.result()
                except StopAsyncIteration:
                    continue
                coming[asyncio.ensure_future(anext(streams[at]))] = at
                yield at, entry
    finally:
        for left in coming:
            left.cancel()


async def events_of_user(
    several: "SeveralNodes", user_id: str, invocation: Invocation
) -> AsyncIterator[LogEntry]:
    """Yield the events of a user, also where they move to another database meanwhile.

    A position is one of the database that has the user when it begins.
    """
    after, version = invocation.kwargs.get("after"), 0
    at = await several.found(user_id)
    if type(after) is int:  # else it is refused below
        log = several.nodes[at].memory._eventlog  # noqa: SLF001 - this process's own
        version = await version_at(log, stream_of(user_id), after)
    while True:
        found = several.nodes[at].iterate(invocation)
        async with aclosing(_until_moved(several, user_id, at, found)) as entries:
            async for entry in entries:
                if entry.version > version:
                    version = entry.version
                    yield entry
        if several.at(user_id) == at:
            return
        invocation = invocation._replace(kwargs={**invocation.kwargs, "after": 0})
        at = await several.found(user_id)


async def _until_moved(
    several: "SeveralNodes", user_id: str, at: int, found: AsyncIterator[LogEntry]
) -> AsyncGenerator[LogEntry, None]:
    """Yield entries until there are no more, or the user is in another database."""
    coming = asyncio.ensure_future(anext(found, None))
    try:
        while True:
            done, _ = await asyncio.wait([coming], timeout=LOOK_S)
            if done:
                if (entry := coming.result()) is None:
                    return
                coming = asyncio.ensure_future(anext(found, None))
                yield entry
            elif several.at(user_id) != at:
                return
    finally:
        coming.cancel()
        with suppress(asyncio.CancelledError, Exception):
            await coming


# --- metrics


class MetricsOfSeveral(NoMetrics):
    """The metrics of a process that has a node in each of several databases, as one."""

    def __init__(self, metrics: Metrics):
        self._metrics = metrics
        self._watched: list[Callable[[], Mapping[str, Any]]] = []

    @classmethod
    def of(cls, metrics: Metrics | None) -> Metrics | None:
        """Wrap the metrics that were given, if any were."""
        return None if metrics is None else cls(metrics)

    def observe(self, operation: str, kind: str, seconds: float, outcome: str) -> None:
        """Pass an observation on."""
        self._metrics.observe(operation, kind, seconds, outcome)

    def watch(self, statistics: Callable[[], Mapping[str, Any]]) -> Callable[[], None]:
        """Show the sums of what all nodes say."""
        self._watched.append(statistics)
        if len(self._watched) == 1:
            self._end = self._metrics.watch(self._summed)

        def ended() -> None:
            self._watched.remove(statistics)
            if not self._watched:
                self._end()

        return ended

    def _summed(self) -> Mapping[str, Any]:
        """Add numbers; of what is full by a part, and of the process itself, take the highest."""
        found = [one() for one in self._watched]
        whole = dict(found[0]) if found else {}
        for other in found[1:]:
            for name, value in other.items():
                if isinstance(value, Mapping):
                    mine = whole[name]
                    keys = {**mine, **value}
                    whole[name] = {k: max(mine.get(k, 0), value.get(k, 0)) for k in keys}
                elif name == "resident_bytes":
                    whole[name] = max(whole[name], value)
                else:
                    whole[name] += value
        return whole
