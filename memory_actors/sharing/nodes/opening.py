"""Opening a node: the log in the database, a lease in it, and a socket that other nodes reach.

The data on a node's own disk can be rebuilt: vectors and index files of the users it has. It lies
in a directory of its own below the user's cache, locked while the node lives. Whoever opens a node
removes what others left there that were killed, so that it holds nothing for long that was erased
meanwhile.
"""

import asyncio
import dataclasses
import fcntl
import os
import secrets
import shutil
import socket
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
import platformdirs

from eventlog import EventStore, Leases, LogUnavailable, SettingStore, require
from eventlog.core.logs import get_logger
from eventlog.core.waiting import to_the_end
from eventlog.files.datafile import MADE, open_regular
from eventlog.postgres.database import hosts_of
from eventlog.postgres.tables import settings_at
from memory_actors.api.parts import StoreParts, as_text
from memory_actors.api.settings_check import check as check_settings
from memory_actors.api.system import MemorySystem, open_alone
from memory_actors.base.errors import InvalidInputError, ModelMismatchError
from memory_actors.base.settings import Settings
from memory_actors.base.tokens import ESTIMATES
from memory_actors.search.embedding.named import embedder_of
from memory_actors.sharing.address import Address, is_loopback
from memory_actors.sharing.declaration import Invocation
from memory_actors.sharing.nodes.node import Node
from memory_actors.sharing.nodes.peers import Peers, is_elsewhere, listening_for_peers
from memory_actors.sharing.nodes.placement import LeasedPlacement, leased
from memory_actors.sharing.serving import OwnerServer
from memory_actors.upkeep.store import LogInDatabase

LOCK: Final = "lock"
NODE_ID_BYTES: Final = 9
LOOPBACK: Final = "127.0.0.1"


class NodeChoices(NamedTuple):
    """The choices that a node was opened with."""

    address: Address
    settings: Settings
    model: str
    reindex: bool = False
    """True if it may embed again what was indexed with another model."""
    replaces: bool = False
    """True if its settings were named by whoever opened it, and are to hold from now on."""


async def opened_node(url: str, parts: StoreParts, *, replaces: bool = True) -> Node:
    """Open a store in a database, as one of its nodes.

    `replaces` says whether the settings may take the place of those that the store has.

    :raises InvalidInputError: a choice that a store in a database cannot have.
    """
    if parts.encrypt:
        raise InvalidInputError(
            "a store in a database is not encrypted by a file of keys, which other nodes would not "
            "have: encrypt the disk of the database, and connect with sslmode=verify-full"
        )
    check_settings(parts.settings or Settings())
    held = AsyncExitStack()
    try:
        directory = held.enter_context(_cache())
        settings, embedder = parts.settings or Settings(), embedder_of(parts.embedder)
        listening, address = _listening(settings.node_host or _own_host(url), settings)
        held.callback(listening.close)
        chosen = NodeChoices(address, settings, embedder.fingerprint, parts.reindex, replaces)
        placed: list[LeasedPlacement] = []
        made: asyncio.Future[Node] = asyncio.get_running_loop().create_future()
        scheduled = partial(_compact_everywhere, made)

        @asynccontextmanager
        async def placing(log: EventStore) -> AsyncIterator[LeasedPlacement]:
            async with leased(log, msgspec.json.encode(address)) as placement:
                placed.append(placement)
                await agree(log, placement.leases, chosen)
                yield placement

        parts = dataclasses.replace(parts, embedder=embedder)
        peers = Peers(secrets.token_urlsafe(NODE_ID_BYTES))
        held.push_async_callback(peers.close)  # last: what closes may have to tell other nodes
        memory = await open_alone(
            directory, parts, AsyncExitStack(), LogInDatabase(url), placing, scheduled
        )
        held.push_async_callback(memory.close)
        [placement] = placed
        placement.forget = partial(_forget_everybody, memory, placement, chosen)
        server = OwnerServer(memory, {}, listen=lambda: (listening, address))
        held.push_async_callback(server.close)
        await server.start()
        node = Node(server, placement, peers, held.aclose)
        made.set_result(node)
        return node
    except BaseException:
        await to_the_end(held.aclose())
        raise


async def with_stored(url: str, settings: Settings) -> Settings:
    """Return settings with those that the store at a URL has.

    :raises LogUnavailable: the database cannot be reached.
    """
    [kept] = await settings_at(url, DECIDING.encode())
    return taken(settings, kept)


