"""The agreement of the nodes of a store: on the model, and on what decisions about users rest on.

The model is written down in the store, and a node with another one is refused, as at a directory.
Settings are compared with those of the nodes that live, which show them beside their addresses: so
they can be changed, once all nodes are closed.
"""

from collections.abc import Iterable
from typing import Final

import msgspec

from eventlog import EventStore, Leases, SettingStore, require
from memory_actors.base.errors import InvalidInputError, ModelMismatchError
from memory_actors.base.settings import Settings
from memory_actors.sharing.address import Address
from memory_actors.sharing.choices import as_text

MODEL: Final = "model"
AGREED: Final = (
    "tiers", "default_tier", "global_limits", "exclusive_relations", "context_soft_tokens",
    "context_hard_tokens", "token_counter", "on_duplicate", "recall_audit",
    "placement", "ray_actors",
)  # fmt: skip
"""The settings that decide what becomes of a write, whichever node carries it out."""


def shown(settings: Settings) -> dict[str, str]:
    """Return the settings that nodes have to agree on, each as a text that says what it is."""
    return {name: as_text(getattr(settings, name)) for name in AGREED}


async def agree(
    log: EventStore, leases: Leases, settings: Settings, model: str, *, reindex: bool
) -> None:
    """See that this node may work beside the others.

    :raises InvalidInputError: a node that lives has other settings, or another model.
    :raises ModelMismatchError: the store was indexed with another model.
    """
    others = await leases.nodes()
    _compare(settings, (msgspec.json.decode(one.address, type=Address) for one in others))
    store, mine = require(log, SettingStore), model.encode()
    while (known := await store.load_setting(MODEL)) != mine:
        if known is not None and not reindex:
            raise ModelMismatchError(
                f"this store is indexed with {known.decode()!r}, not with {model!r}: open it with "
                "that model, or with reindex=True to embed its memories again"
            )
        if known is not None and others:
            raise InvalidInputError("other nodes index with the model of before: close them first")
        await store.save_setting(MODEL, mine, expected=known)


def _compare(settings: Settings, others: Iterable[Address]) -> None:
    mine = shown(settings)
    for other in others:
        unlike = [name for name in mine if other.settings.get(name, mine[name]) != mine[name]]
        if unlike:
            raise InvalidInputError(
                f"node {other.host}:{other.port} (process {other.pid}) has other settings "
                f"({', '.join(unlike)}): open all nodes with the same, or close the others first"
            )
