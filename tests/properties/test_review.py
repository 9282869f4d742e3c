"""Properties of a review: what is pending is nowhere but in the review, and counts all the same."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import msgspec
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule
from properties.test_user_decider import FILLED, SIZES, UserMachine
from support import recount, room
from support.deciding import Decided, living
from support.user_rules import ANY

from memory_actors import QuotaExceededError
from memory_actors.kinds import user_state
from memory_actors.kinds.account import SetTier
from memory_actors.kinds.commands import Add, Command
from memory_actors.kinds.context.commands import AddEntry, DocumentRoom
from memory_actors.kinds.entity import AddEntity
from memory_actors.kinds.entity.relationships import Relate
from memory_actors.kinds.long_term import AddMemories, MemorySeen
from memory_actors.kinds.provenance import ExpireMemories
from memory_actors.kinds.review import TOTALS, MemoryHeld, Reject, ReviewClosed, approving
from memory_actors.kinds.tombstones import tombstones_of
from memory_actors.kinds.user_state import KINDS, UserState

CAN_WAIT = (AddMemories, AddEntity, Relate, AddEntry)
WAIT_US = 20_000_000
VERDICTS = st.sampled_from(["approve", "approve", "reject", "forget"])
some_wait = precondition(lambda self: self.state.review.pending)


class ReviewMachine(UserMachine):
    """A user whose adds need a review now and then, and who reads, approves and rejects."""

    def __init__(self) -> None:
        super().__init__()
        self.begins(((4, 80), (10, 200), (20, 400)))

    @initialize(sizes=st.tuples(SIZES, SIZES, SIZES), filled=FILLED)
    def begins(self, sizes: Any, _mixture: object = None, filled: Any = ()) -> None:
        """Begin with some that live and some that wait."""
        self.reviewed = False
        super().begins(sizes, {"long_term", "entity", "context"}, filled[::2])
        self.reviewed = True
        for number, text in enumerate(filled[1::2], 1):
            for name in sorted(self.mixture):
                getattr(self, f"fills_{name}")(number, text)

    @rule(reviewed=st.booleans())
    def settings_say(self, reviewed: bool) -> None:
        self.reviewed = reviewed

    def ask(self, command: Command) -> Decided:
        if self.reviewed and isinstance(command, CAN_WAIT) and command.approves is None:
            given = {"held_until_us": self.now_us + WAIT_US}
            if hasattr(command, "auto_prune"):
                given["auto_prune"] = False
            command = msgspec.structs.replace(command, **given)
        decided = self.deciding.ask(command)
        if isinstance(decided.command, Add) and decided.command.waits:
            self.nothing_began(decided)
            if decided.refusal is None:
                self.takes_its_room(decided)
        if not isinstance(command, SetTier):
            before, after = self.uses(decided.before), self.uses(decided.after)
            assert all(used <= max(limit, before[name][0]) for name, (used, limit) in after.items())
        return decided

    def _ask(self, command: Command) -> Decided:
        return self.ask(command)

    def nothing_began(self, decided: Decided) -> None:
        """Only a fact that is there counts as said again."""
        seen = [one for one in decided.events if isinstance(one.data, MemorySeen)]
        replayed = self.deciding.decider.fold(seen, decided.before)
        assert all(replayed.of(kind) == decided.after.of(kind) for kind in KINDS if not seen)
        assert living(decided.before).keys() == living(decided.after).keys()

    def takes_its_room(self, decided: Decided) -> None:
        """Pending memories take what the same add without a review would."""
        at_once = msgspec.structs.replace(decided.command, held_until_us=None)
        then = room.without_limits(decided, at_once)
        grown, was, there = Counter[str](), *map(self.uses, (decided.before, then))
        for (kind, quota), name in room.LIMITS.items():
            used, known = (uses.get(f"{kind}.{quota}", (0, 0))[0] for uses in (there, was))
            grown[name] = used - known
        held = [one.data.counted for one in decided.events if isinstance(one.data, MemoryHeld)]
        counted = sum(map(Counter, held), Counter[str]())
        assert +counted == Counter({name: grown[name] for name in TOTALS if grown[name] > 0})

    def uses(self, state: UserState) -> dict[str, tuple[int, int]]:
        """Count how much of each quota living and pending memories take."""
        uses = recount.fullest(recount.uses(state, self.limits))
        for (kind, quota), limit_name in room.LIMITS.items():
            if (name := f"{kind}.{quota}") in uses:
                used, limit = uses[name]
                uses[name] = used + state.review.counted.get(limit_name, 0), limit
        return uses

    def some_pending(self, number: int) -> tuple[str, Any]:
        ids = sorted(self.state.review.pending)
        memory_id = ids[number % len(ids)]
        return memory_id, self.deciding.log[self.state.review.pending[memory_id].version - 1]

    @some_wait
    @rule(verdicts=st.lists(st.tuples(ANY, VERDICTS), min_size=1, max_size=6))
    def some_are_reviewed(self, verdicts: list[tuple[int, str]]) -> None:
        for number, verdict in verdicts:
            if not self.state.review.pending:
                break
            memory_id, held = self.some_pending(number)
            if verdict == "approve":
                self.approve(memory_id, held)
            else:
                self.reject(memory_id, held.data.facts if verdict == "forget" else ())

    def approve(self, memory_id: str, held: Any) -> None:
        """It takes the room of its wait, and is refused if it was forgotten meanwhile."""
        command = approving(held.data, (), self.now_us, DocumentRoom())
        decided = self.ask(command)
        said = [self.state.tombstones.said_in(text) for text in held.data.facts]
        assert decided.refusal is not None or not any(said)
        if isinstance(decided.refusal, QuotaExceededError) and not held.data.entry:
            uses = self.uses(decided.before).values()
            assert any(used > limit for used, limit in uses)
        if decided.refusal is None:
            assert memory_id not in self.state.review.pending
            assert held.data.kind == "entity" or self.says_it(held.data)
            assert self.ask(command).refusal is not None, "it waits no longer"

    def says_it(self, held: MemoryHeld) -> bool:
        """Say whether a fact or an entry is there, under its own id or in the same words."""
        words: Any = held.words
        same = {getattr(words, "digest", b""), getattr(words, "same", b"")} - {b""}
        rows = [row for _, row in living(self.state).values()]
        return any(
            row.memory_id == words.memory_id
            or same & {getattr(row, "digest", b""), getattr(row, "same", b"")}
            for row in rows
        )

    def reject(self, memory_id: str, texts: Sequence[str]) -> None:
        stones = tombstones_of(texts, self.state.tombstones, b"key", self.now_us)
        command = Reject(now_us=self.now_us, memory_ids=(memory_id,), tombstones=stones)
        decided = self.ask(command)
        assert memory_id not in self.state.review.pending
        assert all(decided.before.of(kind) is decided.after.of(kind) for kind in KINDS)
        for other, one in sorted(self.state.review.pending.items()):
            same = self.deciding.log[one.version - 1]
            if any(map(self.state.tombstones.said_in, same.data.facts)):
                self.approve(other, same)

    @some_wait
    @rule(seconds=st.integers(0, 30))
    def time_goes_by(self, seconds: int) -> None:
        self.now_us += seconds * 1_000_000
        self.ask(ExpireMemories(now_us=self.now_us))
        pending = self.state.review.pending.values()
        assert self.state.account.holds or all(one.until_us > self.now_us for one in pending)

    @some_wait
    @rule(after_us=st.integers(-1, 1))
    def the_next_wait_ends(self, after_us: int) -> None:
        self.now_us = self.state.review.next_expiry_us + after_us
        self.time_goes_by(seconds=0)

    # --- what always holds

    @invariant()
    def what_is_pending_is_in_no_kind(self) -> None:
        assert not set(self.state.review.pending) & living(self.state).keys()

    @invariant()
    def pending_memories_are_those_that_the_log_has_left(self) -> None:
        waiting: dict[str, MemoryHeld] = {}
        for event in (entry.data for entry in self.deciding.log):
            if isinstance(event, MemoryHeld):
                waiting[event.memory_id] = event
            elif isinstance(event, ReviewClosed):
                waiting = {k: one for k, one in waiting.items() if k not in event.memory_ids}
        assert waiting.keys() == set(self.state.review.pending)
        counted = sum((Counter(one.counted) for one in waiting.values()), Counter[str]())
        assert counted == Counter(dict(self.state.review.counted))
        soonest_us = min((one.until_us for one in waiting.values()), default=0)
        assert self.state.review.next_expiry_us == soonest_us

    @invariant()
    def pending_memories_count_in_quotas_and_totals(self) -> None:
        uses, totals = self.uses(self.state), user_state.totals(self.state)
        for kind in KINDS:
            for use in self.state.quotas(kind, self.limits, None):
                assert (use.used, use.limit) == uses[f"{kind.NAME}.{use.quota}"]
        for name, total in TOTALS.items():
            kind_name, _, field = total.partition(".")
            kind = user_state.KIND_BY_NAME[kind_name]
            living = getattr(kind.tally(self.state.of(kind)), field)
            assert totals[total] == living + self.state.review.counted.get(name, 0)


TestReview = ReviewMachine.TestCase
TestReview.settings = settings(max_examples=15, stateful_step_count=40, deadline=None)


def test_what_waits_in_the_words_of_a_forgotten_memory_is_refused() -> None:
    machine = ReviewMachine()
    machine.begins(((10, 200),) * 3)
    for _ in range(2):
        machine.fills_long_term(0, "tea")
    machine.some_are_reviewed([(0, "forget")])
    assert len(machine.state.review.pending) == 1
