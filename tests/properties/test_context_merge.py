"""Properties of the merge: document and file after any sequence of edits on both sides."""

from itertools import count
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from support.context import applied, placed

from memory_actors.integrations.context_files.merge import merge
from memory_actors.kinds.context.alignment import Placed, align
from memory_actors.kinds.context.markdown import parse, render

SHAPES = st.sampled_from(
    [
        "- {}\n", "- {} is so\n  and more\n\n", "## {}\n\n", "para {}\n\n", "{}\n",
        "```\n{}\n```\n", "* {}",
    ]
)  # fmt: skip
JUNK = st.text("ab -#`~*1.\n\r\t", max_size=12)
TEXTS = st.lists(SHAPES.map(lambda s: s.format("same")) | JUNK, max_size=8).map("".join)


@given(TEXTS, TEXTS)
def test_a_first_merge_loses_nothing_and_holds(document: str, file: str) -> None:
    blocks = placed(document)
    merged = merge(blocks, file, None, {})
    after = applied(blocks, merged.changes)
    assert render(block.raw for block in after) == merged.text
    for line in (*document.split("\n"), *file.split("\n")):
        assert line.strip() in merged.text
    assert merge(after, merged.text, merged.base, {}).changes == ()


@given(TEXTS)
def test_equal_texts_are_left_alone(text: str) -> None:
    merged = merge(placed(text), text, None, {})
    assert (merged.changes, merged.text, merged.conflicts) == ((), text, ())


@given(TEXTS, TEXTS, st.booleans())
def test_an_edit_of_one_side_is_taken_over(old: str, new: str, file: bool) -> None:
    blocks = placed(old)
    base = merge(blocks, old, None, {}).base
    if file:
        merged = merge(blocks, new, base, {})
    else:
        merged = merge(applied(blocks, align(blocks, new)), old, base, {})
    assert (merged.text, merged.conflicts) == (new, ())


class TwoSides(RuleBasedStateMachine):
    """A document and a file that are edited by turns, and synced now and then."""

    def __init__(self) -> None:
        super().__init__()
        self.words = count()
        self.names = count()
        self.document: list[Placed] = []
        self.archived: dict[str, Placed] = {}
        self.file = ""
        self.base: Any = None
        self.owed: set[str] = set()  # words that were written since the last sync and stand
        self.restorable: list[tuple[Placed, str | None]] = []

    def word(self) -> str:
        word = f"w{next(self.words)}w"
        self.owed.add(word)
        return word

    def new_id(self) -> str:
        return f"n{next(self.names)}"

    def forget(self, raw: str) -> None:
        """Whoever wrote something and then took it away on the same side meant it."""
        self.owed = {word for word in self.owed if word not in raw}

    @rule(shape=SHAPES, at=st.integers(0, 20))
    def the_document_gets_an_entry(self, shape: str, at: int) -> None:
        raw = shape.format(self.word())
        at = min(at, len(self.document))
        self.document.insert(at, Placed(self.new_id(), *parse(raw)[0]))

    @precondition(lambda self: self.document)
    @rule(shape=SHAPES, at=st.integers(0, 20), keep=st.booleans())
    def the_document_has_an_entry_edited(self, shape: str, at: int, keep: bool) -> None:
        at %= len(self.document)
        old = self.document[at]
        self.forget(old.raw)
        raw = old.raw.rstrip() + f" {self.word()}\n" if keep else shape.format(self.word())
        self.document[at] = Placed(old.block_id, *parse(raw)[0])

    @precondition(lambda self: self.document)
    @rule(at=st.integers(0, 20), archive=st.booleans())
    def the_document_lets_an_entry_go(self, at: int, archive: bool) -> None:
        block = self.document.pop(at % len(self.document))
        self.forget(block.raw)
        if archive:
            self.archived[block.block_id] = block

    @rule(shape=SHAPES, at=st.integers(0, 20))
    def the_file_gets_an_entry(self, shape: str, at: int) -> None:
        blocks = [block.raw for block in parse(self.file)]
        blocks.insert(min(at, len(blocks)), shape.format(self.word()))
        self.file = render(blocks)

    @precondition(lambda self: self.file)
    @rule(shape=SHAPES, at=st.integers(0, 20), keep=st.booleans())
    def the_file_has_an_entry_edited(self, shape: str, at: int, keep: bool) -> None:
        blocks = [block.raw for block in parse(self.file)]
        at %= len(blocks)
        self.forget(blocks[at])
        word = self.word()
        blocks[at] = blocks[at].rstrip() + f" {word}\n" if keep else shape.format(word)
        self.file = render(blocks)

    @precondition(lambda self: self.file)
    @rule(at=st.integers(0, 20))
    def the_file_loses_an_entry(self, at: int) -> None:
        blocks = [block.raw for block in parse(self.file)]
        self.forget(blocks.pop(at % len(blocks)))
        self.file = render(blocks)

    @precondition(lambda self: self.file)
    @rule(at=st.integers(0, 20), to=st.integers(0, 20))
    def the_file_has_an_entry_moved(self, at: int, to: int) -> None:
        blocks = [block.raw for block in parse(self.file)]
        blocks.insert(to % len(blocks), blocks.pop(at % len(blocks)))
        self.file = render(blocks)

    @rule(crash=st.sampled_from(["no", "no", "before the rename", "after the rename"]))
    def sync(self, crash: str) -> None:
        merged = merge(self.document, self.file, self.base, self.archived, self.new_id)
        self.document = applied(self.document, merged.changes)
        self.base = merged.file_base
        assert render(block.raw for block in self.document) == merged.text
        for word in self.owed:
            assert word in merged.text
        if crash == "before the rename":
            again = merge(self.document, self.file, self.base, self.archived, self.new_id)
            assert (again.changes, again.text, again.conflicts) == ((), merged.text, ())
            return
        self.file = merged.text
        if crash == "no":
            self.owed = set()
            self.base = merged.base
        again = merge(self.document, self.file, self.base, self.archived, self.new_id)
        assert (again.changes, again.text, again.conflicts) == ((), self.file, ())

    @invariant()
    def ids_are_used_once(self) -> None:
        names = [block.block_id for block in self.document]
        assert len(set(names)) == len(names)


TestTwoSides = TwoSides.TestCase
TestTwoSides.settings = settings(max_examples=300, stateful_step_count=40, deadline=None)
