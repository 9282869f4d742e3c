"""Traits of passages besides their texts, as columns in the order of rows.

The memory of a passage, the times it was true and known, its session, its speaker, whether it asks.
Names (of memories, sessions, speakers) are kept once, and rows have their numbers. Rows are only
appended, so a search in a thread may go on with the columns it took at its start.
"""

import re
from collections.abc import Iterable
from datetime import date
from typing import Any, Final, NamedTuple, Self

import msgspec
import numpy as np
import numpy.typing as npt

from eventlog.core.records import DAY_US
from memory_actors.base.compressing import narrowed, widened
from memory_actors.base.interning import Names
from memory_actors.kinds.passages import CHAT_ROLES, DIGEST_BYTES
from memory_actors.kinds.rows import Row, last_true_us
from memory_actors.search.indexes.labels import Labels, Rows, with_room

NONE: Final = -1
"""No session, no speaker."""
FOR_EVER_US: Final = np.iinfo(np.int64).max
ASKS_CHARACTERS: Final = 60
"""Before a question: from here on the text counts as less of a question."""
QUESTION_MARKS: Final = ("?", "？")  # noqa: RUF001 - both are meant
_SENTENCE_ENDS: Final = (".", "!", "\n", "。", "！", *QUESTION_MARKS)  # noqa: RUF001 - meant
_EPOCH_YEAR: Final = 1970
_EPOCH_DAY: Final = date(_EPOCH_YEAR, 1, 1).toordinal()
_LAST_DAY: Final = date.max.toordinal()
_SPEAKER: Final = re.compile(r"([^\W\d_][\w'.\-]*(?: [\w'.\-]+){0,2}): ")
_WORD: Final = re.compile(r"\w+")
_NAME: Final = re.compile(r"(?P<name>[^()\n:;?!]+?)(?P<type> \([^()\n]+\))?")
_NAME_CHARACTERS_MAX: Final = 80
_NAME_WORDS_MAX: Final = 4

_Times = npt.NDArray[np.int64]


class Times(NamedTuple):
    """The times a memory was true, and between which it was known or valid; microseconds."""

    occurred_us: int
    begins_us: int
    ends_us: int
    last_us: int = 0
    """The time it was true last: later than first, if it was said again."""


class SpokenTraits(NamedTuple):
    """Traits that a text shows by itself."""

    speaker: str | None
    """The speaker, case folded."""
    asks: float
    """How much of it is the question that it ends with, 0 to 1."""
    bare: bool = False
    """True if it is a name and no more, as "Cardiff (city)" is."""


class Trait(NamedTuple):
    """The traits of one passage."""

    owner: str
    """The memory it belongs to."""
    times: Times
    chain: str | None
    """The session or episode it belongs to."""
    place: int
    """In that: see `kinds.passages.Passage`."""
    spoken: SpokenTraits
    summary: bool
    """True if it stands for memories that were compressed."""
    said: bool = False
    """True if somebody said it: a turn, not a fact."""
    digest: bytes = b""
    """Of its text."""


class Columns(NamedTuple):
    """Traits as arrays, one place a row."""

    owners: npt.NDArray[np.int32]
    occurred_us: _Times
    begins_us: _Times
    ends_us: _Times
    last_us: _Times
    chains: npt.NDArray[np.int32]
    """A number each; NONE for none."""
    places: _Times
    speakers: npt.NDArray[np.int32]
    asks: npt.NDArray[np.float32]
    summaries: npt.NDArray[np.bool_]
    said: npt.NDArray[np.bool_]
    bare: npt.NDArray[np.bool_]
    digests: npt.NDArray[np.void]
    """Of the texts: their embeddings are found under them."""
    numbers: npt.NDArray[np.uint32]
    """The numbers of these embeddings' rows in the table on disk; 0 if unknown."""

    def at(self, rows: Rows | slice) -> "Columns":
        """Return the traits of some rows."""
        return Columns._make(column[rows] for column in self)


def digests_in(data: bytes) -> list[bytes]:
    """Return the digests that are one behind another in `data`."""
    return [data[start : start + DIGEST_BYTES] for start in range(0, len(data), DIGEST_BYTES)]


def times(row: Row) -> Times:
    """Return the times of a row of a state: its validity, if it has one, else from its record."""
    first_us, last_us = getattr(row, "since_us", 0) or row.occurred_at_us, last_true_us(row)
    begins = getattr(row, "valid_from_us", None)
    if begins is None:
        return Times(first_us, row.created_at_us, FOR_EVER_US, last_us)
    ends = getattr(row, "valid_to_us", None)
    return Times(first_us, begins, FOR_EVER_US if ends is None else ends, last_us)


