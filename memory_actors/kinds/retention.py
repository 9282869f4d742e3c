"""Retention: memories that a rule of the settings no longer allows are deleted, over all kinds.

The command carries the rule, the memories that are old enough, and their past. So the decision
needs neither settings nor log, and the kinds' own events name what goes: a replay decides nothing.
"""

from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, ClassVar, Self

from msgspec.structs import replace

from eventlog import Dropped, Recorded
from eventlog.core.records import DAY_US
from memory_actors.base.origins import Origins
from memory_actors.base.settings import RetentionRule
from memory_actors.kinds.commands import Command, Outside
from memory_actors.kinds.effects import ENDS, Event, effect, says
from memory_actors.kinds.kind import Kind, Row, is_summary, tentative
from memory_actors.kinds.provenance import Provenance
from memory_actors.kinds.purging import made_of, past_of

RETAINED_AT_ONCE = 100  # memories of one decision, which reads their past


class ApplyRetention(Command, frozen=True, kw_only=True):
    """Delete those of some memories that a rule matches, and that nobody has written since."""

    frees: ClassVar[bool] = True
    rule: RetentionRule
    memory_ids: tuple[str, ...] = ()
    past: Mapping[str, Sequence[Recorded[Event]]] = {}
    """Every event about each of them, in order."""

    @property
    def alone(self) -> bool:
        """True: when they were written last is in the log."""
        return True

    async def informed(self, _state: object, outside: Outside) -> Self:
        """Return the command with the past of its memories, and of the originals of summaries."""
        return replace(self, past=await past_of(self.memory_ids, outside))

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
        command = ApplyRetention(now_us=now_us, rule=rule)
        old = [
            row.memory_id
            for kind in kinds
            for row in kind.rows(state.of(kind))
            if command.matches(kind, row, state.provenance)
        ]
        for start in range(0, len(old), RETAINED_AT_ONCE):
            ids = tuple(old[start : start + RETAINED_AT_ONCE])
            commands.append(replace(command, memory_ids=ids))
    return commands


def retain(
    command: ApplyRetention, kinds: Sequence[Kind], states: Mapping[str, Any], state: Provenance
) -> list[Event]:
    """Return the events that delete what a rule no longer allows."""
    states, events = dict(states), list[Event]()
    for memory_id in command.memory_ids:
        for kind in kinds:
            row = kind.find(states[kind.NAME], memory_id)
            if row is not None and command.matches(kind, row, state):
                gone = kind.deleted(row, states[kind.NAME])
                states[kind.NAME] = kind.fold(states[kind.NAME], tentative(gone, command.now_us))
                events += gone
    return events


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
