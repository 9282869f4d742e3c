"""Whatever bytes are read as a frame, a payload or a block: an event, or an error of the log."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.faults.fuzz_targets import TARGETS, feed, samples

KNOWN = samples()
NAMES = list(TARGETS)


def selected(name: str, data: bytes) -> bytes:
    return bytes([NAMES.index(name)]) + data


@given(st.sampled_from(NAMES), st.binary(max_size=400))
@settings(max_examples=200, deadline=None)
def test_noise_raises_errors_of_the_log_only(name: str, data: bytes) -> None:
    feed(selected(name, data))


@given(st.sampled_from(NAMES), st.data())
@settings(max_examples=300, deadline=None)
def test_whole_bytes_with_changes_raise_errors_of_the_log_only(
    name: str, data: st.DataObject
) -> None:
    changed = bytearray(KNOWN[name])
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(changed) - 1))
        changed[at] = data.draw(st.integers(0, 255))
    feed(selected(name, bytes(changed)))


@pytest.mark.parametrize("name", NAMES)
def test_whole_bytes_are_read_by_each_target(name: str) -> None:
    """Or nothing behind the first check would ever be reached."""
    TARGETS[name](KNOWN[name])
