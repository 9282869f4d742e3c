"""A client of a node: for a program that makes a call or two and is gone. It loads no engine."""

import secrets
from collections.abc import Sequence

import msgspec

from eventlog.core.errors import EventLogError
from eventlog.postgres.leases import live_nodes
from eventlog.postgres.shards import are_one
from memory_actors.sharing.address import Address
from memory_actors.sharing.nodes.peers import Peer, PeerLostError


async def joined(urls: Sequence[str]) -> Peer | None:
    """Become a client of a node of a store; return None if no node lives, or can be reached.

    Of several databases that are not those of one memory, nobody becomes a client: opening says it.
    """
    try:
        nodes = await live_nodes(urls[0]) if await are_one(urls) else []
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
