"""Shards move between databases while their users go on."""

import asyncio
import json
import random
import subprocess
import sys
from contextlib import ExitStack, suppress
from typing import Any

import pytest
from click.testing import CliRunner
from support.canaries import found_in_database
from support.fakes import FakeEmbedder
from support.moving import TABLES, all_at_first, cut_off, opened, rows_of, url_of
from support.postgres import lent_url

from eventlog import DiskFull, LogUnavailable
from eventlog.postgres import shard_copy, shard_move
from memory_actors import GlobalLimits, InvalidInputError, Item, MemorySystem, Settings
from memory_actors.cli import main
from memory_actors.sharing.moving import evenly, finish_moves, move_shards, shards_in
from memory_actors.sharing.shards import SHARDS, shard_of

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("cache")]


async def test_a_moved_user_has_the_same_memory_in_the_other_database(urls):
    await all_at_first(urls, ["ada", "bob"])
    async with opened(urls, recall_audit="plain") as memory:
        ada = memory.user("ada", session_id="s")
        await ada.add_many([Item(content=f"Ada skis {n}") for n in range(30)])
        added = await ada.add("Ada lives in Davos", idempotency_key="once")
        await ada.working.set("mood", "good")
        await ada.entities.add_entity("Tea", "thing")
        hits = await ada.retrieve("skiing")
        before = await told(memory, added.memory_id)
        from_here = url_of(memory, urls, "ada")
        [to] = [url for url in urls if url != from_here]

        totals = (await memory.usage()).counts

        [moved] = await move_shards(urls, [shard_of("ada")], to)

        assert moved.streams == 2
        async with asyncio.timeout(3):  # a node knows what others have counted in a second
            while (await memory.usage()).counts != totals:
                await asyncio.sleep(0.05)
        assert await told(memory, added.memory_id) == before
        assert url_of(memory, urls, "ada") == to
        assert url_of(memory, urls, "bob") == from_here
        assert (await ada.add("Ada lives in Davos", idempotency_key="once")).memory_id == (
            added.memory_id
        )
        assert [h.memory_id for h in await ada.retrieve("skiing")] == [h.memory_id for h in hits]
        await ada.add("Ada rows")
        assert (await memory.verify()).ok
        assert await memory.check_replay() == []
    assert await rows_of(from_here, "user:ada", *TABLES) == [0] * 6
    assert (await rows_of(to, "user:ada", "event", "derived"))[1] > 30


async def told(memory: MemorySystem, memory_id: str) -> dict[str, Any]:
    ada = memory.user("ada", session_id="s")
    usage = await ada.usage()
    return {
        "users": await memory.users(),
        "memories": await ada.list_memories(limit=100),
        "history": [(e.version, e.recorded_at, e.data) for e in await ada.history(memory_id)],
        "kinds": usage.kinds,
        "recalls": [one.query for one in await memory.recalls("ada")],
        "mood": await ada.working.get("mood"),
        "events": [(e.version, e.data) async for e in memory.events("ada")],
    }


async def test_nothing_is_embedded_again_by_a_move(urls):
    await all_at_first(urls, ["ada"])
    embedder = FakeEmbedder()
    settings = Settings(latency_targets_ms={})
    async with MemorySystem.open(urls, embedder=embedder, settings=settings) as memory:
        await memory.user("ada").retrieve("skiing")
        await asyncio.sleep(0.3)
        [to] = [url for url in urls if url != url_of(memory, urls, "ada")]
        await move_shards(urls, [shard_of("ada")], to)
        before = memory.statistics().embeddings.computed
        assert len(await memory.user("ada").retrieve("skiing")) == 1
        assert memory.statistics().embeddings.computed == before + 1  # the query


async def test_a_shard_may_come_back(urls):
    await all_at_first(urls, ["ada"])
    async with opened(urls) as memory:
        ada = memory.user("ada")
        await ada.count()
        here = url_of(memory, urls, "ada")
        [there] = [url for url in urls if url != here]
        for turn in range(4):
            await move_shards(urls, [shard_of("ada")], there if turn % 2 == 0 else here)
            await ada.add(f"turn {turn}")
        assert url_of(memory, urls, "ada") == here
        assert {m.content for m in await ada.list_memories()} == {
            "ada enjoys skiing", *(f"turn {turn}" for turn in range(4)),
        }  # fmt: skip
        assert (await memory.verify()).ok
        assert await memory.check_replay() == []


