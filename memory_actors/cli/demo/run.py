"""The bundled demonstration: a conversation of nine sessions, and ten questions about it.

It is imported, asked, closed, opened again and checked; then facts change, a memory gets full, a
context document makes room and a note gets better. Here are the figures; they are printed by
`memory_actors.cli.demo`.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from importlib.resources import files
from pathlib import Path
from statistics import median
from time import perf_counter

import msgspec

from memory_actors.api.handles.user import UserMemory
from memory_actors.api.system import MemorySystem
from memory_actors.base.records import HistoryEntry, Hit, Item
from memory_actors.cli.demo.context_document import ContextReport, run_context_document
from memory_actors.cli.demo.facts import FactsReport, run_facts
from memory_actors.cli.demo.improving import ImprovingReport, run_improving
from memory_actors.cli.demo.limits import LimitsReport, run_limits
from memory_actors.cli.demo.scoring import TOP_K, mean, recall
from memory_actors.interchange import Line
from memory_actors.kinds.phrasing import spoken
from memory_actors.observing.alerts import Alert, CallbackSink
from memory_actors.search.embedding.protocol import Embedder

USER_ID = "demo"
CONVERSATION_FILE = "conversation.jsonl"
QUESTIONS_FILE = "questions.json"


class KnownQuestion(msgspec.Struct, frozen=True):
    """A question, its answer, and the turns that give it."""

    question: str
    answer: str
    evidence: list[str]


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """One memory that a question found."""

    memory_id: str
    content: str
    score: float
    occurred_at: datetime
    role: str | None
    evidence: bool
    """Whether it is one of the turns that answer the question."""


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """A question and what it found."""

    question: str
    answer: str
    evidence: list[str]
    recall_at_5: float
    recall_at_10: float
    retrieve_ms: float
    hits: list[Found]


class Reopened(msgspec.Struct, frozen=True, kw_only=True):
    """What was there after the store had been closed and opened again."""

    memories_before: int
    memories_after: int
    events: int
    ok: bool
    """Whether every event is as it was written."""
    open_s: float
    verify_s: float


class DemoReport(msgspec.Struct, frozen=True, kw_only=True):
    """All figures of a demonstration."""

    memories: int
    sessions: int
    import_s: float
    retrieve_ms_median: float
    turn_recall_at_5: float
    turn_recall_at_10: float
    reopened: Reopened
    questions: list[Asked]
    history_of: str
    history: list[HistoryEntry]
    facts: FactsReport
    limits: LimitsReport
    context: ContextReport
    improving: ImprovingReport


def known_questions() -> list[KnownQuestion]:
    """Return the bundled questions."""
    data = (files(__package__) / QUESTIONS_FILE).read_bytes()
    return msgspec.json.decode(data, type=list[KnownQuestion])


async def run_demo(
    directory: Path,
    *,
    user_id: str = USER_ID,
    embedder: Embedder | str | None = None,
) -> DemoReport:
    """Run the demonstration in a data directory."""

    def open_() -> AbstractAsyncContextManager[MemorySystem]:
        return MemorySystem.open(directory, embedder=embedder)

    async with open_() as memory:
        user = memory.user(user_id)
        said, began_s = turns(), perf_counter()
        await user.add_many(said)
        import_s = perf_counter() - began_s
        asked = [await _ask(user, known) for known in known_questions()]
        before = await _count(user)
    reopened = await _reopen(open_, user_id, before)
    history_of = _one_that_answers(asked)
    alerts: list[Alert] = []

    async def take(alert: Alert) -> None:
        alerts.append(alert)

    async with MemorySystem.open(
        directory, embedder=embedder, alerts=[CallbackSink(take)]
    ) as memory:
        history = await memory.user(user_id).history(history_of)
        facts = await run_facts(memory.user(f"{user_id} facts"))
        limits = await run_limits(memory.user(f"{user_id} limits"), said, alerts)
        context = await run_context_document(memory.user(f"{user_id} context"), said)
        improving = await run_improving(memory.user(f"{user_id} improving"))
    return DemoReport(
        memories=before,
        sessions=len({turn.session_id for turn in said}),
        import_s=import_s,
        retrieve_ms_median=median(one.retrieve_ms for one in asked),
        turn_recall_at_5=mean(one.recall_at_5 for one in asked),
        turn_recall_at_10=mean(one.recall_at_10 for one in asked),
        reopened=reopened,
        questions=asked,
        history_of=history_of,
        history=history,
        facts=facts,
        limits=limits,
        context=context,
        improving=improving,
    )


def turns() -> list[Item]:
    """Return the bundled conversation, one memory a turn."""
    data = (files(__package__) / CONVERSATION_FILE).read_bytes()
    return [_item(line) for line in msgspec.json.Decoder(Line).decode_lines(data)]


def _item(line: Line) -> Item:
    return Item(
        content=str(line.content),
        occurred_at=str(line.timestamp),
        session_id=line.session,
        role=line.role,
        memory_id=line.id,
    )


async def _ask(user: UserMemory, known: KnownQuestion) -> Asked:
    began_s = perf_counter()
    hits = await user.retrieve(known.question, top_k=TOP_K)
    took_ms = (perf_counter() - began_s) * 1e3
    ids = [hit.memory_id for hit in hits]
    return Asked(
        question=known.question,
        answer=known.answer,
        evidence=known.evidence,
        recall_at_5=recall(known.evidence, ids, 5),
        recall_at_10=recall(known.evidence, ids, 10),
        retrieve_ms=took_ms,
        hits=[_found(hit, known) for hit in hits],
    )


def _one_that_answers(asked: Sequence[Asked]) -> str:
    """Return the id of the first hit that answers its question, or else of any hit."""
    hits = [hit for one in asked for hit in one.hits]
    return next((hit for hit in hits if hit.evidence), hits[0]).memory_id


def _found(hit: Hit, known: KnownQuestion) -> Found:
    return Found(
        memory_id=hit.memory_id,
        content=spoken(hit.content, hit.role),
        score=hit.score,
        occurred_at=hit.occurred_at,
        role=hit.role,
        evidence=hit.memory_id in known.evidence,
    )


async def _count(user: UserMemory) -> int:
    used = await user.usage()
    return sum(kind.count for kind in used.kinds.values())


async def _reopen(
    open_: Callable[[], AbstractAsyncContextManager[MemorySystem]], user_id: str, before: int
) -> Reopened:
    began_s = perf_counter()
    async with open_() as memory:
        after = await _count(memory.user(user_id))
        opened_s = perf_counter()
        report = await memory.verify()
        verified_s = perf_counter()
    return Reopened(
        memories_before=before,
        memories_after=after,
        events=report.events,
        ok=report.ok,
        open_s=opened_s - began_s,
        verify_s=verified_s - opened_s,
    )
