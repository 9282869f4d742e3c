"""The real programs accept what `agent install` writes, and remember from session to session.

They run where they are found: on the PATH, or in the directory that MEMORY_ACTORS_HOSTS names, as
`npm install --prefix DIR @anthropic-ai/claude-code @google/gemini-cli @openai/codex opencode-ai`
fills `DIR/node_modules/.bin`. A model of this machine answers them.
"""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.language_model import language_model

from memory_actors.integrations.coding_agents.hosts import HOSTS
from memory_actors.integrations.coding_agents.installing import plugin_directory
from memory_actors.search.model.installed import MODEL_DIR_VARIABLE, models_dir

WHERE = os.environ.get("MEMORY_ACTORS_HOSTS", "")
SEARCHED = os.pathsep.join(filter(None, [WHERE, os.environ.get("PATH")]))
REPLIED = "We decided to count from zero everywhere."
ANSWER_S_MAX = 100
WAIT_S_MAX = 30

Run = Callable[..., str]


def needs(program: str) -> pytest.MarkDecorator:
    found = shutil.which(program, path=SEARCHED)
    return pytest.mark.skipif(
        found is None, reason=f"`{program}` is neither on the PATH nor in MEMORY_ACTORS_HOSTS"
    )


@pytest.fixture
def project(tmp_path: Path) -> Path:
    place = tmp_path / "shop"
    (place / ".git").mkdir(parents=True)
    (place / ".git" / "config").write_text(
        '[remote "origin"]\n\turl = git@github.com:acme/shop.git\n'
    )
    return place


