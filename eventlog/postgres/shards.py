"""Several stores that share streams between them, each in a database of its own.

Streams belong to shards, and each shard is in one of the stores: a row of its table `shard` says
so, and its procedures refuse to claim or write a stream whose shard is not there. So no map that a
process has in memory can do harm: at worst it asks the wrong store, and is told.

Each store has an id, which stays when its URL changes, and a list of all (`StoreSet`), so that who
opens too few, or another one, is told which are missing. The first who opens several makes them a
set; who opens one more adds it, without shards.
"""

import secrets
from collections.abc import Collection, Iterable, Sequence
from contextlib import AsyncExitStack
from typing import Any, NamedTuple

import msgspec

from eventlog.core.errors import LogUnavailable
from eventlog.postgres.arrays import Bytes, Ints
from eventlog.postgres.database import (
    CONNECT_S,
    Connection,
    DatabasePlace,
    Row,
    connect,
    patiently,
    reaching,
    run,
)
from eventlog.postgres.plan import ShardOf
from eventlog.postgres.preparing import prepare
from eventlog.postgres.side_tables import settings_at

SETTING = b"shards"
STREAMS_AT_ONCE = 1024

LOAD = "SELECT value FROM setting WHERE name = %b"
FOUND = """
    WITH made AS (
        INSERT INTO setting (name, value) VALUES (%b, %b)
        ON CONFLICT (name) DO NOTHING RETURNING true
    )
    INSERT INTO shard (shard, state) SELECT s, 'here' FROM unnest(%b) AS s JOIN made ON true
"""
CHANGE = "UPDATE setting SET value = %b WHERE name = %b AND value = %b"
NEW_ID = "INSERT INTO setting (name, value) VALUES (%b, %b) ON CONFLICT (name) DO NOTHING"
IS_USED = "SELECT EXISTS (SELECT FROM stream WHERE version > 0)"
# The procedures of older formats know no shards: a node that was stopped and comes back would claim
# by them what is in another store.
DROP_OLDER = """
    DO $$
    DECLARE
        v_older regprocedure;
    BEGIN
        FOR v_older IN
            SELECT oid::regprocedure FROM pg_proc
            WHERE pronamespace = current_schema()::regnamespace AND NOT proargnames
                && ARRAY['s_shard', 'p_streams', 'p_shard', 'p_shards'] AND proname IN (
                'append_batch', 'claim_stream', 'acquire_stream', 'renew_lease', 'erase_stream')
        LOOP
            EXECUTE 'DROP PROCEDURE ' || v_older;
        END LOOP;
    END
    $$
"""
LIVE = "SELECT count(*) FROM node WHERE address IS NOT NULL AND expires_at > clock_timestamp()"
UNKNOWN_SHARDS = (
    "SELECT sid, name FROM stream WHERE shard IS NULL AND name IS NOT NULL LIMIT %b::bigint"
)
PUT_SHARDS = """
    UPDATE stream SET shard = s.shard FROM unnest(%b, %b) AS s (sid, shard) WHERE stream.sid = s.sid
"""
SHARD_STATES = "SELECT shard, state, other FROM shard ORDER BY shard"
CONTENTS = """
    SELECT count(*) FILTER (WHERE substr(name, 1, octet_length(%b::bytea)) = %b::bytea),
        coalesce(sum(stored_bytes), 0)::bigint
    FROM stream WHERE version > erased_version AND name IS NOT NULL
"""
NODES = "SELECT address FROM node WHERE address IS NOT NULL AND expires_at > clock_timestamp()"
ID = b"store id"


