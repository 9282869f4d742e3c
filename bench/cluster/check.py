"""Checks of a cluster when its nodes have ended, by their journals and the database.

- Every acknowledged write is in the log once; any other that was asked, at most once.
- What a write made is there with its last content; what was deleted is gone.
- Versions and positions have no gap, and no epoch or version was ever seen to decrease.
- Every event was written by the node that owned its stream then: else it is a stale commit.
- No read missed a write that was acknowledged before it began: else it is a stale read.
- The state of every user is a replay of their events, and the totals are their sum; `verify` finds
  nothing.
- No call failed, and none of a node that ended in good order was left without an answer.
"""

import asyncio
import json
import re
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

from bench.cluster.cluster import Cluster
from bench.cluster.journal import Line, lines
from bench.cluster.node import PAPERS, opened, token_of
from memory_actors import NotFoundError

TOKEN = re.compile(r"n\d+g\d+w\d+c\d+")
FOREVER = float("inf")
Key = tuple[str, str, str]
"""User, kind, and id, key or name of a thing."""

GAPS = """
    SELECT 'positions' FROM (SELECT count(*) AS n, coalesce(max(position), 0) AS last
        FROM {schema}.event) AS e, {schema}.log_tail AS t
    WHERE n <> last OR last <> t.position
    UNION ALL
    SELECT encode(s.sid, 'hex') FROM {schema}.stream AS s LEFT JOIN (
        SELECT sid, count(*) AS n, max(version) AS last FROM {schema}.event GROUP BY sid
    ) AS e ON e.sid = s.sid
    WHERE coalesce(e.n, 0) <> s.version OR coalesce(e.last, 0) <> s.version
"""
STALE = """
    SELECT position, encode(writer, 'hex'), encode(owner, 'hex') FROM {schema}.witness
    WHERE owner IS DISTINCT FROM writer AND owner IS NOT NULL
"""


class Harm(NamedTuple):
    """Something that must not be."""

    what: str
    example: str


class Write(NamedTuple):
    """A write of a thing: when it may have happened, and what it left."""

    from_s: float
    until_s: float
    """Of its answer; for ever, if there was none."""
    token: str | None


def all_harm(cluster: Cluster, journals: dict[str, list[Line]], killed: set[str]) -> Iterator[Harm]:
    """Yield all that must not be, after all nodes have ended."""
    yield from (Harm(*one) for one in cluster.seen)
    yield from (Harm("gap", str(where)) for [where] in cluster.ask(GAPS))
    yield from stale(cluster, journals)
    yield from _unanswered(journals, killed)
    noted = [line for name in journals for line in journals[name]]
    yield from asyncio.run(_in_store(cluster, noted, _writes(journals)))


def stale(cluster: Cluster, journals: dict[str, list[Line]]) -> Iterator[Harm]:
    """Yield the commits and reads that were stale."""
    yield from (Harm("stale commit", one) for one in stale_commits(cluster))
    noted = [line for name in journals for line in journals[name]]
    yield from _stale_reads(noted, _writes(journals))


def stale_commits(cluster: Cluster) -> list[str]:
    """Return the events that were written by a node while another one owned their stream.

    A node that wakes up gives all its streams up at once. A pending append may be committed after
    that, as long as nobody has claimed the stream: the next owner reads it.
    """
    return [
        f"event {position} was written by {writer}, its stream had {owner}"
        for position, writer, owner in cluster.ask(STALE)
    ]


def _writes(journals: dict[str, list[Line]]) -> dict[Key, list[Write]]:
    found: dict[Key, list[Write]] = defaultdict(list)
    for noted in journals.values():
        ends = {line.call: line for line in noted if line.what == "done"}
        for line in noted:
            if line.what != "try":
                continue
            end = ends.get(line.call)
            ref = line.ref if end is None else end.ref
            token = None if line.name == "delete" else line.token
            until_s = FOREVER if end is None else end.at_s
            if ref:
                found[line.user, line.kind, ref].append(Write(line.at_s, until_s, token))
    return found


def _stale_reads(noted: Sequence[Line], writes: dict[Key, list[Write]]) -> Iterator[Harm]:
    past = {key: _Past(each) for key, each in writes.items()}
    nothing = _Past([])
    for line in noted:
        if line.what != "read":
            continue
        known = past.get((line.user, line.kind, line.ref), nothing)
        if line.name == "retrieve" and line.token is None and not known.holds(line):
            continue  # it says something else now, and is not what was searched for
        if why := known.objection(line):
            yield Harm("stale read", f"{why}: {line}")


