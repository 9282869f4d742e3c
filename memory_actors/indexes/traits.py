"""What ranking asks of a passage besides its text: when, by whom, in which session, a question.

Kept as columns in the order of the other indexes' rows, so that a query reads them as arrays. They
are told apart by label; where the orders differ (after one index was made anew and the other not
yet) the columns are put together from a map, which is slower and as right.
"""

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

NONE: Final = -1
"""No session, no speaker."""
DAY_US: Final = 86_400_000_000
SPOKEN_TWICE: Final = 2  # a name in front of one text only may be a heading
_SPEAKER: Final = re.compile(r"([^\W\d_][\w'.\-]*(?: [\w'.\-]+){0,2}): ")
_WORD: Final = re.compile(r"\w+")

_Labels = npt.NDArray[np.int64]


class Trait(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What is known of one passage."""

    time_us: int
    """When it was true."""
    chain: str | None
    """The session or episode it belongs to."""
    speaker: str | None
    """Who said it, case folded."""
    asks: bool
    """Whether it ends as a question."""


class Columns(NamedTuple):
    """Traits as arrays, one place a passage."""

    days: npt.NDArray[np.float64]
    """Since 1970."""
    chains: npt.NDArray[np.int32]
    """A number each; NONE for none."""
    speakers: npt.NDArray[np.int32]
    asks: npt.NDArray[np.float32]

    def followed_by(self, more: "Columns") -> "Columns":
        """Return these columns with others behind them."""
        return Columns(
            np.concatenate([self.days, more.days]),
            np.concatenate([self.chains, more.chains]),
            np.concatenate([self.speakers, more.speakers]),
            np.concatenate([self.asks, more.asks]),
        )


def trait(text: str, time_us: int, chain: str | None) -> Trait:
    """Return the traits of a text as it is embedded, its speaker in front."""
    said = _SPEAKER.match(text)
    speaker = said[1].casefold() if said else None
    return Trait(time_us, chain, speaker, text.rstrip().endswith("?"))


class Traits:
    """The traits of one index's passages, by label. Written on the loop, read anywhere."""

    def __init__(self) -> None:
        self._of: dict[int, Trait] = {}
        self._numbers: dict[str, int] = {}
        """Of sessions and speakers."""
        self._spoken: dict[str, int] = {}
        """How many passages a speaker has."""
        self._columns: tuple[_Labels, Columns] | None = None
        self._years: set[int] = set()

    def __len__(self) -> int:
        return len(self._of)

    @property
    def size_bytes(self) -> int:
        """Memory held, estimated."""
        return 250 * len(self._of)

    def items(self) -> Iterable[tuple[int, Trait]]:
        """Return labels and their traits."""
        return self._of.items()

    def put(self, label: int, trait: Trait) -> None:
        """Note the traits of a passage."""
        self._of[label] = trait
        if trait.speaker is not None:
            self._spoken[trait.speaker] = self._spoken.get(trait.speaker, 0) + 1

    def drop(self, label: int) -> None:
        """Forget a passage."""
        gone = self._of.pop(label, None)
        if gone is not None and gone.speaker is not None:
            self._spoken[gone.speaker] -= 1
            if not self._spoken[gone.speaker]:
                del self._spoken[gone.speaker]

    def named(self, query: str) -> int | None:
        """Return the number of the one speaker that a query names; None for none or several."""
        words = _as_words(query.casefold())
        known = [name for name, count in list(self._spoken.items()) if count >= SPOKEN_TWICE]
        found = [name for name in known if _as_words(name) in words]
        return self._number(found[0]) if len(found) == 1 else None

    def years(self) -> set[int]:
        """Return the years that passages are of, as of the last `columns`."""
        return self._years

    def columns(self, labels: _Labels) -> Columns:
        """Return the traits of these labels, in their order; of one that has none, nothing much."""
        known = self._columns
        if known is not None and np.array_equal(known[0], labels):
            return known[1]
        start = 0
        if known is not None and len(known[0]) <= len(labels):
            start = len(known[0]) if np.array_equal(known[0], labels[: len(known[0])]) else 0
        fresh = self._made(labels[start:])
        self._years = (self._years if start else set()) | _years_of(fresh.days)
        if start and known is not None:
            fresh = known[1].followed_by(fresh)
        self._columns = (labels.copy(), fresh)
        return fresh

    def columns_of(self, labels: _Labels) -> Columns:
        """Return the traits of a few labels, in their order."""
        return self._made(labels)

    def _made(self, labels: _Labels) -> Columns:
        found = [self._of.get(label, _UNKNOWN) for label in labels.tolist()]
        return Columns(
            np.array([one.time_us / DAY_US for one in found], np.float64),
            np.array([self._number(one.chain) for one in found], np.int32),
            np.array([self._number(one.speaker) for one in found], np.int32),
            np.array([one.asks for one in found], np.float32),
        )

    def _number(self, name: str | None) -> int:
        return NONE if name is None else self._numbers.setdefault(name, len(self._numbers))


def _years_of(days: npt.NDArray[np.float64]) -> set[int]:
    years = np.unique(days.astype("datetime64[D]").astype("datetime64[Y]")).astype(int)
    return {1970 + int(year) for year in years}


def _as_words(text: str) -> str:
    return f" {' '.join(_WORD.findall(text))} "


_UNKNOWN = Trait(0, None, None, False)
