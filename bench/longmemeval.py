"""Recall on LongMemEval through the public API: which turns and sessions answer a question.

Each question has a haystack of its own, so it gets a user of its own: one memory a turn, with the
id and the date of its session. It is asked at its own date. `longmemeval_rules.py` says what
becomes a memory and what counts; `measures.py` tells the measures apart. The official tables print
all@k, which they call "recall_all".
"""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

from bench.hashed import HashedTokens
from bench.longmemeval_file import Question, QuestionFile, date
from bench.longmemeval_rules import (
    COUNTED,
    EVERYTHING,
    LEVELS,
    SESSION,
    TURN,
    Haystack,
    Whose,
    evidence,
    haystack_of,
    left_out,
    memories_of,
    ranked,
)
from bench.measures import MEASURES, Scores, by_cosine, means, measured, speed, stored_vectors
from bench.report import Options, Report, Table, facts, scratch
from memory_actors import MemorySystem, Settings
from memory_actors.api.user import UserMemory
from memory_actors.cli.output import progress_bar
from memory_actors.kinds.passages import spoken
from memory_actors.search.embedding.default import DefaultEmbedder
from memory_actors.search.embedding.protocol import Embedder

TOP_K = 10  # the number of hits in a timed search
DEPTH = 500  # the length of a ranking: all turns of a haystack of `s`, 20 sessions of `m`
BATCH_TURNS = 64  # per call of `add_many`: the assistant's turns are long
DEADLINE_S = 600.0  # slow calls are measured, and do not fail
PACKAGES = ("numpy", "onnxruntime", "tokenizers")
OURS, PLAIN = "all signals", "plain cosine"

Way = tuple[str, str, str]
"""Unit that is counted, level, ranking."""


class Asked(NamedTuple):
    """One question, and what each ranking makes of it."""

    type: str
    left_out: str | None
    """By the official rules; why."""
    scores: Mapping[Way, Scores]
    lacking: Sequence[str]
    """Levels at which even "all" has nothing to find."""
    turns: int
    ingest_s: float
    time_ms: float


def run(path: Path, limit: int | None, whose: Whose, name: str, options: Options) -> Report:
    """Score the questions of a file, a number of them spread over it if `limit` is given."""
    questions = QuestionFile(path, limit)
    embedder = HashedTokens() if name == "hashed" else DefaultEmbedder()
    with scratch(options) as directory:
        asked = asyncio.run(_measure(directory / "memory", questions, whose, embedder))
        about = facts(
            directory,
            options,
            PACKAGES,
            embedder=embedder.fingerprint,
            file=f"{path.name}, {questions.in_file} questions",
            questions=len(asked),
            turns=sum(one.turns for one in asked),
            memories="the user's turns" if whose == "user" else "all turns",
        )
    return Report("LongMemEval", about, _tables(asked), NOTES)


NOTES = (
    "official: counted as the benchmark's own code does; all: every question, 0 without evidence",
    "R@k: fraction of the evidence among the first k; any@k: at least one of it; all@k: all of it",
    "the official tables print all@k, others any@k: compare like with like; MRR: 1 / first rank",
    "session: ranked by its best turn; by evidence: found only where its evidence turn stands",
    f"{OURS}: `user.retrieve` at the question's date; {PLAIN}: the same vectors, ranked with numpy",
    f"what comes behind the {DEPTH}th turn counts as not found",
    f"retrieve: top_k={TOP_K}, one at a time, each with a new text to embed",
)


# --- ask


async def _measure(
    store: Path, questions: QuestionFile, whose: Whose, embedder: Embedder
) -> list[Asked]:
    settings, asked = Settings(deadline_s=DEADLINE_S), []
    async with MemorySystem.open(store, embedder=embedder, settings=settings, alerts=[]) as memory:
        await _warm_up(memory)
        with progress_bar("Asking", quiet=False) as moved:
            for number, question in enumerate(questions, 1):
                user = memory.user(f"{number} {question.question_id}")
                asked.append(await _ask(memory, user, question, whose, embedder))
                moved(number, len(questions))
    return asked


async def _warm_up(memory: MemorySystem) -> None:
    user = memory.user("warm up")
    await user.add("The model is loaded by the first text.")
    await user.retrieve("What loads the model?")


