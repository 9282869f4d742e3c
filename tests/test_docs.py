"""The examples in the docs run as they are written and print what they say; the names are there."""

import asyncio
import builtins
import inspect
import json
import pkgutil
import re
import shlex
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from support.pages import ROOT, blocks, check_printed, printed_by

import memory_actors
from memory_actors import (
    LocalCritic,
    LocalReviser,
    MemorySystem,
    Settings,
    UserMemory,
    recorded_run,
)
from memory_actors.cli import App, main
from memory_actors.search.embedding.default import DefaultEmbedder

AWAITED = """
import asyncio, ast, sys
code = compile(sys.stdin.read(), "tutorial", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
async def main(): await eval(code, {})
asyncio.run(main())
"""
"""From Python 3.13 on, the prompt of asyncio takes no block of several lines out of a pipe."""
PROMPT = ("-m", "asyncio") if sys.version_info < (3, 13) else ("-c", AWAITED)
CODE = re.compile(r"`([^`]+)`")
CLASS = re.compile(r"(?<![\w.])(?:\w+\.)*[A-Z]\w*[a-z]\w*")
"""A class as it is named in code, with what stands before it: `eventlog.Finding`."""

HOUSE = ("memory_actors", "eventlog", "bench", "tests", "docs", "scripts", "examples")
PATH = re.compile(rf"`((?:{'|'.join(HOUSE)})/[\w./-]+|[\w/]+/\w+\.py)`")
OF_READERS = {
    "agent.py",
    "first.py",
    "typed_example.py",
    "letters.py",
    "json.py",
    "tests/test_store.py",
}
"""Files that readers make, that Python has, or others' sdists."""
PYTHON = re.compile(r"(?<![\w.])([\w/]+\.py)\b")
MODULE = re.compile(r"`((?:memory_actors|eventlog|bench)(?:\.\w+)+)`")


def is_program(block: str) -> bool:
    return "asyncio.run(" in block


def test_the_example_without_await_prints_what_it_says(tmp_path: Path) -> None:
    (program,) = blocks("docs/sync.md")
    check_printed(program, printed_by(tmp_path, "-c", program))


def test_the_chat_agent_prints_what_it_says(tmp_path: Path) -> None:
    program = blocks("docs/chat-agent.md")[0]
    check_printed(program, printed_by(tmp_path, "-c", program))


@pytest.mark.parametrize("page", ["extraction", "redaction"])
def test_the_example_of_a_page_prints_what_it_says(tmp_path: Path, page: str) -> None:
    program, _ = blocks(f"docs/{page}.md")
    check_printed(program, printed_by(tmp_path, "-c", program))


def test_the_readmes_example_is_a_whole_program(tmp_path: Path) -> None:
    program = blocks("README.md")[0]
    check_printed(program, printed_by(tmp_path, "-c", program))


def test_the_example_of_scopes_prints_what_it_says(tmp_path: Path) -> None:
    (program,) = blocks("docs/scopes.md")
    check_printed(program, printed_by(tmp_path, "-c", program))


@pytest.mark.parametrize(("number", "needs"), [(1, "langgraph.store"), (2, "memory_actors")])
def test_what_the_readme_plugs_in_prints_what_it_says(
    tmp_path: Path, number: int, needs: str
) -> None:
    pytest.importorskip(needs, reason=f"{needs} is not installed")
    program = blocks("README.md")[number]
    check_printed(program, printed_by(tmp_path, "-c", program))