class _Past:
    """The writes of one thing, so that a read of it can be judged."""

    def __init__(self, writes: Sequence[Write]):
        self._writes = writes
        ended = sorted(writes, key=lambda write: write.until_s)
        self._ends = [write.until_s for write in ended]
        self._begun = list(accumulate((write.from_s for write in ended), max))
        """When the last one began of those that had ended until then."""

    def holds(self, read: Line) -> bool:
        """Say whether the thing said what was searched for all the time."""
        others = [write for write in self._writes if write.token != read.said]
        since = min((w.until_s for w in self._writes if w.token == read.said), default=FOREVER)
        return since < read.from_s and all(write.until_s < since for write in others)

    def objection(self, read: Line) -> str:
        """Say why a read cannot be right; nothing if it can.

        It can, if a write left what it saw that had begun when it ended, and no other write began
        after that one ended, and was acknowledged before the read began.
        """
        said = [w for w in self._writes if w.token == read.token and w.from_s <= read.at_s]
        ends = [write.until_s for write in said]
        if read.token is None:
            ends.append(-FOREVER)  # before its first write it was not there
        if not ends:
            return "nobody wrote this"
        ended = bisect_left(self._ends, read.from_s)
        missed_s = self._begun[ended - 1] if ended else -FOREVER
        return "a newer write was acknowledged" if missed_s > max(ends) else ""


def _unanswered(journals: dict[str, list[Line]], killed: set[str]) -> Iterator[Harm]:
    for name, noted in journals.items():
        for line in noted:
            if line.what == "error":
                yield Harm("error", f"{line.name} at {name}: {line.said}")
        if name not in killed:
            over = {line.call for line in noted if line.what in ("done", "error")}
            hung = (line for line in noted if line.what == "try" and line.call not in over)
            yield from (Harm("hung", f"{name}: {line}") for line in hung)


# --- in the store


async def _in_store(
    cluster: Cluster, noted: Sequence[Line], writes: dict[Key, list[Write]]
) -> list[Harm]:
    async with opened(cluster.url(cluster.server.port, "judge")) as memory:
        found = [*await _once(memory, noted)]
        for key, each in writes.items():
            found += await _kept(memory, key, each)
        report = await memory.verify()
        found += [Harm("damaged", str(finding)) for finding in report.findings]
        diverged = await memory.check_replay()
        return found + [Harm("diverged", user) for user in diverged]


async def _once(memory: Any, noted: Sequence[Line]) -> list[Harm]:
    """Compare the events of the log with requests and acknowledgements."""
    asked: dict[str, Line] = {}
    answered: dict[str, set[str]] = defaultdict(set)
    deleted, gone = set[str](), Counter[str]()
    for line in noted:
        if line.name == "delete":
            if line.what == "done":
                deleted.add(line.ref)
        elif line.what == "try":
            asked[line.token or ""] = line
        elif line.what == "done":
            answered[line.token or ""].add(line.ref)
    events, ids = Counter[str](), dict[str, str]()
    async for entry in memory.events():
        if entry.event == "long_term.deleted":
            gone[entry.data["memory_id"]] += 1
        for token in set(TOKEN.findall(json.dumps(entry.data, default=str))):
            events[token] += 1
            ids[token] = entry.data.get("memory_id", "")
    found = [Harm("lost", f"acknowledged, and not there: {asked[one]}")
             for one in answered if not events[one]]  # fmt: skip
    found += [Harm("doubled", f"{n} events of {asked.get(one)}")
              for one, n in events.items() if n > 1 or one not in asked]  # fmt: skip
    found += [Harm("doubled", f"deleted {n} times: {one}") for one, n in gone.items() if n > 1]
    found += [Harm("lost", f"deleted, and no event of it: {one}") for one in deleted - gone.keys()]
    found += [Harm("another answer", f"{refs} for {asked[one]}, made as {ids.get(one)}")
              for one, refs in answered.items()
              if asked[one].kind == "memory" and events[one] and refs != {ids[one]}]  # fmt: skip
    return found


async def _kept(memory: Any, key: Key, writes: Sequence[Write]) -> list[Harm]:
    """Read a thing once more: a read that began when all had ended."""
    user_id, kind, ref = key
    now = Line(what="read", at_s=FOREVER, from_s=FOREVER, token=await _token(memory, key))
    why = _Past(writes).objection(now)
    return [Harm("lost", f"{why}: {kind} {ref} of {user_id} says {now.token!r}")] if why else []


async def _token(memory: Any, key: Key) -> str | None:
    user_id, kind, ref = key
    user = memory.user(user_id)
    try:
        if kind == "working":
            value: str | None = await user.working.get(ref)
            return value
        if kind == "document":
            text: str = (await user.documents.get(ref, PAPERS)).value["text"]
            return text
        if kind == "entity":
            name: str = (await user.entities.get(ref)).name
            return name
        return token_of((await user.get(ref)).content)
    except NotFoundError:
        return None


def journals_of(cluster: Cluster) -> dict[str, list[Line]]:
    """Return the lines of every node that there was."""
    return {name: lines(cluster.directory / name) for name in cluster.names}
