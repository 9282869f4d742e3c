"""The first steps of a new user: the demo's store, `memory-actors ui`, and a look at each view.

MEMORY_ACTORS_PICTURES=DIR keeps a picture of each view: DIR/1100-light has those of docs/pictures.
"""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from memory_actors.search.model.installed import model_path
from tests.memory_actors.server.dashboard.pages import VIEWS, Dashboard
from tests.memory_actors.server.helpers import until

PICTURES = "MEMORY_ACTORS_PICTURES"
DEMO, FACTS = "demo", "demo facts"
SIZES = ((1100, "light"), (1440, "light"), (1440, "dark"), (390, "light"), (390, "dark"))
WALKS = 8
QUESTION = "What is the name of Maya's dog?"
SHOWS = {
    "overview": "Limits of all users",
    "review": "No memory waits for a review.",
    "conversations": "18 turns",
    "prompt": "The next best, which were left out",
    "context": "Has a dog called Biscuit",
}
ENTRIES = (
    ("Home", "Lives in Glasgow since December"),
    ("Home", "Has a dog called Biscuit"),
    ("Work", "Writes flood alerts"),
)
PROGRAM = (sys.executable, "-m", "memory_actors.cli")


def _walk(number: int) -> dict[str, str]:
    """Return one of many memories that say nearly the same: they can be compressed."""
    at = f"2024-06-{number + 1:02d}T08:00:00Z"
    return {"content": f"Walked the dog in the park before work, day {number}", "occurred_at": at}


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address that the command prints, over the store that the demo leaves."""
    if model_path("int8") is None:
        pytest.skip("the embedding model is not installed: `memory-actors model install`")
    data = tmp_path_factory.mktemp("demo")
    program = [*PROGRAM, "--data", str(data)]
    subprocess.run([*program, "demo"], check=True, capture_output=True, timeout=120)
    walks = data / "walks.jsonl"
    walks.write_text("\n".join(map(json.dumps, map(_walk, range(WALKS)))))
    imported = ["import", str(walks)]
    written = [["context", "add", "--section", *entry] for entry in ENTRIES]
    for command in (imported, *written):
        told = [*program, *command, "--user", DEMO]
        subprocess.run(told, check=True, capture_output=True, timeout=120)
    started = [*program, "ui", "--port", "0", "--json"]
    with subprocess.Popen(started, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        yield json.loads(running.stdout.readline())["address"]
        running.send_signal(signal.SIGINT)
        assert running.wait(timeout=20) == 0


@pytest.mark.parametrize(("width", "scheme"), SIZES)
def test_each_view_shows_what_the_demo_left(
    browser: Browser, address: str, tmp_path: Path, width: int, scheme: str
) -> None:
    pictures = Path(os.environ.get(PICTURES, tmp_path)) / f"{width}-{scheme}"
    url, _, key = address.partition("/ui#key=")
    with Dashboard.opened(browser, url, key, width, color_scheme=scheme) as dashboard:
        for view in VIEWS:
            asked = {"q": QUESTION} if view == "prompt" else {}
            page = dashboard.see(view, FACTS if view == "graph" else DEMO, **asked)
            _use(view, page)
            expect(page.get_by_text("Loading…")).to_have_count(0)
            page.screenshot(path=pictures / f"{view}.png", full_page=width < 800)


def _use(view: str, page: Page) -> None:
    """Do what the view is for, and see what comes of it."""
    rows = page.get_by_role("listbox").get_by_role("option")
    if view in SHOWS:
        expect(page.get_by_text(SHOWS[view]).first).to_be_visible()
    elif view == "users":
        expect(rows).to_have_count(2)
        expect(rows.first).to_contain_text(f"{148 + WALKS + len(ENTRIES)} memories")
    elif view in ("memories", "timeline"):
        expect(rows.nth(2)).not_to_contain_text("Loading…")
        rows.nth(2).click()
        expect(page.get_by_role("region", name="Details").locator("table").first).to_be_visible()
    elif view == "search":
        page.get_by_label("Query").fill(QUESTION)
        page.get_by_label("Query").press("Enter")
        expect(page.locator(".hits > li").first).to_contain_text("Biscuit")
        page.get_by_role("button", name="Why it is here").first.click()
        expect(page.locator(".steps").first).to_be_visible()
    elif view == "travel":
        expect(rows.first).to_be_visible()
        expect(page.get_by_text(re.compile(r"\d+ changes"))).to_be_visible()
    elif view == "graph":
        expect(rows.first).to_contain_text("Maya — ")
        expect(page.locator(".graph .relation")).to_have_text("lives in")
    elif view == "compaction":
        page.get_by_role("button", name="Preview").click()
        expect(page.locator(".tag", has_text="would be compressed").first).to_be_visible()
    else:
        page.get_by_role("button", name="Verify the log").click()
        expect(page.get_by_text("the log is whole")).to_be_visible()
        if PICTURES in os.environ:
            page.wait_for_timeout(5000)  # two readings make a line


def test_the_demo_goes_on_in_the_browser_at_the_answer(browser: Browser) -> None:
    if model_path("int8") is None:
        pytest.skip("the embedding model is not installed: `memory-actors model install`")
    with subprocess.Popen([*PROGRAM, "demo", "--ui", "--json"], stdout=subprocess.PIPE) as running:
        assert running.stdout is not None
        lines = iter(running.stdout.readline, b"")
        address = json.loads(next(line for line in lines if b'"address"' in line))["address"]
        page = browser.new_page()
        page.goto(address)
        first = page.locator(".hits > li").first
        expect(first).to_contain_text("Biscuit")
        expect(first).to_contain_text("Ranked here most of all by: ")
        assert "key=" not in page.url
        page.context.close()
        running.send_signal(signal.SIGINT)
        assert running.wait(timeout=20) == 0


def test_the_key_is_no_argument_of_the_browser(tmp_path: Path) -> None:
    if model_path("int8") is None:
        pytest.skip("the embedding model is not installed: `memory-actors model install`")
    seen = tmp_path / "seen"
    opener = tmp_path / "browser"
    opener.write_text(f'#!/bin/sh\necho "$1" > {seen}\ncp "${{1#file://}}" {tmp_path}/page\n')
    opener.chmod(0o755)
    data = tmp_path / "data"
    adding = [*PROGRAM, "--data", str(data), "--user", "ada"]
    subprocess.run([*adding, "add", "likes tea"], check=True, capture_output=True, timeout=60)
    where = {**os.environ, "BROWSER": str(opener)}
    with subprocess.Popen(
        [*PROGRAM, "--data", str(data), "ui"],
        stdout=subprocess.PIPE, text=True, env=where,
    ) as running:  # fmt: skip
        until(lambda: (tmp_path / "page").exists() and seen.read_text())
        assert "key=" not in seen.read_text()
        file = Path(seen.read_text().strip().removeprefix("file://"))
        assert "#key=ma_" in (tmp_path / "page").read_text()
        assert (file.stat().st_mode & 0o077, file.parent.stat().st_mode & 0o077) == (0, 0)
        running.send_signal(signal.SIGINT)
        assert running.wait(timeout=20) == 0
    assert not file.parent.exists()
