"""A client of the owner of a store: calls over a connection that is made again when it is lost.

Every call has a number, and waits for the result of that number. When the connection is lost the
client looks for the owner again, and sends what waits once more, in order. The owner knows a call
by client and number: what had been carried out is found in the log, and answered, not done twice.

If there is no owner any more, one of its clients becomes it: see `Owning`. Whether there is one is
told by the lock of the store, never by time. An owner that has the lock and says nothing is frozen,
or blocked: who waits gets `DeadlineExceededError`, and nothing else is done about it.
"""

import asyncio
import os
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias

import anyio
import msgspec

from eventlog.core.errors import LogLocked
from memory_actors.base.errors import (
    DeadlineExceededError,
    SystemClosedError,
    UnavailableError,
    WrongLoopError,
)
from memory_actors.base.reports import LogEntry, Moment
from memory_actors.base.settings import DEADLINE_S
from memory_actors.base.watching import check_forgets, tell, tell_to_forget
from memory_actors.sharing import frames
from memory_actors.sharing.address import (
    Address,
    Turn,
    is_missing,
    is_served,
    is_shared,
    reachable,
    read_address,
)
from memory_actors.sharing.at_once import ask_at_once
from memory_actors.sharing.calls import On, Then
from memory_actors.sharing.choices import Choices, same
from memory_actors.sharing.declaration import How
from memory_actors.sharing.declared import DECLARED
from memory_actors.sharing.frames import Link, Said
from memory_actors.sharing.values import decoder, error_bytes, error_of, packed, unpacked

WINDOW: Final = 64  # items of an iteration that are on their way
LOOK_AGAIN_S: Final = 0.02
PING_S: Final = 1.0
SILENCE_S: Final = 10.0
"""The owner's loop answers a ping within milliseconds: who says nothing for so long is frozen."""
RECONNECT_S: Final = DEADLINE_S
"""A store that nobody has opened again for so long does not come back by itself."""
MADE_S_MAX: Final = 2.0
"""The time between the lock of a store and a word of who has it."""
CLOSE_S: Final = 10.0
"""The calls in hand may take so long when the client is closed, as when the owner is."""
GIVEN_S: Final = 2.0
"""The time in which who wanted a store opens it."""
ERASURES: Final = "system.watch_erasures"
REPLAY: Final = "system.replay"
REPLAYED: Final = decoder(tuple[Moment, int])

Own: TypeAlias = Callable[[Callable[[], object]], Awaitable[Any]]
"""Opens the store in this process, and serves it; returns what closes it. Its argument gives the
store up, for who keeps it no longer than others want it."""


_Answer: TypeAlias = frames.Result | frames.Failed | frames.Yielded | frames.Called


class _Waiting:
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
        """What the caller's functions raised: it comes back as it was."""
        self.is_endless = message.operation == ERASURES or (
            message.operation in DECLARED and DECLARED[message.operation].how is How.ITERATED
        )
        self.taken = 0
        """Items that were taken."""
        self.tasks: set[asyncio.Task[None]] = set()
        """They pass on what the caller sets, and call what it gave."""

    def settle(self, value: bytes) -> None:
        """Give it its result."""
        if not self.result.done():
            self.result.set_result(value)
        self.items.put_nowait(None)

    def fail(self, error: BaseException) -> None:
        """Give it an error instead."""
        if not self.result.done():
            self.result.set_exception(error)
            self.result.exception()  # nobody may be waiting any more
        self.items.put_nowait(None)


class RefusedError(Exception):
    """The owner does not want this client."""

    def __init__(self, error: BaseException):
        super().__init__(str(error))
        self.error = error


