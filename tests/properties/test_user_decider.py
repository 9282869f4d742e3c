"""Properties of a user's whole memory under any sequence of commands of all kinds.

Small limits in three tiers, tiers that go up and down, clocks that jump in both directions.
"""

from collections.abc import Sequence
from typing import Any
from unittest.mock import patch

import msgspec
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule
from support import recount, room
from support.context_rules import ContextRules
from support.deciding import Decided, Deciding, Rows, living
from support.done import check_done, check_refused
from support.kind_rules import (
    WORDS,
    EntityRules,
    EpisodicRules,
    LongTermRules,
    ShortTermRules,
    StructuredRules,
    WorkingRules,
)
from support.user_rules import SECOND_US

from eventlog import Dropped, Recorded
from eventlog.core.records import DAY_US
from memory_actors import Limits, MemoryType, QuotaExceededError, RetentionRule, Tier, text_digest
from memory_actors.kinds import (
    entity,
    episodic,
    long_term,
    purging,
    short_term,
    snapshots,
    structured,
    user_state,
    working,
)
from memory_actors.kinds.account import AlertChanged, SetHold, SetTier
from memory_actors.kinds.commands import Add, Command, Restore
from memory_actors.kinds.compacting import Compress, Compressed, CompressionUndone, UndoCompression
from memory_actors.kinds.context.commands import ChangeDocument, EditEntry
from memory_actors.kinds.effects import Pruned
from memory_actors.kinds.episodic import AddStep, FinishEpisode
from memory_actors.kinds.episodic.events import EpisodeSummaryAdded
from memory_actors.kinds.kind import Kind
from memory_actors.kinds.long_term import MemoryReinstated, MemorySeen, SummaryAdded
from memory_actors.kinds.long_term.state import identity
from memory_actors.kinds.provenance import ExpireMemories, LifetimeSet
from memory_actors.kinds.rows import is_summary
from memory_actors.kinds.structured import DocumentPut, PutDocument
from memory_actors.kinds.user_state import COMPACTED, KIND_BY_NAME, KINDS, UserState
from memory_actors.kinds.working import KeySet, SetKey, UpdateKey


def tiny(tier: Tier, count: int, size: int) -> Limits:
    """Return limits of about so many of everything, in so many bytes."""
    return Limits(
        tier=tier,
        working_keys=count,
        working_bytes=size,
        short_term_messages=count,
        short_term_bytes=size,
        short_term_sessions=1 + count // 4,
        short_term_ttl_s=20,
        long_term_memories=2 * count,
        long_term_bytes=2 * size,
        entities=count,
        relationships=count + 1,
        entity_bytes=2 * size,
        episodes=1 + count // 2,
        episode_steps=count,
        episodic_bytes=2 * size,
        documents=count,
        structured_bytes=2 * size,
        context_documents=1 + count // 4,
        context_document_bytes=size,
        context_entries=count,
        context_bytes=2 * size,
    )


SIZES = st.tuples(st.integers(1, 10), st.integers(20, 200))
NAMES = st.sampled_from(sorted(KIND_BY_NAME))
MIXTURES = NAMES.map(lambda name: {name}) | st.sets(NAMES, min_size=1)
LIFETIMES_US = st.none() | st.integers(1, 30_000_000) | st.integers(1, 30).map(SECOND_US.__mul__)
FILLED = st.lists(WORDS, max_size=8)


