"""What the nodes of a store in a database have in common: API keys, schedule, recall key."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
import structlog
from support.canaries import found_in_database
from support.fakes import FakeEmbedder
from support.in_memory_log import InMemoryLog

from eventlog import LogUnavailable
from memory_actors import (
    GlobalLimits,
    InvalidInputError,
    KeyFileError,
    MemorySystem,
    Settings,
    Tier,
)
from memory_actors.base import api_keys
from memory_actors.base.api_keys import KeyStore
from memory_actors.base.quota import TIERS
from memory_actors.compaction import schedule
from memory_actors.compaction.schedule import LastRun, Scheduler
from memory_actors.server import settings_of
from memory_actors.sharing.nodes import opening
from memory_actors.upkeep.store import event_registry

pytestmark = pytest.mark.anyio


def opened(url: str, **more: Any) -> Any:
    settings = Settings(latency_targets_ms={}, **more)
    return MemorySystem.open(url, embedder=FakeEmbedder(), settings=settings)


@pytest.fixture
async def nodes(url) -> AsyncIterator[list[MemorySystem]]:
    async with AsyncExitStack() as held:
        yield [await held.enter_async_context(opened(url)) for _ in range(2)]


# --- API keys


class CountingLog(InMemoryLog):
    """Counts how often it is asked for a setting, and may be away."""

    looks = 0
    is_away = False

    async def load_setting(self, name: str) -> bytes | None:
        self.looks += 1
        await asyncio.sleep(0.01)
        if self.is_away:
            raise LogUnavailable("away")
        return await super().load_setting(name)


@pytest.fixture
def store() -> CountingLog:
    return CountingLog(event_registry())


async def test_every_node_knows_the_same_keys(nodes):
    one, other = (KeyStore(settings_of(memory)) for memory in nodes)
    token, key = await asyncio.to_thread(one.create, "ada", "pro")

    await other.refresh()
    found = other.find(token)
    assert found == key
    assert found is not None
    await asyncio.to_thread(other.note_tier_is_set, key.id)
    [noted] = await asyncio.to_thread(one.all)
    assert noted.tier_is_set
    await asyncio.to_thread(one.revoke, key.id)
    other.look_again()
    await other.refresh()
    assert other.find(token) is None


async def test_keys_that_are_made_at_once_are_all_kept(nodes):
    stores = [KeyStore(settings_of(memory)) for memory in nodes * 4]

    await asyncio.gather(*(asyncio.to_thread(keys.create, "ada") for keys in stores))

    assert len(await asyncio.to_thread(stores[0].all)) == 8


async def test_a_server_does_not_ask_the_store_at_each_request(store):
    keys = KeyStore(store)
    token, _ = await asyncio.to_thread(keys.create, "ada")
    before = store.looks

    await asyncio.gather(*(keys.refresh() for _ in range(20)))
    for _ in range(20):
        await keys.refresh()
        assert keys.find(token) is not None

    assert store.looks == before + 1


async def test_a_server_sees_a_revoked_key_within_a_second(store, monkeypatch):
    monkeypatch.setattr(api_keys, "FRESH_S", 0.05)
    keys = KeyStore(store)
    token, key = await asyncio.to_thread(keys.create, "ada")
    await keys.refresh()
    await asyncio.to_thread(KeyStore(store).revoke, key.id)

    await asyncio.sleep(0.06)
    await keys.refresh()

    assert keys.find(token) is None


async def test_a_look_that_began_before_is_not_trusted(store):
    keys = KeyStore(store)
    token, key = await asyncio.to_thread(keys.create, "ada")
    looking = asyncio.create_task(keys.refresh())
    await asyncio.sleep(0)
    await asyncio.to_thread(KeyStore(store).revoke, key.id)
    keys.look_again()

    await keys.refresh()

    assert keys.find(token) is None
    await looking
    assert keys.find(token) is None


async def test_keys_that_were_read_are_believed_for_a_while_if_the_store_is_away(
    store, monkeypatch
):
    monkeypatch.setattr(api_keys, "FRESH_S", 0.01)
    keys = KeyStore(store)
    token, key = await asyncio.to_thread(keys.create, "ada")
    await keys.refresh()
    await asyncio.to_thread(KeyStore(store).revoke, key.id)
    store.is_away = True
    await asyncio.sleep(0.02)

    await keys.refresh()
    assert keys.find(token) == key
    monkeypatch.setattr(keys._place, "_believed_until_s", 0.0)
    await asyncio.sleep(0.02)
    with pytest.raises(LogUnavailable):
        await keys.refresh()
    store.is_away = False
    await keys.refresh()
    assert keys.find(token) is None


async def test_nobody_waits_long_for_a_store_that_says_nothing(store, monkeypatch):
    monkeypatch.setattr(api_keys, "FRESH_S", 0.05)
    monkeypatch.setattr(api_keys, "LOOK_S", 0.02)
    keys = KeyStore(store)
    token, _ = await asyncio.to_thread(keys.create, "ada")
    await keys.refresh()
    answer = asyncio.Event()

    async def silent(name: str) -> bytes | None:
        await answer.wait()
        return None

    monkeypatch.setattr(store, "load_setting", silent)
    await asyncio.sleep(0.06)
    async with asyncio.timeout(1):
        for _ in range(3):
            await keys.refresh()
            assert keys.find(token) is not None
            await asyncio.sleep(0.03)
    answer.set()
    await asyncio.sleep(0.06)
    await keys.refresh()
    assert keys.find(token) is None


async def test_after_an_erasure_no_key_is_believed_before_the_store_has_been_asked(store):
    keys = KeyStore(store)
    await asyncio.to_thread(keys.create, "ada")
    await keys.refresh()
    store.is_away = True
    keys.look_again()

    with pytest.raises(LogUnavailable):
        await keys.refresh()


async def test_a_store_that_is_away_opens_nothing_once_a_second_is_over(store, monkeypatch):
    monkeypatch.setattr(api_keys, "FRESH_S", 0.0)
    keys = KeyStore(store)
    store.is_away = True

    with pytest.raises(LogUnavailable):
        await keys.refresh()
    store.is_away = False
    monkeypatch.setattr(api_keys, "FRESH_S", 1.0)
    await keys.refresh()
    assert await asyncio.to_thread(keys.all) == []


async def test_damaged_keys_open_nothing_and_are_not_written_over(store):
    await store.save_setting(api_keys.SETTING, b"{", expected=None)
    keys = KeyStore(store)
    await keys.refresh()

    with pytest.raises(KeyFileError, match="the database cannot be read"):
        keys.find("ma_0")
    with pytest.raises(KeyFileError):
        await asyncio.to_thread(keys.create, "ada")
    assert await store.load_setting(api_keys.SETTING) == b"{"


async def test_an_erased_users_keys_are_revoked_everywhere(nodes, url):
    one, other = nodes
    keys = KeyStore(settings_of(one))
    one.watch_erasures(keys.look_again)
    token, _ = await asyncio.to_thread(keys.create, "wilma")
    others, _ = await asyncio.to_thread(keys.create, "bob")
    await one.user("wilma").add("Wilma enjoys skiing")
    await keys.refresh()
    assert keys.find(token) is not None

    receipt = await other.erase("wilma")

    assert receipt.api_keys == 1
    assert found_in_database(url, "wilma", "Wilma enjoys") == set()
    await keys.refresh()
    assert keys.find(token) is None
    assert keys.find(others) is not None


# --- the key of hashed recalls


async def test_a_recall_that_one_node_hashed_is_found_by_the_other(url):
    async with opened(url, recall_audit="hashed") as one, opened(url, recall_audit="hashed") as two:
        await one.user("ada").add("Ada enjoys skiing")
        await two.user("bob").add("Bob rows")
        await asyncio.gather(one.user("ada").retrieve("skiing"), two.user("bob").retrieve("boats"))

        for memory in (one, two):
            (found,) = await memory.recalls("ada", query="skiing")
            assert found.hashed
            assert "skiing" not in found.query
            assert await memory.recalls("ada", query="rowing") == []
            assert len(await memory.recalls("bob", query="boats")) == 1


# --- the schedule


async def test_of_two_who_keep_the_time_of_a_run_one_has(store):
    one, other = LastRun(store), LastRun(store)
    at = datetime(2025, 1, 5, 3, tzinfo=UTC)
    for last_run in (one, other):
        assert await asyncio.to_thread(last_run.read) is None

    kept = [await asyncio.to_thread(last_run.write, at) for last_run in (one, other)]

    assert kept == [True, False]
    assert await asyncio.to_thread(other.read) == at
    assert await asyncio.to_thread(other.write, at + timedelta(hours=1))
    assert not await asyncio.to_thread(one.write, at + timedelta(hours=2))


async def test_one_of_many_schedulers_runs_what_is_due(store):
    """The others see that it ran, and wait for the next time."""
    now = datetime(2025, 1, 5, tzinfo=UTC)
    runs: list[tuple[int, datetime]] = []

    async def nap(seconds: float) -> None:
        nonlocal now
        now += timedelta(seconds=max(seconds / 4, 1))  # four of them move the same clock
        await asyncio.sleep(0.001)

    def scheduler(number: int) -> Scheduler:
        async def run() -> None:
            runs.append((number, now))
            await asyncio.sleep(0.03)

        return Scheduler(
            run, "0 * * * *", lambda: int(now.timestamp() * 1e6), LastRun(store),
            zone=UTC, chance=lambda: 0.0, sleep=nap,
        )  # fmt: skip

    schedulers = [scheduler(number) for number in range(4)]
    for one in schedulers:
        one.start()
    async with asyncio.timeout(20):
        while len(runs) < 5:
            await asyncio.sleep(0.01)
    for one in schedulers:
        await one.close(1)

    hours = [at.replace(minute=0, second=0, microsecond=0) for _, at in runs]
    assert hours == sorted(set(hours)), runs


@pytest.mark.parametrize("trouble", ["away", "damaged"])
async def test_a_scheduler_outlives_a_store_that_cannot_say_when_it_ran(store, trouble):
    if trouble == "damaged":
        await store.save_setting(schedule.SETTING, b"{", expected=None)
    store.is_away = trouble == "away"
    ran = asyncio.Event()
    now = datetime(2025, 1, 5, tzinfo=UTC)

    async def nap(seconds: float) -> None:
        nonlocal now
        now += timedelta(seconds=seconds)
        store.is_away = False
        await asyncio.sleep(0)

    async def run() -> None:
        ran.set()

    one = Scheduler(
        run, "0 * * * *", lambda: int(now.timestamp() * 1e6), LastRun(store),
        zone=UTC, chance=lambda: 0.0, sleep=nap,
    )  # fmt: skip
    one.start()
    async with asyncio.timeout(10):
        await ran.wait()
    await one.close(1)


async def test_the_schedule_of_one_node_compacts_the_users_of_all(url, monkeypatch):
    monkeypatch.setattr(schedule, "JITTER_S", 0.0)
    async with AsyncExitStack() as held:
        nodes = []
        for _ in range(2):
            scheduled = opened(url, compaction_schedule="* * * * *")
            nodes.append(await held.enter_async_context(scheduled))
        for memory, name in zip(nodes, ("ada", "bob"), strict=True):
            await memory.user(name).add(f"{name} skis")
        first = nodes[0]._caller.memory._services.log
        kept = await first.load_setting(schedule.SETTING)
        past = b'{"since":"2020-01-01T00:00:00Z"}'
        assert await first.save_setting(schedule.SETTING, past, expected=kept)
        late = await held.enter_async_context(opened(url, compaction_schedule="* * * * *"))

        async with asyncio.timeout(20):
            for memory in (*nodes, late):
                while (await memory.compaction_stats()).runs < 1:
                    await asyncio.sleep(0.05)


# --- settings


def named(url: str, **settings: Any) -> Any:
    """Open a store with settings; with none, as it is."""
    chosen = Settings(latency_targets_ms={}, **settings) if settings else None
    return MemorySystem.open(url, embedder=FakeEmbedder(), settings=chosen)


def tier_of(memory: MemorySystem) -> Tier:
    return memory._caller.memory._services.settings.default_tier


FREE = {"default_tier": Tier.FREE, "global_limits": GlobalLimits(entities=7)}


async def test_whoever_names_no_settings_takes_those_of_the_store(url):
    plans = {Tier.FREE: msgspec.structs.replace(TIERS[Tier.FREE], price_usd=1.5)}
    async with named(url, **FREE, tiers=plans, exclusive_relations=frozenset({"b", "a"})):
        pass

    async with named(url) as memory:
        found = memory._caller.memory._services.settings
        assert tier_of(memory) is Tier.FREE
        assert (found.tiers, found.global_limits) == (plans, FREE["global_limits"])
        assert found.exclusive_relations == {"a", "b"}
        async with named(url, **FREE, tiers=plans, exclusive_relations=frozenset({"b", "a"})):
            pass


async def test_settings_are_replaced_where_no_node_lives_and_that_is_logged(url):
    async with named(url, **FREE) as memory:
        with pytest.raises(InvalidInputError, match="default_tier: 'free' there, 'pro' here"):
            await named(url, default_tier=Tier.PRO)
        assert tier_of(memory) is Tier.FREE

    with structlog.testing.capture_logs() as logged:
        async with named(url, default_tier=Tier.PRO):
            pass
    [said] = [one for one in logged if "settings of a store were replaced" in one["event"]]
    assert "default_tier: 'free' there, 'pro' here, global_limits" in said["changed"]
    async with named(url) as memory:
        assert tier_of(memory) is Tier.PRO


async def test_whoever_takes_settings_that_are_replaced_meanwhile_is_refused(url, monkeypatch):
    async with named(url, **FREE):
        pass
    stored = opening.with_stored

    async def late(*args: Any) -> Settings:
        found = await stored(*args)
        async with named(url, default_tier=Tier.PRO):
            pass
        return found

    monkeypatch.setattr(opening, "with_stored", late)
    with pytest.raises(InvalidInputError, match=r"meanwhile \(default_tier: 'pro' there"):
        await named(url)
