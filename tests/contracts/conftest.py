"""Each test of a contract runs over every store."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest
from contracts.stores import STORES, open_store

from eventlog import EventStore


@pytest.fixture(params=STORES)
def opened(
    request: pytest.FixtureRequest, tmp_path: Path
) -> AbstractAsyncContextManager[EventStore]:
    """Return a context manager that opens a new store."""
    return open_store(request.param, tmp_path)


@pytest.fixture
async def store(
    opened: AbstractAsyncContextManager[EventStore],
) -> AsyncIterator[EventStore]:
    async with opened as log:
        yield log