class UserMachine(
    WorkingRules,
    ShortTermRules,
    LongTermRules,
    EntityRules,
    EpisodicRules,
    StructuredRules,
    ContextRules,
):
    """A user's decider, run as an actor runs it, beside a replay, a snapshot and a recount."""

    def __init__(self) -> None:
        super().__init__()
        self.begins(((2, 40), (4, 80), (10, 200)), set())
        self.levels: dict[str, str] = {}
        self.ever: set[str] = set()
        self.sessions: dict[str, int] = {}
        """When each session expires, by its last message."""
        self.originals: dict[str, list[Any]] = {}
        """The compressed memories, by their summary."""
        self.left: dict[str, tuple[Any, ...]] = {}
        """The last words of memories that have gone, by id."""
        self.holds: list[str] = []
        self.now_us = 1_000_000_000
        self.made = 0
        self.ttl_us: int | None = None
        self.expires: dict[str, int] = {}
        """When each memory expires, by what was asked."""

    @initialize(sizes=st.tuples(SIZES, SIZES, SIZES), mixture=MIXTURES, filled=FILLED)
    def begins(
        self, sizes: tuple[tuple[int, int], ...], mixture: set[str], filled: Sequence[str] = ()
    ) -> None:
        """Begin with kinds that hold something: otherwise few examples come near a limit."""
        self.mixture = mixture
        tiers = {
            tier: tiny(tier, *size) for tier, size in zip(Tier, (sizes[1], *sizes), strict=True)
        }
        self.limits_by_tier = {**tiers, None: tiers[Tier.LOCAL]}
        self.deciding = Deciding(self.limits_by_tier)
        self.snapshot = (snapshots.dump(self.state), 0)
        for number, text in enumerate(filled):
            for name in sorted(mixture):
                getattr(self, f"fills_{name}")(number, text)

    @property
    def state(self) -> UserState:
        return self.deciding.state

    @property
    def limits(self) -> Limits:
        return self.limits_by_tier[self.state.account.tier]

    def ask(self, command: Command) -> Decided:
        """Ask as a handle does: what has expired goes first, and an add says when its own does."""
        if any(at_us <= self.now_us for at_us in self.expires.values()):
            self.expire()
        if isinstance(command, Add) and self.ttl_us is not None:
            at_us = self.now_us + self.ttl_us
            command = msgspec.structs.replace(command, expires_at_us=at_us)
        decided = self._ask(command)
        self.follow_lifetimes(decided)
        return decided

    def expire(self) -> None:
        """Exactly what is out of time goes, with the relationships of its entities."""
        due = {one for one, at_us in self.expires.items() if at_us <= self.now_us}
        decided = self._ask(ExpireMemories(now_us=self.now_us))
        if self.state.account.holds:
            assert not decided.events
            return
        before, after = living(decided.before), living(decided.after)
        gone = before.keys() - after.keys()
        assert due <= gone
        for memory_id in gone - due:
            row = before[memory_id][1]
            assert {row.source_id, row.target_id} & due, "only a relationship goes with others"
        self.expires = {one: at_us for one, at_us in self.expires.items() if one in after}

    def follow_lifetimes(self, decided: Decided) -> None:
        """A new memory has the lifetime of its add; a fact that was said again, the longer one.

        A heading that comes with an entry has none. A restored memory has the lifetime that it had
        last, or as much again if that is over.
        """
        before, after = living(decided.before), living(decided.after)
        self.expires = {one: at_us for one, at_us in self.expires.items() if one in after}
        if isinstance(decided.command, Restore):
            for memory_id in after.keys() - before.keys():
                self.set_lifetime(memory_id, self.lifetime_again(memory_id, decided))
        if isinstance(decided.command, Add):
            for memory_id in after.keys() - before.keys():
                if getattr(after[memory_id][1], "heading", None) is None:
                    self.set_lifetime(memory_id, decided.command.expires_at_us)
            for memory_id in after.keys() & before.keys():
                kind, row = after[memory_id]
                known_us = self.expires.get(memory_id)
                if kind is long_term.KIND and row != before[memory_id][1] and known_us is not None:
                    asked_us = decided.command.expires_at_us
                    longer_us = None if asked_us is None else max(known_us, asked_us)
                    self.set_lifetime(memory_id, longer_us)
                elif memory_id in self.put(decided) | (
                    decided.named if kind is entity.KIND else set()
                ):
                    self.set_lifetime(memory_id, decided.after.provenance.expires.get(memory_id))

    def put(self, decided: Decided) -> set[str]:
        """Return what a value was put into, the same or another: it has the lifetime of that."""
        about = None
        if isinstance(decided.command, SetKey):
            held = working.KIND.named(decided.after.working, decided.command.entry.key)
            about = None if held is None else held.memory_id
        if isinstance(decided.command, PutDocument):
            put = decided.command.document
            row = decided.after.structured.named(put.collection, put.key)
            about = None if row is None else row.memory_id
        if about is not None and decided.refusal is None:
            known = decided.after.provenance.expires.get(about)
            used = getattr(decided.command, "used", {})
            assert known == decided.command.expires_at_us or used
        return set() if about is None else {about}

    def lifetime_again(self, memory_id: str, decided: Decided) -> int | None:
        """Return when a memory expires that comes back, by the log of its earlier lives."""
        earlier = self.deciding.log[: len(self.deciding.log) - len(decided.events)]
        said = [entry for entry in earlier if isinstance(entry.data, LifetimeSet)]
        mine = [entry for entry in said if entry.data.memory_id == memory_id]
        if not mine or mine[-1].data.expires_at_us is None:
            return None
        at_us, now_us = mine[-1].data.expires_at_us, decided.command.now_us
        return at_us if at_us > now_us else now_us + at_us - mine[-1].recorded_at_us

    def set_lifetime(self, memory_id: str, at_us: int | None) -> None:
        self.expires.pop(memory_id, None)
        if at_us is not None:
            self.expires[memory_id] = at_us

    @initialize(ttl_us=LIFETIMES_US)
    def first_adds_live_so_long(self, ttl_us: int | None) -> None:
        self.ttl_us = ttl_us

    @rule(ttl_us=LIFETIMES_US)
    def adds_live_so_long(self, ttl_us: int | None) -> None:
        self.ttl_us = ttl_us

    @precondition(lambda self: len(self.state.account.holds) < 2)
    @rule()
    def is_held(self) -> None:
        self.made += 1
        self.holds.append(f"hold{self.made}")
        self._ask(SetHold(now_us=self.now_us, hold_id=self.holds[-1], reason="case"))
        assert self.state.account.holds == tuple(self.holds)

    @precondition(lambda self: self.state.account.holds)
    @rule()
    def is_released(self) -> None:
        self._ask(SetHold(now_us=self.now_us, hold_id=self.holds.pop(0)))
        assert self.state.account.holds == tuple(self.holds)

    @rule(seconds=st.integers(1, 40), name=st.none() | NAMES, renews=st.booleans())
    def retains(self, seconds: int, name: str | None, renews: bool) -> None:
        """Exactly the memories go whose newest words are too old for a rule; under a hold none.

        A fact that is reworded before its turn stays.
        """
        kind_named = None if name is None else MemoryType(name)
        limit = RetentionRule(days=seconds / 86_400, memory_type=kind_named)
        since_us = self.now_us - int(limit.days * DAY_US)
        with patch.object(purging, "PURGED_AT_ONCE", 2):
            commands = purging.applied([limit], "u", KINDS, self.state, self.now_us)
        if renews and (facts := self.rows(long_term.KIND)):
            self.updates_a_memory(number=0, text=facts[0].memory_id, metadata=None)
        before = living(self.state)
        for command in commands:
            self._ask(command)
        after = living(self.state)
        self.expires = {one: at_us for one, at_us in self.expires.items() if one in after}
        gone = before.keys() - after.keys()
        assert not (gone and self.state.account.holds)
        for kind, row in (before[one] for one in gone):
            told = {self.deciding.log[version - 1].recorded_at_us for version in kind.sources(row)}
            ends = {getattr(row, end, "") for end in ("source_id", "target_id")}
            last_us = max(told, default=row.created_at_us)  # a key has no words in the log
            assert is_summary(row) or last_us < since_us or ends & gone
        for memory_id, (kind, row) in after.items():
            about = max(past.recorded_at_us for past in self.deciding.about[memory_id])
            is_other = name not in (None, kind.NAME) or is_summary(row)
            assert is_other or about >= since_us or self.state.account.holds

    def _ask(self, command: Command) -> Decided:
        was, version = snapshots.fingerprint(self.state), len(self.deciding.log)
        decided = self.deciding.ask(command)
        if not decided.events:
            assert snapshots.fingerprint(decided.after) == was, "events alone change a state"
        assert snapshots.fingerprint(decided.before) == was, "a decision changes nothing"
        if not isinstance(command, SetTier):
            room.check(decided, self.limits, version)
        if decided.refusal is not None:
            self.check_refusal(decided.command, decided.refusal)
            check_refused(decided)
            self.check_metadata_may_change(decided)
            return decided
        check_done(decided)
        self.follow_sessions(decided)
        self.check_said(decided)
        self.check_limits(decided)
        self.check_lives(decided, living(decided.before), living(decided.after))
        self.check_alerts(decided)
        self.check_satisfied(decided)
        self.check_compaction(decided)
        self.check_comes_back(decided)
        return decided

    # --- what holds of each command

    def check_refusal(self, command: Command, refusal: Exception) -> None:
        """A command refused for lack of room asked for some; the refusal says whose limit it is."""
        if isinstance(refusal, QuotaExceededError):
            assert asks_for_room(command)
            own = [limit for _, limit in recount.uses(self.state, self.limits).values()]
            each = [self.limits.episode_steps, self.limits.context_document_bytes]
            assert refusal.limit in [*own, *each]
            assert refusal.tier == self.limits.tier

    def check_metadata_may_change(self, decided: Decided) -> None:
        """A change of metadata alone is refused only where it is about no such memory."""
        command = decided.command
        if isinstance(command, UPDATES) and not asks_for_room(command):
            about = getattr(command, "change", command).memory_id
            kind, row = living(decided.before.at(self.now_us)).get(about, (None, None))
            if isinstance(command, entity.UpdateEntity | entity.UpdateRelationship):
                is_entity = isinstance(command, entity.UpdateEntity)
                kind = kind if isinstance(row, entity.EntityRow) == is_entity else None
            assert kind is None or not isinstance(command, kind.COMMANDS)

    def follow_sessions(self, decided: Decided) -> None:
        """A session lives for a whole time again from its last message on, and no message else."""
        sessions = decided.after.short_term.sessions
        if isinstance(decided.command, short_term.AddMessage) and decided.events:
            ends_us = decided.command.now_us + self.limits.short_term_ttl_s * 1_000_000
            self.sessions[decided.command.message.session_id] = ends_us
        self.sessions = {name: us for name, us in self.sessions.items() if name in sessions}
        assert {name: one.expires_at_us for name, one in sessions.items()} == self.sessions

    def check_limits(self, decided: Decided) -> None:
        """Nothing passes its limit; what is above one since that was lowered never grows."""
        before = recount.uses(decided.before, self.limits)
        for name, (used, limit) in recount.uses(decided.after, self.limits).items():
            was, _ = before.get(name, (0, 0))
            assert used <= max(limit, was), name

    def check_lives(self, decided: Decided, before: Rows, after: Rows) -> None:
        """Every memory that comes, changes or goes is named.

        None comes back but by a restore or under a key, and no pinned one is made to go.
        """
        changed = {one for one in before.keys() | after.keys() if before.get(one) != after.get(one)}
        assert changed <= decided.named
        born = after.keys() - before.keys()
        events = [entry.data for entry in decided.events]
        kept_by_key = {e.memory_id for e in events if isinstance(e, KeySet | DocumentPut)}
        assert isinstance(decided.command, Restore) or not born & self.ever - kept_by_key
        self.ever |= born
        for gone in [gone for event in events for gone in made_to_go(event)]:
            assert not getattr(before[gone][1], "pinned", False)

    def check_said(self, decided: Decided) -> None:
        """A memory that was to be changed is changed, and every text is found by its own digest."""
        command, before, after = decided.command, living(decided.before), living(decided.after)
        if isinstance(command, UPDATES):
            told = getattr(command, "change", command)
            kind, row = after[told.memory_id]
            if told.metadata is not None:
                assert row.metadata == told.metadata
            if (content := getattr(told, "content", None)) is not None:
                assert content in str(self.says(kind, row))
        for memory_id in [one for one in after if after[one] != before.get(one)]:
            kind, row = after[memory_id]
            events = {version: self.deciding.log[version - 1] for version in kind.sources(row)}
            for passage in kind.passages(row):
                text = kind.passage_text(row, passage.label, events)
                assert passage.digest in (b"", text_digest(text))
        if kind_of(command) == "short_term" and decided.events:
            assert not decided.after.short_term.due(self.now_us), "who is out of time is named"

    def check_alerts(self, decided: Decided) -> None:
        """An alert is recorded exactly when a level changes, with the use that changed it."""
        uses = recount.fullest(recount.uses(decided.after, self.limits))
        expected = {}
        for quota, (used, limit) in uses.items():
            was = self.levels.get(quota)
            level = None if quota in recount.SILENT else recount.level(used, limit, was)
            if level != was:
                expected[quota] = (level, was, used, limit)
        alerts = [entry.data for entry in decided.events if isinstance(entry.data, AlertChanged)]
        assert len(alerts) == len(expected)
        assert {a.quota: (a.level, a.was, a.used, a.limit) for a in alerts} == expected
        changed = {quota: level for quota, (level, *_) in expected.items()}
        self.levels = {quota: level for quota, level in (self.levels | changed).items() if level}
        assert decided.after.account.levels == self.levels

    def check_satisfied(self, decided: Decided) -> None:
        """To add, to change, to restore or to compress again changes nothing.

        But the row of a message does not know its text.
        """
        again = isinstance(decided.command, (Add, Restore, Compress, *UPDATES))
        again = again and not isinstance(decided.command, short_term.UpdateMessage)
        if again and not isinstance(decided.command, UndoCompression):
            again = self.deciding.enriched(decided.command)
            events = self.deciding.decider.decide(again, decided.after)
            # A copy within the command that was counted is counted again; and to restore a
            # superseded memory that has come back says that it holds.
            lasting = (MemorySeen, MemoryReinstated)
            assert not [one for one in events if not isinstance(one, lasting)]

    def check_compaction(self, decided: Decided) -> None:
        """A summary takes the place of exactly the originals it names, and they can come back."""
        before, after = living(decided.before), living(decided.after)
        for version, event in ((entry.version, entry.data) for entry in decided.events):
            if isinstance(event, Compressed):
                assert before.keys() - after.keys() == set(event.compressed_from_ids)
                for memory_id, read in decided.command.originals:
                    row = before[memory_id][1]
                    assert row.version == read, "none has changed since it was read"
                    assert not any((row.pinned, row.keep, row.original_count))
                assert after.keys() - before.keys() == {event.memory_id}
                self.originals[event.memory_id] = [
                    self.says(*before[one]) for one in event.compressed_from_ids
                ]
            elif isinstance(event, SummaryAdded | EpisodeSummaryAdded):
                ids = set(event.compressed_from_ids)
                assert not ids <= after.keys(), "it would say again what its originals say"
            elif isinstance(event, CompressionUndone):
                assert event.memory_id not in after
                self.check_undone(decided, event.memory_id, version)

    def check_undone(self, decided: Decided, summary: str, version: int) -> None:
        """A restored memory is as it was, unless it changed since, or fewer steps may stay."""
        ids, after = decided.command.memory_ids, living(decided.after)
        back, were = [self.says(*after[one]) for one in ids], self.originals.get(summary, [])
        steps = max((len((data or {}).get("steps", ())) for _, _, data, *_ in were), default=0)
        if self.untouched(ids, version) and steps <= self.limits.episode_steps:
            assert back == were

    def check_comes_back(self, decided: Decided) -> None:
        """A restored memory has its old content, and of an episode as many steps as fit."""
        before, after = living(decided.before), living(decided.after)
        if isinstance(decided.command, Restore):
            for memory_id in after.keys() - before.keys() & self.left.keys():
                (_, *was), (_, *now) = self.left[memory_id], self.says(*after[memory_id])
                steps, most = (was[1] or {}).get("steps", ()), self.limits.episode_steps
                if after[memory_id][0] is episodic.KIND and len(steps) > most:
                    assert len(now[1]["steps"]) == most
                else:
                    assert now == was
        for memory_id in before.keys() - after.keys():
            if before[memory_id][0] in (long_term.KIND, episodic.KIND, structured.KIND):
                self.left[memory_id] = self.says(*before[memory_id])

    def untouched(self, memory_ids: Sequence[str], undone: int) -> bool:
        """Say whether nothing happened to originals while their summary stood for them."""
        about = ([past for past in self.deciding.about[one] if past.version < undone]
                 for one in memory_ids)  # fmt: skip
        return all(isinstance(past[-1].data, Compressed) for past in about)

    def says(self, kind: Kind, row: Any) -> tuple[Any, ...]:
        """Return what a memory is, wherever its texts lie."""
        events = {version: self.deciding.log[version - 1] for version in kind.sources(row)}
        texts = (kind.content(row, events), kind.data(row, events))
        return (row.memory_id, *texts, row.occurred_at_us, row.created_at_us, row.metadata)

    # --- what always holds

    @rule()
    def takes_a_snapshot(self) -> None:
        self.snapshot = snapshots.dump(self.state), len(self.deciding.log)

    @invariant()
    def counts_and_bytes_equal_a_recount(self) -> None:
        for kind in KINDS:
            state = self.state.of(kind)
            assert kind.tally(state) == recount.tally(kind, state, self.deciding.log)

    @invariant()
    def what_is_used_of_each_quota_equals_a_recount(self) -> None:
        counted = recount.fullest(recount.uses(self.state, self.limits))
        for kind in KINDS:
            for use in kind.quotas(self.state.of(kind), self.limits, None):
                assert (use.used, use.limit) == counted[f"{kind.NAME}.{use.quota}"]

    @invariant()
    def the_changes_of_the_totals_add_up(self) -> None:
        totals = user_state.totals(self.state)
        assert all(totals[name] == self.deciding.totals[name] for name in totals)

    @invariant()
    def duplicates_are_known_as_after_a_snapshot(self) -> None:
        state = self.state.long_term
        loaded = long_term.KIND.load(long_term.KIND.dump(state))
        for row in long_term.KIND.rows(state):
            said = identity(row)
            assert state.saying(said) == loaded.saying(said)
            assert bool(row.original_count) != (row.memory_id in state.saying(said))

    @invariant()
    def a_relationship_has_both_its_ends(self) -> None:
        entities = self.state.entity
        for row in entities.graph.rows.values():
            assert {row.source_id, row.target_id} <= set(entities.rows)

    @invariant()
    def what_has_expired_is_not_read(self) -> None:
        now = self.state.at(self.now_us).short_term
        assert all(s.expires_at_us > self.now_us for s in now.sessions.values())
        assert all(
            short_term.KIND.find(now, row.memory_id) is row for row in short_term.KIND.rows(now)
        )

    @invariant()
    def lifetimes_are_known_and_what_is_over_is_not_read(self) -> None:
        assert dict(self.state.provenance.expires) == self.expires, "lifetimes"
        soonest_us = min(self.expires.values(), default=0)
        assert self.state.provenance.next_expiry_us == soonest_us
        read = living(self.state.at(self.now_us))
        if self.state.account.holds:  # under one sessions still end
            messages = {row.memory_id for row in short_term.KIND.rows(self.state.short_term)}
            assert self.expires.keys() - messages <= read.keys()
            return
        assert not [
            one for one, at_us in self.expires.items() if at_us <= self.now_us and one in read
        ]
        sessions = short_term.KIND.at(self.state.short_term, self.now_us)
        for memory_id, (kind, row) in living(self.state).items():
            ends = [self.expires.get(memory_id, self.now_us + 1)]
            ends += [self.expires.get(getattr(row, name, ""), self.now_us + 1)
                     for name in ("source_id", "target_id")]  # fmt: skip
            if min(ends) > self.now_us and (
                kind is not short_term.KIND or short_term.KIND.find(sessions, memory_id)
            ):
                assert memory_id in read

    @precondition(lambda self: len(self.deciding.log) % 4 == 0)
    @invariant()
    def live_is_replay_is_snapshot_and_tail(self) -> None:
        self.check_replay()

    def teardown(self) -> None:
        self.check_replay()

    def check_replay(self) -> None:
        decider, log = self.deciding.decider, self.deciding.log
        live = snapshots.fingerprint(self.state)
        assert snapshots.fingerprint(decider.fold(log)) == live
        assert snapshots.fingerprint(decider.fold(self.dropped(log))) == live
        data, version = self.snapshot
        loaded = snapshots.load(data)
        assert snapshots.dump(loaded) == data
        assert snapshots.fingerprint(decider.fold(log[version:], loaded)) == live

    def dropped(self, log: Sequence[Recorded[Any]]) -> list[Recorded[Any]]:
        """Return the log as it is read when retention has dropped what compaction archived."""
        gone = set()
        for entry in log:
            if isinstance(entry.data, Compressed):
                mine = {id(past) for one in entry.data.compressed_from_ids
                        for past in self.deciding.about[one] if past.version < entry.version
                        and any(kind.is_own(past.data) for kind in COMPACTED)}  # fmt: skip
                gone |= mine
        mark = Dropped(since_us=1)
        return [
            msgspec.structs.replace(entry, data=mark) if id(entry) in gone else entry
            for entry in log
        ]


