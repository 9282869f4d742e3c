"""The owner's side of a call: from its name and bytes to a method of the API, and back.

A peer has no more rights than a caller in this process: only what generated_operations.py names can
be called, on handles that are made here, and every argument is checked by the operation itself.

Functions that a client gave as arguments are called back. Whoever calls one waits until the client
has carried it out, and gets what it raised: an operation that is to stop does not begin more
meanwhile. On the loop it returns something to be awaited, on another thread it returns when it has
been heard. A client that is stopped holds nobody up for long.
"""

import asyncio
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Callable, Generator
from contextlib import suppress
from functools import partial
from inspect import isasyncgen
from typing import Any, Final

import msgspec

from eventlog import MeasuredStore, OnDropped, require
from memory_actors.api.operations import member_of
from memory_actors.api.system import MemorySystem, PastMemory, past_memory
from memory_actors.api.user import UserMemory
from memory_actors.base.client_call import ASKED, ClientCall
from memory_actors.base.errors import DeadlineExceededError, InvalidInputError, UnavailableError
from memory_actors.base.on import On, Then
from memory_actors.base.records import AsOf
from memory_actors.base.streams import stream_of
from memory_actors.sharing import frames
from memory_actors.sharing.client import REPLAY
from memory_actors.sharing.declaration import Caller, How, Invocation
from memory_actors.sharing.generated_operations import DECLARED
from memory_actors.sharing.invocations import ERASURES, FORGET, invocation_of
from memory_actors.sharing.retrying import RetriedScope, done
from memory_actors.sharing.values import error_of, packed, result, unpacked
from memory_actors.users.handles.scope import Scope

HEARD_S_MAX: Final = 5.0
"""The work of many users may wait for one client that watches it: no longer than for a pause."""


class _Hearing:
    """A call that the client has not answered yet."""

    def __init__(self) -> None:
        self._answered = asyncio.Event()
        self._error: BaseException | None = None

    def __await__(self) -> Generator[object, None, None]:
        return self.heard().__await__()

    async def heard(self) -> None:
        """Wait for the answer, and raise what the function raised."""
        try:
            async with asyncio.timeout(HEARD_S_MAX):
                await self._answered.wait()
        except TimeoutError:
            raise DeadlineExceededError(
                f"the client has not answered in {HEARD_S_MAX:g} s"
            ) from None
        if self._error is not None:
            raise self._error

    def answer(self, error: BaseException | None) -> None:
        """Note that the function has returned, or what it raised."""
        self._error = error
        self._answered.set()


def no_functions(*_: object) -> Any:
    """Refuse a function.

    :raises InvalidInputError: always.
    """
    raise InvalidInputError("a function cannot be given here")


HANDLES_MAX: Final = 1024  # of users, kept between calls: making one takes 30 us
REPLAYS_MAX: Final = 64  # of one client, open at once: each holds a user's state and indexes