async def test_a_node_without_a_lease_reads_the_past_of_a_user_where_they_are(urls):
    """It has not heard that the shard has left."""
    await all_at_first(urls, ["ada"])
    async with opened(urls) as memory:
        await memory.user("ada").count()
        here = url_of(memory, urls, "ada")
        [there] = [url for url in urls if url != here]
        caller: Any = memory._caller
        leases = caller.nodes[caller.at("ada")].placement.leases

        async def never(_connection: Any) -> None:
            await asyncio.sleep(0.01)

        leases._renew = never
        for node in caller.nodes:  # nor has the other node heard that it has come
            node.placement.leases.shards_changed = lambda _version: None
        await move_shards(urls, [shard_of("ada")], there)

        assert url_of(memory, urls, "ada") == here  # as far as it knows
        assert len([one async for one in memory.events("ada")]) > 0
        async with memory.replay("ada") as past:
            assert len(await past.list_memories()) == 1
        assert await memory.user("ada").count() == 1


async def test_users_of_two_processes_go_on_while_their_shard_moves(urls):
    """Nothing is lost, and nothing is there twice."""
    users = [f"user {n}" for n in range(4)]
    await all_at_first(urls, users)
    acknowledged: dict[str, list[str]] = {user_id: [] for user_id in users}
    async with opened(urls) as one, opened(urls) as other:
        going = True

        async def write(memory: MemorySystem, name: str, user_id: str) -> None:
            n = 0
            while going:
                added = await memory.user(user_id).add(f"{name} {n}")
                acknowledged[user_id].append(added.memory_id)
                assert (await memory.user(user_id).get(added.memory_id)).content == f"{name} {n}"
                n += 1

        await one.users()
        writing = [
            asyncio.create_task(write(memory, f"{name}", user_id))
            for name, memory in enumerate((one, other))
            for user_id in users
        ]
        await asyncio.sleep(0.3)
        here = url_of(one, urls, users[0])
        [there] = [url for url in urls if url != here]
        shards = sorted({shard_of(user_id) for user_id in users})
        moved = await move_shards(urls, shards, there)
        back = await move_shards(urls, shards[:2], here)
        await asyncio.sleep(0.2)
        going = False
        await asyncio.gather(*writing)

        assert len(moved) == len(shards)
        assert all(one.waited_s < 10 for one in (*moved, *back))
        for user_id in users:
            memories = [m.memory_id for m in await one.user(user_id).list_memories(limit=100_000)]
            assert len(memories) == len(set(memories)) == len(acknowledged[user_id]) + 1
            assert set(acknowledged[user_id]) <= set(memories)
        assert (await one.verify()).ok
    async with opened(urls) as memory:
        assert await memory.check_replay() == []


async def test_a_user_who_is_erased_while_their_shard_moves_is_at_neither_place(urls, monkeypatch):
    await all_at_first(urls, ["ada", "bob"])
    async with opened(urls) as memory:
        await memory.user("ada").add("a secret")
        here = url_of(memory, urls, "ada")
        [there] = [url for url in urls if url != here]
        copied, go_on = asyncio.Event(), asyncio.Event()
        copy = shard_copy.ShardCopy.changed

        async def stops(self):
            changed = await copy(self)
            copied.set()
            await go_on.wait()
            return changed

        monkeypatch.setattr(shard_copy.ShardCopy, "changed", stops)
        moving = asyncio.create_task(move_shards(urls, [shard_of("ada")], there))
        await copied.wait()
        assert (await rows_of(there, "user:ada", "event"))[0] > 0

        await memory.erase("ada")

        assert await rows_of(there, "user:ada", *TABLES) == [0] * 6
        assert_erased(urls)
        go_on.set()
        await moving
        for url in urls:
            assert await rows_of(url, "user:ada", *TABLES) == [0] * 6
        assert_erased(urls)
        assert await memory.users() == ["bob"]
        await memory.user("ada").add("somebody new")
        assert (await memory.verify()).ok
        assert await memory.check_replay() == []


async def test_a_user_who_is_erased_after_a_move_that_was_cut_off_is_at_neither_place(
    urls,
):
    """The old place has not been emptied yet."""
    await all_at_first(urls, ["ada"])
    async with opened(urls) as memory:
        await memory.user("ada").add("a secret")
        here = url_of(memory, urls, "ada")
        [there] = [url for url in urls if url != here]

        await cut_off(urls, "ada", there, "_cleared")
        assert (await rows_of(here, "user:ada", "event"))[0] > 0

        await memory.erase("ada")

        for url in urls:
            assert await rows_of(url, "user:ada", *TABLES) == [0] * 6
        assert_erased(urls)
        await move_shards(urls, [shard_of("ada")], there)
        assert (await memory.verify()).ok
        assert await memory.check_replay() == []


