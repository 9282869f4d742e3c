"""Erasing a user: everything that says something about them, wherever it lies.

The order is what makes a crash harmless. While the log still has the events, everything else can be
found again by them, so the log comes last: vectors and token states, index files, API keys,
recalls, alerts that wait, and then the stream (eventlog/lmdb/erasing.py), which finishes by itself
what a crash has left. Before all of that the user leaves the scopes of others (kinds/grants.py).
Processes that share the log forget the user before the log does.

Meanwhile the user is shut: who comes gets `BeingErasedError`, who was there before has left.

Vectors are stored by the digest of their text and shared by users of the same text: they are
deleted unless another user who is live has the text too. If the stream is damaged, its vectors
cannot be identified, and all vectors of this process are deleted.
"""

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, TypeVar

import anyio.to_thread

from eventlog import (
    CountingStore,
    ErasingStore,
    EventLogError,
    Fenced,
    KeyGone,
    LogUnavailable,
    Recorded,
    SettingStore,
    require,
)
from eventlog.core.logs import get_logger
from eventlog.core.records import to_datetime
from memory_actors.actors.asking import unavailable
from memory_actors.actors.heap import give_back
from memory_actors.base.api_keys import KeyStore
from memory_actors.base.errors import BeingErasedError
from memory_actors.base.on import On
from memory_actors.base.privacy import hashed, reason
from memory_actors.base.reports import EraseReceipt
from memory_actors.base.streams import is_user_stream, recall_stream_of, stream_of, user_of
from memory_actors.base.validation import check_flag, check_subject
from memory_actors.base.watching import check_forgets, tell_to_forget
from memory_actors.compaction.job import Compaction
from memory_actors.compaction.replacing import checkpoint_name
from memory_actors.kinds import user_state
from memory_actors.kinds.user_state import UserState
from memory_actors.observing.alerts import AlertDispatcher
from memory_actors.search.embedding.embeddings import Embeddings
from memory_actors.search.indexes.files import index_path, remove_all_indexes, remove_indexes
from memory_actors.users.handles.scope import Scope, Services
from memory_actors.users.holds import holds_of, refuse_held

T = TypeVar("T")
PAGE_EVENTS = 512  # folded one by one: some 10 ms, in a thread

_logger = get_logger("memory_actors.upkeep.erasing")


class _Past(NamedTuple):
    """The past of a user, as their stream tells it, for what is to be erased."""

    digests: set[bytes]
    """Digests of every text that the user ever had."""
    totals: Mapping[str, int]
    is_whole: bool = True
    """False if it is damaged: then the digests are those of texts before the damage."""


