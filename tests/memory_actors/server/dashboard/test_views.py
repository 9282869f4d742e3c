"""Every view of the dashboard, in a browser."""

import re
import subprocess
import sys
from itertools import combinations
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from memory_actors.server.dashboard import _UI, FILES
from tests.memory_actors.server.dashboard.conftest import MANY
from tests.memory_actors.server.dashboard.pages import HOSTILE, USER, VIEWS, Dashboard
from tests.memory_actors.server.helpers import Service, serving

SIZE_MAX = 240_000


def rows(page: Page, **which: Any) -> Locator:
    """Return rows of the lists in sight; a choice in a form is none."""
    return page.get_by_role("listbox").get_by_role("option", **which)


@pytest.mark.parametrize(("scheme", "width"), [("light", 1440), ("dark", 360)])
def test_a_view_can_be_read_by_everybody(
    browser: Browser, service: Service, scheme: str, width: int
) -> None:
    with Dashboard.opened(
        browser, service.url, service.root, width, color_scheme=scheme
    ) as dashboard:
        for view in VIEWS:
            page = dashboard.see(view, q="tea", session="monday")
            expect(page.get_by_role("heading", level=2)).to_be_visible()
            expect(page.get_by_text("Loading…")).to_have_count(0)
            assert page.locator("html").get_attribute("data-theme") == scheme, view
            assert dashboard.findings() == [], view
            assert page.evaluate("document.documentElement.scrollWidth") <= width, view


def test_users_are_listed_with_how_full_they_are(dashboard: Dashboard) -> None:
    page = dashboard.see("users", None)
    expect(rows(page)).to_have_count(4)
    expect(rows(page, name="<b>eve</b>")).to_be_visible()
    of_user = rows(page).filter(has_text=USER)
    expect(of_user).to_contain_text("working keys: 1 of 100")
    expect(of_user).to_contain_text("Last active: ")
    of_user.click()
    expect(page.get_by_role("heading", level=2)).to_have_text("Memories")


def test_hostile_memories_are_shown_as_text(dashboard: Dashboard) -> None:
    page = dashboard.see("memories", kind="long_term")
    for text in HOSTILE:
        rows(page).filter(has_text=text[:40].split("\x00")[0]).first.click()
        shown = page.locator(".content")
        expect(shown).to_have_text(re.compile(re.escape(text[:8])))
        if "\x00" not in text:  # which HTML has no place for
            assert shown.text_content() == text
    dashboard.check()


def test_a_memory_is_added_edited_deleted_and_brought_back(dashboard: Dashboard) -> None:
    page = dashboard.see("memories")
    page.get_by_role("button", name="Add a memory").click()
    page.get_by_label("Content").fill("Ada reads by night")
    page.get_by_role("button", name="Add", exact=True).click()
    rows(page).filter(has_text="Ada reads by night").click()
    page.get_by_role("button", name="Edit").click()
    page.get_by_label("Content").last.fill("Ada reads by day")
    page.get_by_role("button", name="Save").click()
    expect(page.locator(".content")).to_have_text("Ada reads by day")
    expect(page.locator(".steps li")).to_have_count(2)
    page.get_by_role("button", name="Pin").click()
    expect(rows(page, selected=True)).to_contain_text("pinned")
    page.get_by_role("button", name="Unpin").click()
    expect(page.get_by_role("button", name="Pin")).to_be_visible()
    page.get_by_role("button", name="Delete").click()
    expect(rows(page).filter(has_text="Ada reads by day")).to_have_count(0)
    page.get_by_role("status").get_by_role("button", name="Undo").click()
    expect(rows(page).filter(has_text="Ada reads by day")).to_have_count(1)


def test_a_list_is_moved_in_by_keys_alone(dashboard: Dashboard) -> None:
    page = dashboard.see("memories", kind="long_term")
    page.get_by_label("Kind").select_option("long_term")
    box = page.get_by_role("listbox")
    box.focus()
    page.keyboard.press("End")
    expect(rows(page).filter(has_text=f"number {MANY - 1} of")).to_be_visible()
    page.keyboard.press("Enter")
    expect(page.locator(".content")).to_have_text(f"fact number {MANY - 1} of many")
    page.keyboard.press("Home")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(rows(page, selected=True)).to_have_attribute("aria-posinset", "2")


