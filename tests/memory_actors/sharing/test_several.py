"""Several databases that have the users of one memory between them."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from support.canaries import found_in_database
from support.fakes import FakeEmbedder
from support.postgres import Server, lent_url, server

from eventlog import LogUnavailable, MissingCapability
from eventlog.postgres.shards import are_one
from memory_actors import (
    GlobalLimits,
    GlobalQuotaExceededError,
    InvalidInputError,
    Item,
    MemorySystem,
    Settings,
)
from memory_actors.sharing.moving import move_shards
from memory_actors.sharing.nodes.joining import joined
from memory_actors.sharing.shards import SHARDS, shard_of, shard_of_stream
from memory_actors.sharing.system import _remote

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("cache")]
USERS = [f"user {n}" for n in range(12)]


@pytest.fixture(scope="module")
def other_server() -> Iterator[Server]:
    server()
    made = Server()
    yield made
    made.remove()


@pytest.fixture
def third() -> Iterator[str]:
    with lent_url() as lent:
        yield lent


def opened(urls: Any, **more: Any) -> Any:
    settings = Settings(latency_targets_ms={}, **more)
    return MemorySystem.open(urls, embedder=FakeEmbedder(), settings=settings)


@pytest.fixture
async def memory(urls) -> AsyncIterator[MemorySystem]:
    async with opened(urls) as it:
        yield it


def several(memory: MemorySystem) -> Any:
    return memory._caller


def test_a_shard_is_the_first_12_bits_of_the_hash_of_a_user_id():
    assert shard_of("ada") == shard_of_stream("user:ada") == shard_of_stream("recall:user:ada")
    assert shard_of("ada") == 0xFDE  # with which `printf ada | sha256sum` begins
    assert {shard_of(str(n)) >> 8 for n in range(500)} == set(range(16))
    assert all(0 <= shard_of(str(n)) < SHARDS for n in range(500))


async def test_users_are_spread_over_the_databases_and_reached_as_one_memory(memory, urls):
    for user_id in USERS:
        await memory.user(user_id).add(f"{user_id} enjoys skiing", session_id="s")
        hits = await memory.user(user_id).retrieve("skiing")
        assert [hit.content for hit in hits] == [f"{user_id} enjoys skiing"]

    assert await memory.users() == sorted(USERS)
    per_node = [await node.memory.users() for node in several(memory).nodes]
    assert sorted(user for users in per_node for user in users) == sorted(USERS)
    assert all(per_node)
    for at, node in enumerate(several(memory).nodes):
        assert {several(memory).at(user) for user in await node.memory.users()} == {at}


async def test_shards_are_dealt_out_evenly_and_each_is_in_one_database(memory):
    here = several(memory)._here
    assert [len(one) for one in here] == [SHARDS // 2] * 2
    assert here[0] | here[1] == set(range(SHARDS))


async def test_what_is_about_all_users_is_put_together(memory):
    for user_id in USERS:
        await memory.user(user_id).add_many([Item(content="tea"), Item(content="milk")])

    async with asyncio.timeout(3):
        while (usage := await memory.usage()).counts["long_term"] < 2 * len(USERS):
            await asyncio.sleep(0.05)
    assert usage.users == len(USERS)
    assert usage.quotas[0].limit <= GlobalLimits().long_term_bytes
    report = await memory.verify()
    assert (report.ok, report.streams) == (True, len(USERS))
    assert await memory.check_replay() == []
    assert (await memory.compact(dry_run=True)).dry_run
    assert (await memory.compaction_stats()).summaries == 0
    assert memory.statistics().log.events_appended == report.events


async def test_a_source_is_purged_in_all_databases(memory):
    for user_id in USERS:
        await memory.user(user_id, source="web").add("bad")

    report = await memory.purge("web")

    assert report.users == len(USERS)
    assert {one.user_id for one in report.receipts} == set(USERS)


async def test_a_user_who_moves_while_the_databases_are_asked_for_their_users_is_purged(
    memory, urls, monkeypatch
):
    """From a database that has not answered yet to one that has."""
    for user_id in USERS:
        await memory.user(user_id, source="web").add("bad")
    answers, later = several(memory).nodes
    mine, turns = later.memory.users, iter([True])
    mover = (await mine())[0]

    async def users(*args, **kwargs):
        if next(turns, False):
            to = urls[_url_at(memory, urls, 0)]
            await move_shards(urls, [shard_of(mover)], to)
        return await mine(*args, **kwargs)

    monkeypatch.setattr(later.memory, "users", users)
    asked = []
    report = await memory.purge("web", progress=lambda *how: asked.append(how))

    assert {one.user_id for one in report.receipts} == set(USERS)
    assert (report.users, report.failed) == (len(USERS), ())
    assert mover in await answers.memory.users()
    assert await memory.user(mover).count() == 0
    assert asked[-1] == (1, 1)


async def test_events_of_all_users_come_in_the_order_of_their_times(memory):
    for user_id in USERS:
        await memory.user(user_id).add("tea")

    told = [entry async for entry in memory.events()]

    assert {entry.user_id for entry in told} == set(USERS)
    assert [one.recorded_at for one in told] == sorted(one.recorded_at for one in told)
    with pytest.raises(InvalidInputError, match="a position is of one database"):
        [entry async for entry in memory.events(after=1)]


async def test_the_log_of_all_databases_is_followed(memory):
    seen, enough = set(), asyncio.Event()

    async def follow() -> None:
        async for entry in memory.events(follow=True):
            seen.add(entry.user_id)
            if len(seen) == len(USERS):
                enough.set()

    following = asyncio.create_task(follow())
    for user_id in USERS:
        await memory.user(user_id).add("tea")
    async with asyncio.timeout(5):
        await enough.wait()
    following.cancel()
    await asyncio.wait([following])


async def followed(memory: Any, urls: list[str], after: int = 0) -> list[str]:
    """Follow a user who moves, and then has milk; return the contents that were told until then."""
    seen, enough = [], asyncio.Event()

    async def follow() -> None:
        async for entry in memory.events("ada", after=after, follow=True):
            seen.append(entry.data.get("content"))
            if "milk" in seen:
                enough.set()

    following = asyncio.create_task(follow())
    await asyncio.sleep(0.2)
    at = several(memory).at("ada")
    await move_shards(urls, [shard_of("ada")], urls[1 - _url_at(memory, urls, at)])
    await memory.user("ada").add("milk")
    async with asyncio.timeout(5):
        await enough.wait()
    following.cancel()
    await asyncio.wait([following])
    return [one for one in seen if one is not None]


async def test_a_user_is_followed_into_another_database(memory, urls):
    await memory.user("ada").add("tea")
    assert await followed(memory, urls) == ["tea", "milk"]


async def test_who_follows_a_user_from_a_position_is_told_nothing_of_before_after_a_move(
    memory, urls
):
    """Although nothing had been told yet, and the position means nothing where the user is."""
    await memory.user("ada").add("tea")
    told = [entry async for entry in memory.events("ada")]
    assert await followed(memory, urls, told[-1].position) == ["milk"]


async def test_the_past_and_the_events_of_a_user_are_read_where_the_user_is(memory):
    for user_id in USERS[:4]:
        user = memory.user(user_id)
        await user.add("tea")
        async with memory.replay(user_id) as past:
            await user.add("milk")
            assert [one.content for one in await past.list_memories()] == ["tea"]
        adds = [e async for e in memory.events(user_id) if e.event == "long_term.added"]
        assert len(adds) == 2
        assert (await memory.diff(user_id, adds[0].position)).user_id == user_id


async def test_an_erased_user_is_gone_from_all_databases(memory, urls):
    heard = []
    memory.watch_erasures(heard.append)
    for user_id in USERS:
        await memory.user(user_id).add(f"{user_id} likes tea", metadata={"k": f"k of {user_id}"})

    for user_id in USERS[:4]:
        assert (await memory.erase(user_id)).events > 0

    erased = [word for user in USERS[2:4] for word in (f"user:{user}", f"{user} li", f"of {user}")]
    for url in urls:
        assert found_in_database(url, *erased) == set()
        assert found_in_database(url, "likes tea")

    assert heard == USERS[:4]
    assert await memory.users() == sorted(USERS[4:])


async def test_what_rests_on_positions_or_belongs_to_the_databases_is_refused(memory, tmp_path):
    with pytest.raises(InvalidInputError, match="heads are of one log"):
        await memory.heads()
    with pytest.raises(MissingCapability, match="pg_dump"):
        await memory.backup(tmp_path / "copy")


async def test_two_processes_open_the_same_databases_in_any_order(urls):
    async with opened(urls) as one, opened(urls[::-1]) as other:
        for user_id in USERS:
            added = await one.user(user_id).add("tea")
            assert (await other.user(user_id).get(added.memory_id)).content == "tea"
            await other.user(user_id).add("milk")
        assert await one.users() == await other.users() == sorted(USERS)


async def test_databases_that_are_first_opened_at_once_become_one_memory(urls, third):
    three = [*urls, third]
    ways = [three, three[::-1], [three[1], three[0], three[2]]]
    memories = await asyncio.gather(*(opened(way) for way in ways))
    here = [several(one)._here for one in memories]
    assert here[0] == here[1] == here[2]
    assert sum(map(len, here[0])) == SHARDS
    for one in memories:
        await one.close()


async def test_a_client_of_one_process_reaches_all_databases(memory, urls):
    for user_id in USERS:
        await memory.user(user_id).add("tea")
    client = await joined(urls)
    assert client is not None
    remote = _remote(client)
    assert await remote.users() == sorted(USERS)
    assert len([entry async for entry in remote.events()]) >= len(USERS)
    for user_id in USERS:
        assert await remote.user(user_id).count() == 1
        async with remote.replay(user_id) as past:
            assert len(await past.list_memories()) == 1
    await remote.close()


async def test_the_databases_may_be_of_different_servers(urls, other_server):
    both = [urls[0], f"{other_server.url}?schema=other"]
    async with opened(both) as memory:
        for user_id in USERS:
            await memory.user(user_id).add("tea")
        assert await memory.users() == sorted(USERS)

        other_server.stop()
        mine = [u for u in USERS if several(memory).at(u) == _node_at(memory, urls[0])]
        async with asyncio.timeout(5):
            for user_id in mine:
                await memory.user(user_id).add("milk")
        theirs = next(u for u in USERS if u not in mine)
        waiting = asyncio.create_task(memory.user(theirs).add("milk"))
        await asyncio.sleep(0.5)
        assert not waiting.done()
        other_server.start()
        await waiting
        assert await memory.user(theirs).count() == 2


def _node_at(memory: MemorySystem, url: str) -> int:
    schema = url.rpartition("=")[2]
    places = [n.memory._eventlog._database.place.schema for n in several(memory).nodes]
    return places.index(schema)


def _url_at(memory: MemorySystem, urls: list[str], at: int) -> int:
    schema = several(memory).nodes[at].memory._eventlog._database.place.schema
    return next(n for n, url in enumerate(urls) if url.endswith(schema))


# --- which databases


async def test_a_store_becomes_the_first_of_several_and_keeps_its_users(urls):
    async with opened(urls[0]) as alone:
        for user_id in USERS:
            await alone.user(user_id).add("tea")

    async with opened(urls[::-1]) as memory:
        at = _node_at(memory, urls[0])
        assert len(several(memory)._here[at]) == SHARDS
        assert await memory.users() == sorted(USERS)
        await memory.user("new").add("tea")
        assert "new" in await several(memory).nodes[at].memory.users()


async def test_one_of_several_databases_is_not_opened_alone(urls, third):
    async with opened(urls):
        pass
    for url in urls:
        with pytest.raises(LogUnavailable, match="is one of 2 databases of one memory"):
            await opened(url)
    with pytest.raises(LogUnavailable, match="in 2 databases, and these are missing"):
        await opened([urls[0], third])


async def test_databases_of_two_memories_are_not_opened_together(urls, third):
    with ExitStack() as held:
        fourth = held.enter_context(lent_url())
        async with opened(urls), opened([third, fourth]):
            pass
        with pytest.raises(LogUnavailable, match="belong to different memories"):
            await opened([*urls, third, fourth])


async def test_a_store_with_users_is_not_added_to_another(urls, third):
    for url in (urls[0], third):
        async with opened(url) as alone:
            await alone.user("ada").add("tea")
    with pytest.raises(LogUnavailable, match="stores of their own"):
        await opened([urls[0], third])
    async with opened(urls):
        pass
    with pytest.raises(LogUnavailable, match="is a store of its own, and not empty"):
        await opened([*urls, third])


async def test_a_shard_that_is_in_two_databases_is_refused(urls):
    """One of them was restored to an earlier moment."""
    import psycopg

    async with opened(urls):
        pass
    base, _, schema = urls[0].partition("?schema=")
    with psycopg.connect(base, autocommit=True) as connection:
        connection.execute(
            f"INSERT INTO {schema}.shard (shard, state) VALUES (0, 'here'), (4095, 'here') "
            "ON CONFLICT DO NOTHING"
        )
    with pytest.raises(LogUnavailable, match="are in two of these databases"):
        await opened(urls)


async def test_no_procedure_of_an_older_format_claims_in_one_of_several_databases(urls):
    import psycopg

    async with opened(urls[0]):
        pass
    base, _, schema = urls[0].partition("?schema=")
    with psycopg.connect(base, autocommit=True) as connection:
        older = f"{schema}.claim_stream(p_sid bytea, p_node bytea)"
        connection.execute(f"CREATE PROCEDURE {older} LANGUAGE plpgsql AS 'BEGIN END'")
        async with opened(urls) as memory:
            await memory.user("ada").add("likes tea")
        left = connection.execute(
            "SELECT count(*) FROM pg_proc WHERE proname = 'claim_stream' "
            "AND pronamespace = %s::regnamespace",
            [schema],
        )
        assert left.fetchone() == (1,)


async def test_databases_from_before_movers_had_names_get_what_they_lack(urls):
    """They are known as one memory before, and a mover of before does not go on afterwards."""
    import psycopg

    async with opened(urls) as memory:
        await memory.user("ada").add("likes tea")
    base = urls[0].partition("?schema=")[0]
    older = """
        ALTER TABLE shard DROP mover;
        ALTER TABLE arriving DROP step;
        DROP PROCEDURE leave_shard;
        CREATE PROCEDURE leave_shard(p_shard bigint, p_other text, INOUT o_shards bigint)
        LANGUAGE plpgsql AS 'BEGIN END';
        UPDATE store SET format = 4;
    """
    with psycopg.connect(base, autocommit=True) as connection:
        for url in urls:
            connection.execute(f"SET search_path = {url.partition('?schema=')[2]}; {older}")

        assert await are_one(urls)
        with pytest.raises(LogUnavailable, match="is one of 2 databases"):
            await opened(urls[0])
        await move_shards(urls, [shard_of("ada")], urls[0])
        await move_shards(urls, [shard_of("ada")], urls[1])

        for url in urls:
            schema = url.partition("?schema=")[2]
            found = connection.execute(
                "SELECT proargnames FROM pg_proc WHERE proname = 'leave_shard' "
                "AND pronamespace = %s::regnamespace",
                [schema],
            )
            [[names]] = found.fetchall()
            assert "p_mover" in names
    async with opened(urls) as memory:
        assert await memory.user("ada").count() == 1


async def test_a_database_that_was_written_to_alone_before_it_joined_is_refused(urls):
    """Whoever began to open both was killed when only one of them knew of it."""
    import psycopg

    async with opened(urls):
        pass
    base, _, schema = urls[1].partition("?schema=")
    with psycopg.connect(base, autocommit=True) as connection:
        connection.execute(f"DELETE FROM {schema}.setting WHERE name = 'shards'")
        connection.execute(f"DELETE FROM {schema}.shard")
    async with opened(urls[1]) as alone:
        await alone.user("ada").add("likes tea")
    with pytest.raises(LogUnavailable, match="and not empty"):
        await opened(urls)


async def test_a_database_is_named_once(urls):
    with pytest.raises(LogUnavailable, match="name the same store"):
        await opened([urls[0], urls[0]])
    with pytest.raises(InvalidInputError, match="the URLs of databases"):
        await opened([urls[0], "./memory"])


async def test_a_store_that_is_open_alone_does_not_become_one_of_several(urls):
    async with opened(urls[0]):
        with pytest.raises(LogUnavailable, match=r"have .* open alone"):
            await opened(urls)


async def test_one_more_database_is_added_without_shards(urls, third):
    async with opened(urls) as memory:
        await memory.user("ada").add("tea")
    async with opened([third, *urls]) as memory:
        assert sorted(map(len, several(memory)._here)) == [0, SHARDS // 2, SHARDS // 2]
        assert await memory.user("ada").count() == 1
    with pytest.raises(LogUnavailable, match="in 3 databases, and these are missing"):
        await opened(urls)


async def test_limits_over_all_users_hold_over_all_databases(urls):
    limits = GlobalLimits(entities=10)
    async with opened(urls, global_limits=limits) as memory:
        landed = 0
        for user_id in USERS:
            for n in range(2):
                try:
                    await memory.user(user_id).entities.add_entity(f"thing {n}")
                    landed += 1
                except GlobalQuotaExceededError:
                    pass
        assert landed == 10
        assert (
            sum(
                one.limit
                for one in (await memory.usage()).quotas
                if one.quota.startswith("entity.count")
            )
            == 10
        )
