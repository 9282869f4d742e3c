"""Work that is not to be cut off."""

import asyncio

import pytest

from eventlog.core.waiting import to_the_end

pytestmark = pytest.mark.anyio


async def work(
    steps: list[str], *, failing: bool = False, until: asyncio.Event | None = None
) -> str:
    steps.append("begun")
    await (asyncio.sleep(0.02) if until is None else until.wait())
    steps.append("ended")
    if failing:
        raise ZeroDivisionError
    return "result"


@pytest.mark.parametrize("failing", [False, True])
async def test_it_ends_however_often_its_caller_is_cancelled(failing: bool) -> None:
    steps: list[str] = []
    until = asyncio.Event()
    task = asyncio.create_task(to_the_end(work(steps, failing=failing, until=until)))
    for _ in range(3):
        await asyncio.sleep(0.001)
        task.cancel()
    until.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert steps == ["begun", "ended"]