def kind_of(command: Any) -> str | None:
    """Return the name of the kind that a command is about, None if it is about none."""
    return next((kind.NAME for kind in KINDS if isinstance(command, kind.COMMANDS)), None)


def asks_for_room(command: Any) -> bool:
    """Say whether a command says something new. To set a key again takes the room of its value."""
    if isinstance(command, ASK_FOR_ROOM):
        return True
    told = getattr(command, "change", command)
    return getattr(told, "content", getattr(told, "value", None)) is not None


def made_to_go(event: Any) -> tuple[str, ...]:
    """Return the ids that an event takes away to make room."""
    return event.memory_ids if isinstance(event, Pruned) else getattr(event, "evicted_ids", ())


UPDATES = (
    UpdateKey, short_term.UpdateMessage, long_term.UpdateMemory, entity.UpdateEntity,
    entity.UpdateRelationship, episodic.UpdateEpisode, structured.UpdateDocument, EditEntry,
)  # fmt: skip
ASK_FOR_ROOM = (
    Add, Restore, AddStep, FinishEpisode, UpdateKey, Compress, ChangeDocument, EditEntry,
)  # fmt: skip

TestUserDecider = UserMachine.TestCase
TestUserDecider.settings = settings(max_examples=50, stateful_step_count=50, deadline=None)


