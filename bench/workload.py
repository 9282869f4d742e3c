"""The workload of measurements: sentences, memories and the life of a user, from a seed."""

import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from memory_actors.kinds.long_term import MemoryAdded, MemoryDeleted, MemoryUpdated
from memory_actors.kinds.passages import text_digest
from memory_actors.search.indexes.words import STOP_WORDS

EPOCH_US = 1_700_000_000_000_000
CATEGORIES = 10
EVENTS, WEIGHTS = ("add", "update", "delete"), (70, 15, 15)

# fmt: off
WHO = (
    "The user", "Ada", "Their sister", "A colleague from Porto", "Their oldest friend", "Tomas",
    "The neighbour", "The landlord", "Their manager", "Grandmother Ines", "The new flatmate",
)
DID = (
    "enjoys", "avoids", "has started", "gave up", "is allergic to", "talked for an hour about",
    "paid too much for", "dreams of", "teaches", "wrote an article on", "lost interest in",
    "asked about", "is afraid of", "is saving for",
)
WHAT = (
    "night skiing", "sourdough bread", "old film cameras", "the violin", "a red bicycle", "peanuts",
    "tax returns", "rock climbing", "Japanese grammar", "a second-hand boat", "chess endgames",
    "beekeeping", "jazz piano", "city marathons", "a garden of tomatoes", "black holes",
    "pottery classes", "a treehouse", "oat milk",
)
WHERE = (
    "in the Alps", "near the harbour", "at the office", "in Kyoto", "on the top floor", "in Lisbon",
    "by the river", "at the village school", "in an old barn", "behind the station", "at home",
)
WHY = (
    "because the doctor said so", "since the winter of the big storm", "to save for a journey",
    "after reading a long book about it", "and would like company next time", "only on Sundays",
    "although it rains most of the time", "ever since they met others", "without telling anyone",
    "for the third year in a row", "and keeps a diary of every attempt", "hoping to end by May",
)
# fmt: on


def sentence(rng: random.Random) -> str:
    """Return one of some 386,000 plain sentences of 8 to 25 words."""
    parts = [rng.choice(words) for words in (WHO, DID, WHAT, WHERE, WHY)]
    return " ".join(parts) + "."


def question(rng: random.Random) -> str:
    """Return one of some 32,000 questions of 8 to 16 words."""
    parts = [rng.choice(words) for words in (WHO, DID, WHAT, WHERE)]
    return f"Is it {parts[0]} who {' '.join(parts[1:])}?"


def unique_sentences(rng: random.Random) -> Iterator[str]:
    """Yield pairs of sentences that were not there before, so that no cache knows them."""
    return _unique(lambda: f"{sentence(rng)} {sentence(rng)}")


def unique_questions(rng: random.Random) -> Iterator[str]:
    """Yield questions that were not there before."""
    return _unique(lambda: question(rng))


def _unique(draw: Callable[[], str]) -> Iterator[str]:
    seen: set[str] = set()
    while True:
        text = draw()
        if text not in seen:
            seen.add(text)
            yield text


# --- turns of a conversation: as long, and with as many different words, as people use

TURN_WORDS, TURN_SPREAD = 24, 0.55  # median and sigma of a log-normal: 27 words in the mean
TURN_WORDS_MAX = 75
VOCABULARY = 20_000  # by Zipf's law: 24 different words a turn, half of all words stop words
CONSONANTS, VOWELS = "bdfghjklmnprstvz", "aeiou"


def chat_turns(seed: int) -> Iterator[str]:
    """Yield made-up turns of some 150 bytes, whose words are as frequent as those of a language.

    Calibrated on LoCoMo: 148 bytes, 27 words and 38 tokens a turn in the mean, 34 in the median.
    """
    rng = np.random.default_rng(seed)
    words = [*sorted(STOP_WORDS), *map(_word, range(VOCABULARY - len(STOP_WORDS)))]
    frequencies = np.cumsum(1 / np.arange(1, VOCABULARY + 1))
    while True:
        length = min(TURN_WORDS_MAX, 1 + int(TURN_WORDS * rng.lognormal(0, TURN_SPREAD)))
        ranks = np.searchsorted(frequencies, rng.random(length) * frequencies[-1])
        yield _punctuated([words[rank] for rank in ranks])


def _word(number: int) -> str:
    """Return a word that no other number has, of two or three syllables."""
    syllables: list[str] = []
    left = number
    while left or len(syllables) < 2:
        left, syllable = divmod(left, len(CONSONANTS) * len(VOWELS))
        syllables.append(
            CONSONANTS[syllable % len(CONSONANTS)] + VOWELS[syllable // len(CONSONANTS)]
        )
    return "".join(syllables) + CONSONANTS[number % len(CONSONANTS)]


def _punctuated(words: list[str]) -> str:
    ends = [", " if place % 10 == 4 else ". " if place % 10 == 9 else " " for place in range(99)]
    text = "".join(word + end for word, end in zip(words, ends, strict=False))
    return text.rstrip(" ,.") + "."


# --- memories


def metadata(rng: random.Random) -> dict[str, Any]:
    """Return metadata of which each value of `category` is shared by a tenth of the memories."""
    return {"category": f"category {rng.randrange(CATEGORIES)}", "confidence": rng.random()}


def added(memory_id: str, content: str, rng: random.Random) -> MemoryAdded:
    """Return the event of a memory that was added."""
    return MemoryAdded(
        memory_id=memory_id,
        content=content,
        size_bytes=len(content.encode()),
        digest=text_digest(content),
        occurred_at_us=EPOCH_US + rng.randrange(10**15),
        metadata=metadata(rng),
        session_id="session 1",
    )


def life(count: int, living_max: int, rng: random.Random) -> Iterator[Any]:
    """Yield that many long-term events: 70 % adds, 15 % updates, 15 % deletes.

    No more than `living_max` memories ever live: beyond that a delete comes in place of an add.
    """
    living: list[str] = []
    for number in range(count):
        choice = "add" if len(living) < 2 else rng.choices(EVENTS, WEIGHTS)[0]
        if choice == "add" and len(living) < living_max:
            living.append(f"mem_{number:030x}")
            yield added(living[-1], sentence(rng), rng)
        elif choice == "update":
            yield _updated(rng.choice(living), sentence(rng))
        else:
            at = rng.randrange(len(living))
            living[at], living[-1] = living[-1], living[at]
            yield MemoryDeleted(memory_id=living.pop())


def _updated(memory_id: str, content: str) -> MemoryUpdated:
    return MemoryUpdated(
        memory_id=memory_id,
        content=content,
        size_bytes=len(content.encode()),
        digest=text_digest(content),
    )