def test_what_waits_is_reviewed_by_keys_alone(dashboard: Dashboard) -> None:
    page = dashboard.see("review", user="cal")
    for key in ("j", "j", "k", "a", "r"):
        left = {"a": 2, "r": 1}.get(key, 3)
        page.keyboard.press(key)
        expect(rows(page)).to_have_count(left)
    page.get_by_role("button", name="Approve").click()
    expect(page.get_by_text("No memory waits for a review.")).to_be_visible()
    page = dashboard.see("memories", user="cal", kind="long_term")
    expect(page.get_by_text("2 memories")).to_be_visible()


def test_memories_are_narrowed_by_kind_trust_and_metadata(dashboard: Dashboard) -> None:
    page = dashboard.see("memories")
    page.get_by_label("Kind").select_option("entity")
    expect(page.get_by_text("5 memories")).to_be_visible()
    page.get_by_label("Kind").select_option("")
    page.get_by_text("Filters", exact=True).click()
    page.get_by_label("Source").fill("web")
    expect(page.get_by_text("1 memory")).to_be_visible()
    expect(rows(page)).to_contain_text("untrusted")
    page.get_by_label("Metadata (JSON)").fill("{")
    expect(page.get_by_role("alert")).to_have_text("This is not a JSON object.")


def test_memories_are_found_by_text_session_and_time(dashboard: Dashboard) -> None:
    page = dashboard.see("memories")
    page.get_by_label("Text", exact=True).fill("IS THERE tea")
    expect(page.get_by_text("1 memory")).to_be_visible()
    expect(rows(page)).to_contain_text("user in monday")
    page.get_by_label("Session").fill("tuesday")
    expect(page.get_by_text("No memory matches these filters.")).to_be_visible()
    page.get_by_role("button", name="Clear the filters").click()
    page.get_by_text("Filters", exact=True).click()
    page.get_by_label("Until").fill("2001-01-01")
    expect(page.get_by_text("No memory matches these filters.")).to_be_visible()


def test_a_search_explains_its_first_hit_and_its_filters(dashboard: Dashboard) -> None:
    """A search says why a hit is first and what filters keep out."""
    page = dashboard.see("search")
    page.get_by_label("Query").fill("the web says that tea is blue")
    page.get_by_label("Query").press("Enter")
    first = page.locator(".hits > li").first
    expect(first).to_contain_text("the web says that tea is blue")
    expect(first).to_contain_text("Ranked here most of all by: ")
    expect(first.locator(".bar").first).to_be_visible()
    first.get_by_role("button", name="Why it is here").click()
    expect(page.get_by_role("region", name="Details")).to_contain_text("untrusted")
    page.get_by_text("Filters", exact=True).click()
    page.get_by_label("Least trust").select_option("unknown")
    page.get_by_role("button", name="Search").click()
    kept_out = page.locator("section").filter(has_text="What the filters keep out")
    expect(kept_out).to_contain_text("the web says that tea is blue")
    expect(page.locator(".hits")).not_to_contain_text("tea is blue")


def test_a_search_without_an_answer_says_so(dashboard: Dashboard) -> None:
    page = dashboard.see("search", q="zzz qqq")
    expect(page.get_by_text("Nothing relevant")).to_be_visible()
    scales = page.locator(".hits .bar").evaluate_all("bars => bars.map((bar) => bar.style.width)")
    assert scales.count("100%") == 1


def test_two_weightings_stand_side_by_side(dashboard: Dashboard) -> None:
    page = dashboard.see("search")
    page.get_by_label("Query").fill("tea")
    page.get_by_label("Compare two weightings").check()
    words = page.get_by_role("group", name="Weighting 2").get_by_label("Rare words")
    words.fill("0")
    page.get_by_role("button", name="Search").click()
    expect(page.locator(".hits")).to_have_count(2)
    expect(page.locator(".hits").nth(1)).not_to_contain_text("Rare words")
    expect(page.locator(".hits").first).to_contain_text("in the other")


def test_a_search_as_of_a_moment_finds_what_was_there(dashboard: Dashboard) -> None:
    page = dashboard.see("search")
    page.get_by_label("Query").fill("fact number")
    page.get_by_text("Filters", exact=True).click()
    page.get_by_label("As of").fill("2")
    page.get_by_role("button", name="Search").click()
    expect(page.get_by_text("2 memories found")).to_be_visible()


