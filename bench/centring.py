"""Centring: what taking a mean vector away does to recall, by the weight of the background.

Two questions, on LoCoMo conversations with one memory a turn: how much of the evidence is in the
top 10 of a whole conversation, and how often the first evidence turn comes first among n memories
(itself and n - 1 random others), which is the case of a user with few memories.
"""

import random
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np
import numpy.typing as npt

from memory_actors.embedding.default import DefaultEmbedder
from memory_actors.interchange import locomo

WEIGHTS: tuple[float | None, ...] = (None, 1e9, 50, 20, 10, 5, 3, 2, 1, 0)
SIZES = (3, 10, 30)
TRIALS = 2

Vectors = npt.NDArray[np.float32]


class CentringRow(msgspec.Struct, frozen=True):
    """One weight of the background; None is no centring at all, 1e9 the background alone."""

    weight: float | None
    turn_recall_at_10: float
    first_of_3: float
    first_of_10: float
    first_of_30: float


@dataclass(frozen=True, slots=True)
class _Conversation:
    memories: Vectors
    questions: Vectors
    evidence: list[list[int]]


def run(path: Path, seed: int = 1) -> list[CentringRow]:
    """Return a row for each weight."""
    embedder = DefaultEmbedder()
    background = embedder.background_mean()
    conversations = [_embedded(c, embedder) for c in locomo.read_locomo(path)]
    return [
        CentringRow(
            weight,
            _recall(conversations, background, weight),
            *(_first(conversations, background, weight, n, seed) for n in SIZES),
        )
        for weight in WEIGHTS
    ]


def _embedded(conversation: locomo.Conversation, embedder: DefaultEmbedder) -> _Conversation:
    place = {turn.dia_id: row for row, turn in enumerate(conversation.turns)}
    questions = locomo.questions(conversation)
    return _Conversation(
        embedder.embed([turn.content for turn in conversation.turns]),
        embedder.embed([question.text for question in questions]),
        [[place[turn] for turn in question.evidence] for question in questions],
    )


def _centre(rows: Vectors, background: Vectors, weight: float | None) -> Vectors:
    if weight is None:
        return np.zeros_like(background)
    n = len(rows)
    return ((weight * background + n * rows.mean(axis=0)) / (weight + n)).astype(np.float32)


def _unit(rows: Vectors) -> Vectors:
    return (rows / np.linalg.norm(rows, axis=-1, keepdims=True)).astype(np.float32)


def _recall(conversations: list[_Conversation], background: Vectors, weight: float | None) -> float:
    found: list[float] = []
    for c in conversations:
        centre = _centre(c.memories, background, weight)
        scores = _unit(c.questions - centre) @ _unit(c.memories - centre).T
        top = np.argsort(-scores, axis=1)[:, :10]
        found += [
            len(set(evidence) & set(row)) / len(evidence)
            for evidence, row in zip(c.evidence, top.tolist(), strict=True)
        ]
    return float(np.mean(found))


def _first(
    conversations: list[_Conversation], background: Vectors, weight: float | None, n: int, seed: int
) -> float:
    rng, first = random.Random(seed), []
    for c in conversations:
        for question, evidence in zip(c.questions, c.evidence, strict=True):
            others = [row for row in range(len(c.memories)) if row not in evidence]
            for _ in range(TRIALS):
                rows = c.memories[[evidence[0], *rng.sample(others, n - 1)]]
                centre = _centre(rows, background, weight)
                scores = _unit(rows - centre) @ _unit(question - centre)
                first.append(int(np.argmax(scores)) == 0)
    return float(np.mean(first))
