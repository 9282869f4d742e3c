"""Series: clusters that repeat a few things in one form, such as the commits to a project.

Ten kinds of commit messages are ten topics, and so ten clusters. One summary has room for all ten,
since each is said again and again. Clusters are of one series if

- the texts of each are few different ones, numbers aside, and short;
- all memories have the same metadata, or, where it differs or is empty, begin with the same two
  words, or with a label: a number, a hash, or a word with a colon;
- all were said in the same role;
- there is a time within the ranges of all of them;
- the different texts together fit into half of a summary.

A memory outside all clusters that says what a series says is of that series. Memories that each
say something else stay in their own clusters, however alike they begin.
"""

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec

from memory_actors.compaction.summarizers.protocol import WORDS_MAX
from memory_actors.compaction.summarizers.sentences import count_words
from memory_actors.kinds.kind import Row
from memory_actors.kinds.phrasing import normalised

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