def spoken(text: str) -> SpokenTraits:
    """Derive the traits of a text from its embedded form, its speaker in front."""
    said = _SPEAKER.match(text)
    speaker = said[1].casefold() if said else None
    words = text[said.end() :] if said else text
    return SpokenTraits(speaker, _asks(words.rstrip()), _is_bare(text))


def _asks(text: str) -> float:
    """Return how much of a text is the question that it ends with.

    A few words before the question change nothing; two sentences are something of their own.
    """
    if not text.endswith(QUESTION_MARKS):
        return 0.0
    before = max(text.rfind(mark, 0, -1) for mark in _SENTENCE_ENDS) + 1
    return min(1.0, ASKS_CHARACTERS / max(before, 1))


def _is_bare(text: str) -> bool:
    """Say whether a text is a name: up to four words in capitals, perhaps with a type behind it."""
    found = _NAME.fullmatch(text) if len(text) <= _NAME_CHARACTERS_MAX else None
    if found is None:
        return False
    names = _WORD.findall(found["name"])
    if not 0 < len(names) <= _NAME_WORDS_MAX or any(map(str.islower, names)):
        return False
    # A text without capitals, as in Chinese, may be a whole sentence.
    return found["type"] is not None or any(name[0].isupper() for name in names)


_COLUMNS: Final = (
    *map(np.dtype, ("i4", "i8", "i8", "i8", "i8", "i4", "i8", "i4", "f4", "?", "?", "?")),
    np.dtype((np.void, DIGEST_BYTES)), np.dtype("u4"),
)  # fmt: skip
"""The types of `Columns`."""


class SavedTraits(msgspec.Struct, frozen=True):
    """The traits of living rows, in their order."""

    owners: tuple[bytes, bytes]
    """The ids of memories: their letters, and where each ends."""
    named: tuple[bytes, bytes]
    """Sessions and speakers."""
    columns: tuple[bytes, ...]
    """All before the digests, `narrowed`; `last_us` as its difference from `occurred_us`."""
    digests: bytes


