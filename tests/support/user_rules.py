"""Rules of a stateful test of one user's decider: the clock, the tier, and what all kinds have.

Ids are new ones, or a few of the caller's own that all kinds use.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from memory_actors import Tier
from memory_actors.kinds import (
    context,
    entity,
    episodic,
    long_term,
    short_term,
    structured,
    working,
)
from memory_actors.kinds.account import SetTier
from memory_actors.kinds.commands import Command
from memory_actors.kinds.compacting import CompactedKind
from memory_actors.kinds.context.commands import DeleteEntry, RestoreEntries
from memory_actors.kinds.kind import Kind
from memory_actors.kinds.user_state import KINDS
from support.deciding import REGISTRY, Decided, Deciding, living

SECOND_US = 1_000_000
DELETES = {
    working.KIND: working.DeleteKey,
    short_term.KIND: short_term.DeleteMessage,
    long_term.KIND: long_term.DeleteMemory,
    entity.KIND: entity.DeleteEntity,
    episodic.KIND: episodic.DeleteEpisode,
    structured.KIND: structured.DeleteDocument,
    context.KIND: DeleteEntry,
}
RESTORES = {
    long_term.KIND: long_term.RestoreMemories,
    entity.KIND: entity.RestoreEntities,
    episodic.KIND: episodic.RestoreEpisodes,
    structured.KIND: structured.RestoreDocuments,
    context.KIND: RestoreEntries,
}

ANY = st.integers(0, 1 << 16)  # picks one of what there is, by its remainder


def about(kind: Kind) -> Any:
    """Let a rule run in a mixture that has a kind."""
    return precondition(lambda self: kind.NAME in self.mixture)


def some(kind: Kind) -> Any:
    """Let a rule run when a kind has something."""
    return precondition(lambda self: self.rows(kind))


some_relate = precondition(lambda self: self.deciding.state.entity.graph.rows)
some_live = precondition(lambda self: self.kinds_of(self.rows))
some_have_gone = precondition(lambda self: self.kinds_of(self.gone))


class UserRules(RuleBasedStateMachine):
    """The user, the clock, the tier, and what is the same for all kinds."""

    deciding: Deciding
    mixture: set[str]
    """The kinds that this user has, by name."""
    now_us: int
    made: int

    def ask(self, command: Command) -> Decided:
        """Carry out a command, and check what came of it."""
        raise NotImplementedError

    def rows(self, kind: Kind) -> list[Any]:
        return list(kind.rows(self.deciding.state.of(kind)))

    def id(self, own: int | None) -> str:
        """Return a new id, or one of the caller's own that was maybe used before."""
        self.made += 1
        return f"new{self.made}" if own is None else f"own{own}"

    def one(self, ids: Iterable[str], number: int) -> str:
        """Return one of these ids; now and then any that ever was, of whatever kind."""
        chosen = sorted(self.deciding.about if number % 16 == 15 else ids)
        return chosen[number // 16 % len(chosen)] if chosen else "none"

    def one_of(self, kind: Kind, number: int) -> str:
        """Return the id of a living memory of a kind, mostly."""
        return self.one([row.memory_id for row in self.rows(kind)], number)

    def undone(self, kind: CompactedKind, number: int) -> dict[str, Any]:
        """Return the fields of a command that undoes a compaction."""
        state = self.deciding.state.of(kind)
        memory_id = self.one([row.memory_id for row in kind.summaries(state)], number)
        row = kind.find(state, memory_id)
        event = None if row is None else self.deciding.log[row.version - 1].data
        ids = getattr(event, "compressed_from_ids", ())
        return {
            "memory_id": memory_id, "memory_ids": tuple(one for one in ids if one != "far"),
        }  # fmt: skip

    def gone(self, kind: Kind) -> list[str]:
        """Return the ids that a kind had, where they can come back."""
        if kind not in RESTORES:
            return []
        mine = set(kind.registry.classes())
        ever = {key for key, past in self.deciding.about.items() if type(past[0].data) in mine}
        return sorted(ever - living(self.deciding.state).keys())

    @rule(seconds=st.integers(-30, 30))
    def clock_jumps(self, seconds: int) -> None:
        self.now_us = max(0, self.now_us + seconds * SECOND_US)

    @precondition(lambda self: self.ends_us())
    @rule(number=ANY, after_us=st.integers(-1, 1))
    def clock_meets_an_end(self, number: int, after_us: int) -> None:
        ends_us = self.ends_us()
        self.now_us = ends_us[number % len(ends_us)] + after_us

    def ends_us(self) -> list[int]:
        """Return when sessions, memories and waits end."""
        state = self.deciding.state
        sessions, waits = state.short_term.sessions.values(), state.review.pending.values()
        return sorted({
            *(one.expires_at_us for one in sessions), *state.provenance.expires.values(),
            *(one.until_us for one in waits),
        })  # fmt: skip

    @rule(tier=st.sampled_from(Tier))
    def tier_changes(self, tier: Tier) -> None:
        self.ask(SetTier(now_us=self.now_us, tier=tier))

    def kinds_of(self, found: Callable[[Kind], Sequence[Any]]) -> list[Kind]:
        """Return the kinds of which something is found."""
        return [kind for kind in KINDS if found(kind)]

    @some_live
    @rule(which=ANY, number=ANY)
    def deletes_one(self, which: int, number: int) -> None:
        kinds = self.kinds_of(self.rows)
        kind = kinds[which % len(kinds)]
        memory_id = self.one_of(kind, number)
        self.ask(DELETES[kind](now_us=self.now_us, memory_id=memory_id))

    @some_have_gone
    @rule(which=ANY, numbers=st.lists(ANY, min_size=1, max_size=6))
    def restores_some(self, which: int, numbers: list[int]) -> None:
        kinds = self.kinds_of(self.gone)
        kind = kinds[which % len(kinds)]
        self.restore(kind, [self.one(self.gone(kind), number) for number in numbers])

    @some_have_gone
    @rule()
    def restores_what_went_last(self) -> None:
        for entry in reversed(self.deciding.log):
            for kind in RESTORES:
                gone = set(self.gone(kind))
                if named := [key for key in REGISTRY.keys(entry.data) if key in gone]:
                    self.restore(kind, named)
                    return

    def restore(self, kind: Kind, ids: Sequence[str]) -> None:
        self.ask(RESTORES[kind](now_us=self.now_us, memory_ids=tuple(ids)))