def test_a_message_that_expired_and_is_added_again_takes_no_room() -> None:
    """Found by the machine once in some hundred runs: the id was used, so nothing is added."""
    machine = UserMachine()
    machine.begins(((1, 20), (1, 20), (1, 20)), {"short_term"})
    machine.adds_a_message(session="s", text="a", own=0, metadata={})
    machine.clock_jumps(20)
    machine.adds_a_message(session="t", text="a", own=0, metadata={})
    assert not machine.deciding.state.at(machine.now_us).short_term.sessions


def test_a_memory_that_stands_for_one_that_is_skipped_is_not_pruned_for_another() -> None:
    """Found by the machine once in some thousand runs."""
    machine = UserMachine()
    machine.begins(((1, 20), (1, 20), (1, 20)), {"long_term"})
    held = [(None, "newer", 1, False, {}), (None, "older", 0, False, {})]
    machine.adds_memories(items=held, prune=False, on_duplicate="keep")
    said = [(None, "older", 0, False, {}), (None, "new", 0, False, {})]
    machine.adds_memories(items=said, prune=True, on_duplicate="skip")
    left = machine.deciding.state.long_term.rows.values()
    assert {row.digest for row in left} == {text_digest("older"), text_digest("new")}


@pytest.mark.parametrize("prune", [False, True])
def test_documents_meet_their_limits_exactly_when_put_and_restored(prune: bool) -> None:
    """The oracle of room tries each step at the limit that it meets exactly, and one below."""
    machine = UserMachine()
    machine.begins(((10, 200), (10, 200), (10, 200)), {"structured"})
    for number, key in enumerate(("k1", "k2", "k3")):
        machine.puts_a_document(
            collection="s", key=key, value="x" * (20 + number), own=None, at=number, metadata={},
            pinned=False, prune=prune,
        )  # fmt: skip
    machine.deletes_one(which=0, number=0)
    machine.deletes_one(which=0, number=0)
    machine.restores_what_went_last()
    machine.deletes_one(which=0, number=0)
    machine.restores_some(which=0, numbers=[0, 16])
    assert len(machine.rows(structured.KIND)) == 3