def assert_erased(urls: list[str]) -> None:
    """See that no column of any table of any database has anything that was ada's."""
    for url in urls:
        assert found_in_database(url, "user:ada", "ada enjoys", "a secret") == set()


async def test_a_user_who_is_erased_after_a_move_was_cut_off_while_it_copied_is_at_neither_place(
    urls,
):
    """Their name is not left in the list of what has arrived, nor what they have in the totals."""
    await all_at_first(urls, ["ada", "bob"])
    async with opened(urls) as memory:
        await memory.user("ada").add("a secret")
        here = url_of(memory, urls, "ada")
        [there] = [url for url in urls if url != here]
        await cut_off(urls, "ada", there, "_admit")
        await move_shards(urls, [shard_of("ada")], here)
        copied = shard_copy.ShardCopy.changed

        async def then_killed(self):
            await copied(self)
            raise LogUnavailable("killed")

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(shard_copy.ShardCopy, "changed", then_killed)
            with pytest.raises(LogUnavailable, match="killed"):
                await move_shards(urls, [shard_of("ada")], there)
        assert ("arriving", "name", "user:ada") in found_in_database(there, "user:ada")

        await memory.erase("ada")

        assert_erased(urls)
        assert await arriving(there) == [(None, [], [])]
        await move_shards(urls, [shard_of("ada")], there)
        assert await memory.users() == ["bob"]
        assert (await memory.verify()).ok


async def arriving(url: str) -> list[tuple[Any, ...]]:
    """Return what is listed there of streams that were copied and have not arrived."""
    import psycopg

    base, _, schema = url.partition("?schema=")
    async with await psycopg.AsyncConnection.connect(base, autocommit=True) as connection:
        query = f"SELECT DISTINCT name, names, totals FROM {schema}.arriving"
        return await (await connection.execute(query)).fetchall()


async def test_a_shard_goes_on_to_a_third_place_although_the_first_was_not_emptied(
    urls,
):
    with ExitStack() as held:
        urls.append(held.enter_context(lent_url()))
        await all_at_first(urls, ["ada"])
        async with opened(urls) as memory:
            await memory.user("ada").count()
            here = url_of(memory, urls, "ada")
            there, further = (url for url in urls if url != here)

            await cut_off(urls, "ada", there, "_cleared")
            await move_shards(urls, [shard_of("ada")], further)
            await move_shards(urls, [shard_of("ada")], here)
            await memory.user("ada").add("tea")

            assert url_of(memory, urls, "ada") == here
            assert await memory.user("ada").count() == 2
            assert not any(one.moving for one in await shards_in(urls))
            assert (await memory.verify()).ok
            assert await memory.check_replay() == []


async def test_a_user_who_is_erased_and_comes_back_during_a_move_is_somebody_new(urls, monkeypatch):
    """What they write at once after the erasure arrives, and nothing before it."""
    await all_at_first(urls, ["ada"])
    async with opened(urls) as memory:
        await memory.user("ada").count()
        [there] = [url for url in urls if url != url_of(memory, urls, "ada")]
        copy, turns = shard_copy.ShardCopy.changed, iter([True])

        async def then_erased(self):
            changed = await copy(self)
            if next(turns, False):
                await memory.erase("ada")
                await memory.user("ada").add("new")
            return changed

        monkeypatch.setattr(shard_copy.ShardCopy, "changed", then_erased)
        await move_shards(urls, [shard_of("ada")], there)
        monkeypatch.undo()

        assert [m.content for m in await memory.user("ada").list_memories()] == ["new"]
        assert url_of(memory, urls, "ada") == there
        assert (await memory.verify()).ok
        assert await memory.check_replay() == []


MOVER = """
import asyncio, json, sys
from memory_actors.sharing.moving import move_shards
urls, shards, to = json.loads(sys.argv[1])
print("begun", flush=True)
asyncio.run(move_shards(urls, shards, to))
"""


async def moved_at_last(urls: list[str], shards: list[int], to: str) -> None:
    """Run a move again where a database did not answer in time, as it says."""
    for _ in range(5):
        with suppress(LogUnavailable):
            await move_shards(urls, shards, to)
            return
    await move_shards(urls, shards, to)