@pytest.fixture(scope="module")
def followed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The directory of a reader who pasted the tutorial block by block, and what was shown."""
    directory = tmp_path_factory.mktemp("reader")
    first, *others = blocks("docs/tutorial.md")
    shown = printed_by(directory, "-c", first)
    session = "".join(f"{block}\n" for block in others if not is_program(block))
    shown += printed_by(directory, *PROMPT, stdin=session)
    return directory, shown + printed_by(directory, "-c", others[-1])


def test_the_tutorial_prints_what_it_says(followed: tuple[Path, str]) -> None:
    first, *_, last = parts = blocks("docs/tutorial.md")
    assert [is_program(part) for part in parts].count(True) == 2
    assert is_program(first)
    assert is_program(last)
    check_printed("\n".join(parts), followed[1])


def test_the_tutorials_command_lines_work_on_what_it_made(
    followed: tuple[Path, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(followed[0])
    embedder = DefaultEmbedder()
    for line in blocks("docs/tutorial.md", "sh")[-1].splitlines():
        program, *arguments = shlex.split(line, comments=True)
        if program != "memory-actors":
            subprocess.run(line, shell=True, check=True)
            continue
        result = CliRunner().invoke(main, arguments, obj=App(embedder=embedder))
        assert result.exit_code == 0, (line, result.output)
        if "replay" in arguments:
            assert "User enjoys skiing" in result.stdout


def test_the_page_on_data_protection_works_as_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (program,) = blocks("docs/data-protection.md")
    check_printed(program, printed_by(tmp_path, "-c", program))
    monkeypatch.chdir(tmp_path)
    embedder, said = DefaultEmbedder(), {}
    (lines,) = blocks("docs/data-protection.md", "sh")
    for line in lines.splitlines():
        arguments = shlex.split(line.replace("HOLD_ID", said.get("hold", "")), comments=True)[1:]
        result = CliRunner().invoke(main, [*arguments, "--json"], obj=App(embedder=embedder))
        assert result.exit_code == 0, (line, result.output)
        if arguments[-1] == "holds":
            said["hold"] = json.loads(result.stdout)[0]["hold_id"]


def reference() -> list[str]:
    """Return what stands in backticks in the reference, a program's lines left out."""
    text = (ROOT / "docs/reference.md").read_text("utf-8")
    return CODE.findall(re.sub(r"```.*?```", "", text, flags=re.DOTALL))


def words(codes: list[str]) -> set[str]:
    return {word for code in codes for word in re.findall(r"\w+", code)}


def test_every_class_in_the_reference_is_importable_as_it_says() -> None:
    classes = {name for code in reference() for name in CLASS.findall(code)}
    for name in classes - set(dir(builtins)):
        module, _, attribute = name.rpartition(".")
        assert attribute in sys.modules[module or "memory_actors"].__all__, name


def test_every_public_name_is_in_the_reference() -> None:
    assert set(memory_actors.__all__) - words(reference()) == set()


def test_the_settings_in_the_reference_are_those_there_are() -> None:
    (listed,) = (code for code in reference() if code.startswith("Settings("))
    assert words([listed]) - {"Settings"} == set(Settings.__struct_fields__)


def test_the_reference_shows_every_parameter_of_open() -> None:
    signature = blocks("docs/reference.md")[0]
    assert set(inspect.signature(MemorySystem.open).parameters) - words([signature]) == set()


@pytest.mark.parametrize("owner", [MemorySystem, UserMemory])
def test_every_public_method_is_in_the_reference(owner: type) -> None:
    methods = {name for name in vars(owner) if not name.startswith("_")}
    assert methods - words(reference()) == set()


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


def test_links_inside_the_docs_lead_somewhere() -> None:
    for path in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), ROOT / "examples/README.md"]:
        for target in re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", path.read_text("utf-8")):
            assert "://" in target or (path.parent / target).exists(), (path, target)


def texts() -> Iterator[tuple[Path, str]]:
    """Every page of the docs, and every Python file: docstrings and comments name files too."""
    pages = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("bench/*.md")]
    for path in [*pages, *(file for top in HOUSE for file in ROOT.glob(f"{top}/**/*.py"))]:
        yield path.relative_to(ROOT), path.read_text("utf-8")


def is_path(name: str) -> bool:
    within = [ROOT, ROOT / "memory_actors", ROOT / "memory_actors/search"]
    return any((top / f"{name}{end}").exists() for top in within for end in ("", ".py"))


def is_importable(name: str) -> bool:
    try:
        pkgutil.resolve_name(name)
    except (ImportError, AttributeError):
        return False
    return True


@pytest.mark.parametrize(
    ("pattern", "exists"), [(PATH, is_path), (MODULE, is_importable)], ids=["paths", "modules"]
)
def test_every_file_that_is_named_exists(
    pattern: re.Pattern[str], exists: Callable[[str], bool]
) -> None:
    named = [(page, name) for page, text in texts() for name in pattern.findall(text)]
    assert named
    assert [f"{page}: {name}" for page, name in named if not exists(name)] == []


def test_every_python_file_that_a_docstring_names_exists() -> None:
    there = [f"/{file.relative_to(ROOT)}" for top in HOUSE for file in ROOT.glob(f"{top}/**/*.py")]
    named = [
        (page, name)
        for page, text in texts()
        if page.parts[0] not in {"bench", "tests"} and not page.name.startswith("generated_")
        for name in PYTHON.findall(text)
        if name not in OF_READERS
    ]
    gone = [each for each in named if not any(one.endswith(f"/{each[1]}") for one in there)]
    assert named
    assert gone == []
