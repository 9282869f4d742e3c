"""Selection: the memories that are old, and clusters of those about the same thing.

Clusters that repeat a few short texts in one form, such as commit messages, are joined to a series,
because one summary has room for all of them: see docs/internals/compaction.md, "Series".
"""

import re
from collections.abc import Callable, Container, Sequence
from datetime import timedelta
from functools import partial
from typing import Any, Final, NamedTuple

import anyio.to_thread
import msgspec
import numpy as np

from eventlog.core.records import to_datetime
from memory_actors.base.errors import InvalidInputError
from memory_actors.base.settings import Settings
from memory_actors.compaction.clusters import Points, clusters, dbscan, topics
from memory_actors.compaction.run import one_thread
from memory_actors.compaction.summarizers import Cluster, ExtractiveSummarizer
from memory_actors.compaction.summarizers.protocol import WORDS_MAX
from memory_actors.compaction.summarizers.sentences import count_words
from memory_actors.kinds.compacting import CompactedKind
from memory_actors.kinds.kind import Found
from memory_actors.kinds.passages import normalised
from memory_actors.kinds.past import Events
from memory_actors.kinds.rows import Row, last_true_us
from memory_actors.search.embedding.protocol import Vectors
from memory_actors.search.reading import texts
from memory_actors.users.handles.scope import Scope

COVERAGE_MIN: Final = 0.5
"""Least weighted share of a cluster's content that its summary has to cover."""
NARROW_BYTES: Final = 2_000
"""A summary has room for half of that, so nobody has to look what it says."""
SPLITS_MAX: Final = 3
"""Times that topics are split into topics: what has no parts of its own loses few at a time."""
READ_AT_ONCE = 256  # texts in memory at a time, while they are embedded
_AGE: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)([dhw])")
_HOURS_MAX: Final = 24 * 365 * 1_000
_HOURS: Final = {"h": 1, "d": 24, "w": 24 * 7}


def age(older_than: timedelta | str) -> timedelta:
    """Return an age: a timedelta, or a text such as 90d, 12h or 4w.

    :raises InvalidInputError: it is none, or below zero.
    """
    if isinstance(older_than, str):
        found = _AGE.fullmatch(older_than.strip())
        if found is None:
            raise InvalidInputError(
                f"older_than {older_than!r:.40} is no age: write 90d, 12h or 4w"
            )
        hours = float(found[1]) * _HOURS[found[2]]
        if hours > _HOURS_MAX:
            raise InvalidInputError(f"older_than {older_than!r:.40} is over a thousand years")
        older_than = timedelta(hours=hours)
    if not isinstance(older_than, timedelta) or older_than < timedelta(0):
        raise InvalidInputError("older_than must be a timedelta from 0, or a text such as 90d")
    return older_than


class Old(NamedTuple):
    """Old memories that may become summaries together, oldest first."""

    kind: CompactedKind
    rows: list[Any]

    def some(self, places: Points) -> "Old":
        """Return the memories at these places, in their order."""
        return Old(self.kind, [self.rows[place] for place in places.tolist()])

    def cluster(self, said: Sequence[str], vectors: Vectors) -> Cluster:
        """Return them as a summariser takes them; `said` is what it is told of each."""
        times = tuple(to_datetime(row.occurred_at_us) for row in self.rows)
        return Cluster(texts=tuple(said), times=times, vectors=vectors)


def old_memories(
    kind: CompactedKind, state: object, before_us: int, expires: Container[str] = ()
) -> list[Old]:
    """Return compressible memories that were true before a time, by owner. For a thread.

    Memories with an expiry time are left out: a summary would outlive them.
    """
    by_owner: dict[str | None, list[Any]] = {}
    for row in kind.rows(state):
        if row.memory_id in expires or last_true_us(row) >= before_us:
            continue
        if kind.compressible(row):
            by_owner.setdefault(kind.whose(row), []).append(row)
    for rows in by_owner.values():
        rows.sort(key=lambda row: (row.occurred_at_us, row.version))
    return [Old(kind, by_owner[owner]) for owner in sorted(by_owner, key=str)]


