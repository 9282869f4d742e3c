"""What names the place of a store: a directory, or the URL of a database or of a server."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from support.fakes import FakeEmbedder
from support.through import HttpServer

from memory_actors import (
    AccessDeniedError,
    InvalidInputError,
    LogUnavailable,
    MemorySystem,
    Settings,
    copy_store,
)
from memory_actors.api.parts import StoreParts
from memory_actors.cli import main
from memory_actors.sharing.owning import owned
from memory_actors.sharing.system import API_KEY_VARIABLE, open_or_join

pytestmark = pytest.mark.anyio

UNKNOWN = [
    "mysql://ada:secret@host/db", "sqlite:///memory.db", "file:///tmp/memory", "redis://host",
    "postgresql+psycopg://ada:secret@host/db", "MySQL://host", "s3://bucket/memory", "http:/host",
    Path("postgresql://host/db"), Path("http://127.0.0.1:8765"), "jdbc:mysql://ada:secret@host",
    '"postgresql://ada:secret@host/db"',
]  # fmt: skip


async def commanded(arguments: list[str]) -> Result:
    """Run a command in a thread, whose event loop is its own."""
    loop, run = asyncio.get_running_loop(), CliRunner().invoke
    return await loop.run_in_executor(None, run, main, arguments)


@pytest.fixture
async def served(
    http_server: HttpServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[str]:
    """Serve a store; give the URL, with the key in the environment."""
    monkeypatch.setenv(API_KEY_VARIABLE, http_server.key)
    opening = owned(tmp_path / "served", StoreParts(embedder=FakeEmbedder()), {})
    http_server.current.memory = memory = await http_server.there.run(opening)
    yield http_server.url
    await http_server.there.run(memory.close())


@pytest.mark.parametrize("place", UNKNOWN, ids=str)
async def test_a_url_of_an_unknown_scheme_is_refused_and_no_directory_of_its_name_is_made(
    place: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for opening in (MemorySystem.open(place), MemorySystem.open(place, share=False)):
        with pytest.raises(InvalidInputError, match="name a directory, or give") as refused:
            await opening
        assert "secret" not in str(refused.value)
    said = await commanded(["--data", str(place), "--user", "ada", "add", "x"])
    assert said.exit_code != 0
    assert "name a directory, or give" in said.output
    assert list(tmp_path.iterdir()) == []


async def test_no_directory_of_a_log_has_the_name_of_a_url(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    async with MemorySystem.open("memory", embedder=FakeEmbedder()) as memory:
        with pytest.raises(LogUnavailable, match="a mysql URL is no directory"):
            await memory.backup("mysql://host/backup")
        await memory.backup("backup")
    with pytest.raises(LogUnavailable, match="a mysql URL is no directory"):
        copy_store("backup", "mysql://host/db")
    assert {path.name for path in tmp_path.iterdir()} == {"memory", "backup"}


async def test_the_url_of_a_server_is_opened_as_its_client(served: str) -> None:
    for opening in (MemorySystem.open(served), open_or_join(served.upper())):
        async with opening as memory:
            await memory.user("ada").add("She drinks green tea")
            assert await memory.user("ada").count() == 1


async def test_options_of_a_store_are_refused_for_the_url_of_a_server(served: str) -> None:
    for parts in ({"settings": Settings()}, {"embedder": FakeEmbedder()}, {"share": False}):
        with pytest.raises(InvalidInputError, match="without options"):
            await MemorySystem.open(served, **parts)  # type: ignore[arg-type]


async def test_a_server_asks_for_the_key_that_is_not_in_the_environment(
    served: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(API_KEY_VARIABLE)
    async with MemorySystem.open(served) as memory:
        with pytest.raises(AccessDeniedError, match="API key"):
            await memory.user("ada").count()


async def test_the_command_line_is_a_client_of_a_server(served: str) -> None:
    async def ok(*arguments: str) -> str:
        options = ["--data", served, "--user", "ada"]
        done = await commanded([*options, *arguments])
        assert done.exit_code == 0, done.output
        return done.stdout

    added = await ok("add", "She drinks green tea", "--json")
    memory_id = added.partition('"memory_id": "')[2].partition('"')[0]
    assert "green tea" in await ok("search", "tea")
    assert "green tea" in await ok("list")
    assert "green tea" in await ok("get", memory_id)
    assert "User ada" in await ok("usage")
    await ok("delete", memory_id)
    assert await ok("count") == "0\n"


@pytest.mark.parametrize("command", [["serve"], ["keys", "list"], ["repair", "elsewhere"]])
async def test_what_is_done_beside_the_store_is_refused_for_a_server(
    served: str, command: list[str]
) -> None:
    done = await commanded(["--data", served, *command])
    assert done.exit_code != 0
    assert f"{served} is a server: run this where its store is" in done.output
