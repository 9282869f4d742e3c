"""Which memories are old, and which of them are about the same thing."""

import re
from collections.abc import Sequence
from datetime import timedelta
from typing import Final

import anyio.to_thread
import numpy as np

from memory_actors.compaction.clusters import clusters, dbscan
from memory_actors.compaction.one_thread import one_thread
from memory_actors.embedding.protocol import Vectors
from memory_actors.errors import InvalidInputError
from memory_actors.kinds import long_term
from memory_actors.kinds.long_term import LongTerm, Row
from memory_actors.phrasing import spoken
from memory_actors.reading import Found, texts
from memory_actors.settings import Settings
from memory_actors.writers.scope import Scope

READ_AT_ONCE = 256  # texts in memory at a time, while they are embedded
DAY_US: Final = 86_400_000_000
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


def old_memories(state: LongTerm, before_us: int) -> list[Row]:
    """Return what may be compressed and was true before a time, oldest first. For a thread."""
    rows = long_term.rows(state)
    found = [r for r in rows if r.occurred_at_us <= before_us and long_term.compressible(r)]
    return sorted(found, key=lambda row: (row.occurred_at_us, row.version))


async def clustered(scope: Scope, rows: Sequence[Row], settings: Settings) -> list[list[Row]]:
    """Return the clusters of a batch of memories, each in their order; noise is left out."""
    vectors = await vectors_of(scope, rows)

    def work() -> list[list[Row]]:
        with one_thread():
            labels = dbscan(vectors, settings.compaction_eps, settings.compaction_min_samples)
        found = clusters(labels, settings.compaction_min_samples)
        return [[rows[place] for place in members.tolist()] for members in found]

    return await anyio.to_thread.run_sync(work)


async def vectors_of(scope: Scope, rows: Sequence[Row]) -> Vectors:
    """Return the vector of each memory; zeros, which are noise, where the embedder fails."""
    embeddings = scope.services.embeddings
    digests = [row.digest for row in rows]
    vectors, there = await anyio.to_thread.run_sync(embeddings.matrix, digests)
    missing = np.flatnonzero(~there).tolist()
    for start in range(0, len(missing), READ_AT_ONCE):
        places = missing[start : start + READ_AT_ONCE]
        said = await said_by(scope, [rows[place] for place in places])
        wanted = dict(zip((digests[place] for place in places), said, strict=True))
        embedded, _ = await embeddings.embed_each(wanted)
        for place in places:
            if digests[place] in embedded:
                vectors[place] = embedded[digests[place]].vector
    return vectors


async def said_by(scope: Scope, rows: Sequence[Row]) -> list[str]:
    """Return what memories say, each with its speaker, read from the log in pages."""
    said: list[str] = []
    for start in range(0, len(rows), READ_AT_ONCE):
        page = rows[start : start + READ_AT_ONCE]
        events = await texts(scope.services.log, scope.stream, [Found(long_term, r) for r in page])
        said += [spoken(long_term.content(row, events), row.role) for row in page]
    return said
