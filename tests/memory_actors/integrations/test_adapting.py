"""Each adapter is imported alone, says what it misses, and is imported by nothing of the core."""

import asyncio
import importlib.util
import json
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from support.fakes import FakeEmbedder
from support.pages import ROOT

from memory_actors import InvalidInputError, MemorySystem, sync
from memory_actors.integrations.adapting import checked_memory, checked_user, reach

FRAMEWORKS = {
    "agent_framework": "agent_framework",
    "anthropic": "anthropic",
    "google_adk": "google.adk",
    "autogen": "autogen_core",
    "llama_index": "llama_index.core",
    "langgraph": "langgraph",
    "openai_agents": "agents",
    "strands": "strands",
}
"""The package that each adapter needs."""
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"][
    "optional-dependencies"
]


def is_installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # of the package that it is in
        return False


def loaded_by(code: str) -> set[str]:
    """Return the frameworks that a new Python process has loaded after some code."""
    code = f"{code}\nimport json, sys; print(json.dumps([*sys.modules]))"
    run = subprocess.run([sys.executable, "-c", code], text=True, capture_output=True, check=True)
    return set(json.loads(run.stdout)) & set(FRAMEWORKS.values())


@pytest.mark.parametrize("adapter", FRAMEWORKS)
def test_an_adapter_is_imported_alone(adapter: str) -> None:
    if not is_installed(FRAMEWORKS[adapter]):
        pytest.skip(f"needs {FRAMEWORKS[adapter]}: scripts/contracts runs it")
    loaded = loaded_by(f"import memory_actors.integrations.{adapter}")
    assert loaded == {FRAMEWORKS[adapter]}


@pytest.mark.parametrize("adapter", FRAMEWORKS)
def test_without_its_package_an_adapter_says_what_to_install(adapter: str) -> None:
    code = (
        f"import sys; sys.modules[{FRAMEWORKS[adapter]!r}] = None\n"
        "from memory_actors import MissingExtraError\n"
        f"try: import memory_actors.integrations.{adapter}\n"
        "except MissingExtraError as error: print(error)"
    )
    run = subprocess.run([sys.executable, "-c", code], text=True, capture_output=True, check=True)
    extra = adapter.replace("_", "-")
    assert f"`pip install 'memory-actors[{extra}]'`" in run.stdout
    assert extra in EXTRAS


def test_the_core_loads_no_framework() -> None:
    core = "memory_actors.cli, memory_actors.sync, memory_actors.integrations.tools"
    assert loaded_by(f"import {core}; from memory_actors import *") == set()


def test_every_adapter_has_a_page_and_an_extra() -> None:
    for adapter in FRAMEWORKS:
        name = adapter.replace("_", "-")
        assert name in EXTRAS
        page = (ROOT / f"docs/integrations/{name}.md").read_text("utf-8")
        assert f"pip install 'memory-actors[{name}]'" in page


def test_a_memory_of_either_api_is_reached_from_every_loop(tmp_path: Path) -> None:
    with sync.MemorySystem.open(tmp_path / "memory", embedder=FakeEmbedder(), alerts=[]) as memory:
        user = memory.user("ada")
        receipt = asyncio.run(reach(user, lambda one: one.add("likes tea")))
        users: Any = asyncio.run(reach(memory, lambda one: one.users()))
        assert user.get(receipt.memory_id).content == "likes tea"
        assert len(users) == 1


@pytest.mark.anyio
async def test_an_async_memory_is_reached_where_it_is(memory, user) -> None:
    assert checked_user(user) is user
    assert checked_memory(memory) is memory
    receipt = await reach(user, lambda one: one.add("likes tea"))
    found: MemorySystem = await reach(memory, _itself)
    assert found is memory
    assert (await user.get(receipt.memory_id)).content == "likes tea"


async def _itself(memory: MemorySystem) -> MemorySystem:
    return memory


@pytest.mark.parametrize("wrong", [None, "ada", MemorySystem])
def test_what_is_no_memory_is_refused(wrong: Any) -> None:
    with pytest.raises(InvalidInputError, match=r"give memory\.user"):
        checked_user(wrong)
    with pytest.raises(InvalidInputError, match=r"MemorySystem\.open"):
        checked_memory(wrong)
