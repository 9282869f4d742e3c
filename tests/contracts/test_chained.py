"""The chain of an event tells one history from another, in every store that tells chains."""

from pathlib import Path

import pytest
from contracts.stores import STORES, Noted, open_store

from eventlog import ChainedStore, require

pytestmark = pytest.mark.anyio
CHAINED = [name for name in STORES if name != "memory"]


@pytest.mark.parametrize("name", CHAINED)
async def test_the_chain_of_an_event_covers_those_before_it(name: str, tmp_path: Path) -> None:
    async with open_store(name, tmp_path) as log:
        chained = require(log, ChainedStore)
        for stream, first in (("one", "a"), ("other", "b"), ("other one", "a")):
            await log.append(stream, [Noted(first), Noted("same")], 0)
        ends = [await chained.chain_at(stream, 2) for stream in ("one", "other", "other one")]
        assert len(set(ends)) == 3
        assert [len(end) for end in ends] == [32] * 3
        assert await chained.chain_at("one", 1) not in ends
        for nowhere in (0, 3, -1, 1 << 70):
            assert await chained.chain_at("one", nowhere) == b""
        assert await chained.chain_at("nobody", 1) == b""
