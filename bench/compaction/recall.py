"""Recall after compaction on the LoCoMo conversations, by summariser.

All turns are older than 90 days when they are compacted. A question finds the turns among its first
ten memories, and those that stand behind the summaries beside them: up to two, of any size. A
summary of many turns therefore finds more of them by chance; the report also counts the turns found
without summaries.
"""

import shutil
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from bench.compaction.store import AGE, COMPRESSED, all_of, opened, retrieve
from bench.recall_sets import Question, SetUser, import_user, read_locomo
from bench.report import Table
from memory_actors import Memory, MemorySystem
from memory_actors.api.user import UserMemory
from memory_actors.compaction.summarizers import CallableSummarizer, Cluster, ExtractiveSummarizer
from memory_actors.compaction.summarizers.sentences import sentences
from memory_actors.search.embedding.protocol import Embedder

FIRST_TEXTS = 5
BASELINE = f"first {FIRST_TEXTS}"
LOCOMO_NOTES = (
    "recall: R@10, fraction of a question's evidence turns among the first 10 memories",
    "up to 2 summaries stand beside the 10: with a summary all its originals are found",
    "reached: how much of all that was compressed stands behind the summaries a search finds",
    "where reached is near 1, recall after says little: read the one without summaries",
    "touched: questions with evidence that was compressed",
    "quoted: of that evidence, how much has a sentence in the text of the summaries found",
)
RECALLS = [
    "summariser", "before", "after", "without summaries", "touched", "theirs before", "and after",
    "quoted",
]  # fmt: skip
COMPACTED = [
    "summariser",
    "turns",
    "compressed",
    "summaries",
    "turns a summary",
    "words",
    "reached",
]
QUOTED_CHARACTERS_MIN = 20  # "Thanks!" stands in every summary


class Asked(NamedTuple):
    """The findings of one question: turns of its first memories, and turns behind its summaries."""

    evidence: frozenset[str]
    turns: frozenset[str]
    behind: frozenset[str]
    quoted: frozenset[str]
    """Evidence behind the summaries that stands in their texts."""

    def recall(self, *, summaries: bool = True) -> float:
        """Return the fraction of the evidence that was found."""
        found = self.turns | self.behind if summaries else self.turns
        return len(self.evidence & found) / len(self.evidence)


class Compacted(NamedTuple):
    """A user's summaries, and the names of the turns that they stand for."""

    summaries: list[Memory]
    gone: frozenset[str]


def first_texts(cluster: Cluster) -> str:
    """Return the first few memories: what any summariser has to beat."""
    return " ".join(cluster.texts[:FIRST_TEXTS])


async def recall_tables(directory: Path, path: Path, embedder: Embedder) -> list[Table]:
    """Return recall and what was compacted, a row for each summariser."""
    conversations, store = read_locomo(path), directory / "locomo"
    times = [turn.time for one in conversations for turn in one.memories if turn.time]
    now = datetime.fromisoformat(max(times)) + AGE
    async with opened(store, embedder, now) as memory:
        for conversation in conversations:
            await import_user(memory.user(conversation.id), conversation)
        before = [await _ask_all(memory, one) for one in conversations]
    recalls, compacted = [], []
    for summarizer in (ExtractiveSummarizer(), CallableSummarizer(first_texts, name=BASELINE)):
        copy = directory / summarizer.name
        shutil.copytree(store, copy)
        async with opened(copy, embedder, now, summarizer) as memory:
            await memory.compact()
            after = [await _ask_all(memory, one) for one in conversations]
            users = [await _compacted(memory, one) for one in conversations]
        recalls.append([summarizer.name, *_recall_row(users, before, after)])
        turns = sum(len(one.memories) for one in conversations)
        compacted.append([summarizer.name, turns, *_compacted_row(users, after)])
    return [
        Table("Recall on LoCoMo", RECALLS, recalls),
        Table("LoCoMo, compacted", COMPACTED, compacted),
    ]


def _recall_row(
    users: Sequence[Compacted],
    before: Sequence[Sequence[Asked]],
    after: Sequence[Sequence[Asked]],
) -> list[Any]:
    pairs = [
        (old, new, old.evidence & user.gone)
        for user, olds, news in zip(users, before, after, strict=True)
        for old, new in zip(olds, news, strict=True)
    ]
    touched = [(old, new, gone) for old, new, gone in pairs if gone]
    return [
        _mean([old.recall() for old, _, _ in pairs]),
        _mean([new.recall() for _, new, _ in pairs]),
        _mean([new.recall(summaries=False) for _, new, _ in pairs]),
        len(touched),
        _mean([old.recall() for old, _, _ in touched]),
        _mean([new.recall() for _, new, _ in touched]),
        _mean([len(new.quoted) / len(gone) for _, new, gone in touched]),
    ]


def _compacted_row(users: Sequence[Compacted], after: Sequence[Sequence[Asked]]) -> list[Any]:
    summaries = [one for user in users for one in user.summaries]
    reached = [
        len(one.behind) / len(user.gone)
        for user, asked in zip(users, after, strict=True)
        for one in asked
        if user.gone
    ]
    return [
        sum(len(user.gone) for user in users),
        len(summaries),
        _mean([one.data["original_count"] for one in summaries]),
        _mean([len(one.content.split()) for one in summaries]),
        _mean(reached),
    ]


async def _compacted(memory: MemorySystem, conversation: SetUser) -> Compacted:
    found = await all_of(memory.user(conversation.id))
    summaries = [one for one in found if one.source == COMPRESSED]
    return Compacted(summaries, _turns(name for one in summaries for name in _originals(one)))


async def _ask_all(memory: MemorySystem, conversation: SetUser) -> list[Asked]:
    user = memory.user(conversation.id)
    said = {turn.id: turn.text for turn in conversation.memories}
    return [await _ask(user, question, said) for question in conversation.questions]


async def _ask(user: UserMemory, question: Question, said: Mapping[str, str]) -> Asked:
    hits = await retrieve(user, question.text)
    found = [hit for hit in hits if hit.source == COMPRESSED]
    behind = _turns(name for hit in found for name in _originals(hit))
    evidence = frozenset(question.evidence)
    texts = "\n".join(hit.content for hit in found)
    return Asked(
        evidence=evidence,
        turns=_turns(hit.memory_id for hit in hits if hit.source != COMPRESSED),
        behind=behind,
        quoted=frozenset(turn for turn in evidence & behind if _quoted(said[turn], texts)),
    )


def _quoted(said: str, texts: str) -> bool:
    told = [one for one in sentences(said) if len(one) >= QUOTED_CHARACTERS_MIN]
    return any(one.partition(": ")[2] in texts if ": " in one else one in texts for one in told)


def _originals(summary: Memory) -> list[str]:
    return list(summary.data["compressed_from_ids"])


def _turns(memory_ids: Iterable[str]) -> frozenset[str]:
    """Return the ids of turns; what has the same id twice in a file is the same evidence."""
    return frozenset(memory_id.partition("#")[0] for memory_id in memory_ids)


def _mean(values: Sequence[float]) -> float | None:
    return fmean(values) if values else None