def _listening(host: str, settings: Settings) -> tuple[socket.socket, Address]:
    try:
        return listening_for_peers(host, settings.node_port, shown(settings))
    except (OSError, UnicodeError) as error:
        raise InvalidInputError(
            f"this machine cannot listen for other nodes at {host!r}, port {settings.node_port}: "
            f"{error}: set Settings.node_host (--node-host, MEMORY_ACTORS_NODE_HOST) to an address "
            "of it that they reach, node_port to one that is free, or to 0"
        ) from error


async def _forget_everybody(
    memory: MemorySystem, placement: LeasedPlacement, chosen: NodeChoices
) -> None:
    """Forget all users, after a time in which others may have erased them, or agreed anew."""
    await memory._erasing.forget_everybody()  # noqa: SLF001 - its own
    chosen = chosen._replace(reindex=False, replaces=False)
    await agree(memory._services.log, placement.leases, chosen)  # noqa: SLF001 - the same


async def _compact_everywhere(made: asyncio.Future[Node]) -> None:
    """Compact all users, at every node: what one node does by the schedule for all of them."""
    node = await asyncio.shield(made)
    await node.call(Invocation("system.compact"))


def _own_host(url: str) -> str:
    """Return the address of this machine on the network that the database is reached through."""
    hosts = hosts_of(url)
    if not hosts:  # a socket of this machine
        return LOOPBACK
    for host, port in hosts:
        with suppress(OSError, UnicodeError):
            family, _, _, _, where = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
            with socket.socket(family, socket.SOCK_DGRAM) as one:
                one.connect(where)  # sends nothing: it asks which way it would go
                return str(one.getsockname()[0])
    raise InvalidInputError(
        "it cannot be told at which address other nodes reach this one: the way to the database is "
        "not known. Set Settings.node_host (--node-host, MEMORY_ACTORS_NODE_HOST)"
    )


@contextmanager
def _cache() -> Iterator[Path]:
    """Hold a directory for a node; first remove those of nodes that died."""
    try:
        parent = Path(platformdirs.user_cache_dir("memory-actors")) / "nodes"
    except RuntimeError as error:  # nobody knows where the home is
        raise LogUnavailable("there is no home directory: set XDG_CACHE_HOME or HOME") from error
    try:
        parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        for left in parent.iterdir():
            with suppress(OSError):
                _remove_if_dead(left)
        directory, lock = _made(parent)
    except OSError as error:
        raise LogUnavailable(
            f"cannot keep a cache in {parent}: {error.strerror}: set XDG_CACHE_HOME"
        ) from error
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)
        os.close(lock)


def _made(parent: Path) -> tuple[Path, int]:
    """Make a directory for a node, and lock it.

    Another node that opens at this moment may find it before it is locked, and remove it.
    """
    while True:
        directory = parent / secrets.token_hex(8)
        directory.mkdir(mode=0o700)
        with suppress(FileNotFoundError, BlockingIOError):
            lock = _locked(directory)
            if (directory / LOCK).exists():
                return directory, lock
            os.close(lock)


def _locked(directory: Path) -> int:
    descriptor = open_regular(directory / LOCK, os.O_RDWR | MADE)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _remove_if_dead(directory: Path) -> None:
    descriptor = _locked(directory)
    try:
        shutil.rmtree(directory, ignore_errors=True)
    finally:
        os.close(descriptor)


# --- agreement of the nodes, on the model, and on what decisions about users rest on
#
# Both are written down in the store. A node with another model is refused, as at a directory. With
# settings, a node has to have those of the nodes that live, which show them beside their addresses;
# if none lives, its settings replace the stored ones. A node without settings takes those.


MODEL: Final = "model"
DECIDING: Final = "deciding settings"
STORED: Final = (
    "tiers", "default_tier", "global_limits", "exclusive_relations", "context_soft_tokens",
    "context_hard_tokens", "token_counter", "on_duplicate", "recall_audit",
)  # fmt: skip
"""The settings that decide what becomes of a write, whichever node carries it out."""
VALUES_CHARS_MAX: Final = 80
"""The limit for both values of a setting that differs: longer ones are only named."""

_logger = get_logger("memory_actors.sharing")
_Stored: Any = msgspec.defstruct(
    "_Stored",
    [
        (one.name, str if one.name == "token_counter" else one.type, one.default)
        for one in msgspec.structs.fields(Settings)
        if one.name in STORED
    ],
    frozen=True,
)
"""The settings of a store as they are kept there: a counter of tokens by its name alone."""


