"""import, export."""

import json
from pathlib import Path

import pytest

FIRST = '{"role": "user", "content": "likes tea", "timestamp": "2024-05-01", "session": "s1"}'
SECOND = '{"role": "bot", "content": "noted", "timestamp": "2024-05-02", "session": "s1"}'


@pytest.fixture
def chat(tmp_path: Path) -> Path:
    path = tmp_path / "chat.jsonl"
    path.write_text(f"{FIRST}\n{SECOND}\n")
    return path


def test_a_file_is_imported_once(program, chat: Path) -> None:
    report = program.json("import", str(chat))
    assert report == {"users": ["default"], "added": 2, "unchanged": 0, "unindexed": 0, "notes": []}
    assert program.json("import", str(chat))["unchanged"] == 2
    assert "Added 0 memories to default; 2 were there already." in program.ok("import", str(chat))
    assert [m["content"] for m in program.json("list")] == ["noted", "likes tea"]


def test_an_export_to_stdout_is_lines_and_nothing_else(program, chat: Path) -> None:
    program.ok("import", str(chat))
    for line in (["export"], ["export", "--json"], ["export", "-"]):
        exported = [json.loads(one) for one in program.ok(*line).splitlines()]
        assert [one["content"] for one in exported] == ["likes tea", "noted"]


def test_an_export_imports_to_the_same_export(program, chat: Path, tmp_path: Path) -> None:
    program.ok("import", str(chat))
    program.ok("add", "Porto", "--type", "working", "--key", "goal")
    assert program.json("export", "out.jsonl") == {"file": "out.jsonl", "memories": 3}
    lines = (tmp_path / "out.jsonl").read_text()
    program.ok("import", "out.jsonl", "--user", "other")
    for user in ("other", "default"):
        assert program.ok("export", "--user", user) == lines
    assert "Wrote 3 memories to out.jsonl" in program.ok("export", "out.jsonl", "--user", "other")


def test_all_kinds_are_exported_and_imported(program) -> None:
    for name in ("Ada", "Bob"):
        program.ok("entity", "add", name, "--observe", f"about {name}")
    program.ok("entity", "relate", "Ada", "knows", "Bob", "--from", "2020-01-01")
    episode = program.json("episode", "start", "a goal", "--agent", "travel")["memory_id"]
    program.ok("episode", "step", episode, "an action")
    program.ok("document", "put", "trips", '{"to": "Porto"}', "--key", "t1")
    program.ok("export", "out.jsonl")
    report = program.json("import", "out.jsonl", "--user", "other")
    assert (report["added"], report["unchanged"]) == (5, 0)
    assert program.ok("export", "--user", "other") == program.ok("export", "--user", "default")
    assert program.json("entity", "neighbours", "Ada", "--user", "other")[0]["distance"] == 1


def test_a_bad_line_is_named_and_earlier_lines_kept(program, chat: Path) -> None:
    """A bad line is named, and the lines before it are kept."""
    chat.write_text(f"{FIRST}\n{{oops\n{SECOND}\n")
    error = program.refused("import", str(chat))
    assert error["type"] == "InvalidInputError"
    assert f"{chat}, line 2: " in error["message"]
    assert [m["content"] for m in program.json("list")] == ["likes tea"]


@pytest.mark.parametrize("name", ["missing.jsonl", "."])
def test_a_file_that_cannot_be_read_makes_no_store(program, name: str) -> None:
    assert program.refused("import", name)["type"] == "InvalidInputError"
    assert not program.data.exists()


def test_locomo_conversations_become_users(program, tmp_path: Path) -> None:
    turns = [{"speaker": "Ada", "dia_id": "D1:1", "text": "hello"}]
    both = [
        {"sample_id": name, "conversation": {"session_1": turns}, "qa": []} for name in ("a", "b")
    ]
    (tmp_path / "locomo.json").write_text(json.dumps(both))
    report = program.json("import", "locomo.json", "--format", "locomo")
    assert (report["users"], report["added"]) == (["a", "b"], 2)
    assert program.json("get", "D1:1", "--user", "b")["content"] == "Ada: hello"
    error = program.refused("import", "locomo.json", "--user", "a")
    assert "line 1" in error["message"]
