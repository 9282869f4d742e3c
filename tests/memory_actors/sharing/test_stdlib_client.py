"""Calls of an owner with the standard library alone."""

from datetime import UTC, datetime
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from memory_actors.sharing import frames, stdlib_client

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(1 << 63), (1 << 63) - 1)
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary()
)
VALUES: Any = st.recursive(
    SCALARS, lambda one: st.lists(one, max_size=20) | st.dictionaries(st.text(), one, max_size=20)
)


@given(VALUES)
def test_what_is_packed_is_read_by_the_library_that_owners_use(value: Any) -> None:
    assert msgspec.msgpack.decode(stdlib_client.packed(value)) == value


@given(VALUES | st.integers(1 << 63, (1 << 64) - 1))
def test_what_owners_write_is_read(value: Any) -> None:
    assert stdlib_client.unpacked(msgspec.msgpack.encode(value)) == value


@given(st.datetimes(timezones=st.just(UTC)))
def test_times_are_read_to_the_second(time: datetime) -> None:
    seconds = stdlib_client.unpacked(msgspec.msgpack.encode(time))
    assert seconds == (time - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds() // 1


def test_the_numbers_of_messages_are_those_of_the_protocol() -> None:
    kinds = (frames.Hello, frames.Refused, frames.Call, frames.Answered, frames.CallFailed)
    tags = tuple(kind.__struct_config__.tag for kind in kinds)
    assert tags == (
        stdlib_client.HELLO,
        stdlib_client.REFUSED,
        stdlib_client.CALL,
        stdlib_client.ANSWERED,
        stdlib_client.CALL_FAILED,
    )
    assert stdlib_client.PROTOCOL == frames.PROTOCOL
