"""An encrypted store: nothing of a user in any file, all that works without works with it."""

import stat
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.canaries import canaries_everywhere, found_in
from support.compacting import SHORT, contents, told, with_a_past
from support.fakes import FakeTokenEmbedder

from eventlog import EncryptionMismatch, KeyGone, KeysUnavailable, MissingExtra, stream_id
from memory_actors import Item, copy_store, repair_store, verify_store
from memory_actors.base.key_files import default_key_file

pytestmark = [pytest.mark.anyio, pytest.mark.tokens]


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "memory"


@pytest.fixture
def key_file(tmp_path: Path) -> Path:
    return tmp_path / "memory.keys"


def bytes_of(directory: Path) -> dict[str, bytes]:
    data = (path for path in sorted(directory.rglob("*")) if path.suffix in (".mdb", ".anchor"))
    return {path.name: path.read_bytes() for path in data}


# --- what is on disk


@pytest.mark.parametrize("encrypt", [False, True])
async def test_an_encrypted_stores_files_hold_no_users_words(
    open_memory: Any,
    directory: Path,
    embedder: FakeTokenEmbedder,
    monkeypatch: pytest.MonkeyPatch,
    encrypt: bool,
) -> None:
    """Nothing that a user said is in a file of an encrypted store.

    The same search finds canaries and vectors in a store that is not encrypted.
    """
    monkeypatch.setattr("eventlog.lmdb.segment.zstandard", None)
    text = "the text whose vector is looked for"
    async with open_memory(summarizer=SHORT, recall_audit="plain", encrypt=encrypt) as memory:
        await canaries_everywhere(memory, "eve")
        user = memory.user("eve")
        await user.add(text)
        await user.retrieve("canary of a query")
        async with memory._services.runtime.use("user:eve") as live:
            await live.snapshot()
        await memory.backup(directory.parent / "backup", derived=True)
    (vector,) = embedder.embed([text])
    tokens = embedder.encode([text])[0].tokens
    assert tokens is not None
    stored = [vector.astype(np.float16).tobytes(), vector.astype(np.float32).tobytes(), tokens]
    files = [path for path in directory.parent.rglob("*") if path.is_file()]
    held = [path.name for path in files if any(one in path.read_bytes() for one in stored)]
    words = [path.name for path in files if b"looked" in path.read_bytes()]

    assert {path.suffix for path in files} >= {".mdb", ".segment", ".words"}
    if encrypt:
        assert (found_in(directory.parent), held, words) == (set(), [], [])
    else:
        assert {name for name, _ in found_in(directory.parent)} >= {"log.mdb"}
        assert "derived.mdb" in held
        assert "log.mdb" in words


async def test_keys_of_an_index_cannot_be_guessed(
    open_memory: Any,
) -> None:
    """Keys of an index are no hashes that a guess could be tested against."""
    async with open_memory(encrypt=True) as memory:
        await memory.user("ada").add("tea", idempotency_key="guess", memory_id="m-guess")
        rows = {}
        with memory._log._env.read() as txn:
            for table in ("keys", "requests"):
                with txn.cursor(txn.tables[table]) as cursor:
                    rows[table] = [key[16:32] for key, _ in cursor]

    assert len(rows["keys"]) == len(rows["requests"]) == 1
    assert rows["keys"][0] != stream_id("m-guess")
    assert rows["requests"][0] != stream_id("guess")


# --- it works


async def test_an_encrypted_store_answers_the_same_after_reopening(
    open_memory: Any, embedder: FakeTokenEmbedder
) -> None:
    async with open_memory(summarizer=SHORT, encrypt=True) as memory:
        await with_a_past(memory)
        await memory.compact()
        before, totals = await told(memory), await memory._log.totals()
        (summary, *_) = [
            m for m in await memory.user("ada").list_memories() if m.source == "compressed"
        ]
    computed = len(embedder.texts)
    async with open_memory(summarizer=SHORT, encrypt=True) as memory:
        assert await told(memory) == before
        assert set(embedder.texts[computed:]) == {"login"}
        assert await memory._log.totals() == totals
        assert await memory.check_replay() == []
        report = await memory.verify()
        assert (report.findings, report.unread_events) == ([], 0)
        assert len(await memory.user("ada").expand(summary.memory_id)) > 5
        assert (await memory.user("ada").why(summary.memory_id)).steps
        assert (await memory.diff("ada", 1)).changes
        async with memory.replay("ada", 5) as past:
            assert await past.list_memories()


