"""A node: a process that shares a store in a database with others, and has some of its users.

A call about a user is carried out where the user is. That is here if the user is live here, or
nobody has them: then this node claims them. Otherwise it is asked of the node that has them. If the
user has moved meanwhile, or the other node is gone, the call is sent again, to the user's current
node, under the same name: the parts of it that are in the log already are not done twice
(retrying.py).

While another node is silent, this one asks the database every `LOOK_S` whether the user is still
there. A call therefore outlives its node by the rest of that node's lease at most.

Calls that are not about one user (events, totals, the past) are answered from the log, by any node.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import suppress
from itertools import count
from typing import Any, Final

import msgspec

from eventlog import EventLogError, OnDropped, Progress, SettingStore, require
from eventlog.core.logs import get_logger
from eventlog.core.waiting import to_the_end
from memory_actors.api.system import PastMemory, past_memory
from memory_actors.base.client_call import ASKED, ClientCall
from memory_actors.base.errors import (
    MemoryActorsError,
    MovedError,
    SystemClosedError,
    UnavailableError,
    WrongLoopError,
)
from memory_actors.base.on import On, Then
from memory_actors.base.privacy import reason
from memory_actors.base.records import AsOf
from memory_actors.base.reports import CompactionReport, Moment, Purged, PurgeReport
from memory_actors.base.streams import stream_of
from memory_actors.base.validation import check_name
from memory_actors.compaction.run import CLUSTERS_REPORTED
from memory_actors.sharing.client import Asked
from memory_actors.sharing.declaration import Invocation
from memory_actors.sharing.invocations import FORGET, arguments, user_of
from memory_actors.sharing.nodes.peers import PeerLostError, Peers
from memory_actors.sharing.nodes.placement import LeasedPlacement
from memory_actors.sharing.serving import OwnerServer
from memory_actors.users.purges import purge_users

LOOK_S: Final = 0.5
AGAIN_S: Final = 0.05
"""Between two attempts: a lease that expires, or a node that wakes a user up, takes longer."""
PATIENCE_S: Final = 30.0
KNOWN_MAX: Final = 100_000
"""Users of whom it is known where they are: some 300 bytes each."""
OF_ONE_USER: Final = {"system.compact", "system.compaction_stats", "system.erase"}
"""Operations of the system that a user's own actor carries out, if they name one."""

_logger = get_logger("memory_actors.sharing")


