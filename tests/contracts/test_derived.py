"""What is derived from a stream and kept beside it, as every store that can do so must do it."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from contracts.stores import Noted, open_store

from eventlog import EventStore, InvalidAppend

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["memory", "postgres", "encrypted postgres"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[EventStore]:
    async with open_store(request.param, tmp_path) as log:
        await log.append("s", [Noted("a")], 0)
        yield log


async def test_pieces_come_back_as_they_were_kept(store: EventStore):
    pieces = {b"\0": b"", b"a\0b": b"\0\xff" * 100, b"\xff" * 400: b"x" * 5000}

    assert await store.save_derived("s", pieces, epoch=0)

    assert await store.load_derived("s") == pieces
    assert await store.load_derived("s", [b"a\0b", b"other", b"a\0b"]) == {b"a\0b": b"\0\xff" * 100}
    assert await store.load_derived("s", []) == {}
    assert await store.load_derived("t") == await store.load_derived("t", [b"a\0b"]) == {}


async def test_a_piece_is_replaced_or_deleted_and_the_others_stay(store: EventStore):
    await store.save_derived("s", {b"a": b"1", b"b": b"2", b"c": b"3"}, epoch=0)

    assert await store.save_derived("s", {b"a": b"new", b"b": None, b"d": None}, epoch=0)

    assert await store.load_derived("s") == {b"a": b"new", b"c": b"3"}


@pytest.mark.parametrize("epoch", [1, 3])
async def test_an_owner_of_another_epoch_keeps_nothing(store: EventStore, epoch: int):
    """Pieces of an owner that was fenced are not kept, nor of one that never came."""
    await store.acquire("s", 2)
    await store.save_derived("s", {b"a": b"1"}, epoch=2)

    assert not await store.save_derived("s", {b"a": b"late", b"b": b"late"}, epoch=epoch)

    assert await store.load_derived("s") == {b"a": b"1"}


async def test_a_stream_that_never_was_has_no_pieces(store: EventStore):
    await store.acquire("u", 1)

    assert not await store.save_derived("t", {b"a": b"1"}, epoch=0)
    assert not await store.save_derived("u", {b"a": b"1"}, epoch=1)

    assert await store.load_derived("t") == await store.load_derived("u") == {}


async def test_pieces_go_with_an_erased_stream_and_no_late_one_comes(store: EventStore):
    await store.append("t", [Noted("b")], 0)
    for stream in "st":
        await store.save_derived(stream, {b"a": b"1"}, epoch=0)

    await store.erase("s")

    assert not await store.save_derived("s", {b"a": b"late"}, epoch=0)
    assert await store.load_derived("s") == {}
    assert await store.load_derived("t") == {b"a": b"1"}
    await store.append("s", [Noted("again")], 1)
    assert await store.load_derived("s") == {}
    assert await store.save_derived("s", {b"b": b"2"}, epoch=0)
    assert await store.load_derived("s") == {b"b": b"2"}


async def test_many_and_large_pieces_come_back_whole(store: EventStore):
    """More pieces than are read at once, and more bytes."""
    many = {n.to_bytes(3, "big"): b"%d" % n for n in range(9000)}
    large = {b"large %d" % n: bytes([n]) * (7 << 20) for n in range(4)}

    await store.save_derived("s", many, epoch=0)
    for name, piece in large.items():
        await store.save_derived("s", {name: piece}, epoch=0)

    assert await store.load_derived("s") == many | large
    assert await store.load_derived("s", list(many)) == many
    assert await store.load_derived("s", list(large)) == large


@pytest.mark.parametrize("pieces", [{b"": b""}, {b"x" * 401: b""}, {"a": b""}, {b"a": "text"}])
async def test_what_is_no_piece_is_refused(store: EventStore, pieces: dict):
    with pytest.raises(InvalidAppend, match="piece"):
        await store.save_derived("s", {b"good": b"1"} | pieces, epoch=0)

    assert await store.load_derived("s") == {}
