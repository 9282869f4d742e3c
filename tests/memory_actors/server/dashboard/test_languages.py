"""The dashboard in each language: which one a reader gets, and whether its texts are whole."""

import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from memory_actors.server.dashboard import FILES
from tests.memory_actors.server.dashboard.pages import VIEWS, Dashboard
from tests.memory_actors.server.helpers import Service

MONDAY = "יום שני"
OVERVIEWS = {"en": "Overview", "es": "Vista general", "de": "Übersicht", "zh-Hans": "概览"}
SAME = {
    "es": {"Memory Actors", "Prompt", "Id", "bytes", "1 token/2 tokens"},
    "de": {
        "Memory Actors", "Prompt", "Graph", "Text", "Name", "Details", "Score", "Agent", "Live",
        "in",
    },
    "zh-Hans": {"Memory Actors"},
}  # fmt: skip
"""The texts that a language shares with English."""
TEXTS = """async (language) => {
  const said = (text) => typeof text === "string" ? text
    : [1, 2].map((count) => text(count, count, count, count)).join("/");
  const flat = (texts, path) => Object.entries(texts).flatMap(([name, text]) =>
    typeof text === "object" ? flat(text, `${path}.${name}`)
      : [[`${path}.${name}`, [`${typeof text} ${text.length * (typeof text === "function")}`, said(text)]]]);
  return Object.fromEntries(flat((await import(`/ui/texts/${language}.js`)).texts, ""));
}"""  # noqa: E501
CLIPPED = """() => {
  const pen = document.createElement("canvas").getContext("2d");
  const widthOf = (text, one) => { pen.font = getComputedStyle(one).font; return pen.measureText(text).width; };
  const inner = (one) => one.clientWidth - 2 * parseFloat(getComputedStyle(one).paddingLeft);
  const scrolls = (one) => one.closest(".graph, .scroll, .item, .skip, pre");
  const isClipped = (one) => {
    const box = one.getBoundingClientRect();
    if (!box.width || scrolls(one)) return false;
    if (box.left < 0 || box.right > innerWidth + 1) return true;
    if (one.placeholder) return widthOf(one.placeholder, one) > inner(one);
    return one.clientWidth > 0 && one.scrollWidth > one.clientWidth + 1;
  };
  return [...document.querySelectorAll("h1, h2, h3, p, a, b, button, label, legend, summary, th, td, select, input, span")]
    .filter(isClipped).map((one) => one.outerHTML.slice(0, 120));
}"""  # noqa: E501


def test_each_language_has_the_texts_of_english(dashboard: Dashboard) -> None:
    values = dashboard.page.get_by_label("Language").locator("option")
    assert values.evaluate_all("all => all.map((one) => one.value)") == list(OVERVIEWS)
    assert {Path(name).stem for name in FILES if name.startswith("texts/")} == set(OVERVIEWS)
    english = dashboard.page.evaluate(TEXTS, "en")
    for language, same in SAME.items():
        texts = dashboard.page.evaluate(TEXTS, language)
        assert {name: kind for name, (kind, _) in texts.items()} == {
            name: kind for name, (kind, _) in english.items()
        }, language
        assert all(text.strip() for _, text in texts.values()), language
        assert {text for name, (_, text) in texts.items() if text == english[name][1]} == same


@pytest.mark.parametrize(
    ("browsers", "language", "users"),
    [
        ("es-MX", "es", "1.000.000 de usuarios"),
        ("de-AT", "de", "1.000.000 Benutzer"),
        ("zh-CN", "zh-Hans", "1,000,000 位用户"),
        ("fr-FR", "en", "1,000,000 users"),
    ],
)
def test_the_page_starts_in_the_language_of_the_browser(
    browser: Browser, service: Service, browsers: str, language: str, users: str
) -> None:
    with Dashboard.opened(browser, service.url, service.root, locale=browsers) as dashboard:
        page = dashboard.see("overview", None)
        expect(page.get_by_role("heading", level=2)).to_have_text(OVERVIEWS[language])
        expect(page.locator("html")).to_have_attribute("lang", language)
        assert dashboard.findings() == []
        dashboard.see("search", q="tea")
        expect(page.locator(".hits > li").first).to_be_visible()
        assert dashboard.findings() == []
        loaded = page.evaluate("performance.getEntriesByType('resource').map((one) => one.name)")
        assert {name for name in OVERVIEWS if f"{service.url}/ui/texts/{name}.js" in loaded} == {
            "en", language
        }  # fmt: skip
        counted = "async () => (await import('/ui/texts.js')).T.usersCount(1e6)"
        assert page.evaluate(counted) == users


def test_a_chosen_language_is_kept_and_english_fills_its_gaps(dashboard: Dashboard) -> None:
    page = dashboard.see("health", None)
    page.get_by_label("Language").select_option("Deutsch")
    heading = page.get_by_role("heading", level=2)
    expect(heading).to_have_text("Zustand")
    size = page.locator(".card").filter(has_text="Größe des Logs")
    expect(size).to_contain_text(re.compile(r"\d,\d MB|\d\d\d KB"))
    page.reload()
    expect(heading).to_have_text("Zustand")
    expect(page.get_by_label("Sprache")).to_have_value("de")
    gaps = 'export const texts = { views: { health: "Salud" } };'
    page.route(
        "**/texts/es.js", lambda route: route.fulfill(body=gaps, content_type="text/javascript")
    )
    page.get_by_label("Sprache").select_option("es")
    expect(heading).to_have_text("Salud")
    expect(page.get_by_role("link", name="Overview")).to_be_visible()


def test_no_german_label_is_clipped_on_a_phone(browser: Browser, service: Service) -> None:
    with Dashboard.opened(browser, service.url, service.root, 390, locale="de") as dashboard:
        for view in VIEWS:
            page = dashboard.see(view, q="tea", session="monday")
            expect(page.get_by_text("Wird geladen…")).to_have_count(0)
            page.locator("details").evaluate_all("all => all.forEach((one) => { one.open = true })")
            assert page.evaluate(CLIPPED) == [], view


def test_words_from_right_to_left_keep_their_place(dashboard: Dashboard, service: Service) -> None:
    async def relate() -> None:
        user = service.memory.user("sara", session_id=MONDAY)
        await user.entities.add_entity("שרה", "person")
        await user.entities.add_entity("London", "city")
        await user.entities.relate("שרה", "גרה ב", "London")
        await user.add("שלום, London!", role="user")

    service.call(relate)
    page = dashboard.see("graph", "sara")
    words = page.get_by_role("option").locator("bdi")
    expect(words).to_have_text(["שרה", "גרה ב", "London"])
    lefts = words.evaluate_all("all => all.map((one) => one.getBoundingClientRect().left)")
    assert lefts == sorted(lefts)
    dashboard.see("memories", "sara", text="שלום")
    field = page.get_by_label("Text", exact=True)
    assert field.evaluate("one => getComputedStyle(one).direction") == "rtl"
    dashboard.see("conversations", "sara")
    session = page.get_by_label("Session").locator("option")
    expect(session).to_have_text(re.compile("^\u2068" + MONDAY + "\u2069 · "))
