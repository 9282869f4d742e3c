"""The examples in the README and the tutorial run as they are written."""

import asyncio
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from memory_actors import (
    Item,
    LocalCritic,
    LocalReviser,
    MemorySystem,
    Settings,
    recorded_run,
)

ROOT = Path(__file__).parents[1]
BLOCKS = re.compile(r"```python\n(.*?)```", re.DOTALL)


def blocks(name: str) -> list[str]:
    return BLOCKS.findall((ROOT / name).read_text("utf-8"))


@pytest.mark.parametrize("name", ["README.md", "docs/tutorial.md"])
def test_the_first_example_is_a_whole_program(name: str, tmp_path: Path) -> None:
    program = blocks(name)[0]
    run = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        text=True, capture_output=True, timeout=60, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    assert "skiing" in run.stdout


def test_the_tutorials_fragments_run_in_order(tmp_path: Path) -> None:
    fragments = [block for block in blocks("docs/tutorial.md")[1:] if "class Mine" not in block]
    source = "async def tutorial(memory, user, receipt):\n" + textwrap.indent(
        "\n".join(fragments), "    "
    )
    names: dict = {"Item": Item}
    exec(source, names)

    async def run() -> None:
        settings = Settings()
        async with MemorySystem.open(tmp_path, settings=settings) as memory:
            user = memory.user("user_123", session_id="s")
            receipt = await user.add("User enjoys skiing")
            await names["tutorial"](memory, user, receipt)

    asyncio.run(run())


def test_the_examples_of_improve_run(tmp_path: Path) -> None:
    first, recording = blocks("docs/improve.md")
    source = f"async def example(text, user, critic, reviser):\n{textwrap.indent(first, '    ')}"
    source += textwrap.indent(recording, "    ")
    names: dict = {"recorded_run": recorded_run}
    exec(source, names)

    async def run() -> None:
        async with MemorySystem.open(tmp_path) as memory:
            pair = LocalCritic(), LocalReviser()
            await names["example"]("In order to sail, wait.", memory.user("user_123"), *pair)

    asyncio.run(run())


@pytest.mark.parametrize(
    "path", [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")], ids=lambda p: p.name
)
def test_links_inside_the_docs_lead_somewhere(path: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", path.read_text("utf-8")):
        if "://" not in target:
            assert (path.parent / target).exists(), target
