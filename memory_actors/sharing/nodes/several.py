"""Several databases that have the users of one memory between them: a node in each, as one.

A call about a user goes to the database that has the shard of the user. Which that is, the process
believes; the database refuses a claim where it is wrong. Then the process asks all of them, and
asks the call again, under the same name: what of it is in the log already is not done twice.

What is about all users is asked of each database, and put together (gathering.py). Positions mean
nothing between two of them.
"""

import asyncio
import os
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import msgspec

from eventlog import EventLogError, LogUnavailable, ShardingStore, require
from eventlog.core.waiting import to_the_end
from eventlog.postgres.shards import assemble, ranges
from memory_actors.api.parts import StoreParts
from memory_actors.base.errors import InvalidInputError, ShardMovedError, UnavailableError
from memory_actors.base.reports import Moment
from memory_actors.base.settings import Settings
from memory_actors.base.streams import recall_stream_of, stream_of
from memory_actors.search.embedding.default import embedder_of
from memory_actors.sharing.client import Asked
from memory_actors.sharing.declaration import Invocation, On
from memory_actors.sharing.invocations import user_of
from memory_actors.sharing.nodes import gathering
from memory_actors.sharing.nodes.leaving import Leaving
from memory_actors.sharing.nodes.node import AGAIN_S, PATIENCE_S, Node
from memory_actors.sharing.nodes.opening import Named, opened_node, with_stored
from memory_actors.sharing.shards import SHARDS, shard_of, shard_of_stream

if TYPE_CHECKING:
    from memory_actors.api.system import MemorySystem

LOOK_S: Final = 2.0
"""A database that does not say in this time what it has is believed to have what it had."""