@pytest.mark.parametrize("kills", [8, pytest.param(20, marks=pytest.mark.slow)])
async def test_a_mover_that_is_killed_goes_on_when_it_is_run_again(urls, kills):
    """At random moments, while users write: they are claimable at one place, or soon are.

    Eight moments move the shards there and back.
    """
    users = [f"user {n}" for n in range(3)]
    await all_at_first(urls, users)
    chance, written = random.Random(7), dict.fromkeys(users, 0)
    async with opened(urls) as memory:
        going = True

        async def write(user_id: str) -> None:
            while going:
                await memory.user(user_id).add(f"{written[user_id]}")
                written[user_id] += 1
                await asyncio.sleep(0.01)

        writing = [asyncio.create_task(write(user_id)) for user_id in users]
        await asyncio.sleep(0.1)
        shards = sorted({shard_of(user_id) for user_id in users})
        here = url_of(memory, urls, users[0])
        ways = [url for url in urls if url != here] + [here]
        for turn in range(kills):
            say = json.dumps([urls, shards, ways[(turn // 4) % 2]])
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-c", MOVER, say, stdout=subprocess.PIPE
            )
            await process.stdout.readline()
            await asyncio.sleep(chance.uniform(0, 1.2))
            with suppress(ProcessLookupError):  # it has ended by itself
                process.kill()
            await process.wait()
            if turn % 4 == 3:
                await moved_at_last(urls, shards, ways[(turn // 4) % 2])
            places = await shards_in(urls)
            for shard in shards:
                assert sum(shard in one.here for one in places) <= 1
        going = False
        await asyncio.gather(*writing)

        for user_id in users:
            assert await memory.user(user_id).count() == written[user_id] + 1
        assert (await memory.verify()).ok
        assert await memory.check_replay() == []


async def test_limits_follow_the_shards(urls):
    async with opened(urls[0], global_limits=GlobalLimits(entities=SHARDS)) as alone:
        await alone.user("ada").entities.add_entity("Tea")
    async with opened(urls, global_limits=GlobalLimits(entities=SHARDS)) as memory:
        here = url_of(memory, urls, "ada")
        [there] = [url for url in urls if url != here]
        await move_shards(urls, [shard_of("ada")], there)
        await memory.user("ada").count()
        async with asyncio.timeout(3):
            while True:
                caps = [n.memory._eventlog._writer.caps for n in memory._caller.nodes]
                if sorted(one["entity.count"] for one in caps) == [1, SHARDS - 1]:
                    break
                await asyncio.sleep(0.05)


async def test_a_process_that_does_not_know_the_new_database_is_in_the_way(urls):
    with ExitStack() as held:
        third = held.enter_context(lent_url())
        async with opened(urls) as memory:
            await memory.user("ada").add("tea")
            with pytest.raises(InvalidInputError, match="processes have this memory open without"):
                await move_shards([*urls, third], [shard_of("ada")], third)
        [moved] = await move_shards([*urls, third], [shard_of("ada")], third)
        assert moved.streams == 1


async def test_what_is_no_shard_or_no_place_of_the_memory_is_refused(urls):
    async with opened(urls):
        with pytest.raises(InvalidInputError, match="from 0 to 4095"):
            await move_shards(urls, [SHARDS], urls[0])
        with pytest.raises(InvalidInputError, match="among those of the memory"):
            await move_shards(urls, [1], "postgresql://elsewhere")


async def test_shards_are_dealt_out_evenly_again(urls):
    await all_at_first(urls, ["ada"])
    places = await shards_in(urls)
    moves = evenly(places)
    assert len(moves) == SHARDS // 2
    assert len({url for _, url in moves}) == 1
    assert sorted(len(one.here) for one in places) == [0, SHARDS]


async def test_moves_that_were_cut_off_are_finished_before_shards_are_dealt_out_again(
    urls,
):
    """One has left and not arrived, another has arrived and was not cleared."""
    users = ["ada", "bob"]
    await all_at_first(urls, users)
    async with opened(urls) as memory:
        here = url_of(memory, urls, "ada") if await memory.user("ada").count() else ""
        [there] = [url for url in urls if url != here]

        for user_id, step in zip(users, ("_admit", "_cleared"), strict=True):
            await cut_off(urls, user_id, there, step)
        moves = evenly(await shards_in(urls))
        assert len(moves) == SHARDS // 2 - 2
        assert {url for _, url in moves} == {there}
        line = ["--data", " ".join(urls), "shards"]
        loop = asyncio.get_running_loop()  # no context with it: the command has a loop of its own
        shown = await loop.run_in_executor(None, CliRunner().invoke, main, line)
        assert all(f"{one}" in shown.output for one in ("left", *map(shard_of, users))), (
            shown.output
        )

        moved = await finish_moves(urls)

        assert sorted(one.shard for one in moved) == sorted(map(shard_of, users))
        assert not any(one.moving for one in await shards_in(urls))
        assert await rows_of(here, "user:bob", *TABLES) == [0] * 6
        assert evenly(await shards_in(urls)) == moves
        for user_id in users:
            assert await memory.user(user_id).count() == 1
            assert url_of(memory, urls, user_id) == there
        assert await finish_moves(urls) == []


async def test_a_shard_that_fails_leaves_the_others_to_arrive(urls, monkeypatch):
    """And says that its own users wait."""
    users = ["ada", "bob", "cem"]
    await all_at_first(urls, users)
    async with opened(urls) as memory:
        await memory.users()
        here = url_of(memory, urls, "ada")
        [there] = [url for url in urls if url != here]
        admit, failed = shard_move.ShardMove._admit, asyncio.Event()

        async def admitted(self):
            if self._shard == shard_of("ada"):
                failed.set()
                raise DiskFull("no room")
            await failed.wait()
            await asyncio.sleep(0.1)
            await admit(self)

        monkeypatch.setattr(shard_move.ShardMove, "_admit", admitted)
        with pytest.raises(
            DiskFull, match=r"no room\. .* its users wait until the move is run again"
        ):
            await move_shards(urls, [shard_of(user_id) for user_id in users], there)
        monkeypatch.undo()

        moving = [one.moving for one in await shards_in(urls) if one.moving]
        assert sorted(one[shard_of("ada")] for one in moving) == ["arriving", "left"]
        assert [len(one) for one in moving] == [1, 1]
        for user_id in users[1:]:
            assert await memory.user(user_id).count() == 1
        await move_shards(urls, [shard_of("ada")], there)
        assert await memory.user("ada").count() == 1


async def test_a_shard_that_fails_before_it_leaves_has_no_users_who_wait(urls, monkeypatch):
    await all_at_first(urls, ["ada"])

    async def no_room(_self):
        raise DiskFull("no room")

    monkeypatch.setattr(shard_copy.ShardCopy, "changed", no_room)
    await shards_in(urls)
    with pytest.raises(DiskFull, match=r"no room$"):
        await move_shards(urls, [shard_of("ada")], urls[1])


async def test_a_place_that_a_move_was_given_up_to_may_be_moved_to_later(urls, monkeypatch):
    """And keeps nothing of what had arrived there."""
    with ExitStack() as held:
        urls.append(held.enter_context(lent_url()))
        await all_at_first(urls, ["ada"])
        async with opened(urls) as memory:
            await memory.user("ada").count()
            first = url_of(memory, urls, "ada")
            given_up, further = (url for url in urls if url != first)
            copy = shard_copy.ShardCopy.changed

            async def then_killed(self):
                await copy(self)
                raise LogUnavailable("killed")

            async def give_up() -> None:
                monkeypatch.setattr(shard_copy.ShardCopy, "changed", then_killed)
                with pytest.raises(LogUnavailable, match="killed"):
                    await move_shards(urls, [shard_of("ada")], given_up)
                monkeypatch.undo()

            await give_up()
            assert (await rows_of(given_up, "user:ada", "event"))[0] > 0
            await move_shards(urls, [shard_of("ada")], further)
            await memory.user("ada").add("tea")
            await move_shards(urls, [shard_of("ada")], given_up)
            assert await memory.user("ada").count() == 2
            assert url_of(memory, urls, "ada") == given_up

            given_up = first
            await give_up()
            await move_shards(urls, [shard_of("ada")], further)
            assert (await rows_of(given_up, "user:ada", "event"))[0] > 0
            await finish_moves(urls)
            assert await rows_of(given_up, "user:ada", *TABLES, "arriving") == [0] * 7
            assert not any(one.moving for one in await shards_in(urls))
            assert (await memory.verify()).ok
            assert await memory.check_replay() == []
            assert await memory.user("ada").count() == 2
