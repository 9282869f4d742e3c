"""An encrypted payload opens whole, at its own place, under its own key, and nowhere else."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eventlog import CorruptLog, EventLogError, KeyGone
from eventlog.core import frame
from eventlog.keys.cryptography import NONCE_BYTES, OVERHEAD_BYTES, StreamCipher

CIPHER = StreamCipher(b"k" * 32, b"s" * 16)
PLACES = st.builds(
    frame.place_of,
    st.binary(min_size=16, max_size=16),
    st.integers(0, 2**64 - 1),
    st.integers(0, 2**16 - 1),
    st.binary(max_size=20),
)


@given(st.binary(max_size=2000), PLACES)
@settings(deadline=None)
def test_what_was_encrypted_decrypts_at_its_place(data: bytes, place: bytes) -> None:
    encrypted = CIPHER.encrypt(data, place)

    assert len(encrypted) == len(data) + OVERHEAD_BYTES
    assert CIPHER.decrypt(encrypted, place) == data


@given(st.binary(max_size=200), PLACES, PLACES)
@settings(deadline=None)
def test_what_was_moved_to_another_place_does_not_open(
    data: bytes, place: bytes, other: bytes
) -> None:
    encrypted = CIPHER.encrypt(data, place)

    if place != other:
        with pytest.raises(CorruptLog):
            CIPHER.decrypt(encrypted, other)


@given(st.binary(max_size=200), st.data())
@settings(deadline=None)
def test_any_bit_that_flips_shows(data: bytes, drawn: st.DataObject) -> None:
    encrypted = bytearray(CIPHER.encrypt(data, b"here"))
    bit = drawn.draw(st.integers(0, 8 * len(encrypted) - 1))
    encrypted[bit // 8] ^= 1 << bit % 8

    with pytest.raises((CorruptLog, KeyGone)):
        CIPHER.decrypt(bytes(encrypted), b"here")


@given(st.binary(max_size=200))
def test_noise_raises_errors_of_the_log_only(noise: bytes) -> None:
    with pytest.raises(EventLogError):
        CIPHER.decrypt(noise, b"here")


@given(st.binary(min_size=32, max_size=32), st.binary(min_size=16, max_size=16), st.binary())
@settings(deadline=None)
def test_another_key_or_stream_neither_opens_nor_hashes_the_same(
    key: bytes, sid: bytes, data: bytes
) -> None:
    other = StreamCipher(key, sid)

    with pytest.raises(KeyGone):
        other.decrypt(CIPHER.encrypt(data, b"here"), b"here")
    assert other.blind(data) != CIPHER.blind(data)


def test_the_same_bytes_are_never_encrypted_twice_with_one_nonce() -> None:
    """No nonce comes twice, also when an append is tried again under the same version."""
    nonces = {CIPHER.encrypt(b"same", b"here")[8 : 8 + NONCE_BYTES] for _ in range(20_000)}

    assert len(nonces) == 20_000


def test_what_was_written_once_is_read_by_every_later_version() -> None:
    """Bytes of a key, a place, a nonce 0, 1, 2, ... and the text `hello`."""
    cipher = StreamCipher(bytes(range(32)), b"s" * 16)
    place = frame.place_of(b"s" * 16, 7, 2, b"test.noted")
    written = (
        "4b9d2023515f943f000102030405060708090a0b25c34727743aa551dd1a0b156a43c6a59801bdd083"
    )  # fmt: skip

    assert place.hex() == f"6576656e74{'73' * 16}00000000000000070002" + b"test.noted".hex()
    assert cipher.decrypt(bytes.fromhex(written), place) == b"hello"
    assert cipher.blind(b"hello").hex() == (
        "1edbe1a9ffdbac99dc792e55027fa0c9e2063839a5d24c154817947bb458c202"
    )
