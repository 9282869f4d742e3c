"""Summaries by time: the span from the first of the originals to the last counts."""

from datetime import UTC, datetime, timedelta

import pytest

from memory_actors import Item

pytestmark = pytest.mark.anyio
DAY = timedelta(days=1)


async def test_since_and_until_find_a_summary_by_the_overlap_of_its_range(
    open_memory, clock
) -> None:
    began = datetime(2023, 1, 1, tzinfo=UTC)
    async with open_memory(compaction_min_samples=2) as memory:
        user = memory.user("ada")
        await user.add_many(
            [
                Item(content=f"commit abc{n}: fix login bug", occurred_at=began + n * DAY)
                for n in range(11)
            ],
            on_duplicate="keep",
        )
        await memory.compact("ada", older_than="1d")
        (summary,) = await user.list_memories()
        assert summary.content.startswith("[Summary of 11 memories from 2023-01-01 to 2023-01-11]")

        async def found(since: float, until: float) -> bool:
            span = {"since": began + since * DAY, "until": began + until * DAY}
            return bool(await user.retrieve("login bug", **span))

        assert [await found(*span) for span in ((-5, 0), (-5, 1), (4, 5), (9, 20), (10.5, 20))] == [
            False, True, True, True, False,
        ]  # fmt: skip
