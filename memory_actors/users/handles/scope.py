"""On whose behalf a handle acts, the parts it works with, and how it reaches the user's actor."""

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from copy import copy
from dataclasses import dataclass, field
from math import inf
from time import perf_counter
from typing import TYPE_CHECKING, Any, Self, TypeVar
from weakref import WeakValueDictionary

from msgspec.structs import replace

from eventlog import EventStore
from eventlog.core.records import AnyRecorded
from eventlog.core.waiting import settle
from memory_actors.actors.asking import Reply, Request
from memory_actors.actors.runtime import ActorUse, Runtime
from memory_actors.base.client_call import ASKED, CALL
from memory_actors.base.on import On
from memory_actors.base.origins import merged
from memory_actors.base.quota import Limits
from memory_actors.base.records import MemoryType, Origin, Right
from memory_actors.base.settings import Settings
from memory_actors.base.streams import recall_stream_of, stream_of
from memory_actors.base.validation import SUBJECTS, TTL_S_MAX, check_optional_name
from memory_actors.kinds.commands import Command
from memory_actors.kinds.grants import denied
from memory_actors.kinds.user_state import PART_OF_COMMAND, LimitsByTier, UserState
from memory_actors.observing.metrics import LatencyWatch, Metrics
from memory_actors.observing.monitor import MemoryMonitor
from memory_actors.search.embedding.embeddings import Embeddings
from memory_actors.search.embedding.service import EmbeddingService
from memory_actors.search.reranking import Reranking
from memory_actors.search.superseding import Superseding
from memory_actors.users.live_user import LiveUser, UserDecider, UserView
from memory_actors.users.recalls import RecallAudit
from memory_actors.users.totals import Totals

if TYPE_CHECKING:
    from memory_actors.users.handles.redacting import UserRedaction

T = TypeVar("T")


