"""Properties of alignment: the changes it names do what it says, and no more than needed."""

from hypothesis import given
from hypothesis import strategies as st
from support.context import applied, placed

from memory_actors.kinds.context.alignment import align, as_shown
from memory_actors.kinds.context.markdown import parse, render

LINES = st.sampled_from(
    ["# A\n", "## B\n\n", "- tea\n", "- green tea\n", "- x\n", "para\n\n", "```\n- x\n```\n", "\n"]
) | st.text("ab -#`\n", max_size=6)
TEXTS = st.lists(LINES, max_size=12).map("".join)


@given(TEXTS, TEXTS)
def test_applying_the_changes_gives_the_new_text(old: str, new: str) -> None:
    document = applied(placed(old), align(placed(old), new))
    assert render(block.raw for block in document) == new
    assert [block[1:] for block in as_shown(document)] == parse(new)


@given(TEXTS)
def test_the_same_text_asks_for_no_changes(text: str) -> None:
    assert align(placed(text), text) == []