def test_a_prune_takes_a_tenth_of_those_that_are_there_rounded_down() -> None:
    machine = UserMachine()
    machine.begins(((19, 2_000),) * 3, {"structured"})
    for number in range(20):
        machine.puts_a_document(
            collection="s", key=f"k{number}", value="x", own=None, at=number, metadata={},
            pinned=False, prune=True,
        )  # fmt: skip
    assert len(machine.rows(structured.KIND)) == 19


def test_of_two_sessions_each_ends_at_its_own_time() -> None:
    machine = UserMachine()
    machine.begins(((10, 200),) * 3, {"short_term"})
    for session in ("s", "t"):
        machine.adds_a_message(session=session, text="a", own=None, metadata={})
        machine.clock_jumps(10)
    machine.what_has_expired_is_not_read()
    assert list(machine.state.at(machine.now_us).short_term.sessions) == ["t"]


def test_under_two_holds_nothing_goes_by_time_until_both_are_released() -> None:
    machine = UserMachine()
    machine.begins(((10, 200),) * 3, {"long_term"})
    machine.adds_live_so_long(5 * SECOND_US)
    machine.fills_long_term(0, "a")
    for rule_ in (machine.is_held, machine.is_held, machine.is_released):
        rule_()
    machine.clock_jumps(30)
    machine.expire()
    machine.retains(seconds=1, name=None, renews=False)
    machine.lifetimes_are_known_and_what_is_over_is_not_read()
    machine.is_released()
    machine.lifetimes_are_known_and_what_is_over_is_not_read()
    machine.expire()
    assert not machine.rows(long_term.KIND)