@dataclass(slots=True, kw_only=True, eq=False)
class Services:
    """One of each, wired by `MemorySystem.open`. Only `embeddings` changes, with the model."""

    log: EventStore
    runtime: Runtime[LiveUser]
    embeddings: EmbeddingService
    decider: UserDecider
    limits: LimitsByTier
    totals: Totals
    monitor: MemoryMonitor
    recalls: RecallAudit
    superseding: Superseding | None
    metrics: Metrics
    latency: LatencyWatch
    settings: Settings
    clock_us: Callable[[], int]
    new_id: Callable[[int], str]
    """(time in microseconds) -> a memory id that was never used."""
    reranking: Reranking | None = None
    elsewhere: Callable[[str, On, Mapping[str, object]], Awaitable[object]]
    """Carries out an operation on a user's memory, wherever that is."""
    redaction: "UserRedaction | None" = None
    """Masks what callers say; None: nothing is masked."""
    extractor: Any = None
    """Finds facts in messages; None: nobody does."""
    turns: WeakValueDictionary[str, asyncio.Lock] = field(default_factory=WeakValueDictionary)
    switching: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while the model is switched."""
    unattended: set[asyncio.Task[None]] = field(default_factory=set)
    """Work whose caller may have gone. It holds its user live, so closing waits for it."""

    def turn(self, work: str, stream: str) -> asyncio.Lock:
        """Return the lock of work that is done once at a time for a user."""
        return self.turns.setdefault(f"{work} {stream}", asyncio.Lock())


def new_memory_id(now_us: int) -> str:
    """Return an id that sorts by time: 14 hex digits of microseconds, 16 random ones."""
    return f"mem_{now_us:014x}{secrets.token_hex(8)}"


class Scope:
    """A user, and the agent and session that speak for them. No I/O until it is used."""

    def __init__(self, services: Services, on: On):
        """Make one for a handle.

        :raises InvalidInputError: a name is empty, over 512 bytes, or not Unicode.
        """
        self.services = services
        self._speak(on)
        assert self.on.user_id is not None
        self.user_id = self.on.user_id
        self.ttl_s: float | None = None
        """The time to live of what is added with it; None: the default of its kind."""
        self.stream = stream_of(self.user_id)

    def _speak(self, on: On) -> None:
        """Take on a handle; what others than the user write here has them as an origin."""
        self.on = on = on.checked()
        self.by = () if f"{SUBJECTS[0]}{on.user_id}" in on.by else on.by
        """The subjects whose rights are checked; see kinds/grants.py."""
        self.origins = on.origins
        if self.by:
            self.origins = merged((*on.origins, Origin(self.by[0])))

    @property
    def embeddings(self) -> Embeddings:
        """Of the user's memories."""
        return self.services.embeddings.of(self.stream)

    def changed(self, **fields: object) -> Self:
        """Return a copy for a handle with other fields. See `On`."""
        scope = copy(self)
        scope._speak(replace(self.on, **fields))  # noqa: SLF001 - its own
        return scope

    def expires_at_us(self, kind: str, now_us: int) -> int | None:
        """Return when a memory of a kind expires that is added at a time; None: never."""
        if self.on.lives_until_us is not None:
            return self.on.lives_until_us
        ttl_s = self.ttl_s
        if ttl_s is None:
            ttl_s = self.services.settings.ttl_s.get(MemoryType(kind), inf)
        return None if ttl_s == inf else now_us + int(min(ttl_s, TTL_S_MAX) * 1e6)

    def prunes(self, asked: bool | None) -> bool:
        """Return whether a call may make room: as it says, or as the handle does."""
        return self.on.auto_prune if asked is None else asked

    def live(self) -> AbstractAsyncContextManager[UserView]:
        """Hold the view that reads of the user need: the user's actor, live.

        :raises AccessDeniedError: the subjects of the handle may not read here.
        """
        return _Use(self, Right.READ)

    async def state(self) -> UserState:
        """Return the confirmed state of the user."""
        async with self.live() as live:
            return live.state

    async def managed(self) -> UserState:
        """Return the confirmed state, for who manages the scope.

        :raises AccessDeniedError: the subjects of the handle do not.
        """
        state = await self.state()
        if not state.grants.allow(self.by, Right.MANAGE):
            raise denied(self.by, Right.MANAGE, repr(self.user_id))
        return state

    async def state_now(self) -> UserState:
        """Return the confirmed state as it reads now, without what has expired."""
        return (await self.state()).at(self.now_us())

    def check_writable(self) -> None:
        """Do nothing: this user takes writes. Asked where a write begins with a look."""

    def writable(self) -> AbstractAsyncContextManager[LiveUser]:
        """Hold the user's actor live, to give it commands. Every write comes this way.

        :raises AccessDeniedError: the subjects of the handle may not write here.
        """
        return _Use(self, Right.WRITE)

    async def right(self) -> Right | None:
        """Return the right of the subjects of the handle, as it is now; None: they have none."""
        async with self.services.runtime.use(self.stream) as live:
            return live.state.grants.right_of(self.by)

    async def elsewhere(self, operation: str, user_id: str, **given: Any) -> Any:
        """Carry out an operation on another user's memory, for who speaks here."""
        by = self.on.by or (f"{SUBJECTS[0]}{self.user_id}",)
        on = replace(self.on, user_id=user_id, by=by, reads=(), document=None)
        return await self.services.elsewhere(operation, on, given)

    def searching(self) -> AbstractAsyncContextManager[UserView]:
        """Hold the view that a search needs: all that is indexed."""
        return self.live()

    async def versions_about(self, memory_id: str) -> list[int]:
        """Return the versions of the events about a memory, in order."""
        self.services.runtime.check_open()
        if self.by:
            await self.state()
        await self.services.log.flush()  # working memory is acknowledged before it is in the log
        return await self.services.log.versions_about(self.stream, memory_id)

    async def events_about(self, memory_id: str) -> list[AnyRecorded]:
        """Return the events about a memory, in order; of a dropped one, since when it is."""
        versions = await self.versions_about(memory_id)
        return await self.services.log.read_versions(self.stream, versions, dropped="mark")

    def now_us(self) -> int:
        """Return the time that a command is given."""
        return self.services.clock_us()

    def new_id(self, now_us: int) -> str:
        """Return a new memory id."""
        return self.services.new_id(now_us)

    async def carry_out(self, command: Command) -> UserState:
        """Carry out a command that is about no memory, and return the state then."""
        with self.measured(type(command).__name__, PART_OF_COMMAND[type(command)].NAME):
            async with self.writable() as live:
                state: UserState = (await self.ask(live, command)).state
                return state

    async def ask(self, live: LiveUser, command: Command, *, relaxed: bool = False) -> Reply:
        """Carry out a command; the log keeps who asked, and for what."""
        return await self.answered(live, await self.post(live, command, relaxed=relaxed))

    async def post(
        self,
        live: LiveUser,
        command: Command,
        *,
        relaxed: bool = False,
        idempotency_key: str | None = None,
        digest: bytes = b"",
        accepted: Callable[[], object] | None = None,
    ) -> "asyncio.Future[Reply]":
        """Begin to carry out a command; return the future that `answered` takes.

        `accepted` is called once it is decided, before the log has it; never if it is refused.
        """
        if self.by:
            command = replace(command, by=self.by)
        meta = {**self._meta(type(command).__name__), **command.meta(self.origins)}
        if (asked := ASKED.get()) is not None:
            meta[CALL] = asked.next()
            if (reply := self._earlier_reply(meta[CALL])) is not None:
                if accepted is not None:
                    accepted()
                answer: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
                answer.set_result(reply)
                return answer
        request = Request(
            command=command,
            meta=meta,
            durability="relaxed" if relaxed else "commit",
            frees=command.frees,
            alone=command.alone,
            idempotency_key=check_optional_name(idempotency_key, "idempotency_key"),
            digest=digest,
            accepted=accepted,
        )
        return await live.actor.post(request, self.services.settings.deadline_s)

    async def answered(self, live: LiveUser, answer: "asyncio.Future[Reply]") -> Reply:
        """Return the reply to a command; with `check_replay`, check the state first."""
        reply = await answer
        if self.services.settings.check_replay:
            await live.check_replay()
        return reply

    def _earlier_reply(self, _call: str) -> Reply | None:
        return None

    async def masked(self, value: T) -> T:
        """Return a text, or a value of some, that a model made: masked as the settings say."""
        redaction = self.services.redaction
        if redaction is None:
            return value
        masking = await redaction.masking(self.user_id)
        masked: T = masking.value(value)
        return masked

    def measured(
        self, operation: str, kind: str, *, kinds: Sequence[str] | None = None, calls: int = 1
    ) -> AbstractContextManager[None]:
        """Measure an operation, and how it ends; hold it to what it should take.

        `kinds` says whose targets count (None: that of `kind`), `calls` how many calls it stands
        for. A call that has to load the model or a user first may take longer.
        """
        return _Measured(self.services, operation, kind, (kind,) if kinds is None else kinds, calls)

    async def recalled(self, live: UserView, query: str, memory_ids: Sequence[str]) -> None:
        """Take note that memories were returned for a query, where reads are audited."""
        stream, meta = recall_stream_of(self.user_id), self._meta("Retrieve")
        await self.services.recalls.keep(stream, query, memory_ids, meta, live.epoch)

    async def unattended(self, work: Coroutine[object, object, T]) -> T:
        """Run work that goes on when its caller is cancelled: a write is never left half done."""

        def ended(task: asyncio.Task[None]) -> None:
            self.services.unattended.discard(task)
            work.close()  # which a loop that ends may have kept from beginning

        answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        task = asyncio.create_task(_run_and_settle(work, answer))
        self.services.unattended.add(task)
        task.add_done_callback(ended)
        return await answer

    def limits(self, state: UserState) -> Limits:
        """Return the limits of this user's plan."""
        return self.services.limits[state.account.tier]

    def _meta(self, command: str) -> dict[str, str]:
        meta = {"command": command}
        if self.on.agent_id is not None:
            meta["agent_id"] = self.on.agent_id
        if self.on.session_id is not None:
            meta["session_id"] = self.on.session_id
        return meta


