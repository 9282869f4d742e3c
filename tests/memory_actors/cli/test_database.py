"""Every command on a store in a database, while a node in another process has it open.

What a command does for a store in a directory it does here, too, or it says what does it instead.
"""

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest
from click.testing import CliRunner, Result
from support.agent import agent, said
from support.commands import LINES, SERVES, arguments_of
from support.fakes import FakeEmbedder
from support.postgres import lent_url
from support.programs import WITH_FAKE_MODEL

from eventlog.postgres import database, leases, store
from memory_actors import InvalidInputError, Settings, Tier
from memory_actors.cli import App, main
from memory_actors.sharing.address import has_password, shown
from memory_actors.sync import MemorySystem

ROOT = Path(__file__).parents[3]
INSTEAD = {
    "model switch": ("InvalidInputError", "agree on its model"),
    "backup": ("MissingCapability", "pg_dump"),
    "repair": ("InvalidInputError", "standby"),
    "copy": ("NotFoundError", "no store in the directory"),
    "demo": ("InvalidInputError", "leave --data out"),
}
"""The commands that are about a directory: the error, and what it says of it."""
SECRET = "s3cr3t"


class Shared(NamedTuple):
    """A store that a node has open, and a directory to work in."""

    url: str
    directory: Path
    ids: dict[str, str]

    def __call__(self, *arguments: str, url: str | None = None) -> Result:
        app = App(embedder=FakeEmbedder(), extractor=said)
        return CliRunner().invoke(main, ["--data", url or self.url, *arguments], obj=app)

    def json(self, *arguments: str) -> Any:
        result = self(*arguments, "--json")
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)

    def refused(self, *arguments: str, url: str | None = None) -> dict[str, str]:
        result = self(*arguments, "--json", url=url)
        assert result.exit_code == 1, result.output
        error: dict[str, str] = json.loads(result.stdout)["error"]
        return error


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shared]:
    directory = tmp_path_factory.mktemp("shared")
    (directory / "lines.jsonl").write_text('{"content": "was imported"}\n')
    (directory / "text.txt").write_text("In order to sail, wait for the wind. " * 3)
    with lent_url() as url, agent(url) as (_, ids):
        made = Shared(url, directory, ids)
        made.json("heads", str(directory / "heads.json"))
        ids["key"] = made.json("keys", "create", "--user", "ada")["id"]
        yield made