class Node:
    """Carries out operations: a `Caller`. It belongs to the event loop that it was opened on."""

    def __init__(
        self,
        server: OwnerServer,
        placement: LeasedPlacement,
        peers: Peers,
        close: Callable[[], Awaitable[None]],
    ):
        self.answering = server.answering
        self.memory = server.answering.memory
        self.server = server
        server.everywhere = self
        self.peers = peers
        self.settings = require(self.memory._services.log, SettingStore)  # noqa: SLF001 - its own
        self.placement = placement
        self._close = close
        self.runtime = self.memory._services.runtime  # noqa: SLF001 - this process's own
        self._pid = os.getpid()
        self._loop = asyncio.get_running_loop()
        self._numbers = count(1)
        self._elsewhere: dict[str, str] = {}
        """The addresses of the nodes that have a user, by stream, as far as this one knows."""
        self._replays: dict[On, PastMemory] = {}
        self._closed = False
        self.memory._erasing.elsewhere = self._forget_elsewhere  # noqa: SLF001 - the same
        self.memory._services.elsewhere = self._carried_out  # noqa: SLF001 - the same

    # --- what handles ask

    async def call(self, invocation: Invocation) -> Any:
        """Carry out an operation where its user is, and return its result.

        :raises UnavailableError: the node that has the user cannot be reached, and lives.
        """
        self._check_here()
        stream, asked = _stream(invocation), Asked(next(self._numbers))
        if stream is not None:
            return await self._anywhere(stream, invocation, asked)
        if invocation.name == "system.compact":
            return await self._compact_everywhere(invocation, asked)
        if invocation.name == "system.purge":
            return await self._purge_everywhere(**arguments(invocation))
        return await self._here(invocation, asked)

    async def _carried_out(self, operation: str, on: On, given: Mapping[str, object]) -> object:
        """Carry out an operation on a user's memory for another operation that goes on here."""
        return await self.call(Invocation(operation, on, (), given))

    async def iterate(self, invocation: Invocation) -> AsyncIterator[object]:
        """Yield what an operation does; where the user moves meanwhile, what was not yielded."""
        self._check_here()
        stream = _stream(invocation)
        if stream is None:
            async for item in self._carried_out_here(invocation):
                yield item
            return
        seen = set[str]()
        route = _Route(self, stream)
        while True:
            try:
                async for item in self._items(route, invocation):
                    if item.memory_id not in seen:
                        seen.add(item.memory_id)
                        yield item
                return
            except (MovedError, PeerLostError) as error:
                await route.changed(error)

    def _items(self, route: "_Route", invocation: Invocation) -> AsyncIterator[Any]:
        if (address := route.address) is None:
            found: AsyncIterator[object] = self._carried_out_here(invocation)
            return found
        return self.peers.at(address).iterate(invocation, Asked(next(self._numbers)))

    def at_once(self, invocation: Invocation) -> object:
        """Carry out an operation that is not awaited: here, for it reads no user."""
        return self._carried_out_here(invocation)

    def _carried_out_here(self, invocation: Invocation) -> Any:
        return self.answering.carried_out(self._handle(invocation.on), invocation)

    async def replay(self, on: On, as_of: AsOf, dropped: OnDropped) -> tuple[On, Moment, int]:
        """Open a replay, which any node can; return its handle, moment, and how much is lost."""
        self._check_here()
        services = self.memory._open  # noqa: SLF001 - this process's own
        past = await past_memory(services, on, as_of, dropped)
        then = Then(past.moment.at, dropped, next(self._numbers))
        past_on = msgspec.structs.replace(on, then=then)
        self._replays[past_on] = past
        return past_on, past.moment, past.lost

    async def end_replay(self, on: On) -> None:
        """Let go of a replay."""
        past = self._replays.pop(on, None)
        if past is not None:
            await past.close()

    @property
    def position(self) -> int:
        """A position that all is behind that is written from now on."""
        return self.answering.position

    def watch_erasures(self, forget: Callable[[str], object]) -> None:
        """Have a function called when a user is erased, at whatever node."""
        self._check_here()
        self.memory.watch_erasures(forget)

    async def close(self) -> None:
        """Take no more calls, give the users up, and close."""
        if self._closed or os.getpid() != self._pid:
            return
        self._check_here()
        self._closed = True
        for past in self._replays.values():
            await past.close()
        self._replays.clear()
        await to_the_end(self._close())

    # --- here or elsewhere

    async def _anywhere(self, stream: str, invocation: Invocation, asked: Asked) -> object:
        after = self.position
        route = _Route(self, stream)
        while True:
            try:
                if route.address is None:
                    return await self._here(invocation, asked)
                return await self._there(route.address, stream, invocation, asked)
            except (MovedError, PeerLostError) as error:
                await route.changed(error)
                asked = asked._replace(after=after)

    async def _here(self, invocation: Invocation, asked: Asked) -> Any:
        name, on = f"{self.peers.node}:{asked.number}", invocation.on
        token = ASKED.set(ClientCall(name))
        try:
            if asked.after is None or on.user_id is None:
                return await _awaited(self._carried_out_here(invocation))
            # The user is claimed before the log is looked into: what a former owner had on its way
            # is there by then, or never.
            async with self.runtime.use(stream_of(on.user_id)):
                user = await self.answering.user_again(on, name, asked.after)
                return await _awaited(self.answering.carried_out(user, invocation))
        finally:
            ASKED.reset(token)

    async def _there(self, address: str, stream: str, invocation: Invocation, asked: Asked) -> Any:
        """Have it carried out at another node, as long as that has the user."""
        peer = self.peers.at(address)
        answer = asyncio.create_task(peer.carried_out(asked, invocation))
        try:
            while not (await asyncio.wait([answer], timeout=LOOK_S))[0]:
                if await self._has_left(stream, address):
                    raise MovedError("its node has lost this user")
            return answer.result()
        finally:
            answer.cancel()

    async def _has_left(self, stream: str, address: str) -> bool:
        if self.runtime.is_live(stream):
            return True
        try:
            async with asyncio.timeout(LOOK_S):
                holder = await self.placement.leases.holder(stream)
        except (EventLogError, TimeoutError):
            return False
        return holder is None or holder.address.decode() != address

    # --- all users

    async def _compact_everywhere(self, invocation: Invocation, asked: Asked) -> CompactionReport:
        """Have each node compact the users that it has, and those whom nobody has by then.

        The users of a node that fails are compacted where they are next time.
        """
        whole: CompactionReport = await self._here(invocation, asked)
        for other in await self.placement.leases.nodes():
            peer, number = self.peers.at(other.address.decode()), next(self._numbers)
            try:
                report = await peer.carried_out(Asked(number), invocation)
            except (PeerLostError, MemoryActorsError, EventLogError) as error:
                _logger.warning("a node has not compacted its users", error=reason(error))
            else:
                whole = together(whole, report)
        return whole

    async def _purge_everywhere(self, progress: Progress | None = None, **how: Any) -> PurgeReport:

        async def purge_one(user_id: str) -> Purged:
            purged: Purged = await self.call(Invocation("purge", On(user_id), (), how))
            return purged

        return await purge_users(purge_one, await self.memory.users(), progress=progress, **how)

    async def _forget_elsewhere(self, user_id: str) -> None:
        """Have every other node forget a user who is being erased here.

        A node whose lease expires meanwhile forgets everybody before it answers again.

        :raises UnavailableError: a node that lives does not say that it has.
        """
        until_s, told = self._loop.time() + PATIENCE_S, set[str]()
        while left := [one for one in await self.placement.leases.nodes() if one.id not in told]:
            for one in left:
                peer = self.peers.at(one.address.decode())
                try:
                    async with asyncio.timeout_at(until_s):  # it may be erasing them itself
                        await peer.told(Asked(next(self._numbers)), FORGET, user_id)
                    told.add(one.id)
                except TimeoutError:
                    break
                except PeerLostError:
                    await self.peers.lost(one.address.decode())
            if self._loop.time() > until_s:
                raise UnavailableError("another node keeps things of this user: erase them again")
            await asyncio.sleep(AGAIN_S)

    def _handle(self, on: On) -> Any:
        if on.then is not None:
            past = self._replays.get(on)
            if past is None:
                raise SystemClosedError("this replay is closed: open it again")
            return past
        return self.answering.user(on)

    def _check_here(self) -> None:
        if os.getpid() != self._pid:
            raise UnavailableError("a forked child is no node: open the store again in it")
        if self._closed:
            raise SystemClosedError("the memory system is closed: open it again")
        if asyncio.get_running_loop() is not self._loop:
            raise WrongLoopError

    def where(self, stream: str) -> str | None:
        """Return the address of the node that has a user; None: this one may have them."""
        return None if self.runtime.is_live(stream) else self._elsewhere.get(stream)

    def note(self, stream: str, address: str | None) -> None:
        """Take note of where a user is; None: nobody knows."""
        self._elsewhere.pop(stream, None)
        if address is not None:
            if len(self._elsewhere) >= KNOWN_MAX:
                self._elsewhere.clear()  # the next call of each of them asks the database
            self._elsewhere[stream] = address


