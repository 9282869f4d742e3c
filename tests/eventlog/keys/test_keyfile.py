"""The file of keys: durable before it counts, refused when it is not as it was written."""

import os
import zlib
from pathlib import Path

import pytest

from eventlog import DiskFull, KeyGone, KeysUnavailable, LogLocked, StorageFailed, stream_id
from eventlog.keys import keyfile
from eventlog.keys.cryptography import StreamCipher

pytestmark = pytest.mark.user

HEAD_BYTES, RECORD_BYTES = 28, 52


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "log.keys"


def made_by(path: Path, *streams: str) -> dict[str, bytes]:
    """Make a key for each stream, and return what each has encrypted."""
    with keyfile.opened(path) as keys:
        keys.attach(None)
        encrypted = {stream: keys.make(stream).encrypt(b"data", b"here") for stream in streams}
        keys.sync()
        return encrypted


def opened_by(path: Path, encrypted: dict[str, bytes]) -> set[str]:
    """Return the streams whose keys open what they have encrypted."""
    found = set()
    with keyfile.opened(path) as keys:
        keys.attach(b"")
        for stream, data in encrypted.items():
            try:
                assert keys.cipher(stream).decrypt(data, b"here") == b"data"
                found.add(stream)
            except KeyGone:
                pass
    return found


def test_a_key_that_is_forgotten_before_it_is_synced_is_used_no_more(path: Path) -> None:
    """What is encrypted afterwards is read with the key that is made afterwards."""
    with keyfile.opened(path) as keys:
        keys.attach(None)
        keys.make("a")
        keys.forget(stream_id("a"))
        encrypted = {"a": keys.make("a").encrypt(b"data", b"here")}
        keys.sync()

    assert opened_by(path, encrypted) == {"a"}


def test_a_key_counts_once_it_is_synced(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    real = os.fsync
    monkeypatch.setattr(os, "fsync", lambda fd: (synced.append(os.fstat(fd).st_size), real(fd)))
    with keyfile.opened(path) as keys:
        keys.attach(None)
        keys.make("a")
        assert not keys.has("a")
        synced.clear()
        keys.sync()
        assert (keys.has("a"), synced) == (True, [HEAD_BYTES + RECORD_BYTES])
        keys.sync()
        assert len(synced) == 1  # there was nothing to be written


def test_streams_of_one_owner_share_a_key_not_a_cipher(path: Path) -> None:
    with keyfile.opened(path, lambda stream: stream.removeprefix("side:")) as keys:
        keys.attach(None)
        encrypted = keys.make("side:a").encrypt(b"data", b"here")
        keys.sync()
        assert keys.has("a")
        with pytest.raises(KeyGone):
            keys.cipher("a").decrypt(encrypted, b"here")
        keys.forget(stream_id("side:a"))  # which has no key of its own
        assert keys.cipher("side:a").decrypt(encrypted, b"here") == b"data"
        keys.forget(stream_id("a"))
        assert not keys.has("side:a")


def test_a_deleted_key_is_in_no_byte(path: Path) -> None:
    """A deleted key is in no byte of the file, and others stay."""
    encrypted = made_by(path, "a", "b", "c")
    record = path.read_bytes()[HEAD_BYTES + RECORD_BYTES :][:RECORD_BYTES]
    old = path.open("rb")
    with keyfile.opened(path) as keys:
        keys.attach(b"")
        keys.cipher("b")
        keys.forget(stream_id("b"))
        with pytest.raises(KeyGone, match=r"not in .*log\.keys: it was erased"):
            keys.cipher("b")
        keys.forget(stream_id("b"))  # once more does no harm

    assert record[16:48] not in path.read_bytes()
    with old:
        assert not any(old.read())  # the bytes of the file that was replaced
    assert opened_by(path, encrypted) == {"a", "c"}
    assert not path.with_name("log.keys.tmp").exists()


def torn(path: Path, how: str) -> None:
    """Leave of the last three records what a power loss may leave of one append of them."""
    data, end = path.read_bytes(), HEAD_BYTES + RECORD_BYTES
    last = data[-RECORD_BYTES:]
    left = {
        "cut short": data[: end + 20],
        "cut in the last": data[:-1],
        "room only": data[:end] + bytes(3 * RECORD_BYTES),
        "the last of them whole": data[:end] + bytes(2 * RECORD_BYTES) + last,
    }
    path.write_bytes(left[how])


@pytest.mark.parametrize(
    "how", ["cut short", "cut in the last", "room only", "the last of them whole"]
)
def test_keys_of_torn_appends_are_passed_over(path: Path, how: str) -> None:
    """Keys whose append was torn are passed over where no stream misses them."""
    encrypted = made_by(path, "a", "b", "c", "d")
    torn(path, how)
    known = path.read_bytes()[8:24]
    with keyfile.opened(path) as keys:
        keys.attach(known, ["a"])
        encrypted["e"] = keys.make("e").encrypt(b"data", b"here")
        keys.sync()
    with keyfile.opened(path) as keys:
        assert keys.attach(known, ["a", "e"]) == known
        for stream in ("a", "e"):
            assert keys.cipher(stream).decrypt(encrypted[stream], b"here") == b"data"


@pytest.mark.parametrize("at", range(0, RECORD_BYTES, 3))
@pytest.mark.parametrize("which", [0, 1])
def test_a_damaged_key_in_use_is_never_written_over(path: Path, which: int, at: int) -> None:
    """A damaged key of a stream that has events is refused, and never written over.

    One flipped bit in the last record looks as if it had been torn; the log knows better.
    """
    encrypted = made_by(path, "a", "b")
    whole = path.read_bytes()
    damaged = bytearray(whole)
    damaged[HEAD_BYTES + which * RECORD_BYTES + at] ^= 4
    path.write_bytes(damaged)

    refusal = pytest.raises(KeysUnavailable, match="put a copy of it back")
    with keyfile.opened(path) as keys, refusal as refused:
        keys.attach(whole[8:24], ["a", "b"])
    assert ("truncate" in str(refused.value)) == (which == 1)
    assert path.read_bytes() == damaged
    path.write_bytes(whole)
    assert opened_by(path, encrypted) == {"a", "b"}


def test_no_second_key_replaces_a_missing_one(path: Path) -> None:
    """No second key is made for an owner whose key is missing.

    Or a copy of the file, put back later, would have another one than what was written since.
    """
    made_by(path, "a")
    with keyfile.opened(path, lambda stream: stream.removeprefix("side:")) as keys:
        keys.attach(path.read_bytes()[8:24], ["a", "b"])
        for stream in ("b", "side:b"):
            with pytest.raises(KeyGone):
                keys.make(stream)
        keys.forget(stream_id("b"))  # it is erased
        keys.make("side:b")
        keys.sync()
        assert keys.has("b")


@pytest.mark.parametrize("at", [*range(0, HEAD_BYTES, 3), *range(HEAD_BYTES, HEAD_BYTES + 52, 5)])
def test_a_damaged_file_is_refused_and_left_as_it_is(path: Path, at: int) -> None:
    made_by(path, "a", "b")
    damaged = bytearray(path.read_bytes())
    damaged[at] ^= 4
    path.write_bytes(damaged)

    with keyfile.opened(path) as keys, pytest.raises(KeysUnavailable, match="put a copy of it"):
        keys.attach(b"")
    assert path.read_bytes() == damaged


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o660, 0o400, 0o700])
def test_a_loose_mode_is_refused_with_advice(path: Path, mode: int) -> None:
    """A file with another mode is refused with what to do."""
    made_by(path, "a")
    path.chmod(mode)

    with keyfile.opened(path) as keys, pytest.raises(KeysUnavailable, match="chmod 600"):
        keys.attach(b"")


