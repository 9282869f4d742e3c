"""The demonstration on a LoCoMo file: how much of the evidence is found, over all questions."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from time import perf_counter
from types import MappingProxyType

import msgspec

from memory_actors.api.handles.user import UserMemory
from memory_actors.api.system import MemorySystem
from memory_actors.cli.demo.scoring import TOP_K, mean, recall
from memory_actors.interchange import (
    Conversation,
    Progress,
    Question,
    import_locomo,
    questions,
    read_locomo,
)
from memory_actors.search.embedding.protocol import Embedder

AT_ONCE = 16  # questions under way: their vectors are computed together

CATEGORIES = MappingProxyType(
    {1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop", 5: "adversarial"}
)


class Score(msgspec.Struct, frozen=True, kw_only=True):
    """Turn recall of one question."""

    conversation: str
    category: int
    at_5: float
    at_10: float


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """Mean turn recall over some questions."""

    name: str
    questions: int
    turn_recall_at_5: float
    turn_recall_at_10: float


class LocomoReport(msgspec.Struct, frozen=True, kw_only=True):
    """All figures of a LoCoMo file."""

    conversations: int
    turns: int
    questions: int
    turn_recall_at_5: float
    turn_recall_at_10: float
    import_s: float
    questions_s: float
    by_category: list[Row]
    by_conversation: list[Row]


async def run_locomo(
    directory: Path,
    path: Path,
    *,
    embedder: Embedder | str | None = None,
    importing: Progress | None = None,
    asking: Progress | None = None,
) -> LocomoReport:
    """Import a file into a data directory and ask every question of it.

    :raises InvalidInputError: it is no LoCoMo file, or it asks nothing.
    """
    conversations = read_locomo(path)
    async with MemorySystem.open(directory, embedder=embedder) as memory:
        began_s = perf_counter()
        await import_locomo(memory, path, progress=importing)
        imported_s = perf_counter()
        scores = await _ask_all(memory, conversations, asking)
        asked_s = perf_counter()
    return LocomoReport(
        conversations=len(conversations),
        turns=sum(len(conversation.turns) for conversation in conversations),
        questions=len(scores),
        turn_recall_at_5=mean(score.at_5 for score in scores),
        turn_recall_at_10=mean(score.at_10 for score in scores),
        import_s=imported_s - began_s,
        questions_s=asked_s - imported_s,
        by_category=_by(scores, _category),
        by_conversation=_by(scores, lambda score: score.conversation),
    )


async def _ask_all(
    memory: MemorySystem, conversations: Iterable[Conversation], asking: Progress | None
) -> list[Score]:
    asked = [
        (conversation.sample_id, question)
        for conversation in conversations
        for question in questions(conversation)
    ]
    scores: list[Score] = []
    for start in range(0, len(asked), AT_ONCE):
        some = asked[start : start + AT_ONCE]
        scores += await asyncio.gather(
            *(_ask(memory.user(who), question) for who, question in some)
        )
        if asking is not None:
            asking(len(scores), len(asked))
    return scores


async def _ask(user: UserMemory, question: Question) -> Score:
    hits = await user.retrieve(question.text, top_k=TOP_K)
    found = [str(hit.metadata.get("dia_id")) for hit in hits]
    return Score(
        conversation=user.user_id,
        category=question.category,
        at_5=recall(question.evidence, found, 5),
        at_10=recall(question.evidence, found, 10),
    )


def _category(score: Score) -> str:
    return CATEGORIES.get(score.category, f"category {score.category}")


def _by(scores: Sequence[Score], key: Callable[[Score], str]) -> list[Row]:
    """Return the means over groups of questions, by name."""
    groups: dict[str, list[Score]] = {}
    for score in scores:
        groups.setdefault(key(score), []).append(score)
    return [
        Row(
            name=name,
            questions=len(group),
            turn_recall_at_5=mean(score.at_5 for score in group),
            turn_recall_at_10=mean(score.at_10 for score in group),
        )
        for name, group in sorted(groups.items())
    ]
