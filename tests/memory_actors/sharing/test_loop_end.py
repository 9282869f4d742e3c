"""A store whose event loop ends before it is closed: by `asyncio.run`, or by an error."""

import asyncio
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import pytest
from support.fakes import FakeEmbedder

from eventlog.lmdb.opening import Files
from memory_actors import MemorySystem
from memory_actors.integrations.mem0 import AsyncMemory
from memory_actors.sharing.address import FILE
from memory_actors.sharing.invocations import OWNED_HERE

T = TypeVar("T")
AT_ONCE_S = 5.0  # on a busy machine; a silent owner is waited for twice as long
OPENING = """
import asyncio, sys
from pathlib import Path
sys.path.append(sys.argv[3])
from memory_actors import MemorySystem
from support.fakes import FakeEmbedder

async def main():
    share = sys.argv[2] == "share"
    async with MemorySystem.open(Path(sys.argv[1]), embedder=FakeEmbedder(), share=share) as memory:
        return await memory.user("ada").count(memory_types=["long_term"])

print(asyncio.run(main()))
"""


@pytest.fixture
def new_loop() -> Iterator[Callable[[], asyncio.AbstractEventLoop]]:
    """Make loops that the test may leave open."""
    made: list[asyncio.AbstractEventLoop] = []

    def new() -> asyncio.AbstractEventLoop:
        made.append(asyncio.new_event_loop())
        return made[-1]

    yield new
    for loop in made:
        loop.run_until_complete(asyncio.sleep(0))  # what was left to it
        loop.close()


async def opened(place: Path, **parts: Any) -> MemorySystem:
    async with asyncio.timeout(AT_ONCE_S):
        return await MemorySystem.open(place, embedder=FakeEmbedder(), **parts)


async def left_open(place: Path, text: str = "She drinks tea", **parts: Any) -> int:
    """Add a memory and a value, and say how many memories there are."""
    memory = await opened(place, **parts)
    await memory.user("ada").add(text)
    await memory.user("ada").working.set(text, 1)
    return await memory.user("ada").count(memory_types=["long_term"])


async def kept(place: Path, **parts: Any) -> list[str]:
    """Return what a store has, by its memories and its values."""
    memory = await opened(place, **parts)
    ada = memory.user("ada")
    contents = [
        one.content for one in await ada.list_memories(memory_types=["long_term"], limit=1000)
    ]
    values = [f"{key}!" for key in await ada.working.items()]
    await memory.close()
    return sorted([*contents, *values])


def asked_elsewhere(place: Path, how: str = "share") -> str:
    done = subprocess.run(
        [sys.executable, "-c", OPENING, str(place), how, str(Path(__file__).parents[2])],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    return done.stdout + done.stderr


def closing(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, T]) -> T:
    """Run work on a loop, and close that with all its tasks pending."""
    found = loop.run_until_complete(work)
    loop.close()
    return found


ENDS: dict[str, Callable[[Coroutine[Any, Any, Any]], Any]] = {
    "asyncio.run": asyncio.run,
    "a loop closed with tasks pending": lambda work: closing(asyncio.new_event_loop(), work),
}
END = pytest.mark.parametrize("run", ENDS.values(), ids=ENDS)


@END
@pytest.mark.parametrize("share", [True, False])
def test_the_next_loop_opens_the_store_and_nothing_acknowledged_is_lost(
    tmp_path: Path, run: Callable[..., Any], share: bool
) -> None:
    for number in (1, 2, 3):
        assert run(left_open(tmp_path / "memory", f"{number}", share=share)) == number
    assert asyncio.run(kept(tmp_path / "memory")) == ["1", "1!", "2", "2!", "3", "3!"]


@END
@pytest.mark.parametrize("how", ["share", "alone"])
def test_another_process_opens_a_store_whose_loop_has_ended_while_its_process_lives(
    tmp_path: Path, run: Callable[..., Any], how: str
) -> None:
    run(left_open(tmp_path / "memory"))
    assert asked_elsewhere(tmp_path / "memory", how) == "1\n"


def test_nothing_says_that_the_store_has_an_owner_once_the_loop_has_ended(tmp_path: Path) -> None:
    threads = threading.active_count()
    asyncio.run(left_open(tmp_path / "memory"))
    assert not (tmp_path / "memory" / FILE).exists()
    left = [one.name for one in threading.enumerate() if one.name == "eventlog-writer"]
    assert left == []
    assert threading.active_count() <= threads + 2  # they notice it within seconds


def test_a_store_is_opened_again_after_an_error_before_its_close(tmp_path: Path) -> None:
    async def failing() -> None:
        await left_open(tmp_path / "memory")
        raise ZeroDivisionError

    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            asyncio.run(failing())
    assert asyncio.run(left_open(tmp_path / "memory", "again")) == 2


def test_an_encrypted_store_whose_loop_has_ended_is_opened_again(tmp_path: Path) -> None:
    for number in (1, 2):
        assert asyncio.run(left_open(tmp_path / "memory", str(number), encrypt=True)) == number


