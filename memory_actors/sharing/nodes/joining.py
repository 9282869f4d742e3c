"""A client of a node: for a program that makes a call or two and is gone. It loads no engine."""

import secrets

import msgspec

from eventlog.core.errors import EventLogError
from eventlog.postgres.leases import live_nodes
from memory_actors.sharing.address import Address
from memory_actors.sharing.nodes.peers import Peer, PeerLostError


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
