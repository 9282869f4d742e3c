"""The agreement of the nodes of a store: on the model, and on what decisions about users rest on.

Both are written down in the store. A node with another model is refused, as at a directory. Whoever
opens a store with settings has to have those of the nodes that live, which show them beside their
addresses; if none lives, its settings replace those that are stored. A node without settings takes
the stored ones.
"""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import msgspec

from eventlog import EventStore, Leases, SettingStore, require
from eventlog.core.logs import get_logger
from memory_actors.base.errors import InvalidInputError, ModelMismatchError
from memory_actors.base.settings import Settings
from memory_actors.base.tokens import ESTIMATES
from memory_actors.sharing.address import Address, is_loopback
from memory_actors.sharing.choices import as_text
from memory_actors.sharing.nodes.peers import is_elsewhere

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


class NodeChoices(NamedTuple):
    """The choices that a node was opened with."""

    address: Address
    settings: Settings
    model: str
    reindex: bool = False
    """True if it may embed again what was indexed with another model."""
    replaces: bool = False
    """True if its settings were named by whoever opened it, and are to hold from now on."""


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
