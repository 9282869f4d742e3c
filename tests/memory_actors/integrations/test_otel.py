"""Traces and metrics by the GenAI semantic conventions."""

import asyncio
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from memory_actors import InvalidInputError, NotFoundError, UserMemory
from memory_actors.api.operations import OPERATIONS
from memory_actors.base import tracing
from memory_actors.base.privacy import hashed
from memory_actors.integrations.otel import CONVENTION, DURATION, instrument

pytestmark = pytest.mark.anyio

SHARED = Path(__file__).parents[4] / "shared" / "data" / "interop"
SCHEMA = SHARED / "otel-gen-ai-memory-records.schema.json"
READS = {"retrieve", "context", "context.search_archive", "documents.find"}


class Traced:
    """What was traced and measured."""

    def __init__(self) -> None:
        self.kept = InMemorySpanExporter()
        self.tracers = TracerProvider()
        self.tracers.add_span_processor(SimpleSpanProcessor(self.kept))
        self.reader = InMemoryMetricReader()
        self.meters = MeterProvider([self.reader])

    def spans(self, name: str) -> list[ReadableSpan]:
        return [span for span in self.kept.get_finished_spans() if span.name == name]

    def one(self, name: str) -> ReadableSpan:
        (span,) = self.spans(name)
        return span

    def points(self) -> Sequence[Any]:
        data = json.loads(self.reader.get_metrics_data().to_json())  # type: ignore[union-attr]
        (metric,) = data["resource_metrics"][0]["scope_metrics"][0]["metrics"]
        assert (metric["name"], metric["unit"]) == (DURATION, "s")
        return metric["data"]["data_points"]


