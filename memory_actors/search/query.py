"""One query: all that is asked of retrieval, how foreign its text is, and the rows it may find.

A tokenizer cuts what its model knows into few pieces: English words are 1.1 to 1.6 pieces each with
MiniLM, Spanish ones 2, Russian ones 5 and more, and of Chinese two thirds are unknown tokens. A
state or a vector of such pieces says little, so there a text's own words should decide.
"""

import asyncio
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from eventlog.core.records import to_datetime
from memory_actors.base.filters import FilterPart
from memory_actors.base.origins import Wanted
from memory_actors.base.records import Order
from memory_actors.base.tokens import CalibratedEstimate, TokenCounter
from memory_actors.base.weights import Weights
from memory_actors.kinds.kind import Kind
from memory_actors.kinds.provenance import Provenance
from memory_actors.kinds.rows import Row
from memory_actors.search.dates import named_spans
from memory_actors.search.indexes.memory_index import MemoryIndex
from memory_actors.search.indexes.parts import Parts
from memory_actors.search.indexes.traits import QUESTION_MARKS, times

TOP_K = 5  # results, unless somebody says how many
BUDGET_TOP_K = 1_000  # the same where a budget of tokens says how many
HIT_TOKENS_MIN = 4  # of a memory, in the mean: "Ada likes tea." has four
SPARE = 8  # ranked beside those that are wanted: some say what others say
DIVERSE_POOL_MAX = 1_000  # each is compared with all that were chosen before it
PIECES_A_WORD: Final = (1.6, 2.6)
"""From where a text counts as foreign in part, and from where as a whole. 19 of 20 English
questions are below the first; moving both by 0.3 changes no set by more than 0.004."""
PIECES_A_WORD_READ: Final = 1.25
UNKNOWN_SHARE_READ: Final = 0.25
"""Beyond either, token states say less about a query than the vector of another model: also where
so many are of a script without blanks. 19 of 20 English questions are within, 1 of 30 Spanish."""
UNKNOWN_SHARE: Final = (0.1, 0.4)
_CHARACTERS_MAX: Final = 2_000
# Scripts that do not part words: each character is as good as a word.
_UNPARTED: Final = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]")
_WORD: Final = re.compile(r"\w+")


_FULL_STOPS: Final = (".", "!", "。", "！", "…")  # noqa: RUF001 - they are meant
_EARLIER: Final = (
    r"used to|did (?:\w+ ){1,3}use to|previous(?:ly)?|former(?:ly)?|originally"
    "|in the past|back then|no longer|history of"
)
_OF_EARLIER: Final = re.compile(rf"\b(?:{_EARLIER})\b", re.IGNORECASE)
_BEFORE: Final = re.compile(r"\b(?:before|earlier)\b", re.IGNORECASE)
_DOES: Final = re.compile(r"\b(?:am|is|are|do|does|can|should|will|would|must)\b", re.IGNORECASE)
_PAST: Final = re.compile(
    rf"\b(?:{_EARLIER}|before|earlier|history|did|was|were|had|when|first|ago"
    r"|antes|früher|damals|avant|vorher)\b",
    re.IGNORECASE,
)
_PRESENT: Final = re.compile(
    r"\b(?:now|still|currently|today|these days|at the moment|at present|jetzt|derzeit|momentan"
    r"|aktuell|ahora|actualmente|maintenant|actuellement)\b|现在|目前",
    re.IGNORECASE,
)
_REPLIES: Final = re.compile(
    r"\b(?:did|have|had) you\b(?! know)"
    r"|\byou(?:'ve| have| had)? (?:just |also )?(?:said|told|suggested|recommended|mentioned|gave"
    r"|given|listed|wrote|written|proposed|advised|explained|described|provided|shared|promised)\b"
    r"|\b(?:the assistant|your (?:answer|reply|suggestion|recommendation|advice)s?)\b"
    r"|\bhast du\b|\bhaben sie (?:mir|uns)\b",
    re.IGNORECASE,
)
_QUESTIONS: Final = re.compile(
    r"\b(?:did|have|had) i (?:\w+ )?(?:asked|ask|wanted to know|want to know)"
    r"(?: (?:you|about|if|whether|how|what|when|where|who|why)\b|\s*\?)"
    r"|\bwh(?:at|ich) (?:was|were) my (?:\w+ )?questions?\b"
    r"|\bhabe ich (?:dich |sie )?(?:\w+ ){0,4}gefragt\b",
    re.IGNORECASE,
)


def asks_of_past(text: str) -> bool:
    """Say whether a query asks for what holds no longer: "used to", "previously".

    "Do I eat before a run?" asks about the present.
    """
    before = _BEFORE.search(text)
    said = before is not None and _DOES.search(text, 0, before.start()) is None
    return said or _OF_EARLIER.search(text) is not None


