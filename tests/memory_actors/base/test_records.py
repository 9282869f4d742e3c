"""Every record that callers get back goes into JSON."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from support.fakes import FakeClock

import memory_actors
import memory_actors.improve
from eventlog.core.records import Returned
from memory_actors import CallableSummarizer, Item, MemoryType, improve, improve_stream

pytestmark = pytest.mark.anyio

HANDED_IN = {
    "CalibratedEstimate", "Cluster", "Conversation", "EditBlock", "GlobalLimits", "InsertBlock",
    "Item", "KnownFact", "Limits", "Plan", "Prices", "Proposal",
    "Redaction", "RemoveBlock", "RetentionRule", "Settings", "Spoken", "Statement", "Weights",
    "WordEstimate",
}  # fmt: skip
"""Structs that callers, or the library, hand in: nobody gets one back."""


def test_every_struct_that_callers_get_back_goes_into_json() -> None:
    public = {name: getattr(memory_actors, name) for name in memory_actors.__all__}
    structs = {
        name for name, one in public.items()
        if isinstance(one, type) and issubclass(one, msgspec.Struct)
    }  # fmt: skip
    assert structs > HANDED_IN
    assert {name for name in structs if not issubclass(public[name], Returned)} == HANDED_IN


async def test_receipts_hits_and_memories_are_read_as_dicts_are(user: Any) -> None:
    added = [await user.add(f"a {kind}", kind) for kind in MemoryType]
    found = [await user.get(one["memory_id"]) for one in added]
    for told in (*added, *found, *await user.retrieve("a")):
        assert told["memory_id"] == told.memory_id
        assert dict(told) == {name: getattr(told, name) for name in told.keys()}  # noqa: SIM118
        with pytest.raises(KeyError):
            told["nothing"]


async def test_the_operation_of_a_first_add_is_add_for_every_kind(user: Any) -> None:
    added = {kind: (await user.add(f"a {kind}", kind)).operation for kind in MemoryType}
    assert set(added.values()) == {"add"}
    assert (await user.working.set("k", 1)).operation == "add"


def check(told: Any) -> None:
    fields = told.to_dict()
    assert json.loads(told.to_json()) == fields
    assert json.loads(json.dumps(fields)) == fields
    assert set(told.__struct_fields__) <= fields.keys() | {"type"}


async def test_what_calls_return_is_told_as_json_has_it(
    open_memory: Any, clock: FakeClock, tmp_path: Path
) -> None:
    async with open_memory(compaction_min_samples=2, summarizer=CallableSummarizer(_one)) as memory:
        user = memory.user("ada", session_id="s")
        receipts = [await user.add(f"a {kind}", kind) for kind in MemoryType]
        await user.add_many([Item(content=f"old {n}", occurred_at=0) for n in range(6)])
        await user.entities.add_entity("Bob")
        await user.entities.relate("Bob", "knows", "a entity")
        clock.move(1)
        told = [
            *receipts,
            *await user.list_memories(),
            *await user.retrieve("a", explain=True),
            *await user.history(receipts[2].memory_id),
            await user.why(receipts[2].memory_id),
            await user.usage(),
            await user.estimate_monthly_cost(),
            await user.context("a"),
            await user.context.size(),
            *await user.context.entries(),
            *await user.context.blocks(),
            *await user.context.documents(),
            await user.context.archive([receipts[6].memory_id]),
            *await user.context.search_archive("a"),
            await user.entities.get("Bob"),
            *await user.entities.relationships("Bob"),
            *await user.entities.neighbours("Bob"),
            *await user.episodes.recent(),
            *await user.documents.find(),
            await user.purge("nobody"),
            await memory.purge("nobody"),
            await memory.compact(),
            await memory.compaction_stats(),
            await memory.usage(),
            await memory.diff("ada", 0),
            *[entry async for entry in memory.events()],
            memory.statistics(),
            memory.statistics().log,
            await memory.verify(),
            await memory.heads(),
            await memory.backup(tmp_path / "copy"),
            await memory.erase("ada"),
        ]
    for one in told:
        check(one)
    assert len({type(one) for one in told}) >= 30
    backup = told[-2].to_dict()
    assert backup["target"] == str(tmp_path / "copy")


async def _one(_cluster: Any) -> str:
    return "Old things were said."


async def test_a_memory_comes_back_from_its_json(user: Any) -> None:
    added = await user.from_source("a page", "untrusted").add("likes tea", metadata={"n": [1]})
    got = await user.get(added.memory_id)
    assert msgspec.convert(got.to_dict(), type(got)) == got
    assert msgspec.json.decode(got.to_json(), type=type(got)) == got
    assert got.to_dict()["created_at"] == "2023-11-14T22:13:20Z"
    assert got.to_dict()["origins"] == [{"source": "a page", "trust": "untrusted"}]


async def test_a_run_of_improve_and_its_events_go_into_json() -> None:
    text = "In order to sail, you should in order to wait."
    check(await improve(text))
    events = [event async for event in improve_stream(text)]
    for event in events:
        check(event)
    assert events[0].to_dict()["type"] == "started"