async def clustered(
    scope: Scope, batch: Old, settings: Settings, judge: ExtractiveSummarizer
) -> list[Old]:
    """Return the clusters of a batch of memories, each in their order; noise is left out.

    One that is wider than its summary can say, as `judge` sees it, is split into its topics.
    """
    vectors, least = await vectors_of(scope, batch), settings.compaction_min_samples

    def work() -> list[Points]:
        with one_thread():
            return clusters(dbscan(vectors, settings.compaction_eps, least), least)

    found: list[Old] = []
    for members in await _with_series(scope, batch, await anyio.to_thread.run_sync(work)):
        cluster = batch.some(members)
        if sum(row.size_bytes for row in cluster.rows) <= NARROW_BYTES:
            found.append(cluster)
            continue
        said = await said_by(scope, cluster)
        split = partial(_narrow, cluster, said, vectors[members], least, judge)
        found += await anyio.to_thread.run_sync(split)
    return found


async def _with_series(scope: Scope, batch: Old, found: list[Points]) -> list[Points]:
    """Return clusters with those of one series joined, and with its entries among the noise."""
    some = [batch.some(members) for members in found]
    repeated = [
        entries(cluster.rows, await said_by(scope, cluster))
        if may_be_entries(cluster.rows)
        else None
        for cluster in some
    ]
    series = [(place, one) for place, one in enumerate(repeated) if one is not None]
    if not series:
        return found
    members = list(found)
    alone = np.setdiff1d(np.arange(len(batch.rows)), np.concatenate(found))
    short = np.array([n for n in alone.tolist() if may_be_entries([batch.rows[n]])], dtype=int)
    for n, text in zip(short, await said_by(scope, batch.some(short)), strict=True):
        place = next((place for place, one in series if one.takes(batch.rows[n], text)), None)
        if place is not None:
            members[place] = np.append(members[place], n)
    return [
        np.sort(np.concatenate([members[place] for place in places])) for places in joined(repeated)
    ]


def _narrow(
    old: Old,
    said: Sequence[str],
    vectors: Vectors,
    least: int,
    judge: ExtractiveSummarizer,
    splits: int = SPLITS_MAX,
) -> list[Old]:
    """Return a cluster, or its topics where a summary would say too little of it."""
    if not splits or judge.coverage(old.cluster(said, vectors)) >= COVERAGE_MIN:
        return [old]
    with one_thread():
        parts = topics(vectors, least)
    if len(parts) == 1:
        return [old]
    narrow: list[Old] = []
    for part in parts:
        told = [said[n] for n in part.tolist()]
        narrow += _narrow(old.some(part), told, vectors[part], least, judge, splits - 1)
    return narrow


async def vectors_of(scope: Scope, old: Old) -> Vectors:
    """Return the vector of each memory, of an episode its goal's; zeros where the embedder fails.

    Zeros are noise.
    """
    embeddings = scope.embeddings
    digests = [row.digest for row in old.rows]
    stored, there = await anyio.to_thread.run_sync(embeddings.matrix, digests)
    vectors = stored.decoded()
    missing = np.flatnonzero(~there).tolist()
    for start in range(0, len(missing), READ_AT_ONCE):
        places = missing[start : start + READ_AT_ONCE]
        rows = [old.rows[place] for place in places]
        said = await _read(
            scope,
            old.kind,
            rows,
            lambda kind, row, events: kind.passage_text(row, kind.passages(row)[0].label, events),
        )
        wanted = dict(zip((digests[place] for place in places), said, strict=True))
        embedded, _ = await embeddings.embed_each(wanted, background=True)
        for place in places:
            if digests[place] in embedded:
                vectors[place] = embedded[digests[place]].vector
    return vectors