class _Route:
    """The way of a call, and how long it may go on looking for it."""

    def __init__(self, node: Node, stream: str):
        self.address = node.where(stream)
        """None: here."""
        self._node = node
        self._stream = stream
        self._until_s: float | None = None
        """None: nothing has failed yet."""
        self._lost: PeerLostError | None = None
        """The error of the node that has the user, and could not be reached."""

    async def changed(self, error: Exception) -> None:
        """Look where the user is, after a node was gone, or no longer had them.

        :raises UnavailableError: that takes too long.
        """
        known = error.address if isinstance(error, MovedError) else None
        if isinstance(error, PeerLostError) and self.address is not None:
            self._lost = error
            with suppress(Exception):
                await self._node.peers.lost(self.address)
        now_s = asyncio.get_running_loop().time()
        self._until_s = self._until_s or now_s + PATIENCE_S
        if now_s > self._until_s:
            raise UnavailableError(
                f"the node that has this user does not answer: {self._lost or error}. A write may "
                "have been carried out: read, then try again"
            ) from error
        if known is None or known == self.address:
            await asyncio.sleep(AGAIN_S)
        self._node.note(self._stream, known)
        self.address = known


def together(one: CompactionReport, other: CompactionReport) -> CompactionReport:
    """Return the report of two runs, one behind the other."""
    sums = {
        name: getattr(one, name) + getattr(other, name)
        for name in CompactionReport.__struct_fields__
        if type(getattr(one, name)) in (int, float)
    }
    return msgspec.structs.replace(
        one,
        **sums,
        clusters=(*one.clusters, *other.clusters)[:CLUSTERS_REPORTED],
        cancelled=one.cancelled or other.cancelled,
    )


async def _awaited(value: object) -> object:
    return await value if asyncio.iscoroutine(value) else value


def _stream(invocation: Invocation) -> str | None:
    """Return the stream of the user whose actor carries it out; None: the system does."""
    on = invocation.on
    if on.then is not None or (on.user_id is None and invocation.name not in OF_ONE_USER):
        return None
    user_id = user_of(invocation)
    return None if user_id is None else stream_of(check_name(user_id, "user_id"))