def shown(settings: Settings) -> dict[str, str]:
    """Return the settings that nodes have to agree on, each as a text that says what it is."""
    return {name: as_text(getattr(settings, name)) for name in STORED}


def taken(settings: Settings, kept: bytes | None) -> Settings:
    """Return settings with those that a store has, as far as they can be kept in one.

    :raises InvalidInputError: a later version has kept them.
    """
    if kept is None:
        return settings
    stored = _decoded(kept)
    names = set(STORED)
    if stored.token_counter not in ESTIMATES:
        names.discard("token_counter")  # an object: whoever has it names it
    return msgspec.structs.replace(settings, **{name: getattr(stored, name) for name in names})


async def agree(log: EventStore, leases: Leases, chosen: NodeChoices) -> None:
    """See that this node may work beside the others.

    :raises InvalidInputError: a node that lives has other settings, or another model; or the store
        has other settings, and these are not to replace them.
    :raises ModelMismatchError: the store was indexed with another model.
    """
    others = [msgspec.json.decode(one.address, type=Address) for one in await leases.nodes()]
    for other in others:
        if unlike := _unlike(other.settings, chosen.address.settings):
            raise InvalidInputError(
                f"node {other.host}:{other.port} (process {other.pid}) has other settings "
                f"({unlike}): open all nodes with the same, or close the others first"
            )
    store = require(log, SettingStore)
    await _agree_on_model(store, chosen, is_alone=not others)
    await _agree_on_settings(store, chosen)
    if is_loopback(chosen.address.host) and any(map(is_elsewhere, others)):
        _logger.warning(
            "other machines have nodes of this store, and reach none at the address of this one: "
            "set Settings.node_host (--node-host, MEMORY_ACTORS_NODE_HOST) to one that they reach",
            host=chosen.address.host,
        )


async def _agree_on_model(store: SettingStore, chosen: NodeChoices, *, is_alone: bool) -> None:
    mine = chosen.model.encode()
    while (known := await store.load_setting(MODEL)) != mine:
        if known is not None and not chosen.reindex:
            raise ModelMismatchError(
                f"this store is indexed with {known.decode()!r}, not with {chosen.model!r}: open "
                "it with that model, or with reindex=True to embed its memories again"
            )
        if known is not None and not is_alone:
            raise InvalidInputError("other nodes index with the model of before: close them first")
        await store.save_setting(MODEL, mine, expected=known)


async def _agree_on_settings(store: SettingStore, chosen: NodeChoices) -> None:
    """Have the store keep these settings, or see that it keeps no others.

    The nodes that live have the same: so whoever replaces them is alone.
    """
    if not chosen.replaces:
        stored = taken(chosen.settings, await store.load_setting(DECIDING))
        if unlike := _unlike(shown(stored), shown(chosen.settings)):
            raise InvalidInputError(
                f"this store was opened with other settings meanwhile ({unlike}): open it again"
            )
        return
    mine = _encoded(chosen.settings)
    while True:
        kept = await store.load_setting(DECIDING)
        unlike = "" if kept is None else _unlike(_texts(kept), _texts(mine))
        if kept is not None and not unlike:
            return
        if await store.save_setting(DECIDING, mine, expected=kept):
            break
    if unlike:
        _logger.warning("the settings of a store were replaced", changed=unlike)


def _unlike(theirs: Mapping[str, str], mine: Mapping[str, str]) -> str:
    """Describe the differences between settings that both sides know; "" if there are none."""
    found = []
    for name, here in mine.items():
        there = theirs.get(name, here)
        if there != here:
            is_short = len(there) + len(here) <= VALUES_CHARS_MAX
            found.append(f"{name}: {there} there, {here} here" if is_short else name)
    return ", ".join(found)


def _encoded(settings: Settings) -> bytes:
    values = {name: getattr(settings, name) for name in STORED}
    values["tiers"] = dict(settings.tiers)
    if not isinstance(settings.token_counter, str):
        values["token_counter"] = as_text(settings.token_counter)
    return msgspec.json.encode(_Stored(**values), order="sorted")


def _decoded(kept: bytes) -> Any:
    try:
        return msgspec.json.decode(kept, type=_Stored)
    except msgspec.DecodeError as error:
        raise InvalidInputError(
            f"the settings of this store cannot be read ({error}): a later version has kept them. "
            "Upgrade"
        ) from error


def _texts(kept: bytes) -> dict[str, str]:
    stored = _decoded(kept)
    return {name: as_text(getattr(stored, name)) for name in STORED}
