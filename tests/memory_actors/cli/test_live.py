"""Every command while an agent in another process has the store open.

The agent has settings, an embedder, a summarizer and keys of its own: what runs here has none of
that. `LINES` names every command that there is: a new one has to say what it does.
"""

import json
import os
import re
import shlex
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import click
import httpx
import pytest
from click.testing import CliRunner, Result
from support.agent import agent
from support.commands import LINES, SERVES, arguments_of
from support.foreign import mem0_json
from support.programs import INTERRUPTIBLE

from memory_actors import DeadlineExceededError
from memory_actors.cli import App, main, running
from memory_actors.cli.doctor import checks
from memory_actors.sharing.address import read_address
from memory_actors.sync import MemorySystem

ROOT = Path(__file__).parents[3]

ALONE = {"copy", "repair"}
"""Commands that need the store for themselves."""
SWITCHES = {"model switch"}
"""Would leave the agent with another embedder: tests/memory_actors/upkeep/test_switching.py."""
WHERE = re.compile(r"is open in process (\d+) since \d{4}-\d\d-\d\d \d\d:\d\d:\d\d: close it there")


def commands(group: click.Command = main, path: tuple[str, ...] = ()) -> Iterator[str]:
    """Yield the names of all commands that the program has."""
    if isinstance(group, click.Group):
        for name, command in group.commands.items():
            yield from commands(command, (*path, name))
    else:
        yield " ".join(path)


class Live(NamedTuple):
    """A store that an agent has open, and a directory to work in."""

    directory: Path
    pid: int
    ids: dict[str, str]

    @property
    def data(self) -> str:
        return str(self.directory / "memory")

    def __call__(self, *arguments: str) -> Result:
        return CliRunner().invoke(main, ["--data", self.data, *arguments], obj=App())

    def json(self, *arguments: str) -> Any:
        result = self(*arguments, "--json")
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)

    def refused(self, *arguments: str) -> dict[str, str]:
        result = self(*arguments, "--json")
        assert result.exit_code == 1, result.output
        error: dict[str, str] = json.loads(result.stdout)["error"]
        return error


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    directory = tmp_path_factory.mktemp("live")
    (directory / "lines.jsonl").write_text('{"content": "was imported"}\n')
    (directory / "text.txt").write_text("In order to sail, wait for the wind. " * 3)
    with agent(directory / "memory", "encrypted") as (pid, ids):
        made = Live(directory, pid, ids)
        made.json("backup", str(directory / "backup"))
        made.json("heads", str(directory / "heads.json"))
        ids["key"] = made.json("keys", "create", "--user", "ada")["id"]
        yield made


