"""backup, copy, repair, erase, heads."""

import json
from pathlib import Path

import pytest


def test_a_backup_is_written_and_put_back(program, tmp_path: Path) -> None:
    program.ok("add", "likes tea")
    made = program.json("backup", str(tmp_path / "saved"))
    assert (made["position"], made["target"]) == (1, str(tmp_path / "saved"))
    program.ok("add", "likes coffee")

    assert "before" in program.ok("copy", str(tmp_path / "saved"), str(program.data))

    assert [found["content"] for found in program.json("list")] == ["likes tea"]
    assert "✓ 1 events" in program.ok("backup", str(tmp_path / "again"), "--derived")


def test_a_user_is_erased_after_a_question(program) -> None:
    program.ok("add", "likes tea", "--user", "ada")
    program.ok("add", "rows a boat", "--user", "bob")

    refused = program("erase", "--user", "ada", stdin="n\n")
    assert refused.exit_code == 130
    assert len(program.json("list", "--user", "ada")) == 1

    assert program("erase", "--user", "ada", stdin="y\n").exit_code == 0
    assert program.json("list", "--user", "ada") == []
    assert program.json("erase", "--user", "bob", "--yes")["events"] == 1
    assert "nothing to erase" in program("erase", "--user", "bob", "--yes").stdout
    assert program.json("verify")["erased_events"] == 2


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


def test_a_damaged_store_is_repaired_into_a_new_one(program, tmp_path: Path) -> None:
    secret = "a text that is easy to find in the file"
    program.ok("add", "likes tea")
    program.ok("add", secret)
    program.ok("add", "rows a boat", "--user", "bob")
    path = program.data / "log.mdb"
    path.write_bytes(path.read_bytes().replace(secret.encode(), secret.upper().encode()))

    done = program("repair", str(tmp_path / "new"))

    assert done.exit_code == 1
    assert "2 events of 2 streams" in done.stdout
    assert "1 events left behind" in done.stdout
    assert "Nothing was left behind" not in done.stdout
    assert program.refused("repair", str(tmp_path / "new"))["type"] == "LogUnavailable"
    program.data = tmp_path / "new"
    assert [found["content"] for found in program.json("list", "--user", "default")] == [
        "likes tea"
    ]
    assert program.json("verify")["ok"]
    assert "✓" in program.ok("repair", str(tmp_path / "newer"))


def test_a_log_cut_short_is_not_said_to_be_whole(program, tmp_path: Path) -> None:
    for n in range(11):
        program.ok("add", f"note {n}")
    path = program.data / "log.mdb"
    path.write_bytes(path.read_bytes()[:20_000])

    done = program("repair", str(tmp_path / "new"))
    as_json = program("repair", str(tmp_path / "newer"), "--json")

    assert (done.exit_code, as_json.exit_code) == (1, 1)
    report = json.loads(as_json.stdout)
    lost = sum(each["lost"] for each in report["left_behind"])
    assert report["events"] + lost + report["missing"] == 11
    assert f"{report['missing']} more events had been committed" in done.stdout
    assert "Nothing was left behind" not in done.stdout


@pytest.mark.parametrize("name", [".", ".."])
def test_the_current_directory_may_be_the_store(
    program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    (tmp_path / "memory" / "sub").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "memory" / ("sub" if name == ".." else ""))
    program.data = name

    program.ok("add", "likes tea", "--encrypt")
    program.ok("backup", str(tmp_path / "saved"))
    assert [found["content"] for found in program.json("list")] == ["likes tea"]
    assert program.json("verify")["ok"]
    program.ok("copy", str(tmp_path / "saved"), str(program.data))

    assert (tmp_path / "memory.keys").exists()
    program.data = tmp_path / "memory"
    assert [found["content"] for found in program.json("list")] == ["likes tea"]
