"""Recall on LoCoMo through the public API: which turns of a long conversation answer a question.

Each conversation is a user, each turn a memory. Scored is, for every question with evidence, the
fraction of its evidence turns among the first k; for sessions, the fraction of its evidence
sessions among the first k different sessions (`bench/measures.py` says what each measure is).
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

from bench.hashed import HashedEmbedder
from bench.measures import Scores, by_cosine, groups, means, measured, speed, stored_vectors
from bench.plots import check_matplotlib, recall_bars
from bench.recall_sets import Question, SetUser, import_user, read_locomo
from bench.report import Options, Report, Table, facts, scratch
from memory_actors import MemorySystem
from memory_actors.api.user import UserMemory
from memory_actors.base.weights import Weights
from memory_actors.kinds.passages import spoken
from memory_actors.search.embedding.default import DefaultEmbedder
from memory_actors.search.embedding.protocol import Embedder

TOP_K = 10  # what is asked for when it is timed
TURNS = ("turn R@5", "turn R@10", "turn R@20", "any@5", "any@10", "any@20", "MRR")
SESSIONS = ("session R@5", "session R@10")
MEASURES = (*TURNS, *SESSIONS)
DRAWN = ("turn R@10", *SESSIONS)
PACKAGES = ("numpy", "onnxruntime", "tokenizers")


class Asked(NamedTuple):
    """One question, and what each ranking makes of it."""

    category: str
    scores: Mapping[str, Scores]
    time_ms: float


def run(
    path: Path,
    name: str,
    options: Options,
    *,
    ablation: bool = False,
    drawn: Path | None = None,
) -> Report:
    """Score every question of a file; with `ablation` without each signal as well.

    `drawn` is a directory to draw the recall of each ranking into.
    """
    if drawn is not None:
        check_matplotlib()  # before minutes of measuring
    conversations = read_locomo(path)
    embedder = HashedEmbedder() if name == "hashed" else DefaultEmbedder()
    with scratch(options) as directory:
        asked, ingest_s = asyncio.run(
            _measure(directory, conversations, embedder, _rankings(ablation))
        )
        about = _facts(directory, options, conversations, embedder, len(asked))
    report = Report("LoCoMo", about, _tables(asked, about["turns"], ingest_s), NOTES)
    if drawn is not None:
        title = f"LoCoMo, {len(asked)} questions, {embedder.fingerprint}, no LLM"
        recall_bars(report, drawn, "locomo_recall_by_signals", DRAWN, title)
    return report


def _facts(
    directory: Path,
    options: Options,
    conversations: Sequence[SetUser],
    embedder: Embedder,
    questions: int,
) -> dict[str, Any]:
    return facts(
        directory,
        options,
        PACKAGES,
        embedder=embedder.fingerprint,
        conversations=len(conversations),
        turns=sum(len(one.memories) for one in conversations),
        questions=questions,
    )


def _tables(asked: Sequence[Asked], turns: int, ingest_s: float) -> list[Table]:
    return [
        Table("All questions", ["ranking", "questions", *MEASURES], _overall(asked)),
        Table("By category", ["ranking", "category", "questions", *MEASURES], _by_kind(asked)),
        speed(turns, ingest_s, [one.time_ms for one in asked]),
    ]


OURS, PLAIN = "all signals", "plain cosine"
NOTES = (
    "R@k: fraction of a question's evidence among the first k; any@k: at least one of it",
    "MRR: 1 / the rank of the first evidence turn",
    "session: the same for sessions, ranked by their best turn",
    f"{OURS}: `user.retrieve`; without X: the same with `Weights(X=0)`",
    f"{PLAIN}: the same vectors, ranked with numpy",
    f"retrieve: top_k={TOP_K}, one at a time, each with a new text to embed",
)


async def _measure(
    directory: Path,
    conversations: Sequence[SetUser],
    embedder: Embedder,
    weights: Mapping[str, Weights],
) -> tuple[list[Asked], float]:
    asked: list[Asked] = []
    ingest_s = 0.0
    async with MemorySystem.open(directory / "memory", embedder=embedder, alerts=[]) as memory:
        await memory.user("warm up").add("The model is loaded by the first text.")
        for conversation in conversations:
            user = memory.user(conversation.id)
            started_s = perf_counter()
            await import_user(user, conversation)
            ingest_s += perf_counter() - started_s
            plain = _plain(memory, conversation, embedder)
            asked += await _ask(user, conversation, plain, weights)
    return asked, ingest_s


async def _ask(
    user: UserMemory,
    conversation: SetUser,
    plain: Callable[[str], list[str]],
    weights: Mapping[str, Weights],
) -> list[Asked]:
    found = []
    for question in conversation.questions:
        started_s = perf_counter()
        await user.retrieve(question.text, memory_types=["long_term"], top_k=TOP_K)
        time_ms = (perf_counter() - started_s) * 1e3
        # Again in full, for the ranks and sessions further down; the query is known by now.
        rankings = {
            name: await _ranking(user, question.text, len(conversation.memories), weighing)
            for name, weighing in weights.items()
        }
        rankings[PLAIN] = plain(question.text)
        scores = {name: score(question, ranking) for name, ranking in rankings.items()}
        found.append(Asked(question.category, scores, time_ms))
    return found


def _plain(
    memory: MemorySystem, conversation: SetUser, embedder: Embedder
) -> Callable[[str], list[str]]:
    dia_ids = [_dia_id(turn.id) for turn in conversation.memories]
    texts = [spoken(turn.text, turn.role) for turn in conversation.memories]
    vectors = stored_vectors(memory, texts)
    return lambda text: by_cosine(dia_ids, vectors, embedder.embed([text])[0])


async def _ranking(user: UserMemory, text: str, count: int, weights: Weights) -> list[str]:
    hits = await user.retrieve(text, memory_types=["long_term"], top_k=count, weights=weights)
    return [_dia_id(hit.memory_id) for hit in hits]


def _rankings(ablation: bool) -> dict[str, Weights]:
    names = Weights.__struct_fields__ if ablation else ()
    return {OURS: Weights(), **{f"without {name}": Weights(**{name: 0.0}) for name in names}}


# --- scores


def score(question: Question, ranking: Sequence[str]) -> Scores:
    """Return MEASURES of one question; `ranking` are the ids of turns, best first."""
    turns = measured(question.evidence, ranking)
    sessions = measured({*map(_session, question.evidence)}, groups(map(_session, ranking)))
    return {
        **{name: turns[name.removeprefix("turn ")] for name in TURNS},
        **{name: sessions[name.removeprefix("session ")] for name in SESSIONS},
    }


def _dia_id(memory_id: str) -> str:
    """Return the id of a turn; a file may have it several times."""
    return memory_id.partition("#")[0]


def _session(dia_id: str) -> str:
    return dia_id.partition(":")[0]


def _overall(asked: Sequence[Asked]) -> list[list[Any]]:
    return [[name, len(asked), *_mean(asked, name)] for name in asked[0].scores]


def _by_kind(asked: Sequence[Asked]) -> list[list[Any]]:
    groups: dict[str, list[Asked]] = defaultdict(list)
    for one in asked:
        groups[one.category].append(one)
    return [
        [name, category, len(group), *_mean(group, name)]
        for name in (OURS, PLAIN)
        for category, group in sorted(groups.items())
    ]


def _mean(asked: Sequence[Asked], name: str) -> list[float]:
    return means([one.scores[name] for one in asked], MEASURES)
