"""The port of extraction: what an extractor is shown, and what it may propose."""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import datetime
from typing import Literal, Protocol

import msgspec

from memory_actors.base.errors import ExtractorError, MemoryActorsError
from memory_actors.base.watching import CallersFunction


class Spoken(msgspec.Struct, frozen=True, kw_only=True):
    """A message as an extractor is shown it."""

    memory_id: str
    text: str
    role: str | None = None
    """The one who said it, as the message has it: user, assistant, a name."""
    said_at: datetime
    session_id: str | None = None


class KnownFact(msgspec.Struct, frozen=True, kw_only=True):
    """A fact that is remembered already, and is near to what was said."""

    memory_id: str
    text: str
    occurred_at: datetime
    """The time it was true."""


class Conversation(msgspec.Struct, frozen=True, kw_only=True):
    """The new messages of a session, in order, and what is known around them."""

    messages: tuple[Spoken, ...]
    """All of one trust: words that nobody vouches for are read apart from those of a user."""
    before: tuple[Spoken, ...] = ()
    """The messages in front of them, which were read already: to understand, not to extract."""
    facts: tuple[KnownFact, ...] = ()
    """Facts that are no less trusted than the messages. Others cannot be changed."""


Action = Literal["add", "supersede", "forget"]


class Proposal(msgspec.Struct, frozen=True, kw_only=True):
    """One thing to remember, or to remember no more."""

    action: Action = "add"
    """Add a fact; add one because of which `replaces` holds no more; forget `replaces`."""
    text: str | None = None
    """The fact in words; None to forget."""
    replaces: str | None = None
    """Id of one of the known facts; None to add."""
    message_ids: tuple[str, ...] = ()
    """The messages that say so; (): all of them together."""
    occurred_at: datetime | None = None
    """The time since which it is true; None: that of the last of its messages."""
    reason: str = ""
    """Why, for those who audit it."""


class Extractor(Protocol):
    """Finds facts in messages. Bring your own by matching these two members.

    One that has an `async aclose()` is closed with the system it was given to.
    """

    @property
    def name(self) -> str:
        """Name the extractor for the record: at most 100 printable characters."""

    async def extract(self, conversation: Conversation) -> Sequence[Proposal]:
        """Return proposals for the messages. Never blocks the event loop.

        Proposals are untrusted data and are checked: a fact or a message that it was not shown is
        refused.

        :raises ExtractorError: there is no answer; the messages are new still.
        :raises UnusableProposalsError: there is one, and it makes no sense: fewer messages at a
            time are tried, and one that makes none alone counts as read.
        """


Extract = (
    Callable[[Conversation], Iterable[Proposal | str]]
    | Callable[[Conversation], Awaitable[Iterable[Proposal | str]]]
)
"""Takes a conversation, returns proposals; a text stands for a fact to add."""


class CallableExtractor(CallersFunction[Extract]):
    """Finds facts with a callable that takes a conversation and returns proposals."""

    maker = "an extractor"
    takes = "extractor= takes a function of a Conversation"

    async def extract(self, conversation: Conversation) -> Sequence[Proposal]:
        """Return the callable's proposals.

        :raises ExtractorError: it raised, or returned something else than proposals and texts.
        """
        try:
            said = await self._returned(conversation)
            if isinstance(said, str | bytes) or not isinstance(said, Iterable):
                raise TypeError(f"it returned {type(said).__name__}: return a list of proposals")
            found = [Proposal(text=one) if isinstance(one, str) else one for one in said]
            if other := [one for one in found if not isinstance(one, Proposal)]:
                raise TypeError(f"{other[0]!r:.80} is neither a Proposal nor a text")
            return found
        except MemoryActorsError:
            raise
        except Exception as error:
            raise ExtractorError(
                f"extractor {self._name} failed with {type(error).__name__}: see its cause, and "
                "mend it; the messages are new still"
            ) from error
