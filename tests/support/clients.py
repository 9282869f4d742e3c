"""Clients of a small memory system, and the promises of its receipts: a plain model."""

import json
from collections.abc import Callable, Sequence
from typing import NamedTuple

from hypothesis import strategies as st

from memory_actors import (
    CallableSummarizer,
    GlobalLimits,
    InvalidInputError,
    Limits,
    Memory,
    MemoryType,
    NotFoundError,
    Plan,
    Purged,
    QuotaExceededError,
    Receipt,
    Settings,
    Tier,
)


def small(count: int) -> Limits:
    """Return limits of about so many of everything; two long texts are more than their bytes."""
    return Limits(
        working_keys=count, working_bytes=60, short_term_messages=count, short_term_bytes=1_500,
        short_term_sessions=2, long_term_memories=2 * count, long_term_bytes=1_500 * count,
        entities=count, relationships=count, entity_bytes=100, episodes=count,
        episode_steps=count, episodic_bytes=2_000, documents=count, structured_bytes=2_000,
        context_entries=count, context_bytes=2_000,
    )  # fmt: skip


TIERS = {Tier.LOCAL: small(3), Tier.FREE: small(2), Tier.PRO: small(3), Tier.ENTERPRISE: small(5)}
GLOBAL_LIMITS = GlobalLimits(long_term_bytes=5_000, entities=6, relationships=3)
SETTINGS = Settings(
    tiers={tier: Plan(limits=limits) for tier, limits in TIERS.items()},
    global_limits=GLOBAL_LIMITS,
    check_replay=True,
    compaction_episodes=True,
    compaction_min_samples=2,
    archive_retention_days=0,
)
SUMMARIZER = CallableSummarizer(lambda cluster: cluster.texts[0][:20], name="short")
REFUSALS = (InvalidInputError, NotFoundError, QuotaExceededError)
USERS = ("ada", "bob", "cid")
EVIL = "evil"
"""A source, and a word that it alone uses."""

NOT_RESTORED = ("working", "short_term")  # never kept for that
SHORT = "short_term"  # goes by the clock too, of which receipts say nothing
SAID: dict[str, Callable[[Memory], str]] = {
    "working": lambda memory: memory.content,
    "short_term": lambda memory: memory.content,
    "long_term": lambda memory: memory.content,
    "entity": lambda memory: (memory.data["name"], *memory.data["observations"])[-1],
    "episodic": lambda memory: memory.data["goal"],
    "structured": lambda memory: json.loads(memory.content)["text"],
    "context": lambda memory: memory.content,
}
"""The text that a memory was given, as it reads."""
DOES = (
    "add", "add", "prune", "prune", "prune", "update", "update", "delete", "delete", "restore",
    "restore", "restore", "relate", "relate", "step", "step", "finish", "tier",
)  # fmt: skip


class Act(NamedTuple):
    """One call of one client."""

    does: str
    kind: str
    words: str
    number: int
    """Picks one of what there is, by its remainder."""
    own_id: str | None = None

    @property
    def text(self) -> str:
        says = self.says.replace("long", "x " * 699 + "x").replace("old", "y " * 60)
        return says.replace("often", "red apple " * 70 + "red")

    @property
    def source(self) -> str | None:
        return EVIL if self.number % 3 == 1 else None

    @property
    def says(self) -> str:
        return self.words if self.source is None else f"{EVIL} {self.words}"

    def one(self, ids: Sequence[str]) -> str:
        return ids[self.number % len(ids)] if ids else "none"


TEXTS = st.sampled_from(["red apple", "blue car", "green tree", "red car", "long", "often"])
ANY = st.integers(0, 1 << 10)
KINDS = st.sampled_from([kind.value for kind in MemoryType])
OWN_IDS = st.none() | st.none() | st.sampled_from([f"id{n}" for n in range(6)])
ACTS = st.builds(Act, st.sampled_from(DOES), KINDS, TEXTS, ANY, OWN_IDS)
RACES = st.lists(ACTS, min_size=2, max_size=6)
GROWTH = st.lists(
    st.builds(
        Act,
        st.sampled_from(["add", "prune", "relate", "restore", "update"]),
        st.sampled_from(["long_term", "entity"]),
        TEXTS,
        ANY,
        st.none(),
    ),
    min_size=1,
    max_size=3,
)


