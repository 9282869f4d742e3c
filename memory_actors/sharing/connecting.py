"""The connection with the owner of a store: found, lost, made again; or this process becomes it.

Whether there is an owner is told by the lock of the store, never by time. If there is none, one of
its clients takes the store over, in turn, so that the others do not load what an owner needs. An
owner that has the lock and says nothing is frozen, or blocked: nothing is done about it.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Final, TypeAlias

from eventlog.core.errors import LogLocked
from eventlog.core.waiting import at_loop_end
from memory_actors.api.parts import same
from memory_actors.base.errors import DeadlineExceededError, SystemClosedError, UnavailableError
from memory_actors.base.settings import DEADLINE_S
from memory_actors.sharing import frames
from memory_actors.sharing.address import (
    LOOK_AGAIN_S,
    Address,
    OpeningTurn,
    is_missing,
    is_served,
    is_shared,
    make_lockable,
    reachable,
)
from memory_actors.sharing.frames import FrameLink
from memory_actors.sharing.invocations import OWNED_HERE
from memory_actors.sharing.values import error_of

if TYPE_CHECKING:
    from memory_actors.api.system import MemorySystem
    from memory_actors.sharing.client import Client

PING_S: Final = 1.0
SILENCE_S: Final = 10.0
"""The owner's loop answers a ping within milliseconds: who says nothing for so long is frozen."""
RECONNECT_S: Final = DEADLINE_S
"""A store that nobody has opened again for so long does not come back by itself."""
MADE_S_MAX: Final = 2.0
"""The time between the lock of a store and a word of who has it."""
GIVEN_S: Final = 2.0
"""The time in which who wanted a store opens it."""

Own: TypeAlias = Callable[[Callable[[], object]], Awaitable["MemorySystem"]]
"""Opens the store in this process, and serves it; returns what closes it. Its argument gives the
store up, for who keeps it no longer than others want it."""


class RefusedError(Exception):
    """The owner does not want this client."""

    def __init__(self, error: BaseException):
        super().__init__(str(error))
        self.error = error