def is_about_now(text: str) -> bool:
    """Say whether a query names the present: "now", "currently"."""
    return bool(_PRESENT.search(text))


def is_about_past(text: str) -> bool:
    """Say whether a query asks how things were or what happened, not how things are."""
    return bool(_PAST.search(text)) and not is_about_now(text)


def asked_until_us(text: str, asked_us: int, times_us: Iterable[int]) -> int | None:
    """Return the end of the last time that a query names, in the years of memories, if any."""
    spans = named_spans(text, asked_us, lambda: {to_datetime(us).year for us in times_us})
    return spans[-1].end_us if spans else None


def asks_for_replies(text: str) -> bool:
    """Say whether a query asks what an assistant has said."""
    return bool(_REPLIES.search(text))


def asks_for_questions(text: str) -> bool:
    """Say whether a query asks what the user has asked."""
    return bool(_QUESTIONS.search(text))


class Query(NamedTuple):
    """A checked request."""

    text: str
    kinds: Sequence[Kind]
    top_k: int
    now_us: int
    filters: FilterPart | None = None
    """Of metadata."""
    since_us: int | None = None
    """The start of the time a memory was true; half-open with `until_us`."""
    until_us: int | None = None
    as_of_us: int | None = None
    """Finds only memories recorded up to this moment, and relationships that were true at it."""
    session_id: str | None = None
    """The session whose messages are searched; by default the three that were used last."""
    exclude_ids: frozenset[str] = frozenset()
    exclude_session: str | None = None
    min_score: float = 0.0
    token_budget: int | None = None
    """Tokens that the results may take together; there are no more than `top_k` of them."""
    counter: TokenCounter = CalibratedEstimate()
    diversity: float = 0.0
    """The loss of a result that is like a better one, 0 to 1."""
    explain: bool = False
    weights: Weights = Weights()
    reference_us: int | None = None
    """The time that "last week" is relative to; None is now."""
    compressed: bool = True
    """True if summaries of compressed memories are wanted beside the others."""
    of_origin: Wanted | None = None
    """Says by its origins whether a memory may be found; None: all may."""
    agent_id: str | None = None
    """The agent that wrote the memories that may be found; None: any, or none."""
    each_kind: bool = False
    """True if the best of each kind is wanted, however good those of the others are."""
    order: Order = "score"
    folds: bool = True
    """True if memories that say the same are one hit."""
    pool: int = 0
    """The number of memories of a kind that are ranked; 0: as many as may be needed, most often."""

    @property
    def asked_us(self) -> int:
        """The time that "last week" is relative to."""
        return self.now_us if self.reference_us is None else self.reference_us

    @property
    def is_question(self) -> bool:
        """True if it asks: with a question mark, or without a full stop, as key words do."""
        marks = any(mark in self.text for mark in QUESTION_MARKS)
        return marks or not self.text.rstrip().endswith(_FULL_STOPS)

    @property
    def is_narrow(self) -> bool:
        """True if it may find some memories of its kinds only, not all."""
        spans = self.since_us, self.until_us, self.as_of_us
        others = self.filters, self.of_origin, self.agent_id, self.exclude_session
        return bool(self.exclude_ids) or any(one is not None for one in (*spans, *others))

    @property
    def wanted(self) -> int:
        """The number of results that are wanted, at most."""
        if self.token_budget is None:
            return self.top_k
        return min(self.top_k, 1 + self.token_budget // HIT_TOKENS_MIN)

    @property
    def pool_at_first(self) -> int:
        """The number of memories that results are chosen from, unless too many say the same."""
        many = self.wanted + (SPARE if self.folds else 0)
        return min(max(4 * many, 50), max(DIVERSE_POOL_MAX, many)) if self.diversity else many


def foreign_share(
    text: str, token_ids: npt.NDArray[np.uint16], unknown_token_id: int | None
) -> float:
    """Return how foreign a text is to the model that made these tokens of it, 0 to 1."""
    pieces_a_word, unknown = _parted(text, token_ids, unknown_token_id)
    return max(_ramp(pieces_a_word, *PIECES_A_WORD), _ramp(unknown, *UNKNOWN_SHARE))


def is_read(text: str, token_ids: npt.NDArray[np.uint16], unknown_token_id: int | None) -> bool:
    """Say whether the states of these tokens say more of a text than another model's vector."""
    pieces_a_word, unknown = _parted(text, token_ids, unknown_token_id)
    if len(_UNPARTED.findall(text)) > UNKNOWN_SHARE_READ * len(token_ids):
        return False
    return pieces_a_word <= PIECES_A_WORD_READ and unknown <= UNKNOWN_SHARE_READ


def _parted(
    text: str, token_ids: npt.NDArray[np.uint16], unknown_token_id: int | None
) -> tuple[float, float]:
    """Return the number of tokens per word of a text, and the share of unknown tokens."""
    if not len(token_ids) or len(text) > _CHARACTERS_MAX:
        return 1.0, 0.0
    word_count = len(_WORD.findall(_UNPARTED.sub(" x ", text)))
    unknown = 0.0 if unknown_token_id is None else float(np.mean(token_ids == unknown_token_id))
    return len(token_ids) / max(word_count, 1), unknown


def _ramp(value: float, start: float, end: float) -> float:
    return min(max((value - start) / (end - start), 0.0), 1.0)


# --- the rows that a query may find: exact, and before anything is ranked
#
# Metadata is asked through the index of its fields, memory by memory; times are columns. The result
# is one array of rows, so that a narrow query costs less than a wide one.

Flags = npt.NDArray[np.bool_]
Rows = npt.NDArray[np.intp]
Test = Callable[[Row], bool]
ASKED_AT_ONCE = 500  # memories, before the loop gets its turn: a millisecond


async def narrowed(
    index: MemoryIndex, query: Query, provenance: Provenance
) -> tuple[Parts, Rows | None]:
    """Return the current parts of an index, and the rows in it that a query may find.

    Rows of None are all rows. Rows that have gone may be among them.
    """
    if not query.is_narrow:
        return index.parts, None
    passing = await _matching(index, query)
    parts = index.parts
    owners = parts.traits.owners
    passing = np.pad(passing, (0, len(owners) - len(passing)))
    if query.of_origin is not None:
        wanted = np.full(len(owners), query.of_origin(()), np.bool_)
        for memory_id, origins in provenance.origins.items():
            if (number := owners.find(memory_id)) is not None:
                wanted[number] = query.of_origin(origins)
        passing &= wanted
    if query.agent_id is not None:
        wrote = (
            owners.find(one) for one, who in provenance.agents.items() if who == query.agent_id
        )
        mine = [number for number in wrote if number is not None]
        passing &= np.bincount(mine, minlength=len(owners)).astype(np.bool_)
    return parts, _rows(parts, passing, query)


async def _matching(index: MemoryIndex, query: Query) -> Flags:
    """Mark the memories whose metadata match a query's filters, by number."""
    filters, fields = query.filters, index.fields
    if filters is None:
        return np.ones(len(index.traits.owners), np.bool_)
    for _ in fields.prepared(filters):
        await asyncio.sleep(0)
    found = fields.matching(filters)
    if found is not None:
        return found
    matching = list[bool]()
    while len(matching) < fields.count():
        for number in range(len(matching), min(len(matching) + ASKED_AT_ONCE, fields.count())):
            metadata = fields.read(number)
            matching.append(metadata is not None and filters.test(metadata))
        await asyncio.sleep(0)
    return np.array(matching, np.bool_)


def _rows(parts: Parts, passing: Flags, query: Query) -> Rows | None:
    """Return the rows of these memories that a query may find by their times and sessions.

    None stands for all.
    """
    traits, columns = parts.traits, parts.traits.view(parts.size)
    tests = [passing[columns.owners]]
    if query.since_us is not None:
        tests.append(columns.last_us >= query.since_us)
    if query.until_us is not None:
        tests.append(columns.occurred_us < query.until_us)
    if query.as_of_us is not None:
        tests.append((columns.begins_us <= query.as_of_us) & (query.as_of_us < columns.ends_us))
    excluded = [
        number for one in query.exclude_ids if (number := traits.owners.find(one)) is not None
    ]
    if excluded:
        tests.append(~np.isin(columns.owners, excluded))
    named = query.exclude_session
    session = None if named is None else traits.number_of(named)
    if session is not None:
        tests.append(columns.chains != session)
    kept = np.logical_and.reduce(tests)
    return None if kept.all() else np.flatnonzero(kept)


def row_test(query: Query, provenance: Provenance) -> Test:
    """Return the query's conditions as a test of single rows of a state.

    For the few rows of an index in memory; and a graph proposes others, too, and rows may have
    changed meanwhile.
    """

    def passes(row: Row) -> bool:
        session_id = getattr(row, "session_id", None)
        return (
            row.memory_id not in query.exclude_ids
            and (query.exclude_session is None or session_id != query.exclude_session)
            and (query.filters is None or query.filters.test(row.shown_metadata))
            and (query.of_origin is None or query.of_origin(provenance.of(row.memory_id)))
            and (query.agent_id is None or provenance.agents.get(row.memory_id) == query.agent_id)
            and (not timed or in_time(row))
        )

    def in_time(row: Row) -> bool:
        occurred, begins, ends, last = times(row)
        return (
            (query.since_us is None or last >= query.since_us)
            and (query.until_us is None or occurred < query.until_us)
            and (query.as_of_us is None or begins <= query.as_of_us < ends)
        )

    timed = (query.since_us, query.until_us, query.as_of_us) != (None, None, None)
    return passes if query.is_narrow else lambda _row: True
