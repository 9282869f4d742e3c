"""The dashboard in a real browser: how soon something is seen, and whether a long list scrolls.

A user with so many memories, behind a server in a thread of this process. Timed: from the start of
loading until the first view has rows, and from a link until the next one has, in a browser that has
the files and in one that has none; and from a key until the rows that it leads to are drawn.
"""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import Any

import click
from anyio.from_thread import start_blocking_portal
from playwright.sync_api import Browser, Page, sync_playwright

from bench.hashed import HashedTokens
from bench.opened import opened
from bench.report import Options, Report, Table, facts, median, scratch
from memory_actors import Item, Limits, MemorySystem
from memory_actors.base.records import Tier
from memory_actors.server import DASHBOARD, KeyStore
from memory_actors.server.serving import address, listening, new_server

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
USER = "seen"
BATCH = 1_000
PACKAGES = ("litestar", "uvicorn", "playwright", "lmdb")
VIEWS = ("users", "memories")
KEYS = ("End", "Home", "PageDown")
LOAD_COLUMNS = ("memories", "view", "files", "median", "worst")
MOVE_COLUMNS = ("memories", "key", "median", "worst")
READY = """() => {
  const rows = [...document.querySelectorAll('[role=listbox] [role=option]')];
  return rows.length && !rows.some((row) => row.textContent === 'Loading…');
}"""


def run(sizes: tuple[int, ...], options: Options) -> Report:
    """Measure stores of these sizes."""
    at = browser_at()
    if at is None:
        raise click.ClickException("no Chromium is installed here: `apt-get install chromium`")
    loads: list[list[Any]] = []
    moves: list[list[Any]] = []
    with scratch(options) as directory, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=at, args=["--no-sandbox"])
        for size in sizes:
            with _serving(directory / str(size), size) as url:
                loads += _loads(browser, url, size, options.runs)
                moves += _moves(browser, url, size, options.runs)
        told = facts(directory, options, PACKAGES, browser=browser.version)
        browser.close()
    return Report(
        "Dashboard",
        told | {"embedder": "hashed with tokens"},
        [
            Table("From nothing, or the view before, to the first rows (ms)", LOAD_COLUMNS, loads),
            Table("From a key to the rows that it leads to (ms)", MOVE_COLUMNS, moves),
        ],
    )


def browser_at() -> str | None:
    """Return where a Chromium is, None where there is none."""
    return next(filter(None, map(shutil.which, BROWSERS)), None)


@contextmanager
def _serving(store: Path, size: int) -> Iterator[str]:
    """Hold a server over a store of one user; yield its address, key and all."""
    keys = KeyStore(store)
    token, _ = keys.create(None)
    with (
        start_blocking_portal("asyncio") as portal,
        portal.wrap_async_context_manager(_opened(store, size)) as memory,
        listening("127.0.0.1", 0) as bound,
    ):
        portal.call(_fill, memory, size)
        server = new_server(memory, keys)
        running = portal.start_task_soon(server.serve, [bound])
        try:
            yield f"{address(bound)}{DASHBOARD}#key={token}"
        finally:
            server.should_exit = True
            running.result()


def _opened(store: Path, size: int) -> Any:
    return opened(store, HashedTokens(), Limits(long_term_memories=size + 1), Tier.PRO)


async def _fill(memory: MemorySystem, size: int) -> None:
    user = memory.user(USER)
    for first in range(0, size, BATCH):
        numbers = range(first, min(first + BATCH, size))
        await user.add_many([Item(content=f"memory number {number}") for number in numbers])


def _loads(browser: Browser, url: str, size: int, runs: int) -> list[list[Any]]:
    rows = []
    for view in VIEWS:
        found: dict[str, list[float]] = {"none held": [], "held": []}
        for _ in range(runs):
            context = browser.new_context()
            for files in found:
                page = context.new_page()
                found[files].append(_load(page, url, view))
                page.close()
            context.close()
        rows += [[size, view, files, median(took), max(took)] for files, took in found.items()]
    return rows


def _load(page: Page, url: str, view: str) -> float:
    started_s = perf_counter()
    page.goto(f"{url}#/{VIEWS[0]}", wait_until="commit")
    page.wait_for_function(READY, polling="raf")
    if view != VIEWS[0]:
        started_s = perf_counter()
        page.evaluate(f"location.hash = '#/{view}?user={USER}'")
        page.wait_for_selector(f"[role=listbox][aria-label='{view.title()}']")
        page.wait_for_function(READY, polling="raf")
    return (perf_counter() - started_s) * 1e3


def _moves(browser: Browser, url: str, size: int, runs: int) -> list[list[Any]]:
    found: dict[str, list[float]] = {key: [] for key in KEYS}
    for _ in range(runs):
        context = browser.new_context()
        page = context.new_page()
        _load(page, url, "memories")
        page.locator("[role=listbox]").focus()
        for key in KEYS:
            started_s = perf_counter()
            page.keyboard.press(key)
            page.wait_for_function(READY, polling="raf")
            found[key].append((perf_counter() - started_s) * 1e3)
        context.close()
    return [[size, key, median(took), max(took)] for key, took in found.items()]
