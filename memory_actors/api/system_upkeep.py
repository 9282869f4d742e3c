"""The upkeep of a memory system as a whole: backup, verification, erasure.

The calls of `MemorySystem` that look after its data.
"""

from collections import Counter
from collections.abc import Callable
from pathlib import Path

from eventlog import (
    BackupStore,
    Copied,
    CountingStore,
    EventStore,
    Heads,
    Progress,
    VerifyingStore,
    VerifyReport,
    require,
)
from memory_actors.api.user import UserMemory
from memory_actors.api.wiring import Wired
from memory_actors.base.errors import StateDivergedError
from memory_actors.base.on import On
from memory_actors.base.records import Trust
from memory_actors.base.reports import EraseReceipt, ModelSwitch, Purged, PurgeReport
from memory_actors.base.streams import known_users, stream_of
from memory_actors.kinds.user_state import totals
from memory_actors.search.embedding.vector_table import FILE as DERIVED
from memory_actors.upkeep.switching import switch_model
from memory_actors.users.handles.scope import Scope, Services
from memory_actors.users.purges import purge_users


class SystemUpkeep:
    """The upkeep of all memories in one data directory. See `MemorySystem`."""

    def __init__(self, made: Wired):
        self._services = made.services
        self._erasing = made.erasing

    @property
    def _log(self) -> EventStore:
        return self._open.log

    @property
    def _open(self) -> Services:
        """The services, for a call that begins.

        :raises SystemClosedError: the system is closed, or closing.
        """
        self._services.runtime.check_open()
        return self._services

    async def erase(self, user_id: str, *, despite_hold: bool = False) -> EraseReceipt:
        """Erase a user, for good: memories, history, vectors, indexes, archive, keys.

        Payloads go from the log, its file and the archive; what stays of each event is its place,
        type, times, sizes and digest, so that the log still verifies. The user's id is in no file
        any more, only its hash; afterwards the user reads as one who never was, and may come back.
        Backups made before are not touched; of an encrypted store they cannot be read any more, as
        far as this user goes: the key is deleted, and reading gives `KeyGone`.

        Until it is done, the user is refused; others go on, but for the moments in which files are
        replaced (see `EventLog.shrink`). It goes on when the caller is cancelled. After a crash or
        an error, repeat it: what was erased before is erased. A cluster of the user that is just
        being compacted is finished first.

        A legal hold refuses it, and `despite_hold=True` overrides that: who erases decides which
        duty is the stronger. The receipt counts the holds, which are erased with the rest.

        :raises InvalidInputError: that is no user's id.
        :raises HeldError: the user is under a legal hold; nothing was erased.
        :raises BeingErasedError: it is under way.
        :raises LogUnavailable: the archive cannot be read now, so that nothing was begun.
        :raises StorageFailed: a file could not be looked for, removed or written: there may be more
            of the user in it. Repeat it when that is mended.
        :raises DiskFull: the disk is full. Free some space, then repeat it.
        :raises CorruptLog: the log is damaged. See the message, then repeat it.
        :raises KeyFileError: the key file cannot be used. See the message, then repeat it.
        """
        return await self._erasing.erase(user_id, despite_hold=despite_hold)

    async def purge(
        self,
        source: str | None = None,
        *,
        trust: Trust | str | None = None,
        dry_run: bool = False,
        progress: Progress | None = None,
    ) -> PurgeReport:
        """Remove everything from a source, or of a trust level, from every user's memory.

        User by user, as `UserMemory.purge` does it; `progress(done, total)` is called after each.
        A user who cannot be read or written is in `failed`. After a crash, repeat it.

        :raises InvalidInputError: neither a source nor a trust, or an unknown one.
        """
        users, services = await known_users(self._log), self._services

        async def purge_one(user_id: str) -> Purged:
            user = UserMemory(Scope(services, On(user_id)))
            return await user.purge(source, trust=trust, dry_run=dry_run)

        return await purge_users(
            purge_one, users, source, trust=trust, dry_run=dry_run, progress=progress
        )

    async def switch_model(self, embedder: str, *, progress: Progress | None = None) -> ModelSwitch:
        """Give the store another embedding model, by name, and remove the vectors of the old one.

        All memories are embedded anew while searches answer from the old vectors. Then the store
        records the model: it is opened with it from now on, without naming it. Cut off, it changes
        nothing; call it again, and it embeds what is left. `progress(done, total)` counts memories.
        A second call waits.

        :raises InvalidInputError: no embedder has that name, or the store is in a database.
        :raises EmbedderError: the model is not installed, or embedded none of many texts in a row.
        """
        return await switch_model(self._open, embedder, progress)

    async def backup(self, directory: str | Path, *, derived: bool = False) -> Copied:
        """Write a backup of all memories as they are at one moment, and verify it.

        Reads and writes go on meanwhile. With `derived` vectors and token states are in it too;
        without, the model makes them again after a restore. API keys are not, and no keys that it
        is encrypted with: whoever restores it has to have those. `directory` must not
        be there yet; it appears whole, or not at all. It is a store of its own: open it, or put it
        in the place of another one with `copy_store`.

        :raises LogUnavailable: there is something at `directory`, or it cannot be made.
        :raises CorruptLog: what is backed up is damaged.
        :raises DiskFull: the disk is full; no backup was made.
        :raises StorageFailed: a file cannot be read or written; no backup was made.
        """

        def also(scratch: Path) -> None:
            if derived:
                self._services.embeddings.disk.copy_to(scratch / DERIVED)

        return await require(self._log, BackupStore).backup(directory, also=also)

    def watch_erasures(self, forget: Callable[[str], object]) -> None:
        """Have `forget(user_id)` called on the loop when a user is erased.

        For what a program remembers of users beside the store. One that raises is logged, by type
        alone, and the erasure goes on.

        :raises InvalidInputError: it is no function, or an `async` one.
        """
        self._erasing.watch(forget)

    async def heads(self) -> Heads:
        """Return where the log and each user's stream stand, to be published. Reads all of it."""
        return await require(self._log, VerifyingStore).heads()

    async def verify(
        self, progress: Progress | None = None, *, against: Heads | None = None
    ) -> VerifyReport:
        """Check every event, chain and index of the log; `progress(done, total)` in a thread.

        With `against`, heads that were published, also whether history up to them is unchanged. A
        badly damaged file can end the process that reads it: `verify_store` reads in a child.
        """
        return await require(self._log, VerifyingStore).verify(progress, against=against)

    async def check_replay(self) -> list[str]:
        """Return the users whose live state is not what a replay of their stream gives: none.

        "all users" is among them if the totals are not the sum of their states. Activates every
        user and reads every event: for audits and tests, while nobody writes.
        """
        diverged, summed = [], Counter[str]()
        for user_id in await known_users(self._log):
            async with self._services.runtime.use(stream_of(user_id)) as live:
                try:
                    await live.check_replay()
                except StateDivergedError:
                    diverged.append(user_id)
                summed.update(totals(live.state))
        if dict(+summed) != await require(self._log, CountingStore).totals():
            diverged.append("all users")
        return diverged
