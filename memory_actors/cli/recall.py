"""Recall: of the turns that answer questions, the part that is found; for all of a LoCoMo file."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from time import perf_counter
from typing import Final

import msgspec

from memory_actors.api.user import UserMemory
from memory_actors.base.records import Hit, JsonObject
from memory_actors.base.weights import Weights
from memory_actors.cli.options import App
from memory_actors.cli.output import print_table, progress_bars, say, table, text
from memory_actors.interchange import import_locomo, questions, read_locomo
from memory_actors.sharing.system import open_or_join

CATEGORIES: Final[Mapping[int, str]] = {
    1: "multi-hop",
    2: "temporal",
    3: "open-domain",
    4: "single-hop",
    5: "adversarial",
}
AT_ONCE: Final = 16
"""Questions under way: their vectors are computed together."""


class AskedQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """A question, the turns that answer it, and what was found."""

    question: str
    answer: str = ""
    evidence: Sequence[str]
    category: str = ""
    conversation: str = ""
    recall_at_5: float = 0.0
    """The part of the evidence that is among the first 5 hits."""
    recall_at_10: float = 0.0
    retrieve_ms: float = 0.0
    hits: list[Hit] = []


class FoundEvidence(msgspec.Struct, frozen=True, kw_only=True):
    """Mean recall of turns over some questions."""

    name: str
    questions: int
    turn_recall_at_5: float
    turn_recall_at_10: float


async def ask(
    user: UserMemory, one: AskedQuestion, weights: Weights | None = None
) -> AskedQuestion:
    """Ask a question; LoCoMo's turns are known by their `dia_id`, others by their own id."""
    began_s = perf_counter()
    hits = await user.retrieve(one.question, top_k=10, weights=weights)
    took_ms = (perf_counter() - began_s) * 1e3
    found = [str(hit.metadata.get("dia_id", hit.memory_id)) for hit in hits]
    at_5, at_10 = (len({*one.evidence} & {*found[:k]}) / len({*one.evidence}) for k in (5, 10))
    return msgspec.structs.replace(
        one, hits=hits, retrieve_ms=took_ms, recall_at_5=at_5, recall_at_10=at_10
    )


def recall(asked: Sequence[AskedQuestion], name: str = "all") -> FoundEvidence:
    """Return the mean recall of some questions, 0 of none."""
    return FoundEvidence(
        name=name,
        questions=len(asked),
        turn_recall_at_5=fmean(one.recall_at_5 for one in asked) if asked else 0.0,
        turn_recall_at_10=fmean(one.recall_at_10 for one in asked) if asked else 0.0,
    )


def _by(asked: Sequence[AskedQuestion], key: Callable[[AskedQuestion], str]) -> list[FoundEvidence]:
    groups: dict[str, list[AskedQuestion]] = {}
    for one in asked:
        groups.setdefault(key(one), []).append(one)
    return [recall(group, name) for name, group in sorted(groups.items())]


# --- a LoCoMo file


async def score_locomo(app: App, directory: Path, path: Path) -> dict[str, object]:
    """Import a file and ask all its questions; return the figures, printed unless as JSON.

    :raises InvalidInputError: it is no LoCoMo file.
    """
    conversations, began_s = read_locomo(path), perf_counter()
    wanted = [
        AskedQuestion(
            question=one.text,
            evidence=one.evidence,
            category=CATEGORIES.get(one.category, f"category {one.category}"),
            conversation=conversation.sample_id,
        )
        for conversation in conversations
        for one in questions(conversation)
    ]
    asked: list[AskedQuestion] = []
    async with open_or_join(directory, asked=app.asked, embedder=app.model) as memory:
        with progress_bars("Importing", "Asking", quiet=app.json) as (importing, asking):
            await import_locomo(memory, path, progress=importing)
            imported_s = perf_counter()
            for start in range(0, len(wanted), AT_ONCE):
                some = wanted[start : start + AT_ONCE]
                asks = [ask(memory.user(one.conversation), one) for one in some]
                asked += await asyncio.gather(*asks)
                asking(len(asked), len(wanted))
    row = recall(asked)
    told = {
        "conversations": len(conversations),
        "turns": sum(len(one.turns) for one in conversations),
        "questions": row.questions,
        "turn_recall_at_5": row.turn_recall_at_5,
        "turn_recall_at_10": row.turn_recall_at_10,
        "import_s": imported_s - began_s,
        "questions_s": perf_counter() - imported_s,
        "by_category": _by(asked, lambda one: one.category),
        "by_conversation": _by(asked, lambda one: one.conversation),
    }
    if not app.json:
        _print_locomo(told, row)
    return told


def _print_locomo(told: JsonObject, row: FoundEvidence) -> None:
    say(
        f"{told['conversations']} conversations, {told['turns']:,} turns, one memory a turn; "
        f"{row.questions:,} questions with evidence."
    )
    say(f"\nturn recall@5:  {row.turn_recall_at_5:.3f}")
    say(f"turn recall@10: {row.turn_recall_at_10:.3f}")
    say("Of the turns that answer a question, this part is among the first 5 and 10 found.", "dim")
    shown = table("of", "questions", "recall@5", "recall@10", right=("questions", "recall@5"))
    for one in (*told["by_category"], *told["by_conversation"]):
        at_5, at_10 = f"{one.turn_recall_at_5:.3f}", f"{one.turn_recall_at_10:.3f}"
        shown.add_row(text(one.name), f"{one.questions:,}", at_5, at_10)
    print_table(shown)
    say(f"import {told['import_s']:.1f} s   all questions {told['questions_s']:.1f} s")
