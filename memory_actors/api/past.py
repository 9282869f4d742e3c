"""`memory.replay(...)`: everything one user's memory could answer at a moment of the past."""

from typing import Final, NoReturn, get_args

from msgspec.structs import replace

from eventlog.core.records import OnDropped
from memory_actors.api.user import UserMemory
from memory_actors.base.errors import InvalidInputError
from memory_actors.base.on import On, Then
from memory_actors.base.records import AsOf
from memory_actors.base.reports import Moment
from memory_actors.base.streams import known_user, stream_of
from memory_actors.base.validation import check_choice, check_name
from memory_actors.history.past_user import PastScope, PastUser, state_then
from memory_actors.users.handles.scope import Services


class PastMemory(UserMemory):
    """One user's memory as it was. It is read like any other, and takes no writes.

    Expiry is computed at `moment`; limits and prices come from today's settings. Every write raises
    `ReadOnlyError`. A read whose answer rests on a text that retention has dropped raises
    `PayloadDropped`.
    """

    _scope: PastScope
    moment: Moment
    """The moment that is read."""
    lost: int
    """The number of events about memories of then whose payload retention has dropped."""

    def __init__(self, scope: PastScope, lost: int):
        super().__init__(scope)
        self.moment = scope.moment
        self.lost = lost

    def reads(self, *_scopes: str) -> NoReturn:
        """Refuse.

        :raises InvalidInputError: always.
        """
        raise InvalidInputError("a replay is of one user: replay the scopes one by one")

    async def close(self) -> None:
        """Let go of it, as the end of its block does. It answers nothing more."""
        await self._scope.close()


ON_DROPPED: Final[tuple[str, ...]] = get_args(OnDropped)


async def past_memory(services: Services, on: On, as_of: AsOf, dropped: OnDropped) -> PastMemory:
    """Return a user's memory as it was. See `MemorySystem.replay`."""
    check_choice(dropped, ON_DROPPED, "dropped")
    stream = stream_of(check_name(on.user_id, "user_id"))
    head = await known_user(services.log, stream)
    moment, state, lost = await state_then(services, stream, head, as_of, dropped)
    on = replace(on, then=Then(moment.at, "mark"))
    past = PastUser(services, stream, state)
    return PastMemory(PastScope(services, on, past=past, moment=moment), lost)
