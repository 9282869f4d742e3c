"""What the measurements feed in: sentences, memories and the life of a user, drawn from a seed."""

import random
from collections.abc import Iterator
from typing import Any

from memory_actors.kinds.long_term import MemoryAdded, MemoryDeleted, MemoryUpdated
from memory_actors.phrasing import text_digest

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


def unique_sentences(rng: random.Random) -> Iterator[str]:
    """Yield sentences that were not there before, so that no cache knows them."""
    seen: set[str] = set()
    while True:
        text = f"{sentence(rng)} {sentence(rng)}"
        if text not in seen:
            seen.add(text)
            yield text


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
