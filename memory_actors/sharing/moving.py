"""Moving shards between the databases of one memory.

How a shard moves is in eventlog/postgres/shard_move.py. What is known here alone is which streams
are in it, and what each of them has in the totals over all users.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

import msgspec

from eventlog import EventStore, Progress, replay
from eventlog.postgres.database import DatabasePlace
from eventlog.postgres.shard_copy import all_of
from eventlog.postgres.shard_move import ShardMoved, ShardPlace, moving
from eventlog.postgres.shards import ShardsAt, assemble, shards_at
from memory_actors.base.errors import InvalidInputError
from memory_actors.base.settings import Settings
from memory_actors.base.streams import STREAM_PREFIX, is_user_stream
from memory_actors.kinds.user_state import fold_start, totals, user_decider
from memory_actors.sharing.address import Address
from memory_actors.sharing.shards import SHARDS, shard_of_stream
from memory_actors.upkeep.database import store_in

SHARDS_AT_ONCE: Final = 8
STEPS: Final = 1000
"""Of the progress of one shard."""


async def shards_in(urls: Sequence[str]) -> list[ShardsAt]:
    """Return which shards, users and bytes are in each of the databases of one memory.

    :raises LogUnavailable: these are not the databases of one memory, or one cannot be reached.
    """
    await assemble(urls, shard_of_stream, SHARDS)
    return [await shards_at(url, STREAM_PREFIX) for url in urls]


async def move_shards(
    urls: Sequence[str], shards: Sequence[int], to: str, *, progress: Progress | None = None
) -> list[ShardMoved]:
    """Move shards to the database `to` while their users go on.

    That is one of `urls`, or the id or the name of its store.

    Each is copied, verified, and handed over; its users wait for the last moments of that, for as
    long as the result says. What was cut off goes on when it is repeated. Or it is given up: a
    shard that has left `to`, or was being copied from there, and has not arrived stays there, and
    what was copied of it is deleted. `progress(done, total)` is called on the loop.

    :raises InvalidInputError: there is no such shard; or a process has the memory open without the
        database that the shards go to.
    :raises LogUnavailable: these are not the databases of one memory, or one cannot be reached.
    :raises MoveTakenOver: another mover goes on with one of them.
    :raises CorruptLog: what has arrived is not what was there: nothing was handed over.
    """
    if not shards or any(not 0 <= shard < SHARDS for shard in shards):
        raise InvalidInputError(f"a shard is a number from 0 to {SHARDS - 1}")
    places = await _finished(await shards_in(urls), shards, urls)
    new = next((one for one in places if to in (one.url, one.store, one.name)), None)
    if new is None:
        raise InvalidInputError("name the database that shards go to among those of the memory")
    if begun := _begun_from(new, places, shards):
        await _give_up(begun)
        places = await shards_in(urls)
        new = next(one for one in places if one.store == new.store)
    leaving = dict[str, list[int]]()
    for shard in dict.fromkeys(shards):
        old = _place_of(shard, places, new)
        if old is not None:
            _check_open(old, new)
            leaving.setdefault(old.url, []).append(shard)
    parts, total = dict[int, float](), sum(map(len, leaving.values()))

    def said(shard: int, done: int, of: int) -> None:
        parts[shard] = done / max(of, 1)
        if progress is not None:
            progress(int(sum(parts.values()) * STEPS), total * STEPS)

    by_url = {one.url: one for one in places}
    found = [await _moved(some, by_url[url], new, said) for url, some in leaving.items()]
    return [one for each in found for one in each]


async def _finished(
    places: list[ShardsAt], shards: Sequence[int], urls: Sequence[str]
) -> list[ShardsAt]:
    """Clear shards from where a move has left something of them; return what is where then.

    Also from where one that was given up has begun to copy them.
    """
    here = {shard: one for one in places for shard in one.here}
    left = [
        (one, here[shard], shard)
        for one in places
        for shard in {*shards} & one.moving.keys() & here.keys()
        if one.moving[shard] != "arriving"
    ]
    for old, new, shard in left:
        await _moved([shard], old, new, lambda *_: None)
    given_up = _given_up(await shards_in(urls) if left else places, shards)
    await _give_up(given_up)
    return await shards_in(urls) if left or given_up else places


def _given_up(
    places: Sequence[ShardsAt], shards: Sequence[int]
) -> list[tuple[ShardsAt, ShardsAt, int]]:
    """Return the shards that arrive at a place from one that has not got them any more."""
    by_store = {one.store: one for one in places}
    here = {shard: one.store for one in places for shard in one.here}
    return [
        (by_store[one.others[shard]], one, shard)
        for one in places
        for shard in {*shards} & one.moving.keys() & here.keys()
        if one.moving[shard] == "arriving" and one.others[shard] in by_store.keys() - {here[shard]}
    ]


def _begun_from(
    old: ShardsAt, places: Sequence[ShardsAt], shards: Sequence[int]
) -> list[tuple[ShardsAt, ShardsAt, int]]:
    """Return the shards that are on their way from a place, whether they have left it or not."""
    return [
        (old, one, shard)
        for one in places
        for shard in dict.fromkeys(shards)
        if (one.moving.get(shard), one.others.get(shard)) == ("arriving", old.store)
        or (old.moving.get(shard), old.others.get(shard)) == ("left", one.store)
    ]


async def _give_up(begun: Sequence[tuple[ShardsAt, ShardsAt, int]]) -> None:
    for old, new, shard in begun:
        async with moving(_place(old), _place(new), _nothing) as moves:
            await moves.give_up(shard)


async def finish_moves(urls: Sequence[str]) -> list[ShardMoved]:
    """Finish every move that was cut off after its shard had left, towards where it went.

    Until then nobody can use what has left, and what has arrived is there twice.

    :raises LogUnavailable: a database cannot be reached, or somebody moves one of them right now.
    :raises CorruptLog: what has arrived is not what was there.
    """
    done: list[ShardMoved] = []
    while moves := _begun(places := await shards_in(urls)):
        for old, new, shards in moves:
            done += await _moved(shards, old, new, lambda *_: None)
    await _finished(places, range(SHARDS), urls)
    return done


def _begun(places: Sequence[ShardsAt]) -> list[tuple[ShardsAt, ShardsAt, list[int]]]:
    """Return what has left which place, and is to be cleared there, or to arrive elsewhere first.

    Of a shard that has left two of them, the first is cleared when it is at its last place.
    """
    by_store = {one.store: one for one in places}
    here = {shard: one for one in places for shard in one.here}
    found: dict[tuple[str, str], list[int]] = {}
    for one in places:
        for shard, state in one.moving.items():
            new = here.get(shard) or by_store.get(one.others[shard])
            if state == "arriving" or new is None:
                continue
            if shard in here or new.moving.get(shard) in ("arriving", None):
                found.setdefault((one.store, new.store), []).append(shard)
    return [(by_store[old], by_store[new], shards) for (old, new), shards in found.items()]


def evenly(places: Sequence[ShardsAt]) -> list[tuple[int, str]]:
    """Return which shards go to which URL, so that each database has as many as the others.

    One that has left a place is counted where it goes, and goes nowhere else.
    """
    share, over = divmod(SHARDS, len(places))
    here = {shard for one in places for shard in one.here}
    coming = Counter(new.store for _, new, left in _begun(places) for _ in {*left} - here)
    counts = {one.store: len(one.here) + coming[one.store] for one in places}
    fullest = sorted(places, key=lambda one: counts[one.store], reverse=True)
    most = {one.store: share + (at < over) for at, one in enumerate(fullest)}
    spare = [
        shard for one in places for shard in one.here[max(most[one.store] - coming[one.store], 0) :]
    ]
    wanted = [one.url for one in places for _ in range(most[one.store] - counts[one.store])]
    return list(zip(spare, wanted, strict=False))


def _place_of(shard: int, places: Sequence[ShardsAt], new: ShardsAt) -> ShardsAt | None:
    """Return the place that a shard leaves; None: it is at the new one, and nowhere else."""
    for one in places:
        if one.store != new.store and (shard in one.here or one.moving.get(shard) == "left"):
            return one
    if shard in new.here:
        return None
    raise InvalidInputError(f"shard {shard} is in none of these databases")


def _check_open(old: ShardsAt, new: ShardsAt) -> None:
    """See that every process that has the old place open has the new one open, too."""
    here, there = _processes(old), _processes(new)
    if missing := here - there:
        raise InvalidInputError(
            f"{len(missing)} processes have this memory open without {new.name}: open them again "
            "with all databases, then move shards there"
        )


def _processes(place: ShardsAt) -> set[str | None]:
    return {msgspec.json.decode(one, type=Address).process for one in place.nodes}


async def _moved(
    shards: Sequence[int],
    old: ShardsAt,
    new: ShardsAt,
    said: Callable[[int, int, int], None],
) -> list[ShardMoved]:
    """Move shards, or go on with that.

    Where one fails, those that are under way are moved to the end, for some may have left already
    and not arrived; no more are begun, and the first error is raised.
    """
    async with (
        store_in(old.url, shard_of_stream) as log,
        moving(_place(old), _place(new), partial(_counted, log)) as moves,
    ):
        turns, moved, errors = asyncio.Semaphore(SHARDS_AT_ONCE), [], list[Exception]()

        async def one(shard: int) -> None:
            async with turns:
                if errors:
                    return
                try:
                    moved.append(await moves.move(shard, lambda done, of: said(shard, done, of)))
                    said(shard, 1, 1)
                except Exception as error:
                    errors.append(error)

        await all_of([one(shard) for shard in shards])
        if errors:
            raise errors[0]
        return moved


def _place(one: ShardsAt) -> ShardPlace:
    return ShardPlace(one.store, DatabasePlace.parse(one.url))


async def _nothing(_stream: str) -> Mapping[str, int]:
    return {}


async def _counted(log: EventStore, stream: str) -> Mapping[str, int]:
    """Return what a stream has in the totals over all users."""
    if not is_user_stream(stream):
        return {}
    head = await log.head(stream)
    state, after = await fold_start(log, stream, head.erased_version)
    decider = user_decider(Settings().limits_by_tier())
    state, _ = await replay(log, decider, stream, state=state, after=after, dropped="mark")
    return totals(state)
