"""import, export."""

import json
from pathlib import Path

import pytest
from support.foreign import mem0_json, write_json

FIRST = '{"role": "user", "content": "likes tea", "timestamp": "2024-05-01", "session": "s1"}'
SECOND = '{"role": "bot", "content": "noted", "timestamp": "2024-05-02", "session": "s1"}'


@pytest.fixture
def chat(tmp_path: Path) -> Path:
    path = tmp_path / "chat.jsonl"
    path.write_text(f"{FIRST}\n{SECOND}\n")
    return path


def test_a_file_is_imported_once(program, chat: Path) -> None:
    report = program.json("import", str(chat))
    assert (report["users"], report["added"], report["unchanged"]) == (["default"], 2, 0)
    assert (report["unindexed"], report["notes"], report["left_out"]) == (0, [], 0)
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


def test_a_bad_line_is_named_and_costs_itself_alone(program, chat: Path) -> None:
    chat.write_text(f"{FIRST}\n{{oops\n{SECOND}\n")
    report = program.json("import", str(chat))
    assert (report["added"], report["left_out"]) == (2, 1)
    assert f"(first: {chat}, line 2)" in report["notes"][0]["says"]


def test_nothing_understood_is_a_failure(program, chat: Path) -> None:
    for more in ([], ["--from", "mcp-memory"], ["--from", "chatgpt"]):
        chat.write_text('{"name": "Ada", "entityType": "person", "observations": ["likes tea"]}\n')
        error = program.refused("import", str(chat), *more)
        assert error["type"] == "InvalidInputError"
        assert "nothing in " in error["message"]


def test_a_map_of_a_name_that_no_record_has_is_refused(program, tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text('[{"memory": "likes tea", "body": "likes milk"}]')
    named = ["import", "x.json", "--from", "mem0", "--user", "u", "--map"]
    assert "'bdy'" in program.refused(*named, "bdy=content")["message"]
    assert program.json(*named, "body=content")["added"] == 1


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


# --- of other programs


@pytest.fixture
def foreign_file(tmp_path: Path) -> Path:
    return mem0_json(tmp_path)


def test_a_file_of_another_program_is_imported(program, foreign_file: Path) -> None:
    line = ["import", "--from", "mem0", str(foreign_file)]
    assert program.ok(*line, "--dry-run").startswith("Would add 3 memories to ada, bob")
    assert not program.data.exists()  # a dry run makes no store
    assert program.ok(*line) == "Added 3 memories to ada, bob; 0 were there already.\n"
    report = program.json(*line)
    assert (report["added"], report["unchanged"], report["left_out"]) == (0, 3, 0)
    assert program.json(*line, "--dry-run")["dry_run"] is True
    assert [m["content"] for m in program.json("list", "--user", "bob")] == ["lives in Rome"]
    (memory,) = program.json("list", "--user", "bob")
    assert memory["origins"] == [{"source": "mem0", "trust": "unknown"}]


def test_whose_it_is_and_what_its_fields_are(program, tmp_path: Path) -> None:
    path = write_json(tmp_path / "x.json", [{"body": "likes tea", "who": "ada"}, {"body": "b"}])
    program.ok(
        "import", "--from", "mem0", str(path), "--user", "zoe", "--user-field", "who",
        "--map", "body=content", "--source", "old", "--trust", "untrusted",
    )  # fmt: skip
    (memory,) = program.json("list", "--user", "ada")
    assert (memory["content"], memory["trust"]) == ("likes tea", "untrusted")
    assert len(program.json("list", "--user", "zoe")) == 1


def test_what_is_left_out_is_told(program, tmp_path: Path) -> None:
    path = write_json(tmp_path / "x.json", [{"memory": "a"}, {"memory": ""}, 5])
    said = program.ok("import", "--from", "mem0", str(path))
    assert "1 record: left out: it has no 'content': give it what to remember (first: " in said
    assert "1 record: left out: a record must be a JSON object, not int (first: " in said


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--dry-run"], "go with --from"),
        (["--map", "a=content"], "go with --from"),
        (["--from", "mem0", "--format", "jsonl"], "leave --format out"),
        (["--from", "mem0", "--map", "a=b"], "is not THEIRS=OURS"),
        (["--from", "nothing"], "is not one of"),
    ],
)
def test_options_that_mean_nothing_are_refused(
    program, foreign_file: Path, options: list[str], why: str
) -> None:
    error = program.refused("import", str(foreign_file), *options, code=2)
    assert why in error["message"]
    assert not program.data.exists()


def test_a_damaged_file_makes_no_store(program, tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text('{"results": [')
    error = program.refused("import", "--from", "mem0", "x.json")
    assert "Nothing was added" in error["message"]
    assert not program.data.exists()


def test_an_export_for_another_program(program, foreign_file: Path, tmp_path: Path) -> None:
    program.ok("import", "--from", "mem0", str(foreign_file))
    said = program.ok("export", "--to", "chroma", "out", "--user", "ada")
    assert said == "Wrote 2 memories to out\n"
    assert json.loads((tmp_path / "out").read_text())["documents"] == ["likes tea", "has a dog"]
    report = program.json("export", "--to", "mcp-memory", "out", "--user", "ada")
    assert (report["file"], report["memories"], report["left_out"]) == ("out", 0, 2)
    error = program.refused("export", "--to", "mem0", "--user", "ada", code=2)
    assert "--to takes the name of a FILE" in error["message"]
