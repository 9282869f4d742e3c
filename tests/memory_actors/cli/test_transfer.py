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


@pytest.mark.parametrize("name", ["missing.jsonl", "."])
def test_a_file_that_cannot_be_read_makes_no_store(program, name: str) -> None:
    assert program.refused("import", name)["type"] == "InvalidInputError"
    assert not program.data.exists()


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


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--dry-run"], "go with --from"),
        (["--map", "a=content"], "go with --from"),
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


def test_an_export_for_another_program(program, foreign_file: Path, tmp_path: Path) -> None:
    program.ok("import", "--from", "mem0", str(foreign_file))
    said = program.ok("export", "--to", "chroma", "out", "--user", "ada")
    assert said == "Wrote 2 memories to out\n"
    assert json.loads((tmp_path / "out").read_text())["documents"] == ["likes tea", "has a dog"]
    report = program.json("export", "--to", "mcp-memory", "out", "--user", "ada")
    assert (report["file"], report["memories"], report["left_out"]) == ("out", 0, 2)
    error = program.refused("export", "--to", "mem0", "--user", "ada", code=2)
    assert "--to takes the name of a FILE" in error["message"]
