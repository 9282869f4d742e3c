"""Redaction below every door: nothing that is masked is in a file, an answer or a log."""

import re
from pathlib import Path
from typing import Any

import pytest
import structlog
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from support.canaries import canaries_everywhere, parts
from support.compacting import SHORT, some

from bench.redaction import SERVICES, Values
from memory_actors import (
    CallableSummarizer,
    Item,
    Proposal,
    Redaction,
    SensitiveTextError,
    text_digest,
)
from memory_actors.integrations.context_files.syncing import label_of, sync
from memory_actors.integrations.otel import instrument

pytestmark = pytest.mark.anyio

VALUES = Values(9)
KEY, CARD, EMAIL = SERVICES["aws-key"](VALUES), VALUES.card(), "anna@example.org"
CANARY = re.compile(r"canary\d+zq")


def canaries_in(text: str) -> list[tuple[int, int, str]]:
    return [(*one.span(), "canary") for one in CANARY.finditer(text)]


def files_with(directory: Path, *words: str) -> set[tuple[str, str]]:
    """Return the files that have one of these words in their name or bytes, with the words."""
    return {
        (path.name, word)
        for path in directory.rglob("*")
        for part in (path.name.encode(), *(parts(path.read_bytes()) if path.is_file() else ()))
        for word in words
        if word.encode() in part
    }


async def test_no_file_and_no_log_line_has_what_is_masked(open_memory: Any, tmp_path: Path) -> None:
    """Wherever a user can put something, it is masked: only the names of handles stay."""
    redact = Redaction(detectors=(), own=(canaries_in,))
    with structlog.testing.capture_logs() as logs:
        async with open_memory(redact=redact, summarizer=SHORT, recall_audit="plain") as memory:
            canaries = await canaries_everywhere(memory, "canary000zq")
            found = [one async for one in memory.user("canary000zq").export()]
            recalls = await memory.recalls("canary000zq", query=canaries.given[5])
    said = set(canaries.given) - canaries.names
    assert len(said) > 100
    assert files_with(tmp_path, *said) == set()
    assert set(CANARY.findall(repr((logs, found, recalls)))) <= canaries.names
    assert "[canary:" in repr(found)


async def test_a_name_that_is_masked_is_found_by_what_it_was(open_memory: Any) -> None:
    """The same secret has the same mask, so keys, names and filters go on to work."""
    async with open_memory(redact="secrets,personal") as memory:
        user = memory.user(EMAIL)
        await user.working.set(EMAIL, {"password": "hunter"})
        await user.documents.put("people", {"mail": EMAIL}, key=EMAIL)
        await user.entities.add_entity(EMAIL, observations=[f"pays with {CARD}"])
        await user.add(f"{EMAIL} likes tea", metadata={"mail": EMAIL})

        assert list(await user.working.get(EMAIL)) == ["password"]
        assert (await user.documents.get(EMAIL, "people")).key.startswith("[personal:email:")
        (document,) = await user.documents.find("people", {"mail": EMAIL})
        (entity,) = (await user.entities.get(EMAIL)).observations
        (hit,) = await user.retrieve(EMAIL, filters={"mail": EMAIL})
        assert hit.content == f"{document.value['mail']} likes tea"
        assert CARD not in entity
        other = memory.user("bob")
        await other.documents.put("people", {"mail": EMAIL}, key="k")
        assert (await other.documents.get("k", "people")).value != document.value


async def test_receipts_count_what_was_masked(open_memory: Any) -> None:
    """Each receipt counts its own item by label; of a write without any, nothing is said."""
    async with open_memory(redact=["secrets", "email"]) as memory:
        user = memory.user("ada")
        items = [Item(content="likes tea"), Item(content=f"{KEY}, {EMAIL}", metadata={"k": KEY})]
        plain, masked = await user.add_many(items)
        assert plain.masked == {}
        assert masked.masked == {"secret:aws-key": 2, "personal:email": 1}
        changed = await user.update(plain.memory_id, content=f"her card is {CARD}, her key {KEY}")
        assert changed.masked == {"secret:aws-key": 1}
        assert CARD in (await user.get(plain.memory_id)).content
        assert (await user.context.add("", f"- {KEY}")).masked == {"secret:aws-key": 1}
        assert (await user.turn(f"my key is {KEY}")).masked == {"secret:aws-key": 1}


