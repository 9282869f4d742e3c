"""Another embedding model for a store that is in use.

The vectors of the new model are written beside the old ones, user by user, a few memories at a
time. Searches answer from the old vectors meanwhile. Whatever is there already is not embedded
again, so a switch that was cut off goes on where it stopped. At the end the store records the new
model, every live user leaves memory and comes back with it, and the old vectors are deleted.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import anyio.to_thread

from eventlog import DerivingStore, Progress
from memory_actors.base.errors import InvalidInputError
from memory_actors.base.reports import ModelSwitch
from memory_actors.base.streams import known_users, stream_of
from memory_actors.base.watching import tell
from memory_actors.kinds.kind import Found, Kind
from memory_actors.kinds.user_state import KINDS
from memory_actors.search.embedding.named import embedder_of
from memory_actors.search.embedding.service import EmbeddingService
from memory_actors.search.indexes.parts import indexed
from memory_actors.search.reading import texts
from memory_actors.users.handles.scope import Services
from memory_actors.users.live_user import LiveUser

MEMORIES_AT_ONCE: Final = 64
"""While they are embedded, their user cannot be erased."""
INDEXED: Final = tuple(kind for kind in KINDS if kind.NATURE.is_indexed)


async def switch_model(services: Services, name: str, progress: Progress | None) -> ModelSwitch:
    """Switch the model of a store. See `MemorySystem.switch_model`."""
    if isinstance(services.log, DerivingStore):
        raise InvalidInputError(
            "the nodes of a store in a database agree on its model: stop all but one, and open "
            "that one with the other embedder and reindex=True"
        )
    async with services.switching:
        old = services.embeddings
        embedder = await anyio.to_thread.run_sync(embedder_of, name)
        new = await anyio.to_thread.run_sync(old.with_embedder, embedder, name)
        switch = _Switch(services, new, progress)
        try:
            await new.background_mean()  # first: a model that does not work fails here
            for _ in range(2):  # the second time for what was added during the first
                await switch.embed_all()
            await anyio.to_thread.run_sync(new.make_own)
        except BaseException:
            new.stop()
            raise
        old.succeed(new)
        services.embeddings = new
        await services.runtime.renew(services.settings.shutdown_s)
        await anyio.to_thread.run_sync(new.disk.delete_other_models)
        return switch.report()


@dataclass
class _Switch:
    services: Services
    new: EmbeddingService
    progress: Progress | None
    done: int = 0
    embedded: int = 0
    refused: set[bytes] = field(default_factory=set)
    """Digests of texts that the model failed at, but not at those beside them."""

    def report(self) -> ModelSwitch:
        return ModelSwitch(
            embedder=self.new.name or "",
            fingerprint=self.new.embedder.fingerprint,
            memories=self.done,
            embedded=self.embedded,
            failed=len(self.refused),
        )

    async def embed_all(self) -> None:
        self.done = 0
        for user_id in await known_users(self.services.log):
            stream = stream_of(user_id)
            async with self.services.runtime.use(stream) as live:
                states = [(kind, live.state.of(kind)) for kind in INDEXED]
                there = [(kind, row.memory_id) for kind, one in states for row in kind.rows(one)]
            for start in range(0, len(there), MEMORIES_AT_ONCE):
                some = there[start : start + MEMORIES_AT_ONCE]
                async with self.services.runtime.use(stream) as live:
                    await self._embed(live, some)
                self.done += len(some)
                await self._tell()

    async def _tell(self) -> None:
        if self.progress is not None:
            totals = self.services.totals.now()
            total = sum(totals.get(f"{kind.NAME}.count", 0) for kind in INDEXED)
            await tell(self.progress, min(self.done, total), total)

    async def _embed(self, live: LiveUser, memories: Sequence[tuple[Kind, str]]) -> None:
        own, log = self.new.of(live.stream), self.services.log
        rows = ((kind, kind.find(live.state.of(kind), memory_id)) for kind, memory_id in memories)
        passages = {p.digest: (kind, row, p) for kind, row in rows for p in indexed(kind, row)}
        lacking = await anyio.to_thread.run_sync(self.new.disk.lacking, list(passages), own.owner)
        wanted = {d: passages[d] for d in lacking.values() if d not in self.refused}
        if not wanted:
            return
        found = [Found(kind, row) for kind, row, _ in wanted.values()]
        events = await texts(log, live.stream, found)
        said = {d: kind.passage_text(row, p.label, events) for d, (kind, row, p) in wanted.items()}
        embedded, failed = await own.embed_each(said)
        if len(failed) > max(1, len(embedded)):  # the model is down
            raise next(iter(failed.values()))
        own.keep(embedded)
        await anyio.to_thread.run_sync(self.new.disk.flush)  # before the user may be erased
        self.embedded += len(embedded)
        self.refused |= failed.keys()
