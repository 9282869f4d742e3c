"""A replay folds a stream into the same state over every store, wherever that folds its events."""

from pathlib import Path
from typing import Any

import pytest
from contracts.stores import Noted, open_store

from eventlog import Decider, EventStore, FoldingStore, PoisonedStream, Recorded, replay
from eventlog.log import FOLDED_AT_ONCE

pytestmark = pytest.mark.anyio
EVENTS = 2 * FOLDED_AT_ONCE + 3


def versions(state: tuple[int, ...], event: Recorded[Any]) -> tuple[int, ...]:
    if event.data.text == "poison":
        raise ValueError("poison")
    return (*state, event.version)


DECIDER: Decider[Any, Any, tuple[int, ...]] = Decider((), lambda _command, _state: (), versions)


async def fill(store: EventStore, poisoned: int = 0) -> None:
    texts = ["poison" if number == poisoned else "" for number in range(1, EVENTS + 1)]
    await store.append("s", [Noted(text) for text in texts], 0)


async def test_a_replay_folds_each_event_once_in_order(store: EventStore):
    await fill(store)
    parts = ((0, None), (0, FOLDED_AT_ONCE), (0, 7), (5, None), (5, 200), (EVENTS, None))
    for after, until in parts:
        state, version = await replay(store, DECIDER, "s", after=after, until=until)

        assert version == (EVENTS if until is None else until)
        assert state == tuple(range(after + 1, version + 1))


async def test_an_event_that_does_not_fold_is_found(store: EventStore):
    """A replay that fails says which event it was, and how far it came."""
    poisoned = FOLDED_AT_ONCE + 5
    await fill(store, poisoned)

    with pytest.raises(PoisonedStream) as failure:
        await replay(store, DECIDER, "s")

    assert failure.value.version == poisoned - 1
    assert failure.value.state == tuple(range(1, poisoned))


async def test_events_are_folded_a_few_at_a_time(tmp_path: Path):
    """A store that folds where it reads hands over no more events than fit the cache."""
    async with open_store("lmdb", tmp_path) as store:
        assert isinstance(store, FoldingStore)
        await fill(store)
        sizes: list[int] = []

        def fold(events: Any, state: None) -> None:
            sizes.append(len(events))

        assert await store.fold_stream("s", fold, None, 0, EVENTS) == (None, EVENTS)

    assert sizes == [FOLDED_AT_ONCE, FOLDED_AT_ONCE, 3]