class Client:
    """Carries out operations in the process that owns a store. It belongs to one event loop.

    `own` opens the store here, where there is no owner any more: with the choices `owning`, if they
    are not those that it asks of an owner. One that does not keep the store then gives it to the
    first who comes and does. In a forked child it connects anew.
    """

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
        self._owning = choices if owning is None else owning
        self._own = own
        self._pid: int | None = None
        """None: it begins with its first call, on the loop of that."""

    def _begin_here(self) -> None:
        self._pid = os.getpid()
        self._loop = asyncio.get_running_loop()
        self._id = secrets.token_urlsafe(9)
        self._number = 0
        self._link: Link | None = None
        self._leaving: Link | None = None
        """The connection with an owner that closes: answers come, but nothing is asked."""
        self._welcome: frames.Welcome | None = None
        self._welcomed: asyncio.Future[frames.Welcome] | None = None
        self._waiting: dict[int, _Waiting] = {}
        self._connecting: asyncio.Task[None] | None = None
        self._pings: asyncio.Task[None] | None = None
        self._followers: set[asyncio.Task[None]] = set()
        self._owned: Any = None
        self._given_up: asyncio.Task[None] | None = None
        self._given_up_s = -GIVEN_S
        self._closed = False

    # --- operations

    async def call(self, name: str, on: On, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Carry out an operation, and return its result.

        :raises DeadlineExceededError: the owner has the store and says nothing.
        :raises UnavailableError: nobody has the store, and this process may not open it.
        """
        return DECLARED[name].decoded(await self._answer(name, on, args, kwargs))

    async def _answer(
        self, name: str, on: On, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> bytes:
        waiting = await self._asked(name, on, args, kwargs)
        try:
            return await waiting.result
        finally:
            self._done(waiting)

    async def iterate(
        self, name: str, on: On, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> AsyncIterator[Any]:
        """Yield what an operation does. After a change of owners it goes on where it was."""
        decoded, seen = DECLARED[name].decoded, set[int]()
        waiting = await self._asked(name, on, args, kwargs)
        try:
            while (said := await waiting.items.get()) is not None:
                self._wanted(waiting)
                if (digest := hash(said)) in seen:
                    continue
                item = decoded(said)
                if isinstance(item, LogEntry):
                    waiting.message = _from_here(waiting.message, item.position)
                else:
                    seen.add(digest)
                yield item
            await waiting.result
        finally:
            self._done(waiting)

    def at_once(self, name: str, on: On, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Carry out an operation that is not awaited: the thread waits for it."""
        self._check_here(loop_too=False)
        kept: list[Any] = []
        message = frames.Call(0, name, on, _packed(args, kwargs, kept))
        said = ask_at_once(self.directory, self._id, self.choices, message)
        return DECLARED[name].decoded(said)

    async def replay(self, on: On, kwargs: Mapping[str, Any]) -> tuple[On, Moment, int]:
        """Open a replay; return its handle, its moment, and how much of then is lost."""
        moment, lost = REPLAYED(await self._answer(REPLAY, on, (), kwargs))
        as_of = kwargs["as_of"]
        exact = as_of if isinstance(as_of, int) else moment.at
        then = Then(exact, kwargs["dropped"])
        return (
            On(kwargs["user_id"], kwargs["agent_id"], kwargs["session_id"], then=then),
            moment,
            lost,
        )

    async def end_replay(self, on: On) -> None:
        """Let go of a replay."""
        await self._answer("system.end_replay", on, (), {})

    def watch_erasures(self, forget: Callable[[str], object]) -> None:
        """Have a function called when a user is erased."""
        check_forgets(forget)
        self._check_here()
        waiting = self._asked_now(ERASURES, On(), (), {})  # before all that is asked from now on
        task = asyncio.create_task(self._follow_erasures(waiting, forget))
        self._followers.add(task)
        task.add_done_callback(self._followers.discard)

    async def _follow_erasures(self, waiting: _Waiting, forget: Callable[[str], object]) -> None:
        read = decoder(str)
        try:
            while (said := await waiting.items.get()) is not None:
                self._wanted(waiting)
                tell_to_forget(forget, read(said))
        finally:
            self._done(waiting)

    async def close(self) -> None:
        """End the connection; an owner that this process has become closes the store."""
        if self._closed:
            return
        self._check_here()
        self._closed = True
        if self._link is not None:
            await self._answers()
        for task in (self._connecting, self._pings, *self._followers):
            if task is not None:
                task.cancel()
        self._fail(SystemClosedError("the memory system is closed: open it again"))
        if self._link is not None:
            self._link.close()
        if self._owned is not None:
            await self._owned.close()
        if self._given_up is not None:
            await self._given_up

    async def _answers(self) -> None:
        """Wait for the calls in hand, but for those that have no end by themselves."""
        calls = [one.result for one in self._waiting.values() if not one.is_endless]
        if calls:
            await asyncio.wait(calls, timeout=CLOSE_S)

    # --- asking

    async def _asked(
        self, name: str, on: On, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> _Waiting:
        """Send a call, when the owner has read most of what was sent before."""
        self._check_here()
        if self._link is not None:
            await self._link.drained()
        return self._asked_now(name, on, args, kwargs)

    def _asked_now(
        self, name: str, on: On, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> _Waiting:
        """Send a call, or keep it until there is an owner."""
        kept: list[Any] = []
        args, kwargs = _absolute(name, args, kwargs)
        self._number += 1
        message = frames.Call(
            self._number, name, on, _packed(args, kwargs, kept), _deadline_s(self._loop)
        )
        waiting = _Waiting(message, kept)
        if not self._waiting and self._link is not None:
            self._link.alive_s = self._loop.time()  # nobody was asked anything before
        self._waiting[message.number] = waiting
        waiting.tasks = {
            asyncio.create_task(self._signal(message.number, place, event))
            for place, event in enumerate(kept)
            if isinstance(event, asyncio.Event)
        }
        if self._link is None:
            self._connect()
        else:
            self._send(waiting)
        return waiting

    def _send(self, waiting: _Waiting) -> None:
        assert self._link is not None
        assert self._welcome is not None
        message = waiting.message
        if waiting.after is None:
            waiting.after = self._welcome.position
        else:
            message = msgspec.structs.replace(message, after=waiting.after)
        self._link.send(message)

    async def _signal(self, number: int, place: int, event: asyncio.Event) -> None:
        await event.wait()
        self._say(frames.Signal(number, place))

    def _say(self, message: frames.Message) -> None:
        if self._link is not None:
            self._link.send(message)

    def _wanted(self, waiting: _Waiting) -> None:
        """Let the owner send as many items more as were taken, half a window at a time."""
        waiting.taken += 1
        if waiting.taken % (WINDOW // 2) == 0 and self._link is not None:
            self._link.send(frames.More(waiting.message.number, WINDOW // 2))

    def _done(self, waiting: _Waiting) -> None:
        """Forget a call; tell the owner, if it has not answered."""
        number = waiting.message.number
        self._waiting.pop(number, None)
        for task in list(waiting.tasks):
            task.cancel()
        if not waiting.result.done() or waiting.result.cancelled():
            waiting.result.cancel()
            if self._link is not None and waiting.after is not None:
                self._link.send(frames.Cancel(number))

    def _check_here(self, *, loop_too: bool = True) -> None:
        if os.getpid() != self._pid and loop_too:
            self._forked()
        if self._closed:
            raise SystemClosedError("the memory system is closed: open it again")
        if loop_too and asyncio.get_running_loop() is not self._loop:
            raise WrongLoopError(
                "the memory system was opened on another event loop: call it there, or open it here"
            )

    def _forked(self) -> None:
        """Begin, or begin anew in a child process: what was open is its parent's."""
        if self._pid is not None and self._link is not None:
            self._link.close_in_child()
        self._begin_here()

    # --- hearing

    def _heard(self, link: Link, message: Said) -> None:
        if isinstance(message, _Answer):
            if (waiting := self._waiting.get(message.number)) is not None:
                self._answered(waiting, message)
        elif isinstance(message, frames.Welcome):
            self._settle_welcome(message, None)
        elif isinstance(message, frames.Refused):
            self._settle_welcome(None, RefusedError(error_of(message.error)))
        elif isinstance(message, frames.Closing) and link is self._link:
            self._leaving, self._link = link, None

    def _answered(self, waiting: _Waiting, message: "_Answer") -> None:
        if isinstance(message, frames.Result):
            waiting.settle(message.value)
        elif isinstance(message, frames.Failed):
            raised = waiting.raised.get(message.error)
            self._failed(waiting, raised or error_of(message.error))
        elif isinstance(message, frames.Yielded):
            waiting.items.put_nowait(message.value)
        else:
            self._called(waiting, message)

    def _failed(self, waiting: _Waiting, error: BaseException) -> None:
        if isinstance(error, SystemClosedError) and not waiting.message.on.then:
            return  # the owner is closing: it is asked of the next one
        waiting.fail(error)

    def _called(self, waiting: _Waiting, message: frames.Called) -> None:
        """Call a function that was given as an argument, and say when it has returned."""
        values = unpacked(message.values, _nothing)
        task = asyncio.create_task(self._hear(waiting, waiting.kept[message.argument], values))
        waiting.tasks.add(task)
        task.add_done_callback(waiting.tasks.discard)

    async def _hear(self, waiting: _Waiting, called: Callable[..., object], values: Any) -> None:
        try:
            await tell(called, *values)
            error = None
        except Exception as raised:
            error = error_bytes(raised)
            waiting.raised[error] = raised
        await asyncio.sleep(0)  # what a signal's handler leaves to the loop counts as well
        for place, event in enumerate(waiting.kept):
            if isinstance(event, asyncio.Event) and event.is_set():
                self._say(frames.Signal(waiting.message.number, place))
        self._say(frames.Heard(waiting.message.number, error))

    def _settle_welcome(self, welcome: frames.Welcome | None, error: BaseException | None) -> None:
        if self._welcomed is None or self._welcomed.done():
            return
        if welcome is None:
            self._welcomed.set_exception(error or ConnectionError("the connection was lost"))
        else:
            self._welcomed.set_result(welcome)

    def _lost(self, link: Link, _: Exception | None) -> None:
        self._settle_welcome(None, None)
        if link in (self._link, self._leaving):  # not one that was never welcome
            self._link = self._leaving = None
            if not self._closed:
                self._connect()

    # --- connecting

    def _connect(self) -> None:
        """Look for the owner, in the background; what waits is sent then."""
        if self._connecting is None:
            self._connecting = asyncio.create_task(self._connected())

    async def _connected(self) -> None:
        try:
            if await self.start() is not None:
                await self.join()
            for waiting in [self._waiting[number] for number in sorted(self._waiting)]:
                self._send(waiting)
        except Exception as error:
            self._fail(error)
        finally:
            self._connecting = None

    def _fail(self, error: BaseException) -> None:
        waiting, self._waiting = list(self._waiting.values()), {}
        for one in waiting:
            one.fail(error)

    async def start(self) -> Any:
        """Find the owner and connect, or become it; return the store if it is open here.

        :raises InvalidInputError: the owner has made other choices.
        :raises DeadlineExceededError: a process has the store and says nothing.
        :raises LogLocked: a process has it for itself.
        :raises UnavailableError: nobody has it, and this process may not open it.
        """
        self._check_here()
        begun_s, is_new = self._loop.time(), is_missing(self.directory)
        while True:
            try:
                return await self.join()
            except RefusedError as refused:
                if not isinstance(refused.error, SystemClosedError):
                    raise refused.error from None
            except OSError:
                pass
            late_s = self._loop.time() - begun_s
            try:
                if (owned := await self._own_in_turn()) is not None:
                    return owned
            except LogLocked:
                if late_s > MADE_S_MAX or not (is_new or self._welcome is not None):
                    raise
            if late_s > RECONNECT_S:
                raise UnavailableError(
                    f"nobody serves the store {self.directory}: open it in one process with the "
                    "settings that it had"
                )
            await asyncio.sleep(LOOK_AGAIN_S)

    async def join(self) -> None:
        """Connect with the owner.

        :raises OSError: there is none.
        :raises DeadlineExceededError: it says nothing.
        """
        self._check_here()
        address = read_address(self.directory)
        if address is None:
            raise FileNotFoundError(self.directory)
        link = await self._linked(address)
        self._welcomed = self._loop.create_future()
        secret, pid = address.secret, os.getpid()
        hello = frames.Hello(frames.PROTOCOL, secret, self._id, pid, self.choices, self.keeps)
        link.send(hello)
        try:
            async with asyncio.timeout(SILENCE_S):
                self._welcome = await self._welcomed
        except TimeoutError:
            link.abort()
            raise DeadlineExceededError(_silent(address.pid)) from None
        except RefusedError as refused:
            link.abort()
            if read_address(self.directory) != address:  # it was the last owner's
                raise ConnectionRefusedError(str(refused)) from None
            raise
        except BaseException:
            link.abort()
            raise
        self._link = link
        if self._pings is None:
            self._pings = asyncio.create_task(self._watch())

    async def _linked(self, address: Address) -> Link:
        with reachable(self.directory, address) as (found, where):
            found.setblocking(False)
            try:
                await self._loop.sock_connect(found, where)
                _, link = await self._loop.create_connection(
                    lambda: Link(self._heard, self._lost), sock=found
                )
            except BaseException:
                found.close()
                raise
        return link

    async def _own_in_turn(self) -> Any:
        """Open the store here, if nobody has it and this process may; return None if not.

        A client may, if it was opened with what the owner was: any other would be another store.
        """
        may_own = self._welcome is None or same(self._owning, self._welcome.choices)
        may_own = may_own and self._loop.time() - self._given_up_s > GIVEN_S
        turn, may_end = Turn(self.directory), False
        if not may_own or not turn.taken():
            return None
        try:
            if is_served(self.directory):
                return None
            may_end = is_shared(self.directory)  # asked before: who closes is gone soon after
            self._owned = await self._own(self._give_up)
            return self._owned
        except LogLocked:
            if not may_end:
                raise
            return None
        finally:
            turn.ended()

    def _give_up(self) -> None:
        """Close the store that is open here: somebody came who keeps it, and is asked from now."""
        owned, self._owned = self._owned, None
        if owned is not None:
            self._given_up_s = float("inf")
            self._given_up = asyncio.create_task(self._given(owned))

    async def _given(self, owned: Any) -> None:
        try:
            await owned.close()
        finally:
            self._given_up_s = self._loop.time()

    async def _watch(self) -> None:
        """Ask an owner that says nothing whether it is there; give up on one that is not."""
        while True:
            await asyncio.sleep(PING_S)
            if not self._waiting or self._link is None:
                continue
            silent_s = self._loop.time() - self._link.alive_s
            if silent_s > SILENCE_S and self._welcome is not None:
                self._fail(DeadlineExceededError(_silent(self._welcome.pid)))
            elif silent_s > PING_S:
                self._link.send(frames.Ping())


def _silent(pid: int) -> str:
    return (
        f"process {pid} has the store and has said nothing for {SILENCE_S:g} s: it is stopped, or "
        "its event loop is blocked. A write may still be carried out; read, then retry"
    )


def _deadline_s(loop: asyncio.AbstractEventLoop) -> float | None:
    until_s = anyio.current_effective_deadline()
    return None if until_s == float("inf") else max(0.0, until_s - loop.time())


def _packed(args: Sequence[Any], kwargs: Mapping[str, Any], kept: list[Any]) -> bytes:
    def keep(one: Any) -> int:
        kept.append(one)
        return len(kept) - 1

    return packed([list(args), dict(kwargs)], keep)


def _absolute(
    name: str, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[Sequence[Any], Mapping[str, Any]]:
    """Return arguments with paths as they are for every process."""
    declared = DECLARED.get(name)
    if declared is None or declared.path is None:
        return args, kwargs
    place, parameter = declared.path
    if len(args) > place:
        return [*args[:place], _whole(args[place]), *args[place + 1 :]], kwargs
    return args, {**kwargs, parameter: _whole(kwargs.get(parameter))}


def _whole(path: Any) -> Any:
    return str(Path(path).absolute()) if isinstance(path, str | Path) and str(path) else path


def _from_here(message: frames.Call, position: int) -> frames.Call:
    """Return the call that goes on behind a position."""
    args, kwargs = unpacked(message.arguments, _nothing)
    return msgspec.structs.replace(
        message, arguments=packed([args, {**kwargs, "after": position}], _nothing)
    )


def _nothing(*_: Any) -> Any:
    return None