class StoreSet(msgspec.Struct, frozen=True):
    """The stores that share streams, as one of them knows them."""

    id: str
    """Of the set."""
    store: str
    """The id of this store."""
    stores: dict[str, str]
    """The name of each of them for people, by id."""
    dealt: tuple[str, ...]
    """The stores that the shards were dealt to at first."""

    def shards_of(self, store: str, count: int) -> range:
        """Return the shards that a store got at first."""
        if store not in self.dealt:
            return range(0)
        at, parts = self.dealt.index(store), len(self.dealt)
        return range(at * count // parts, (at + 1) * count // parts)


class _FoundStore(NamedTuple):
    connection: Connection
    name: str
    id: str
    known: StoreSet | None


class Assembled(NamedTuple):
    """The stores of a set, by their URLs."""

    ids: list[str]
    """Of the stores, in the order of the URLs."""
    home: int
    """The one of them that keeps the settings that all have in common."""


async def assemble(urls: Sequence[str], shard_of: ShardOf, count: int) -> Assembled:
    """See that the stores at these URLs are one set, all of it.

    Stores that are empty become a set by this, and share `count` shards evenly. If one has streams
    it has all shards at first. What is empty, and given besides a set, becomes a part of it.

    :raises LogUnavailable: a store of the set is missing, or one is of another set, or of none and
        has streams; or a database cannot be reached.
    """
    looked = [await _looked(url) for url in urls]  # before anything is made
    _check(
        [known for _, known in looked if known is not None],
        {store for store, _ in looked if store is not None},
    )
    async with AsyncExitStack() as held:
        found = [await _found(url, held) for url in urls]
        if len({one.id for one in found}) < len(found):
            raise LogUnavailable("two of these URLs name the same store: name each once")
        if all(one.known is None for one in found):
            await _make(found, count)
        whole = await _whole(found)
        for at, one in enumerate(found):
            await _join(one, whole, count)
            found[at] = one._replace(known=await _load(one.connection))
            await _learn(found[at], whole)
            await _sort(one.connection, shard_of)
        ids = [one.id for one in found]
        return Assembled(ids, ids.index(whole.dealt[0]))


async def _asked(connection: Connection, query: str, values: Sequence[Any] = ()) -> list[Row]:
    """Return what one statement returns.

    :raises LogUnavailable: the database is away, or another one holds a lock for too long.
    """
    with reaching("try again"):
        return await run(connection, query, values)


async def _found(url: str, held: AsyncExitStack) -> _FoundStore:
    place = DatabasePlace.parse(url)
    connection = await patiently(lambda: connect(place), CONNECT_S)
    held.push_async_callback(connection.close)
    identity, _ = await prepare(connection, place, lambda: b"")
    if identity:
        raise LogUnavailable(f"the store in schema {place.schema!r} is encrypted: it stays alone")
    store = await _id_of(connection)
    info = connection.info
    name = f"{info.host}:{info.port}/{info.dbname}?schema={place.schema}"
    return _FoundStore(connection, name, store, await _load(connection))


async def _id_of(connection: Connection) -> str:
    await _asked(connection, NEW_ID, [ID, secrets.token_hex(8).encode()])
    [[store]] = await _asked(connection, LOAD, [ID])
    named: str = store.decode()
    return named


async def store_id(url: str) -> str:
    """Return the id of the store at a URL, which is the same at every URL of it; make the store.

    :raises LogUnavailable: its database cannot be reached.
    """
    place = DatabasePlace.parse(url)
    connection = await patiently(lambda: connect(place), CONNECT_S)
    try:
        await prepare(connection, place, lambda: b"")
        return await _id_of(connection)
    finally:
        await connection.close()


async def _load(connection: Connection) -> StoreSet | None:
    rows = await _asked(connection, LOAD, [SETTING])
    return _decoded(rows[0][0] if rows else None)


def _decoded(known: bytes | None) -> StoreSet | None:
    return None if known is None else msgspec.json.decode(known, type=StoreSet)


async def _make(found: Sequence[_FoundStore], count: int) -> None:
    """Make stores that are no set one, beginning with the store that has streams.

    Of two who do so at once, one does.
    """
    used = [one for one in found if await _is_used(one)]
    if len(used) > 1:
        raise LogUnavailable(
            f"{used[0].name} and {used[1].name} are stores of their own: export the users of one, "
            "and import them where the other one is open"
        )
    first = used[0] if used else min(found, key=lambda one: one.id)
    stores = {one.id: one.name for one in found}
    dealt = (first.id,) if used else tuple(sorted(stores))
    made = StoreSet(secrets.token_hex(8), first.id, stores, dealt)
    await _check_closed(first)
    await _put(first.connection, made, count)


async def _is_used(one: _FoundStore) -> bool:
    [[is_used]] = await _asked(one.connection, IS_USED)
    return bool(is_used)


async def _check_closed(one: _FoundStore) -> None:
    """Refuse a store that nodes have open which do not know that it is one of several."""
    [[live]] = await _asked(one.connection, LIVE)
    if live and await _load(one.connection) is None:
        raise LogUnavailable(
            f"{live} nodes have {one.name} open alone: close them, then open it with the others"
        )


async def _put(connection: Connection, made: StoreSet, count: int) -> None:
    """Make a store a part of a set, with its shards, unless it is one."""
    await _asked(connection, DROP_OLDER)
    shards = Ints(made.shards_of(made.store, count))
    await _asked(connection, FOUND, [SETTING, msgspec.json.encode(made), shards])


async def _whole(found: Sequence[_FoundStore]) -> StoreSet:
    """Return the set that the stores are, as all of them together know it.

    :raises LogUnavailable: they are of several, or one is missing.
    """
    known = [one for each in found if (one := await _load(each.connection)) is not None]
    stores = _check(known, {one.id for one in found})
    stores |= {one.id: one.name for one in found}
    return msgspec.structs.replace(known[0], stores=stores)


def _check(known: Sequence[StoreSet], given: Collection[str] = ()) -> dict[str, str]:
    """Return the names of the stores of a set, of which these are known to be a part.

    :raises LogUnavailable: they are of several sets, or one is missing.
    """
    if len({one.id for one in known}) > 1:
        raise LogUnavailable(
            "these databases belong to different memories: "
            + "; ".join(", ".join(sorted(one.stores.values())) for one in known)
            + ". Name those of one of them"
        )
    stores = dict[str, str]()
    for one in known:
        stores |= one.stores
    there = {*given, *(one.store for one in known)}
    if missing := [name for store, name in stores.items() if store not in there]:
        raise LogUnavailable(
            f"this memory is in {len(stores)} databases, and these are missing: "
            f"{', '.join(missing)} (the address may have changed): name all of them"
        )
    return stores


async def _join(one: _FoundStore, whole: StoreSet, count: int) -> None:
    if await _load(one.connection) is not None:
        return
    if await _is_used(one):
        raise LogUnavailable(
            f"{one.name} is a store of its own, and not empty: export its users, and import them"
        )
    await _check_closed(one)
    await _put(one.connection, msgspec.structs.replace(whole, store=one.id), count)


async def _learn(one: _FoundStore, whole: StoreSet) -> None:
    """Write the names of all stores down in one of them."""
    known = one.known
    while known is not None and known.stores != whole.stores:
        now = msgspec.structs.replace(known, stores=known.stores | whole.stores)
        if now == known:
            return
        values = [msgspec.json.encode(now), SETTING, msgspec.json.encode(known)]
        await _asked(one.connection, CHANGE, values)
        known = await _load(one.connection)


async def _sort(connection: Connection, shard_of: ShardOf) -> None:
    """Write down the shard of each stream that was made before the store was one of several."""
    while rows := await _asked(connection, UNKNOWN_SHARDS, [STREAMS_AT_ONCE]):
        shards = Ints(shard_of(name.decode()) for _, name in rows)
        await _asked(connection, PUT_SHARDS, [Bytes(sid for sid, _ in rows), shards])


async def check_membership(connection: Connection, place: DatabasePlace, *, is_known: bool) -> None:
    """Refuse to open one of several stores alone.

    :raises LogUnavailable: the store is one of several, and the caller does not know of them.
    """
    known = await _load(connection)
    if known is not None and not is_known:
        others = ", ".join(name for store, name in known.stores.items() if store != known.store)
        raise LogUnavailable(
            f"schema {place.schema!r} is one of {len(known.stores)} databases of one memory: open "
            f"it together with {others}"
        )


async def are_one(urls: Sequence[str]) -> bool:
    """Say whether the stores at these URLs are all of a set, or one that is in none; make nothing.

    :raises LogUnavailable: a database cannot be reached.
    """
    known = [await _known(url) for url in urls]
    if known == [None]:
        return True
    sets = [one for one in known if one is not None]
    ids = {one.store for one in sets}
    return len(ids) == len(urls) and all(one.stores.keys() == ids for one in sets)


async def _known(url: str) -> StoreSet | None:
    _, known = await _looked(url)
    return known


async def _looked(url: str) -> tuple[str | None, StoreSet | None]:
    """Return the id of the store at a URL, and its set, as far as it has them; make nothing."""
    store, known = await settings_at(url, ID, SETTING)
    return None if store is None else store.decode(), _decoded(known)


class ShardsAt(msgspec.Struct, frozen=True, kw_only=True):
    """A store that is one of several, and what is in it."""

    store: str
    """Its id, which stays when its URL changes."""
    name: str
    """Its host, database and schema."""
    url: str
    here: tuple[int, ...]
    """The shards that are in it."""
    moving: dict[int, str]
    """Shards that are on their way: `arriving` here, or `left` and `cleared` from here."""
    others: dict[int, str]
    """The store that each of these comes from, or goes to."""
    streams: int
    stored_bytes: int
    """Of the payloads of its streams."""
    nodes: tuple[bytes, ...]
    """The addresses of the nodes that live in it."""


async def shards_at(url: str, prefix: str = "") -> ShardsAt:
    """Return what is in a store that is one of several; count streams whose names begin so.

    :raises LogUnavailable: it is none, or its database cannot be reached.
    """
    place = DatabasePlace.parse(url)
    known = await _known(url)
    if known is None:
        raise LogUnavailable(f"schema {place.schema!r} is no part of a memory in several databases")
    connection = await patiently(lambda: connect(place), CONNECT_S)
    try:
        states = await _asked(connection, SHARD_STATES)
        [(streams, stored)] = await _asked(connection, CONTENTS, [prefix.encode(), prefix.encode()])
        nodes = await _asked(connection, NODES)
    finally:
        await connection.close()
    return ShardsAt(
        store=known.store,
        name=known.stores[known.store],
        url=url,
        here=tuple(shard for shard, state, _ in states if state == "here"),
        moving={shard: state for shard, state, _ in states if state != "here"},
        others={shard: other for shard, state, other in states if state != "here"},
        streams=streams,
        stored_bytes=stored,
        nodes=tuple(address for [address] in nodes),
    )


def ranges(shards: Iterable[int]) -> str:
    """Return shards as people write them: 0-2047, 3000."""
    parts, last = list[list[int]](), -2
    for shard in sorted(shards):
        if shard == last + 1:
            parts[-1][1] = shard
        else:
            parts.append([shard, shard])
        last = shard
    return ", ".join(f"{a}" if a == b else f"{a}-{b}" for a, b in parts)
