"""The changes of one user's memories between two moments.

Some changes have no event because the clock makes them: a silent session expires by itself.
"""

from collections.abc import Sequence
from typing import TypeAlias

from eventlog import Dropped, EventStore, Recorded
from eventlog.core.records import OnDropped
from memory_actors.base.errors import InvalidInputError
from memory_actors.base.records import AsOf, Memory
from memory_actors.base.reports import Change, Diff, WhyStep
from memory_actors.base.streams import known_user, stream_of
from memory_actors.base.validation import check_name
from memory_actors.history.past_user import StateThen, state_then
from memory_actors.history.why import steps_of
from memory_actors.kinds.effects import BEGINS, ENDS, Effect, Event
from memory_actors.kinds.kind import Found, Kind
from memory_actors.kinds.past import Events
from memory_actors.kinds.provenance import Provenance
from memory_actors.kinds.rows import Row
from memory_actors.kinds.user_state import KIND_BY_NAME, KINDS, kind_of_event
from memory_actors.search.reading import memory, pages
from memory_actors.users.handles.scope import Services

PAGE = 512  # events read at a time

Key: TypeAlias = tuple[str, str]
"""The name of a kind and the id of a memory."""
Touched: TypeAlias = dict[Key, list[Recorded[Event]]]
"""Events by what they are about."""


async def diff(
    services: Services, user_id: str, a: AsOf, b: AsOf, dropped: OnDropped = "raise"
) -> Diff:
    """Return the changes of a user's memories between two moments. See `MemorySystem.diff`."""
    log, stream = services.log, stream_of(check_name(user_id, "user_id"))
    head = await known_user(log, stream)
    first = await state_then(services, stream, head, a, dropped)
    last = await state_then(services, stream, head, b, dropped)
    if first.moment.version > last.moment.version:
        raise InvalidInputError("a is later than b: name the earlier moment first")
    since = max(first.moment.version, head.erased_version)
    touched = await _touched(log, stream, since, last.moment.version)
    gone_by_the_clock = [
        (kind.NAME, row.memory_id)
        for kind in KINDS
        if kind.NATURE.expires_by_clock
        for row in kind.rows(first.state.of(kind))
        if (kind.NAME, row.memory_id) not in touched and last.find(kind, row.memory_id) is None
    ]
    ids = [*touched, *gone_by_the_clock]
    versions = {
        version
        for name, memory_id in ids
        for end in (first, last)
        if (row := end.find(KIND_BY_NAME[name], memory_id)) is not None
        for version in KIND_BY_NAME[name].sources(row)
    }
    read = pages(log, stream, versions, dropped)
    texts = {recorded.version: recorded async for page in read for recorded in page}
    found = [_change(first, last, one, touched.get(one, []), texts) for one in ids]
    return Diff(
        user_id=user_id,
        a=first.moment,
        b=last.moment,
        changes=tuple(change for change in found if change is not None),
        tier_before=first.state.account.tier,
        tier_after=last.state.account.tier,
        lost=first.lost + last.lost,
    )


async def _touched(log: EventStore, stream: str, after: int, until: int) -> Touched:
    touched: Touched = {}
    while after < until:
        page = await log.read_stream(stream, after, min(PAGE, until - after), dropped="mark")
        for recorded in page:
            for key in _keys(recorded.data):
                events = touched.pop(key, [])
                events.append(recorded)
                touched[key] = events
        after += len(page)
    return touched


def _keys(event: object) -> list[Key]:
    """Return the memories that an event is about; none of a dropped one."""
    kind = None if isinstance(event, Dropped) else kind_of_event(event)
    if kind is None:
        return []
    return [(kind.NAME, memory_id) for memory_id in dict.fromkeys(kind.registry.keys(event))]


# --- one change


def _change(
    first: StateThen, last: StateThen, key: Key, events: Sequence[Recorded[Event]], texts: Events
) -> Change | None:
    kind, memory_id = KIND_BY_NAME[key[0]], key[1]
    old, new = first.find(kind, memory_id), last.find(kind, memory_id)
    if old is not None and old == new:
        return None
    steps = tuple(steps_of(memory_id, events, alive=old is not None))
    return Change(
        memory_id=memory_id,
        memory_type=kind.NAME,
        change=_effect(new, steps).value,
        before=_read(kind, old, texts, first.state.provenance),
        after=_read(kind, new, texts, last.state.provenance),
        steps=steps,
    )


def _effect(new: Row | None, steps: Sequence[WhyStep]) -> Effect:
    done = [Effect(step.effect) for step in steps]
    if new is not None:
        begun = [effect for effect in done if effect in BEGINS]
        return begun[-1] if begun else Effect.CHANGED
    ended = done and done[-1] in ENDS
    return done[-1] if ended else Effect.EXPIRED


def _read(kind: Kind, row: Row | None, texts: Events, provenance: Provenance) -> Memory | None:
    if row is None or any(isinstance(texts[v].data, Dropped) for v in kind.sources(row)):
        return None
    return memory(Found(kind, row), texts, provenance)