async def test_a_user_who_comes_back_from_disk_needs_no_model(
    open_memory: Any, embedder: FakeTokenEmbedder
) -> None:
    async with open_memory(encrypt=True) as memory:
        user = memory.user("ada")
        await user.add_many([Item(content=f"note {n}") for n in range(40)])
        await user.add("note 41")
        await memory.user("bob").add("note 41")
    computed = len(embedder.texts)

    async with open_memory(encrypt=True) as memory:
        assert len(await memory.user("ada").retrieve("note 41", top_k=50)) == 41
        assert len(await memory.user("bob").retrieve("note 41", top_k=50)) == 1
    assert set(embedder.texts[computed:]) == {"note 41"}  # the query, whoever else has the text
    assert len(embedder.texts[computed:]) == 1


async def test_recalls_are_kept_under_the_key_of_their_user(open_memory: Any) -> None:
    async with open_memory(encrypt=True, recall_audit="plain") as memory:
        await memory.user("ada").add("likes tea")
        await memory.user("ada").retrieve("tea")
    async with open_memory(encrypt=True, recall_audit="plain") as memory:
        assert [one.query for one in await memory.recalls("ada")] == ["tea"]
        await memory.erase("ada")
        assert await memory.recalls("ada") == []


# --- with and without keys


async def test_an_encrypted_store_is_refused_without_its_keys_and_untouched(
    open_memory: Any, directory: Path
) -> None:
    async with open_memory(encrypt=True) as memory:
        await memory.user("ada").add("likes tea")
    before = bytes_of(directory)

    with pytest.raises(EncryptionMismatch, match="is encrypted"):
        async with open_memory():
            pass
    assert bytes_of(directory) == before


async def test_the_keys_are_private_and_in_no_backup(
    open_memory: Any, directory: Path, key_file: Path, tmp_path: Path
) -> None:
    """The keys are beside the store, for their owner only, and in no backup."""
    async with open_memory(encrypt=True) as memory:
        await memory.user("ada").add("likes tea")
        await memory.backup(tmp_path / "backup")

    assert default_key_file(directory) == key_file.resolve()
    assert stat.S_IMODE(key_file.stat().st_mode) == 0o600
    assert not list(directory.rglob("*.keys"))
    assert not list((tmp_path / "backup").rglob("*.keys"))


