"""Blocks of an old text are matched with those of a new one."""

from support.context import placed

from memory_actors.base.context_documents import EditBlock, InsertBlock, RemoveBlock
from memory_actors.kinds.context.alignment import Placed, align, aligned, alike
from memory_actors.kinds.context.markdown import parse

TEXT = "# T\n\n- Ann likes tea\n- Bob plays chess\n- Cy\n"


def new_id() -> str:
    return "new"


def test_an_edited_entry_keeps_its_id() -> None:
    changes = align(placed(TEXT), TEXT.replace("likes tea", "likes green tea"), new_id)
    assert changes == [EditBlock("b1", "- Ann likes green tea\n")]


def test_another_entry_gets_another_id() -> None:
    changes = align(placed(TEXT), TEXT.replace("Ann likes tea", "Deploys run on Fridays"), new_id)
    assert changes == [
        RemoveBlock("b1"),
        InsertBlock("new", "- Deploys run on Fridays\n", None, "b0"),
    ]


def test_what_comes_at_the_start_follows_nothing() -> None:
    changes = align(placed("- a\n"), "# T\n\n- a\n", new_id)
    assert changes == [InsertBlock("new", "# T\n\n", "T", None)]


def test_a_heading_never_becomes_an_entry() -> None:
    changes = align(placed("## Ann likes tea\n"), "- Ann likes tea\n", new_id)
    assert changes == [RemoveBlock("b0"), InsertBlock("new", "- Ann likes tea\n", None, None)]


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
