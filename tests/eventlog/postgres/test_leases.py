"""Leases of nodes on one database, and which of them has a stream."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, suppress

import pytest
from contracts.stores import Noted, registry

from eventlog import Fenced, LeasingStore, require

pytestmark = pytest.mark.anyio
LEASE_S = 0.5


@pytest.fixture
async def nodes(url: str) -> AsyncIterator[list]:
    """Yield two stores on one database, each with its leases."""
    from eventlog import PgEventStore

    async with AsyncExitStack() as opened:
        found = []
        for address in (b"one", b"other"):
            store = await opened.enter_async_context(PgEventStore.open(url, registry))
            require(store, LeasingStore)
            leases = await opened.enter_async_context(store.leases(address, lease_s=LEASE_S))
            found.append((store, leases))
        yield found


async def freeze(leases) -> None:
    """Stop a node's renewals, as a process that is stopped does, until its lease has expired."""
    leases._renew = never
    await asyncio.sleep(LEASE_S * 1.4)


async def never(_connection) -> None:
    await asyncio.sleep(0.01)


async def test_a_claim_names_the_node_that_has_the_stream(nodes):
    [(_, leases), (_, other)] = nodes
    mine = await leases.claim("s")

    claim = await other.claim("s")

    assert claim.epoch == mine.epoch
    assert claim.holder is not None
    assert claim.holder.address == b"one"
    assert [node.address for node in await other.nodes()] == [b"one"]


async def test_competing_claims_have_one_winner(nodes):
    [(_, leases), (_, other)] = nodes

    claims = await asyncio.gather(*(side.claim("s") for side in [leases, other] * 8))

    holders = {claim.holder.address for claim in claims if claim.holder is not None}
    assert len(holders) == 1
    won = [claim for claim in claims if claim.holder is None]
    assert sorted(claim.epoch for claim in won) == list(range(1, len(won) + 1))


async def test_a_node_whose_lease_expired_loses_its_streams(nodes):
    """After the takeover the former owner is fenced, whatever it believes."""
    [(store, leases), (taking, other)] = nodes
    claim = await leases.claim("s")
    await store.append("s", [Noted("a")], 0, epoch=claim.epoch)
    await freeze(leases)

    taken = await other.claim("s")

    assert (taken.epoch, taken.holder) == (claim.epoch + 1, None)
    with pytest.raises(Fenced):
        await store.append("s", [Noted("late")], 1, epoch=claim.epoch)
    await taking.append("s", [Noted("b")], 1, epoch=taken.epoch)


async def test_an_owner_is_fenced_on_a_stream_without_events(nodes):
    """A claim alone fences: nothing has to be written first."""
    [(store, leases), (_, other)] = nodes
    claim = await leases.claim("s")
    await freeze(leases)
    await other.claim("s")

    with pytest.raises(Fenced):
        await store.append("s", [Noted("late")], 0, epoch=claim.epoch)


async def test_a_node_vouches_for_less_than_its_lease(nodes):
    [(_, leases), (_, other)] = nodes
    assert 0 < leases.seconds_left() < LEASE_S
    await leases.claim("s")
    leases._renew = never

    while leases.seconds_left() > 0:
        await asyncio.sleep(0.01)

    assert (await other.claim("s")).holder is not None


async def test_a_claim_that_was_made_again_is_not_released_by_the_former(nodes):
    [(_, leases), (_, other)] = nodes
    first = await leases.claim("s")
    second = await leases.claim("s")

    await leases.release("s", first.epoch)

    assert second.epoch == first.epoch + 1
    assert (await other.claim("s")).holder is not None


async def test_a_node_learns_that_its_lease_had_expired(nodes):
    """It learns so before it vouches for anything again."""
    [(_, leases), _] = nodes
    learned, left = asyncio.Event(), []
    leases.lapsed = lambda: (left.append(leases.seconds_left()), learned.set())
    renew = leases._renew
    await freeze(leases)
    leases._renew = renew

    async with asyncio.timeout(5):
        await learned.wait()

    assert left[0] <= 0 < leases.seconds_left()


async def test_a_node_learns_so_too_when_the_answer_to_the_renewal_was_lost(nodes, monkeypatch):
    """The next renewal finds a lease that holds, though it had expired in between."""
    from eventlog.postgres.database import Lost, connect, run

    [(_, leases), _] = nodes
    learned = []
    leases.lapsed = lambda: learned.append(leases.seconds_left())
    renew = leases._renew
    await freeze(leases)
    connection = await connect(leases._database.place)
    await run(connection, "UPDATE node SET expires_at = clock_timestamp()")

    async def lost(*asked):
        assert await run(*asked) == [(False,)]
        raise Lost("the network is away")

    monkeypatch.setattr("eventlog.postgres.leases.run", lost)
    with pytest.raises(Lost):
        await renew(connection)
    monkeypatch.undo()
    await renew(connection)
    await connection.close()

    assert len(learned) == 1
    assert learned[0] <= 0 < leases.seconds_left()


async def test_a_node_whose_row_is_gone_gets_it_again(nodes):
    """It was away for so long that another node forgot it."""
    [(store, leases), (_, other)] = nodes
    claim = await leases.claim("s")
    await store.append("s", [Noted("a")], 0, epoch=claim.epoch)
    learned = asyncio.Event()
    leases.lapsed = learned.set
    await store._database.run("DELETE FROM node WHERE id = %b", [store._node])

    async with asyncio.timeout(5):
        await learned.wait()
        again = await leases.claim("s")

    assert again.epoch == claim.epoch + 1
    await store.append("s", [Noted("b")], 1, epoch=again.epoch)
    assert (await other.holder("s")).address == b"one"


async def test_a_node_that_closes_leaves_its_streams_at_once(nodes, url):
    from eventlog import PgEventStore

    async with (
        PgEventStore.open(url, registry) as store,
        store.leases(b"third", lease_s=60) as leases,
    ):
        await leases.claim("s")
    [_, (_, other)] = nodes

    assert (await other.claim("s")).holder is None


async def test_a_node_closes_where_the_end_of_its_renewals_is_not_heard_at_once(url):
    """psycopg may take a cancellation for the end of a query alone."""
    from eventlog import PgEventStore

    async def deaf(_connection) -> None:
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(60)

    async with (
        asyncio.timeout(5),
        PgEventStore.open(url, registry) as store,
        store.leases(b"one", lease_s=LEASE_S) as leases,
    ):
        leases._renew = deaf
        await asyncio.sleep(LEASE_S / 2)


async def test_a_claim_gives_a_stream_no_name(nodes):
    """A user who was only asked for is not among the users."""
    [(store, leases), _] = nodes

    await leases.claim("s")

    assert await store.streams() == []
    assert (await store.head("s")).version == 0
    assert (await store.verify()).findings == []
