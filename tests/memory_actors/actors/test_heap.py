"""Freed memory goes back to the operating system."""

import subprocess
import sys

import pytest

from memory_actors.actors.heap import LOOSE_BYTES, HeapTrimming, _trim, give_back

HELD = """
import psutil
from memory_actors.actors.heap import give_back

blocks = [bytes(2_000) for _ in range(50_000)]  # 100 MB
last = blocks[-1]  # lies at the end: the heap cannot shrink from there
del blocks
before = psutil.Process().memory_info().rss
give_back()
print(before - psutil.Process().memory_info().rss)
"""


@pytest.mark.skipif(_trim() is None, reason="this C library has no malloc_trim")
def test_what_was_freed_goes_back_to_the_operating_system() -> None:
    said = subprocess.run([sys.executable, "-c", HELD], check=True, capture_output=True, text=True)
    assert int(said.stdout) > 50_000_000


def test_a_c_library_without_a_way_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memory_actors.actors.heap._trim", lambda: None)
    give_back()


def test_pages_are_given_back_after_a_large_change_and_a_small_one_once_all_is_quiet() -> None:
    heap, small = HeapTrimming(), LOOSE_BYTES // 8
    assert not heap.take_due(small, uses=1), "whoever works on needs them again"
    assert heap.take_due(small, uses=1), "nobody has used anything since"
    assert not heap.take_due(small, uses=1), "once"
    assert heap.take_due(small + LOOSE_BYTES, uses=2), "a large load"
    assert heap.take_due(small, uses=3), "or a large user has left"


def test_a_large_heap_is_given_back_after_larger_changes_only() -> None:
    heap = HeapTrimming()
    assert heap.take_due(1 << 30, uses=1)
    assert not heap.take_due((1 << 30) + 2 * LOOSE_BYTES, uses=2)
    assert heap.take_due((1 << 30) + (1 << 27), uses=3)
