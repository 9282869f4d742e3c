"""Users are placed by Ray: each of its actors has a share of the shards, and is a node.

The Ray actors of a store have names, so that every process that opens it finds the same ones, and
the first makes them. Ray spreads them over its machines, and begins one anew, there or elsewhere,
when its process or its machine is gone. Each opens the store as any node does, and claims the users
of its shards; whoever asks for another one is told where that user's actor is. A process that opens
the store with `placement="ray"` is a node that claims nobody.

Ray decides who shall have a user, and nothing rests on that: who has one is decided by the claim,
whose epoch fences each append. Calls go from node to node over their own connections (peers.py), so
they go on while Ray's head is away; only what has died meanwhile is not begun anew.
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import msgspec

from eventlog import EventLogError, Leases
from eventlog.core.logs import get_logger
from eventlog.postgres.shards import store_id
from memory_actors.api.parts import StoreParts
from memory_actors.base.errors import (
    InvalidInputError,
    MissingExtraError,
    MovedError,
    UnavailableError,
)
from memory_actors.base.privacy import reason
from memory_actors.base.settings import Settings
from memory_actors.sharing.nodes.placement import LeasedPlacement
from memory_actors.sharing.shards import SHARDS, shard_of_stream
from memory_actors.upkeep.database import has_store

if TYPE_CHECKING:
    from memory_actors.sharing.nodes.node import Node

try:
    import ray
    import ray.cloudpickle
    from ray.exceptions import RayError, RayTaskError
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy
except ImportError as error:
    raise MissingExtraError(
        "placement='ray' needs Ray: pip install 'memory-actors[ray]' on each machine of the cluster"
    ) from error

NAMESPACE: Final = "memory-actors"
"""Ray's namespace of these actors."""
CALLS_AT_ONCE: Final = 1_000  # of one Ray actor: all of them ask where its node is
ANSWER_S: Final = 2.0
START_S: Final = 120.0
"""The longest that a Ray actor may take to open its node: a process is begun, a model loaded."""

CLOSE_S: Final = 30.0

_logger = get_logger("memory_actors.sharing")


async def placed_by_ray(url: str, parts: StoreParts) -> Callable[[Leases], LeasedPlacement]:
    """Have the Ray actors of a store running; return the placement of a node that claims nobody.

    :raises UnavailableError: there is no Ray cluster, or it does not begin the actors.
    :raises InvalidInputError: a part of the store cannot be sent to them.
    """
    _check(_sent(parts))
    await asyncio.to_thread(_join_cluster)
    actors = RayActors(await store_id(url), url, parts)
    await actors.start()
    return partial(PlacementByRay, actors=actors, mine=None)


class PlacementByRay(LeasedPlacement):
    """A placement that claims the users of one Ray actor, or of none."""

    def __init__(self, leases: Leases, *, actors: "RayActors", mine: int | None):
        super().__init__(leases)
        self._actors = actors
        self._mine = mine

    async def claim(self, key: str) -> int:
        """Claim a user whose shard is this node's, and return the epoch.

        :raises MovedError: the shard is another node's, or as `LeasedPlacement.claim`.
        """
        number = self._actors.number_of(key)
        if number == self._mine:
            return await super().claim(key)
        address = await self._actors.address(number)
        if address is not None:
            raise MovedError("another node has this user's shard", address=address)
        raise MovedError(
            f"Ray actor {self._actors.name(number)} has no node now: Ray begins it anew",
            address=await self._held_at(key),
        )

    async def _held_at(self, key: str) -> str | None:
        """Return where the node is that has a user by the database, which outlives Ray's head."""
        with suppress(EventLogError):
            holder = await self.leases.holder(key)
            return None if holder is None else holder.address.decode()
        return None


class RayActors:
    """The Ray actors of a store, numbered from 0."""

    def __init__(self, store: str, url: str, parts: StoreParts):
        """Take the id of the store, which its URLs have in common, one of those, and the parts."""
        self._store = store
        self._url = url
        self._parts = _sent(parts)
        self._count = (parts.settings or Settings()).ray_actors
        self._handles: dict[int, asyncio.Future[Any]] = {}
        """One look-up for all who wait: without Ray's head each would block a thread."""

    def number_of(self, stream: str) -> int:
        """Return the number of the actor that has the shard of a user's stream."""
        return shard_of_stream(stream) * self._count // SHARDS

    def name(self, number: int) -> str:
        """Return the name under which Ray knows an actor."""
        return f"{self._store}-{number}-of-{self._count}"

    async def start(self) -> None:
        """Have all of them running, each with its node open.

        :raises UnavailableError, InvalidInputError: see `placed_by_ray`.
        """
        try:
            async with asyncio.timeout(START_S):
                begun = map(self._begun, range(self._count))
                done = await asyncio.gather(*begun, return_exceptions=True)
            for error in [one for one in done if isinstance(one, BaseException)]:
                raise error
        except RayTaskError as failed:
            raise failed.cause from failed
        except (RayError, TimeoutError) as error:
            raise UnavailableError(
                f"Ray does not begin the nodes: {reason(error)}. Those that it has begun stay: "
                "open the store again, or end them with `memory-actors ray-stop`"
            ) from error

    async def address(self, number: int) -> str | None:
        """Return where the node of an actor is reached; None: it has none at the moment."""
        try:
            async with asyncio.timeout(ANSWER_S):
                return await self._asked(number)
        except TimeoutError:
            # Its handle stays good, and without Ray's head there is no other.
            return None
        except (RayError, ValueError) as error:
            # It may have been stopped, and made anew.
            if self._handles.pop(number, None) is not None:
                _logger.info("a Ray actor does not answer", actor=number, error=reason(error))
            return None

    async def _begun(self, number: int) -> None:
        """Have one running; leave none that cannot open its node."""
        try:
            await self._asked(number)
        except RayTaskError:
            await asyncio.to_thread(ray.kill, await self._handles.pop(number))
            raise

    async def _asked(self, number: int) -> str:
        if number not in self._handles:
            made = asyncio.to_thread(self._made, number)
            self._handles[number] = asyncio.ensure_future(made)
        try:
            handle = await asyncio.shield(self._handles[number])
        except Exception:  # the next one asks anew
            self._handles.pop(number, None)
            raise
        address: str = await handle.address.remote()
        return address

    def _made(self, number: int) -> Any:
        return (
            ray.remote(NodeActor)
            .options(
                name=self.name(number),
                namespace=NAMESPACE,
                get_if_exists=True,
                lifetime="detached",
                max_restarts=-1,
                max_task_retries=-1,
                max_concurrency=CALLS_AT_ONCE,
                num_cpus=0,  # it waits for disks and sockets, and takes what there is
                scheduling_strategy=_beside(number),
            )
            .remote(self._store, self._url, self._parts, number)
        )


