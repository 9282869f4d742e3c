"""A client of the owner of a store: calls over a connection that is made again when it is lost.

Every call has a number, and waits for the result of that number. When there is a connection anew,
what waits is sent once more, in order. The owner knows a call by client and number: what had been
carried out is found in the log, and answered, not done twice. See connecting.py and retrying.py.
"""

import asyncio
import os
import secrets
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple, TypeAlias

import anyio
import msgspec

from eventlog.core.records import OnDropped
from memory_actors.api.parts import Choices
from memory_actors.base.errors import SystemClosedError, WrongLoopError
from memory_actors.base.on import On, Then
from memory_actors.base.records import AsOf
from memory_actors.base.reports import LogEntry, Moment
from memory_actors.base.watching import check_forgets, tell, tell_to_forget
from memory_actors.sharing import frames
from memory_actors.sharing.address import Address, read_address
from memory_actors.sharing.connecting import Connection, Own
from memory_actors.sharing.declaration import How, Invocation
from memory_actors.sharing.generated_operations import DECLARED
from memory_actors.sharing.invocations import ERASURES, ask_at_once, call_of, nothing
from memory_actors.sharing.values import decoder, error_bytes, error_of, packed, unpacked

if TYPE_CHECKING:
    from memory_actors.api.system import MemorySystem

CLOSE_S: Final = 10.0
"""The calls in hand may take so long when the client is closed, as when the owner is."""
FOLLOW_AGAIN_S: Final = 1.0
REPLAY: Final = "system.replay"
REPLAYED: Final = decoder(tuple[Moment, int])

Answer: TypeAlias = frames.Answered | frames.CallFailed | frames.Yielded | frames.Called


class Asked(NamedTuple):
    """The name of a call among those of its client, and whether it was asked before."""

    number: int
    after: int | None = None
    """The position of the log behind which it was first asked; None: it is asked for the first
    time."""


class Waiting:
    """A call that has no result yet."""

    def __init__(self, message: frames.Call, kept: list[Any]):
        self.message = message
        self.kept = kept
        """The functions and events among its arguments."""
        self.after: int | None = None
        """The position of the log when it was first sent."""
        self.result: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self.items: asyncio.Queue[bytes | None] = asyncio.Queue()
        """Of an iteration; None when it ends."""
        self.raised: dict[bytes, BaseException] = {}
        """The exceptions that the caller's functions raised: they come back as they were."""
        self.is_endless = message.operation == ERASURES or (
            message.operation in DECLARED and DECLARED[message.operation].how is How.ITERATED
        )
        self.taken = 0
        """Items that were taken."""
        self.tasks: set[asyncio.Task[None]] = set()
        """They pass on what the caller sets, and call what it gave."""

    def events(self) -> Iterator[tuple[int, asyncio.Event]]:
        """Yield the events among its arguments, each with its number."""
        for place, one in enumerate(self.kept):
            if isinstance(one, asyncio.Event):
                yield place, one

    def settle(self, value: bytes) -> None:
        """Give it its result."""
        if not self.result.done():
            self.result.set_result(value)
        self.items.put_nowait(None)

    def fail(self, error: BaseException) -> None:
        """Set an error as the result."""
        if not self.result.done():
            self.result.set_exception(error)
            self.result.exception()  # nobody may be waiting any more
        self.items.put_nowait(None)