async def opened_several(
    urls: Sequence[str], parts: StoreParts, *, as_it_is: bool = False
) -> "SeveralNodes":
    """Open a memory in several databases, as a node of each; `as_it_is` with its own settings.

    :raises LogUnavailable: these are not the databases of one memory, or not all of them.
    """
    settings = parts.settings or Settings()
    if settings.placement == "ray":
        raise InvalidInputError("placement='ray' is for one database: of several, leave it out")
    ids, home = await assemble(urls, shard_of_stream, SHARDS)
    if as_it_is:
        settings = await with_stored(urls[home], settings)
    each = msgspec.structs.replace(settings, live_bytes_max=settings.live_bytes_max // len(urls))
    shared = gathering.MetricsOfSeveral.of(parts.metrics)
    parts = msgspec.structs.replace(
        parts, embedder=embedder_of(parts.embedder), settings=each, metrics=shared
    )
    named, nodes = Named.anew(), dict[str, Node]()
    try:
        for at, (store, url) in enumerate(sorted(zip(ids, urls, strict=True))):
            if each.node_port:
                its = msgspec.structs.replace(each, node_port=each.node_port + at)
                parts = msgspec.structs.replace(parts, settings=its)
            nodes[store] = await opened_node(
                url, parts, named, shard_of_stream, replaces=not as_it_is
            )
        several = SeveralNodes(nodes, ids[home])
        await several.start()
    except BaseException:
        await to_the_end(_closed(list(nodes.values())))
        raise
    return several


async def _closed(nodes: Sequence[Node]) -> None:
    """Close all of them, whatever one of them raises."""
    done = await asyncio.gather(*(node.close() for node in nodes), return_exceptions=True)
    for error in done:
        if isinstance(error, BaseException):
            raise error


class SeveralNodes:
    """Carries out operations where the users are: a `Caller`."""

    def __init__(self, nodes: Mapping[str, Node], home: str):
        """Take the node of each database, by the id of its store; one keeps common settings."""
        self._pid = os.getpid()
        self.settings = nodes[home].settings
        self.nodes = list(nodes.values())
        self.stores = list(nodes)
        self._here: list[set[int]] = [set() for _ in self.nodes]
        """The shards that each of them has."""
        self._versions = [-1] * len(nodes)
        """Of what each of them has said last: an older answer may come late."""
        self._looking: asyncio.Task[None] | None = None
        self._at: dict[int, int] = {}
        """The node that has a shard."""
        self._leaving = [
            Leaving(node, shard_of_stream, partial(self._told, at))
            for at, node in enumerate(self.nodes)
        ]
        self._replays: dict[On, Node] = {}

    async def start(self) -> None:
        """Learn which shards are where, and what the databases have in common."""
        for leaving in self._leaving:
            await leaving.start()
        await self._check_disjoint()
        for node in self.nodes:
            node.server.everywhere, node.server.is_part = self, False
            memory = node.memory
            memory._erasing.keep_keys_in(self.settings)  # noqa: SLF001 - this process's own
            memory._services.recalls.keep_key_in(self.settings)  # noqa: SLF001 - the same
            for other in self.nodes:
                if other is not node:
                    memory.watch_erasures(other.answering.tell)

    async def _check_disjoint(self) -> None:
        """See that no shard is in two databases.

        :raises LogUnavailable: one is: a database was restored to an earlier moment, say.
        """
        twice = self._twice()
        if twice:  # or it was on its way between the two looks
            await self.look()
            twice &= self._twice()
        if twice:
            raise LogUnavailable(
                f"shards {ranges(twice)} are in two of these databases: restore all of them to one "
                "moment, in which no shard was moving"
            )

    def _twice(self) -> set[int]:
        counts = Counter(shard for here in self._here for shard in here)
        return {shard for shard, count in counts.items() if count > 1}

    def _told(self, at: int, version: int, here: set[int]) -> None:
        """Take note of the shards that a database says it has, unless it has said more since."""
        if version < self._versions[at]:
            return
        self._versions[at], self._here[at] = version, here
        self._at = {shard: node for node, some in enumerate(self._here) for shard in some}
        memory = self.nodes[at].memory
        totals = memory._services.totals  # noqa: SLF001 - this process's own
        totals.share = (len(here), SHARDS)
        memory._eventlog.cap_totals(totals.caps())  # type: ignore[attr-defined]  # noqa: SLF001

    # --- what handles ask

    async def call(self, invocation: Invocation) -> Any:
        """Carry out an operation where its user is, or everywhere; return its result.

        :raises UnavailableError: the user is in none of the databases for too long.
        """
        if invocation.on.then is not None:
            return await self._replays.get(invocation.on, self.nodes[0]).call(invocation)
        user_id = user_of(invocation)
        if user_id is None:
            return await gathering.gathered(self, invocation)
        done = await self._where(user_id, invocation)
        if invocation.name == "system.erase":
            await self._drop_elsewhere(user_id)
        return done

    async def _where(self, user_id: str, invocation: Invocation) -> Any:
        befores = [node.position for node in self.nodes]
        asked, route = Asked(next(self.nodes[0].numbers)), _DatabaseRoute(self, user_id)
        while True:
            at = await route.found()
            try:
                return await self.nodes[at].asked(
                    asked._replace(after=befores[at] if route.is_again else None), invocation
                )
            except ShardMovedError as moved:
                await route.changed(moved)

    async def _drop_elsewhere(self, user_id: str) -> None:
        """Leave nothing of an erased user where a move has been, or is under way."""
        at = await self.found(user_id)
        for stream in (stream_of(user_id), recall_stream_of(user_id)):
            until = (await _log(self.nodes[at]).head(stream)).erased_version
            for other in self.nodes:
                if other is not self.nodes[at]:
                    await require(_log(other), ShardingStore).drop_foreign(stream, until)

    async def iterate(self, invocation: Invocation) -> AsyncIterator[Any]:
        """Yield what an operation does; where the user moves meanwhile, what was not yielded."""
        user_id = user_of(invocation)
        if invocation.on.then is not None or user_id is None:
            async for item in self._everything(invocation):
                yield item
            return
        if invocation.name == "system.events":
            async for item in gathering.events_of_user(self, user_id, invocation):
                yield item
            return
        seen, route = set[str](), _DatabaseRoute(self, user_id)
        while True:
            try:
                node = self.nodes[await route.found()]
                async for item in node.iterate(invocation):
                    if item.memory_id not in seen:
                        seen.add(item.memory_id)
                        yield item
                return
            except ShardMovedError as moved:
                await route.changed(moved)

    def _everything(self, invocation: Invocation) -> AsyncIterator[Any]:
        if invocation.on.then is not None:
            return self._replays.get(invocation.on, self.nodes[0]).iterate(invocation)
        return gathering.events_of_all(self, invocation)

    def at_once(self, invocation: Invocation) -> Any:
        """Carry out an operation that is not awaited."""
        if invocation.name == "system.statistics":
            return gathering.statistics([node.at_once(invocation) for node in self.nodes])
        return self.nodes[0].at_once(invocation)

    async def replay(self, on: On, kwargs: Mapping[str, Any]) -> tuple[On, Moment, int]:
        """Open a replay where the user is; return its handle, moment, and how much is lost."""
        node = self.nodes[await self.found(kwargs["user_id"])]
        past_on, moment, lost = await node.replay(on, kwargs)
        self._replays[past_on] = node
        return past_on, moment, lost

    async def end_replay(self, on: On) -> None:
        """Let go of a replay."""
        node = self._replays.pop(on, None)
        if node is not None:
            await node.end_replay(on)

    def watch_erasures(self, forget: Callable[[str], object]) -> None:
        """Have a function called when a user is erased, in whatever database."""
        for node in self.nodes:
            node.watch_erasures(forget)

    async def close(self) -> None:
        """Take no more calls, give the users up, and close."""
        if os.getpid() != self._pid:
            return
        await asyncio.gather(*(leaving.close() for leaving in self._leaving))
        await to_the_end(_closed(self.nodes))

    # --- where users are

    def memory_of(self, user_id: str) -> "MemorySystem":
        """Return the system that a user's past is read from."""
        return self.nodes[self._at.get(shard_of(user_id), 0)].memory

    def at(self, user_id: str) -> int | None:
        """Return which node has a user, as far as this process knows."""
        return self._at.get(shard_of(user_id))

    async def found(self, user_id: str) -> int:
        """Return which node has a user; wait while a shard is on its way."""
        return await _DatabaseRoute(self, user_id).found()

    async def look(self) -> None:
        """Ask every database which shards it has; of one that is away, believe what it said.

        Whoever wants to know meanwhile waits for the same answers.
        """
        if self._looking is None:
            self._looking = asyncio.create_task(self._look())
            self._looking.add_done_callback(self._looked)
        await asyncio.shield(self._looking)

    def _looked(self, _done: "asyncio.Task[None]") -> None:
        self._looking = None

    async def _look(self) -> None:
        async def looked(at: int, node: Node) -> None:
            with suppress(EventLogError, TimeoutError):
                async with asyncio.timeout(LOOK_S):
                    self._told(at, *await node.placement.leases.here())

        await asyncio.gather(*(looked(at, node) for at, node in enumerate(self.nodes)))


class _DatabaseRoute:
    """The way to the database of a user, and how long a call may go on looking for it."""

    def __init__(self, several: SeveralNodes, user_id: str):
        self.is_again = False
        """True once a database has said that it has not got the user."""
        self._several = several
        self._user_id = user_id
        self._until_s: float | None = None

    async def found(self) -> int:
        """Return which node has the user; wait while a shard is on its way.

        A node whose lease holds has heard of every shard that left. What any other believes is
        asked for first: the past is read from the log, which nobody claims.
        """
        at = self._several.at(self._user_id)
        if at is not None and not self._several.nodes[at].placement.is_vouched():
            await self._several.look()
        while (at := self._several.at(self._user_id)) is None:
            await self._wait("it is on its way to another database")
        return at

    async def changed(self, error: Exception) -> None:
        """Look again, after a database has said that it has not got the user."""
        self.is_again = True
        await self._wait(str(error))

    async def _wait(self, why: str) -> None:
        now_s = asyncio.get_running_loop().time()
        if self._until_s is None:
            self._until_s = now_s + PATIENCE_S
        elif now_s > self._until_s:
            raise UnavailableError(
                f"no database has this user's memory now: {why}. A write may have been carried "
                "out: read, then try again; finish what `memory-actors shards` shows as moving"
            )
        else:
            await asyncio.sleep(AGAIN_S)
        await self._several.look()


def _log(node: Node) -> Any:
    return node.memory._eventlog  # noqa: SLF001 - this process's own
