"""Two movers of one shard, packets that come late, and moves that are given up."""

import asyncio
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import Any

import psycopg
import pytest
from click.testing import CliRunner
from support.canaries import found_in_database
from support.moving import TABLES, cut_off, opened, rows_of, url_of

from eventlog import CorruptLog, MoveTakenOver, Snapshot, stream_id
from eventlog.postgres import database, shard_move, shard_rows
from eventlog.postgres.database import Database
from memory_actors import MemorySystem
from memory_actors.cli import main
from memory_actors.sharing.moving import move_shards, shards_in
from memory_actors.sharing.shards import shard_of

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("cache")]

ADA = shard_of("ada")
Sent = tuple[str, str, Any]
"""The schema, the statement and the values that a mover sends."""
mover: ContextVar[str] = ContextVar("mover", default="")


@pytest.fixture
def watched(monkeypatch) -> Callable[[Callable[[Database, Sent], Awaitable[None]]], None]:
    """Have a function called before each statement of a mover."""

    def watch(before: Callable[[Database, Sent], Awaitable[None]]) -> None:
        class Watched(Database):
            async def run(self, query: str, values: Any = ()) -> list[Any]:
                await before(self, (self.place.schema, query, values))
                return await super().run(query, values)

        monkeypatch.setattr(shard_move, "Database", Watched)

    return watch


@pytest.fixture
def sessions(monkeypatch) -> list[Any]:
    """The connections that hold the locks of movers, as they were made."""
    made = list[Any]()
    connect = shard_move.connect

    async def connected(place: Any) -> Any:
        made.append(await connect(place))
        return made[-1]

    monkeypatch.setattr(shard_move, "connect", connected)
    return made


async def filled(urls: list[str]) -> None:
    """Make ada in the first database, with rows in every table."""
    async with opened(urls[0]) as alone:
        ada = alone.user("ada")
        for n in range(12):
            await ada.add(f"ada skis {n}", idempotency_key=f"key {n}")
        await ada.retrieve("skiing")
        log = alone._caller.memory._eventlog
        await log.flush()
        assert (await log.archive("user:ada", [2, 3, 4, 5])).events == 4
        await log.save_snapshot("user:ada", Snapshot(12, b"state"), "of another program")
    assert 0 not in await rows_of(urls[0], "user:ada", *TABLES)


def change(url: str, statement: str, *values: Any) -> None:
    base, _, schema = url.partition("?schema=")
    with psycopg.connect(base, autocommit=True) as connection:
        connection.execute(f"SET search_path = {schema}")
        connection.execute(statement, values)


async def assert_whole(memory: MemorySystem, more: int = 0) -> None:
    """See that everything of ada is there, that keys hold, and that nothing is there twice."""
    ada = memory.user("ada")
    count = await ada.count()
    assert count == 12 + more
    for n in (0, 3, 11):
        await ada.add(f"ada skis {n}", idempotency_key=f"key {n}")
    assert await ada.count() == count
    first = (await ada.list_memories(limit=100))[-1]
    assert await ada.history(first.memory_id)
    assert (await memory.verify()).ok


# --- two movers


def schema_of(url: str) -> str:
    return url.partition("?schema=")[2]


def begun(name: str, urls: list[str], to: str) -> "asyncio.Task[Any]":
    """Begin to move ada's shard, by a mover of this name."""
    token = mover.set(name)
    try:
        return asyncio.create_task(move_shards(urls, [ADA], to))
    finally:
        mover.reset(token)


class Gate:
    """Stops the first mover before a statement of a kind that it was not stopped at before.

    A kind is a statement, and whether it goes to the place that the shard leaves.
    """

    def __init__(self, kinds: set[tuple[bool, str]]):
        self.reached, self.go_on = asyncio.Event(), asyncio.Event()
        self.kinds = kinds
        self.stopped_at = (False, "")
        self.here = ""

    async def __call__(self, _database: Database, sent: Sent) -> None:
        kind = (sent[0] == schema_of(self.here), sent[1])
        if mover.get() == "first" and not self.reached.is_set() and kind not in self.kinds:
            self.kinds.add(kind)
            self.stopped_at = kind
            self.reached.set()
            await self.go_on.wait()


