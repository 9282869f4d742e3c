"""The command line on an encrypted store: it finds the keys beside the store by itself."""

from pathlib import Path

import pytest


def test_every_command_works_on_an_encrypted_store_without_being_told(
    program, tmp_path: Path
) -> None:
    program.ok("add", "likes tea", "--encrypt", "--user", "ada")
    program.ok("add", "rows a boat", "--user", "bob")

    assert [found["content"] for found in program.json("search", "tea", "--user", "ada")]
    assert len(program.json("log")) == 2
    assert program.json("replay", "--user", "ada", "--as-of", "1")
    assert program.json("compact")["users"] == 2
    assert program.json("stats")["usage"]["users"] == 2
    report = program.json("verify")
    assert (report["ok"], report["unread_events"]) == (True, 0)
    program.ok("backup", str(tmp_path / "saved"))
    assert program.json("repair", str(tmp_path / "new"))["left_behind"] == []
    assert "backups made before cannot be read" in program.ok("erase", "--yes", "--user", "ada")
    program.ok("copy", str(tmp_path / "saved"), str(program.data))

    assert program.refused("list", "--user", "ada")["type"] == "KeyGone"
    assert len(program.json("list", "--user", "bob")) == 1
    verified = program("verify")
    assert verified.exit_code == 1
    assert "1 cannot be read" in verified.output
    assert "its key is not in the file of keys" in verified.output
    exported = tmp_path / "bob.jsonl"
    program.ok("export", str(exported), "--user", "bob")
    assert b"rows a boat" in exported.read_bytes()
    assert program.json("import", str(exported), "--user", "bob2")


def test_a_store_without_keys_is_refused_and_verified(
    program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program.ok("add", "likes tea", "--encrypt")
    keys = (tmp_path / "memory.keys").rename(tmp_path / "elsewhere")

    assert program.refused("list")["type"] == "EncryptionMismatch"
    assert program.refused("--encrypt", "list")["type"] == "KeysUnavailable"
    assert program.json("verify")["unread_events"] == 1
    assert len(program.json("list", "--key-file", str(keys))) == 1
    monkeypatch.setenv("MEMORY_ACTORS_KEY_FILE", str(keys))
    assert len(program.json("list")) == 1
    keys.chmod(0o644)
    assert "chmod 600" in program.refused("list")["message"]
    assert program.refused("verify")["type"] == "KeysUnavailable"


def test_an_option_encrypts_no_existing_store(program, tmp_path: Path) -> None:
    program.ok("add", "likes tea")

    assert program.refused("add", "likes coffee", "--encrypt")["type"] == "EncryptionMismatch"
    assert not (tmp_path / "memory.keys").exists()