@pytest.fixture(params=[False, True], ids=["without content", "with content"])
def captures(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture
def traced(captures: bool) -> Iterator[Traced]:
    traced = Traced()
    end = instrument(
        tracer_provider=traced.tracers, meter_provider=traced.meters, capture_content=captures
    )
    yield traced
    end()


def test_every_change_has_a_name_in_the_conventions() -> None:
    """Every operation that changes memories has a name in the conventions."""
    writes = {name for name, one in OPERATIONS.items() if one.writes and not one.of_system}
    others = {  # of documents, grants, holds, tiers: the conventions have no name for them
        "grant", "revoke", "hold", "release", "unforget", "set_tier", "undo", "undo_compaction",
        "context.archive",
        "context.change", "context.create", "context.delete", "context.delete_all",
        "context.rename", "context.rename_all", "context.restore", "context.touch",
    }  # fmt: skip
    assert writes - others == CONVENTION.keys() - READS


@pytest.mark.parametrize("captures", [True], indirect=True)
async def test_a_write_and_a_search_are_spans(traced: Traced, open_memory: Any) -> None:
    async with open_memory() as memory:
        user = memory.user("ada", agent_id="planner", session_id="monday")
        receipt = await user.add("likes tea", metadata={"of": "drinks"})
        await user.retrieve("what does she drink?", top_k=3)
    written, found = traced.one("create_memory"), traced.one("search_memory")
    assert written.attributes is not None
    assert found.attributes is not None
    about = {
        "gen_ai.provider.name": "memory_actors",
        "gen_ai.memory.store.id": hashed("ada"),
        "gen_ai.agent.id": "planner",
        "gen_ai.conversation.id": "monday",
        "gen_ai.memory.record.count": 1,
        "gen_ai.memory.record.id": receipt.memory_id,
    }
    for span, name in ((written, "create_memory"), (found, "search_memory")):
        assert span.attributes is not None
        assert about.items() <= dict(span.attributes).items()
        assert span.attributes["gen_ai.operation.name"] == name
    assert found.attributes["gen_ai.memory.query.text"] == "what does she drink?"
    records = [json.loads(str(one.attributes["gen_ai.memory.records"])) for one in (written, found)]
    assert records[0] == [
        {"content": "likes tea", "id": receipt.memory_id, "metadata": {"of": "drinks"}}
    ]
    assert records[1][0]["score"] > 0


async def test_words_of_users_are_left_out(
    traced: Traced, captures: bool, open_memory: Any
) -> None:
    async with open_memory() as memory:
        user = memory.user("ada")
        await user.add("SECRET one", metadata={"SECRET": 1})
        await user.retrieve("SECRET two")
        await user.working.set("SECRET", "SECRET three")
        with pytest.raises(NotFoundError):
            await user.delete("SECRET")
    told = "".join(span.to_json() for span in traced.kept.get_finished_spans())
    assert ("SECRET" in told) == captures
    assert "SECRET" not in str(traced.points())


@pytest.mark.parametrize("captures", [True], indirect=True)
async def test_records_are_as_the_conventions_have_them(traced: Traced, open_memory: Any) -> None:
    if not SCHEMA.exists():
        pytest.skip("the schema of the conventions is not here")
    schema = json.loads(SCHEMA.read_text())
    async with open_memory() as memory:
        user = memory.user("ada")
        await user.add("likes tea")
        await user.add_many([])
        await user.short_term.add_message("hello", role="user", session_id="s")
        await user.working.set("goal", {"deep": ["value"]})
        await user.entities.add_entity("Ada", "person")
        await user.entities.add_entity("York", "city")
        await user.entities.relate("Ada", "lives in", "York")
        await user.documents.put("teas", {"name": "Assam"}, key="a")
        await user.documents.find("teas")
        episode = await user.episodes.start("make tea", agent_id="x")
        await user.episodes.step(episode.memory_id, "boil")
        await user.context.add("Teas", "Assam")
        await user.context("tea")
        await user.retrieve("tea", top_k=10)
    told = [
        json.loads(str(span.attributes["gen_ai.memory.records"]))
        for span in traced.kept.get_finished_spans()
        if span.attributes and "gen_ai.memory.records" in span.attributes
    ]
    assert len(told) > 8
    for records in told:
        jsonschema.validate(records, schema)


@pytest.mark.parametrize("captures", [False], indirect=True)
async def test_a_step_stands_below_its_call(traced: Traced, open_memory: Any) -> None:
    async with open_memory() as memory:
        user = memory.user("ada")
        await user.working.set("first", 1)  # the actor is awake
        texts = [f"fact number {number}" for number in range(20)]
        await asyncio.gather(*(user.add(text) for text in texts))
    calls = traced.spans("create_memory")
    assert len(calls) == len(texts)
    traces = {span.context.trace_id for span in calls}
    assert len(traces) == len(texts)  # nobody's call is below another's
    appended = [span for span in traced.spans("append") if span.context.trace_id in traces]
    done_for = {span.parent.span_id for span in appended if span.parent}
    done_for |= {link.context.span_id for span in appended for link in span.links}
    assert done_for == {span.context.span_id for span in calls}
    assert sum(int(span.attributes["events"]) for span in appended if span.attributes) >= len(texts)
    embedded = traced.spans("embed")
    assert embedded
    assert {span.context.trace_id for span in embedded} <= traces


@pytest.mark.parametrize("captures", [False], indirect=True)
async def test_a_call_that_fails_says_how_and_is_measured(traced: Traced, open_memory: Any) -> None:
    async with open_memory() as memory:
        with pytest.raises(NotFoundError):
            await memory.user("ada").delete("nothing")
        with pytest.raises(TypeError):
            await memory.user("ada").add()
    failed = traced.one("delete_memory")
    assert failed.attributes is not None
    assert failed.attributes["error.type"] == "NotFoundError"
    assert not failed.status.is_ok
    assert failed.events == ()
    (point, _) = traced.points()
    assert point["attributes"]["error.type"] == "NotFoundError"
    assert point["attributes"]["gen_ai.operation.name"] == "delete_memory"
    assert (point["count"], point["sum"] > 0) == (1, True)


@pytest.mark.parametrize("captures", [False], indirect=True)
async def test_nothing_is_left_when_it_ends(open_memory: Any, captures: bool) -> None:
    traced, before = Traced(), UserMemory.add
    end = instrument(tracer_provider=traced.tracers, capture_content=captures)
    with pytest.raises(InvalidInputError, match="already"):
        instrument()
    end()
    async with open_memory() as memory:
        await memory.user("ada").add("likes tea")
    assert traced.kept.get_finished_spans() == ()
    assert tracing.here() is None
    assert UserMemory.add is before