def test_events_come_in_while_they_are_watched(dashboard: Dashboard, service: Service) -> None:
    page = dashboard.see("timeline", "carl")
    expect(page.get_by_text("Nothing here.")).to_be_visible()
    service.add("carl", "Carl has come")
    row = rows(page).filter(has_text="Carl has come")
    expect(row).to_be_visible()
    row.click()
    expect(page.get_by_role("region", name="Details")).to_contain_text("long_term.added")


def test_a_slider_shows_the_memory_as_it_was(dashboard: Dashboard) -> None:
    page = dashboard.see("travel")
    slider = page.get_by_label(re.compile("^To:"))
    slider.fill("9")
    then = page.get_by_role("region", name="The memory as it was")
    expect(then.get_by_role("status").filter(has_text="10 memories")).to_be_visible()
    page.get_by_label(re.compile("^From:")).fill("4")
    changes = page.get_by_role("region", name="What changed between the two")
    expect(changes.get_by_role("status")).to_contain_text("5 changes")
    expect(changes.get_by_role("option").first).to_contain_text("added")


def test_the_graph_follows_the_slider(dashboard: Dashboard) -> None:
    page = dashboard.see("graph")
    graph = page.get_by_role("group", name="3 entities, 1 relationship")
    expect(graph.locator(".relation")).to_have_text("lives in")
    boxes = graph.locator("text").evaluate_all(
        "all => all.map((one) => one.getBoundingClientRect().toJSON())"
    )
    for one, other in combinations(boxes, 2):
        assert (
            one["right"] <= other["left"] or other["right"] <= one["left"]
            or one["bottom"] <= other["top"] or other["bottom"] <= one["top"]
        )  # fmt: skip
    graph.get_by_role("button", name="Ada").focus()
    page.keyboard.press("Enter")
    details = page.get_by_role("region", name="Details")
    expect(details).to_contain_text("drinks tea")
    details.get_by_role("button", name="Leeds").click()
    expect(details.get_by_role("button", name="Ada")).to_be_visible()
    page.get_by_label(re.compile("^At:")).fill("10")
    expect(rows(page)).to_contain_text("Ada — lived in → York")


def test_a_context_document_is_edited_and_its_entries_archived(dashboard: Dashboard) -> None:
    page = dashboard.see("context")
    document = page.get_by_role("region", name="Document")
    expect(document).to_contain_text("Assam is strong")
    document.get_by_label("Section").fill("Teas")
    document.get_by_label("Text").fill("Ceylon is light")
    document.get_by_role("button", name="Add", exact=True).click()
    entry = document.get_by_role("listitem").filter(has_text="Ceylon is light")
    entry.get_by_role("button", name="Pin").click()
    expect(entry).to_contain_text("pinned")
    entry.get_by_role("button", name="Unpin").click()
    expect(entry).not_to_contain_text("pinned")
    entry.get_by_role("button", name="Archive").click()
    archive = page.get_by_role("region", name="Archive")
    expect(archive).to_contain_text("Ceylon is light")
    archive.get_by_role("button", name="Restore").click()
    expect(document).to_contain_text("Ceylon is light")
    expect(archive.locator(".steps")).to_contain_text("context.pinned")
    expect(page.get_by_role("meter", name="Tokens in use")).to_be_visible()


def test_memories_are_compressed_expanded_and_brought_back(dashboard: Dashboard) -> None:
    page = dashboard.see("compaction", "bob")
    page.get_by_role("button", name="Preview").click()
    expect(page.locator(".tag", has_text="would be compressed").first).to_be_visible()
    expect(page.get_by_role("button", name="Expand")).to_have_count(0)
    page.get_by_role("button", name="Compress now").click()
    expand = page.get_by_role("button", name="Expand")
    expect(expand.first).to_be_visible()
    before = expand.count()
    expand.first.click()
    expect(page.locator("li li").first).to_be_visible()
    page.get_by_role("button", name="Undo").first.click()
    expect(page.get_by_text("came back.")).to_be_visible()
    expect(expand).to_have_count(before - 1)


def test_the_overview_counts_what_there_is_and_what_is_asked(dashboard: Dashboard) -> None:
    dashboard.see("search", q="tea")
    expect(dashboard.page.locator(".hits > li").first).to_be_visible()
    page = dashboard.see("overview", None)
    card = page.locator(".card")
    expect(card.filter(has_text=re.compile("^Users"))).to_contain_text(re.compile("[3-9]"))
    expect(card.filter(has_text="Search time")).to_contain_text(" ms")
    growth = page.get_by_role("img", name=re.compile("^Growth: events in the log: [0-9]"))
    expect(growth.locator("path.curve")).to_be_visible()
    expect(page.get_by_role("meter", name="entity count")).to_be_visible()