async def test_keys_may_lie_elsewhere(open_memory: Any, key_file: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "safe" / "of ada"
    async with open_memory(encrypt=elsewhere) as memory:
        await memory.user("ada").add("likes tea")
    async with open_memory(encrypt=str(elsewhere)) as memory:
        assert await contents(memory.user("ada"))

    assert not key_file.exists()
    with pytest.raises(KeysUnavailable, match="put the file back"):
        async with open_memory(encrypt=True):
            pass
    assert not key_file.exists()


async def test_a_store_is_verified_with_its_keys_and_without(
    open_memory: Any, directory: Path, key_file: Path, tmp_path: Path
) -> None:
    async with open_memory(summarizer=SHORT, encrypt=True) as memory:
        await with_a_past(memory)
        await memory.compact()
    with_keys = verify_store(directory)
    named = verify_store(directory, key_file=key_file)
    key_file.rename(tmp_path / "away")
    without = verify_store(directory)

    assert with_keys == named
    assert (with_keys.ok, with_keys.unread_events) == (True, 0)
    assert (without.ok, without.unread_events) == (True, without.events)


async def test_a_repaired_store_is_under_the_same_keys(
    open_memory: Any, directory: Path, key_file: Path, tmp_path: Path
) -> None:
    async with open_memory(summarizer=SHORT, encrypt=True) as memory:
        await with_a_past(memory)
        await memory.compact()
        before, totals = await told(memory), await memory._log.totals()

    report = repair_store(directory, tmp_path / "new")
    assert report.left_behind == []
    directory.rename(tmp_path / "damaged")
    (tmp_path / "new").rename(directory)

    async with open_memory(summarizer=SHORT, encrypt=key_file) as memory:
        assert await told(memory) == before
        assert await memory._log.totals() == totals
        assert (await memory.verify()).ok


async def test_a_missing_extra_is_named_before_anything_is_made(
    open_memory: Any, key_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the extra the error says what to install, and nothing is made."""
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.ciphers.aead", None)

    with pytest.raises(MissingExtra, match=r"memory-actors\[crypto\]"):
        async with open_memory(encrypt=True):
            pass
    assert not key_file.exists()


# --- erased


async def with_an_old_backup(open_memory: Any, tmp_path: Path, **options: Any) -> None:
    async with open_memory(encrypt=True, recall_audit="plain", **options) as memory:
        await memory.user("ada").add_many([Item(content=f"ada {n}") for n in range(5)])
        await memory.user("ada").retrieve("ada")
        await memory.user("bob").add_many([Item(content=f"bob {n}") for n in range(5)])
        await memory.backup(tmp_path / "backup", derived=True)
        receipt = await memory.erase("ada")
        assert (receipt.events, receipt.key_deleted) == (6, True)


async def test_an_old_backup_is_unreadable_for_an_erased_user(
    open_memory: Any, directory: Path, tmp_path: Path
) -> None:
    """An old backup cannot be read for an erased user, and can for others."""
    await with_an_old_backup(open_memory, tmp_path)
    copy_store(tmp_path / "backup", directory)

    async with open_memory(encrypt=True) as memory:
        ada = memory.user("ada")
        for ask in (
            ada.list_memories,
            ada.usage,
            lambda: ada.retrieve("ada"),
            lambda: ada.add("x"),
        ):
            with pytest.raises(KeyGone, match=r"key of stream 'user:ada' is not in .*erased"):
                await ask()
        with pytest.raises(KeyGone):
            await memory.recalls("ada")
        assert len(await memory.user("bob").retrieve("bob", top_k=9)) == 5
        told = [(entry.user_id, entry.data) async for entry in memory.events()]
        assert [data for user_id, data in told if user_id == "ada"] == 5 * [{"key_gone": True}]
        assert [data["content"] for user_id, data in told if user_id == "bob"] == (
            [f"bob {n}" for n in range(5)]
        )
        assert (await memory.compact()).users_failed == 1
        await memory.user("bob").add("goes on")
        found = (await memory.verify()).findings
        assert all("erase it again" in finding.message for finding in found)
    hers = {stream_id(stream).hex() for stream in ("user:ada", "recall:user:ada")}
    assert {finding.stream for finding in found} == hers
    assert {finding.stream for finding in verify_store(directory).findings} == hers
    async with open_memory(encrypt=True) as memory:
        await memory.erase("ada")
        assert (await memory.verify()).ok


async def test_a_user_without_a_key_can_be_erased(
    open_memory: Any, directory: Path, tmp_path: Path
) -> None:
    """A user whose key is gone can be erased, and come back."""
    await with_an_old_backup(open_memory, tmp_path)
    copy_store(tmp_path / "backup", directory)

    async with open_memory(encrypt=True) as memory:
        await memory.erase("ada")
        assert await memory.user("ada").list_memories() == []
        await memory.user("ada").add("new here")
        assert await memory.check_replay() == []
    async with open_memory(encrypt=True) as memory:
        assert len(await memory.user("ada").list_memories()) == 1
        assert (await memory.verify()).ok


async def test_a_new_key_does_not_open_an_old_backup(
    open_memory: Any, directory: Path, tmp_path: Path
) -> None:
    """A user who came back under a new key is not read from a backup under the old one."""
    await with_an_old_backup(open_memory, tmp_path)
    async with open_memory(encrypt=True) as memory:
        await memory.user("ada").add("came back")
    copy_store(tmp_path / "backup", directory)

    async with open_memory(encrypt=True) as memory:
        with pytest.raises(KeyGone, match="another key"):
            await memory.user("ada").list_memories()


async def test_erasing_one_user_leaves_anothers_equal_vectors(
    open_memory: Any, embedder: FakeTokenEmbedder
) -> None:
    async with open_memory(encrypt=True) as memory:
        await memory.user("ada").add("the same text")
        await memory.user("bob").add("the same text")
    async with open_memory(encrypt=True) as memory:
        assert (await memory.erase("ada")).embeddings == 1
    computed = len(embedder.texts)
    async with open_memory(encrypt=True) as memory:
        assert len(await memory.user("bob").retrieve("query", top_k=9)) == 1
    assert embedder.texts[computed:] == ["query"]
