"""A new fact compared with those near it, outside of any decision; a decision records the result.

Compared are statements of the user: facts (without a role) and short turns of the user in a chat
with an assistant. Replies, turns of other people and summaries are compared with nothing. A nearby
statement is older or newer than the new one, by when it was true, then by when it was said; so an
import of old facts changes nothing newer, and the new one may itself be the one that holds no more.
A less trusted statement never supersedes a more trusted one.

A memory that is added is durable before it is compared: where that fails, or the process dies,
nothing is superseded, and that is all.
"""

import asyncio
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

import msgspec

from eventlog.core.logs import get_logger
from eventlog.core.records import AnyRecorded, to_datetime
from memory_actors.actors.asking import Reply
from memory_actors.base.privacy import hashed, reason
from memory_actors.base.records import LEVELS, least
from memory_actors.kinds import long_term
from memory_actors.kinds.kind import Found
from memory_actors.kinds.long_term import (
    MemoryAdded,
    MemoryRow,
    MemoryUpdated,
    Pair,
    SupersedeMemories,
)
from memory_actors.kinds.passages import USER, label
from memory_actors.kinds.provenance import Provenance
from memory_actors.kinds.rows import is_summary
from memory_actors.search.indexes.memory_index import MemoryIndex
from memory_actors.search.reading import texts
from memory_actors.search.superseding import NEAR_MAX, Reach, Statement, Superseding
from memory_actors.users.handles.scope import Scope
from memory_actors.users.live_user import LiveUser

NEIGHBOURS: Final = 32
"""Memories that facts are picked from: turns of conversations may lie between them."""

TURN_BYTES_MAX: Final = 400
"""Longest turn that is compared: a longer one says several things and is slow to parse."""
NEWER_MAX: Final = 4
"""Most newer statements to compare: a language model takes seconds for each."""
DECIDED_WITHIN_S: Final = 120.0
"""A language model that has not answered by then is not waited for: the memory is durable."""
EVIDENCE_CHARACTERS_MAX: Final = 200

_logger = get_logger("memory_actors.user")


class _Compared(NamedTuple):
    row: MemoryRow
    said: Statement


def read_ahead(scope: Scope, text: str) -> Reach | None:
    """Return the facts to compare a text with; or None to ask the decider later."""
    with suppress(Exception):  # of somebody's own decider: it is asked again, and that is logged
        if scope.services.superseding is not None:
            return scope.services.superseding.reach(text)
    return None


async def compared(scope: Scope, live: LiveUser, reply: Reply, ahead: Reach | None) -> Reply:
    """Return a reply with the events of what it supersedes, or is superseded by, behind its own.

    `ahead` is what was read of the one text that is new.
    """
    deciding = scope.services.superseding
    if deciding is None:
        return reply
    try:
        pairs = await _pairs(scope, live, deciding, reply.events, ahead)
        if not pairs:
            return reply
        command = SupersedeMemories(now_us=scope.now_us(), pairs=tuple(pairs))
        came = await scope.ask(live, command)
    except Exception as error:  # what was added stands: it is durable
        _logger.warning(
            "memory kept, not compared", user=hashed(scope.user_id), error=reason(error)
        )
        return reply
    return Reply(events=[*reply.events, *came.events], before=reply.before, state=came.state)


async def _pairs(
    scope: Scope,
    live: LiveUser,
    deciding: Superseding,
    events: Sequence[AnyRecorded],
    ahead: Reach | None,
) -> list[Pair]:
    """Return the supersessions to record for memories with a new text."""
    pairs: list[Pair] = []
    for recorded in events:
        event = recorded.data
        new = type(event) is MemoryAdded or isinstance(event, MemoryUpdated)
        row = long_term.KIND.find(live.state.long_term, event.memory_id) if new else None
        if row is None or event.content is None or is_summary(row):
            continue
        if not may_supersede(row.role, row.size_bytes):
            continue
        near = _near(live, row, ahead or deciding.reach(event.content))
        if near:
            statements = await _read(scope, live, row, event.content, near)
            pairs += await _decided(deciding, statements, live.state.provenance)
        if len(events) > 1:
            await asyncio.sleep(0)
    return pairs


