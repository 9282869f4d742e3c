"""docs/integrations/mcp.md: its commands and its program run, and its lists are whole."""

import json
import os
import re
import shlex
import sys
import tomllib
from pathlib import Path

import anyio
import platformdirs
import pytest
from click.testing import CliRunner
from mcp import Client, StdioServerParameters
from support.fakes import FakeEmbedder
from support.pages import ROOT, blocks, check_printed, printed_by

from memory_actors.cli import App, main
from memory_actors.integrations.mcp.clients import CLIENTS, NAME, config_path

PAGE = "docs/integrations/mcp.md"
SERVES = ("serve", "mcp")  # they run until somebody ends them


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A home and a working directory of one's own, where the program is on the PATH."""
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "share"))
    monkeypatch.chdir(tmp_path)
    programs = Path(sys.executable).parent
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")


def test_the_program_prints_what_it_says(tmp_path: Path) -> None:
    (program,) = blocks(PAGE)
    check_printed(program, printed_by(tmp_path, "-c", program))


def run(line: str) -> None:
    _, *arguments = shlex.split(line, comments=True)
    if arguments[-1] in SERVES:
        arguments.append("--help")
    app = App(embedder=FakeEmbedder())
    done = CliRunner().invoke(main, arguments, "y\n", obj=app)
    assert done.exit_code == 0, (line, done.output)


def test_every_command_line_works() -> None:
    lines = [line for block in blocks(PAGE, "sh") for line in block.splitlines()]
    ours = [line for line in lines if line.startswith("memory-actors")]
    assert len(ours) > 5
    for line in ours:
        run(line)
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for named in re.findall(r"memory-actors\[([\w,]+)\]", "".join(lines)):
        assert set(named.split(",")) <= set(extras["optional-dependencies"])


async def remember(server: StdioServerParameters, content: str) -> None:
    async with Client(server) as client:
        done = await client.call_tool("remember", {"content": content})
        assert not done.is_error


@pytest.mark.parametrize("client", ["claude-code", "vscode"])
def test_three_commands_lead_to_a_remembered_fact(client: str) -> None:
    """The client, which we are here, starts what its configuration says."""
    install, second, third = blocks(PAGE, "sh")[0].splitlines()
    assert install == "pip install 'memory-actors[mcp]'"
    run(second.replace("claude-code", client))
    assert third.startswith("claude ")
    it = json.loads(config_path(client).read_text())[CLIENTS[client].key][NAME]
    server = StdioServerParameters(command=it["command"], args=it["args"], cwd="/")
    anyio.run(remember, server, "Ada takes the aisle seat")
    store = platformdirs.user_data_path("memory-actors") / "memory"
    args = ["--data", str(store), "--json", "list"]
    listed = json.loads(CliRunner().invoke(main, args, obj=App()).stdout)
    assert "Ada takes the aisle seat" in json.dumps(listed)
    assert "error" not in listed
