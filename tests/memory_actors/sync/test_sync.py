"""The API without `await`: the same calls, from any thread, beside a running loop."""

import asyncio
import inspect
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from inspect import iscoroutinefunction
from pathlib import Path
from types import ModuleType
from typing import Any

import anyio
import pytest
from support.fakes import FakeEmbedder

from bench.faults.commands import COMMANDS
from memory_actors import (
    ExtractiveSummarizer,
    InvalidInputError,
    SystemClosedError,
    WrongLoopError,
    copy_store,
)
from memory_actors import sync as sync_api
from memory_actors.api.operations import OPERATIONS, OWNERS
from memory_actors.api.user import HANDLES
from memory_actors.sync import MemorySystem, UserMemory
from memory_actors.sync.blocking import CLASSES, blocking_class

ROOT = Path(__file__).parents[3]
WRITTEN = 40
BY_HAND = {"system.close", "working.get"}
"""Methods that clients have in their own way, with docstrings of their own."""


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[MemorySystem]:
    with MemorySystem.open(
        tmp_path / "memory", embedder=FakeEmbedder(), alerts=[], extractor=lambda _: []
    ) as opened:
        yield opened


def test_whatever_has_operations_has_a_class_here() -> None:
    assert all(blocking_class(owner) for owner in OWNERS.values())
    assert {kind.__name__ for kind in CLASSES.values()} | {"on_loop"} == set(sync_api.__all__)


def test_a_function_for_the_async_api_runs_on_the_loop(memory: MemorySystem) -> None:
    async def added(user: Any) -> Any:
        return await user.get((await user.add("likes tea")).memory_id)

    assert sync_api.on_loop(memory.user("ada"), added).content == "likes tea"
    with pytest.raises(InvalidInputError, match=r"memory_actors\.sync, not str"):
        sync_api.on_loop("ada", added)


CALLS = sorted(
    name
    for name, each in COMMANDS.items()
    if not iscoroutinefunction(each.call) and not name.startswith("private.")
)
"""The others are functions that await several calls, or calls without arguments."""


@pytest.mark.parametrize("name", CALLS)
def test_a_call_returns_what_it_returns_when_awaited(memory: MemorySystem, name: str) -> None:
    user, command = memory.user("u", session_id="s"), COMMANDS[name]
    user.add("likes tea")
    loop: Any = memory._loop
    under = memory._handle, user._handle
    loop.call(command.prepare, *under, 1)
    returned: Any = command.call(memory, user, 1)
    loop.call(command.prepare, *under, 2)
    awaited = loop.call(_awaited, command.call, *under, 2)
    assert type(_listed(returned)) is (blocking_class(type(awaited)) or type(awaited))


WITH_AN_OPTION = {"purge", "system.purge", "context.archive"}
"""They have no argument that has to be given, and are refused without any."""
WITHOUT_ARGUMENTS = sorted(
    name
    for name, operation in OPERATIONS.items()
    if not any(each.is_required for each in operation.parameters)
    and name not in WITH_AN_OPTION | {"system.close"}
)


@pytest.mark.parametrize("name", WITHOUT_ARGUMENTS)
def test_a_call_without_arguments_returns_what_it_returns_when_awaited(
    memory: MemorySystem, name: str
) -> None:
    user = memory.user("u", session_id="s")
    user.add("likes tea")
    owner, _, method = name.rpartition(".")
    called: Any = memory if owner == "system" else getattr(user, owner) if owner else user
    loop: Any = memory._loop
    awaited = loop.call(_awaited, getattr(called._handle, method))
    assert type(_listed(getattr(called, method)())) is type(awaited)


def _listed(returned: Any) -> Any:
    return list(returned) if inspect.isgenerator(returned) else returned


async def _awaited(call: Any, *arguments: Any) -> Any:
    returned = call(*arguments)
    if inspect.isasyncgen(returned):
        return [each async for each in returned]
    return await returned


def test_many_threads_may_call_at_once(memory: MemorySystem) -> None:
    def write(number: int) -> str:
        return memory.user("ada").add(f"fact {number}").memory_id

    with ThreadPoolExecutor(8) as threads:
        ids = list(threads.map(write, range(WRITTEN)))
    assert len(set(ids)) == memory.user("ada").count() == WRITTEN


def test_it_works_inside_a_running_loop_as_in_a_notebook(tmp_path: Path) -> None:
    async def cell() -> int:
        with MemorySystem.open(tmp_path / "memory", embedder=FakeEmbedder()) as memory:
            memory.user("ada").add("likes tea")
            return memory.user("ada").count()

    assert asyncio.run(cell()) == 1


def test_a_replay_is_open_until_its_block_ends(memory: MemorySystem) -> None:
    user = memory.user("ada")
    user.add("likes tea")
    with memory.replay("ada") as past:
        assert isinstance(past, UserMemory)
        user.add("likes coffee")
        assert (past.count(), past.lost, past.moment.version) == (1, 0, 1)
    with pytest.raises(SystemClosedError):
        past.count()


def test_events_are_iterated_and_may_be_left_early(memory: MemorySystem) -> None:
    for number in range(3):
        memory.user("ada").add(f"fact {number}")
    events = memory.events("ada", follow=True)
    assert next(events).event == "long_term.added"
    events.close()  # type: ignore[attr-defined] - a generator


