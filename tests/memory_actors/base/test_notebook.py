"""Results as a notebook shows them."""

import sys
from html.parser import HTMLParser
from typing import Any

import pandas as pd
import pytest

from memory_actors import Hits, MissingExtraError
from memory_actors.base.notebook import BAR_PX, CHANGES_MAX

pytestmark = pytest.mark.anyio
HARM = "<script>alert(1)</script>"


class Page(HTMLParser):
    """The tags and the text of some HTML; each tag must be closed by its own."""

    def __init__(self, html: str):
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.text = ""
        self.widths: list[str] = []
        self.feed(html)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open.append(tag)
        self.tags.add(tag)
        style = dict(attrs).get("style") or ""
        self.widths += [part[6:] for part in style.split(";") if part.startswith("width:")]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


async def test_hits_are_drawn_with_their_signals_and_their_words_run_nowhere(
    user: Any,
) -> None:
    await user.add(f"likes tea {HARM}")
    await user.add("likes coffee")
    hits = await user.retrieve("tea", explain=True)
    plain = await user.retrieve("tea")
    none = await user.retrieve("tea", filters={"of": "nothing"})
    assert isinstance(hits, Hits)
    assert isinstance(hits, list)
    page = Page(hits._repr_html_())
    assert HARM in page.text
    assert "script" not in page.tags
    signal = max(hits[0].signals or {}, key=lambda name: (hits[0].signals or {})[name])
    assert signal in page.text
    assert f"{BAR_PX}px" in page.widths
    assert signal not in Page(plain._repr_html_()).text
    assert Page(none._repr_html_()).text.startswith("score")
    frame = hits.to_pandas()
    assert list(frame["content"]) == [hit.content for hit in hits]
    assert frame[f"signal_{signal}"][0] == (hits[0].signals or {})[signal]


async def test_usage_and_a_diff_are_drawn(memory: Any) -> None:
    user = memory.user(HARM)
    receipt = await user.add(f"old {HARM}")
    await user.update(receipt.memory_id, content="new")
    for number in range(CHANGES_MAX + 5):
        await user.add(f"fact {number}")
    usage, diff = await user.usage(), await memory.diff(HARM, 1)
    page = Page(usage._repr_html_())
    assert "long_term.memories" in page.text
    assert f"{CHANGES_MAX + 6:,}" in page.text
    frame = usage.to_pandas()
    (row,) = frame[(frame.kind == "long_term") & (frame.quota == "memories")].to_dict("records")
    assert row["used"] == CHANGES_MAX + 6
    page = Page(diff._repr_html_())
    assert "del" in page.tags
    assert "script" not in page.tags
    assert "… and 6 more" in page.text
    told = diff.to_pandas()
    assert isinstance(told, pd.DataFrame)
    assert (told["before"][0], told["after"][0]) == (f"old {HARM}", "new")


async def test_without_pandas_it_is_said_what_to_install(
    open_memory: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    async with open_memory() as memory:
        with pytest.raises(MissingExtraError, match="pip install pandas"):
            (await memory.user("ada").usage()).to_pandas()