def test_a_missing_file_is_refused_where_there_is_a_log(path: Path) -> None:
    with keyfile.opened(path) as keys, pytest.raises(KeysUnavailable, match="put the file back"):
        keys.attach(b"i" * 16)
    assert not path.exists()


def test_the_file_of_another_log_is_refused(path: Path) -> None:
    made_by(path, "a")

    with keyfile.opened(path) as keys, pytest.raises(KeysUnavailable, match="another store"):
        keys.attach(b"i" * 16)


def test_a_second_one_who_opens_the_file_is_refused(path: Path) -> None:
    with keyfile.opened(path) as keys, keyfile.opened(path) as others:
        keys.attach(None)
        with pytest.raises(LogLocked):
            others.attach(None)


@pytest.mark.parametrize(("number", "error"), [(28, DiskFull), (5, StorageFailed)])
@pytest.mark.parametrize("change", ["sync", "forget"])
def test_a_disk_that_refuses_leaves_the_file_as_it_was(
    path: Path, monkeypatch: pytest.MonkeyPatch, number: int, error: type[Exception], change: str
) -> None:
    encrypted = made_by(path, "a")

    def refuse(_fd: int) -> None:
        raise OSError(number, "no")

    with keyfile.opened(path) as keys:
        keys.attach(b"")
        keys.make("b")
        with monkeypatch.context() as patched:
            patched.setattr(os, "fsync", refuse)
            with pytest.raises(error):
                keys.sync() if change == "sync" else keys.forget(stream_id("a"))
        assert keys.has("a")
        assert not keys.has("b")
        keys.make("b")
        keys.sync()
        assert keys.has("b")

    assert opened_by(path, encrypted) == {"a"}


def test_every_later_version_reads_a_written_file(path: Path) -> None:
    head = b"EVKEYS01" + b"i" * 16
    record = stream_id("a") + bytes(range(32))
    path.write_bytes(
        head + zlib.crc32(head).to_bytes(4, "big")
        + record + zlib.crc32(record, zlib.crc32(b"i" * 16)).to_bytes(4, "big")
    )  # fmt: skip
    path.chmod(0o600)

    with keyfile.opened(path) as keys:
        assert keys.attach(b"i" * 16) == b"i" * 16
        known = StreamCipher(bytes(range(32)), stream_id("a"))
        assert keys.cipher("a").blind(b"x") == known.blind(b"x")


@pytest.mark.parametrize("content", [b"", b"root:x:0:0:root:/root:/bin/bash\n" * 9])
def test_a_foreign_file_is_never_changed(path: Path, content: bytes) -> None:
    """A file that is something else is not to be changed."""
    path.write_bytes(content)
    path.chmod(0o644)

    with keyfile.opened(path) as keys, pytest.raises(KeysUnavailable, match="is no file of keys"):
        keys.attach(None)

    assert path.read_bytes() == content
    assert list(path.parent.iterdir()) == [path]
