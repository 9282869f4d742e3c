"""Recall on LoCoMo through the public API: which turns of a long conversation answer a question.

Each conversation is a user, each turn a memory. Scored is, for every question with evidence, the
fraction of its evidence turns among the first k; for sessions, the fraction of its evidence
sessions among the first k different sessions. "any" counts a question as soon as one is there,
which other reports call hit rate or recall: the two must not be compared with each other.
"""

import asyncio
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from bench.hashed import HashedEmbedder
from bench.report import Options, Report, Table, facts, percentile, scratch
from memory_actors import MemorySystem
from memory_actors.embedding.default import DefaultEmbedder
from memory_actors.embedding.protocol import Embedded, Embedder, Vectors
from memory_actors.handles.user import UserMemory
from memory_actors.interchange.locomo import (
    Conversation,
    Question,
    import_conversation,
    questions,
    read_locomo,
)
from memory_actors.phrasing import spoken
from memory_actors.ranking import Weights

TOP_K = 10  # what is asked for when it is timed
CATEGORIES = {1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop", 5: "adversarial"}
MEASURES = (
    "turn R@5", "turn R@10", "turn R@20", "any@5", "any@10", "any@20", "MRR", "session R@5",
    "session R@10",
)  # fmt: skip
PACKAGES = ("numpy", "onnxruntime", "tokenizers")

Scores = Sequence[float]
"""One number for each of MEASURES."""


class Asked(NamedTuple):
    """One question, and what each ranking makes of it."""

    category: int
    scores: Mapping[str, Scores]
    time_ms: float


def run(path: Path, name: str, options: Options, *, ablation: bool = False) -> Report:
    """Score every question of a file; with `ablation` without each signal as well."""
    conversations = read_locomo(path)
    embedder = Remembering(HashedEmbedder() if name == "hashed" else DefaultEmbedder())
    with scratch(options) as directory:
        asked, texts_per_s = asyncio.run(
            _measure(directory, conversations, embedder, _rankings(ablation))
        )
        about = facts(
            directory,
            options,
            PACKAGES,
            embedder=embedder.fingerprint,
            conversations=len(conversations),
            turns=sum(len(one.turns) for one in conversations),
            questions=len(asked),
        )
    times_ms = [one.time_ms for one in asked]
    speed = [[texts_per_s, percentile(times_ms, 50), percentile(times_ms, 99)]]
    return Report(
        "LoCoMo",
        about,
        [
            Table("All questions", ["ranking", "questions", *MEASURES], _overall(asked)),
            Table("By category", ["ranking", "category", "questions", *MEASURES], _by_kind(asked)),
            Table("Speed", ["ingest texts/s", "retrieve p50 ms", "retrieve p99 ms"], speed),
        ],
        NOTES,
    )


OURS, PLAIN = "all signals", "plain cosine"
NOTES = (
    "R@k: fraction of a question's evidence among the first k; any@k: at least one of it",
    "session: the same for sessions, ranked by their best turn",
    f"{OURS}: `user.retrieve`; without X: the same with `Weights(X=0)`",
    f"{PLAIN}: the same vectors, ranked with numpy",
    f"retrieve: top_k={TOP_K}, one at a time, each with a new text to embed",
)


async def _measure(
    directory: Path,
    conversations: Sequence[Conversation],
    embedder: "Remembering",
    rankings: Mapping[str, Weights],
) -> tuple[list[Asked], float]:
    asked: list[Asked] = []
    turns, ingest_s = 0, 0.0
    async with MemorySystem.open(directory / "memory", embedder=embedder, alerts=[]) as memory:
        await memory.user("warm up").add("The model is loaded by the first text.")
        for conversation in conversations:
            user = memory.user(conversation.sample_id)
            started_s = perf_counter()
            await import_conversation(user, conversation)
            ingest_s += perf_counter() - started_s
            turns += len(conversation.turns)
            asked += await _ask(user, conversation, embedder, rankings)
    return asked, turns / ingest_s


async def _ask(
    user: UserMemory,
    conversation: Conversation,
    embedder: "Remembering",
    weights: Mapping[str, Weights],
) -> list[Asked]:
    dia_ids = [turn.dia_id for turn in conversation.turns]
    texts = [spoken(turn.content, turn.speaker) for turn in conversation.turns]
    vectors = np.stack([embedder.known[text] for text in texts])
    found = []
    for question in questions(conversation):
        started_s = perf_counter()
        await user.retrieve(question.text, memory_types=["long_term"], top_k=TOP_K)
        time_ms = (perf_counter() - started_s) * 1e3
        # Again in full, for the ranks and sessions further down; the query is known by now.
        rankings = {
            name: await _ranking(user, question.text, len(dia_ids), weighing)
            for name, weighing in weights.items()
        }
        order = np.argsort(-(vectors @ embedder.known[question.text]), kind="stable")
        rankings[PLAIN] = [dia_ids[row] for row in order]
        scores = {name: score(question, ranking) for name, ranking in rankings.items()}
        found.append(Asked(question.category, scores, time_ms))
    return found


async def _ranking(user: UserMemory, text: str, count: int, weights: Weights) -> list[str]:
    hits = await user.retrieve(text, memory_types=["long_term"], top_k=count, weights=weights)
    return [str(hit.metadata["dia_id"]) for hit in hits]


def _rankings(ablation: bool) -> dict[str, Weights]:
    names = Weights.__struct_fields__ if ablation else ()
    return {OURS: Weights(), **{f"without {name}": Weights(**{name: 0.0}) for name in names}}


class Remembering:
    """An embedder that keeps every vector it gave, so that another ranking can use the same."""

    def __init__(self, embedder: Embedder):
        self.fingerprint = embedder.fingerprint
        self.dimension = embedder.dimension
        self.known: dict[str, Vectors] = {}
        self.background_mean = embedder.background_mean  # type: ignore[attr-defined]
        self._embedder = embedder
        if hasattr(embedder, "encode"):
            self.encode = self._encoded

    def _encoded(self, texts: Sequence[str]) -> list[Embedded]:
        embedded: list[Embedded] = self._embedder.encode(texts)  # type: ignore[attr-defined]
        self.known |= {text: one.vector for text, one in zip(texts, embedded, strict=True)}
        return embedded

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return float32 `[len(texts), dimension]`, rows of length 1."""
        vectors = self._embedder.embed(texts)
        self.known |= zip(texts, vectors, strict=True)
        return vectors


# --- scores


def score(question: Question, ranking: Sequence[str]) -> Scores:
    """Return MEASURES of one question; `ranking` are the ids of turns, best first."""
    evidence = set(question.evidence)
    sessions = {_session(dia_id) for dia_id in evidence}
    session_ranking = list(dict.fromkeys(map(_session, ranking)))
    first = next((rank for rank, dia_id in enumerate(ranking, 1) if dia_id in evidence), None)
    recalls = [_recall(evidence, ranking, k) for k in (5, 10, 20)]
    return [
        *recalls,
        *(float(recall > 0) for recall in recalls),
        0.0 if first is None else 1 / first,
        *(_recall(sessions, session_ranking, k) for k in (5, 10)),
    ]


def _recall(wanted: set[str], ranking: Sequence[str], k: int) -> float:
    return len(wanted.intersection(ranking[:k])) / len(wanted)


def _session(dia_id: str) -> str:
    return dia_id.partition(":")[0]


def _overall(asked: Sequence[Asked]) -> list[list[Any]]:
    return [[name, len(asked), *_mean(asked, name)] for name in asked[0].scores]


def _by_kind(asked: Sequence[Asked]) -> list[list[Any]]:
    groups: dict[int, list[Asked]] = defaultdict(list)
    for one in asked:
        groups[one.category].append(one)
    return [
        [name, CATEGORIES.get(category, str(category)), len(group), *_mean(group, name)]
        for name in (OURS, PLAIN)
        for category, group in sorted(groups.items())
    ]


def _mean(asked: Sequence[Asked], name: str) -> list[float]:
    columns = zip(*(one.scores[name] for one in asked), strict=True)
    return [fmean(column) for column in columns]
