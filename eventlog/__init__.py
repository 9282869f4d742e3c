"""An embedded, append-only event store on LMDB: streams, snapshots, subscriptions, deciders.

    registry = EventRegistry()

    @registry.event("account.opened")
    class Opened(msgspec.Struct, frozen=True):
        owner: str

    async with EventLog.open("./data", registry) as log:
        await log.append("account-1", [Opened("Ada")], expected_version=0)

It knows nothing about what the events mean.
"""

from eventlog.core.lazy import import_lazily

import_lazily(__name__)
