"""Nodes of one store as processes, each behind proxies of its own, and what the database says.

A trigger of this measurement notes beside each event which node wrote it, and who owned the stream
at that moment: so a stale commit is one that the owner did not make, whatever the fence says. The
node is the one whose row the same transaction has changed, as each batch does, whose id begins with
that of the node; a copy has none.
"""

import json
import os
import random
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import psycopg

from bench.cluster.journal import Line, lines
from bench.cluster.links import Link, Links
from bench.cluster.node import Config, Without, opened, serve
from eventlog import stream_id
from memory_actors.base.streams import stream_of
from tests.support.ports import ReservedPort
from tests.support.postgres import Server

if TYPE_CHECKING:
    from multiprocessing.process import BaseProcess

BEGIN_S_MAX = 60.0
END_S_MAX = 45.0
LOOK_S = 0.2
LAST_BYTES = 1 << 15
WITNESS = """
    CREATE TABLE {schema}.witness (position bigint, writer bytea, owner bytea);
    CREATE FUNCTION {schema}.witnessed() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        INSERT INTO {schema}.witness
        SELECT new.position, substring(n.id FOR 16), s.owner
        FROM {schema}.stream AS s
        LEFT JOIN {schema}.node AS n ON n.xmin = pg_current_xact_id()::xid
        WHERE s.sid = new.sid;
        RETURN NULL;
    END
    $$;
    CREATE CONSTRAINT TRIGGER witnessed AFTER INSERT ON {schema}.event
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION {schema}.witnessed();
"""
OWNERS = """
    SELECT s.sid, n.address FROM {schema}.stream AS s JOIN {schema}.node AS n ON n.id = s.owner
    WHERE n.expires_at > clock_timestamp()
"""
STREAMS = "SELECT sid, epoch, version FROM {schema}.stream"
_processes = get_context("forkserver")


class Plan(NamedTuple):
    """The size of a cluster, and how its workers work."""

    nodes: int
    users: int
    workers: int = 4
    """Of each node."""
    pause_s: float = 0.02
    """Between two calls of a worker, at the mean."""
    without: Without = None
    rounds_max: int = 20
    """Of its life: the longer, the longer its events take to be read again."""


class Place:
    """The place of a node: one process after another, behind the same proxies."""

    def __init__(self, slot: int, links: Links, database_port: int):
        self.slot = slot
        self.lives = 0
        self.process: BaseProcess | None = None
        self.reserved = ReservedPort()
        self.listens_at = self.reserved.number
        self.to_database, self.database_at = links.add(database_port)
        self.from_peers, self.reached_at = links.add(self.listens_at)

    @property
    def name(self) -> str:
        """The name of the node that is there now."""
        return f"n{self.slot}g{self.lives}"

    @property
    def pid(self) -> int | None:
        """The process of that node."""
        return None if self.process is None else self.process.pid