async def test_a_mover_that_another_one_has_taken_over_from_changes_nothing(
    urls, watched, sessions
):
    """It is stopped before each of its statements in turn, and the session of its lock ends.

    Then another one moves the shard to the end, and the first one goes on.
    """
    await filled(urls)
    await shards_in(urls)
    here, there = urls
    kinds, ends = set[tuple[bool, str]](), dict[tuple[bool, str], Any]()
    whole = await rows_of(here, "user:ada", *TABLES)
    while True:
        change(there, "INSERT INTO derived VALUES (%s, 'stale', 'x')", stream_id("user:ada"))
        gate = Gate(kinds)
        gate.here = here
        watched(gate)
        first, reached = begun("first", urls, there), asyncio.create_task(gate.reached.wait())
        await asyncio.wait([first, reached], return_when=asyncio.FIRST_COMPLETED)
        if not gate.reached.is_set():
            reached.cancel()
            await first
            break
        await sessions[-1].close()
        await move_shards(urls, [ADA], there)

        gate.go_on.set()
        [end] = await asyncio.gather(first, return_exceptions=True)

        assert isinstance(end, MoveTakenOver | list), (gate.stopped_at, end)
        ends[gate.stopped_at] = end
        assert await rows_of(there, "user:ada", *TABLES) == whole, gate.stopped_at
        assert await rows_of(here, "user:ada", *TABLES) == [0] * 6, gate.stopped_at
        assert not any(one.moving for one in await shards_in(urls)), gate.stopped_at
        here, there = there, here

    assert len(kinds) > 30
    # Whoever finds that all is done has nothing to say.
    went_on = {kind for kind, end in ends.items() if isinstance(end, list)}
    assert went_on == {
        (True, shard_move.STATE), (False, shard_move.ARRIVE), (True, shard_move.END),
    }  # fmt: skip
    async with opened(urls) as memory:
        await assert_whole(memory)


async def test_a_mover_that_was_stopped_deletes_nothing_of_users_who_go_on(urls, watched, sessions):
    await filled(urls)
    async with opened(urls) as memory:
        assert await memory.user("ada").count() == 12
        gate = Gate(set())
        gate.here = url_of(memory, urls, "ada")
        [there] = [url for url in urls if url != gate.here]
        cleared = shard_rows.ARCHIVE.clear

        async def before(database: Database, sent: Sent) -> None:
            if sent[1] == cleared:
                await gate(database, sent)

        watched(before)
        first = begun("first", urls, there)
        await gate.reached.wait()
        await sessions[-1].close()
        await move_shards(urls, [ADA], there)
        await memory.user("ada").add("ada rows", idempotency_key="key of a row")

        gate.go_on.set()
        with pytest.raises(MoveTakenOver, match=f"another mover goes on with .* shard {ADA}"):
            await first

        await memory.user("ada").add("ada rows", idempotency_key="key of a row")
        await assert_whole(memory, 1)


# --- packets that come late


