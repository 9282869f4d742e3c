"""Context documents: what each command decides, and what the events make of a document."""

from typing import Any

import pytest
from support.fakes import Words
from support.given import recorded

from memory_actors import EditBlock, InsertBlock, Limits, NotFoundError, RemoveBlock
from memory_actors.base.context_documents import BlockChange
from memory_actors.base.tokens import TokenBudget
from memory_actors.kinds import context
from memory_actors.kinds.context.commands import (
    AddEntry,
    ArchiveEntries,
    ChangeDocument,
    DeleteEntry,
    DocumentRoom,
    EditEntry,
    RestoreEntries,
    TouchEntries,
)
from memory_actors.kinds.context.state import block, blocks, text

DOC = "MEMORY.md"


def budget(soft: int, hard: int) -> TokenBudget:
    return TokenBudget(soft_tokens=soft, hard_tokens=hard, counter=Words())


class User:
    """A user's documents: commands are decided, recorded and folded; refusals raise."""

    def __init__(self, soft: int = 1_500, hard: int = 2_000):
        self.limits, self.budget = Limits(), budget(soft, hard)
        self.state, self.log, self.now_us = context.KIND.initial, [], 0

    def do(self, command_type: type, **fields: Any) -> list[Any]:
        self.now_us += 10
        command = command_type(now_us=self.now_us, **self.filled(command_type, fields))
        events = self.decide(command)
        for event in events:
            self.log.append(recorded(event, len(self.log) + 1))
            self.state = context.KIND.fold(self.state, self.log[-1:])
        return events

    def decide(self, command: Any) -> list[Any]:
        return list(context.KIND.decide(command, self.state, self.limits))

    def filled(self, command_type: type, fields: dict[str, Any]) -> dict[str, Any]:
        if "room" in command_type.__struct_fields__:
            room = {name: fields.pop(name) for name in ("auto_archive", "free") if name in fields}
            read_at_us = fields.pop("read_at_us", {})
            return {
                "room": DocumentRoom(budget=self.budget, read_at_us=read_at_us, **room),
                **fields,
            }
        if command_type is RestoreEntries:
            past = {one: self.past(one) for one in fields["memory_ids"]}
            return {"budget": self.budget, "past": past, **fields}
        return fields

    def past(self, memory_id: str) -> list[Any]:
        return [one for one in self.log if memory_id in context.KIND.registry.keys(one.data)]

    def add(self, memory_id: str, section: str, said: str, **fields: Any) -> list[Any]:
        return self.do(
            AddEntry, memory_id=memory_id, document=DOC, section=section, text=said,
            heading_id=f"h-{memory_id}", **fields,
        )  # fmt: skip

    def change(self, *changes: BlockChange, **fields: Any) -> list[Any]:
        return self.do(ChangeDocument, document=DOC, changes=changes, **fields)

    def archive(self, *ids: str, **fields: Any) -> list[str]:
        events = self.do(ArchiveEntries, document=DOC, memory_ids=ids or None, **fields)
        return [one.memory_id for event in events for one in event.entries]

    def text(self, document: str = DOC) -> str:
        return text(blocks(self.state, document))


@pytest.fixture
def user() -> User:
    """Two sections of two entries each."""
    made = User()
    for memory_id, section in (("a", "Tastes"), ("b", "Tastes"), ("c", "Work"), ("d", "Work")):
        made.add(memory_id, section, f"{memory_id} said")
    return made


TWO_SECTIONS = "## Tastes\n\n- a said\n- b said\n\n## Work\n\n- c said\n- d said\n"


# --- change, edit, remove


def test_a_heading_is_no_entry(user: User) -> None:
    for command, fields in (
        (DeleteEntry, {"memory_id": "h-a"}), (EditEntry, {"memory_id": "h-a", "text": "x"}),
        (TouchEntries, {"memory_ids": ("h-a",)}),
    ):  # fmt: skip
        with pytest.raises(NotFoundError):
            user.do(command, **fields)
    assert context.KIND.find(user.state, "h-a") is None
    assert context.KIND.tally(user.state).count == 4
    assert [row.memory_id for row in context.KIND.rows(user.state)] == ["a", "b", "c", "d"]


def test_the_memory_that_a_state_takes_grows_with_its_texts(user: User) -> None:
    before = context.KIND.held_bytes(user.state)
    user.add("e", "Work", "x" * 5_000)
    assert context.KIND.held_bytes(user.state) - before >= 5_000


def test_a_text_as_large_as_a_document_makes_room_for_itself(user: User) -> None:
    user.limits = Limits(context_document_bytes=1_000)
    user.add("e", "Work", "x" * 600, auto_archive=True)
    user.add("f", "Work", "y" * 900, auto_archive=True)
    assert ("x" * 600 in user.text(), "y" * 900 in user.text()) == (False, True)


# --- archive


def test_when_all_else_is_pinned_everything_that_can_go_goes() -> None:
    user = User(soft=4, hard=30)
    user.add("a", "", "1 2 3 4", pinned=True)
    user.add("b", "", "6")
    assert user.archive() == ["b"]


def test_a_heading_that_is_gone_comes_back_with_its_entry(user: User) -> None:
    user.archive("c", "d")
    user.change(RemoveBlock("h-c"))
    user.do(RestoreEntries, memory_ids=("d",))
    assert user.text() == TWO_SECTIONS.replace("- c said\n", "")
    user.do(RestoreEntries, memory_ids=("c",))
    assert user.text() == TWO_SECTIONS


def test_a_heading_of_the_same_title_serves_as_well(user: User) -> None:
    user.archive("d")
    user.change(RemoveBlock("h-c"), InsertBlock("new", "## Work\n\n", "Work", "b"))
    user.do(RestoreEntries, memory_ids=("d",))
    assert user.text() == TWO_SECTIONS


def test_an_edited_entry_keeps_its_marker_place_and_blank_lines(user: User) -> None:
    user.change(InsertBlock("p", "1. one\n\n", None, "a"))
    user.do(EditEntry, memory_id="p", text="two\nlines", metadata={"k": 1})
    assert "- a said\n1. two\n   lines\n\n- b said" in user.text()
    assert block(user.state, "p").metadata == {"k": 1}


def test_the_stalest_entries_leave_until_a_good_part_is_free() -> None:
    user = User(soft=20, hard=30)
    for number in range(8):
        user.add(f"e{number}", "", f"word {number}", pinned=number == 0)
    user.do(TouchEntries, memory_ids=("e1",))
    gone = user.archive(free=0.5, read_at_us={"e2": user.now_us + 10**6})
    assert gone == ["e3", "e4", "e5", "e6"]  # half of 24 tokens
    assert user.text() == "- word 0\n- word 1\n- word 2\n- word 7\n"
    assert user.archive(free=0.4) == []  # 12 of 20: that much of the soft limit is free


def test_an_edit_to_what_it_says_is_none(user: User) -> None:
    assert user.change(EditBlock("a", "- a said\n")) == []
    assert user.do(EditEntry, memory_id="a", text="a said") == []
    assert user.change() == []
