"""On whose behalf an operation is called, in any process."""

from datetime import datetime
from typing import Self

import msgspec

from eventlog.core.records import OnDropped
from memory_actors.base.errors import InvalidInputError
from memory_actors.base.records import Origin
from memory_actors.base.validation import (
    SUBJECTS,
    check_flag,
    check_name,
    check_optional_name,
    check_scopes,
    check_subject,
)


class Then(msgspec.Struct, frozen=True, array_like=True):
    """The moment of a replay, and what to do about texts that retention has dropped."""

    as_of: int | datetime
    dropped: OnDropped
    opening: int = 0
    """A number that tells two replays of the same moment apart."""


class On(msgspec.Struct, frozen=True, array_like=True):
    """The handle that an operation is called on; without a user, the system."""

    user_id: str | None = None
    agent_id: str | None = None
    session_id: str | None = None
    origins: tuple[Origin, ...] = ()
    """The origins of all that is written with it."""
    auto_prune: bool = False
    """True if adding may make room, where the call does not say."""
    document: str | None = None
    then: Then | None = None
    lives_until_us: int | None = None
    """The time at which all that is added with it expires, whatever its time to live."""
    by: tuple[str, ...] = ()
    """The subjects that it speaks for, the one that writes first; (): the embedding process."""
    reads: tuple[str, ...] = ()
    """The scopes that its searches ask, too."""

    def checked(self) -> Self:
        """Return the handle of a user with its names as exact strings.

        :raises InvalidInputError: a name is empty, over 512 bytes, or not Unicode; or the source
            of a handle that speaks for somebody is a subject of grants.
        """
        if self.by and any((one.source or "").startswith(SUBJECTS) for one in self.origins):
            raise InvalidInputError("a source cannot be a subject: `by` says who writes")
        return msgspec.structs.replace(
            self,
            user_id=check_name(self.user_id, "user_id"),
            agent_id=check_optional_name(self.agent_id, "agent_id"),
            session_id=check_optional_name(self.session_id, "session_id"),
            auto_prune=check_flag(self.auto_prune, "auto_prune"),
            by=tuple(map(check_subject, self.by)),
            reads=check_scopes(self.reads),
        )
