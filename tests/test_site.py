"""The site of the documentation: it builds without a warning."""

import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from memory_actors.api.operations import OPERATIONS, OWNERS

ROOT = Path(__file__).parents[1]
CONFIG = ROOT / "scripts" / "site" / "mkdocs.yml"


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
        assert str(path.with_suffix(".html")) in pages
    assert {"api.html", "architecture.html", "typescript.html"} <= pages
    for page in pages:
        loads = Loads()
        loads.feed((site / page).read_text("utf-8"))
        assert not [one for one in loads.found if re.match(r"(https?:)?//", one)], page


def test_the_search_works_in_a_site_opened_from_a_disk(site: Path, browser: Browser) -> None:
    page = browser.new_page()
    page.goto((site / "index.html").as_uri())
    page.locator(".md-search__input").click(force=True)
    page.keyboard.type("cron expression")
    expect(page.locator(".md-search-result__meta")).to_contain_text("matching documents")
    page.locator(".md-search-result__item a").first.click()
    expect(page.locator("article")).to_contain_text(re.compile("cron expression", re.IGNORECASE))
    page.close()


def test_the_api_is_told_from_the_source(site: Path) -> None:
    api = (site / "api.html").read_text("utf-8")
    for name in ("MemorySystem.open", "UserMemory.retrieve", "QuotaExceededError", "Hits"):
        assert name.rpartition(".")[2] in api


def test_the_api_page_has_every_method(site: Path) -> None:
    api = (site / "api.html").read_text("utf-8")
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


def test_the_example_of_each_method_runs(site: Path, tmp_path: Path) -> None:
    calls = ROOT / "scripts" / "site" / "calls.py"
    program = (
        "import asyncio, pathlib, runpy\n"
        f"asyncio.run(runpy.run_path({str(calls)!r})['every_call'](pathlib.Path.cwd()))"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=200, cwd=tmp_path)
    shown = (site / "api.html").read_text("utf-8")
    assert shown.count('<div class="highlight">') >= len(OPERATIONS)
