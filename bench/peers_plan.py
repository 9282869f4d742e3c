"""The plan of `bench peers` for every peer: equal memories, questions and vectors, from one seed.

The plan is made once, with what the model makes of each text in it, and read by every child
process. No peer therefore waits for a model while it is timed, and all have the same vectors.
"""

import random
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np

from bench.hashed import HashedTokens
from bench.peer_stores.base import Memory
from bench.recall_sets import Question, SetUser
from memory_actors.kinds.passages import composed
from memory_actors.search.dot_products import Bytes
from memory_actors.search.embedding.batcher import PROBE
from memory_actors.search.embedding.default import DefaultEmbedder
from memory_actors.search.embedding.protocol import Embedded, Embedder, Vectors, codebook_of
from memory_actors.search.embedding.token_states import DIMENSIONS, Codebook

EmbedderName = Literal["default", "hashed"]

ADDS = 200  # timed, one by one
TOPICS = 100  # a filter on the topic leaves one memory in a hundred
BLENDS_A_SESSION = 20
BATCH_TEXTS = 64
Kept = tuple[bytes | None, bytes | None]
"""Of a text: its packed token states, and those before they were coded."""
PLAN_FILE, VECTORS_FILE, TOKENS_FILE = "plan.json", "vectors.npy", "tokens.msgpack"


class Talk(msgspec.Struct, frozen=True):
    """One conversation, as memories and questions about them."""

    id: str
    memories: list[Memory]
    questions: list[Question]


class Plan(msgspec.Struct, frozen=True):
    """Everything a child process needs to know."""

    talks: list[Talk]
    fill: list[Memory]
    """For the measurements at size: turns, and sentences blended from two turns each."""
    late: list[Memory]
    """Added one by one to a filled store: the first turns of the first conversation."""
    asked: list[str]
    """Questions for the timed searches."""
    embedder: EmbedderName
    texts: list[str]
    """The texts of the rows in the vectors' file."""
    seed: int


def make_plan(
    conversations: Sequence[SetUser],
    size: int,
    calls: int,
    name: EmbedderName,
    seed: int,
) -> Plan:
    """Return a plan with `size` memories in the large store and `calls` timed searches."""
    rng = random.Random(seed)
    talks = [_talk(conversation) for conversation in conversations]
    turns = [memory for talk in talks for memory in talk.memories]
    late = talks[0].memories[:ADDS]
    fill = list(islice(_filling(turns[len(late) :] or turns, rng), size))
    known = [question.text for talk in talks for question in talk.questions]
    asked = rng.sample(known, min(calls, len(known)))
    said = [PROBE, *(one.text for one in [*turns, *fill]), *known]
    texts = dict.fromkeys([*said, *map(composed, said)])  # ours embeds the second form
    return Plan(talks, fill, late, asked, name, list(texts), seed)


def _talk(conversation: SetUser) -> Talk:
    memories = [
        Memory(
            turn.id,
            turn.text,
            {
                "session": turn.session,
                "speaker": turn.role,
                "occurred_at": turn.time or "2023-01-01",
                "topic": _topic(number),
            },
        )
        for number, turn in enumerate(conversation.memories)
    ]
    return Talk(conversation.id, memories, list(conversation.questions))


def _filling(turns: Sequence[Memory], rng: random.Random) -> Iterator[Memory]:
    """Yield the turns under new ids and sessions, then blends of them, without end."""
    for number, turn in enumerate(turns):
        session = f"filled {turn.metadata['session']}"
        more = {**turn.metadata, "session": session, "topic": _topic(number)}
        yield Memory(f"f{number}", turn.text, more)
    seen, number = {turn.text for turn in turns}, len(turns)
    while True:
        first, second = rng.choice(turns), rng.choice(turns)
        text = _blend(first.text.split(), second.text.split(), number)
        if text in seen:
            text = f"{text} {number}"
        seen.add(text)
        session = f"blended {number // BLENDS_A_SESSION}"
        more = {**first.metadata, "session": session, "topic": _topic(number)}
        yield Memory(f"f{number}", text, more)
        number += 1


