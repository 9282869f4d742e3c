"""The handles of a client: the API of `memory_actors`, its operations carried out elsewhere.

Every operation that generated_operations.py names is a method here, made from that; what needs no
owner (making a handle) is written out. An object of the engine is an instance of the class of its
name here, too: `isinstance(user, UserMemory)` holds whoever owns the store.
"""

from abc import ABCMeta
from collections.abc import AsyncIterator, Callable, Sequence
from secrets import token_hex
from typing import Any, Final, NoReturn, Self, TypeVar

import msgspec

from eventlog.core.records import OnDropped
from memory_actors.api.parts import Opening
from memory_actors.base.context_documents import DEFAULT_DOCUMENT
from memory_actors.base.errors import InvalidInputError
from memory_actors.base.on import On
from memory_actors.base.origins import origin
from memory_actors.base.records import AsOf, Hit, Hits, Trust
from memory_actors.base.reports import Moment
from memory_actors.base.validation import check_name, check_subjects
from memory_actors.sharing.declaration import Caller, How, Invocation
from memory_actors.sharing.generated_operations import DECLARED

R = TypeVar("R", bound="type[Remote]")


class Remote(metaclass=ABCMeta):  # noqa: B024 - for `register`, nothing is abstract
    """A handle of a client."""

    def __init__(self, caller: Caller, on: On):
        self._caller = caller
        self._on = on


def _method(name: str) -> Any:
    how, finds = DECLARED[name].how, DECLARED[name].result == list[Hit]
    called: Any
    if how is How.ITERATED:

        async def called(self: Remote, *args: object, **kwargs: object) -> AsyncIterator[Any]:
            async for item in self._caller.iterate(Invocation(name, self._on, args, kwargs)):
                yield item

    elif how is How.AT_ONCE:

        def called(self: Remote, *args: object, **kwargs: object) -> Any:
            return self._caller.at_once(Invocation(name, self._on, args, kwargs))

    else:

        async def called(self: Remote, *args: object, **kwargs: object) -> Any:
            result = await self._caller.call(Invocation(name, self._on, args, kwargs))
            return Hits(result) if finds else result

    method_name = name.rpartition(".")[2]
    called.__name__ = "__call__" if name == "context" else method_name
    called.__wrapped__ = DECLARED[name].takes  # for who asks for its parameters
    called.__doc__ = DECLARED[name].doc
    called.__annotations__ = called.__wrapped__.__annotations__ = dict(DECLARED[name].types)
    return called


def calling(prefix: str) -> Callable[[R], R]:
    """Give a class the operations whose names begin with a prefix."""

    def given(kind: R) -> R:
        for name in DECLARED:
            if name.rpartition(".")[0] == prefix and name != "context":
                method = _method(name)
                if method.__name__ not in vars(kind):
                    method.__qualname__ = f"{kind.__name__}.{method.__name__}"
                    setattr(kind, method.__name__, method)
        return kind

    return given


ABSENT: Final = f"no value {token_hex(16)}"
"""The owner's answer for a key that has no value; no value is the same."""


@calling("working")
class WorkingMemory(Remote):
    """See `UserMemory.working`."""

    async def get(self, key: str, default: object = None) -> Any:
        """Return the value of a key; without one `default`, which never leaves this process."""
        value = await self._caller.call(Invocation("working.get", self._on, (key, ABSENT)))
        return default if value == ABSENT else value


@calling("short_term")
class ShortTermMemory(Remote):
    """See `UserMemory.short_term`."""

    @property
    def ttl(self) -> int:
        """Seconds after which a session expires, since its last message."""
        seconds: int = self._caller.at_once(Invocation("short_term.ttl", self._on))
        return seconds


@calling("entities")
class EntityGraph(Remote):
    """See `UserMemory.entities`."""


@calling("episodes")
class Episodes(Remote):
    """See `UserMemory.episodes`."""


@calling("documents")
class Documents(Remote):
    """See `UserMemory.documents`."""


OF_ALL_DOCUMENTS = {"create", "delete", "delete_all", "documents", "rename", "rename_all"}