class NodeActor:
    """A node in a process of Ray's. It is opened by whoever first asks where it is."""

    def __init__(self, store: str, url: str, parts: StoreParts, number: int):
        self._url = url
        self._parts = parts
        self._place = partial(PlacementByRay, actors=RayActors(store, url, parts), mine=number)
        self._opening = asyncio.Lock()
        self._node: Node | None = None

    async def address(self) -> str:
        """Return where the node is reached."""
        async with self._opening:
            if self._node is None:
                from memory_actors.sharing.nodes.opening import opened_node

                self._node = await opened_node(self._url, self._parts, place=self._place)
        return msgspec.json.encode(self._node.server.address).decode()

    async def close(self) -> None:
        """Give the users up, and open no node again: who asks for one waits until this is gone."""
        await self._opening.acquire()
        if self._node is not None:
            await self._node.close()


def _sent(parts: StoreParts) -> StoreParts:
    """Return the parts of a store for another process, on a machine with another address."""
    settings = msgspec.structs.replace(parts.settings or Settings(), node_host=None, node_port=0)
    return msgspec.structs.replace(parts, settings=settings, metrics=None, reindex=False)


def _check(parts: StoreParts) -> None:
    """Refuse what Ray cannot send.

    :raises InvalidInputError: a part cannot be pickled.
    """
    for name, part in msgspec.structs.asdict(parts).items():
        try:
            ray.cloudpickle.dumps(part)
        except Exception as error:  # whatever pickling a part of the caller's raises
            raise InvalidInputError(
                f"{name} cannot be sent to Ray's actors: {error}. Give one that can be pickled: "
                "what holds a connection or a lock makes it on first use"
            ) from error


def _beside(number: int) -> NodeAffinitySchedulingStrategy | str:
    """Return where an actor should be: in turn on each machine, else anywhere.

    Ray's own "SPREAD" puts actors that start at once on the same machine now and then.
    """
    alive = [one for one in ray.nodes() if one["Alive"]]
    machines = sorted(one["NodeID"] for one in alive if one["Resources"].get("CPU"))
    machines = machines or sorted(one["NodeID"] for one in alive)
    if not machines:  # a head that has just begun knows none yet
        return "DEFAULT"
    return NodeAffinitySchedulingStrategy(machines[number % len(machines)], soft=True)


async def stop_ray_actors(url: str) -> int:
    """Close the nodes of all Ray actors of a store, and end them for good; return how many.

    A process that has the store open, or opens it, begins them again.

    :raises UnavailableError: there is no Ray cluster.
    :raises LogUnavailable: it is no URL of a database, or that cannot be reached.
    """
    await asyncio.to_thread(_join_cluster)
    if not await asyncio.to_thread(has_store, url):
        return 0
    known = await asyncio.to_thread(ray.util.list_named_actors, all_namespaces=True)
    begins = f"{await store_id(url)}-"
    names = [
        one["name"]
        for one in known
        if one["namespace"] == NAMESPACE and one["name"].startswith(begins)
    ]
    await asyncio.gather(*map(_stop, names))
    return len(names)


async def _stop(name: str) -> None:
    with suppress(ValueError):  # another one has stopped it
        handle = await asyncio.to_thread(ray.get_actor, name, NAMESPACE)
        try:
            async with asyncio.timeout(CLOSE_S):
                await handle.close.remote()
        except (RayError, TimeoutError) as error:
            _logger.warning("a node was not closed", actor=name, error=reason(error))
        await asyncio.to_thread(ray.kill, handle)


def _join_cluster() -> None:
    """Join the Ray cluster of `RAY_ADDRESS`, or of this machine, if this process is in none."""
    if ray.is_initialized():
        return
    try:
        ray.init(address="auto", log_to_driver=False, logging_level=logging.ERROR)
    except ConnectionError as error:
        raise UnavailableError(
            "there is no Ray cluster: call ray.init(...) before, or set RAY_ADDRESS"
        ) from error