def test_a_rule_deletes_all_old_facts_but_one_that_was_reworded_meanwhile() -> None:
    machine = UserMachine()
    machine.begins(((10, 200),) * 3, {"long_term"}, "abcde")
    machine.clock_jumps(30)
    machine.retains(seconds=20, name=None, renews=True)
    assert len(machine.rows(long_term.KIND)) == 1


def test_a_fact_that_was_said_again_is_pruned_after_a_newer_one() -> None:
    machine = UserMachine()
    machine.begins(((1, 200),) * 3, {"long_term"}, "ab")
    oldest = min(range(2), key=lambda n: machine.rows(long_term.KIND)[n].occurred_at_us)
    machine.says_a_memory_again(number=oldest, at=9, prune=False, metadata=None)
    machine.fills_long_term(2, "c")
    left = {row.digest for row in machine.rows(long_term.KIND)}
    assert left == {text_digest("a"), text_digest("c")}


def test_a_relationship_gives_its_room_back_with_the_older_of_its_ends() -> None:
    machine = UserMachine()
    machine.begins(((10, 20),) * 3, {"entity"})
    for at, name in enumerate(("Ann", "Bob")):
        machine.add_entity(name, "person", [], at, prune=True)
    machine.relates(
        ends=(16, 0), relation="knows", own=None, since=0, lasts=None, fact="x" * 20,
        exclusive=False, metadata={}, pinned=False, prune=False,
    )  # fmt: skip
    machine.add_entity("Cid", "person", ["y" * 10], 2, prune=True)
    assert {row.name for row in machine.rows(entity.KIND)} == {"Bob", "Cid"}