def _blend(first: list[str], second: list[str], number: int) -> str:
    """Return half of one text and half of another: as long, and made of the same words."""
    words = first[: (len(first) + 1) // 2] + second[len(second) // 2 :]
    return " ".join(words) or str(number)


def _topic(number: int) -> str:
    return f"topic {number % TOPICS}"


# --- vectors


def model(name: EmbedderName) -> Embedder:
    """Return the embedder of a name; the default one is loaded by its first text."""
    return HashedTokens() if name == "hashed" else DefaultEmbedder()


def write_plan(plan: Plan, folder: Path) -> None:
    """Write a plan and what the model makes of its texts."""
    embedder = model(plan.embedder)
    batches = [
        _embedded(embedder, plan.texts[start : start + BATCH_TEXTS])
        for start in range(0, len(plan.texts), BATCH_TEXTS)
    ]
    embedded = [one for batch in batches for one in batch]
    np.save(folder / VECTORS_FILE, np.stack([one.vector for one in embedded]))
    tokens = [
        (one.tokens, None if one.states is None else one.states.tobytes()) for one in embedded
    ]
    (folder / TOKENS_FILE).write_bytes(msgspec.msgpack.encode(tokens))
    (folder / PLAN_FILE).write_bytes(msgspec.json.encode(plan))


def read_plan(folder: Path) -> Plan:
    """Return what `write_plan` wrote."""
    return msgspec.json.decode((folder / PLAN_FILE).read_bytes(), type=Plan)


def known_texts(plan: Plan, folder: Path, *, remember: bool) -> "KnownTexts":
    """Return an embedder that knows the plan's texts; `remember` what else it is asked."""
    embedder = model(plan.embedder)
    kept = msgspec.msgpack.decode((folder / TOKENS_FILE).read_bytes(), type=list[Kept])
    embedded = [
        Embedded(vector, tokens, None if states is None else _states(states))
        for vector, (tokens, states) in zip(np.load(folder / VECTORS_FILE), kept, strict=True)
    ]
    kind = KnownTokens if hasattr(embedder, "encode") else KnownTexts
    return kind(embedder, dict(zip(plan.texts, embedded, strict=True)), remember)


class KnownTexts:
    """An embedder that looks up, and asks the model only for what is not in the plan."""

    def __init__(self, embedder: Embedder, known: dict[str, Embedded], remember: bool):
        self.fingerprint = embedder.fingerprint
        self.dimension = embedder.dimension
        self.unknown_token_id = getattr(embedder, "unknown_token_id", None)
        self.computed = 0
        """Texts that the model was asked for."""
        self._embedder: Any = embedder
        self._known = known
        self._remember = remember

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return float32 `[len(texts), dimension]`, rows of length 1."""
        return np.stack([self._of(text).vector for text in texts])

    def background_mean(self) -> Vectors:
        """Return the model's mean vector of general text."""
        mean: Vectors = self._embedder.background_mean()
        return mean

    def _of(self, text: str) -> Embedded:
        found = self._known.get(text)
        if found is None:
            self.computed += 1
            found = _embedded(self._embedder, [text])[0]
            if self._remember:
                self._known[text] = found
        return found


class KnownTokens(KnownTexts):
    """The vectors of a model that gives token states as well. Only ours asks for them."""

    def codebook(self) -> Codebook:
        """Return the codebook that packs the model's token states."""
        return codebook_of(self._embedder)

    def encode(self, texts: Sequence[str]) -> list[Embedded]:
        """Return vectors and token states."""
        return [self._of(text) for text in texts]


def _states(data: bytes) -> Bytes:
    return np.frombuffer(data, np.int8).reshape(-1, DIMENSIONS)


def _embedded(embedder: Any, texts: Sequence[str]) -> list[Embedded]:
    if hasattr(embedder, "encode"):
        embedded: list[Embedded] = embedder.encode(texts)
        return embedded
    return [Embedded(vector, None) for vector in embedder.embed(texts)]