def test_a_conversation_tells_what_became_of_each_turn(
    dashboard: Dashboard, service: Service
) -> None:
    async def talk() -> None:
        user = service.memory.user("talker", session_id="chat")
        gone = await user.add("I live in Bristol", role="user", occurred_at="2024-01-01")
        await user.add("אני גר בלונדון", role="assistant", occurred_at="2024-01-02")
        await user.delete(gone.memory_id)
        await user.short_term.add_message("we keep bees", role="user")
        await user.extract()
        await user.approve([one.memory_id for one in await user.pending()])

    service.call(talk)
    page = dashboard.see("conversations", "talker")
    turns = page.locator(".turn")
    expect(turns).to_have_count(3)
    expect(turns.last).to_contain_text("fact extracted")
    turns.last.get_by_role("button", name="Show it").last.click()
    expect(page.locator(".content")).to_have_text("WE KEEP BEES")
    expect(turns.first).to_contain_text("user")
    expect(turns.first).to_contain_text("deleted")
    hebrew = turns.nth(1).locator("> .text")
    assert hebrew.evaluate("one => getComputedStyle(one).direction") == "rtl"
    turns.first.get_by_role("button", name="Details").click()
    expect(page.locator(".steps")).to_contain_text("long_term.deleted")


def test_a_prompt_tells_the_tokens_and_the_reason_of_each_part(dashboard: Dashboard) -> None:
    page = dashboard.see("prompt", session="monday", q="what does the web say of tea?")
    parts = page.locator(".parts > li")
    expect(parts.filter(has_text="is there tea?")).to_contain_text("last messages of the session")
    found = parts.filter(has_text="tea is blue")
    expect(found).to_contain_text("among the best for the question, score 0.")
    expect(found).to_contain_text(re.compile("[0-9]+ tokens"))
    expect(page.get_by_text("The next best, which were left out")).to_be_visible()


def test_health_verifies_the_log(dashboard: Dashboard) -> None:
    page = dashboard.see("health")
    page.get_by_role("button", name="Verify the log").click()
    expect(page.get_by_text("the log is whole")).to_be_visible()
    expect(page.get_by_role("img", name="Events each second")).to_be_visible()


def test_an_empty_store_says_so_and_the_only_user_is_chosen(
    browser: Browser, tmp_path: Path
) -> None:
    with (
        serving(tmp_path) as running,
        Dashboard.opened(browser, running.url, running.root) as dashboard,
    ):
        page = dashboard.see("memories", None)
        expect(page.get_by_role("link", name="How to add memories")).to_be_visible()
        running.add("only", "The only user likes tea")
        page.reload()
        expect(rows(page)).to_contain_text("The only user likes tea")


def test_a_users_key_sees_that_user_and_no_other(browser: Browser, service: Service) -> None:
    service.add("alice", "Alice keeps bees")
    with Dashboard.opened(browser, service.url, service.alice) as dashboard:
        page = dashboard.see("memories", USER)
        expect(rows(page)).to_have_count(1)
        expect(rows(page)).to_contain_text("Alice keeps bees")
        names = page.get_by_role("navigation").get_by_role("link").all_text_contents()
        assert not {"Users", "Health"} & set(names)


def test_a_reload_keeps_the_key_and_signing_out_forgets_it(
    browser: Browser, service: Service
) -> None:
    page = browser.new_page()
    page.goto(f"{service.url}/ui")
    page.get_by_label("API key").fill(service.root)
    page.get_by_role("button", name="Open").click()
    page.get_by_role("navigation", name="Views").wait_for()
    kept = page.evaluate("JSON.stringify([localStorage, document.cookie])")
    assert service.root not in kept + page.url
    page.reload()
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_label("API key")).to_be_visible()
    assert page.evaluate("sessionStorage.length") == 0
    page.reload()
    expect(page.get_by_label("API key")).to_be_visible()
    page.context.close()