@pytest.fixture(autouse=True)
def in_its_directory(shared: Shared, surroundings: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(shared.directory)
    monkeypatch.setenv("XDG_STATE_HOME", str(shared.directory / "state"))  # of `agent pause`


@pytest.mark.parametrize("name", sorted(set(LINES) - set(INSTEAD) - SERVES))
def test_a_command_works_beside_a_node(shared: Shared, name: str) -> None:
    result = shared(*arguments_of(name, shared.ids), "--json")
    assert result.exit_code == 0, result.output
    for line in result.stdout.splitlines() if name == "improve" else [result.stdout]:
        json.loads(line)


@pytest.mark.parametrize("name", sorted(INSTEAD))
def test_a_command_says_what_the_database_does_instead(shared: Shared, name: str) -> None:
    error = shared.refused(*arguments_of(name, shared.ids))
    kind, told = INSTEAD[name]
    assert error["type"] == kind
    assert told in error["message"]


@pytest.mark.parametrize(
    "line",
    ["search tea", "list", "verify", "stats", "log", "usage", "ui --no-browser", "compact",
     "purge --source web", "keys list", "keys revoke 0123456789abcdef"],
)  # fmt: skip
def test_a_mistyped_schema_becomes_no_store_by_a_command_that_reads(
    shared: Shared, line: str
) -> None:
    mistyped = shared.url + "_mistyped"
    assert shared.refused(*line.split(), url=mistyped)["type"] == "NotFoundError"
    (store,) = [one for one in _checks(shared, mistyped) if one["name"] == "store"]
    assert store["found"] == "none in this schema yet"


def _checks(shared: Shared, url: str) -> Any:
    return json.loads(shared("doctor", "--json", url=url).stdout)["checks"]


def test_the_doctor_says_what_it_can_of_a_database(shared: Shared) -> None:
    found = {one["name"]: one for one in _checks(shared, shared.url)}
    assert found["database"]["status"] in ("ok", "warning")
    assert f"{shown(shared.url)}, PostgreSQL 1" in found["database"]["found"]
    assert found["store"]["found"].startswith("in format ")
    assert "data directory" not in found


@pytest.mark.parametrize("choice", [["--key-file", "other.keys"], ["--encrypt"]])
def test_a_file_of_keys_is_refused(shared: Shared, choice: list[str]) -> None:
    error = shared.refused("add", "secret", "--user", "ada", *choice)
    assert error["type"] == "InvalidInputError"
    assert "encrypt the disk of the database" in error["message"]


def test_several_databases_are_no_store(shared: Shared) -> None:
    one, other = "postgresql://a.example/app", "postgresql://b.example/app"
    with pytest.raises(InvalidInputError, match="one directory or one database"):
        MemorySystem.open([one, other])  # type: ignore[arg-type]
    assert "no URL of a database" in shared("list", url=f"{one} {other}").output


# --- passwords


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("postgresql://u:pw@h:1/d?schema=x", "postgresql://u@h:1/d?schema=x"),
        ("postgres://u@h/d", "postgres://u@h/d"),
        ("postgresql:///d", "postgresql:///d"),
        ("postgresql://h/d?password=pw&schema=x&sslpassword=pw", "postgresql://h/d?schema=x"),
        ("postgresql://u:p@w/pw?pw#pw@h/d", "postgresql://u@h/d"),
        ("postgresql://u:pw@h1:1,h2:2/d", "postgresql://u@h1:1,h2:2/d"),
    ],
)
def test_a_url_is_shown_without_its_password(url: str, told: str) -> None:
    assert shown(url) == told
    assert has_password(url) == ("pw" in url)


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://u:{SECRET}@127.0.0.1:9/d",
        f"postgresql://u:{SECRET}/more@127.0.0.1:9/d",
        f"postgresql://u:{SECRET}@127.0.0.1:no/d",
        f"postgresql://127.0.0.1:9/d?password={SECRET}&schema=" + "x" * 70,
        f"postgresql://127.0.0.1:9/d?passwort={SECRET}",
    ],
)
@pytest.mark.parametrize(
    "line", ["list --debug", "add x --debug", "repair x", "keys list", "doctor"]
)
def test_no_error_says_a_password(
    shared: Shared, monkeypatch: pytest.MonkeyPatch, url: str, line: str
) -> None:
    for module in (database, leases, store):  # nobody will ever listen there
        monkeypatch.setattr(module, "CONNECT_S", 0.2)
    result = shared(*line.split(), url=url)
    assert result.exit_code == 1
    assert SECRET not in result.output


def test_a_password_is_put_into_no_configuration(shared: Shared) -> None:
    """The command line that it names can be seen by everybody on the machine."""
    url = f"postgresql://u:{SECRET}@127.0.0.1/d"
    error = shared.refused("mcp", "install", "claude-code", "--project", "--yes", url=url)
    assert "~/.pgpass" in error["message"]
    assert not list(shared.directory.glob("*mcp*"))


def test_a_node_is_reached_where_the_options_or_the_environment_say(monkeypatch):
    url = "postgresql://app@db.example/app"
    assert App(data=url).node == {"node_host": None, "node_port": 0}
    monkeypatch.setenv("MEMORY_ACTORS_NODE_HOST", "10.0.0.7")
    monkeypatch.setenv("MEMORY_ACTORS_NODE_PORT", "7400")
    assert App(data=url).node == {"node_host": "10.0.0.7", "node_port": 7400}
    named = App(data=url, node_host="10.0.0.8", node_port=0)
    assert named.node == {"node_host": "10.0.0.8", "node_port": 0}
    assert App(data="./memory").node == {}
    with pytest.raises(InvalidInputError, match="for a store in a database"):
        _ = App(data="./memory", node_host="10.0.0.8").node
    monkeypatch.setenv("MEMORY_ACTORS_NODE_PORT", "any")
    with pytest.raises(InvalidInputError, match="no number"):
        _ = App(data=url).node


