"""The runtime: one actor a key, in bounded memory, never taken away while in use."""

import asyncio

import anyio
import pytest

from memory_actors import BeingErasedError, SystemClosedError
from memory_actors.actors.heap import LOOSE_BYTES
from memory_actors.actors.runtime import Runtime

pytestmark = pytest.mark.anyio


class FakeLive:
    """An actor that remembers its passivation."""

    def __init__(self, world: "World", key: str):
        self.world = world
        self.key = key
        self.busy = False
        self.size_bytes = 100

    async def passivate(self) -> None:
        await asyncio.sleep(0)
        self.world.living.remove(self.key)
        self.world.left.append(self.key)
        if self.world.passivation_failure:
            raise RuntimeError("disk")

    async def discard(self) -> None:
        await asyncio.sleep(0)
        self.world.living.remove(self.key)
        self.world.discarded.append(self.key)


class World:
    """Activations and passivations, in order."""

    def __init__(self) -> None:
        self.living: list[str] = []
        self.left: list[str] = []
        self.discarded: list[str] = []
        self.failure: Exception | None = None
        self.passivation_failure = False

    async def activate(self, key: str, _epoch: int | None) -> FakeLive:
        await asyncio.sleep(0)
        if self.failure is not None:
            raise self.failure
        assert key not in self.living, "never two actors a key"
        self.living.append(key)
        return FakeLive(self, key)


def make(budget_bytes: int = 10**9, idle_s: float = 1e9) -> tuple[Runtime[FakeLive], World]:
    world = World()
    return Runtime(world.activate, budget_bytes=budget_bytes, idle_s=idle_s), world


async def test_the_least_recently_used_leave_when_the_budget_is_passed() -> None:
    runtime, world = make(budget_bytes=300)
    for key in "abcd":
        async with runtime.use(key):
            pass
    async with runtime.use("b"):
        pass
    async with runtime.use("e"):
        pass
    assert world.left == ["a"]
    async with runtime.use("f"):
        assert world.left == ["a", "c"]
    assert runtime.statistics().live == 4


async def test_who_comes_as_an_activation_ends_goes_behind_those_who_wait_for_it() -> None:
    entered: list[str] = []
    late: list[asyncio.Task[None]] = []

    async def enter(name: str) -> None:
        async with runtime.use("a"):
            entered.append(name)

    def come() -> None:
        late.append(asyncio.create_task(enter("late")))

    async def activate(key: str, _epoch: int | None) -> FakeLive:
        await asyncio.sleep(0)
        world.living.append(key)
        asyncio.get_running_loop().call_soon(come)
        return FakeLive(world, key)

    world = World()
    runtime = Runtime(activate, budget_bytes=10**9, idle_s=1e9)
    await asyncio.gather(enter("first"), enter("second"))
    await late[0]
    assert entered == ["first", "second", "late"]


async def test_an_actor_in_use_or_busy_never_leaves() -> None:
    runtime, world = make(budget_bytes=0)
    async with runtime.use("a"):
        async with runtime.use("b") as busy:
            busy.busy = True
        async with runtime.use("c"):
            assert world.left == []
        async with runtime.use("d"):
            assert world.left == ["c"]


class CannotBeLeft:
    """A placement that fails when a key is given up."""

    async def claim(self, _key: str) -> int:
        return 1

    async def leave(self, _key: str, _epoch: int | None) -> None:
        raise RuntimeError("the database says what nobody expects")

    def is_vouched(self) -> bool:
        return True


async def test_an_actor_whose_key_cannot_be_given_up_is_gone_all_the_same() -> None:
    """Else whoever came next would wait for it for ever."""
    world = World()
    runtime = Runtime(world.activate, budget_bytes=0, idle_s=1e9, placement=CannotBeLeft())
    async with runtime.use("a"):
        pass
    with anyio.fail_after(5):
        async with runtime.use("b"), runtime.use("a"):
            assert world.left == ["a"]


async def test_who_comes_while_an_actor_leaves_gets_a_new_one() -> None:
    runtime, world = make(budget_bytes=0)
    async with runtime.use("a"):
        pass

    async def use(key: str) -> None:
        async with runtime.use(key):
            await asyncio.sleep(0)

    await asyncio.gather(*(use(key) for key in "bababab" * 5))
    await runtime.close(1)
    assert world.living == []
    assert len(world.left) == runtime.statistics().activations