def may_supersede(role: str | None, size_bytes: int) -> bool:
    """Say whether a text is a statement of the user, which may replace an older one."""
    return role is None or (role.casefold() == USER and size_bytes <= TURN_BYTES_MAX)


def _near(live: LiveUser, row: MemoryRow, reach: Reach) -> list[tuple[MemoryRow, float]]:
    """Return the facts to compare a memory that is new with, and their cosines, nearest first."""
    index = live.indexes.get(long_term.KIND) if reach.count_max else None
    if index is None:
        return []
    near, state = list[tuple[MemoryRow, float]](), live.state.long_term
    for one, cosine in _nearest(index, row, reach):
        if cosine < reach.similarity_min:
            break
        other = long_term.KIND.find(state, index.owner(one) or "")
        if other is None or other.memory_id == row.memory_id or is_summary(other):
            continue
        if may_supersede(other.role, other.size_bytes):
            near.append((other, cosine))
    return near[: min(reach.count_max, NEAR_MAX)]


def _nearest(index: MemoryIndex, row: MemoryRow, reach: Reach) -> Iterable[tuple[int, float]]:
    """Return the labels of memories that may be meant, and their cosines, nearest first."""
    own = index.rows.row_of(label(row.version))
    if own is None:  # it has gone meanwhile
        return ()
    last_us = index.traits.view(index.rows.count).last_us
    if reach.older_has is None or last_us.max(initial=0) > long_term.age(row)[0]:
        # The new memory may itself be the older one, which another says otherwise than.
        vector = index.dense.vector_of(label(row.version))
        near = index.dense.nearest(vector, NEIGHBOURS)
        return zip(*near, strict=True)
    rows = index.words.rows_with(reach.older_has)
    if len(rows) <= 1:  # the new one itself
        return ()
    near = index.dense.nearest_of(rows, own, NEIGHBOURS)
    return zip(*near, strict=True)


async def _read(
    scope: Scope, live: LiveUser, row: MemoryRow, text: str, near: Sequence[tuple[MemoryRow, float]]
) -> list[_Compared]:
    found = [Found(long_term.KIND, one) for one, _ in near]
    events = await texts(scope.services.log, live.stream, found)
    said = [(one, long_term.KIND.content(one, events), cosine) for one, cosine in near]
    return [
        _Compared(
            one,
            Statement(
                memory_id=one.memory_id,
                text=words,
                occurred_at=to_datetime(one.occurred_at_us),
                similarity=cosine,
            ),
        )
        for one, words, cosine in [(row, text, 1.0), *said]
    ]


async def _decided(
    deciding: Superseding, near: Sequence[_Compared], provenance: Provenance
) -> list[Pair]:
    itself, *others = near
    older = [one for one in others if _may(itself, one, provenance)]
    newer = [one for one in others if _may(one, itself, provenance)][:NEWER_MAX]
    asked = [(itself, older)] if older else []
    for one in newer:
        alike = msgspec.structs.replace(itself.said, similarity=one.said.similarity)
        asked.append((one, [itself._replace(said=alike)]))
    pairs = []
    for later, earlier in asked:
        async with asyncio.timeout(DECIDED_WITHIN_S):
            said = await deciding.superseded(later.said, [one.said for one in earlier])
        evidence = {verdict.memory_id: verdict.evidence for verdict in said}
        pairs += [
            Pair(
                memory_id=one.row.memory_id,
                superseded_by_id=later.row.memory_id,
                older_digest=one.row.digest,
                newer_digest=later.row.digest,
                similarity=round(min(one.said.similarity, later.said.similarity), 3),
                evidence=evidence[one.row.memory_id][:EVIDENCE_CHARACTERS_MAX],
            )
            for one in earlier
            if one.row.memory_id in evidence
        ]
    return pairs


def _may(newer: _Compared, older: _Compared, provenance: Provenance) -> bool:
    if older.row.settled or long_term.age(older.row) >= long_term.age(newer.row):
        return False
    heard = LEVELS.index(least(provenance.of(newer.row.memory_id)))
    return heard >= LEVELS.index(least(provenance.of(older.row.memory_id)))
