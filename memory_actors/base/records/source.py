"""Where a memory comes from, and how far that is trusted: what callers hand in and get back."""

from datetime import datetime
from enum import StrEnum

from eventlog.core.records import Returned


class Trust(StrEnum):
    """How far a source is trusted. Every parameter that takes one also takes its string."""

    UNTRUSTED = "untrusted"
    """Anybody may have written it: a web page, a mail, the output of a tool."""
    UNKNOWN = "unknown"
    """Nobody said."""
    TRUSTED = "trusted"
    """The user or the operator vouches for it."""


LEVELS = tuple(Trust)
"""From the least trusted up."""


class Origin(Returned, frozen=True):
    """Who had a say in what a memory says."""

    source: str | None = None
    """A URL, a tool, a person: as it was given; None: nobody said."""
    trust: Trust = Trust.UNKNOWN


UNSAID = Origin()
"""Nobody said where it comes from."""


def least(origins: tuple[Origin, ...]) -> Trust:
    """Return the trust of what these have said together: that of the least trusted."""
    return min((one.trust for one in origins), key=LEVELS.index, default=Trust.UNKNOWN)


class Sourced(Returned, frozen=True, kw_only=True):
    """What a memory says of where it comes from."""

    origins: tuple[Origin, ...] = ()
    """Who had a say in it, where somebody said; of a summary, in any of its originals."""
    trust: Trust = Trust.UNKNOWN
    """That of the least trusted of its origins."""


class Purged(Returned, frozen=True, kw_only=True):
    """What was taken out of one user's memory, or would be."""

    user_id: str
    source: str | None
    trust: str | None
    dry_run: bool
    purged_at: datetime
    gone: dict[str, tuple[str, ...]] = {}
    """Ids of memories that went, by kind; summaries and relationships among them."""
    changed: dict[str, tuple[str, ...]] = {}
    """Memories that others had a say in, by kind: they say what those have said."""
    came_back: tuple[str, ...] = ()
    """Originals of the summaries that went, without what was purged of them."""
    left_out: tuple[str, ...] = ()
    """Originals that found no room: `restore` brings them back when there is some."""
    lost: tuple[str, ...] = ()
    """Originals of which nothing is in the log any more."""

    @property
    def count(self) -> int:
        """How many memories went or changed."""
        return sum(map(len, (*self.gone.values(), *self.changed.values())))


class PurgeReport(Returned, frozen=True, kw_only=True):
    """What was taken out of all users' memories, or would be."""

    users: int
    """Who were looked at."""
    dry_run: bool
    receipts: tuple[Purged, ...]
    """Of those who had something of it."""
    failed: tuple[str, ...] = ()
    """Users whose memory could not be read or written: repeat it for them."""
