"""Retention: memories that a rule of the settings no longer allows are deleted, over all kinds.

The command carries the rule, the memories that are old enough, and their past.
"""

from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from msgspec.structs import replace

from eventlog import Dropped, Recorded
from eventlog.core.records import DAY_US
from memory_actors.base.origins import Origins
from memory_actors.base.settings import RetentionRule
from memory_actors.kinds.effects import ENDS, Event, effect, says
from memory_actors.kinds.kind import Found, Kind, Row, is_summary
from memory_actors.kinds.provenance import Provenance
from memory_actors.kinds.purging import PURGED_AT_ONCE, Purge, Purging, made_of


class ApplyRetention(Purge, frozen=True, kw_only=True):
    """Delete those of some memories that a rule matches, and that nobody has written since."""

    rule: RetentionRule

    def meta(self, origins: Origins) -> dict[str, str]:  # noqa: ARG002 - it has no words
        """Return the meta of its events: the cause is the rule."""
        rule = self.rule
        told = [one for one in (rule.memory_type, rule.source, f"{rule.days:g} days") if one]
        return {"command": type(self).__name__, "cause": f"retention: {', '.join(told)}"}

    def matches(self, kind: Kind, row: Row, state: Provenance) -> bool:
        """Say whether the rule no longer allows a memory; without its past, whether it may not."""
        rule, origins = self.rule, state.of(row.memory_id)
        if rule.memory_type not in (None, kind.NAME):
            return False
        if _written_us(row, self.past) >= self.now_us - int(rule.days * DAY_US):
            return False
        return rule.source is None or (
            bool(origins) and all(fnmatchcase(one.source or "", rule.source) for one in origins)
        )


def applied(
    rules: Iterable[RetentionRule], user_id: str, kinds: Sequence[Kind], state: Any, now_us: int
) -> list[ApplyRetention]:
    """Return the commands that apply rules to a user. Looks at every memory: for a thread."""
    commands = list[ApplyRetention]()
    for rule in rules:
        if not fnmatchcase(user_id, rule.user_id or "*"):
            continue
        command = ApplyRetention(now_us=now_us, rule=rule, memory_ids=())
        old = [
            row.memory_id
            for kind in kinds
            for row in kind.rows(state.of(kind))
            if command.matches(kind, row, state.provenance)
        ]
        for start in range(0, len(old), PURGED_AT_ONCE):
            ids = tuple(old[start : start + PURGED_AT_ONCE])
            commands.append(replace(command, memory_ids=ids))
    return commands


class Retaining(Purging):
    """The work of an `ApplyRetention`."""

    _command: ApplyRetention

    def take_out(self, living: Found) -> None:
        """Delete a memory that the rule no longer allows."""
        kind, row = living
        if self._command.matches(kind, row, self._provenance):
            self._delete(kind, kind.deleted(row, self._states[kind.NAME]))


def _written_us(row: Row, past: Mapping[str, Sequence[Recorded[Event]]]) -> int:
    """Return when a memory was last written or said again; without its past, no later time.

    A summary is as old as the newest words that it was made of.
    """
    about: Iterable[str] = (row.memory_id,)
    if is_summary(row):
        if not past:
            return 0
        about = made_of(row.memory_id, past.get(row.memory_id, ()))
    written = [
        one.recorded_at_us
        for each in about
        for one in past.get(each, ())
        if isinstance(one.data, Dropped) or says(one.data, each)
        if effect(one.tag, one.data, each) not in ENDS
    ]
    return max(written, default=row.created_at_us)
