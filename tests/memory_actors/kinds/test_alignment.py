"""Blocks of an old text are matched with those of a new one."""

from support.context import placed

from memory_actors.kinds.context.alignment import Placed, aligned, alike
from memory_actors.kinds.context.markdown import parse


def new_id() -> str:
    return "new"


def test_an_entry_with_few_words_is_compared_by_letters() -> None:
    (tea,) = placed("- tea\n")
    assert alike(tea, parse("- teas\n")[0])
    assert not alike(tea, parse("- coffee\n")[0])
    assert not alike(None, parse("- tea\n")[0])


def test_a_wholly_new_document_is_not_compared_block_by_block() -> None:
    """Comparing all pairs would take the product of both lengths."""
    old = [Placed(f"b{n}", f"- old {n}\n", None) for n in range(2_000)]
    new = parse("".join(f"- old {n} now\n" for n in range(2_000)))
    assert {block.block_id for block in aligned(old, new, new_id)} == {"new"}
