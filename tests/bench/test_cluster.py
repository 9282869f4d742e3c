"""The judge of the cluster's measurement: what it takes for harm, and what not."""

import asyncio
from contextlib import suppress

import pytest

pytest.importorskip("psycopg", reason="PostgreSQL is not installed: pip install -e '.[dev]'")

from bench.cluster.check import Write, _Past, _stale_reads
from bench.cluster.journal import Board, Journal, Line, Thing, lines
from bench.cluster.links import Links

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


def test_a_journal_ends_with_its_last_whole_line(tmp_path):
    journal = Journal(tmp_path / "one")
    journal.note("try", call="c1", token="a")
    journal.note("done", call="c1", token="a", ref="m")
    with (tmp_path / "one").open("ab") as file:
        file.write(b'{"what":"tr')

    assert [line.what for line in lines(tmp_path / "one")] == ["try", "done"]


def test_a_board_shows_what_was_written_last(tmp_path):
    thing = Thing("ada", "working", "of1", "token")
    Board(tmp_path / "board", 2).show(1, thing)

    seen = [Board(tmp_path / "board", 2).look(number) for number in range(16)]
    assert [one for one in seen if one is not None] == [thing]


@pytest.mark.parametrize("reset", [False, True])
async def test_a_link_holds_back_what_one_side_says(reset):
    links = Links()
    heard: asyncio.Queue[bytes] = asyncio.Queue()
    is_over = asyncio.Event()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionResetError):
            while data := await reader.read(100):
                heard.put_nowait(data)
                writer.write(data)
        writer.close()
        is_over.set()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    link, port = await asyncio.to_thread(links.add, server.sockets[0].getsockname()[1])
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"one")
    assert await reader.read(100) == b"one"

    await asyncio.to_thread(links.do, link.hold("back"))
    writer.write(b"two")
    assert [await heard.get(), await heard.get()] == [b"one", b"two"]
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(reader.read(100), 0.05)

    await asyncio.to_thread(links.do, link.heal(reset=reset))
    assert await reader.read(100) == (b"" if reset else b"two")
    writer.close()
    await asyncio.to_thread(links.close)
    await is_over.wait()
    server.close()
    await asyncio.sleep(0.01)
