"""A memory system as a state machine: all kinds, clients that race, reopened at any moment."""

import asyncio
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from memory_actors import (
    ClusterReport,
    GlobalQuotaExceededError,
    Limits,
    Memory,
    MemorySystem,
    Receipt,
    Tier,
)
from memory_actors.base.streams import stream_of
from memory_actors.compaction import throttling
from memory_actors.kinds import user_state
from memory_actors.search.retrieval import COMPRESSED_SCORE_MIN
from memory_actors.users import live_user
from support.clients import (
    ACTS,
    ANY,
    EVIL,
    GLOBAL_LIMITS,
    GROWTH,
    KINDS,
    RACES,
    REFUSALS,
    SETTINGS,
    SHORT,
    SUMMARIZER,
    TEXTS,
    USERS,
    Act,
    Held,
    plain,
)
from support.fakes import FakeClock, FakeEmbedder, FakeIds


class SystemMachine(RuleBasedStateMachine):
    """Three users on one store, each with a model of what their receipts promise."""

    @initialize()
    def start(self) -> None:
        self.usual = live_user.SNAPSHOT_MIN_EVENTS, throttling.REST_S_MAX
        live_user.SNAPSHOT_MIN_EVENTS = 1  # every passivation leaves a snapshot to start from
        throttling.REST_S_MAX = 0.0  # nobody is to notice compaction less
        self.directory = tempfile.TemporaryDirectory()
        self.runner = asyncio.Runner()
        self.clock, self.embedder, self.ids = FakeClock(), FakeEmbedder(), FakeIds()
        self.held = {name: Held() for name in USERS}
        self.keyed: dict[tuple[str, str], tuple[str, str]] = {}
        self.seen: dict[str, tuple[live_user.LiveUser, int]] = {}
        self.run(self.open())

    def teardown(self) -> None:
        self.run(self.stack.aclose())
        self.runner.close()
        self.directory.cleanup()
        live_user.SNAPSHOT_MIN_EVENTS, throttling.REST_S_MAX = self.usual

    def run(self, call: Any) -> Any:
        return self.runner.run(call)

    async def open(self) -> None:
        self.stack = AsyncExitStack()
        self.memory = await self.stack.enter_async_context(self.opening())

    @property
    def path(self) -> Path:
        return Path(self.directory.name)

    def opening(self) -> Any:
        return MemorySystem.open(
            self.path, embedder=self.embedder, clock=self.clock, new_id=self.ids,
            settings=SETTINGS, alerts=[], summarizer=SUMMARIZER,
        )  # fmt: skip

    # --- what clients do

    async def carry_out(self, name: str, act: Act) -> list[tuple[Act, Receipt]]:
        """Carry out an act with a handle of its own; return the receipts, [] if refused."""
        try:
            return [(act, receipt) for receipt in await self.receipts(name, act)]
        except REFUSALS:
            return []

    async def receipts(self, name: str, act: Act) -> list[Receipt]:
        user = self.memory.user(name, session_id=f"s{act.number % 2}", source=act.source)
        held = self.held[name]
        match act.does:
            case "add":
                return [await user.add(act.text, act.kind, memory_id=act.own_id)]
            case "prune":
                return [await user.add_with_auto_prune(act.text, act.kind, memory_id=act.own_id)]
            case "update":
                return [await user.update(act.one(held.some_of(act.kind)), content=act.text)]
            case "delete":
                return [await user.delete(act.one(held.some_of(act.kind)))]
            case "restore":
                return await user.restore(held.gone(act.kind)[-1 - act.number % 3 :])
            case "relate":
                return [await self.relate(name, act)]
            case "step":
                return [await user.episodes.step(act.one(held.of("episodic")), act.text)]
            case "finish":
                return [await user.episodes.finish(act.one(held.of("episodic")), act.text)]
        await self.set_tier(name, act.one(list(Tier)))
        return []

    async def relate(self, name: str, act: Act) -> Receipt:
        held, prune = self.held[name], act.number % 2 == 0
        entities = [one for one in held.of("entity") if one not in held.ends]
        ends = act.one(entities), act.one(entities[1:])
        user = self.memory.user(name, source=act.source)
        receipt = await user.entities.relate(ends[0], "knows", ends[1], auto_prune=prune)
        held.ends.setdefault(receipt.memory_id, ends)
        return receipt

    async def set_tier(self, name: str, tier: str) -> None:
        self.held[name].tiers.add(Tier(tier))
        await self.memory.user(name).set_tier(tier)

    # --- rules

    @rule()
    def reopens(self) -> None:
        before = self.run(self.memory.usage()).counts
        self.run(self.stack.aclose())
        self.run(self.open())
        assert self.run(self.memory.usage()).counts == before

    @rule(seconds=st.integers(-5_000, 5_000))
    def clock_jumps(self, seconds: int) -> None:
        self.clock.move(seconds)

    @rule(name=st.sampled_from(USERS), act=ACTS)
    def one_client_acts(self, name: str, act: Act) -> None:
        before, totals = self.version(name), self.run(self.memory._log.totals())
        try:
            receipts = self.run(self.receipts(name, act))
        except REFUSALS as refusal:
            assert self.version(name) == before, "a refused command changes nothing"
            if isinstance(refusal, GlobalQuotaExceededError):
                self.check_refused_for_all(act, refusal, totals)
        else:
            self.held[name].note([(act, receipt) for receipt in receipts])

    def check_refused_for_all(
        self, act: Act, refusal: GlobalQuotaExceededError, totals: Mapping[str, int]
    ) -> None:
        """A refusal tells the total of all users, and an add that fits exactly is not refused."""
        by_limit = {
            GLOBAL_LIMITS.long_term_bytes: "long_term.size_bytes",
            GLOBAL_LIMITS.entities: "entity.count",
            GLOBAL_LIMITS.relationships: "entity.relationships",
        }
        assert refusal.used == totals.get(by_limit[refusal.limit], 0)
        if act.does == "add":
            more = len(act.text.encode()) if refusal.unit == "bytes" else 1
            assert refusal.used + more > refusal.limit, "what meets a limit exactly fits"

    def version(self, name: str) -> int:
        return self.run(self.live(name)).actor.version

    async def live(self, name: str) -> live_user.LiveUser:
        async with self.memory._services.runtime.use(stream_of(name)) as live:
            return live

    @rule(name=st.sampled_from(USERS), text=TEXTS)
    def settles_in(self, name: str, text: str) -> None:
        for kind in ("entity", "entity", "episodic", "structured"):
            self.one_client_acts(name, Act("prune", kind, text, 0))
            text = f"{text[:20]} {len(self.held[name].ever)}"
        for does in ("relate", "step"):
            self.one_client_acts(name, Act(does, "", "red", 0))

    @rule(name=st.sampled_from(USERS), acts=RACES)
    def clients_of_one_user_race(self, name: str, acts: list[Act]) -> None:
        self.race({name: plain(acts)})

    @rule(name=st.sampled_from(USERS), kind=KINDS, text=TEXTS, count=st.integers(2, 6))
    def clients_of_one_user_fill_a_kind(self, name: str, kind: str, text: str, count: int) -> None:
        self.race({name: [Act("add", kind, f"{text} {n}", n) for n in range(count)]})

    @rule(acts=st.tuples(GROWTH, GROWTH, GROWTH))
    def users_race(self, acts: tuple[list[Act], ...]) -> None:
        self.race({name: plain(mine) for name, mine in zip(USERS, acts, strict=True)})

    def race(self, acts: dict[str, list[Act]]) -> None:
        async def all_at_once() -> list[list[tuple[Act, Receipt]]]:
            calls = [self.carry_out(name, act) for name, mine in acts.items() for act in mine]
            return await asyncio.gather(*calls)

        owners = [name for name, mine in acts.items() for _ in mine]
        said = list(zip(owners, self.run(all_at_once()), strict=True))
        for name in acts:
            self.held[name].note([pair for owner, pairs in said if owner == name for pair in pairs])

    @rule(name=st.sampled_from(USERS), text=TEXTS, key=st.sampled_from(["k1", "k2"]))
    def adds_with_a_key_twice(self, name: str, text: str, key: str) -> None:
        act, user = Act("add", "long_term", text, 0), self.memory.user(name)
        try:
            receipt = self.run(user.add(act.text, idempotency_key=key))
        except REFUSALS:
            return
        first = self.keyed.setdefault((name, key), (text, receipt.memory_id))
        assert first == (text, receipt.memory_id), "a key stands for one request, for ever"
        before = self.version(name)
        again = self.run(user.add(act.text, idempotency_key=key))
        assert again.memory_id == receipt.memory_id
        assert self.version(name) == before, "a retry changes nothing"
        if receipt.memory_id not in self.held[name].ever:
            self.held[name].note([(act, receipt)])

    @rule(name=st.none() | st.sampled_from(USERS), dry_run=st.booleans())
    def compacts(self, name: str | None, dry_run: bool) -> None:
        before = [self.version(one) for one in USERS]
        if name is not None and name not in self.run(self.memory.users()):
            return
        report = self.run(self.memory.compact(name, dry_run=dry_run, older_than="0d"))
        assert report.users_failed == 0
        if dry_run:
            assert [self.version(one) for one in USERS] == before
            return
        for cluster in report.clusters:
            if cluster.outcome == "compressed":
                self.compressed(cluster)
            else:
                assert "they stay" in str(cluster.reason), "a few words are shorter than a heading"

    @rule(name=st.sampled_from(USERS))
    def repeats_itself(self, name: str) -> None:
        for number in range(2):
            self.one_client_acts(name, Act("prune", "long_term", f"old {number}", 0))
        self.compacts(name, dry_run=False)

    @rule(name=st.sampled_from(USERS))
    def lives_the_same_again(self, name: str) -> None:
        for number in range(2):
            self.one_client_acts(name, Act("prune", "episodic", f"old {number}", 0))
        for number in range(len(self.held[name].of("episodic"))):
            self.one_client_acts(name, Act("finish", "", "red", number))
        self.compacts(name, dry_run=False)

    @rule(name=st.sampled_from(USERS))
    def a_source_is_purged(self, name: str) -> None:
        user, before = self.memory.user(name), self.version(name)
        tried = self.run(user.purge(EVIL, dry_run=True))
        assert self.version(name) == before
        receipt = self.run(user.purge(EVIL))
        assert bool(receipt.count) == bool(tried.count)
        self.held[name].purged(receipt)
        for memory in self.run(user.list_memories(limit=1_000)):
            assert all(one.source != EVIL for one in memory.origins)
            # Others relate to an entity by its name, whoever gave it.
            assert EVIL not in memory.content or memory.memory_type == "entity"
        after = self.version(name)
        assert self.run(user.purge(EVIL)).count == 0
        assert self.version(name) == after, "what is purged is purged"

    def compressed(self, cluster: ClusterReport) -> None:
        assert cluster.memory_id is not None
        held, user = self.held[cluster.user_id], self.memory.user(cluster.user_id)
        summary = self.run(user.get(cluster.memory_id))
        ids = summary.data["compressed_from_ids"]
        assert len(ids) == cluster.original_count
        assert {held.kinds[one] for one in ids} == {summary.memory_type}
        held.drop(set(ids))
        held.kinds[summary.memory_id] = held.ever[summary.memory_id] = summary.memory_type
        held.says[summary.memory_id] = {summary.content}
        held.summaries[summary.memory_id] = ids

    @precondition(lambda self: any(held.summaries for held in self.held.values()))
    @rule(number=ANY)
    def undoes_a_compaction(self, number: int) -> None:
        made = [(name, one) for name in USERS for one in self.held[name].summaries]
        name, memory_id = made[number % len(made)]
        held, user = self.held[name], self.memory.user(name)
        before = self.version(name)
        try:
            receipts = self.run(user.undo_compaction(memory_id))
        except REFUSALS:  # no room, it has gone, or retention dropped its originals
            assert self.version(name) == before
            return
        held.drop({memory_id})
        for receipt in receipts:
            held.kinds[receipt.memory_id] = receipt.memory_type
        assert set(held.summaries[memory_id]) <= held.kinds.keys()

    # --- what always holds

    @invariant()
    def all_is_as_promised(self) -> None:
        """Look at those whose memory has changed, or was read anew, since the last step."""
        lives = {name: self.run(self.live(name)) for name in USERS}
        now = {name: (live, live.actor.version) for name, live in lives.items()}
        for name in [name for name in USERS if self.seen.get(name) != now[name]]:
            self.what_the_receipts_promise_is_there_and_nothing_else(name)
            self.no_limit_is_passed(name)
            self.run(lives[name].check_replay())
        self.seen = now
        self.the_totals_of_all_users_are_exact_and_within_their_limits(lives.values())
        assert not any(self.memory._services.totals._claimed.values()), "nothing stays claimed"

    def what_the_receipts_promise_is_there_and_nothing_else(self, name: str) -> None:
        held, user = self.held[name], self.memory.user(name)
        found = self.run(user.list_memories(limit=1_000))
        hits = self.run(user.retrieve("red", top_k=1_000))
        assert lasting(found) == {one for one, kind in held.kinds.items() if kind != SHORT}
        beside = {memory.memory_id for memory in found if memory.source == "compressed"}
        unsearched = {m.memory_id for m in found if m.memory_type == "context"}
        folded = {one for hit in hits for one in hit.near_duplicates} & lasting(found)
        assert (lasting(hits) | folded) - beside == lasting(found) - beside - unsearched
        told = [hit for hit in hits if hit.memory_id in beside]
        assert len(told) <= 2
        assert all(hit.score >= COMPRESSED_SCORE_MIN for hit in told)
        for memory in [memory for memory in found if memory.memory_id in beside][:1]:
            words = memory.content.rpartition("]: ")[2]  # its heading is not searched
            hits = self.run(user.retrieve(words, top_k=1_000))
            alike = {one for hit in hits for one in hit.near_duplicates}
            assert memory.memory_id in lasting(hits) | alike, "a summary answers its own words"
        assert {m.memory_id for m in found if m.memory_type == SHORT} <= set(held.of(SHORT))
        for memory in found:
            held.check(memory)

    def no_limit_is_passed(self, name: str) -> None:
        held, usage = self.held[name], self.run(self.memory.user(name).usage())
        limits = [SETTINGS.limits_by_tier()[tier] for tier in held.tiers]
        uses = {(k, q.quota): q for k, kind in usage.kinds.items() for q in kind.quotas}
        for (kind, quota), use in uses.items():
            most = max(limit_of(kind, quota, of_tier) for of_tier in limits)
            assert use.used <= max(most, held.used.get(f"{kind}.{quota}", 0)), (kind, quota)
        held.used = {f"{kind}.{quota}": use.used for (kind, quota), use in uses.items()}
        held.tiers = {Tier(usage.tier)}

    def the_totals_of_all_users_are_exact_and_within_their_limits(
        self, lives: Iterable[live_user.LiveUser]
    ) -> None:
        usage = self.run(self.memory.usage())
        assert all(use.used <= use.limit for use in usage.quotas)
        summed: Counter[str] = Counter()
        for live in lives:
            summed.update(user_state.totals(live.state))
        expected = {name: total for name, total in summed.items() if total}
        assert self.memory._services.totals.now() == expected
        assert self.run(self.memory._log.totals()) == expected


def lasting(memories: Sequence[Memory]) -> set[str]:
    """Return the ids of what does not go by the clock."""
    return {memory.memory_id for memory in memories if memory.memory_type != SHORT}


def limit_of(kind: str, quota: str, limits: Limits) -> int:
    """Return a limit by the names it has in a usage."""
    state = user_state.UserState()
    module = user_state.KIND_BY_NAME[kind]
    (use,) = [u for u in module.quotas(state.of(module), limits, None) if u.quota == quota]
    return use.limit
