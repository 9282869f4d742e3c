"""The runtime: it makes actors live, lets them leave, and keeps their memory within a budget.

A key's actor is activated on first use. It is passivated when it was idle for long, or, least
recently used first, when all actors hold more than the byte budget; never while somebody uses it.
There is never more than one actor a key.

If several processes share a store, a process claims an actor before it is live (placement.py). One
that another process may have taken over is forgotten at once, and its users get an error.
"""

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import Generic

import anyio

from eventlog.core.logs import get_logger
from memory_actors.actors.heap import HeapTrimming, give_back
from memory_actors.actors.placement import EVERYWHERE_HERE, L, Placement, Slot
from memory_actors.base.errors import (
    BeingErasedError,
    MovedError,
    SystemClosedError,
    WrongLoopError,
)
from memory_actors.base.privacy import reason
from memory_actors.base.statistics import RuntimeStatistics

SWEEP_S = 1.0
RENEW_S = 0.01  # between two looks whether those who use an actor have left
PASSIVATE_S_MIN = 5.0  # what closing gives to snapshots, however short its deadline

_logger = get_logger("memory_actors.actors.runtime")


class ActorUse(AbstractAsyncContextManager[L]):
    """The context manager of `Runtime.use`.

    A class, because `@contextmanager` takes twice as long to enter and leave, and every call does.
    """

    __slots__ = "_key", "_runtime", "_slot"

    def __init__(self, runtime: "Runtime[L]", key: str):
        self._runtime = runtime
        self._key = key

    async def __aenter__(self) -> L:
        self._slot = await self._runtime.enter(self._key)
        return self._slot.activation.result()

    async def __aexit__(self, kind: type[BaseException] | None, *_error: object) -> None:
        self._runtime.leave(self._key, self._slot)
        if kind is None or issubclass(
            kind, Exception
        ):  # what failed may have failed on what is old
            self._runtime.check_held(self._slot)


