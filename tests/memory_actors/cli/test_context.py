"""context show, add, edit, remove, touch, pin, size, list, documents, archive, restore, search."""

import pytest


@pytest.fixture
def tastes(program) -> list[str]:
    """Three entries; their ids."""
    texts = ("likes green tea", "plays the piano", "lives in Bern")
    return [
        program.json("context", "add", text, "--section", "Tastes")["entry_ids"][0]
        for text in texts
    ]


SHOWN = "## Tastes\n\n- likes green tea\n- plays the piano\n- lives in Bern\n"


def test_an_add_says_how_large_the_document_is(program) -> None:
    said = program.ok("context", "add", "two words")
    assert "add: mem_" in said
    assert "MEMORY.md size: 5 tokens (1,500 limit)\nRemaining capacity: 1,495 tokens" in said
    receipt = program.json("context", "add", "-", "--document", "n.md", stdin="from stdin\n")
    assert (receipt["document"], receipt["tokens"], receipt["archived"]) == ("n.md", 4, [])
    assert program.ok("context", "show", "--document", "n.md") == "- from stdin\n"


def test_entries_are_edited_touched_pinned_and_removed(program, tastes) -> None:
    program.ok("context", "edit", tastes[0], "likes coffee")
    program.ok("context", "touch", *tastes[:2])
    program.ok("context", "pin", tastes[1])
    program.ok("context", "remove", tastes[2])
    listed = program.json("context", "list")
    assert [(one["entry_id"], one["text"], one["pinned"]) for one in listed] == [
        (tastes[0], "likes coffee", False), (tastes[1], "plays the piano", True),
    ]  # fmt: skip
    program.ok("context", "pin", tastes[1], "--off")
    assert not program.json("context", "list")[1]["pinned"]
    error = program.refused("context", "edit", tastes[2], "x")
    assert error["type"] == "NotFoundError"


def test_the_archive_is_listed_searched_and_restored(program, tastes) -> None:
    receipt = program.json("context", "archive", tastes[0], tastes[2])
    assert receipt["archived"] == [tastes[0], tastes[2]]
    listed = program.json("context", "list", "--archived")
    assert [one["entry_id"] for one in listed] == receipt["archived"]
    (best, *_) = program.json("context", "search", "green tea")
    assert (best["entry_id"], best["section"]) == (tastes[0], "Tastes")
    assert "likes green tea" in program.ok("context", "search", "green tea")
    program.ok("context", "restore", *receipt["archived"])
    assert program.ok("context", "show") == SHOWN
    assert "Nothing found" in program.ok("context", "search", "tea")
    assert "Nothing in MEMORY.md" in program.ok("context", "list", "--archived")


def test_over_the_limits_people_are_warned_and_refused(program) -> None:
    result = program("context", "add", "note " * 1600)
    assert result.exit_code == 0
    assert "approaching soft limit (1,500 tokens). Consider archiving." in result.stderr
    error = program.refused("context", "add", "note " * 400)
    assert error == {
        "type": "ContextLimitError",
        "message": "MEMORY.md exceeds hard limit (2,000 tokens). Archive before continuing",
    }
    assert "Archived: mem_" in program.ok("context", "add", "note " * 400, "--auto-archive")
    sized = program.json("context", "size")
    assert sized.pop("note") is None
    assert sized == {
        "document": "MEMORY.md", "tokens": 410, "soft_limit": 1500, "hard_limit": 2000,
        "remaining": 1090,
    }  # fmt: skip
    assert "Remaining capacity: 1,090 tokens" in program.ok("context", "size")
