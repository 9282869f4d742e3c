"""What docs/deploy.md says, done: real servers with workers, real pools, a loop that runs."""

import asyncio
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
import yaml
from test_docs import ROOT, blocks, check_printed, printed_by

from memory_actors.search.embedding.default import DefaultEmbedder
from memory_actors.sharing.address import Address, read_address
from memory_actors.sync import MemorySystem

PAGE = "docs/deploy.md"
IMAGE_MB_MAX = 240  # what is added to that of Python
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


# --- containers


def stages() -> list[list[tuple[str, str]]]:
    """Return the instructions of each stage of the Containerfile, with its arguments."""
    text = (ROOT / "Containerfile").read_text("utf-8").replace("\\\n", " ")
    lines = [line.split(None, 1) for line in text.splitlines() if line and line[0] != "#"]
    found: list[list[tuple[str, str]]] = [[]]
    for word, rest in lines:
        if word == "FROM":
            found.append([])
        found[-1].append((word, rest))
    return found[1:]


def words(stage: list[tuple[str, str]], instruction: str) -> list[str]:
    """Return the words of the instruction that has them as JSON."""
    (rest,) = (rest for word, rest in stage if word == instruction)
    return list(json.loads(rest[rest.index("[") :]))


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def is_healthy(health: list[str], port: int) -> bool:
    command = [one.replace("8765", str(port)) for one in health]
    return subprocess.run(command, stderr=subprocess.DEVNULL, check=False).returncode == 0


def await_healthy(health: list[str], port: int) -> None:
    """Run the health check until it succeeds."""
    until = time.monotonic() + 60
    while not is_healthy(health, port):
        assert time.monotonic() < until, "it was not healthy within a minute"
        time.sleep(0.5)


@pytest.mark.user
def test_the_command_of_the_container_is_healthy_and_stops_on_sigterm(tmp_path: Path) -> None:
    """It runs as an ordinary user where root runs all tests."""
    check_container(
        [sys.executable, "-m", "memory_actors.cli"], tmp_path, {"PYTHONPATH": str(ROOT)}
    )


@pytest.mark.slow
def test_the_steps_of_the_image_make_a_small_one_that_serves(tmp_path: Path) -> None:
    """They need the registry of Python's packages; those of apt are taken from this machine."""
    place, source = tmp_path / "memory-actors", tmp_path / "source"
    archive = subprocess.run(["git", "archive", "HEAD"], cwd=ROOT, capture_output=True, check=True)
    source.mkdir()
    subprocess.run(["tar", "-x"], cwd=source, input=archive.stdout, check=True)
    given = {**os.environ, "PYTHONPATH": "", "VIRTUAL_ENV": ""}
    for word, rest in stages()[0]:
        here = rest.replace("/opt/memory-actors", str(place)).replace("/src", str(source))
        if word in ("ARG", "ENV"):
            given |= [here.split("=", 1)]
        elif word == "RUN" and "apt-get" not in rest:
            subprocess.run(["sh", "-euc", here], cwd=tmp_path, env=given, check=True)

    files = [path.stat().st_size for path in place.rglob("*") if path.is_file()]
    assert sum(files) < IMAGE_MB_MAX * 1_000_000
    its = {"MEMORY_ACTORS_MODEL_DIR": str(place / "model"), "PYTHONPATH": ""}
    check_container([str(place / "bin" / "memory-actors")], tmp_path, its)


def check_container(entry: list[str], directory: Path, variables: dict[str, str]) -> None:
    """Run the command of the container until it is healthy, and stop it."""
    *_, run = stages()
    port = free_port()
    assert words(run, "ENTRYPOINT") == ["memory-actors"]
    assert ("STOPSIGNAL", "SIGTERM") in run
    health = [sys.executable, *words(run, "HEALTHCHECK")[1:]]
    command = [*entry, *words(run, "CMD"), "--port", str(port)]
    where = {**os.environ, "MEMORY_ACTORS_DATA": str(directory / "data"), **variables}
    with subprocess.Popen(command, env=where, stderr=subprocess.PIPE, text=True) as process:
        try:
            await_healthy(health, port)
            process.terminate()
            assert process.wait(30) == 0
        finally:
            process.kill()
    assert not is_healthy(health, port)


def test_the_image_runs_as_nobody_in_particular_and_has_no_compiler() -> None:
    build, run = stages()
    assert any("gcc" in rest for _, rest in build)
    assert not [rest for word, rest in run if word == "RUN" and "apt-get" in rest]
    ((user),) = (rest for word, rest in run if word == "USER")
    assert int(user.split(":")[0]) >= 10_000
    assert ("VOLUME", "/data") in run
    copied = [rest for word, rest in run if word == "COPY"]
    assert copied == ["--from=build /opt/memory-actors /opt/memory-actors"]


def test_compose_waits_for_a_healthy_database_and_is_not_open_to_others() -> None:
    services = yaml.safe_load((ROOT / "compose.yaml").read_text("utf-8"))["services"]
    memory, database = services["memory"], services["db"]
    assert memory["depends_on"] == {"db": {"condition": "service_healthy"}}
    assert database["healthcheck"]["test"][:2] == ["CMD", "pg_isready"]
    assert all(port.startswith("127.0.0.1:") for port in memory["ports"])
    assert "ports" not in database
    address = memory["environment"]["MEMORY_ACTORS_DATA"]
    assert address.startswith("postgresql://memory:")
    assert f"@{next(name for name in services if name != 'memory')}/memory?schema=" in address


CHART = ROOT / "deploy" / "helm"


def test_the_chart_uses_values_that_it_has() -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text("utf-8"))
    used = set[str]()
    for file in (CHART / "templates").iterdir():
        text = file.read_text("utf-8")
        assert text.count("{{") == text.count("}}")
        used |= set(re.findall(r"\.Values\.([\w.]+)", text))
    for name in used:
        here = values
        for part in name.split("."):
            assert part in here, name
            here = here[part]
    assert {name.split(".")[0] for name in used} == set(values), "each value is used"


@pytest.mark.skipif(shutil.which("helm") is None, reason="needs helm")
def test_helm_accepts_the_chart() -> None:
    subprocess.run(["helm", "lint", "--strict", CHART], check=True)
    made = subprocess.run(
        ["helm", "template", "m", CHART, "--set", "database.secret=s,replicas=3"],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    assert {one["kind"] for one in yaml.safe_load_all(made.stdout)} == {"Service", "StatefulSet"}
    refused = subprocess.run(["helm", "template", "m", CHART, "--set", "replicas=2"], check=False)
    assert refused.returncode