class UserErasing:
    """Erases users, one at a time or several."""

    def __init__(
        self,
        services: Services,
        alerts: AlertDispatcher,
        compaction: Compaction,
        directory: Path,
    ):
        self._services = services
        self._log = services.log
        self._alerts = alerts
        self._compaction = compaction
        self._directory = directory
        self._keys = KeyStore(self._log if isinstance(self._log, SettingStore) else directory)
        self._watchers: list[Callable[[str], object]] = []
        self.elsewhere: Callable[[str], Awaitable[None]] = _nowhere_else
        """Has a user forgotten by other processes that share the log; it returns when they have."""

    def watch(self, forget: Callable[[str], object]) -> None:
        """Have `forget(user id)` called whenever a user is erased: for what others remember.

        :raises InvalidInputError: it is no function, or one that would have to be awaited.
        """
        check_forgets(forget)
        self._watchers.append(forget)

    async def erase(self, user_id: str, *, despite_hold: bool = False) -> EraseReceipt:
        """Erase a user. See `MemorySystem.erase`."""
        check_flag(despite_hold, "despite_hold")
        self._services.runtime.check_open()
        scope = Scope(self._services, On(user_id))
        return await scope.unattended(self._erase(scope, despite_hold=despite_hold))

    async def _erase(self, scope: Scope, *, despite_hold: bool) -> EraseReceipt:
        user_id, stream, store = scope.user_id, scope.stream, require(self._log, ErasingStore)
        self._services.runtime.check_open()
        async with (
            self._services.runtime.alone(stream) as epoch,
            self._compaction.without(user_id),
        ):
            held = await holds_of(self._log, stream)
            if not despite_hold:
                refuse_held(held)
            scopes = await self._leave_scopes(scope)
            past = await self._texts_and_totals(stream)
            is_shared = scope.embeddings.owner.is_everybody
            lives = self._services.runtime.lives() if is_shared else ()
            others = await anyio.to_thread.run_sync(_digests, [live.state for live in lives])
            embeddings = await self._erase_embeddings(scope.embeddings, past, others)
            index_files = await anyio.to_thread.run_sync(
                remove_indexes, index_path(self._directory, stream)
            )
            keys = await anyio.to_thread.run_sync(self._keys.revoke_all, user_id)
            recalls = await self._erase_recalls(store, user_id, epoch)
            await self.elsewhere(user_id)
            self._tell(user_id)
            erased = await _fenced(
                store.erase(
                    stream, counted=past.totals, projections=[checkpoint_name(stream)], epoch=epoch
                )
            )
        await anyio.to_thread.run_sync(give_back)  # a copy of the log went through the heap
        return EraseReceipt(
            user=hashed(user_id),
            erased_at=to_datetime(erased.erased_at_us or self._services.clock_us()),
            events=erased.events + recalls,
            archive_files=erased.segments,
            index_files=index_files,
            embeddings=embeddings,
            api_keys=keys,
            log_bytes_before=erased.before_bytes,
            log_bytes_after=erased.after_bytes,
            key_deleted=erased.key_deleted,
            holds=len(held),
            scopes=scopes,
        )

    async def _leave_scopes(self, scope: Scope) -> int:
        """Have the user leave the scopes of others; return how many know them by their grants."""
        subject, left = check_subject(f"person:{scope.user_id}"), 0
        await self._log.flush()
        others = (one for one in await self._log.streams() if is_user_stream(one))
        for other in others:
            with suppress(KeyGone, BeingErasedError):  # nobody can read that scope, or soon can
                if other != scope.stream and await self._log.versions_about(other, subject):
                    subjects = {"subject": subject}
                    await self._services.elsewhere("_leave", On(user_of(other)), subjects)
                    left += 1
        return left

    async def forget(self, user_id: str) -> None:
        """Let go of what this process keeps of a user whom another process erases."""
        await self.let_go(user_id)
        self._tell(user_id)

    async def let_go(self, user_id: str) -> None:
        """Drop this process's caches of a user that another process owns."""
        stream, embeddings = stream_of(user_id), self._services.embeddings.of(stream_of(user_id))
        await self._services.runtime.forget(stream)
        await self._erase_embeddings(embeddings, await self._texts_and_totals(stream))
        await anyio.to_thread.run_sync(remove_indexes, index_path(self._directory, stream))

    async def forget_everybody(self) -> None:
        """Let go of what this process keeps of any user, where it may have missed an erasure."""
        await self._services.runtime.forget_all()
        await self._services.embeddings.clear()
        await anyio.to_thread.run_sync(remove_all_indexes, self._directory)

    def _tell(self, user_id: str) -> None:
        self._alerts.forget(user_id)
        for forget in self._watchers:
            tell_to_forget(forget, user_id)

    async def _erase_embeddings(
        self, embeddings: Embeddings, past: _Past, others: AbstractSet[bytes] = frozenset()
    ) -> int:
        """Erase the embeddings of a user's texts but for what others have; return how many.

        If the user's vectors cannot be identified, clear all vectors of this process: they are made
        again of the texts, or fetched.
        """
        count = await embeddings.erase(past.digests - others)
        if not past.is_whole and not embeddings.owner.is_encrypted:
            await self._services.embeddings.clear()
        return count

    async def _texts_and_totals(self, stream: str) -> _Past:
        """Return the digest of every text that a user ever had, and what counts in the totals.

        If the stream is damaged, these are the digests and totals before the damage.

        :raises LogUnavailable: something cannot be read now, and will be; nothing was erased yet.
        """
        state, digests = UserState(), set[bytes]()
        version = (await self._log.head(stream)).erased_version
        try:
            while events := await self._log.read_stream(
                stream, version, PAGE_EVENTS, dropped="mark"
            ):
                state = await anyio.to_thread.run_sync(_collect, state, events, digests)
                version = events[-1].version
        except KeyGone:  # of a user who was erased before a backup was restored
            return _Past(digests, await self._counted_by_nobody_else(stream))
        except LogUnavailable:  # without it vectors would stay, and totals be wrong
            raise
        except (EventLogError, ArithmeticError, LookupError, TypeError, ValueError) as error:
            _logger.warning("erased stream is damaged", error=reason(error))
            return _Past(digests, user_state.totals(state), is_whole=False)
        return _Past(digests, user_state.totals(state))

    async def _counted_by_nobody_else(self, stream: str) -> Mapping[str, int]:
        """Return the part of the totals that no readable state accounts for. Activates every user.

        Exact while nobody writes; no state can tell it better.
        """
        left = Counter(await require(self._log, CountingStore).totals())
        for other in await self._log.streams():
            if is_user_stream(other) and other != stream:
                with suppress(KeyGone):
                    async with self._services.runtime.use(other) as live:
                        left.subtract(user_state.totals(live.state))
        return +left

    async def _erase_recalls(self, store: ErasingStore, user_id: str, epoch: int | None) -> int:
        """Erase what was kept of a user's searches; return how many there were.

        Owners before this epoch can no longer record recalls of the user.
        """
        stream = recall_stream_of(user_id)
        checkpoint = await self._services.recalls.leave(stream)
        if epoch is not None:
            await _fenced(self._log.acquire(stream, epoch))
        elif (await self._log.head(stream)).is_empty:
            return 0
        erasing = store.erase(stream, projections=[checkpoint], epoch=epoch)
        return (await _fenced(erasing)).events


async def _fenced(work: Awaitable[T]) -> T:
    """Carry out what only the owner of a stream may do.

    :raises MovedError: another process has it.
    """
    try:
        return await work
    except Fenced as error:
        raise unavailable(error) from error


async def _nowhere_else(_user_id: str) -> None:
    pass


def _digests(states: Iterable[UserState]) -> set[bytes]:
    return {digest for state in states for digest in state.digests()}


def _collect(
    state: UserState, events: Iterable[Recorded[object]], digests: set[bytes]
) -> UserState:
    """Fold events one by one; add the digests of what each of them has changed."""
    for recorded in events:
        state = user_state.evolve(state, recorded)
        for kind, memory_id in user_state.touched([recorded]):
            row = kind.find(state.of(kind), memory_id)
            if row is not None:
                digests.update(passage.digest for passage in kind.passages(row))
    return state