class Runtime(Generic[L]):
    """Live actors by key, from `start` to `close`. Belongs to the event loop it was made on."""

    def __init__(
        self,
        activate: Callable[[str, int | None], Awaitable[L]],
        *,
        budget_bytes: int,
        idle_s: float,
        placement: Placement = EVERYWHERE_HERE,
    ):
        self._activate = activate
        """(key, epoch of the claim) -> the actor."""
        self._placement = placement
        self._loop = asyncio.get_running_loop()
        self._budget_bytes = budget_bytes
        self._idle_s = idle_s
        self._slots: OrderedDict[str, Slot[L]] = OrderedDict()
        self._live_bytes = 0
        self._heap = HeapTrimming()
        self._unmeasured: dict[str, Slot[L]] = {}  # used since their size was last asked for
        self.uses = 0
        """The number of times that somebody began to use an actor."""
        self.activations = self._passivations = self._users = 0
        self._closed = False
        self._shrinking = asyncio.Lock()
        self._unused = asyncio.Event()
        self._unused.set()
        self._barred: dict[str, asyncio.Event] = {}  # set when a user of the key has left
        self._forgotten: set[asyncio.Task[None]] = set()
        self._sweeper: asyncio.Task[None] | None = None
        self._relief: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to passivate what is idle."""
        self._sweeper = asyncio.create_task(self._sweep_forever())

    def use(self, key: str) -> AbstractAsyncContextManager[L]:
        """Hold a key's actor live, activated if need be.

        :raises SystemClosedError: the runtime is closing.
        :raises MovedError: another process has the actor, or may have had it meanwhile: nothing
            that was read from it holds. Acknowledged writes are kept.
        """
        return ActorUse(self, key)

    @asynccontextmanager
    async def alone(self, key: str) -> AsyncIterator[int | None]:
        """Keep everybody from a key; its actor is discarded when those who are at it have left.

        Yield the epoch of the claim that is held meanwhile: see `Placement`.

        :raises BeingErasedError: somebody else is alone with it, as who comes is told meanwhile.
        :raises MovedError: another process has it.
        :raises SystemClosedError: the runtime is closing.
        """
        self._may_enter(key)
        self._barred[key] = asyncio.Event()
        self._count(+1)
        try:
            while (slot := self._slots.get(key)) is not None:
                if slot.leaving is not None:
                    await asyncio.wait([slot.leaving])
                elif not slot.activation.done():
                    await asyncio.wait([slot.activation])
                elif slot.users:
                    await self._barred[key].wait()
                    self._barred[key].clear()
                else:
                    slot.leaving = asyncio.create_task(self._left(key, slot, keep=False))
            epoch = await self._placement.claim(key)
            try:
                yield epoch
            finally:
                await self._placement.leave(key, epoch)
        finally:
            del self._barred[key]
            self._count(-1)

    def check_held(self, slot: Slot[L]) -> None:
        """Refuse to vouch for what was read of an actor that others may have taken over.

        :raises MovedError: another process has the actor, or may have it by now.
        """
        if slot.moved is not None or not self._placement.is_vouched():
            raise MovedError("another process may have this user's memory now: ask again")

    def is_live(self, key: str) -> bool:
        """Say whether an actor is live here, or about to be."""
        return key in self._slots

    def moved(self, key: str, live: L) -> None:
        """Forget an actor that another process has. It is discarded when nobody holds it."""
        slot = self._slots.get(key)
        if slot is not None and live in slot.lives():
            self._forget(key, slot)

    async def forget(self, key: str) -> None:
        """Forget an actor that another process has, and return when nothing of it is left here."""
        if (slot := self._slots.get(key)) is not None:
            self._forget(key, slot)
            if slot.leaving is not None:
                await asyncio.wait([slot.leaving])

    async def forget_all(self) -> None:
        """Forget every actor: others may have any of them. No actor is live when it returns."""
        slots = list(self._slots.items())
        for key, slot in slots:
            self._forget(key, slot)
        leaving = {slot.leaving for _, slot in slots if slot.leaving is not None}
        if leaving := leaving | self._forgotten:
            await asyncio.wait(leaving)

    def _forget(self, key: str, slot: Slot[L]) -> None:
        slot.moved = asyncio.Event()
        if not slot.users:
            slot.moved.set()
        if slot.leaving is None:
            self._drop(key, slot)
            slot.leaving = asyncio.create_task(self._discarded(slot, slot.moved))
            self._forgotten.add(slot.leaving)
            slot.leaving.add_done_callback(self._forgotten.discard)

    async def _discarded(self, slot: Slot[L], unused: asyncio.Event) -> None:
        await asyncio.wait([slot.activation])
        await unused.wait()
        for live in slot.lives():
            try:
                await live.discard()
            except Exception as error:  # it is as good as gone
                _logger.warning("discarding failed", error=reason(error))

    def lives(self) -> list[L]:
        """Return every actor that is live now; from any thread."""
        return [live for slot in list(self._slots.values()) for live in slot.lives()]

    async def renew(self, deadline_s: float) -> None:
        """Passivate every actor that is live now, as soon as nobody uses it.

        An actor that is in use until the deadline leaves when it is idle.
        """
        left = dict(self._slots)
        with anyio.move_on_after(deadline_s):
            while left:
                for key, slot in list(left.items()):
                    if self._may_leave(slot):
                        await self._passivate(key)
                    if self._slots.get(key) is not slot:
                        del left[key]
                await asyncio.sleep(RENEW_S)

    def relieve(self) -> None:
        """Begin to passivate everyone who is idle, however short: memory runs out."""
        if self._relief is None or self._relief.done():
            self._relief = asyncio.create_task(self._passivate_idle())

    async def _passivate_idle(self) -> None:
        for key, slot in list(self._slots.items()):
            if self._may_leave(slot):
                await self._passivate(key)
        self._loop.run_in_executor(None, give_back)  # nobody waits: it may take long

    def statistics(self) -> RuntimeStatistics:
        """Return counts and sizes; from another thread, sizes as of a second ago."""
        with suppress(RuntimeError):
            if asyncio.get_running_loop() is self._loop:
                self._measure()
        return RuntimeStatistics(
            len(self._slots), self._live_bytes, self.activations, self._passivations
        )

    async def close(self, deadline_s: float) -> None:
        """Take on no more work, wait for what is in hand until the deadline, passivate all."""
        self._closed = True
        for task in (self._sweeper, self._relief):
            if task is not None:
                task.cancel()
        with anyio.move_on_after(deadline_s):
            await self._unused.wait()
        leaving = [asyncio.create_task(self._passivate(key)) for key in self._slots]
        leaving += self._forgotten
        if leaving:
            await asyncio.wait(leaving, timeout=max(deadline_s, PASSIVATE_S_MIN))

    # --- in and out

    async def enter(self, key: str) -> Slot[L]:
        """Begin to use a key's actor. See `use`."""
        self._count(+1)
        try:
            slot = await self._activated_slot(key)
        except BaseException:
            self._count(-1)
            raise
        self.uses += 1
        try:
            self.check_held(slot)
        except MovedError:
            self.leave(key, slot)
            raise
        return slot

    def leave(self, key: str, slot: Slot[L]) -> None:
        """End a use."""
        self._leave_slot(slot)
        if key in self._barred:
            self._barred[key].set()
        slot.last_used_s = self._loop.time()
        if self._slots.get(key) is slot:  # else it has moved, and the key may be live anew
            self._unmeasured[key] = slot
            self._slots.move_to_end(key)
        self._count(-1)

    async def _activated_slot(self, key: str) -> Slot[L]:
        while True:
            self._may_enter(key)
            slot = self._slots.get(key) or self._new_slot(key)
            if slot.leaving is not None:
                await asyncio.wait([slot.leaving])
                continue
            slot.users += 1
            try:
                if slot.waiting or not slot.activation.done():
                    slot.waiting += 1
                    try:
                        await asyncio.wait([slot.activation])
                    finally:
                        slot.waiting -= 1
                slot.activation.result()
            except BaseException:
                self._leave_slot(slot)
                raise
            return slot

    def _leave_slot(self, slot: Slot[L]) -> None:
        slot.users -= 1
        if slot.moved is not None and not slot.users:
            slot.moved.set()

    def check_open(self) -> None:
        """Refuse who comes too late, or from another event loop.

        :raises SystemClosedError: the runtime is closing, or closed.
        :raises WrongLoopError: see `check_loop`.
        """
        if self._closed:
            raise SystemClosedError("the memory system is closed: open it again")
        self.check_loop()

    def check_loop(self) -> None:
        """Refuse who comes from another event loop; without one, nobody can wait for anything.

        :raises WrongLoopError: the runtime belongs to another one.
        """
        try:
            here = asyncio.get_running_loop()
        except RuntimeError:
            return
        if here is not self._loop:
            raise WrongLoopError

    def _may_enter(self, key: str) -> None:
        self.check_open()
        if key in self._barred:
            raise BeingErasedError("this memory, or a fact of it, is being erased: try again later")

    def _count(self, change: int) -> None:
        if self._users == 0:
            self._unused.clear()
        self._users += change
        if self._users == 0:
            self._unused.set()

    def _new_slot(self, key: str) -> Slot[L]:
        slot: Slot[L]
        slot = Slot(asyncio.create_task(self._activated(key, lambda: slot)))
        self._slots[key] = slot

        def activated(_done: "asyncio.Task[L]") -> None:
            if not slot.is_live():
                self._drop(key, slot)  # failed for all who waited: the next one tries anew

        slot.activation.add_done_callback(activated)
        return slot

    async def _activated(self, key: str, slot: Callable[[], Slot[L]]) -> L:
        await self._shrink()
        epoch = slot().epoch = await self._placement.claim(key)
        self.activations += 1
        try:
            return await self._activate(key, epoch)
        except BaseException:
            await self._placement.leave(key, epoch)
            raise

    def _measure(self) -> None:
        """Measure the actors used since the last measurement: this walks all their parts."""
        for slot in self._unmeasured.values():
            size = slot.activation.result().size_bytes
            self._live_bytes += size - slot.size_bytes
            slot.size_bytes = size
        self._unmeasured.clear()

    def _drop(self, key: str, slot: Slot[L]) -> None:
        if self._slots.get(key) is slot:
            del self._slots[key]
            self._unmeasured.pop(key, None)
            self._live_bytes -= slot.size_bytes

    # --- passivation

    async def _sweep_forever(self) -> None:
        while True:
            await asyncio.sleep(min(SWEEP_S, self._idle_s))
            idle_since = asyncio.get_running_loop().time() - self._idle_s
            for key, slot in list(self._slots.items()):
                if slot.last_used_s > idle_since:
                    break  # in order of last use: all that follow are younger
                if self._may_leave(slot):
                    await self._passivate(key)
            await self._shrink()
            if self._heap.take_due(self._live_bytes, self.uses):
                self._loop.run_in_executor(None, give_back)

    async def _shrink(self) -> None:
        """Passivate, least recently used first, until the budget is kept; one caller at a time."""
        async with self._shrinking:
            self._measure()
            for key, slot in list(self._slots.items()):
                if self._live_bytes <= self._budget_bytes:
                    return
                if self._may_leave(slot):
                    await self._passivate(key)

    def _may_leave(self, slot: Slot[L]) -> bool:
        if slot.users or slot.leaving is not None:
            return False
        return any(not live.busy for live in slot.lives())

    async def _passivate(self, key: str) -> None:
        slot = self._slots.get(key)
        if slot is None:
            return
        if slot.leaving is None:
            slot.leaving = asyncio.create_task(self._left(key, slot, keep=True))
        await asyncio.wait([slot.leaving])

    async def _left(self, key: str, slot: Slot[L], *, keep: bool) -> None:
        try:
            live = await slot.activation
            await (live.passivate() if keep else live.discard())
        except Exception as error:  # it only makes the next activation slower
            _logger.warning("passivation failed", error=reason(error))
        finally:
            self._passivations += 1
            try:
                await self._placement.leave(key, slot.epoch)
            finally:
                self._drop(key, slot)  # else whoever comes next waits for this one again and again
