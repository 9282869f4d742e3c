"""What an audit hands back: frozen, times aware and in UTC, and all of it goes into JSON."""

from datetime import datetime

from eventlog.core.records import Returned
from memory_actors.base.records.memory import HistoryEntry, Memory


class LogEntry(HistoryEntry, frozen=True, kw_only=True):
    """One event of the log."""

    user_id: str


class WhyStep(Returned, frozen=True, kw_only=True):
    """One event in the life of a memory: what it did, by whom, and why."""

    memory_id: str
    """Whose life it is: of the memory that was asked for, or of a summary of it."""
    position: int
    version: int
    at: datetime
    event: str
    """The event's tag, for example `long_term.pruned`."""
    effect: str
    """added, changed, restored, deleted, pruned, evicted, expired, compressed, or undone."""
    command: str | None
    """What was asked; None where the log no longer says."""
    agent_id: str | None
    session_id: str | None
    source: str | None
    """Where what it says came from, where the command said so."""
    trust: str | None
    """How far that is trusted, where the command said so."""
    cause: str | None
    """Why the event happened, where its command does not say: quota, ttl, purge of a source, …"""
    by: str | None
    """The memory that took its place, made it leave, or ended it."""
    says: str
    """All of it in a sentence."""


class Why(Returned, frozen=True, kw_only=True):
    """Why a memory is there, or no longer is: its life from the first event on."""

    memory_id: str
    memory_type: str
    alive: bool
    summary_id: str | None
    """The summary that it went into last, where it has not come back since."""
    originals: tuple[str, ...]
    """Of a summary: what it was made of, in order of time."""
    steps: tuple[WhyStep, ...]
    """In the order of the log; behind its own what happened to its summary since."""
    says: str
    """How it stands now, in a sentence."""


class Moment(Returned, frozen=True, kw_only=True):
    """A place in one user's stream, and the time that reads are answered for."""

    position: int
    """In the log, of the user's last event by then; 0 before the first one."""
    version: int
    """In the user's stream, of the same."""
    at: datetime


class Change(Returned, frozen=True, kw_only=True):
    """What happened to one memory between two moments."""

    memory_id: str
    memory_type: str
    change: str
    """added, changed, restored, deleted, pruned, evicted, expired, compressed, or undone: in the
    end, that is; the steps say what else happened."""
    before: Memory | None
    """None: it was not there, or, with `dropped="mark"`, retention has dropped what it said."""
    after: Memory | None
    steps: tuple[WhyStep, ...]
    """What was done to it in between; none where its time was up."""


class Diff(Returned, frozen=True, kw_only=True):
    """What happened to one user's memories between two moments."""

    user_id: str
    a: Moment
    b: Moment
    changes: tuple[Change, ...]
    """In the order of the last event about each; what expired by the clock alone comes last."""
    tier_before: str | None
    """None: it was never set."""
    tier_after: str | None
    lost: int = 0
    """Events whose payload retention has dropped, with `dropped="mark"`."""


class Recall(Returned, frozen=True, kw_only=True):
    """That memories were returned to somebody for a query."""

    position: int
    at: datetime
    query: str
    """As it was asked; where `hashed`, a keyed hash of it."""
    memory_ids: tuple[str, ...]
    """In the order they were returned; hashed in the same way."""
    agent_id: str | None
    session_id: str | None
    hashed: bool