class Connection:
    """The connection of a client. It belongs to one event loop."""

    def __init__(self, client: "Client"):
        self.link: FrameLink | None = None
        """None: there is none at this moment."""
        self._client, self._directory = client, client.directory
        self._loop = asyncio.get_running_loop()
        self._leaving: FrameLink | None = None
        """The connection with an owner that closes: answers come, but nothing is asked."""
        self._welcome: frames.Welcome | None = None
        self._joining: tuple[FrameLink, asyncio.Future[frames.Welcome]] | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._pings: asyncio.Task[None] | None = None
        self._owned: MemorySystem | None = None
        self._given_up: asyncio.Task[None] | None = None
        self._given_up_s = -GIVEN_S
        self._closed = False
        self._cancel_end = at_loop_end(self.close_socket)

    @property
    def position(self) -> int:
        """The position of the log when the owner let this client in."""
        assert self._welcome is not None
        return self._welcome.position

    def say(self, message: frames.Message) -> None:
        """Send a message, if there is a connection."""
        if self.link is not None:
            self.link.send(message)

    def begin_waiting(self) -> None:
        """Take note that the owner is asked something: from now on it has something to say."""
        if self.link is not None:
            self.link.alive_s = self._loop.time()

    def close_socket(self) -> None:
        """Close the socket past its loop: that has ended, or is the parent's in a forked child."""
        for link in self._links():
            link.close_socket()

    def _links(self) -> list[FrameLink]:
        return [link for link in (self.link, self._leaving) if link is not None]

    async def close(self) -> None:
        """End it; an owner that this process has become closes the store."""
        self._closed = True
        self._cancel_end()
        running = [task for task in (self._connecting, self._pings) if task is not None]
        for task in running:
            task.cancel()
        if running:
            await asyncio.wait(running)
        for link in self._links():
            link.close()
        if self._owned is not None:
            await self._owned.close()
        if self._given_up is not None:
            await self._given_up

    # --- hearing

    def _heard(self, link: FrameLink, message: frames.Said) -> None:
        if isinstance(message, frames.Welcome):
            self._settle_welcome(link, message)
        elif isinstance(message, frames.Refused):
            self._settle_welcome(link, RefusedError(error_of(message.error)))
        elif not isinstance(message, frames.Closing):
            self._client.heard(message)
        elif link is self.link:
            self._leaving, self.link = link, None
        else:
            link.close()  # it came with the welcome: `join` finds that it has ended

    def _settle_welcome(self, link: FrameLink, outcome: frames.Welcome | Exception) -> None:
        if self._joining is None or self._joining[0] is not link or self._joining[1].done():
            return
        if isinstance(outcome, Exception):
            self._joining[1].set_exception(outcome)
        else:
            self._joining[1].set_result(outcome)

    def _lost(self, link: FrameLink, _: Exception | None) -> None:
        self._settle_welcome(link, ConnectionError("the connection was lost"))
        if link is self._leaving:
            self._leaving = None
        elif link is self.link:
            self.link = None
        else:
            return  # it was never welcome
        if self.link is None and not self._closed:
            self.connect()

    # --- connecting

    def connect(self) -> None:
        """Look for the owner, in the background; what waits is sent then."""
        if self._connecting is None:
            self._connecting = asyncio.create_task(self._connected())

    async def _connected(self) -> None:
        try:
            while self.link is None:  # it may be lost while all is sent again
                await self.start_and_join()
                await self._client.send_all()
        except Exception as error:
            self._client.fail(error)
        finally:
            self._connecting = None

    async def start(self) -> "MemorySystem | None":
        """Find the owner and connect, or become it; return the store if it is open here.

        :raises InvalidInputError: the owner has made other choices.
        :raises DeadlineExceededError: a process has the store and says nothing.
        :raises LogLocked: a process has it for itself.
        :raises UnavailableError: nobody has it, and this process may not open it.
        """
        begun_s, is_new = self._loop.time(), is_missing(self._directory)
        while not await self._joined():
            late_s = self._loop.time() - begun_s
            try:
                if (owned := await self._own_in_turn()) is not None:
                    return owned
            except LogLocked:
                if late_s > MADE_S_MAX or not (is_new or self._welcome is not None):
                    raise
            if late_s > RECONNECT_S:
                raise UnavailableError(
                    f"nobody serves the store {self._directory}: open it in one process with the "
                    "settings that it had"
                )
            await asyncio.sleep(LOOK_AGAIN_S)
        return None

    async def start_and_join(self) -> "MemorySystem | None":
        """Connect with the owner, who may be this process; return a store that is not shared."""
        while (owned := await self.start()) is not None:
            if not owned._is_shared:  # noqa: SLF001 - a full disk had no room for its address
                return owned
            if await self._joined():  # or it was given up at once: there is another owner soon
                break
        return None

    async def _joined(self) -> bool:
        """Connect with the owner, and return whether there is one that does not close."""
        try:
            await self.join()
        except DeadlineExceededError:  # an OSError too, but somebody has the store
            raise
        except RefusedError as refused:
            if not isinstance(refused.error, SystemClosedError):
                raise refused.error from None
            return False
        except OSError:
            return False
        return True

    async def join(self) -> None:
        """Connect with the owner.

        :raises OSError: there is none.
        :raises DeadlineExceededError: it says nothing.
        """
        client = self._client
        address = client.address()
        if address is None:
            raise FileNotFoundError(self._directory)
        here = OWNED_HERE.get(address.secret)
        if here is not None and not here.loop.is_running():  # nobody would answer
            await asyncio.to_thread(here.release)
            raise ConnectionRefusedError(self._directory)
        link = await self._linked(address)
        welcomed: asyncio.Future[frames.Welcome] = self._loop.create_future()
        self._joining = link, welcomed
        link.send(client.hello(address.secret))
        try:
            async with asyncio.timeout(SILENCE_S):
                self._welcome = await welcomed
        except TimeoutError:
            link.abort()
            raise DeadlineExceededError(_silent(address.pid)) from None
        except RefusedError as refused:
            link.abort()
            if client.address() != address:  # it was the last owner's
                raise ConnectionRefusedError(str(refused)) from None
            raise
        except BaseException:
            link.abort()
            raise
        if link.is_closing:
            raise ConnectionResetError("the owner has ended")
        self.link = link
        if self._pings is None:
            self._pings = asyncio.create_task(self._watch())

    async def _linked(self, address: Address) -> FrameLink:
        with reachable(self._directory, address) as (found, where):
            found.setblocking(False)
            try:
                await self._loop.sock_connect(found, where)
                _, link = await self._loop.create_connection(
                    lambda: FrameLink(self._heard, self._lost), sock=found
                )
            except BaseException:
                found.close()
                raise
        return link

    async def _own_in_turn(self) -> "MemorySystem | None":
        """Open the store here, if nobody has it and this process may; return None if not.

        A client may, if it was opened with what the owner was: any other would be another store.
        """
        client = self._client
        may_own = self._welcome is None or same(client.owning, self._welcome.choices)
        may_own = may_own and self._loop.time() - self._given_up_s > GIVEN_S
        if not may_own:
            return None
        turn, may_end = OpeningTurn(self._directory), False
        is_made = make_lockable(self._directory)
        if not turn.taken():
            return None
        try:
            if is_served(self._directory):
                return None
            may_end = is_shared(self._directory)  # asked before: who closes is gone soon after
            self._owned = await client.own(self._give_up)
            return self._owned
        except LogLocked:
            if not may_end:
                raise
            return None
        except BaseException:
            if is_made:
                with suppress(OSError):  # it has something in it
                    self._directory.rmdir()
            raise
        finally:
            turn.ended()

    def _give_up(self) -> None:
        """Close the store that is open here: somebody came who keeps it, and is asked from now."""
        owned, self._owned = self._owned, None
        if owned is not None:
            self._given_up_s = float("inf")
            self._given_up = asyncio.create_task(self._given(owned))

    async def _given(self, owned: "MemorySystem") -> None:
        try:
            await owned.close()
        finally:
            self._given_up_s = self._loop.time()

    def _silence(self, pid: int) -> Exception:
        return DeadlineExceededError(_silent(pid))

    async def _watch(self) -> None:
        """Ask an owner that says nothing whether it is there; give up on one that is not."""
        while True:
            await asyncio.sleep(PING_S)
            if not self._client.is_waiting or self.link is None:
                continue
            silent_s = self._loop.time() - self.link.alive_s
            if silent_s > SILENCE_S and self._welcome is not None:
                self._client.fail(self._silence(self._welcome.pid))
                self.link.abort()  # what it says later is about calls that nobody waits for
            elif silent_s > PING_S:
                self.link.send(frames.Ping())


def _silent(pid: int) -> str:
    return (
        f"process {pid} has the store and has said nothing for {SILENCE_S:g} s: it is stopped, or "
        "its event loop is blocked. A write may still be carried out; read, then retry"
    )
