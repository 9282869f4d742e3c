"""The judge of the cluster's measurement: what it takes for harm, and what not."""

import pytest

pytest.importorskip("psycopg", reason="PostgreSQL is not installed: pip install -e '.[dev]'")

from bench.cluster.check import Write, _Past, _stale_reads
from bench.cluster.journal import Line

FOREVER = float("inf")
pytestmark = pytest.mark.anyio


def read(token: str | None, from_s: float, until_s: float, **more: str) -> Line:
    asked = {"name": "get", "user": "ada", "kind": "memory", "ref": "m"} | more
    return Line(what="read", from_s=from_s, at_s=until_s, token=token, **asked)


@pytest.mark.parametrize(
    ("writes", "seen", "is_stale"),
    [
        ([Write(1, 2, "a")], read("a", 3, 4), False),
        ([Write(1, 2, "a")], read(None, 3, 4), True),
        ([Write(1, 5, "a")], read(None, 3, 4), False),
        ([Write(1, 2, "a"), Write(3, 4, "b")], read("a", 5, 6), True),
        ([Write(1, 2, "a"), Write(3, 4, "b")], read("a", 3.5, 6), False),
        ([Write(1, 2, "a"), Write(3, FOREVER, "b")], read("a", 5, 6), False),
        ([Write(1, 2, "a"), Write(3, FOREVER, "b")], read("b", 5, 6), False),
        ([Write(1, FOREVER, "a"), Write(3, 4, "b")], read("a", 5, 6), False),
        ([Write(1, 2, "a"), Write(3, 4, None)], read("a", 5, 6), True),
        ([Write(1, 2, "a"), Write(3, 4, None)], read(None, 5, 6), False),
        ([Write(5, 6, "a")], read("a", 3, 4), True),
        ([Write(1, 2, "a")], read("never written", 3, 4), True),
    ],
)
def test_a_read_is_stale_that_missed_what_was_acknowledged_before_it(writes, seen, is_stale):
    assert bool(_Past(writes).objection(seen)) == is_stale
    assert len(list(_stale_reads([seen], {("ada", "memory", "m"): writes}))) == is_stale


def test_a_search_may_miss_what_says_something_else_now():
    writes = {("ada", "memory", "m"): [Write(1, 2, "a"), Write(3, 4, "b")]}
    searched = read(None, 5, 6, name="retrieve", said="a")
    missed = read(None, 5, 6, name="retrieve", said="b")
    steady = {("ada", "memory", "m"): [Write(3, 4, "b")]}

    assert list(_stale_reads([searched], writes)) == []
    assert [harm.what for harm in _stale_reads([missed], steady)] == ["stale read"]