async def test_what_a_mover_has_sent_does_no_harm_when_it_comes_again_later(urls, watched):
    """All it has sent so far comes a second time before each of its statements, and at the end."""
    await filled(urls)
    sent_before = list[tuple[str, str, Any]]()

    async def again() -> None:
        for schema, query, values in list(sent_before):
            url = next(url for url in urls if schema_of(url) == schema)
            await repeated[url].run(query, values)

    async def before(_database: Database, sent: Sent) -> None:
        if not sent[1].lstrip().startswith("SELECT"):
            await again()
            sent_before.append(sent)

    repeated = {url: Database(database.DatabasePlace.parse(url)) for url in urls}
    async with opened(urls) as memory, repeated[urls[0]].opened(), repeated[urls[1]].opened():
        assert await memory.user("ada").count() == 12
        here = url_of(memory, urls, "ada")
        [there] = [url for url in urls if url != here]
        whole = await rows_of(here, "user:ada", *TABLES)
        before_counts = (await memory.usage()).counts
        change(there, "INSERT INTO derived VALUES (%s, 'stale', 'x')", stream_id("user:ada"))
        watched(before)

        await move_shards(urls, [ADA], there)

        assert len(sent_before) > 15
        assert await rows_of(there, "user:ada", *TABLES) == whole
        await memory.user("ada").add("ada rows")
        await again()
        assert not any(one.moving for one in await shards_in(urls))
        await assert_whole(memory, 1)
    async with opened(urls) as memory:
        counts = (await memory.usage()).counts
        assert counts == before_counts | {"long_term": before_counts["long_term"] + 1}
        assert await memory.check_replay() == []


# --- a shard that has left and not arrived


async def test_a_shard_that_has_left_may_be_moved_back(urls):
    """Its users go on where they were, and nothing of them stays at the new place."""
    await filled(urls)
    async with opened(urls) as memory:
        await memory.user("ada").count()
        here = url_of(memory, urls, "ada")
        [there] = [url for url in urls if url != here]
        await cut_off(urls, "ada", there, "_admit")
        assert [one.moving for one in await shards_in(urls) if one.url == here] == [{ADA: "left"}]

        assert await move_shards(urls, [ADA], here) == []

        assert await memory.user("ada").count() == 12  # a call waits until the process has heard
        assert url_of(memory, urls, "ada") == here
        assert not any(one.moving for one in await shards_in(urls))
        assert await rows_of(there, "user:ada", *TABLES, "arriving") == [0] * 7
        assert found_in_database(there, "user:ada", "ada skis") == set()
        await memory.user("ada").add("ada rows")
        await assert_whole(memory, 1)
        [moved] = await move_shards(urls, [ADA], there)
        await assert_whole(memory, 1)
        assert (moved.shard, url_of(memory, urls, "ada")) == (ADA, there)
        await memory.erase("ada")
        assert await memory.users() == []


async def test_a_shard_that_has_left_may_be_moved_back_where_nothing_of_it_has_arrived(urls):
    """The database where it was to go was restored to a moment before."""
    await filled(urls)
    await shards_in(urls)
    here, there = urls
    await cut_off(urls, "ada", there, "_admit")
    change(there, "DELETE FROM shard")
    change(there, "DELETE FROM arriving")

    assert await move_shards(urls, [ADA], here) == []

    assert not any(one.moving for one in await shards_in(urls))
    async with opened(urls) as memory:
        await assert_whole(memory)


async def test_a_move_that_was_cut_off_while_it_copied_may_be_given_up(urls):
    await filled(urls)
    await shards_in(urls)
    here, there = urls
    await cut_off(urls, "ada", there, "_handed_over")
    assert [one.moving for one in await shards_in(urls)] == [{}, {ADA: "arriving"}]

    assert await move_shards(urls, [ADA], here) == []

    assert not any(one.moving for one in await shards_in(urls))
    assert found_in_database(there, "user:ada", "ada skis") == set()


async def test_a_shard_that_was_moved_back_is_not_admitted_by_the_mover_of_before(
    urls, watched, sessions
):
    """It was stopped when all was copied. Else the shard would be at two places."""
    await filled(urls)
    for statement in (shard_move.ADMIT, shard_move.KEEP_TOTALS, shard_move.LEAVE):
        await shards_in(urls)
        here, there = urls
        gate = Gate(set())
        gate.here = here

        async def before(database: Database, sent: Sent, gate=gate, statement=statement) -> None:
            if sent[1] == statement:
                await gate(database, sent)

        watched(before)
        first = begun("first", urls, there)
        await gate.reached.wait()
        await sessions[-1].close()
        await move_shards(urls, [ADA], here)

        gate.go_on.set()
        with pytest.raises(MoveTakenOver):
            await first

        at, other = await shards_in(urls)
        assert ADA in at.here
        assert ADA not in other.here
        assert not at.moving
        assert not other.moving
    async with opened(urls) as memory:
        await assert_whole(memory)


