"""The site of the documentation: it builds without a warning, and its code runs."""

import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from memory_actors.api.operations import OPERATIONS, OWNERS

ROOT = Path(__file__).parents[1]
CONFIG = ROOT / "scripts" / "site" / "mkdocs.yml"
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("site")
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "-q", "-f", CONFIG, "-d", place],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
    )
    assert built.returncode == 0, built.stderr
    return place


class Loads(HTMLParser):
    """What a page loads by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        told = dict(attrs)
        source = told.get("src") or (told.get("href") if tag == "link" else None)
        if source and told.get("rel") not in ("canonical", "prev", "next"):
            self.found.append(source)


def test_every_page_is_built_and_loads_nothing_from_elsewhere(site: Path) -> None:
    pages = {str(path.relative_to(site)) for path in site.rglob("*.html")}
    written = {path.relative_to(ROOT / "docs") for path in (ROOT / "docs").rglob("*.md")}
    for path in written:
        is_index = path.stem == "index"
        place = path.with_suffix(".html") if is_index else path.with_suffix("") / "index.html"
        assert str(place) in pages
    assert {"api/index.html", "architecture/index.html", "typescript/index.html"} <= pages
    for page in pages:
        loads = Loads()
        loads.feed((site / page).read_text("utf-8"))
        assert not [one for one in loads.found if re.match(r"(https?:)?//", one)], page


def test_the_api_is_told_from_the_source(site: Path) -> None:
    api = (site / "api" / "index.html").read_text("utf-8")
    for name in ("MemorySystem.open", "UserMemory.retrieve", "QuotaExceededError", "Hits"):
        assert name.rpartition(".")[2] in api


def test_the_api_page_has_every_method(site: Path) -> None:
    api = (site / "api" / "index.html").read_text("utf-8")
    anchors = set(re.findall(r'id="(memory_actors\.[\w.]+)"', api))
    missing = [
        name
        for name, operation in OPERATIONS.items()
        if operation.method.__name__ != "__call__"
        and not any(one.endswith(f"{_owner(name)}.{operation.method.__name__}") for one in anchors)
    ]
    assert not missing


def _owner(name: str) -> str:
    return OWNERS[name.rpartition(".")[0]].__name__


def blocks() -> list[str]:
    found = BLOCK.findall((ROOT / "docs" / "recipes.md").read_text("utf-8"))
    assert len(found) == 2
    return found


def test_the_recipe_for_a_web_app_remembers(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    told: dict[str, Any] = {}
    exec(compile(blocks()[0], "recipes.md", "exec"), told)
    with TestClient(told["app"]) as client:
        client.post("/chat/ada", params={"text": "I ski in Davos"})
        answer = client.post("/chat/ada", params={"text": "where do I ski?"})
    assert answer.json()["known"] == ["I ski in Davos"]


def test_the_recipe_for_a_notebook_runs_as_it_stands(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", blocks()[1]],
        cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
