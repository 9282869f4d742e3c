"""Facts from conversations, on the command line."""

import pytest
from support.llm_server import Server

pytest.importorskip("openai", reason="openai is not installed: pip install 'memory-actors[llm]'")

ANSWER = """{"proposals": [
    {"action": "add", "text": "User likes tea", "fact": null, "messages": [1]},
    {"action": "forget", "text": null, "fact": 9, "messages": [1]}
]}"""


def test_facts_are_tried_extracted_listed_and_undone(program, llm: Server) -> None:
    program.ok("add", "I like tea", "--type", "short_term", "--role", "user")
    llm.script = [("says", ANSWER), ("says", ANSWER)]
    assert program.ok("extract", "--dry-run").splitlines() == [
        "+ User likes tea",
        "1 message read by llm:tiny.",
        "Nothing was changed: that is what would be remembered.",
    ]
    found = program.json("extract", "--session", "default")
    assert [fact["came"] for fact in found["facts"]] == ["added"]
    assert "User likes tea" in program.ok("list", "--type", "long_term")
    assert "0 messages read by llm:tiny." in program.ok("extract")
    assert found["extraction_id"][:8] in program.ok("extractions")
    beginning = found["extraction_id"][:-3]
    assert program.ok("undo", beginning) == "Undone: 1 fact gone.\n"
    assert program.ok("undo", beginning) == "There was nothing to undo.\n"
    assert program.json("list", "--type", "long_term") == []


def test_without_a_model_it_is_said_how_to_name_one(program) -> None:
    program.ok("add", "I like tea", "--type", "short_term")
    error = program.refused("extract")
    assert error["type"] == "InvalidInputError"
    assert "ollama:MODEL" in error["message"]
    assert "MEMORY_ACTORS_EXTRACTOR" in error["message"]
