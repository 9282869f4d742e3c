"""What docs/deploy.md says, done: real servers with workers, real pools, a loop that runs."""

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from test_docs import ROOT, blocks, check_printed, printed_by

from memory_actors.search.embedding.default import DefaultEmbedder
from memory_actors.sharing.address import Address, read_address
from memory_actors.sync import MemorySystem

PAGE = "docs/deploy.md"
WORKERS = 4
RUNNING = re.compile(r"running on (http://127\.0\.0\.1:\d+)")
WRITES = 60


def block(word: str) -> str:
    (found,) = (one for one in blocks(PAGE) if word in one)
    return found


@pytest.fixture(scope="module", autouse=True)
def model() -> None:
    """Install the model, if it is not there, before a deadline runs."""
    DefaultEmbedder().embed(["a text"])


@contextmanager
def served(directory: Path, *options: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Run the app of the page on uvicorn; yield the process of the workers and the address."""
    (directory / "app.py").write_text(block("FastAPI("))
    command = [sys.executable, "-m", "uvicorn", "app:app", "--port", "0", *options]
    command += ["--timeout-worker-healthcheck", "60"]  # else it kills them on a busy machine
    with subprocess.Popen(
        command, cwd=directory, env={**os.environ, "PYTHONPATH": str(ROOT)},
        stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stderr is not None
        try:
            address = next(filter(None, map(RUNNING.search, process.stderr)))[1]
            yield process, address
        finally:
            process.kill()


def await_started(process: subprocess.Popen[str], workers: int) -> None:
    """Wait until so many workers have said that they started; some may have ended since."""
    assert process.stderr is not None
    said = (line for line in process.stderr if "startup complete" in line)
    assert len(list(islice(said, workers))) == workers


async def owner(directory: Path, *, other_than: int = 0) -> Address:
    """Return who owns the store, once somebody does."""
    async with asyncio.timeout(60):
        while True:
            found = read_address(directory / "memory")
            if found is not None and found.pid != other_than:
                return found
            await asyncio.sleep(0.05)


async def added(http: httpx.AsyncClient, content: str) -> None:
    """Add a memory, with a new connection if its worker has gone."""
    while True:
        try:
            answer = await http.post("/users/ada/memories", params={"content": content})
        except httpx.TransportError:
            await asyncio.sleep(0.05)
            continue
        assert answer.status_code == 200, answer.text
        return


def test_four_workers_share_a_memory_and_lose_nothing_when_the_owner_is_killed(
    tmp_path: Path,
) -> None:
    """A worker that is killed takes its connections along; the others go on as if nothing was."""

    async def use(address: str) -> int:
        limits = httpx.Limits(max_keepalive_connections=0)  # each request may reach any worker
        async with httpx.AsyncClient(
            base_url=address, timeout=60, limits=limits, trust_env=False
        ) as http:
            await added(http, "the first")
            first = await owner(tmp_path)
            async with asyncio.TaskGroup() as group:
                for number in range(WRITES):
                    group.create_task(added(http, f"note {number}"))
                    if number == WRITES // 2:
                        os.kill(first.pid, signal.SIGKILL)
                    await asyncio.sleep(0.01)
            second = await owner(tmp_path, other_than=first.pid)
            hits = await http.get("/users/ada/memories", params={"query": "note 7"})
            assert "note 7" in hits.json()
            return second.pid

    with served(tmp_path, "--workers", str(WORKERS)) as (process, address):
        asyncio.run(use(address))
        # A worker that is told to end while it starts closes nothing.
        await_started(process, WORKERS + 1)
        process.terminate()
        assert process.wait(60) in (0, -signal.SIGTERM)
    assert not (tmp_path / "memory/owner.json").exists(), "whoever was last has closed it"
    with MemorySystem.open(tmp_path / "memory") as memory:
        contents = [one.content for one in memory.user("ada").export()]
        assert set(contents) == {"the first", *(f"note {number}" for number in range(WRITES))}
        assert memory.verify().ok


def test_worker_processes_forked_and_spawned_share_a_memory(tmp_path: Path) -> None:
    program = block("multiprocessing")
    (tmp_path / "pool.py").write_text(program)
    check_printed(program, printed_by(tmp_path, "-W", "ignore::DeprecationWarning", "pool.py"))


class Celery:
    """The part of Celery that the example uses: a task knows its request."""

    def __init__(self, *_: Any, **__: Any):
        pass

    def task(self, function: Any) -> Any:
        function.request = SimpleNamespace(id="1")
        return function


def test_each_child_of_a_pool_opens_the_memory_for_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    signals: dict[str, Any] = {"init": None, "shutdown": None}

    def kept(name: str) -> Any:
        return SimpleNamespace(connect=lambda function: signals.__setitem__(name, function))

    stand_in: Any = SimpleNamespace(
        worker_process_init=kept("init"), worker_process_shutdown=kept("shutdown")
    )
    monkeypatch.setitem(sys.modules, "celery", SimpleNamespace(Celery=Celery))  # type: ignore[arg-type]
    monkeypatch.setitem(sys.modules, "celery.signals", stand_in)
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "tasks"}
    exec(block("celery"), names)

    def child() -> None:
        signals["init"]()
        names["remember"]("ada", "was delivered")
        signals["shutdown"]()

    for _ in range(2):  # the same task, delivered twice
        pid = os.fork()
        if not pid:
            with suppress(BaseException):
                child()
                os._exit(0)
            os._exit(1)  # it must not go on as a second pytest
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    with MemorySystem.open("memory") as memory:
        assert [one.memory_id for one in memory.user("ada").list_memories()] == ["task-1"]


def test_both_ways_work_in_the_cells_of_a_notebook(tmp_path: Path) -> None:
    cells = [one for one in blocks(PAGE) if "likes tea" in one]
    assert len(cells) == 2
    runner = (
        "import ast, asyncio, json, sys\n"
        "async def cells():\n"
        "    for cell in json.load(sys.stdin):\n"
        "        names = {}\n"
        "        code = compile(cell, 'cell', 'exec', ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)\n"
        "        if (running := eval(code, names)) is not None: await running\n"
        "asyncio.run(cells())\n"
    )
    check_printed("\n".join(cells), printed_by(tmp_path, "-c", runner, stdin=json.dumps(cells)))