def test_a_command_takes_the_settings_that_the_servers_had(shared: Shared) -> None:
    """Also when none of them runs."""
    with lent_url() as url:
        settings = Settings(default_tier=Tier.FREE)
        with MemorySystem.open(url, embedder=FakeEmbedder(), settings=settings) as memory:
            memory.user("ada").add("Ada enjoys skiing")
        result = shared("usage", "--user", "ada", "--json", url=url)
        assert json.loads(result.stdout)["tier"] == "free", result.output


# --- processes


@pytest.fixture
def started(shared: Shared) -> Iterator[Callable[..., Iterator[Any]]]:
    """Start a command that goes on, which finds the URL in the environment."""
    running: list[subprocess.Popen[str]] = []
    paths = os.pathsep.join([str(ROOT), str(ROOT / "tests")])
    environment = {**os.environ, "MEMORY_ACTORS_DATA": shared.url, "PYTHONPATH": paths}

    def start(*arguments: str) -> Iterator[Any]:
        command = [*WITH_FAKE_MODEL, *arguments]
        process = subprocess.Popen(
            command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True
        )
        running.append(process)
        assert process.stdout is not None
        return (json.loads(line) for line in process.stdout)

    yield start
    for process in running:
        process.send_signal(signal.SIGINT)
        assert process.wait(30) in (0, 130)
        assert process.stdout is not None
        process.stdout.close()


def test_the_real_program_takes_the_url_from_the_environment(
    shared: Shared, spawn: Callable[..., Any]
) -> None:
    of_environment = {"MEMORY_ACTORS_DATA": shared.url}
    line = ["add", "has a cat called Miaow", "--user", "fay"]
    added = spawn(*line, "--json", env=of_environment)
    assert added.returncode == 0, added.stderr
    found = spawn("list", "--user", "fay", env=of_environment)
    assert (found.returncode, "Miaow" in found.stdout) == (0, True)
    wrong = spawn("list", env={"MEMORY_ACTORS_DATA": shared.url + "_mistyped"})
    assert wrong.returncode == 1
    assert f"{shown(shared.url)}_mistyped" in wrong.stderr


# --- servers


def http(address: str, token: str) -> httpx.Client:
    headers = {"Authorization": f"Bearer {token}"}
    return httpx.Client(base_url=f"{address}/v1", headers=headers, trust_env=False, timeout=30)


def test_servers_on_one_database_have_the_same_keys_and_memories(
    shared: Shared, started: Any
) -> None:
    made = shared.json("keys", "create", "--user", "ida")
    addresses = [next(started("serve", "--port", "0", "--json"))["address"] for _ in range(2)]
    with http(addresses[0], made["key"]) as one, http(addresses[1], made["key"]) as other:
        answer = one.post("/users/ida/memories", json={"content": "reads by night"})
        assert answer.status_code == 201, answer.text
        (found,) = other.get("/users/ida/memories").json()["memories"]
        assert found["content"] == "reads by night"

        late = shared.json("keys", "create", "--user", "ida")["key"]
        time.sleep(1.1)
        for client in (one, other):
            path = "/users/ida/memories"
            told = client.get(path, headers={"Authorization": f"Bearer {late}"})
            assert told.status_code == 200, told.text
        shared.json("keys", "revoke", made["id"])
        time.sleep(1.1)
        assert {client.get(path).status_code for client in (one, other)} == {401}


def test_an_erased_user_is_let_in_by_no_server(shared: Shared, started: Any) -> None:
    """At once: the servers are nodes, and are told."""
    token = shared.json("keys", "create", "--user", "kim")["key"]
    shared.json("add", "is to be forgotten", "--user", "kim")
    address = next(started("serve", "--port", "0", "--json"))["address"]
    with http(address, token) as client:
        assert client.get("/users/kim/memories").status_code == 200
        assert shared.json("erase", "--user", "kim", "--yes")["api_keys"] == 1
        assert client.get("/users/kim/memories").status_code == 401