async def test_a_failed_activation_is_tried_again() -> None:
    runtime, world = make()
    world.failure = RuntimeError("no")
    for _ in range(2):
        with pytest.raises(RuntimeError):
            async with runtime.use("a"):
                pass
    world.failure = None
    async with runtime.use("a"):
        pass


async def test_a_cancelled_caller_does_not_cancel_the_activation() -> None:
    runtime, world = make()

    async def use() -> None:
        async with runtime.use("a"):
            pass

    first, second = asyncio.create_task(use()), asyncio.create_task(use())
    await asyncio.sleep(0)
    first.cancel()
    await second
    assert world.living == ["a"]
    await runtime.close(1)


async def test_closing_waits_for_users_and_takes_no_new_ones() -> None:
    runtime, world = make()
    entered, leave = asyncio.Event(), asyncio.Event()

    async def use() -> None:
        async with runtime.use("a"):
            entered.set()
            await leave.wait()

    user = asyncio.create_task(use())
    await entered.wait()
    closing = asyncio.create_task(runtime.close(10))
    await asyncio.sleep(0.01)
    assert world.left == []
    with pytest.raises(SystemClosedError):
        async with runtime.use("b"):
            pass
    leave.set()
    await asyncio.gather(user, closing)
    assert world.left == ["a"]


async def test_activations_at_once_evict_no_more_than_needed() -> None:
    runtime, world = make(budget_bytes=1_000)
    for n in range(11):
        async with runtime.use(f"old{n}"):
            pass

    async def use(n: int) -> None:
        async with runtime.use(f"new{n}"):
            await asyncio.sleep(0.01)

    await asyncio.gather(*(use(n) for n in range(5)))
    assert len(world.left) == 1


async def test_passivated_actors_are_freed_at_once(open_memory) -> None:
    import gc
    import weakref

    gc.disable()
    try:
        async with open_memory(live_bytes_max=0, check_replay=False) as memory:
            async with memory._services.runtime.use("user:ada") as live:
                gone = weakref.ref(live)
            del live
            await memory.user("ada").add("x")
            await memory.user("bob").add("y")
            await asyncio.sleep(0.02)
            assert gone() is None
    finally:
        gc.enable()


async def test_exclusive_use_waits_for_others_and_keeps_them_out() -> None:
    """A caller alone with a key has waited for all others, and keeps them out."""
    runtime, world = make()
    async with runtime.use("a"), runtime.use("b"):
        alone = asyncio.create_task(hold_alone(runtime, "a"))
        await asyncio.sleep(0.01)
        assert not alone.done()
        assert world.living == ["a", "b"]
        for refused in (runtime.use("a"), runtime.alone("a")):
            with pytest.raises(BeingErasedError):
                async with refused:
                    pass
        async with runtime.use("b"):
            pass
    await alone
    assert (world.discarded, world.left) == (["a"], [])
    async with runtime.use("a"):
        assert world.living == ["b", "a"]


async def hold_alone(runtime: Runtime[FakeLive], key: str) -> None:
    async with runtime.alone(key):
        assert key not in [live.key for live in runtime.lives()]
        with pytest.raises(BeingErasedError):
            async with runtime.use(key):
                pass


async def test_an_actor_coming_or_going_is_waited_for() -> None:
    runtime, world = make(budget_bytes=0)
    using = asyncio.create_task(use_shortly(runtime, "a"))
    await asyncio.sleep(0)
    await hold_alone(runtime, "a")
    await using
    async with runtime.use("a"):
        pass
    going = asyncio.create_task(runtime._passivate("a"))
    await asyncio.sleep(0)
    await hold_alone(runtime, "a")
    await going
    assert world.living == []


async def use_shortly(runtime: Runtime[FakeLive], key: str) -> None:
    async with runtime.use(key):
        await asyncio.sleep(0.01)


async def test_pages_are_given_back_after_a_load(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[int] = []
    monkeypatch.setattr("memory_actors.actors.runtime.SWEEP_S", 0.01)
    monkeypatch.setattr("memory_actors.actors.runtime.give_back", lambda: given.append(1))
    runtime, _ = make()
    runtime.start()
    await asyncio.sleep(0.05)
    assert not given
    async with runtime.use("a") as live:
        live.size_bytes = LOOSE_BYTES
    await asyncio.sleep(0.05)
    assert given == [1]
    await runtime.close(1.0)
