"""Properties of Markdown as blocks, over texts made of what Markdown is made of."""

from hypothesis import given
from hypothesis import strategies as st

from memory_actors.kinds.context.markdown import entry_raw, entry_text, parse, render, reworded

PIECES = st.sampled_from(
    ["# ", "## T", "- ", "* x", "1. ", "  ", "    ", "\t", "```", "~~~", "a", "b c", "#", "`"]
)
ENDS = st.sampled_from(["\n", "\n", "\n\n", "\r\n", "", "\n \n"])
MARKDOWN = st.lists(st.tuples(PIECES, ENDS).map("".join), max_size=30).map("".join)
TEXTS = MARKDOWN | st.text()
SAID = st.lists(st.text(" -#`ab1.*\t", max_size=8).map(str.rstrip), min_size=1).map("\n".join)


@given(TEXTS)
def test_blocks_partition_the_text(text: str) -> None:
    blocks = parse(text)
    assert "".join(block.raw for block in blocks) == text
    assert all(block.raw for block in blocks)


@given(TEXTS)
def test_taking_a_rendered_text_apart_gives_the_same_blocks(text: str) -> None:
    blocks = parse(text)
    assert render(block.raw for block in blocks) == text
    assert parse(render(block.raw for block in blocks)) == blocks


@given(SAID.map(str.strip))
def test_an_added_text_is_one_entry_that_says_it(text: str) -> None:
    (block,) = parse(entry_raw(text))
    assert block.heading is None
    assert entry_text(block.raw) == text


@given(SAID.map(str.strip), SAID.map(str.strip))
def test_a_reworded_entry_says_the_new_text(old: str, new: str) -> None:
    (block,) = parse(reworded(entry_raw(old), new))
    assert (block.heading, entry_text(block.raw)) == (None, new)