@END
def test_a_handle_of_a_loop_that_has_ended_works_on_the_next(
    tmp_path: Path, run: Callable[..., Any]
) -> None:
    memory = run(opened(tmp_path / "memory"))
    ada = memory.user("ada")
    for number in (1, 2, 3):
        run(ada.add(f"fact {number}"))
        assert run(memory.user("ada").count(memory_types=["long_term"])) == number


def test_a_loop_that_does_not_run_loses_the_store_to_the_next_one_of_its_process(
    tmp_path: Path, new_loop: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    for number in (1, 2, 3):
        left = left_open(tmp_path / "memory", str(number))
        assert new_loop().run_until_complete(left) == number


def test_a_loop_that_does_not_run_loses_the_store_to_another_process_and_asks_for_it_again(
    tmp_path: Path, new_loop: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    loop = new_loop()
    memory = loop.run_until_complete(opened(tmp_path / "memory"))
    for number in (1, 2):
        loop.run_until_complete(memory.user("ada").add(f"fact {number}"))
        assert asked_elsewhere(tmp_path / "memory") == f"{number}\n"
    assert loop.run_until_complete(memory.user("ada").count(memory_types=["long_term"])) == 2
    loop.run_until_complete(memory.close())


def test_threads_that_run_a_loop_each_share_a_store_one_after_the_other(tmp_path: Path) -> None:
    counts: list[int] = []

    def visit() -> None:  # as a script of Streamlit's
        counts.append(asyncio.run(left_open(tmp_path / "memory", str(len(counts)))))

    for _ in range(3):
        thread = threading.Thread(target=visit)
        thread.start()
        thread.join()
    assert counts == [1, 2, 3]


def test_threads_whose_loops_end_at_any_time_lose_no_write_and_see_no_error(
    tmp_path: Path, recwarn: pytest.WarningsRecorder
) -> None:
    """Each takes over what another leaves in the middle of the work of both."""
    added: list[str] = []

    async def add(thread: int, visit: int) -> None:
        memory = await opened(tmp_path / "memory")
        for step in range(1 + (thread + visit) % 3):
            text = f"{thread} {visit} {step}"
            await memory.user("ada").add(text)
            added.append(text)

    def visits(thread: int) -> None:
        for visit in range(12):
            asyncio.run(add(thread, visit))

    with ThreadPoolExecutor(6) as threads:
        list(threads.map(visits, range(6)))
    assert asyncio.run(kept(tmp_path / "memory")) == sorted(added)
    assert [str(one.message) for one in recwarn if "never awaited" in str(one.message)] == []


def test_a_task_that_writes_when_it_is_cancelled_writes_behind_what_was_under_way(
    tmp_path: Path,
) -> None:
    """However far that had come: it is in the log, or it is not."""

    async def last_words(memory: MemorySystem, step: int) -> None:
        try:
            await memory.user("ada").add(f"{step} cut off")
            await asyncio.Event().wait()
        finally:
            await memory.user("ada").add(f"{step} the last")

    async def main(step: int) -> None:
        memory = await opened(tmp_path / "memory")
        await memory.user("ada").count()
        task = asyncio.create_task(last_words(memory, step))
        for _ in range(step):
            await asyncio.sleep(0)
        left.append(task)

    left: list[asyncio.Task[None]] = []
    for step in range(1, 30):
        asyncio.run(main(step))
        with pytest.raises(asyncio.CancelledError):
            left[-1].result()
    said = asyncio.run(kept(tmp_path / "memory"))
    assert [one for one in said if "last" in one] == sorted(f"{n} the last" for n in range(1, 30))


def test_whoever_releases_a_store_second_waits_for_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a thread where a client waits, and the end of the loop."""
    releasing, close = threading.Event(), Files.close

    def slowly(files: Files) -> None:
        releasing.set()
        time.sleep(0.3)
        close(files)

    loop = asyncio.new_event_loop()
    loop.run_until_complete(left_open(tmp_path / "memory"))
    [here] = OWNED_HERE.values()
    with monkeypatch.context() as slow:
        slow.setattr(Files, "close", slowly)
        thread = threading.Thread(target=here.release)
        thread.start()
        assert releasing.wait(AT_ONCE_S)
        here.release()
    assert asyncio.run(left_open(tmp_path / "memory", "again")) == 2
    thread.join()
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()


def test_a_global_memory_of_mem0_works_in_every_asyncio_run(tmp_path: Path) -> None:
    memory = AsyncMemory(tmp_path / "memory", embedder=FakeEmbedder())

    async def add(text: str) -> int:
        await memory.add(text, user_id="ada", infer=False)
        return len((await memory.get_all(filters={"user_id": "ada"}))["results"])

    assert [asyncio.run(add(f"fact {number}")) for number in (1, 2, 3)] == [1, 2, 3]