class Client:
    """Carries out operations in the process that owns a store. It belongs to one event loop.

    `own` opens the store here, where there is no owner any more: with the choices `owning`, if they
    are not those that it asks of an owner. One that does not keep the store then gives it to the
    first who comes and does. In a forked child, and on another loop when its own has ended, it
    connects anew.
    """

    CONNECTION: ClassVar[type[Connection]] = Connection

    def __init__(
        self,
        directory: Path,
        choices: Choices,
        own: Own,
        *,
        owning: Choices | None = None,
        keeps: bool = True,
    ):
        self.directory = directory
        self.keeps = keeps
        self.choices = choices
        self.owning = choices if owning is None else owning
        """The choices with which `own` opens the store."""
        self.own = own
        self._pid: int | None = None
        """None: it begins with its first call, on the loop of that."""
        self._closed = False

    def _begin_here(self) -> None:
        self._pid = os.getpid()
        self._loop = asyncio.get_running_loop()
        self._id = self._name()
        self._number = 0
        self._waiting: dict[int, Waiting] = {}
        self._followers: set[asyncio.Task[None]] = set()
        self._at = self.CONNECTION(self)
        self._closed = False

    def _name(self) -> str:
        return secrets.token_urlsafe(9)

    def address(self) -> Address | None:
        """Return where the owner listens; None: nobody says so."""
        return read_address(self.directory)

    def hello(self, secret: str) -> frames.Hello:
        """Return the first words to an owner."""
        return frames.Hello(
            frames.PROTOCOL, secret, self._id, os.getpid(), self.choices, self.keeps
        )

    @property
    def is_waiting(self) -> bool:
        """True if an answer is waited for."""
        return bool(self._waiting)

    async def start(self) -> "MemorySystem | None":
        """Find the owner and connect, or become it; see `Connection.start`.

        One that does not keep the store is a client also of that, if it is shared at all.
        """
        self._check_here()
        return await (self._at.start() if self.keeps else self._at.start_and_join())

    # --- operations

    async def call(self, invocation: Invocation) -> object:
        """Carry out an operation, and return its result.

        :raises DeadlineExceededError: the owner has the store and says nothing.
        :raises UnavailableError: nobody has the store, and this process may not open it.
        """
        return DECLARED[invocation.name].decoded(await self._answer(invocation))

    async def _answer(self, invocation: Invocation, asked: Asked | None = None) -> bytes:
        waiting = await self._asked(invocation, asked)
        try:
            return await waiting.result
        finally:
            self._done(waiting)

    async def iterate(
        self, invocation: Invocation, asked: Asked | None = None
    ) -> AsyncIterator[object]:
        """Yield what an operation does. After a change of owners it goes on where it was."""
        decoded, seen, position = DECLARED[invocation.name].decoded, set[int](), 0
        waiting = await self._asked(invocation, asked)
        try:
            while (said := await waiting.items.get()) is not None:
                self._wanted(waiting)
                if (digest := hash(said)) in seen:
                    continue
                item = decoded(said)
                if not isinstance(item, LogEntry):
                    seen.add(digest)
                elif self.keeps and item.position <= position:  # of the connection before
                    continue
                elif self.keeps:
                    position = item.position
                    args, kwargs = unpacked(waiting.message.arguments, nothing)
                    waiting.message.arguments = packed(
                        [args, {**kwargs, "after": position}], nothing
                    )
                yield item
            await waiting.result
        finally:
            self._done(waiting)

    def at_once(self, invocation: Invocation) -> object:
        """Carry out an operation that is not awaited: the thread waits for it."""
        self._check_here(loop_too=False)
        return ask_at_once(self.directory, self.choices, invocation, self.address)

    async def replay(self, on: On, as_of: AsOf, dropped: OnDropped) -> tuple[On, Moment, int]:
        """Open a replay of a user; return its handle, its moment, and how much of then is lost."""
        said = {"user_id": on.user_id, "as_of": as_of, "dropped": dropped}
        said |= {"agent_id": on.agent_id, "session_id": on.session_id}
        moment, lost = REPLAYED(await self._answer(Invocation(REPLAY, kwargs=said)))
        then = Then(as_of if isinstance(as_of, int) else moment.at, dropped)
        return msgspec.structs.replace(on, then=then), moment, lost

    async def end_replay(self, on: On) -> None:
        """Let go of a replay."""
        await self._answer(Invocation("system.end_replay", on))

    def watch_erasures(self, forget: Callable[[str], object]) -> None:
        """Have a function called when a user is erased."""
        check_forgets(forget)
        self._check_here()
        waiting = self._asked_now(Invocation(ERASURES))  # before all that is asked from now on
        task = asyncio.create_task(self._follow_erasures(waiting, forget))
        self._followers.add(task)
        task.add_done_callback(self._followers.discard)

    async def _follow_erasures(self, waiting: Waiting, forget: Callable[[str], object]) -> None:
        read = decoder(str)
        while True:
            try:
                while (said := await waiting.items.get()) is not None:
                    self._wanted(waiting)
                    tell_to_forget(forget, read(said))
            finally:
                self._done(waiting)
            await asyncio.sleep(FOLLOW_AGAIN_S)  # the owner was silent, or nobody had the store
            waiting = self._asked_now(Invocation(ERASURES))

    async def close(self) -> None:
        """End the connection; an owner that this process has become closes the store."""
        if self._closed or not self._is_begun():  # there is nothing to close
            self._closed = True
            return
        self._check_here()
        self._closed = True
        calls = [one.result for one in self._waiting.values() if not one.is_endless]
        if self._at.link is not None and calls:
            await asyncio.wait(calls, timeout=CLOSE_S)
        for task in self._followers:
            task.cancel()
        self.fail(SystemClosedError("the memory system is closed: open it again"))
        await self._at.close()

    # --- asking

    async def _asked(self, invocation: Invocation, asked: Asked | None) -> Waiting:
        """Send a call, when the owner has read most of what was sent before."""
        self._check_here()
        if self._at.link is not None:
            await self._at.link.drained()
        return self._asked_now(invocation, asked)

    def _asked_now(self, invocation: Invocation, asked: Asked | None = None) -> Waiting:
        """Send a call, or keep it until there is an owner."""
        if asked is None:
            self._number += 1
            asked = Asked(self._number)
        message, kept = call_of(asked.number, invocation, _deadline_s())
        waiting = Waiting(message, kept)
        waiting.after = asked.after
        if not self._waiting:
            self._at.begin_waiting()
        self._waiting[message.number] = waiting
        waiting.tasks = {
            asyncio.create_task(self._signal(message.number, place, event))
            for place, event in waiting.events()
        }
        if self._at.link is None:
            self._at.connect()
        else:
            self._send(waiting)
        return waiting

    async def send_all(self) -> None:
        """Send what waits, in order, as fast as the owner reads: there is a connection anew."""
        link = self._at.link
        for _, waiting in sorted(self._waiting.items()):
            if link is None or self._at.link is not link:
                return
            if not waiting.result.done():
                self._send(waiting)
            await link.drained()

    def _send(self, waiting: Waiting) -> None:
        message = waiting.message
        if waiting.after is None:
            waiting.after = self._at.position
        else:
            message = msgspec.structs.replace(message, after=waiting.after)
        self._at.say(message)
        self._say_set(waiting)

    def _say_set(self, waiting: Waiting) -> None:
        for place, event in waiting.events():
            if event.is_set():
                self._at.say(frames.Signal(waiting.message.number, place))

    async def _signal(self, number: int, place: int, event: asyncio.Event) -> None:
        await event.wait()
        self._at.say(frames.Signal(number, place))

    def _wanted(self, waiting: Waiting) -> None:
        """Let the owner send as many items more as were taken, half a window at a time."""
        waiting.taken += 1
        if waiting.taken % (frames.WINDOW // 2) == 0:
            self._at.say(frames.More(waiting.message.number, frames.WINDOW // 2))

    def _done(self, waiting: Waiting) -> None:
        number = waiting.message.number
        self._waiting.pop(number, None)
        for task in list(waiting.tasks):
            task.cancel()
        if not waiting.result.done() or waiting.result.cancelled():
            waiting.result.cancel()
            if waiting.after is not None:
                self._at.say(frames.Cancel(number))

    def _is_begun(self) -> bool:
        """Say whether it has begun in this process, on a loop that has not ended."""
        return os.getpid() == self._pid and not self._loop.is_closed()

    def _check_here(self, *, loop_too: bool = True) -> None:
        if loop_too and not self._is_begun():
            if self._pid is not None:
                self._at.close_socket()
            self._begin_here()
        if self._closed:
            raise SystemClosedError("the memory system is closed: open it again")
        if loop_too and asyncio.get_running_loop() is not self._loop:
            raise WrongLoopError

    # --- hearing

    def heard(self, message: frames.Said) -> None:
        """Handle a message of the owner about a call."""
        if not isinstance(message, Answer) or message.number not in self._waiting:
            return
        waiting = self._waiting[message.number]
        if isinstance(message, frames.Answered):
            waiting.settle(message.value)
        elif isinstance(message, frames.CallFailed):
            error = waiting.raised.get(message.error) or error_of(message.error)
            is_closing = isinstance(error, SystemClosedError) and self._at.link is None
            if waiting.message.on.then or not is_closing:  # else it is asked of the next owner
                waiting.fail(error)
        elif isinstance(message, frames.Yielded):
            waiting.items.put_nowait(message.value)
        else:
            task = asyncio.create_task(self._called(waiting, message))
            waiting.tasks.add(task)
            task.add_done_callback(waiting.tasks.discard)

    async def _called(self, waiting: Waiting, message: frames.Called) -> None:
        """Call a function that was given as an argument, and say when it has returned."""
        try:
            await tell(waiting.kept[message.argument], *unpacked(message.values, nothing))
            error = None
        except Exception as raised:
            error = error_bytes(raised)
            waiting.raised[error] = raised
        await asyncio.sleep(0)  # what a signal's handler leaves to the loop counts as well
        self._say_set(waiting)
        self._at.say(frames.Heard(waiting.message.number, error))

    def fail(self, error: BaseException) -> None:
        """End all calls that wait: there is no connection, and will be none."""
        waiting, self._waiting = list(self._waiting.values()), {}
        for one in waiting:
            one.fail(error)


def _deadline_s() -> float | None:
    until_s = anyio.current_effective_deadline()
    if until_s == float("inf"):
        return None
    return max(0.0, until_s - asyncio.get_running_loop().time())