class Cluster:
    """Nodes that work, from `begin` to `finish`."""

    def __init__(self, directory: Path, server: Server, schema: str, plan: Plan, seed: int):
        self.directory, self.server, self.plan = directory, server, plan
        self.schema = schema
        self.rng = random.Random(seed)
        self.seed = seed
        self.links = Links()
        self.places = [Place(slot, self.links, server.port) for slot in range(plan.nodes)]
        self.names: list[str] = []
        """The names of all nodes so far."""
        self.users = tuple(f"user {number}" for number in range(plan.users))
        self.seen: list[tuple[str, str]] = []
        """Violations that were seen, each with an example."""
        self._sids = {stream_id(stream_of(user)): user for user in self.users}
        self._ended = threading.Event()
        self._watch = threading.Thread(target=self._watched, daemon=True)
        directory.mkdir()

    def url(self, port: int, name: str) -> str:
        """Return the URL of the store for a process of a name."""
        at = f"postgresql://postgres@127.0.0.1:{port}/postgres"
        return f"{at}?schema={self.schema}&application_name={name}"

    # --- beginning and ending

    def begin(self) -> None:
        """Begin all nodes, and wait until they work."""
        import asyncio

        asyncio.run(_made(self.url(self.server.port, "maker")))
        self.ask(WITNESS)
        for place in self.places:
            self.start(place)
        for place in self.places:
            self.await_begun(place)
        self._watch.start()

    def start(self, place: Place, clock_off_s: float = 0.0) -> None:
        """Begin a node in a place."""
        before = place.name if place.lives else None
        place.lives += 1
        self.names.append(place.name)
        first, plan = place.slot * self.plan.workers, self.plan
        config = Config(
            url=self.url(place.database_at, place.name), name=place.name,
            directory=self.directory, before=before, listens_at=place.listens_at,
            reached_at=place.reached_at, users=self.users,
            workers=tuple(range(first, first + plan.workers)),
            workers_in_all=plan.nodes * plan.workers, pause_s=plan.pause_s, seed=self.seed,
            clock_off_s=clock_off_s, without=plan.without,
        )  # fmt: skip
        place.process = _processes.Process(target=serve, args=(config,), daemon=True)
        place.process.start()

    def await_begun(self, place: Place) -> float:
        """Wait until the node in a place works; return the moment.

        :raises RuntimeError: it does not.
        """
        until_s = time.monotonic() + BEGIN_S_MAX
        while time.monotonic() < until_s:
            for line in lines(self.directory / place.name)[:1]:
                return line.at_s
            if place.process is None or not place.process.is_alive():
                break
            time.sleep(0.02)
        raise RuntimeError(f"node {place.name} does not begin")

    def signal(self, place: Place, sent: signal.Signals) -> None:
        """Send a signal to the node in a place, unless that has ended."""
        assert place.process is not None
        if place.process.is_alive() and place.pid is not None:
            with suppress(ProcessLookupError):
                os.kill(place.pid, sent)

    def kill(self, place: Place) -> None:
        """Kill it."""
        self.signal(place, signal.SIGKILL)
        self._join(place)

    def end(self, place: Place) -> None:
        """Stop the node cleanly, and wait until it has ended."""
        self.signal(place, signal.SIGTERM)
        self._await_end(place)

    def _await_end(self, place: Place) -> None:
        self._join(place)
        assert place.process is not None
        if (code := place.process.exitcode) != 0:
            self.seen.append(("not ended", f"node {place.name} in good order: {code}"))
            self.kill(place)

    def _join(self, place: Place) -> None:
        assert place.process is not None
        place.process.join(END_S_MAX)

    def finish(self) -> None:
        """End all nodes in good order."""
        for place in self.places:
            self.signal(place, signal.SIGTERM)
        for place in self.places:
            self._await_end(place)

    def close(self) -> None:
        """Kill what is left, and end the proxies."""
        self._ended.set()
        for place in self.places:
            if place.process is not None:
                self.signal(place, signal.SIGCONT)
                self.kill(place)
            place.reserved.give_up()
        if self._watch.is_alive():
            self._watch.join()
        self.links.close()

    def move_to(self, server: Server) -> None:
        """Lead all nodes to another server."""
        self.server = server
        for place in self.places:
            self.links.do(place.to_database.lead_to(server.port))

    # --- what the database says

    def ask(self, query: str) -> list[tuple[Any, ...]]:
        """Run a query on the database, without a proxy."""
        with psycopg.connect(self.server.url, autocommit=True) as connection:
            answered = connection.execute(query.format(schema=self.schema))
            return answered.fetchall() if answered.description else []

    def homes(self) -> dict[str, int]:
        """Return the process that has each user, of those who are live."""
        found = ((self._sids.get(sid), address) for sid, address in self.ask(OWNERS))
        return {user: json.loads(address)["pid"] for user, address in found if user is not None}

    def last(self, place: Place) -> list[Line]:
        """Return the last lines in the journal of the node in a place."""
        return lines(self.directory / place.name, LAST_BYTES)

    def _watched(self) -> None:
        """Look again and again for what must never be seen, not even for a moment."""
        seen: dict[bytes, tuple[int, int]] = {}
        while not self._ended.wait(LOOK_S):
            with suppress(psycopg.OperationalError):
                for sid, *now in self.ask(STREAMS):
                    was = seen.get(sid, (0, 0))
                    if now[0] < was[0] or now[1] < was[1]:
                        self.seen.append(("decreased", f"{sid.hex()} fell from {was} to {now}"))
                    seen[sid] = (now[0], now[1])


async def _made(url: str) -> None:
    async with opened(url):
        pass


@contextmanager
def running(
    directory: Path, server: Server, schema: str, plan: Plan, seed: int
) -> Iterator[Cluster]:
    """Run a cluster, and leave no process behind."""
    cluster = Cluster(directory, server, schema, plan, seed)
    try:
        cluster.begin()
        yield cluster
    finally:
        cluster.close()


def preload() -> None:
    """Have the modules of a node imported once, by the process that all nodes are forked from."""
    _processes.set_forkserver_preload(["bench.cluster.node"])


def link_of(place: Place, to: str) -> Link:
    """Return the proxy before the database, or before a node."""
    return place.to_database if to == "database" else place.from_peers