class Answering:
    """Answers calls on one memory system, whoever they come from."""

    def __init__(self, memory: MemorySystem):
        self.memory = memory
        self._handles: OrderedDict[On, UserMemory] = OrderedDict()
        self._erased: set[asyncio.Queue[str]] = set()
        memory.watch_erasures(self.tell)

    @property
    def position(self) -> int:
        """The last position of the log."""
        return require(self.memory._services.log, MeasuredStore).statistics().last_position  # noqa: SLF001

    def at_once(self, call: frames.Call) -> bytes:
        """Answer a call that is not awaited."""
        return result(self.carried_out(self.user(call.on), invocation_of(call, no_functions)))

    def user(self, on: On) -> UserMemory | None:
        """Return the handle of a user; None: the system is meant."""
        if on.user_id is None:
            return None
        if (handle := self._handles.get(on)) is not None:
            self._handles.move_to_end(on)
            return handle
        handle = UserMemory(Scope(self.memory._services, on))  # noqa: SLF001 - the owner's side
        self._handles[on] = handle
        if len(self._handles) > HANDLES_MAX:
            self._handles.popitem(last=False)
        return handle

    async def forget(self, user_id: str) -> None:
        """Let go of what this process keeps of a user whom another node erases."""
        await self.memory._erasing.forget(user_id)  # noqa: SLF001 - no operation of callers

    async def user_again(self, on: On, call: str, after: int) -> UserMemory | None:
        """Return the handle for a call that is asked again: what was done is not done twice.

        `call` is its name in the log, `after` a position that it was first asked behind.
        """
        if on.user_id is not None:
            services = self.memory._open  # noqa: SLF001 - the owner's side
            was = await done(services, stream_of(on.user_id), call, after)
            if was is not None:
                return UserMemory(RetriedScope(services, on, was))
        return self.user(on)

    def carried_out(self, user: UserMemory | None, invocation: Invocation) -> object:
        """Call the method of an operation; what it returns may have to be awaited."""
        name, on, args, kwargs = invocation
        if name not in DECLARED:
            raise InvalidInputError(f"there is no operation {name!r:.80}")
        if name.startswith("system.") != (user is None):
            raise InvalidInputError(f"{name} is no operation of that")
        member = member_of(self.memory if user is None else user, name, on.document)
        return member(*args, **kwargs) if callable(member) else member

    def tell(self, user_id: str) -> None:
        """Say to all who want to know it that a user is erased."""
        for queue in self._erased:
            queue.put_nowait(user_id)

    async def erasures(self) -> AsyncIterator[str]:
        """Yield the id of each user who is erased."""
        queue: asyncio.Queue[str] = asyncio.Queue()
        self._erased.add(queue)
        try:
            while True:
                yield await queue.get()
        finally:
            self._erased.discard(queue)