async def test_what_is_refused_changes_nothing_and_reads_go_on(open_memory: Any) -> None:
    """The error has the label and not the value; a query is masked instead."""
    redact = Redaction(detectors=("secrets", "personal"), action={"secrets": "refuse"})
    async with open_memory(redact=redact) as memory:
        user = memory.user("ada")
        await user.add(f"her mail is {EMAIL}")
        for refused in (
            user.add_many([Item(content="likes tea"), Item(content=KEY)]),
            user.working.set("key", KEY),
            user.context.add("", KEY),
        ):
            with pytest.raises(SensitiveTextError, match="secret:aws-key") as caught:
                await refused
            assert KEY not in str(caught.value)
        (hit,) = await user.retrieve(f"{KEY} mail")
        assert "[personal:email:" in hit.content
        assert await user.working.items() == {}
        assert await user.context.render() == ""


async def test_what_a_model_makes_of_older_texts_is_masked(open_memory: Any) -> None:
    """Secrets that were stored before are in no new fact and no new summary."""

    async def extract(_shown: Any) -> list[Proposal]:
        return [Proposal(text=f"User has the key {KEY}", reason=f"said {KEY}")]

    summarizer = CallableSummarizer(lambda _: f"the key {KEY}")
    async with open_memory() as memory:
        await memory.user("ada").add_many(some(f"fixed the login with {KEY}, once more", 8))
    async with open_memory(redact="secrets", extractor=extract, summarizer=summarizer) as memory:
        user = memory.user("ada")
        await user.short_term.add_message("I have a key")
        (fact,) = (await user.extract()).facts
        assert (await memory.compact("ada")).compressed == 1
        (summary,) = [one for one in await user.list_memories() if one.source == "compressed"]
        assert KEY not in repr((fact, summary))
        assert "[secret:aws-key:" in summary.content


async def test_a_file_is_masked_with_its_document(open_memory: Any, tmp_path: Path) -> None:
    """The file gets the document's text, and no digest of its own line is kept."""
    file = tmp_path / "MEMORY.md"
    file.write_text(f"# Keys\n\n- {KEY}\n- tea\n")
    async with open_memory(redact="secrets") as memory:
        user = memory.user("ada")
        report = await sync(user.context, file)
        assert (report.file_changed, report.conflicts) == (True, ())
        assert file.read_text() == await user.context.render()
        assert "[secret:aws-key:" in file.read_text()
        base = dict(await user.context.synced(label_of(file.resolve())) or ())
        assert len(base) == 3
        assert text_digest(f"- {KEY}\n") not in base.values()
        assert not (await sync(user.context, file)).file_changed
    assert files_with(tmp_path, KEY) == set()


@pytest.mark.owner
async def test_a_trace_that_has_contents_has_masks(open_memory: Any) -> None:
    kept, tracers = InMemorySpanExporter(), TracerProvider()
    tracers.add_span_processor(SimpleSpanProcessor(kept))
    end = instrument(tracer_provider=tracers, capture_content=True)
    try:
        async with open_memory(redact="secrets") as memory:
            await memory.user("ada").add(f"the key {KEY}")
            await memory.user("ada").retrieve(f"what is {KEY}")
    finally:
        end()
    said = repr([dict(span.attributes or {}) for span in kept.get_finished_spans()])
    assert "[secret:aws-key:" in said
    assert KEY not in said


async def test_nothing_is_masked_where_nobody_asked(open_memory: Any, tmp_path: Path) -> None:
    async with open_memory() as memory:
        receipt = await memory.user("ada").add(f"{KEY} {EMAIL}")
        assert (await memory.user("ada").get(receipt.memory_id)).content == f"{KEY} {EMAIL}"
    assert not (tmp_path / "memory" / "recall.key").exists()
