"""Derived data in fewer bytes, and what was written before it was compressed."""

import msgspec
import pytest

from memory_actors.base.compressing import compressed, decompressed


class State(msgspec.Struct):
    rows: list[str]


PLAIN = msgspec.msgpack.encode(State(["a row like others"] * 50))


def test_what_was_compressed_comes_back():
    assert len(compressed(PLAIN)) < len(PLAIN) / 5
    assert decompressed(compressed(PLAIN)) == PLAIN


def test_what_was_written_as_it_is_is_read():
    assert decompressed(PLAIN) == PLAIN
    assert decompressed(b"") == b""


@pytest.mark.parametrize("damaged", [compressed(PLAIN)[:-3], compressed(PLAIN)[:2], b"\x78junk"])
def test_damage_is_a_value_error(damaged: bytes):
    with pytest.raises(ValueError, match="damaged"):
        decompressed(damaged)
