"""The program in this process, over a fake model and a store of its own."""

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from support.fakes import FakeEmbedder
from support.llm_server import Server

from memory_actors.cli import App, main

ROOT = Path(__file__).parents[3]
CHOSEN_USER = re.compile(r"User .+, as --user names nobody\.")


class Program:
    """Runs command lines against one data directory."""

    def __init__(self, data: Path):
        self.data = data
        self.embedder = FakeEmbedder()

    def __call__(self, *arguments: str, stdin: str | bytes | None = None) -> Result:
        app = App(embedder=self.embedder)
        return CliRunner().invoke(main, ["--data", str(self.data), *arguments], stdin, obj=app)

    def ok(self, *arguments: str, stdin: str | bytes | None = None) -> str:
        """Run a command that must succeed; return what it prints for people.

        Beside that it may say which user it has chosen.
        """
        result = self(*arguments, stdin=stdin)
        said = [line for line in result.stderr.splitlines() if not CHOSEN_USER.fullmatch(line)]
        assert (result.exit_code, said) == (0, []), result.output
        return result.stdout

    def json(self, *arguments: str, stdin: str | bytes | None = None) -> Any:
        """Run a command that must succeed; return the document it prints for programs."""
        return json.loads(self.ok(*arguments, "--json", stdin=stdin))

    def refused(self, *arguments: str, code: int = 1) -> dict[str, str]:
        """Run a command that must fail; return its error as programs get it."""
        result = self(*arguments, "--json")
        assert (result.exit_code, result.stderr) == (code, "")
        document = json.loads(result.stdout)
        assert list(document) == ["error"]
        assert list(document["error"]) == ["type", "message"]
        return document["error"]


@pytest.fixture
def program(tmp_path: Path) -> Program:
    return Program(tmp_path / "memory")


@pytest.fixture(autouse=True)
def surroundings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """A known zone, width and working directory."""
    monkeypatch.delenv("MEMORY_ACTORS_DATA", raising=False)
    monkeypatch.setenv("TZ", "Asia/Kolkata")
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.chdir(tmp_path)
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.fixture
def llm(server: Server, monkeypatch: pytest.MonkeyPatch) -> Server:
    """A model's server, at which the program asks."""
    monkeypatch.setenv("MEMORY_ACTORS_LLM_MODEL", "tiny")
    monkeypatch.setenv("MEMORY_ACTORS_LLM_BASE_URL", server.url)
    return server


@pytest.fixture(scope="session")
def spawn() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run the real program in a process of its own."""

    def run(*arguments: str, env: Mapping[str, str] | None = None, stdin: str | None = None) -> Any:
        return subprocess.run(
            [sys.executable, "-m", "memory_actors.cli", *arguments],
            env={**os.environ, "PYTHONPATH": str(ROOT), **(env or {})},
            input=stdin, capture_output=True, text=True, check=False, timeout=60,
        )  # fmt: skip

    return run
