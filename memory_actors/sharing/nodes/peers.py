"""The connections of a node with other nodes, over which it has calls carried out there.

A call has the same name wherever it is asked: the id of the node that asks, and a number. It can
therefore be sent to one node after another, and is carried out once (retrying.py). A connection
that is lost is tried once more; then the caller gets an error, and looks up the user's current
node.
"""

import asyncio
import os
import secrets
import socket
import time
import uuid
from collections.abc import Callable, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any, Final, NoReturn

import msgspec

from eventlog.core.errors import EventLogError
from eventlog.postgres.leases import live_nodes
from memory_actors.base.errors import SystemClosedError, UnavailableError
from memory_actors.base.on import On
from memory_actors.sharing.address import BACKLOG, Address, family_of, is_loopback
from memory_actors.sharing.client import Asked, Client
from memory_actors.sharing.connecting import Connection, RefusedError
from memory_actors.sharing.declaration import Invocation
from memory_actors.sharing.generated_operations import DECLARED

CONNECT_S: Final = 1.0
"""A node that lives takes a connection at once; where another one is, the database says."""
GIVEN_UP: Final = "another call could not reach this node"
HOW_TO_BE_REACHED: Final = (
    "set Settings.node_host (--node-host, MEMORY_ACTORS_NODE_HOST) there, to an address at which "
    "other machines reach it"
)
BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")
NETWORK: Final = Path("/proc/self/ns/net")


class PeerLostError(ConnectionError):
    """Another node cannot be reached: what it was asked may have been carried out."""


class _PeerConnection(Connection):
    """A connection with one node. It never opens a store in the place of that node."""

    async def start(self) -> None:
        """Connect.

        :raises PeerLostError: nobody answers, or another process does.
        """
        if self._welcome is not None and not self._client.keeps:
            raise PeerLostError(  # a client is known to this node alone: nobody else can go on
                "the node is gone. A write may have been carried out: read, then try again"
            )
        address = self._client.address()
        assert address is not None
        if is_loopback(address.host) and is_elsewhere(address):
            raise PeerLostError(
                f"node {address.host}:{address.port} is on another machine: {HOW_TO_BE_REACHED}"
            )
        try:
            async with asyncio.timeout(CONNECT_S):
                await self.join()
        except (OSError, RefusedError) as error:
            raise PeerLostError(f"node {address.host}:{address.port}: {error}") from error

    def _silence(self, pid: int) -> Exception:
        return PeerLostError(f"process {pid} says nothing")


class Peer(Client):
    """A node, as another one has it, or a client that is none.

    Calls are known everywhere by `node`, the id of who makes them. A node's calls are carried out
    there, if the user is; a client's calls, wherever the user is.
    """

    CONNECTION = _PeerConnection

    def __init__(self, address: Address, node: str, *, is_node: bool = True):
        super().__init__(Path(), {}, _never, keeps=is_node)
        self.gone: Callable[[], object] = lambda: None
        """Called when the node cannot be reached any more."""
        self._at_address = address
        self._node = node

    def address(self) -> Address:
        """Return where the node listens."""
        return self._at_address

    def _name(self) -> str:
        return self._node

    def fail(self, error: BaseException) -> None:
        """End all calls that wait; let go of a node that is gone."""
        if isinstance(error, PeerLostError):
            self.gone()
            if not self.keeps:
                error = UnavailableError(str(error))  # nobody asks elsewhere for a client
        super().fail(error)

    async def carried_out(self, asked: Asked, invocation: Invocation) -> Any:
        """Have an operation carried out there, and return its result.

        :raises PeerLostError: the node is gone; nobody knows what came of it.
        :raises MovedError: the user is elsewhere.
        """
        return DECLARED[invocation.name].decoded(await self._said(asked, invocation))

    async def told(self, asked: Asked, name: str, *args: object) -> None:
        """Tell the node something, and wait until it has done what follows.

        :raises PeerLostError: the node is gone.
        """
        await self._said(asked, Invocation(name, On(), args))

    async def _said(self, asked: Asked, invocation: Invocation) -> bytes:
        try:
            return await self._answer(invocation, asked)
        except SystemClosedError as error:  # the node is closing, or this connection with it
            raise PeerLostError(str(error)) from error

    async def lost(self) -> None:
        """End the connection: what waits for an answer is asked of whoever has the user now."""
        if self._pid is not None:
            self.fail(PeerLostError(GIVEN_UP))
        await self.close()

    def _check_here(self, *, loop_too: bool = True) -> None:
        if self._closed:
            raise PeerLostError(GIVEN_UP)
        super()._check_here(loop_too=loop_too)


async def _never(_give_up: Callable[[], object]) -> NoReturn:
    raise UnavailableError("a node is asked, and never replaced")


class Peers:
    """The other nodes, by address, as long as they answer."""

    def __init__(self, node: str):
        self.node = node
        """The id of this node."""
        self._at: dict[str, Peer] = {}
        self._ending: set[asyncio.Task[None]] = set()
        self._is_closed = False

    def at(self, address: str) -> Peer:
        """Return the node at an address.

        :raises PeerLostError: all connections are ended.
        """
        if self._is_closed:
            raise PeerLostError("this node is closing")
        if address not in self._at:
            peer = Peer(msgspec.json.decode(address, type=Address), self.node)
            peer.gone = partial(self._gone, address, peer)
            self._at[address] = peer
        return self._at[address]

    def _gone(self, address: str, peer: Peer) -> None:
        if self._at.get(address) is peer:
            ending = asyncio.create_task(self.lost(address))
            self._ending.add(ending)
            ending.add_done_callback(self._ending.discard)

    async def lost(self, address: str) -> None:
        """Forget a node that cannot be reached."""
        peer = self._at.pop(address, None)
        if peer is not None:
            await peer.lost()

    async def close(self) -> None:
        """End all connections; make no more."""
        self._is_closed = True
        for address in list(self._at):
            await self.lost(address)
        await asyncio.gather(*self._ending)


@cache
def this_machine() -> str:
    """Return an id that processes share if they reach each other at a loopback address.

    On Linux that is a running kernel and a network of it: each container has one of its own.
    """
    try:
        return f"{BOOT_ID.read_text().strip()} {NETWORK.readlink()}"
    except OSError:
        return f"{socket.gethostname()} {uuid.getnode():x}"


def is_elsewhere(address: Address) -> bool:
    """Say whether a node is surely on another machine."""
    return address.machine is not None and address.machine != this_machine()


def listening_for_peers(
    host: str, port: int, settings: Mapping[str, str]
) -> tuple[socket.socket, Address]:
    """Return a socket that listens for other nodes, and its address; on any port, if that is 0."""
    found = socket.create_server((host, port), family=family_of(host), backlog=BACKLOG)
    return found, Address(
        pid=os.getpid(),
        since=time.time(),
        secret=secrets.token_hex(32),
        port=found.getsockname()[1],
        host=host,
        machine=this_machine(),
        settings=settings,
    )


async def joined(url: str) -> Peer | None:
    """Become a client of a node of a store; return None if no node lives, or can be reached."""
    try:
        nodes = await live_nodes(url)
    except EventLogError:  # there is no store yet, say: opening it tells
        return None
    for node in nodes:
        address = msgspec.json.decode(node.address, type=Address)
        client = Peer(address, secrets.token_urlsafe(9), is_node=False)
        try:
            await client.start()
        except PeerLostError:
            await client.close()
        else:
            return client
    return None