async def test_the_command_moves_a_shard_back(urls):
    await filled(urls)
    await shards_in(urls)
    here, there = urls
    await cut_off(urls, "ada", there, "_admit")
    loop = asyncio.get_running_loop()

    def ran(*arguments: str) -> Any:
        return CliRunner().invoke(main, ["--data", " ".join(urls), "shards", *arguments])

    shown = await loop.run_in_executor(None, ran)
    assert "move the shards back to where they came from" in shown.output
    done = await loop.run_in_executor(None, lambda: ran("move", "--user", "ada", "--to", here))
    assert (done.exit_code, "all of these shards are where" in done.output) == (0, True)
    assert not any(one.moving for one in await shards_in(urls))


async def test_a_large_shard_does_not_stay_between_two_places(urls, watched, monkeypatch):
    """What is done while its users wait takes no longer for more rows.

    So no statement then takes longer than one may, by which the move would fail each time.
    """
    await filled(urls)
    here, there = urls
    await shards_in(urls)
    rows = "SELECT %s, decode(to_hex(n), 'escape'), 1 + n %% 12 FROM generate_series(1, 300000) n"
    change(here, f"INSERT INTO event_key (sid, key, version) {rows}", stream_id("user:ada"))
    whole, answer_s = await rows_of(here, "user:ada", *TABLES), database.ANSWER_S

    async def before(_database: Database, sent: Sent) -> None:
        if sent[1] == shard_move.LEAVE:
            monkeypatch.setattr(database, "ANSWER_S", 0.05)
        if sent[1] == shard_move.CLEAR:
            monkeypatch.setattr(database, "ANSWER_S", answer_s)

    watched(before)
    await move_shards(urls, [ADA], there)

    assert await rows_of(there, "user:ada", *TABLES) == whole


async def test_rows_that_are_missing_at_the_new_place_are_found_before_the_shard_leaves(
    urls, watched
):
    """They are copied once more, and then the move ends: the users have not had to wait."""
    await filled(urls)
    await shards_in(urls)
    there = urls[1]

    async def before(_database: Database, sent: Sent) -> None:
        if sent[1] == shard_rows.COUNTS:
            change(there, "DELETE FROM event_key WHERE version = 5")

    watched(before)
    with pytest.raises(CorruptLog, match=r"where the old place has .* move it again$"):
        await move_shards(urls, [ADA], there)

    assert ADA in (await shards_in(urls))[0].here
    watched(nothing)
    await move_shards(urls, [ADA], there)
    async with opened(urls) as memory:
        await assert_whole(memory)


async def test_an_erasure_that_comes_when_all_was_copied_has_the_stream_copied_again(urls, watched):
    """It is one that was asked for before: what the user wrote since is there, and counted."""
    await filled(urls)
    await shards_in(urls)
    here, there = urls
    whole, turns = await rows_of(here, "user:ada", *TABLES), iter([True])
    async with opened(urls) as memory:
        before_counts = (await memory.usage()).counts

    async def before(_database: Database, sent: Sent) -> None:
        if sent[1] == shard_move.ADMIT and next(turns, False):
            change(there, "CALL drop_foreign(%s, %s, 0, 1)", stream_id("user:ada"), ADA)
            assert (await rows_of(there, "user:ada", "derived")) == [0]

    watched(before)
    await move_shards(urls, [ADA], there)

    assert next(turns, None) is None
    assert await rows_of(there, "user:ada", *TABLES) == whole
    async with opened(urls) as memory:
        assert (await memory.usage()).counts == before_counts
        await assert_whole(memory)


async def nothing(_database: Database, _sent: Sent) -> None:
    pass