class ClientSession:
    """The things that one client has open: replays, and functions that it gave as arguments."""

    def __init__(
        self,
        answering: Answering,
        client: str,
        send: Callable[[frames.Message], None],
        everywhere: Caller | None = None,
    ):
        """Make one for a client; `everywhere` carries its calls out where the users are."""
        self._answering = answering
        self._everywhere = everywhere
        self._client = client
        self._send = send
        self._loop = asyncio.get_running_loop()
        self._unheard: dict[int, deque[_Hearing]] = {}
        """The calls of the client's functions that it has not answered, by its own calls."""
        self.bound: set[int] = set()
        """The calls that have functions or events of the client: they end with it."""
        self._replays: dict[On, PastMemory] = {}
        self._events: dict[tuple[int, int], asyncio.Event] = {}
        self._credit: dict[int, asyncio.Semaphore] = {}

    async def answer(self, call: frames.Call) -> bytes:
        """Carry out a call, and return its result; items of an iteration are sent before."""
        ASKED.set(ClientCall(self._name(call)))
        if call.deadline_s is None:
            return await self._answer(call)
        async with asyncio.timeout(call.deadline_s):
            return await self._answer(call)

    async def _answer(self, call: frames.Call) -> bytes:
        if call.operation == REPLAY:
            return await self._replay(call)
        if call.operation == "system.end_replay":
            if (past := self._replays.pop(call.on, None)) is not None:
                await past.close()
            return result(None)
        if call.operation == FORGET:
            [user_id], _ = unpacked(call.arguments, no_functions)
            await self._answering.forget(user_id)
            return result(None)
        if call.operation == ERASURES:
            return await self._iterated(call.number, self._answering.erasures())
        if self._everywhere is not None and call.on.then is None:
            return await self._answered_everywhere(call, self._everywhere)
        user: UserMemory | None
        if call.on.then is not None:
            user = self._replays.get(call.on) or await self._replayed(call.on, call.on.then)
        elif call.after is not None:
            user = await self._answering.user_again(call.on, self._name(call), call.after)
        else:
            user = self._answering.user(call.on)
        invocation = invocation_of(call, partial(self._found, call.number))
        value = self._answering.carried_out(user, invocation)
        if isasyncgen(value):
            return await self._iterated(call.number, value)
        return result(await value if asyncio.iscoroutine(value) else value)

    async def _answered_everywhere(self, call: frames.Call, caller: Caller) -> bytes:
        invocation = invocation_of(call, partial(self._found, call.number))
        if call.operation not in DECLARED:
            raise InvalidInputError(f"there is no operation {call.operation!r:.80}")
        how = DECLARED[call.operation].how
        if how is How.ITERATED:
            return await self._iterated(call.number, caller.iterate(invocation))
        if how is How.AT_ONCE:
            return result(caller.at_once(invocation))
        return result(await caller.call(invocation))

    def done(self, number: int) -> None:
        """Forget what belongs to a call."""
        self._credit.pop(number, None)
        self.bound.discard(number)
        self._unheard.pop(number, None)
        for key in [key for key in self._events if key[0] == number]:
            del self._events[key]

    def heard(self, message: frames.Said) -> None:
        """Handle a message of the client about one of its calls."""
        if isinstance(message, frames.More):
            if (credit := self._credit.get(message.number)) is not None:
                for _ in range(min(message.items, frames.WINDOW)):
                    credit.release()
        elif isinstance(message, frames.Signal):
            if (event := self._events.get((message.number, message.argument))) is not None:
                event.set()
        elif isinstance(message, frames.Heard) and (waiting := self._unheard.get(message.number)):
            error = message.error
            waiting.popleft().answer(None if error is None else error_of(error))

    async def close(self) -> None:
        """Let go of everything."""
        for past in self._replays.values():
            await past.close()
        self._replays.clear()

    def _name(self, call: frames.Call) -> str:
        return f"{self._client}:{call.number}"

    async def _replay(self, call: frames.Call) -> bytes:
        _, said = unpacked(call.arguments, no_functions)
        on = On(said["user_id"], said["agent_id"], said["session_id"])
        as_of, dropped = said["as_of"], said["dropped"]
        past = await self._opened(on, as_of, dropped)
        then = Then(as_of if isinstance(as_of, int) else past.moment.at, dropped)
        self._replays[msgspec.structs.replace(on, then=then)] = past
        return result((past.moment, past.lost))

    async def _replayed(self, on: On, then: Then) -> PastMemory:
        """Open a replay again, that another owner of the store had open."""
        past = self._replays[on] = await self._opened(on, then.as_of, then.dropped)
        return past

    async def _opened(self, on: On, as_of: AsOf, dropped: OnDropped) -> PastMemory:
        if len(self._replays) >= REPLAYS_MAX:
            raise UnavailableError(f"{REPLAYS_MAX} replays are open: close one of them first")
        services = self._answering.memory._open  # noqa: SLF001 - the owner's side
        return await past_memory(services, on, as_of, dropped)

    async def _iterated(self, number: int, items: AsyncIterator[object]) -> bytes:
        credit = self._credit[number] = asyncio.Semaphore(frames.WINDOW)
        async for item in items:
            await credit.acquire()
            self._send(frames.Yielded(number, result(item)))
        return result(None)

    def _found(self, number: int, argument: int, is_event: bool) -> object:
        """Return the local function or event for one of the client's."""
        self.bound.add(number)
        if is_event:
            return self._events.setdefault((number, argument), asyncio.Event())
        return partial(self._call, number, argument)

    def _call(self, number: int, argument: int, *values: object) -> _Hearing | None:
        message = frames.Called(number, argument, packed(list(values), no_functions))
        hearing = _Hearing()
        running = None
        with suppress(RuntimeError):  # no loop runs in this thread
            running = asyncio.get_running_loop()
        if running is self._loop:
            self._say(message, hearing)
            return hearing
        self._loop.call_soon_threadsafe(self._say, message, hearing)
        return asyncio.run_coroutine_threadsafe(hearing.heard(), self._loop).result()

    def _say(self, message: frames.Called, hearing: _Hearing) -> None:
        self._unheard.setdefault(message.number, deque()).append(hearing)
        self._send(message)
