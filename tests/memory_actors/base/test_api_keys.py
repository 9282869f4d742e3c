"""API keys at rest."""

import hashlib
import json
import stat
import threading
from pathlib import Path

import pytest

from memory_actors import InvalidInputError, KeyFileError, Tier
from memory_actors.base import api_keys as store
from memory_actors.base.api_keys import KeyStore

pytestmark = pytest.mark.user


@pytest.fixture
def keys(tmp_path: Path) -> KeyStore:
    return KeyStore(tmp_path / "memory")


def test_only_its_owner_finds_a_key(keys: KeyStore) -> None:
    """A key is found by its owner, and by nobody else."""
    token, key = keys.create("ada", "pro")
    assert keys.find(token) == key
    assert (key.user_id, key.tier, key.is_root) == ("ada", Tier.PRO, False)
    last = "0" if token[-1] != "0" else "1"
    for wrong in (
        "",
        "ma_",
        token[:-1],
        token + "0",
        token[:-1] + last,
        token.upper(),
        f" {token}",
    ):
        assert keys.find(wrong) is None


def test_the_written_file_holds_no_key(keys: KeyStore) -> None:
    """The written file holds no key, and is its owner's alone."""
    token, key = keys.create("ada")
    written = keys.path.read_text()
    secret = token.rsplit("_", 1)[1]
    assert secret not in written
    assert json.loads(written)["keys"][0]["sha256"] == hashlib.sha256(token.encode()).hexdigest()
    assert key.id in written
    assert stat.S_IMODE(keys.path.stat().st_mode) == 0o600
    assert sorted(path.name for path in keys.path.parent.iterdir()) == [
        "api_keys.json",
        "api_keys.lock",
    ]


def test_a_loosened_mode_is_tightened_again(keys: KeyStore) -> None:
    """A mode that was loosened is tightened by the next change."""
    keys.create("ada")
    keys.path.chmod(0o644)
    keys.create("bob")
    assert stat.S_IMODE(keys.path.stat().st_mode) == 0o600


def test_keys_never_repeat_and_have_256_random_bits(keys: KeyStore) -> None:
    tokens = {keys.create("ada")[0] for _ in range(20)}
    assert len(tokens) == 20
    assert all(len(token.rsplit("_", 1)[1]) == 64 for token in tokens)


def test_a_user_key_reaches_one_user_and_root_every_user(keys: KeyStore) -> None:
    _, ada = keys.create("ada")
    _, root = keys.create(None)
    assert [ada.may_reach(user) for user in ("ada", "Ada", "ada ", "", "bob")] == [
        True, False, False, False, False,
    ]  # fmt: skip
    assert root.may_reach("ada")


def test_what_another_process_does_is_seen_at_once(keys: KeyStore) -> None:
    token, key = keys.create("ada")
    other = KeyStore(keys.path.parent)
    assert other.find(token) == key
    keys.revoke(key.id)
    assert other.find(token) is None
    assert other.all() == []


def test_changes_at_the_same_time_are_all_kept(keys: KeyStore) -> None:
    def make() -> None:
        for _ in range(5):
            KeyStore(keys.path.parent).create("ada")

    threads = [threading.Thread(target=make) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(keys.all()) == 20


@pytest.mark.parametrize(
    ("user_id", "tier"),
    [("", None), ("x" * 513, None), ("\ud800", None), ("ada", "gold"), (None, "pro")],
)
def test_a_key_for_nobody_or_of_no_tier_is_refused(keys: KeyStore, user_id, tier) -> None:
    with pytest.raises(InvalidInputError):
        keys.create(user_id, tier)
    assert not keys.path.exists()


@pytest.mark.parametrize(
    "damage",
    [
        b"",
        b"{",
        b'{"keys": [{"id": "x"}]}',
        b'{"keys": [], "more": 1}',
        b'{"keys": [{"id": "\xff"}]}',
        b'{"keys": [{"id":"x","sha256":"","scope":"admin","created_at":"2025-01-01T00:00:00Z"}]}',
    ],
)
def test_a_damaged_file_opens_nothing_and_is_not_written_over(keys: KeyStore, damage) -> None:
    token, _ = keys.create("ada")
    keys.path.write_bytes(damage)
    with pytest.raises(KeyFileError, match="cannot be read"):
        keys.find(token)
    with pytest.raises(KeyFileError, match="cannot be read"):
        keys.create("bob")
    assert keys.path.read_bytes() == damage


def test_a_failed_write_leaves_the_file_as_it_was(keys: KeyStore, monkeypatch) -> None:
    token, _ = keys.create("ada")
    before = keys.path.read_bytes()

    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(store.os, "fsync", full)
    with pytest.raises(KeyFileError, match="No space left"):
        keys.create("bob")
    assert keys.path.read_bytes() == before
    assert keys.find(token) is not None
    assert not list(keys.path.parent.glob("*.tmp"))


def test_revoking_takes_all_keys_of_one_user(keys: KeyStore) -> None:
    """All keys of a user are revoked at once, and nobody else's."""
    gone = [keys.create("ada")[0] for _ in range(3)]
    kept = [keys.create("ada2")[0], keys.create(None)[0]]

    assert keys.revoke_all("ada") == 3
    assert keys.revoke_all("ada") == 0
    assert [keys.find(token) for token in gone] == [None] * 3
    assert None not in [keys.find(token) for token in kept]
    assert '"ada"' not in keys.path.read_text()