async def _run_and_settle(work: Awaitable[T], answer: "asyncio.Future[T]") -> None:
    """Do work, and tell who still waits in the same step: a shield would take one more."""
    try:
        outcome: T | Exception = await work
    except Exception as error:
        outcome = error
    except BaseException:
        answer.cancel()
        raise
    settle(answer, outcome)


class _Use(ActorUse[LiveUser]):
    """The user's actor, live, its expired memories deleted, for who has a right."""

    __slots__ = "_right", "_scope"

    def __init__(self, scope: Scope, right: Right):
        super().__init__(scope.services.runtime, scope.stream)
        self._scope = scope
        self._right = right

    async def __aenter__(self) -> LiveUser:
        live, by = await super().__aenter__(), self._scope.by
        if by and not live.state.grants.allow(by, self._right):
            await self.__aexit__(None, None, None)
            raise denied(by, self._right, repr(self._scope.user_id))
        if live.state.next_expiry_us:
            await live.expire(self._scope.now_us(), self._scope.services.settings.deadline_s)
        return live


class _Measured(AbstractContextManager[None]):
    """The context manager of `Scope.measured`.

    A class, because `@contextmanager` takes twice as long to enter and leave, and every call does.
    """

    __slots__ = (
        "_activations", "_calls", "_kind", "_kinds", "_operation", "_prepared", "_services",
        "_started_s",
    )  # fmt: skip

    def __init__(
        self, services: Services, operation: str, kind: str, kinds: Sequence[str], calls: int
    ):
        self._services = services
        self._operation = operation
        self._kind = kind
        self._kinds = kinds
        self._calls = calls

    def __enter__(self) -> None:
        services = self._services
        self._prepared = services.embeddings.prepared
        self._activations = services.runtime.activations
        self._started_s = perf_counter()

    def __exit__(self, kind: type[BaseException] | None, *_error: object) -> None:
        seconds, services = perf_counter() - self._started_s, self._services
        outcome = "ok" if kind is None else kind.__name__
        services.metrics.observe(self._operation, self._kind, seconds, outcome)
        services.latency.count(self._operation, seconds * 1e3, self._calls)
        loaded = services.embeddings.prepared != self._prepared
        if not loaded and services.runtime.activations == self._activations:
            services.latency.note(self._operation, self._kinds, seconds / self._calls)