@pytest.fixture
def run(tmp_path: Path, project: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run a program at the home directory of the test; return what it says."""
    kept = {name: os.environ[name] for name in ("PYTHONPATH", "LANG") if name in os.environ}
    environment = {
        **kept, "PATH": SEARCHED, "HOME": str(tmp_path), MODEL_DIR_VARIABLE: str(models_dir()),
        "ANTHROPIC_API_KEY": "sk-ant-none", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1", "XDG_DATA_HOME": str(tmp_path / "data"), "NO_COLOR": "1",
    }  # fmt: skip
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))

    def run_(*command: str, sent: str = "", **more: str) -> str:
        done = subprocess.run(
            command, cwd=project, env={**environment, **more}, input=sent, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=ANSWER_S_MAX, check=False,
        )  # fmt: skip
        assert done.returncode == 0, f"{command}: {done.stdout}"
        return done.stdout

    return run_


def agent(run: Run, *arguments: str) -> str:
    return run(sys.executable, "-m", "memory_actors.cli", "agent", *arguments)


def installed(run: Run, tmp_path: Path, host: str) -> None:
    agent(run, "install", host, "--yes", "--data", str(tmp_path / "memory"))


@needs("claude")
def test_claude_code_has_the_plugin_and_its_server(run: Run, tmp_path: Path) -> None:
    installed(run, tmp_path, "claude-code")

    for place in (plugin_directory(), plugin_directory() / "plugin"):
        assert "Validation passed" in run("claude", "plugin", "validate", str(place))
    assert "memory-actors@memory-actors" in run("claude", "plugin", "list")
    (server,) = [line for line in run("claude", "mcp", "list").splitlines() if "plugin:" in line]
    assert server.startswith("plugin:memory-actors:memory-actors: ")
    assert server.endswith("Connected")

    agent(run, "uninstall", "claude-code", "--yes")
    assert "memory-actors" not in run("claude", "plugin", "list")


@needs("codex")
def test_codex_lists_the_server_and_all_hooks(run: Run, tmp_path: Path, project: Path) -> None:
    installed(run, tmp_path, "codex")

    assert "memory-actors" in run("codex", "mcp", "list")
    listed = hooks_of_codex(tmp_path, project)
    assert listed["errors"] == []
    assert listed["warnings"] == []
    names = {hook["eventName"].lower() for hook in listed["hooks"]}
    assert names == {event.lower() for event in HOSTS["codex"].events}
    assert all("coding_agents/__main__.py codex" in hook["command"] for hook in listed["hooks"])


def hooks_of_codex(home: Path, project: Path) -> dict[str, Any]:
    """Return the answer to `hooks/list` of its app server."""
    client = {"clientInfo": {"name": "test", "version": "1"}}
    asked: list[dict[str, Any]] = [
        {"id": 1, "method": "initialize", "params": client},
        {"method": "initialized"},
        {"id": 2, "method": "hooks/list", "params": {"cwds": [str(project)]}},
    ]
    with subprocess.Popen(
        ["codex", "app-server"], cwd=project, env={"PATH": SEARCHED, "HOME": str(home)},
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    ) as server:  # fmt: skip
        assert server.stdin is not None
        assert server.stdout is not None
        for one in asked:
            server.stdin.write(json.dumps(one) + "\n")
        server.stdin.flush()
        answers = (json.loads(line) for line in server.stdout)
        answer = next(one for one in answers if one.get("id") == 2)
        server.terminate()
    (listed,) = answer["result"]["data"]
    return dict(listed)


def listed_by(run: Run, program: str, connected: str) -> str:
    """Return the servers that a program lists. It gives a server five seconds to start."""
    for _ in range(5):
        said = run(program, "mcp", "list")
        if connected in said:
            return said
    raise AssertionError(said)


@needs("gemini")
def test_gemini_cli_starts_the_server(run: Run, tmp_path: Path, project: Path) -> None:
    installed(run, tmp_path, "gemini-cli")
    trusted = {str(project): "TRUST_FOLDER"}
    (tmp_path / ".gemini" / "trustedFolders.json").write_text(json.dumps(trusted))

    said = listed_by(run, "gemini", "Connected")

    assert "memory-actors" in said
    assert "invalid" not in said.lower()


@needs("opencode")
def test_opencode_starts_the_server_and_loads_the_plugin(run: Run, tmp_path: Path) -> None:
    installed(run, tmp_path, "opencode")

    assert "memory-actors" in listed_by(run, "opencode", "✓ memory-actors")
    assert "plugins/memory-actors.js" in run("opencode", "debug", "config")

    agent(run, "uninstall", "opencode", "--yes")
    assert "memory-actors" not in run("opencode", "debug", "config")


def stored(run: Run, tmp_path: Path) -> list[str]:
    """Wait until the reply is stored; return the memories of the project."""
    for _ in range(WAIT_S_MAX):
        if (tmp_path / "memory").exists():
            said = run(
                sys.executable, "-m", "memory_actors.cli", "list", "--json",
                "--data", str(tmp_path / "memory"), "--user", "project:github.com/acme/shop",
            )  # fmt: skip
            contents = [one["content"] for one in json.loads(said)]
            if REPLIED in contents:
                return contents
        time.sleep(1)
    log = tmp_path / ".local" / "state" / "memory-actors" / "agent.log"
    raise AssertionError(log.read_text() if log.exists() else "no hook has stored anything")


@needs("claude")
def test_claude_code_recalls_an_earlier_session(run: Run, tmp_path: Path) -> None:
    installed(run, tmp_path, "claude-code")
    with language_model(REPLIED) as model:
        asked = "Why do the tests of the cart fail?"
        assert REPLIED in run("claude", "-p", asked, ANTHROPIC_BASE_URL=model.url)
        assert asked in stored(run, tmp_path)
        model.asked.clear()
        run("claude", "-p", "Fix the list of products", ANTHROPIC_BASE_URL=model.url)

    assert any("Last sessions in this project" in one and REPLIED in one for one in model.asked)


@needs("opencode")
def test_opencode_recalls_an_earlier_session(run: Run, tmp_path: Path) -> None:
    installed(run, tmp_path, "opencode")
    with language_model(REPLIED) as model:
        provider = {
            "npm": "@ai-sdk/openai-compatible",
            "options": {"baseURL": f"{model.url}/v1", "apiKey": "none"},
            "models": {"m": {}},
        }
        known = {"provider": {"local": provider}, "model": "local/m", "small_model": "local/m"}
        settings = {"OPENCODE_CONFIG_CONTENT": json.dumps(known)}
        assert REPLIED in run("opencode", "run", "Why do the tests fail?", **settings)
        assert any("Why do the tests fail?" in one for one in stored(run, tmp_path))
        model.asked.clear()
        run("opencode", "run", "Fix the list of products", **settings)

    assert any("Last sessions in this project" in one and REPLIED in one for one in model.asked)