@pytest.fixture(autouse=True)
def in_its_directory(live: Live, surroundings: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work beside the store, and without a model: whoever has the store has one."""

    def install(_: App) -> None:
        raise AssertionError("a client of the store needs no model")

    monkeypatch.chdir(live.directory)
    monkeypatch.setenv("XDG_STATE_HOME", str(live.directory / "state"))  # of `agent pause`
    monkeypatch.setattr(running, "install_default", install)


def test_there_is_a_line_for_every_command() -> None:
    assert sorted(LINES) == sorted(commands())


@pytest.mark.parametrize("name", sorted(set(LINES) - ALONE - SERVES - SWITCHES))
def test_a_command_works_beside_an_agent(live: Live, name: str) -> None:
    result = live(*arguments_of(name, live.ids), "--json")
    assert result.exit_code == 0, result.output
    for line in result.stdout.splitlines() if name == "improve" else [result.stdout]:
        json.loads(line)
    assert os.kill(live.pid, 0) is None


def test_another_programs_memories_are_imported_and_exported_beside_an_agent(live: Live) -> None:
    line = ["import", "--from", "mem0", str(mem0_json(live.directory))]
    assert live.json(*line, "--dry-run")["added"] == 3
    assert live.json(*line)["users"] == ["ada", "bob"]
    assert live.json(*line)["unchanged"] == 3
    assert live.json("export", "--to", "mem0", "out.json", "--user", "bob")["memories"] >= 1


@pytest.mark.parametrize("name", sorted(ALONE))
def test_a_command_that_needs_the_store_alone(live: Live, name: str) -> None:
    error = live.refused(*name.split(), *shlex.split(LINES[name]))
    assert error["type"] == "LogLocked"
    found = WHERE.search(error["message"])
    assert found is not None, error["message"]
    assert int(found[1]) == live.pid
    assert not (live.directory / "repaired").exists()


def test_agent_and_commands_find_what_the_other_writes(live: Live) -> None:
    """What the agent writes is found and what is written reaches the agent."""
    added = live.json("add", "has a cat called Miaow", "--user", "fay")
    with MemorySystem.open(live.data) as memory:  # another client
        assert memory.user("fay").get(added["memory_id"]).content == "has a cat called Miaow"
        memory.user("fay").add("has a dog called Wuff")
    (hit,) = live.json("search", "dog Wuff", "--top-k", "1", "--user", "fay")
    assert hit["content"] == "has a dog called Wuff"


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (["search", "tea", "--embedder", "multilingual"], "another embedder"),
        (["search", "tea", "--embedder", "default"], "another embedder"),
        (["list", "--key-file", "other.keys"], "another file of keys, or none"),
        (["compact", "--summarizer", "llm"], "another summarizer"),
        (["compact", "--summarizer", "extractive"], "another summarizer"),
        (["serve", "--port", "0", "--compact-at", "never"], "other settings"),
        (["serve", "--port", "0", "--retain", "tool:*=30"], "other settings"),
        (["serve", "--port", "0", "--extractor"], "another extractor"),
        (["serve", "--extractor", "ollama:qwen3:4b", "--port", "0"], "another extractor"),
    ],
)
def test_what_a_client_cannot_have_is_refused(
    live: Live, monkeypatch: pytest.MonkeyPatch, arguments: list[str], what: str
) -> None:
    monkeypatch.setenv("MEMORY_ACTORS_LLM_MODEL", "a-model")
    monkeypatch.setenv("MEMORY_ACTORS_LLM_BASE_URL", "http://127.0.0.1:9")
    error = live.refused("--user", "ada", *arguments)
    assert error["type"] == "InvalidInputError"
    assert f"process {live.pid} has the store open with {what}" in error["message"]


def test_the_keys_that_the_owner_has_may_be_named(live: Live) -> None:
    assert live("list", "--key-file", "memory.keys", "--user", "ada").exit_code == 0
    assert live("list", "--encrypt", "--user", "ada").exit_code == 2, "only for a new store"


def test_the_doctor_asks_who_has_the_store(live: Live) -> None:
    (lock,) = [one for one in checks(Path(live.data)) if one.name == "log lock"]
    assert lock.status == "ok"
    assert re.fullmatch(
        rf"open in process {live.pid} since .{{19}}, which answers others in [\d.]+ ms", lock.found
    )


@pytest.fixture
def stopped(live: Live, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Stop who has the store; yield what is to be said of it, which is waited for a moment only."""
    monkeypatch.setattr("memory_actors.sharing.connecting.SILENCE_S", 0.3)
    monkeypatch.setattr("memory_actors.sharing.invocations.WAIT_S", 0.3)
    os.kill(live.pid, signal.SIGSTOP)
    try:
        yield f"process {live.pid} has the store and has said nothing for 0.3 s"
    finally:
        os.kill(live.pid, signal.SIGCONT)


def test_the_doctor_finds_an_owner_that_does_not_answer(live: Live, stopped: str) -> None:
    """The doctor says that who has the store does not answer."""
    (lock,) = [one for one in checks(Path(live.data)) if one.name == "log lock"]
    assert lock.status == "failed"
    assert f"process {live.pid} since" in lock.found
    assert f"does not answer: {stopped}" in lock.found


@pytest.fixture
def client(live: Live) -> Iterator[MemorySystem]:
    with MemorySystem.open(live.data) as memory:
        yield memory


def test_who_has_the_store_and_says_nothing_is_named(
    live: Live, client: MemorySystem, stopped: str
) -> None:
    """It is not taken for nobody, neither where it is asked to let in nor by a call at once."""
    with pytest.raises(DeadlineExceededError, match=stopped), MemorySystem.open(live.data):
        pass
    with pytest.raises(DeadlineExceededError, match=stopped):
        client.statistics()


@pytest.fixture
def started(live: Live) -> Iterator[Any]:
    """Start a command that goes on, and interrupt it at the end."""
    running: list[subprocess.Popen[str]] = []

    def start(*arguments: str) -> Iterator[Any]:
        command = [*INTERRUPTIBLE, "--data", live.data, *arguments]
        process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
        running.append(process)
        assert process.stdout is not None
        return (json.loads(line) for line in process.stdout)

    yield start
    for process in running:
        process.send_signal(signal.SIGINT)
        assert process.wait(30) in (0, 130, -signal.SIGKILL)
        assert process.stdout is not None
        process.stdout.close()


def test_a_log_is_followed_while_the_agent_works(live: Live, started: Any) -> None:
    entries = started("log", "--follow", "--user", "gil", "--json")
    for number in range(3):
        added = live.json("add", f"event {number}", "--user", "gil")
        entry = next(entries)
        assert (entry["user_id"], entry["data"]["content"]) == ("gil", f"event {number}")
        assert added["memory_id"]


def test_a_file_is_watched_while_the_agent_works(live: Live, started: Any) -> None:
    file = live.directory / "WATCHED.md"
    file.write_text("- Said in the file\n")
    reports = started("context", "sync", str(file), "--watch", "--user", "hal", "--json")
    assert next(reports)["changes"] == 1
    with MemorySystem.open(live.data) as memory:
        memory.user("hal").context.add("", "Said by the agent")
    assert next(reports)["file_changed"]
    assert "- Said by the agent" in file.read_text()


def http(address: str, token: str) -> httpx.Client:
    headers = {"Authorization": f"Bearer {token}"}
    return httpx.Client(base_url=f"{address}/v1", headers=headers, trust_env=False, timeout=30)


def test_a_store_is_served_beside_the_agent(live: Live, started: Any) -> None:
    """A store is served over HTTP in front of the agent."""
    token = live.json("keys", "create", "--user", "ida")["key"]
    address = next(started("serve", "--port", "0", "--json"))["address"]
    with http(address, token) as client:
        answer = client.post("/users/ida/memories", json={"content": "reads by night"})
        assert answer.status_code == 201, answer.text
    (found,) = live.json("list", "--user", "ida")
    assert found["content"] == "reads by night"


def test_a_server_takes_over_from_a_killed_owner(live: Live, started: Any) -> None:
    data = Path(live.data).with_name("served")
    made = CliRunner().invoke(main, ["--data", str(data), "keys", "create", "--root", "--json"])
    token = json.loads(made.stdout)["key"]
    serve = ["serve", "--port", "0", "--json", "--data", str(data)]
    first, second = (next(started(*serve))["address"] for _ in range(2))
    with http(first, token) as client:
        added = client.post("/users/ada/memories", json={"content": "reads", "pinned": True})
        assert added.status_code == 201
    owner = read_address(data)
    assert owner is not None
    os.kill(owner.pid, signal.SIGKILL)
    with http(second, token) as client:
        (found,) = client.get("/users/ada/memories").json()["memories"]
    assert found["content"] == "reads"
    taken = read_address(data)
    assert taken is not None
    assert taken.pid != owner.pid