class Traits:
    """The traits of one index's passages, by row. Written on the loop, read anywhere."""

    def __init__(self, rows: Labels):
        self.rows = rows
        self.owners = Names()
        self._named = Names()  # sessions and speakers
        self._columns = Columns._make(np.zeros(0, kind) for kind in _COLUMNS)
        self.held: tuple[object, object] = (None, None)
        """The last result of `Parts.held`, and its rows."""
        self._years: tuple[object, set[int]] = (None, set())
        """The last result of `years`, and its rows."""

    @property
    def size_bytes(self) -> int:
        """Memory held."""
        names = self.owners.size_bytes + self._named.size_bytes
        return names + sum(column.nbytes for column in self._columns)

    def append(self, trait: Trait) -> None:
        """Note the traits of the next row."""
        row = self.rows.count
        if row == len(self._columns.asks):
            self._columns = Columns._make(with_room(one, row + 1) for one in self._columns)
        columns: Any = self._columns
        for column, value in zip(columns, self._values(trait), strict=True):
            column[row] = value

    def saved(self, rows: Rows) -> SavedTraits:
        """Return copies of some rows' columns, to be written.

        For a thread: the columns given do not change any more.
        """
        columns = self._columns.at(rows)
        owners, numbers = np.unique(columns.owners, return_inverse=True)
        names = Names.listed(self.owners[owner] for owner in owners.tolist())
        since_us = columns.last_us - columns.occurred_us
        columns = columns._replace(owners=numbers.astype(np.int32), last_us=since_us)
        whole = (column.view(f"i{column.itemsize}") for column in columns[:-2])
        data = tuple(map(narrowed, whole))
        return SavedTraits(names.saved(), self._named.saved(), data, columns.digests.tobytes())

    @classmethod
    def restored(cls, saved: SavedTraits, rows: Labels) -> Self:
        """Return the traits of a copy.

        :raises ValueError: its parts do not fit each other, or the rows.
        """
        traits = cls(rows)
        traits.owners = Names.of_bytes(*saved.owners)
        traits._named = Names.of_bytes(*saved.named)
        pairs = zip(saved.columns, _COLUMNS[:-2], strict=True)
        whole = [widened(data, f"i{kind.itemsize}").view(kind) for data, kind in pairs]
        digests = np.frombuffer(saved.digests, _COLUMNS[-2]).copy()
        numbers = np.zeros(rows.count, np.uint32)  # kept beside the others, with their table
        traits._columns = columns = Columns._make([*whole, digests, numbers])
        columns.last_us[:] += columns.occurred_us
        names = {"owners": traits.owners, "chains": traits._named, "speakers": traits._named}
        of_names = [(getattr(traits._columns, name), len(known)) for name, known in names.items()]
        fit = all(
            one.min(initial=NONE) >= NONE and one.max(initial=NONE) < n for one, n in of_names
        )
        if not fit or any(len(column) != rows.count for column in columns):
            raise ValueError("the columns of traits do not fit each other: build them anew")
        return traits

    def _values(self, trait: Trait) -> tuple[object, ...]:
        said = trait.spoken
        speaker = NONE if said.speaker is None else self._named.of(said.speaker)
        chain = NONE if trait.chain is None else self._named.of(trait.chain)
        owner = self.owners.of(trait.owner)
        where = owner, *trait.times, chain, trait.place
        shown = speaker, said.asks, trait.summary, trait.said, said.bare
        return (*where, *shown, np.void(trait.digest.ljust(DIGEST_BYTES, b"\0")), 0)

    def number(self, rows: Rows | slice, numbers: npt.NDArray[np.uint32]) -> None:
        """Note the numbers of the rows of embeddings in the table on disk.

        :raises ValueError: they are not as many as the rows.
        """
        self._columns.numbers[: self.rows.count][rows] = numbers

    def numbers(self, rows: Rows | slice = slice(None)) -> npt.NDArray[np.uint32]:
        """Return these numbers of some rows; of all of them the column itself."""
        return self._columns.numbers[: self.rows.count][rows]

    def retime(self, row: int, times: Times) -> None:
        """Change the times of a row."""
        columns, self._years = self._columns, (None, set())
        columns.occurred_us[row], columns.begins_us[row] = times.occurred_us, times.begins_us
        columns.ends_us[row], columns.last_us[row] = times.ends_us, times.last_us

    def view(self, count: int) -> Columns:
        """Return the traits of the first rows, in their order."""
        return self._columns.at(slice(0, count))

    def taken(self, kept: Rows, rows: Labels) -> "Traits":
        """Return the traits of some rows, all living ones among them, for their own `rows`.

        Names keep their numbers.
        """
        made = Traits(rows)
        made.owners, made._named = self.owners, self._named
        made._columns = self._columns.at(kept)
        return made

    def owner_at(self, row: int) -> str:
        """Return the id of the memory that the passage of a row belongs to."""
        return self.owners[int(self._columns.owners[row])]

    def digests(self, rows: Rows | slice = slice(None)) -> list[bytes]:
        """Return the digests of the texts of some rows, or of each."""
        found: list[bytes] = self._columns.digests[: self.rows.count][rows].tolist()
        return found

    def number_of(self, chain: str) -> int | None:
        """Return the number of a session, None if no row was ever in it."""
        return self._named.find(chain)

    def named(self, query: str, speakers: Iterable[int]) -> int | None:
        """Return the number of the one speaker that a query names, or None for none or several."""
        words = _as_words(query.casefold())
        found = [
            number
            for number in speakers
            if (name := self._named[number]) not in CHAT_ROLES and _as_words(name) in words
        ]
        return found[0] if len(found) == 1 else None

    def are_of(
        self, roles: Iterable[str], speakers: npt.NDArray[np.int32]
    ) -> npt.NDArray[np.bool_]:
        """Mark the speakers that have one of some roles."""
        found = np.zeros(len(speakers), np.bool_)
        for role in roles:  # `np.isin` takes longer for so few
            if (number := self._named.find(role)) is not None:
                found |= speakers == number
        return found

    def years(self, count: int) -> set[int]:
        """Return the years that the living among the first rows are of."""
        now, (then, found) = (count, self.rows.living), self._years
        if now != then:
            times_us = self._columns.occurred_us[:count][self.rows.alive[:count]]
            # Beyond what a date can be they are brought to the first year or the last.
            days = np.clip(times_us // DAY_US, 1 - _EPOCH_DAY, _LAST_DAY - _EPOCH_DAY)
            years = np.bincount(days.astype("M8[D]").astype("M8[Y]").astype(np.int64) + _EPOCH_YEAR)
            found = set(np.flatnonzero(years).tolist())
            self._years = now, found
        return found


def _as_words(text: str) -> str:
    return f" {' '.join(_WORD.findall(text))} "