async def _ask(
    memory: MemorySystem, user: UserMemory, question: Question, whose: Whose, embedder: Embedder
) -> Asked:
    haystack = haystack_of(question)
    memories = memories_of(haystack, whose)
    started_s = perf_counter()
    await _add(user, memories)
    added_s = perf_counter()
    await _ranking(user, question, TOP_K)
    asked_s = perf_counter()
    rankings = {
        OURS: await _ranking(user, question, DEPTH),
        PLAIN: _plain(memory, memories, embedder, question)[:DEPTH],
    }
    return Asked(
        type=question.question_type,
        left_out=left_out(question, haystack),
        scores=_scores(question, haystack, memories, rankings),
        lacking=_lacking(question, haystack, memories),
        turns=len(memories),
        ingest_s=added_s - started_s,
        time_ms=(asked_s - added_s) * 1e3,
    )


async def _add(user: UserMemory, memories: Haystack) -> None:
    items = [said.item for said in memories.values()]
    for start in range(0, len(items), BATCH_TURNS):
        await user.add_many(items[start : start + BATCH_TURNS])


async def _ranking(user: UserMemory, question: Question, top_k: int) -> list[str]:
    hits = await user.retrieve(
        question.question,
        memory_types=["long_term"],
        top_k=top_k,
        reference_time=date(question.question_date),
    )
    return [hit.memory_id for hit in hits]


def _plain(
    memory: MemorySystem, memories: Haystack, embedder: Embedder, question: Question
) -> list[str]:
    if not memories:
        return []
    texts = [spoken(said.item.content, said.item.role) for said in memories.values()]
    query = embedder.embed([question.question])[0]
    return by_cosine(list(memories), stored_vectors(memory, texts), query)


def _scores(
    question: Question,
    haystack: Haystack,
    memories: Haystack,
    rankings: Mapping[str, Sequence[str]],
) -> dict[Way, Scores]:
    return {
        (counted, level, name): measured(
            evidence(question, haystack, memories, counted, level),
            ranked(ranking, memories, level),
        )
        for counted, level in product(COUNTED, LEVELS)
        for name, ranking in rankings.items()
    }


def _lacking(question: Question, haystack: Haystack, memories: Haystack) -> list[str]:
    return [
        level for level in LEVELS if not evidence(question, haystack, memories, EVERYTHING, level)
    ]


# --- tables


def _tables(asked: Sequence[Asked]) -> list[Table]:
    ingest_s = sum(one.ingest_s for one in asked)
    return [
        Table("Questions", ["what", "questions"], _counts(asked)),
        Table("Recall", ["counted", "level", "ranking", "questions", *MEASURES], _overall(asked)),
        Table(
            f"Recall by type, {OURS}",
            ["counted", "level", "type", "questions", *MEASURES],
            _by_type(asked),
        ),
        speed(sum(one.turns for one in asked), ingest_s, [one.time_ms for one in asked]),
    ]


def _counts(asked: Sequence[Asked]) -> list[list[Any]]:
    reasons = Counter(one.left_out for one in asked)
    lacking = Counter(level for one in asked for level in one.lacking)
    return [
        ["all: asked", len(asked)],
        ["all: no session to find, counts 0", lacking[SESSION]],
        ["all: no turn to find, counts 0", lacking[TURN]],
        ["official: left out, abstention", reasons["abstention"]],
        ["official: left out, no marked user turn", reasons["no marked user turn"]],
        ["official: counted", reasons[None]],
    ]


def _overall(asked: Sequence[Asked]) -> list[list[Any]]:
    return [
        [*way, len(some), *means([one.scores[way] for one in some], MEASURES)]
        for way in product(COUNTED, LEVELS, (OURS, PLAIN))
        if (some := _counting(asked, way[0]))
    ]


def _by_type(asked: Sequence[Asked]) -> list[list[Any]]:
    types = sorted({one.type for one in asked})
    return [
        [
            *(counted, level, kind, len(some)),
            *means([one.scores[counted, level, OURS] for one in some], MEASURES),
        ]
        for counted, level, kind in product(COUNTED, LEVELS, types)
        if (some := [one for one in _counting(asked, counted) if one.type == kind])
    ]


def _counting(asked: Sequence[Asked], counted: str) -> list[Asked]:
    return [one for one in asked if counted == EVERYTHING or one.left_out is None]
