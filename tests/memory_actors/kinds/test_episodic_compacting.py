"""Summaries in the place of episodes: what is decided, what a fold makes of it, what one says."""

from typing import Any

import msgspec
import pytest
from support.given import Given, fold, recorded

from eventlog import Dropped
from memory_actors import Limits, NotFoundError
from memory_actors.kinds import episodic
from memory_actors.kinds.compacting import passages_of
from memory_actors.kinds.episodic import (
    CompressEpisodes,
    UndoEpisodeCompaction,
)
from memory_actors.kinds.episodic.events import (
    EpisodeFinished,
    EpisodesCompressed,
    EpisodeStarted,
    StepAdded,
)
from memory_actors.kinds.episodic.state import TOLD_CHARACTERS_MAX

TEXT = "[Summary of 3 memories from 1970-01-01 to 1970-01-01]: Tea, three times."


def started(name: str, *, agent: str = "a", at: int = 0, pinned: bool = False) -> EpisodeStarted:
    return EpisodeStarted(
        memory_id=name, agent_id=agent, goal=f"goal {name}", size_bytes=10, digest=name.encode(),
        occurred_at_us=at, pinned=pinned,
    )  # fmt: skip


def stepped(name: str, number: int = 1, **said: Any) -> StepAdded:
    return StepAdded(
        memory_id=name, number=number, action=f"act {number}", size_bytes=5, digest=b"d%d" % number,
        sha256=b"h", **said,
    )  # fmt: skip


def finished(name: str, *, failed: bool = False) -> EpisodeFinished:
    return EpisodeFinished(
        memory_id=name, failed=failed, result="over", size_bytes=4, digest=b"over"
    )


def whole(name: str, *, failed: bool = False, **how: Any) -> list[Any]:
    return [started(name, **how), stepped(name), finished(name, failed=failed)]


ABC = [*whole("a", at=1), *whole("b", at=5), *whole("c", at=9)]


def fields(*ids: str, size: int = 12) -> dict[str, Any]:
    return {
        "memory_id": "sum", "content": TEXT, "size_bytes": size, "digest": b"sum",
        "passages": passages_of(TEXT), "occurred_at_us": 9, "compressed_from_ids": ids,
        "original_count": len(ids), "time_range_start_us": 1, "time_range_end_us": 9,
        "compression_method": "fake", "session_ids": ("s",), "bytes_before": 19 * len(ids),
        "bytes_after": size,
    }  # fmt: skip


def compressed(*ids: str, agent: str = "a", size: int = 12) -> EpisodesCompressed:
    return EpisodesCompressed(**fields(*ids, size=size), agent_id=agent)


def compress(*originals: tuple[str, int]) -> CompressEpisodes:
    summary = compressed(*(name for name, _ in originals))
    return CompressEpisodes(now_us=9, summary=summary, originals=originals)


def given(*events: Any, **limits: int) -> Given:
    return Given(episodic.KIND, *events, limits=Limits(**limits))


def past_of(*events: Any) -> dict[str, list[Any]]:
    """Return what the log knows of each episode."""
    about: dict[str, list[Any]] = {}
    for version, event in enumerate(events, start=1):
        for key in episodic.KIND.registry.keys(event):
            about.setdefault(key, []).append(recorded(event, version))
    return about


def undo(*events: Any) -> UndoEpisodeCompaction:
    return UndoEpisodeCompaction(
        now_us=9, memory_id="sum", memory_ids=("a", "b", "c"), past=past_of(*events)
    )


# --- undo


@pytest.mark.parametrize("lost", [0, 1, 2], ids=["goal", "step", "result"])
def test_partly_dropped_originals_cannot_be_restored(lost: int) -> None:
    """An episode that retention dropped in part cannot come back, and the error says so."""
    events = [*ABC, compressed("a", "b", "c")]
    command = undo(*events)
    past = list(command.past["b"])
    past[lost] = msgspec.structs.replace(past[lost], data=Dropped(since_us=0))
    command = msgspec.structs.replace(command, past={**command.past, "b": past})
    with pytest.raises(NotFoundError, match=r"'b' cannot come back: .* 1970-01-01"):
        given(*events).when(command)


# --- reads


def told_of(*events: Any) -> str:
    row = fold(episodic.KIND, events).rows["a"]
    return episodic.KIND.told(
        row, {n: recorded(event, n) for n, event in enumerate(events, start=1)}
    )


def test_of_a_long_episode_errors_are_told_before_other_steps() -> None:
    steps = [
        stepped("a", n, observation="x" * 600, outcome="y" * 600, error="boom" if n < 3 else None)
        for n in range(1, 40)
    ]
    said = told_of(started("a"), *steps, finished("a"))
    lines = said.splitlines()
    assert len(said) <= TOLD_CHARACTERS_MAX + len(lines)
    assert all(line.endswith("… -> error: boom") for line in lines[1:3])
    numbers = [int(line.split(".")[0]) for line in lines[1:-1]]
    assert numbers == [1, 2, *range(39 - len(numbers) + 3, 40)]
    assert (lines[0], lines[-1]) == ("Goal: goal a", "Result: over")
