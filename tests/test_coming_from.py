"""The pages of those who come from another memory: their commands run, on files of that program."""

import ast
import asyncio
import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner
from support import foreign
from support.fakes import FakeEmbedder

from memory_actors.cli import App, main
from memory_actors.interchange import SOURCES, TARGETS
from memory_actors.search.embedding.default import DefaultEmbedder

PAGES = Path(__file__).parents[1] / "docs/coming-from"
WRITTEN = {name: foreign.SAMPLES[name][1] for name in SOURCES}


def blocks(page: str, language: str) -> list[str]:
    text = (PAGES / page).read_text("utf-8")
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


@pytest.fixture(autouse=True)
def surroundings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("MEMORY_ACTORS_DATA", raising=False)
    monkeypatch.chdir(tmp_path)


def run(line: str) -> str:
    program, *arguments = shlex.split(line)
    assert program == "memory-actors"
    result = CliRunner().invoke(main, arguments, obj=App(embedder=FakeEmbedder()))
    assert result.exit_code == 0, (line, result.output)
    return result.stdout


def test_every_source_has_a_page_and_stands_in_the_table() -> None:
    assert {page.stem for page in PAGES.glob("*.md")} == {"index", *SOURCES}
    index = (PAGES / "index.md").read_text("utf-8")
    assert all(f"]({name}.md)" in index for name in SOURCES)
    assert all(f"--to {name}" in index for name in TARGETS)


@pytest.mark.parametrize("name", SOURCES)
def test_the_commands_of_a_page_do_what_it_says(name: str, tmp_path: Path) -> None:
    WRITTEN[name](tmp_path)
    ((dry, real, shown),) = (block.splitlines() for block in blocks(f"{name}.md", "sh"))
    user = [] if "--user" in dry else ["--user", "me"]
    would = run(shlex.join([*shlex.split(dry), *user]))
    assert not (tmp_path / "memory").exists()
    added = run(shlex.join([*shlex.split(real), *user]))
    assert added.split(" to ")[0].startswith("Added ")
    assert "Added 0 " not in would.replace("Would add", "Added")
    assert run(shown).strip()


def test_the_commands_of_the_overview_run(tmp_path: Path) -> None:
    foreign.mem0_json(tmp_path)
    first, back = blocks("index.md", "sh")
    shown = [run(line) for line in [*first.splitlines(), *back.splitlines()]]
    assert shown[0].startswith("Would add 3 memories to ada, bob")
    assert shown[1].startswith("Added 3 memories to ada, bob")
    assert [line.split()[:3] for line in shown[2:]] == [
        ["Wrote", "2", "memories"], ["Wrote", "0", "memories"], ["Wrote", "2", "memories"]
    ]  # fmt: skip


def test_the_python_of_the_overview_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    foreign.mem0_json(tmp_path)
    (program,) = blocks("index.md", "python")
    code = compile(program, "index.md", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    DefaultEmbedder()  # the model is there

    async def work() -> None:
        await eval(code, {})

    asyncio.run(work())
    assert capsys.readouterr().out == "3 0 0 ()\n"