@calling("context")
class ContextDocument(Remote):
    """A context document. See `UserMemory.context`."""

    @property
    def name(self) -> str:
        """The name of the document."""
        return self._on.document or DEFAULT_DOCUMENT


class UserContext(ContextDocument):
    """The default document, the way to the others and, called, what to paste into a prompt."""

    __call__ = _method("context")

    def document(self, name: str) -> ContextDocument:
        """Return a handle on the document of this name. No I/O."""
        named = check_name(name, "document")
        return ContextDocument(self._caller, msgspec.structs.replace(self._on, document=named))


for _name in OF_ALL_DOCUMENTS:
    setattr(UserContext, _name, vars(ContextDocument)[_name])
    delattr(ContextDocument, _name)


@calling("")
class UserMemory(Remote):
    """One user's memory, in a store that another process owns."""

    def __init__(self, caller: Caller, on: On):
        super().__init__(caller, on)
        self.working = WorkingMemory(caller, on)
        self.short_term = ShortTermMemory(caller, on)
        self.entities = EntityGraph(caller, on)
        self.episodes = Episodes(caller, on)
        self.documents = Documents(caller, on)
        self.context = UserContext(caller, on)

    @property
    def user_id(self) -> str:
        """The id of the user whose memory it is."""
        assert self._on.user_id is not None
        return self._on.user_id

    def from_source(self, source: str | None, trust: Trust | str | None = None) -> Self:
        """Return a handle for what a source says. No I/O."""
        return self._with(origins=origin(source, trust))

    def reads(self, *scopes: str) -> Self:
        """Return a handle whose `retrieve` and `context` ask other users or scopes, too. No I/O."""
        return self._with(reads=scopes)

    def _with(self, **fields: object) -> Self:
        return type(self)(self._caller, msgspec.structs.replace(self._on, **fields).checked())


class PastMemory(UserMemory):
    """One user's memory as it was."""

    moment: Moment
    lost: int

    def reads(self, *_scopes: str) -> NoReturn:
        """Refuse: it is of one user."""
        raise InvalidInputError("a replay is of one user: replay the scopes one by one")

    async def close(self) -> None:
        """Let go of it, as the end of its block does."""
        await self._caller.end_replay(self._on)

    def _with(self, **fields: object) -> Self:
        past = super()._with(**fields)
        past.moment, past.lost = self.moment, self.lost
        return past


@calling("system")
class RemoteSystem(Remote):
    """The memories of all users, in a store that another process owns."""

    def __init__(self, caller: Caller):
        super().__init__(caller, On())

    def user(
        self,
        user_id: str,
        *,
        agent_id: str | None = None,
        session_id: str | None = None,
        source: str | None = None,
        trust: Trust | str | None = None,
        auto_prune: bool = False,
        by: str | Sequence[str] | None = None,
    ) -> UserMemory:
        """Return a handle on one user's memory, for one agent and session. No I/O."""
        on = On(
            user_id, agent_id, session_id, origin(source, trust), auto_prune, by=check_subjects(by)
        )
        return UserMemory(self._caller, on.checked())

    def replay(
        self,
        user_id: str,
        as_of: AsOf = None,
        *,
        agent_id: str | None = None,
        session_id: str | None = None,
        dropped: OnDropped = "raise",
    ) -> Opening[PastMemory]:
        """Hold a user's memory as it was at a position of the log or at a time (None: now)."""
        asked = On(user_id, agent_id, session_id)

        async def opened() -> PastMemory:
            on, moment, lost = await self._caller.replay(asked, as_of, dropped)
            past = PastMemory(self._caller, on)
            past.moment, past.lost = moment, lost
            return past

        return Opening("memory.replay(...)", opened)

    def watch_erasures(self, forget: Callable[[str], object]) -> None:
        """Have `forget(user_id)` called when a user is erased."""
        self._caller.watch_erasures(forget)

    async def close(self) -> None:
        """End the connection; the owner goes on."""
        await self._caller.close()
