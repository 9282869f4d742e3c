"""Fields of a file that were not understood: each told once, with the number of its lines.

Times as files give them are here too, since a field may be one that goes by another name.
"""

import re
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from memory_actors.base.errors import InvalidInputError
from memory_actors.base.validation import check_name, time_us

NOTES_MAX: Final = 100  # a file may have any number of fields
NAME_CHARACTERS_MAX: Final = 60
SHOWN_CHARACTERS_MAX: Final = 300
STRANGE_RECORDS_MAX: Final = 10_000
"""The limit for records before the first one is understood: beyond it the file is of another
format, or an attack."""
EPOCH: Final = re.compile(r"\d{10}(?:\d{3}){0,3}(?:\.\d+)?")
ZONE_NAME: Final = re.compile(r"\[[\w/+-]+\]\Z|(?<=\d) UTC\Z")
"""The name of a zone behind its offset, as Java writes it, or of the one that is meant anyway."""
SECONDS_MAX: Final = 100_000_000_000
DATE_NAMES: Final = ("_at", "at", "date", "time", "created", "updated", "modified", "when", "ts")


class ImportNote(msgspec.Struct, frozen=True):
    """A thing that some lines have, and that was not understood or not taken over."""

    says: str
    lines: int
    """The number of these lines; of another program's file, of its records."""


class ImportReport(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of an import."""

    users: list[str]
    added: int
    unchanged: int
    """They were there already: nothing is added twice."""
    unindexed: int = 0
    """Added, but not searchable until the embedder works again."""
    notes: tuple[ImportNote, ...] = ()
    """Things in the file that were not understood, or not taken over."""
    left_out: int = 0
    """Records of another program's file that are no memory: `notes` say why."""
    dry_run: bool = False
    """True if nothing was added: `added` counts the records that were read."""


class SourceReading:
    """Hears from a reader what it did not understand, or did not take over."""

    def __init__(self, user_field: str | None = None) -> None:
        self.user_field = user_field
        """The field that is to name the user, where the caller says so."""
        self.left_out = self.understood = 0
        self._counted: Counter[str] = Counter()
        self._first: dict[str, str] = {}

    def note(self, says: str) -> None:
        """Count one thing."""
        known = says in self._counted or len(self._counted) < NOTES_MAX
        self._counted[says if known else "other things were not understood, either"] += 1

    def leave_out(self, place: str, why: object) -> None:
        """Count a record that was not understood at all, or cannot be added.

        :raises InvalidInputError: there are thousands of them, and nothing else.
        """
        says = f"left out: {str(why)[:SHOWN_CHARACTERS_MAX]}"
        if len(self._first) < NOTES_MAX:
            self._first.setdefault(says, f" (first: {place})")
        self.note(says)
        self.left_out += 1
        if self.left_out >= STRANGE_RECORDS_MAX and not self.understood:
            raise InvalidInputError(
                f"{place}: none of {self.left_out:,} records is understood ({says}): is this the "
                "right file? `--map` names fields that are called otherwise"
            )

    def notes(self) -> tuple[ImportNote, ...]:
        """Return the counted notes, in order, each with the first place it left out."""
        return tuple(
            ImportNote(says + self._first.get(says, ""), lines)
            for says, lines in sorted(self._counted.items())
        )


def field_note(name: str, value: object, fields: Mapping[str, object]) -> str:
    """Explain the treatment of an unknown field."""
    shown, metadata = repr(name[:NAME_CHARACTERS_MAX]), fields.get("metadata")
    if isinstance(metadata, dict) and name in metadata:
        return f"{shown} was left out: the metadata has a field of that name"
    reads_as_time = name.casefold().endswith(DATE_NAMES) and is_time(value)
    if fields.get("timestamp") is None and reads_as_time:
        return (
            f"{shown} was not taken for when it was true: it is kept as metadata, and the memory "
            "is as old as its import. Call it 'timestamp' if it says when it was true"
        )
    return f"{shown} is no field of ours: it is kept as metadata"


# --- times


def is_time(value: object) -> bool:
    """Say whether a value reads as a time."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return False
    try:
        return micros_of(time_of_others(value), "a time") is not None
    except InvalidInputError:
        return False


def time_of_others(when: object) -> Any:
    """Return a time as other programs write it in a form of ours, any other value as it is.

    Seconds since 1970 may be text. A number that would be after the year 5000 is finer: it is
    milliseconds, microseconds or nanoseconds.
    """
    if isinstance(when, str):
        when = ZONE_NAME.sub("", when.strip())
        when = float(when) if EPOCH.fullmatch(when) else when
    if isinstance(when, int | float) and SECONDS_MAX <= abs(when) < SECONDS_MAX * 10**9:
        finer = (when / unit for unit in (1_000, 1_000_000, 1_000_000_000))
        return next(one for one in finer if abs(one) < SECONDS_MAX)
    return when


def datetime_of(timestamp: str | float | None, what: str) -> datetime | str | None:
    """Return a time of a file in a form that the memory takes, or raise `InvalidInputError`."""
    if timestamp is None or isinstance(timestamp, str):
        return timestamp if timestamp is None else check_name(timestamp, what)
    try:
        return datetime.fromtimestamp(timestamp, UTC)
    except (ValueError, OverflowError, OSError) as error:
        raise InvalidInputError(
            f"{what} {timestamp!r} is no number of seconds since 1970: write seconds (not "
            "milliseconds), or ISO 8601"
        ) from error


def micros_of(timestamp: str | float | None, what: str) -> int | None:
    """Return such a time in microseconds since 1970, or raise `InvalidInputError`."""
    return time_us(datetime_of(timestamp, what), what)