def test_a_function_on_the_loop_cannot_wait_for_it(tmp_path: Path) -> None:
    def new_id(_: int) -> str:
        return f"one of {len(memory.users())}"

    path = tmp_path / "memory"
    with MemorySystem.open(path, embedder=FakeEmbedder(), new_id=new_id) as memory:
        with pytest.raises(WrongLoopError, match="async API"):
            memory.user("ada").add("likes tea")
        assert memory.user("ada").count() == 0


def test_a_backup_is_restored_without_a_system(memory: MemorySystem, tmp_path: Path) -> None:
    memory.user("ada").add("likes tea")
    memory.backup(tmp_path / "backup")
    copy_store(tmp_path / "backup", tmp_path / "restored")
    with MemorySystem.open(tmp_path / "restored", embedder=FakeEmbedder()) as restored:
        assert restored.user("ada").count() == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_forked_child_is_refused_what_its_parent_has_alone(tmp_path: Path) -> None:
    alone = MemorySystem.open(tmp_path / "memory", embedder=FakeEmbedder(), share=False)
    with alone as memory:
        child = os.fork()
        if child == 0:  # pragma: no cover - another process
            try:
                memory.users()
            except WrongLoopError:
                os._exit(7)
            except BaseException:
                os._exit(2)
            os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


def test_a_program_that_forgets_to_close_ends_and_loses_nothing(tmp_path: Path) -> None:
    program = (
        "import sys; from support.fakes import FakeEmbedder\n"
        "from memory_actors.sync import MemorySystem\n"
        "memory = MemorySystem.open(sys.argv[1], embedder=FakeEmbedder())\n"
        "memory.user('ada').add('likes tea')\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests")])}
    subprocess.run(
        [sys.executable, "-c", program, tmp_path / "memory"],
        env=environment, timeout=60, check=True,
    )  # fmt: skip
    with MemorySystem.open(tmp_path / "memory", embedder=FakeEmbedder()) as memory:
        assert memory.user("ada").count() == 1


def test_an_opening_that_is_interrupted_leaves_the_store_free(tmp_path: Path) -> None:
    """Ctrl-C, however far the opening has come, leaves nothing open."""
    directory = tmp_path / "memory"
    sync_api.MemorySystem.open(directory, embedder=FakeEmbedder()).close()
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        for step in range(40):
            memory = None
            signal.setitimer(signal.ITIMER_REAL, 0.002 + step * 0.001)
            with suppress(KeyboardInterrupt):
                memory = sync_api.MemorySystem.open(directory, embedder=FakeEmbedder())
                signal.pause()
            if memory is not None:
                memory.close()
            sync_api.MemorySystem.open(directory, embedder=FakeEmbedder(), share=False).close()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


class SlowToLeave(ExtractiveSummarizer):
    """Takes a while to be closed."""

    def __init__(self) -> None:
        super().__init__()
        self.closed = threading.Event()

    async def aclose(self) -> None:
        await anyio.sleep(0.3)
        self.closed.set()


def test_a_close_that_is_interrupted_goes_on_and_the_next_open_waits(tmp_path: Path) -> None:
    """A second Ctrl-C ends the wait for the close that the first one began, and not the close."""
    summarizer = SlowToLeave()
    opened = partial(
        sync_api.MemorySystem.open, tmp_path / "memory", embedder=FakeEmbedder(), share=False
    )
    memory = opened(summarizer=summarizer)
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        with pytest.raises(KeyboardInterrupt):
            memory.close()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert not summarizer.closed.is_set()
    opened().close()
    assert summarizer.closed.is_set()


def test_the_stub_is_what_the_script_makes() -> None:
    """Run `python scripts/sync_stub.py` after a change of a public signature."""
    made = ModuleType("sync_stub")
    path = ROOT / "scripts/sync_stub.py"
    made.__file__ = str(path)
    exec(compile(path.read_text("utf-8"), str(path), "exec"), made.__dict__)
    assert made.stub() == path.parents[1].joinpath("memory_actors/sync/__init__.pyi").read_text()


def test_completion_shows_the_handles_of_the_kinds(memory: MemorySystem) -> None:
    user = memory.user("u")
    handles = {name for name in HANDLES if not name.startswith("_")}
    assert handles | {"user_id", "retrieve"} <= set(dir(user))


def test_every_method_shows_the_docstring_and_the_types_of_the_async_one() -> None:
    for name, operation in OPERATIONS.items():
        if name == "context":
            continue
        kind = getattr(sync_api, OWNERS[name.rpartition(".")[0]].__name__)
        method = getattr(kind, operation.method.__name__)
        assert inspect.getdoc(method), name
        assert name in BY_HAND or inspect.getdoc(method) == operation.doc, name
        ours, theirs = inspect.signature(method), inspect.signature(operation.method)
        named = [one for one in ours.parameters if one not in ("self", "cls")]
        assert named == [one for one in theirs.parameters if one not in ("self", "cls")], name
        annotations = {ours.parameters[one].annotation for one in named} | {ours.return_annotation}
        assert inspect.Parameter.empty not in annotations, name
