"""Settings that all processes agree on, as every store that keeps them must keep them."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from contracts.stores import open_store

from eventlog import InvalidAppend

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["memory", "postgres"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Any]:
    async with open_store(request.param, tmp_path) as log:
        yield log


async def test_a_setting_is_saved_over_the_one_that_was_expected(store):
    assert await store.load_setting("limit") is None

    assert await store.save_setting("limit", b"1", expected=None)
    assert await store.save_setting("limit", b"\0\xff", expected=b"1")

    assert await store.load_setting("limit") == b"\0\xff"
    assert await store.load_setting("lim\0it") is None


@pytest.mark.parametrize("expected", [None, b"0"])
async def test_another_setting_than_the_expected_one_stays(store, expected):
    await store.save_setting("limit", b"1", expected=None)

    assert not await store.save_setting("limit", b"2", expected=expected)

    assert await store.load_setting("limit") == b"1"


async def test_a_setting_that_was_expected_and_is_not_there_is_not_made(store):
    assert not await store.save_setting("limit", b"2", expected=b"1")
    assert await store.load_setting("limit") is None


@pytest.mark.parametrize("first", [None, b"0"])
async def test_a_save_that_is_repeated_says_the_same(store, first):
    if first is not None:
        await store.save_setting("limit", first, expected=None)
    for _ in range(2):
        assert await store.save_setting("limit", b"1", expected=first)


async def test_of_those_who_save_at_once_one_does(store):
    saved = await asyncio.gather(
        *(store.save_setting("limit", b"%d" % n, expected=None) for n in range(8))
    )

    assert sum(saved) == 1
    assert await store.load_setting("limit") == b"%d" % saved.index(True)


@pytest.mark.parametrize(("name", "value"), [("", b""), ("x" * 401, b""), (7, b""), ("a", "text")])
async def test_what_can_be_no_setting_is_refused(store, name, value):
    with pytest.raises(InvalidAppend):
        await store.save_setting(name, value, expected=None)


async def test_a_large_setting_is_kept(store):
    assert await store.save_setting("keys", bytes(4 << 20), expected=None)
    assert await store.load_setting("keys") == bytes(4 << 20)