class Held:
    """The memories that a user must have, by the receipts."""

    def __init__(self) -> None:
        self.kinds: dict[str, str] = {}
        """The kinds of the living memories, by id."""
        self.ever: dict[str, str] = {}
        self.says: dict[str, set[str]] = {}
        """The texts that may be read; more than one where clients raced."""
        self.said: dict[str, set[str]] = {}
        """Whatever was ever said of it."""
        self.ends: dict[str, tuple[str, str]] = {}
        """Of relationships."""
        self.summaries: dict[str, list[str]] = {}
        """The originals of each that ever was."""
        self.tiers: set[Tier] = {Tier.LOCAL}
        """In force in the course of the last step."""
        self.used: dict[str, int] = {}

    def of(self, kind: str) -> list[str]:
        return sorted(memory_id for memory_id, its in self.kinds.items() if its == kind)

    def some_of(self, kind: str) -> list[str]:
        """Return the living of a kind; of all, if it has none."""
        return self.of(kind) or sorted(self.kinds)

    def gone(self, kind: str) -> list[str]:
        """Return the ids of a kind that were; of another, if it has lost none."""
        lost: dict[str, list[str]] = {}
        for memory_id, its in sorted(self.ever.items()):
            if memory_id not in self.kinds and its not in NOT_RESTORED:
                lost.setdefault(its, []).append(memory_id)
        return lost.get(kind) or next(iter(lost.values()), [])

    def note(self, said: Sequence[tuple[Act, Receipt]]) -> None:
        """Follow the receipts of what was done at one time."""
        gone = {one for _, receipt in said for one in (*receipt.evicted, *receipt.pruned)}
        for act, receipt in said:
            if receipt.operation == "delete":
                gone.add(receipt.memory_id)
            elif receipt.operation != "unchanged":
                self.kinds[receipt.memory_id] = self.ever[receipt.memory_id] = receipt.memory_type
                if act.does in ("add", "prune", "update"):
                    last = set() if len(said) == 1 else self.says.get(receipt.memory_id, set())
                    self.says[receipt.memory_id] = last | {act.text}
                    self.said.setdefault(receipt.memory_id, set()).add(act.text)
        self.drop(gone)

    def purged(self, receipt: Purged) -> None:
        """Follow the receipt of a purge: what is left says what others said of it."""
        self.drop({one for ids in receipt.gone.values() for one in ids})
        changed = [one for ids in receipt.changed.values() for one in ids]
        for memory_id in (*receipt.came_back, *changed):
            kind = self.kinds[memory_id] = self.ever[memory_id]
            texts = self.said.get(memory_id, set())
            # An entity keeps a name that others use, whoever gave it.
            self.says[memory_id] = {t for t in texts if kind == "entity" or EVIL not in t}

    def check(self, memory: Memory) -> None:
        """A memory says what it was given; from then on just that."""
        if memory.memory_id in self.ends:
            return
        text = memory.content if memory.source == "compressed" else SAID[memory.memory_type](memory)
        assert text in self.says[memory.memory_id], memory
        self.says[memory.memory_id] = {text}

    def drop(self, gone: set[str]) -> None:
        """Let these go, and the relationships that lose an end by it."""
        for memory_id in gone:
            self.kinds.pop(memory_id, None)
        for memory_id, ends in self.ends.items():
            if not set(ends) <= self.kinds.keys():
                self.kinds.pop(memory_id, None)


def plain(acts: list[Act]) -> list[Act]:
    """Return a race's acts, without those that leave open which of two came last.

    That is a second restore, and ids of the caller's own under keys, which come back with their
    key: a prune may be between the two.
    """
    restores = [act for act in acts if act.does == "restore"]
    others = [act for act in acts if act.does != "restore"]
    keyed = ("working", "structured")
    return restores[:1] + [a._replace(own_id=None) if a.kind in keyed else a for a in others]
