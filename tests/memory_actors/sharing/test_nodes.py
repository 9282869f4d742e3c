"""Nodes: memory systems that share a store in PostgreSQL, here two in one process."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from datetime import UTC, datetime
from multiprocessing import get_context
from typing import Any

import pytest
import structlog
from support.canaries import found_in_database
from support.fakes import FakeEmbedder
from support.ports import ReservedPort

from eventlog import stream_id
from memory_actors import (
    BeingErasedError,
    GlobalLimits,
    GlobalQuotaExceededError,
    InvalidInputError,
    Item,
    MemorySystem,
    ModelMismatchError,
    Settings,
    UnavailableError,
)
from memory_actors.base.errors import MovedError
from memory_actors.base.streams import recall_stream_of, stream_of
from memory_actors.search.embedding.rows import owner_of
from memory_actors.search.indexes.files import index_path, of_kind, read_whole, words_beside
from memory_actors.sharing.nodes import node, opening, peers
from memory_actors.sharing.nodes.peers import joined

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("cache")]


def opened(url: str, **more: Any) -> Any:
    settings = Settings(latency_targets_ms={}, **more)
    return MemorySystem.open(url, embedder=FakeEmbedder(), settings=settings)


@asynccontextmanager
async def opened_twice(url: str, **more: Any) -> AsyncIterator[list[MemorySystem]]:
    async with AsyncExitStack() as held:
        yield [await held.enter_async_context(opened(url, **more)) for _ in range(2)]


@pytest.fixture
async def nodes(url) -> AsyncIterator[list[MemorySystem]]:
    async with opened_twice(url) as both:
        yield both


def node_of(memory: MemorySystem) -> Any:
    return memory._caller


def is_live(memory: MemorySystem, user_id: str) -> bool:
    return node_of(memory).runtime.is_live(stream_of(user_id))


async def freeze(memory: MemorySystem) -> None:
    """Stop the renewals of a node, and end its lease as if it had expired."""
    leases = node_of(memory).placement.leases

    async def never(_connection) -> None:
        await asyncio.sleep(0.01)

    leases._renew = never
    while leases._is_unanswered:  # a renewal under way would still land
        await asyncio.sleep(0.001)
    expire = "UPDATE node SET expires_at = clock_timestamp() WHERE id = %b"
    await leases._database.run(expire, [leases._node])
    leases._held_until_s -= leases._lease_s * 1.1


async def renews_again(memory: MemorySystem) -> None:
    """Let a node that was frozen renew its lease."""
    leases = node_of(memory).placement.leases
    del leases._renew
    while leases.seconds_left() <= 0:
        await asyncio.sleep(0.01)


async def test_a_memory_is_kept_in_a_database(url):
    async with opened(url) as memory:
        user = memory.user("ada", session_id="s")
        added = await user.add("Ada enjoys skiing")
        await user.working.set("mood", "good")
        hits = await user.retrieve("skiing")

    async with opened(url) as memory:
        user = memory.user("ada")
        assert (await user.get(added.memory_id)).content == "Ada enjoys skiing"
        assert await user.working.get("mood") == "good"
        assert {hit.memory_id for hit in await user.retrieve("skiing")} == {
            hit.memory_id for hit in hits
        }
        assert await memory.users() == ["ada"]


async def test_a_user_is_live_at_one_node_and_reached_from_every_node(nodes):
    one, other = nodes
    added = await one.user("ada").add("Ada enjoys skiing")

    assert (await other.user("ada").get(added.memory_id)).content == "Ada enjoys skiing"
    await other.user("ada").add("Ada lives in Davos")
    assert await one.user("ada").count() == 2

    assert (is_live(one, "ada"), is_live(other, "ada")) == (True, False)


async def test_writes_from_both_nodes_all_land_once(nodes):
    async def write(memory: MemorySystem, name: str) -> None:
        for number in range(20):
            await memory.user("ada").add(f"{name} {number}")

    await asyncio.gather(*(write(memory, str(at)) for at, memory in enumerate(nodes)))

    contents = [one.content for one in await nodes[0].user("ada").list_memories(limit=100)]
    assert sorted(contents) == sorted(f"{at} {n}" for at in range(2) for n in range(20))
    assert (await nodes[1].verify()).findings == []


async def test_a_user_moves_when_their_node_closes(url):
    async with opened(url) as staying:
        async with opened(url) as leaving:
            added = await leaving.user("ada").add("Ada enjoys skiing")
            await staying.user("ada").get(added.memory_id)
            assert is_live(leaving, "ada")

        async with asyncio.timeout(1):
            assert (await staying.user("ada").get(added.memory_id)).memory_id == added.memory_id
        assert is_live(staying, "ada")


async def test_a_node_that_lost_its_lease_answers_nothing_from_memory(nodes):
    """It asks the node that took the user over."""
    one, other = nodes
    await one.user("ada").add("Ada enjoys skiing")
    await freeze(one)
    added = await other.user("ada").add("Ada lives in Davos")

    del node_of(one).placement.leases._renew
    assert (await one.user("ada").get(added.memory_id)).content == "Ada lives in Davos"
    assert await one.user("ada").count() == 2
    assert (is_live(one, "ada"), is_live(other, "ada")) == (False, True)


async def test_a_call_outlives_the_node_it_was_asked_of(nodes):
    """The node stops in the middle of it, and the call is carried out once, by another."""
    one, other = nodes
    await one.user("ada").add("Ada enjoys skiing")
    await other.user("ada").count()
    held, go_on, over = asyncio.Event(), asyncio.Event(), asyncio.Event()
    append = node_of(one).memory._services.log.append

    async def stuck(*args, **kwargs):
        held.set()
        await go_on.wait()
        try:
            return await append(*args, **kwargs)
        finally:
            over.set()

    node_of(one).memory._services.log.append = stuck
    adding = asyncio.create_task(other.user("ada").add("Ada lives in Davos"))
    await held.wait()
    await freeze(one)

    added = await adding
    go_on.set()
    await over.wait()
    assert [m.memory_id for m in await other.user("ada").list_memories()].count(
        added.memory_id
    ) == 1
    assert await other.user("ada").count() == 2


async def test_an_answer_that_was_lost_is_given_again(nodes):
    """The write has landed when the connection to its node is lost: it is not made twice."""
    one, other = nodes
    await one.user("ada").add("Ada enjoys skiing")
    await other.user("ada").count()
    append = node_of(one).memory._services.log.append
    landed, go_on = asyncio.Event(), asyncio.Event()

    async def lands_late(*args, **kwargs):
        appended = await append(*args, **kwargs)
        landed.set()
        await go_on.wait()
        return appended

    node_of(one).memory._services.log.append = lands_late
    adding = asyncio.create_task(other.user("ada").add("Ada lives in Davos"))
    await landed.wait()
    await freeze(one)
    added = await adding

    assert (await other.user("ada").get(added.memory_id)).content == "Ada lives in Davos"
    assert await other.user("ada").count() == 2
    go_on.set()


async def test_a_call_that_is_asked_again_claims_the_user_before_it_looks_into_the_log(nodes):
    """Else the former owner could write what it had on its way after the look."""
    one, other = nodes
    await one.user("ada").add("Ada enjoys skiing")
    await other.user("ada").count()
    looked, answering = [], node_of(other).answering
    user_again = answering.user_again

    async def watched(*args):
        looked.append(is_live(other, "ada"))
        return await user_again(*args)

    answering.user_again = watched
    await freeze(one)
    node_of(one).memory._services.runtime._placement.leases._held_until_s = 0.0
    await other.user("ada").add("Ada lives in Davos")

    assert looked == [True]
    assert await other.user("ada").count() == 2


async def test_the_past_is_read_at_any_node(nodes):
    one, other = nodes
    await one.user("ada").add("Ada enjoys skiing")
    async with other.replay("ada") as first, other.replay("ada") as second:
        await one.user("ada").add("Ada lives in Davos")
        assert [hit.content for hit in await first.retrieve("skiing")] == ["Ada enjoys skiing"]
        await first.close()
        assert len(await second.list_memories()) == 1
    assert not is_live(other, "ada")


async def test_totals_are_those_of_all_nodes(nodes):
    one, other = nodes
    await one.user("ada").add("Ada enjoys skiing")
    await other.user("bob").add("Bob enjoys rowing")

    async with asyncio.timeout(3):
        while (await one.usage()).users < 2 or node_of(one).memory._services.totals.now().get(
            "long_term.count"
        ) != 2:
            await asyncio.sleep(0.05)


async def test_an_erased_user_is_forgotten_by_every_node(nodes, url):
    """Also by one that had the user before."""
    one, other = nodes
    heard = []
    other.watch_erasures(heard.append)
    await other.user("ada").add_many([Item(content=f"Ada skis {n}") for n in range(3)])
    await one.user("bob").add("Bob rows")
    await freeze(other)
    assert await one.user("ada").count() == 3
    await renews_again(other)

    receipt = await other.erase("ada")

    assert receipt.events > 0
    assert heard == ["ada"]
    assert found_in_database(url, "user:ada", "Ada skis") == set()
    for memory in nodes:
        assert await memory.users() == ["bob"]
        assert await memory.user("ada").count() == 0
        left = node_of(memory).memory._erasing._directory / "indexes"
        assert not [one for one in left.iterdir() if stream_id(stream_of("ada")).hex() in one.name]


async def test_a_node_that_missed_an_erasure_has_forgotten_everybody(nodes, url):
    """Nothing of the user is left on its disk once it answers again."""
    one, other = nodes
    await one.user("ada").add_many([Item(content=f"Ada skis {n}") for n in range(3)])
    await one.user("ada").retrieve("skiing")
    services = node_of(one).memory._services
    while services.embeddings.disk.waiting:
        await asyncio.sleep(0.01)
    await freeze(one)
    await other.erase("ada")

    del node_of(one).placement.leases._renew
    assert await one.user("ada").count() == 0
    with services.embeddings.disk._env.read() as txn:
        assert txn.stat(txn.tables["embeddings"])["entries"] == 0
    assert list((node_of(one).memory._erasing._directory / "indexes").iterdir()) == []
    assert found_in_database(url, "user:ada", "Ada skis") == set()


async def test_index_files_say_the_chain_that_they_are_of(nodes, url):
    """So those of another history of the database are not believed."""
    one, _ = nodes
    await one.user("ada").add_many([Item(content=f"Ada skis {n}") for n in range(3)])
    await one.user("ada").retrieve("skiing")
    services, stream = node_of(one).memory._services, stream_of("ada")
    async with services.runtime.use(stream) as live:
        await live.indexes.save(always=False)
        version = live.actor.version
    directory = node_of(one).memory._erasing._directory
    path = words_beside(of_kind(index_path(directory, stream), "long_term"))
    file = read_whole(path, owner_of(None, stream))
    assert file is not None
    assert file.chain == await services.log.chain_at(stream, version) != b""


async def test_recalls_are_kept_wherever_a_user_is(url):
    """Also where a node has a user again that others had meanwhile."""
    async with opened_twice(url, recall_audit="plain") as (one, other):
        await one.user("ada").add("Ada enjoys skiing")
        for turn, memory in enumerate([one, other, one]):
            await memory.user("ada").retrieve(f"query {turn}")
            await node_of(memory).runtime._passivate(stream_of("ada"))

        assert [recall.query for recall in await other.recalls("ada")] == [
            "query 2", "query 1", "query 0",
        ]  # fmt: skip
        assert node_of(one).memory._services.recalls.failed == 0


async def test_a_node_that_was_stopped_keeps_no_recall_of_an_erased_user(url):
    async with opened_twice(url, recall_audit="plain") as (one, other):
        await one.user("ada").add("Ada enjoys skiing")
        await one.user("ada").retrieve("skiing")
        recalls = node_of(one).memory._services.recalls
        await freeze(one)
        await other.erase("ada")

        await recalls.keep(recall_stream_of("ada"), "a secret", (), {}, epoch=1)

        assert recalls.failed == 1
        assert await other.recalls("ada") == []
        assert found_in_database(url, "user:ada", "Ada enjoys", "skiing", "a secret") == set()


async def test_a_node_that_was_stopped_while_it_erased_erases_nothing_of_the_next_owner(nodes):
    """The erasure is fenced as appends are, and asked again where the user is."""
    one, other = nodes
    await one.user("ada").add("Ada enjoys skiing")
    erasing, go_on = asyncio.Event(), asyncio.Event()

    async def elsewhere(_user_id) -> None:
        erasing.set()
        await go_on.wait()

    node_of(one).memory._erasing.elsewhere = elsewhere
    erased = asyncio.create_task(node_of(one).memory.erase("ada"))
    await erasing.wait()
    await freeze(one)
    kept = await other.user("ada").add("Ada lives in Davos")
    go_on.set()

    with pytest.raises(MovedError):
        await erased
    assert (await other.user("ada").get(kept.memory_id)).content == "Ada lives in Davos"
    assert await other.user("ada").count() == 2


async def test_the_first_recall_of_an_erased_user_is_not_kept_by_a_late_node(url):
    async with opened_twice(url, recall_audit="plain") as (one, other):
        await one.user("ada").add("Ada enjoys skiing")
        recalls = node_of(one).memory._services.recalls
        await freeze(one)
        await other.erase("ada")

        await recalls.keep(recall_stream_of("ada"), "a secret", (), {}, epoch=1)

        assert recalls.failed == 1
        assert await node_of(other).memory._services.log.streams() == []
        assert found_in_database(url, "user:ada", "Ada enjoys", "a secret") == set()


async def test_a_client_of_a_node_that_is_lost_is_told_so(url):
    """It cannot go on elsewhere: another node would not know what of the call was done."""
    async with opened(url) as memory:
        client = await joined(url)
        assert client is not None
        command = MemorySystem(client)
        await command.user("ada").add("Ada enjoys skiing")
        assert [hit.content for hit in await command.user("ada").retrieve("skiing")] == [
            "Ada enjoys skiing"
        ]
        append = node_of(memory).memory._services.log.append

        async def lands_late(*args, **kwargs):
            appended = await append(*args, **kwargs)
            client._at.link.abort()
            return appended

        node_of(memory).memory._services.log.append = lands_late
        with pytest.raises(UnavailableError, match="read, then try again"):
            await command.user("ada").add("Ada lives in Davos")
        assert await memory.user("ada").count() == 2
        await command.close()


@pytest.mark.parametrize(
    ("url", "at"),
    [
        ("postgresql:///db", "127.0.0.1"),
        ("postgresql://app:pw@127.0.0.1:5432/db", "127.0.0.1"),
        ("postgresql://127.0.0.1:5432,127.0.0.1:5433/db", "127.0.0.1"),
        ("postgresql://app@/db?host=127.0.0.1", "127.0.0.1"),
        ("postgresql:///db?host=/var/run/postgresql", "127.0.0.1"),
        ("postgresql://[::1]:5432/db", "::1"),
    ],
)
def test_a_node_listens_where_it_reaches_the_database(url, at):
    assert opening._own_host(url) == at


async def test_a_user_who_is_being_erased_is_refused_at_every_node(nodes, url):
    one, other = nodes
    await one.user("ada").add("Ada enjoys skiing")
    erasing, go_on = asyncio.Event(), asyncio.Event()

    async def elsewhere(_user_id) -> None:
        erasing.set()
        await go_on.wait()

    node_of(one).memory._erasing.elsewhere = elsewhere
    erased = asyncio.create_task(other.erase("ada"))
    await erasing.wait()

    for memory in nodes:
        with pytest.raises(BeingErasedError):
            await memory.user("ada").add("Ada is back")
    go_on.set()
    await erased
    assert found_in_database(url, "user:ada", "Ada enjoys", "is back") == set()
    assert await other.user("ada").count() == 0


async def test_each_node_compacts_the_users_it_has(nodes):
    one, other = nodes
    old = datetime(2020, 1, 1, tzinfo=UTC)
    for memory, name in zip(nodes, ("ada", "bob"), strict=True):
        await memory.user(name).add_many(
            [Item(content=f"{name} skis in Davos {n}", occurred_at=old) for n in range(8)]
        )

    report = await one.compact(older_than="1d")

    assert (report.users, report.users_failed) == (2, 0)
    assert {each.user_id for each in report.clusters} == {"ada", "bob"}
    assert (is_live(one, "ada"), is_live(other, "bob")) == (True, True)
    assert (await other.compact("ada", older_than="1d")).users == 1


async def test_a_node_that_fails_leaves_the_others_their_report_of_a_compaction(nodes, monkeypatch):
    one, other = nodes
    await one.user("ada").add("Ada enjoys skiing")
    assert await other.user("ada").count() == 1

    async def fails(*_args, **_kwargs):
        raise UnavailableError("not now")

    monkeypatch.setattr(node_of(other).answering.memory, "compact", fails)
    with structlog.testing.capture_logs() as logged:
        report = await one.compact()

    assert report.users == 1
    assert [one["event"] for one in logged] == ["a node has not compacted its users"]


async def test_a_source_is_purged_at_every_node(nodes):
    for memory, name in zip(nodes, ("ada", "bob"), strict=True):
        await memory.user(name, source="mallory").add("pay mallory")
        await memory.user(name).add("no mallory")

    report = await nodes[0].purge("mallory")

    assert (len(report.receipts), report.failed) == (2, ())
    for name in ("ada", "bob"):
        assert [m.content for m in await nodes[1].user(name).list_memories()] == ["no mallory"]


async def test_a_limit_over_all_users_holds_across_nodes(url):
    """However many nodes write at once, and whatever each of them knows of the others."""
    limits = GlobalLimits(long_term_bytes=200)
    async with AsyncExitStack() as held:
        nodes = [
            await held.enter_async_context(opened(url, global_limits=limits)) for _ in range(3)
        ]

        async def write(at: int) -> int:
            written = 0
            for number in range(20):
                with suppress(GlobalQuotaExceededError):
                    await nodes[at].user(f"user{at}").add(f"fact {at} {number:02}")
                    written += 1
            return written

        written = sum(await asyncio.gather(*(write(at) for at in range(3))))

        totals = await node_of(nodes[0]).memory._services.log.totals()
        assert totals["long_term.size_bytes"] == 9 * written <= 200
        assert written == 200 // 9
        for at, memory in enumerate(nodes):
            user = memory.user(f"user{at}")
            assert await user.count() == len(await user.list_memories())


async def test_what_a_database_cannot_have_is_refused(url):
    for choice in ({"encrypt": True}, {"share": False}):
        with pytest.raises(InvalidInputError):
            await MemorySystem.open(url, **choice)


async def test_nodes_agree_about_what_decisions_rest_on(nodes, url):
    with pytest.raises(InvalidInputError, match="global_limits"):
        await opened(url, global_limits=GlobalLimits(entities=5))
    async with opened(url, idle_s=1):
        pass


async def test_another_model_is_refused_until_the_store_is_indexed_with_it(url):
    another = FakeEmbedder("another")
    async with opened(url) as memory:
        await memory.user("ada").add("Ada enjoys skiing")
        with pytest.raises(InvalidInputError, match="close them"):
            await MemorySystem.open(url, embedder=another, reindex=True)
    with pytest.raises(ModelMismatchError):
        await MemorySystem.open(url, embedder=another)
    async with MemorySystem.open(url, embedder=another, reindex=True) as memory:
        assert len(await memory.user("ada").retrieve("skiing")) == 1


async def test_what_a_killed_node_left_on_the_disk_is_removed(url, tmp_path):
    left = tmp_path / "cache" / "memory-actors" / "nodes" / "dead"
    left.mkdir(parents=True)
    (left / "derived.mdb").write_text("somebody's")

    async with opened(url):
        assert not left.exists()
        assert len(list(left.parent.iterdir())) == 1
    assert list(left.parent.iterdir()) == []


async def test_calls_of_a_node_that_is_gone_are_asked_of_the_next(nodes):
    """Also those that waited for it, or were about to ask it, when another call lost it."""
    one, other = nodes
    await one.user("ada").add("Ada enjoys skiing")
    await other.user("ada").count()
    stuck = asyncio.Event()

    async def never(*_args, **_kwargs) -> None:
        await stuck.wait()

    node_of(one).memory._services.log.append = never
    adding = asyncio.create_task(other.user("ada").add("Ada lives in Davos"))
    await asyncio.sleep(0.2)
    asking = asyncio.create_task(other.user("ada").count())
    await asyncio.sleep(0)
    await node_of(other).peers.lost(node_of(other)._elsewhere[stream_of("ada")])
    await freeze(one)

    assert (await adding).memory_id
    assert await asking in (1, 2)
    stuck.set()


def _open_and_close(cache: str, times: int) -> None:
    os.environ["XDG_CACHE_HOME"] = cache
    for _ in range(times):
        with opening._cache() as directory:
            assert (directory / opening.LOCK).exists()


def test_nodes_that_open_at_the_same_moment_leave_each_others_cache_alone(tmp_path):
    processes = [
        get_context("fork").Process(target=_open_and_close, args=(str(tmp_path), 100), daemon=True)
        for _ in range(4)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)

    assert [process.exitcode for process in processes] == [0] * 4


async def test_a_node_that_has_ended_is_let_go_of(url):
    """Also by a node that never asks it again."""
    async with opened(url) as staying:
        async with opened(url) as leaving:
            added = await leaving.user("ada").add("Ada enjoys skiing")
            await staying.user("ada").get(added.memory_id)
            [peer] = node_of(staying).peers._at.values()

        async with asyncio.timeout(5):
            while node_of(staying).peers._at or not peer._closed:
                await asyncio.sleep(0.01)
        assert (await staying.user("ada").get(added.memory_id)).content == "Ada enjoys skiing"


async def test_a_node_listens_at_the_port_that_is_named(url):
    reserved = ReservedPort()
    async with opened(url, node_port=reserved.number) as memory:
        assert node_of(memory).server.address.port == reserved.number
        with pytest.raises(InvalidInputError, match="node_port"):
            await opened(url, node_port=reserved.number)
    reserved.give_up()


async def test_nodes_of_two_machines_that_only_their_own_reaches_say_so(url, monkeypatch):
    """Behind a local proxy each of them finds the database at a loopback address."""
    monkeypatch.setattr(node, "PATIENCE_S", 0.5)
    async with opened(url) as one:
        await one.user("ada").add("Ada enjoys skiing")
        monkeypatch.setattr(peers, "this_machine", lambda: "another")
        with structlog.testing.capture_logs() as logged:
            async with opened(url) as other:
                with pytest.raises(UnavailableError, match=r"another machine: set .*node_host"):
                    await other.user("ada").count()

    assert any("reach none at the address of this one" in one["event"] for one in logged)


async def test_nodes_of_one_machine_say_nothing_of_their_addresses(url):
    with structlog.testing.capture_logs() as logged:
        async with opened_twice(url):
            pass
    assert not any("address of this one" in one["event"] for one in logged)