def test_the_files_are_small_and_nothing_else_is_served(service: Service) -> None:
    assert sum((_UI / name).stat().st_size for name in FILES) < SIZE_MAX
    there = {str(path.relative_to(str(_UI))) for path in _UI.rglob("*") if path.is_file()}
    assert there == set(FILES)
    for name in ("", "/app.js", "/vendor/htm-preact.js"):
        answer = httpx.get(f"{service.url}/ui{name}", trust_env=False)
        assert answer.headers["content-encoding"] == "gzip"
        assert answer.headers["content-type"].count("charset=utf-8") == 1
        assert "default-src 'self'" in answer.headers["content-security-policy"]
        known = {"If-None-Match": answer.headers["etag"]}
        assert httpx.get(answer.url, headers=known, trust_env=False).status_code == 304
    for name in ("/nothing.js", "/..%2fapp.py", "/vendor/", "/dashboard.py"):
        assert service("GET", f"/ui{name}").status_code == 404


def test_files_of_editors_and_systems_are_no_part_of_the_page() -> None:
    code = (
        "from pathlib import Path\nfound = Path.rglob\n"
        "Path.rglob = lambda at, what: [*found(at, what), at / '.DS_Store', at / '.app.js.swp']\n"
        "from memory_actors.server.dashboard import FILES, router\n"
        "router()\nassert 'app.js' in FILES and not [one for one in FILES if one[0] == '.']"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    ("given", "status"),
    [
        ({"operation": "system.close"}, 400),
        ({"operation": "system.backup", "arguments": {"directory": "/tmp/x"}}, 400),
        ({"operation": "nothing"}, 400),
        ({"operation": "add", "user_id": USER, "arguments": {"content": 5}}, 400),
        ({"operation": "add", "user_id": USER, "arguments": {"contents": "x"}}, 400),
        ({"operation": "count", "user_id": ""}, 400),
        ({"operation": "count"}, 400),
        ({"operation": "count", "user_id": USER, "as_of": "yesterday"}, 400),
        ({"operation": "add", "user_id": USER, "as_of": 1, "arguments": {"content": "x"}}, 400),
        ({"operation": "get", "user_id": USER, "arguments": {"memory_id": "none"}}, 404),
        ({"operation": "system.events", "user_id": USER, "last": -1}, 400),
        ({"surprise": 1}, 400),
        ({"operation": "context.documents", "user_id": USER, "document": "x"}, 400),
        ({"operation": "context.change", "user_id": USER}, 400),
        ({"operation": "episodes.put", "user_id": USER}, 400),
        *(
            (
                {
                    "operation": f"context.{name}", "user_id": USER, "document": "x",
                    "arguments": given,
                },
                400,
            )
            for name, given in {
                "create": {"name": "x"},
                "delete": {"name": "x"},
                "delete_all": {"names": ["x"]},
                "rename": {"old": "x", "new": "y"},
            }.items()
        ),
        (
            {
                "operation": "entities.observe", "user_id": USER,
                "arguments": {"entity_ref": "nobody", "observations": ["x"]},
            },
            404,
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_asked_for_is_refused(
    service: Service, given: dict[str, Any], status: int
) -> None:
    before = service.call(lambda: service.memory.user(USER).count())
    answer = service("POST", "/ui/call", service.root, json=given)
    assert answer.status_code == status, answer.text
    assert service.call(lambda: service.memory.user(USER).count()) == before


@pytest.mark.parametrize(
    "operation",
    ["system.users", "system.usage", "system.statistics", "system.verify", "system.compact"],
)
def test_a_users_key_is_refused_what_is_of_all_users(service: Service, operation: str) -> None:
    own = {"operation": operation, "user_id": "alice"}
    assert service("POST", "/ui/call", service.alice, json=own).status_code == 403
    assert service("POST", "/ui/call", json=own).status_code == 401


@pytest.mark.parametrize("operation", ["count", "system.events", "system.diff"])
def test_a_users_key_is_refused_what_is_of_another(service: Service, operation: str) -> None:
    asked = {"operation": operation, "user_id": "bob"}
    assert service("POST", "/ui/call", service.alice, json=asked).status_code == 403
    nobody = {"operation": "system.events"}
    assert service("POST", "/ui/call", service.alice, json=nobody).status_code == 403


def test_the_addresses_of_the_page_lead_to_it(service: Service) -> None:
    slash = httpx.get(f"{service.url}/ui/", trust_env=False)
    assert slash.status_code in (301, 302, 307, 308)
    assert str(slash.next_request.url) == f"{service.url}/ui"  # type: ignore[union-attr]
    assert service("GET", "/ui/key", service.alice).json()["user_id"] == "alice"
    assert service("GET", "/ui/key", "no").status_code == 401
