"""Every command on a memory in two databases, while a node in another process has it open."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from click.testing import CliRunner, Result
from support.agent import agent, said
from support.commands import LINES, SERVES, WITH_RAY, arguments_of
from support.fakes import FakeEmbedder
from support.postgres import lent_url

from memory_actors.cli import App, main
from memory_actors.sharing.address import shown
from memory_actors.sharing.shards import SHARDS, shard_of

INSTEAD = {
    "backup": ("MissingCapability", "pg_dump"),
    "export-since": ("MissingCapability", "replicate the database"),
    "import-since": ("InvalidInputError", "replicate the database"),
    "restore-backup": ("InvalidInputError", "pg_restore"),
    "repair": ("InvalidInputError", "standby"),
    "move": ("NotFoundError", "no store in the directory"),
    "demo": ("InvalidInputError", "leave --data out"),
    "heads": ("InvalidInputError", "heads are of one log"),
    "shards move": ("InvalidInputError", "among those of the memory"),
}
AT_A_POSITION = {"verify": "", "replay": "tea --as-of 4 --user ada", "diff": "0 --user ada"}
"""What is said of a command in place of a position that only one of the databases has."""


class Shared(NamedTuple):
    """A memory that a node has open, and a directory to work in."""

    urls: list[str]
    directory: Path
    ids: dict[str, str]

    def __call__(self, *arguments: str, urls: str | None = None) -> Result:
        app = App(embedder=FakeEmbedder(), extractor=said)
        return CliRunner().invoke(
            main, ["--data", urls or " ".join(self.urls), *arguments], obj=app
        )

    def json(self, *arguments: str) -> Any:
        result = self(*arguments, "--json")
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shared]:
    directory = tmp_path_factory.mktemp("shared")
    (directory / "lines.jsonl").write_text('{"content": "was imported"}\n')
    (directory / "text.txt").write_text("In order to sail, wait for the wind. " * 3)
    with lent_url() as one, lent_url() as other, agent(f"{one} {other}") as (_, ids):
        made = Shared([one, other], directory, ids)
        ids["key"] = made.json("keys", "create", "--user", "ada")["id"]
        yield made


@pytest.fixture(autouse=True)
def in_its_directory(shared: Shared, surroundings: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(shared.directory)


@pytest.mark.parametrize("name", sorted(set(LINES) - set(INSTEAD) - SERVES - WITH_RAY))
def test_a_command_works_beside_a_node_in_two_databases(shared: Shared, name: str) -> None:
    arguments = arguments_of(name, shared.ids)
    if name in AT_A_POSITION:
        arguments = [*name.split(), *AT_A_POSITION[name].split()]
    result = shared(*arguments, "--json")
    assert result.exit_code == 0, result.output
    for line in result.stdout.splitlines() if name == "improve" else [result.stdout]:
        json.loads(line)


@pytest.mark.parametrize("name", sorted(INSTEAD))
def test_a_command_says_what_the_databases_do_instead(shared: Shared, name: str) -> None:
    result = shared(*arguments_of(name, shared.ids), "--json")
    assert result.exit_code == 1, result.output
    error = json.loads(result.stdout)["error"]
    kind, told = INSTEAD[name]
    assert error["type"] == kind
    assert told in error["message"]


def test_shards_are_shown_and_moved(shared: Shared) -> None:
    before = shared.json("shards")
    assert sum(one["count"] for one in before) == SHARDS
    assert sum(one["users"] for one in before) >= 3
    [at] = [n for n, one in enumerate(before) if _has(one["shards"], shard_of("ada"))]

    [moved] = shared.json("shards", "move", "--user", "ada", "--to", shared.urls[1 - at])

    assert (moved["shard"], moved["streams"] > 0) == (shard_of("ada"), True)
    after = shared.json("shards")
    assert _has(after[1 - at]["shards"], shard_of("ada"))
    assert not any(one["moving"] for one in after)
    assert shared("list", "--user", "ada").exit_code == 0
    assert len(shared.json("shards", "move", "--even")) == 1
    shared.json("shards", "move", "7", "--to", after[0]["name"])
    shared.json("shards", "move", "7", "--to", after[1]["store"])
    shared.json("shards", "move", "--even")
    assert [one["count"] for one in shared.json("shards")] == [SHARDS // 2] * 2
    for line in (["shards"], ["shards", "move", "0-2", "--to", shared.urls[0]]):
        assert shared(*line).exit_code == 0


def _has(ranges: str, shard: int) -> bool:
    parts = (one.partition("-") for one in ranges.split(", "))
    return any(int(first) <= shard <= int(last or first) for first, _, last in parts)


@pytest.mark.parametrize(
    "line",
    [
        ["shards", "move"], ["shards", "move", "1"], ["shards", "move", "4096", "--to", "x"],
        ["shards", "move", "2-1", "--to", "x"], ["shards", "move", "1", "--even"],
    ],
)  # fmt: skip
def test_a_move_of_shards_has_to_say_what_goes_where(shared: Shared, line: list[str]) -> None:
    assert shared(*line).exit_code == 2


def test_one_of_the_databases_alone_is_refused(shared: Shared) -> None:
    for url in shared.urls:
        result = shared("add", "tea", "--user", "ada", "--json", urls=url)
        assert result.exit_code == 1
        assert json.loads(result.stdout)["error"]["type"] == "LogUnavailable"


def test_the_doctor_looks_at_each_database(shared: Shared) -> None:
    checks = json.loads(shared("doctor", "--json").stdout)["checks"]
    assert [one["name"] for one in checks].count("store") == 2


def test_databases_are_shown_without_their_passwords() -> None:
    assert shown(["postgresql://u:pw@h/a", "postgresql://u:pw@h/b"]) == (
        "postgresql://u@h/a postgresql://u@h/b"
    )
