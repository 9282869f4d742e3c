"""Times that callers give: datetimes, dates, ISO 8601 and numbers mean the same everywhere."""

from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from math import inf, nan
from typing import Any

import pytest

from memory_actors import InvalidInputError, Item, MemoryType
from memory_actors.base.validation import time_us

pytestmark = pytest.mark.anyio

NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)
DAY = datetime(2024, 5, 1, tzinfo=UTC)
SAME = {
    "aware": (NOON, NOON),
    "elsewhere": (datetime(2024, 5, 1, 14, tzinfo=timezone(timedelta(hours=2))), NOON),
    "naive": (datetime(2024, 5, 1, 12), NOON),  # noqa: DTZ001 - it means UTC
    "date": (date(2024, 5, 1), DAY),
    "ISO 8601": ("2024-05-01T12:00:00Z", NOON),
    "ISO 8601 of a day": ("2024-05-01", DAY),
    "seconds": (int(NOON.timestamp()), NOON),
    "parts of a second": (NOON.timestamp() + 0.25, NOON + timedelta(seconds=0.25)),
    "long ago": (-86_400, datetime(1969, 12, 31, tzinfo=UTC)),
    "the beginning": (0, datetime(1970, 1, 1, tzinfo=UTC)),
}


@pytest.mark.parametrize("form", SAME)
async def test_every_form_of_a_time_is_accepted(user: Any, form: str) -> None:
    """Every form of a time says when a memory was true."""
    given, meant = SAME[form]
    for kind in set(MemoryType) - {MemoryType.WORKING}:
        added = await user.add(f"a {kind}", kind, occurred_at=given)
        assert (await user.get(added.memory_id)).occurred_at == meant, kind
    (added,) = await user.add_many([Item(content="one of many", occurred_at=given)])
    assert (await user.get(added.memory_id)).occurred_at == meant
    message = await user.short_term.add_message("hello", occurred_at=given)
    assert (await user.get(message.memory_id)).occurred_at == meant


async def test_what_asks_for_a_time_takes_every_form_of_it(user: Any) -> None:
    days = [date(2024, 5, day) for day in range(1, 6)]
    await user.add_many([Item(content=f"ran on {day}", occurred_at=day) for day in days])
    for since, until in (
        (date(2024, 5, 2), date(2024, 5, 3)),
        (DAY.timestamp() + 86_400, int(DAY.timestamp()) + 2 * 86_400),
        ("2024-05-02", datetime(2024, 5, 3, tzinfo=UTC)),
    ):
        (hit,) = await user.retrieve("ran", since=since, until=until)
        assert hit.content == "ran on 2024-05-02"
    assert await user.retrieve("ran", as_of=date(2024, 1, 1)) != []
    assert await user.retrieve("ran", as_of=0) == []
    for name in ("Ada", "Porto", "Bern"):
        await user.entities.add_entity(name)
    await user.entities.relate("Ada", "lives_in", "Porto", valid_from=date(2020, 1, 1))
    await user.entities.relate("Ada", "lives_in", "Bern", valid_from=1_700_000_000)
    (then,) = await user.entities.relationships("Ada", as_of=date(2021, 1, 1))
    assert then.target == "Porto"


async def test_a_moment_is_a_position_or_a_time(
    memory: Any,
) -> None:
    """A moment of the past is a position or a time, and never a fraction."""
    await memory.user("ada").add("likes tea")
    async with memory.replay("ada", date(2030, 1, 1)) as past:
        assert await past.count() == 1
    async with memory.replay("ada", date(2020, 1, 1)) as past:
        assert await past.count() == 0
    with pytest.raises(InvalidInputError, match="neither a position"):
        async with memory.replay("ada", 1.5):
            pass


@pytest.mark.parametrize(
    "wrong",
    [
        True, nan, inf, -inf, 1_714_564_800_000, 10**400, -(10**12), "yesterday", "", b"2024",
        Decimal(1), timedelta(days=1), [2024],
    ],
    ids=lambda wrong: f"{wrong!r:.20}",
)  # fmt: skip
def test_what_is_no_time_is_refused(wrong: Any) -> None:
    with pytest.raises(InvalidInputError, match="occurred_at"):
        time_us(wrong, "occurred_at")
