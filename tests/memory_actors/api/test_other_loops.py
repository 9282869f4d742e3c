"""A system belongs to the event loop that it was opened on: another one is refused at once."""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from support.fakes import FakeEmbedder
from support.through import OtherLoop, through_client

from bench.faults.commands import COMMANDS
from eventlog import ANY_VERSION, EventLog, WrongLoop
from memory_actors import MemorySystem, WrongLoopError
from memory_actors.kinds.account import TierSet
from memory_actors.upkeep.store import event_registry
from tests.memory_actors.api.test_closed import CALLS_OF_SYSTEM, called

REFUSED_S_MAX = 2.0  # at once, on a busy machine
NAMED = r"asyncio\.run_coroutine_threadsafe"


@contextmanager
def on_a_loop_of_its_own(opening: Any) -> Iterator[tuple[Any, asyncio.AbstractEventLoop]]:
    """Hold something open on the loop of another thread."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    def there(work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, loop).result(30)

    try:
        opened = there(opening.__aenter__())
        yield opened, loop
        there(opening.__aexit__(None, None, None))
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()


@pytest.fixture(scope="module", params=["owner", "client"])
def elsewhere(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, other_loop: OtherLoop
) -> Iterator[Any]:
    path = tmp_path_factory.mktemp("elsewhere") / "memory"
    open_ = MemorySystem.open if request.param == "owner" else through_client(other_loop)
    opening = open_(path, embedder=FakeEmbedder(), alerts=[])
    with on_a_loop_of_its_own(opening) as (memory, loop):
        user = memory.user("u", session_id="s")
        asyncio.run_coroutine_threadsafe(user.add("likes tea", memory_id="m"), loop).result(30)
        yield memory, loop


def refused(call: Callable[[], Any]) -> None:
    async def here() -> None:
        async with asyncio.timeout(REFUSED_S_MAX):
            await called(call())

    with pytest.raises(WrongLoopError, match=NAMED):
        asyncio.run(here())


def test_another_loop_is_refused_at_once(elsewhere: Any, tmp_path: Path) -> None:
    memory, _ = elsewhere
    for call in CALLS_OF_SYSTEM.values():
        refused(partial(call, memory, tmp_path))


def test_closing_on_another_loop_is_refused(elsewhere: Any) -> None:
    memory, loop = elsewhere
    refused(memory.close)
    assert asyncio.run_coroutine_threadsafe(memory.users(), loop).result(30) == ["u"]


def test_every_public_call_refuses_another_loop(elsewhere: Any) -> None:
    """Every public call on another loop is refused at once, and changes nothing."""
    memory, loop = elsewhere
    user = memory.user("u", session_id="s")

    def there(work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, loop).result(30)

    before = there(memory.heads()).position
    for command in COMMANDS.values():
        refused(partial(command.call, memory, user, 1))
        assert there(memory.heads()).position == before
    assert [hit.content for hit in there(user.retrieve("tea"))] == ["likes tea"]


def test_another_thread_calls_on_the_systems_loop(elsewhere: Any) -> None:
    memory, loop = elsewhere
    user = memory.user("another")
    asyncio.run_coroutine_threadsafe(user.add("likes cake"), loop).result(30)
    (hit,) = asyncio.run_coroutine_threadsafe(user.retrieve("cake"), loop).result(30)
    assert hit.content == "likes cake"


def test_a_log_takes_no_appends_from_another_loop(tmp_path: Path) -> None:
    async def use(log: EventLog, call: Callable[[EventLog], Any]) -> None:
        async with asyncio.timeout(REFUSED_S_MAX):
            await call(log)

    with on_a_loop_of_its_own(EventLog.open(tmp_path / "log", event_registry())) as (log, _):
        for call in (
            lambda log: log.append("s", [TierSet(tier="pro")], ANY_VERSION),
            lambda log: log.flush(),
            lambda log: log.wait_beyond(0),
            lambda log: log.shrink(),
            lambda log: log.erase("s"),
        ):
            with pytest.raises(WrongLoop, match=NAMED):
                asyncio.run(use(log, call))
