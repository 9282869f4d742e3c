"""The dashboard in a browser, watched: what it logs, where it asks, whether it can be read."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlencode

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, ConsoleMessage, Page, Request

USER = "ada"
VIEWS = (
    "overview", "users", "memories", "review", "search", "prompt", "conversations", "timeline",
    "travel", "graph", "context", "compaction", "health",
)  # fmt: skip
SERIOUS = ("serious", "critical")
HOSTILE = (
    "<script>window.harmed = true</script><img src=x onerror='window.harmed = true'>",
    "[a link](javascript:window.harmed=true) ${window.harmed = true} {{constructor}}",
    "\u202egnihton syas siht\u202c and \u2067\u05e9\u05dc\u05d5\u05dd\u2069 stays where it is",
    "👩‍👩‍👧‍👦🏳️‍🌈 Z̸̢a̶l̷g̵o̴ \x00\x07 \ufeff 😀",
    "long " + "x" * (256 * 1024 - 5),
)


class Dashboard:
    """One page of the dashboard."""

    def __init__(self, page: Page, url: str):
        self.page, self.url = page, url
        self.logged: list[str] = []
        self.elsewhere: list[str] = []
        page.on("console", self._on_console)
        page.on("pageerror", lambda error: self.logged.append(str(error)))
        page.on("request", self._on_request)

    @classmethod
    @contextmanager
    def opened(
        cls, browser: Browser, url: str, key: str, width: int = 1280, **context: Any
    ) -> Iterator["Dashboard"]:
        """Hold a page that is signed in; fail for what went wrong in it."""
        sized = {"viewport": {"width": width, "height": 900}, **context}
        opened = browser.new_context(**sized)
        dashboard = cls(opened.new_page(), url)
        try:
            dashboard.page.goto(f"{url}/ui#key={key}")
            dashboard.page.get_by_role("navigation").wait_for()
            yield dashboard
            dashboard.check()
        except Exception as error:
            error.add_note(dashboard.told())
            raise
        finally:
            opened.close()

    def see(self, view: str, user: str | None = USER, **params: str) -> Page:
        """Go to a view and wait until it is drawn."""
        named = {"user": user} if user is not None else {}
        self.page.evaluate("at => { location.hash = at }", f"#/{view}?{urlencode(named | params)}")
        self.page.locator(f'nav a[aria-current][href^="#/{view}?"]').wait_for()
        self.page.wait_for_load_state("networkidle")
        return self.page

    def check(self) -> None:
        """See that nothing was logged, asked elsewhere, or run from a memory."""
        assert self.logged == []
        assert self.elsewhere == []
        assert self.page.evaluate("window.harmed") is None

    def told(self) -> str:
        """Return what can be read on the page, and what was logged."""
        text = self.page.locator("body").inner_text()
        return f"At {self.page.url.partition('#')[2]}:\n{text}\nLogged: {self.logged}"

    def findings(self) -> list[str]:
        """Return what somebody who cannot see or point would be kept from."""
        found = Axe().run(self.page).response["violations"]
        return [
            f"{one['id']}: {[node['html'][:200] for node in one['nodes']][:3]}"
            for one in found
            if one["impact"] in SERIOUS
        ]

    def _on_console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.logged.append(message.text)

    def _on_request(self, request: Request) -> None:
        if not request.url.startswith((f"{self.url}/", "blob:", "data:")):
            self.elsewhere.append(request.url)
