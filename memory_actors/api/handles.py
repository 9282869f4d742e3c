"""Handles that make other handles: the methods that need no engine, of an owner and its clients."""

from abc import ABCMeta, abstractmethod
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Self

from eventlog.core.records import OnDropped
from memory_actors.base.on import On
from memory_actors.base.opening import Opening
from memory_actors.base.origins import origin
from memory_actors.base.records import AsOf, Trust
from memory_actors.base.validation import check_subjects

if TYPE_CHECKING:
    from memory_actors.api.past import PastMemory
    from memory_actors.api.user import UserMemory


class UserHandle(metaclass=ABCMeta):
    """A handle on one user's memory. See `UserMemory`."""

    @abstractmethod
    def _with(self, **fields: object) -> Self:
        """Return a handle that says something else of itself. See `On`."""

    def from_source(self, source: str | None, trust: Trust | str | None = None) -> Self:
        """Return a handle for what a source says: all that is written with it comes from there.

        `source` is a name of yours for it: a URL, a tool, a person. `trust` is "trusted" (the user
        or the operator vouches for it), "untrusted" (anybody may have written it: a page, a mail,
        the output of a tool), or "unknown". No I/O.

        :raises InvalidInputError: a source that is empty or over 512 bytes, or an unknown trust.
        """
        return self._with(origins=origin(source, trust))

    def reads(self, *scopes: str) -> Self:
        """Return a handle whose `retrieve` and `context` ask other users or scopes, too. No I/O.

        They ask in the name of the handle's subjects; if it names none, of this user. Everything
        else, writes above all, is still about this user.

        :raises InvalidInputError: a name that is empty or over 512 bytes, or more than 16 scopes.
        """
        return self._with(reads=scopes)


class SystemHandle(metaclass=ABCMeta):
    """A handle on the memories of all users. See `MemorySystem`."""

    @abstractmethod
    def _user(self, on: On) -> "UserMemory":
        """Return the handle that is on behalf of somebody."""

    @abstractmethod
    async def _replayed(self, on: On, as_of: AsOf, dropped: OnDropped) -> "PastMemory":
        """Return a user's memory as it was."""

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
    ) -> "UserMemory":
        """Return a handle on one user's memory, for one agent and session. No I/O.

        `source` and `trust` say where all that is written with it comes from: see
        `UserMemory.from_source`. With `auto_prune` all that is added with it makes room if there is
        none, as with `add_with_auto_prune`, unless a call says otherwise. `by` says who speaks: a
        person ("ada"), an agent ("agent:planner"), an API key ("key:" and its id) or several of
        them. Their grants are checked, and the first is an origin of all that is written. With
        None, the process itself speaks, and may do everything. See `UserMemory.grant`.

        :raises InvalidInputError: a name that is empty, over 512 bytes, or not Unicode.
        """
        on = On(
            user_id, agent_id, session_id, origin(source, trust), auto_prune, by=check_subjects(by)
        )
        return self._user(on)

    def replay(
        self,
        user_id: str,
        as_of: AsOf = None,
        *,
        agent_id: str | None = None,
        session_id: str | None = None,
        dropped: OnDropped = "raise",
    ) -> "Opening[PastMemory]":
        """Hold a user's memory as it was at a position of the log or at a time (None: now).

        It answers every read as it would have then, searches included; see `PastMemory`. Any
        position will do, also one of another user's event; of a time, all that was recorded by
        then. Opening it reads the nearest snapshot before it and the events since; the first
        search makes its index, in memory. The live user is not touched.

        If retention has dropped the text of a memory that existed then, opening it raises
        `PayloadDropped`. `dropped="mark"` opens what is left, and `lost` counts what is not.

        :raises NotFoundError: there is no such user, or what they had at that moment is erased.
        :raises InvalidInputError: the log has no such position, it is no time, or `dropped` is
            neither "raise" nor "mark".
        :raises PayloadDropped: retention has dropped something that was there then.
        """
        on = On(user_id, agent_id, session_id)
        return Opening("memory.replay(...)", partial(self._replayed, on, as_of, dropped))
