"""A browser, and a server whose store holds something of each kind."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from playwright.sync_api import Browser
from support.compacting import with_a_past

from memory_actors import Settings
from tests.memory_actors.server.dashboard.pages import HOSTILE, USER, Dashboard
from tests.memory_actors.server.helpers import Service, serving

MANY = 300


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    settings = Settings(check_replay=True, review="extracted")
    with serving(tmp_path_factory.mktemp("seen"), settings=settings) as running:
        running.call(lambda: filled(running.memory))
        yield running


@pytest.fixture
def dashboard(browser: Browser, service: Service) -> Iterator[Dashboard]:
    """A page with a root key; at its end, nothing must have gone wrong in it."""
    with Dashboard.opened(browser, service.url, service.root) as page:
        yield page


async def filled(memory: Any) -> None:
    """Fill a store: one user with all kinds, and some others."""
    user = memory.user(USER, agent_id="planner", session_id="monday")
    now = datetime.now(UTC)
    for number in range(MANY):
        await user.add(f"fact number {number} of many", occurred_at=now - timedelta(minutes=number))
    for text in HOSTILE:
        await user.add(text, metadata={"says": text[:100]})
    web = user.from_source("web", trust="untrusted")
    await web.add("the web says that tea is blue")
    await user.working.set("goal", "buy tea")
    await user.short_term.add_message("is there tea?", role="user")
    await user.entities.add_entity("Ada", "person", observations=["drinks tea"])
    await user.entities.add_entity("Leeds", "city")
    await user.entities.relate("Ada", "lives in", "Leeds", valid_from="2020-01-01")
    await user.entities.add_entity("York", "city")
    await user.entities.relate(
        "Ada", "lived in", "York", valid_from="2010-01-01", valid_to="2019-06-01"
    )
    await user.documents.put("teas", {"name": "Assam", "note": HOSTILE[0]}, key="assam")
    episode = await user.episodes.start("make tea", agent_id="planner")
    await user.episodes.step(episode.memory_id, "boil water", outcome="ok")
    await user.context.create("notes", f"# Teas\n\n- Assam is strong\n- {HOSTILE[0]}\n")
    await with_a_past(memory, "bob")
    cal = memory.user("cal", session_id="tuesday")
    for number in range(3):
        await cal.short_term.add_message(f"to review {number}", role="user")
    await cal.extract()
    await memory.user("<b>eve</b>").add("eve likes coffee")