async def said_by(scope: Scope, old: Old) -> list[str]:
    """Return the texts for a summariser, read from the log in pages."""
    said: list[str] = []
    for start in range(0, len(old.rows), READ_AT_ONCE):
        page = old.rows[start : start + READ_AT_ONCE]
        said += await _read(scope, old.kind, page, lambda kind, row, events: kind.told(row, events))
    return said


async def _read(
    scope: Scope,
    kind: CompactedKind,
    rows: Sequence[Row],
    text_of: Callable[[CompactedKind, Row, Events], str],
) -> list[str]:
    events = await texts(scope.services.log, scope.stream, [Found(kind, row) for row in rows])
    return [text_of(kind, row, events) for row in rows]


REPEATED_MIN: Final = 3
"""Times that each text of a cluster is there, on average."""
TEXT_BYTES_MAX: Final = 500
"""A longer text is no entry of a series: nobody reads it to see."""
BEGINNING_WORDS: Final = 2
_NUMBERED: Final = re.compile(r"\S*(?:\d|\b[a-f]{7,40}\b)\S*")
"""A few hashes of Git have no digit."""


class SeriesEntries(NamedTuple):
    """The short texts that a cluster repeats."""

    form: tuple[object, ...]
    """The role, and the metadata of all memories, or else the beginning of all texts."""
    texts: frozenset[str]
    """The different ones, with every number as `#`."""
    start_us: int
    end_us: int

    def takes(self, row: Row, text: str) -> bool:
        """Say whether a memory outside all clusters is one more of these entries."""
        role, common = self.form
        same = isinstance(common, tuple) or common == _metadata(row)
        return same and role == getattr(row, "role", None) and _masked(text) in self.texts


def may_be_entries(rows: Sequence[Row]) -> bool:
    """Say whether a cluster may be of a series, as far as is known without its texts."""
    roles = {getattr(row, "role", None) for row in rows}
    return len(roles) == 1 and all(row.size_bytes <= TEXT_BYTES_MAX for row in rows)


def entries(rows: Sequence[Row], said: Sequence[str]) -> SeriesEntries | None:
    """Return the entries of a series from rows in order of time, None for other clusters."""
    texts = frozenset(map(_masked, said))
    beginnings = set(map(_beginning, texts))
    metadata = set(map(_metadata, rows))
    if len(texts) * REPEATED_MIN > len(said):
        return None
    if len(metadata) == 1 and rows[0].metadata:
        common: object = metadata.pop()
    elif len(beginnings) == 1:
        common = beginnings.pop()
    else:
        return None
    form = (getattr(rows[0], "role", None), common)
    return SeriesEntries(form, texts, rows[0].occurred_at_us, rows[-1].occurred_at_us)


def _masked(text: str) -> str:
    return _NUMBERED.sub("#", normalised(text))


def _metadata(row: Row) -> bytes:
    return msgspec.json.encode(row.metadata, order="sorted")


def _beginning(text: str) -> tuple[str, ...]:
    first = text.split()[:BEGINNING_WORDS]
    return tuple(first[:1] if first[0] == "#" or first[0].endswith(":") else first)


def joined(found: Sequence[SeriesEntries | None]) -> list[list[int]]:
    """Return the places of clusters that become one, in the order of their first ones."""
    series: dict[object, list[int]] = {}
    for place, one in enumerate(found):
        series.setdefault(place if one is None else one.form, []).append(place)
    groups: list[list[int]] = []
    for places in series.values():
        of_series = [one for place in places if (one := found[place]) is not None]
        groups += [places] if _fit_together(of_series) else [[place] for place in places]
    return sorted(groups)


def _fit_together(series: Sequence[SeriesEntries]) -> bool:
    if len(series) < 2:
        return False
    texts = frozenset().union(*(one.texts for one in series))
    overlap = max(one.start_us for one in series) <= min(one.end_us for one in series)
    return overlap and 2 * sum(map(count_words, texts)) <= WORDS_MAX
