"""backup, restore-backup, erase, heads."""

from pathlib import Path


def test_a_backup_is_written_and_put_back(program, tmp_path: Path) -> None:
    program.ok("add", "likes tea")
    made = program.json("backup", str(tmp_path / "saved"))
    assert (made["events"], made["directory"]) == (1, str(tmp_path / "saved"))
    program.ok("add", "likes coffee")

    assert "before" in program.ok("restore-backup", str(tmp_path / "saved"))

    assert [found["content"] for found in program.json("list")] == ["likes tea"]
    assert "✓ 1 events" in program.ok("backup", str(tmp_path / "again"), "--derived")


def test_a_backup_goes_nowhere_where_there_is_something(program, tmp_path: Path) -> None:
    program.ok("add", "likes tea")
    assert program.refused("backup", str(tmp_path))["type"] == "LogUnavailable"
    assert program.refused("restore-backup", str(tmp_path))["type"] == "LogUnavailable"
    assert [found["content"] for found in program.json("list")] == ["likes tea"]


def test_a_user_is_erased_after_a_question(program) -> None:
    program.ok("add", "likes tea", "--user", "ada")
    program.ok("add", "rows a boat", "--user", "bob")

    refused = program("erase", "--user", "ada", stdin="n\n")
    assert refused.exit_code == 130
    assert len(program.json("list", "--user", "ada")) == 1

    assert program("erase", "--user", "ada", stdin="y\n").exit_code == 0
    assert program.json("list", "--user", "ada") == []
    assert program.json("erase", "--user", "bob", "--yes")["events"] == 1
    assert "nothing to erase" in program.ok("erase", "--user", "bob", "--yes")
    assert program.json("verify")["erased_events"] == 2


def test_whom_to_erase_has_to_be_said(program) -> None:
    program.ok("add", "likes tea")
    assert program.refused("erase", "--yes", code=2)["type"] == "UsageError"
    assert len(program.json("list")) == 1


def test_published_heads_prove_that_the_past_is_the_same(program, tmp_path: Path) -> None:
    private, public, heads = (str(tmp_path / name) for name in ("private", "public", "heads.json"))
    program.ok("add", "likes tea")
    program.json("heads-key", private, public)
    assert program.json("heads", heads, "--sign", private)["position"] == 1
    program.ok("add", "likes coffee")
    program.ok("erase", "--user", "default", "--yes")

    assert program.json("verify", "--against", heads, "--public-key", public)["ok"]

    unsigned = str(tmp_path / "unsigned.json")
    program.ok("heads", unsigned)
    assert program.json("verify", "--against", unsigned)["ok"]
    refused = program.refused("verify", "--against", unsigned, "--public-key", public)
    assert refused["type"] == "CorruptLog"
    program.refused("verify", "--public-key", public, code=2)


def test_another_past_is_found(program, tmp_path: Path) -> None:
    heads, saved = str(tmp_path / "heads.json"), str(tmp_path / "saved")
    program.ok("add", "likes tea")
    program.ok("backup", saved)
    program.ok("add", "likes coffee")
    program.ok("heads", heads)
    program.ok("restore-backup", saved)
    program.ok("add", "likes cocoa")
    assert program.json("verify")["ok"]

    said = program("verify", "--against", heads)

    assert said.exit_code == 1
    assert "not the one that was published" in said.stdout


def test_a_damaged_store_is_repaired_into_a_new_one(program, tmp_path: Path) -> None:
    secret = "a text that is easy to find in the file"
    program.ok("add", "likes tea")
    program.ok("add", secret)
    program.ok("add", "rows a boat", "--user", "bob")
    path = program.data / "log.mdb"
    path.write_bytes(path.read_bytes().replace(secret.encode(), secret.upper().encode()))

    said = program.ok("repair", str(tmp_path / "new"))

    assert "2 events of 2 streams" in said
    assert "1 events left behind" in said
    assert program.refused("repair", str(tmp_path / "new"))["type"] == "LogUnavailable"
    program.data = tmp_path / "new"
    assert [found["content"] for found in program.json("list")] == ["likes tea"]
    assert program.json("verify")["ok"]
    assert "✓" in program.ok("repair", str(tmp_path / "newer"))
