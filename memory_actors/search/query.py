"""One query: all that is asked of retrieval, and how foreign its text is to the model.

A tokenizer cuts what its model knows into few pieces: English words are 1.1 to 1.6 pieces each with
MiniLM, Spanish ones 2, Russian ones 5 and more, and of Chinese two thirds are unknown tokens. A
state or a vector of such pieces says little, so there a text's own words should decide.
"""

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from memory_actors.base.filters import FilterPart
from memory_actors.base.origins import Wanted
from memory_actors.base.records import Order
from memory_actors.base.weights import Weights
from memory_actors.kinds.kind import Kind

TOP_K = 5  # results, unless somebody says how many
BUDGET_TOP_K = 1_000  # the same where a budget of tokens says how many
HIT_TOKENS_MIN = 4  # of a memory, in the mean: "Ada likes tea." has four
SPARE = 8  # ranked beside those that are wanted: some say what others say
DIVERSE_POOL_MAX = 1_000  # each is compared with all that were chosen before it
PIECES_A_WORD: Final = (1.6, 2.6)
"""From where a text counts as foreign in part, and from where as a whole. 19 of 20 English
questions are below the first; moving both by 0.3 changes no set by more than 0.004."""
UNKNOWN_SHARE: Final = (0.1, 0.4)
_CHARACTERS_MAX: Final = 2_000
# Scripts that do not part words: each character is as good as a word.
_UNPARTED: Final = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]")
_WORD: Final = re.compile(r"\w+")


class Query(NamedTuple):
    """A checked request."""

    text: str
    kinds: Sequence[Kind]
    top_k: int
    now_us: int
    filters: FilterPart | None = None
    """Of metadata."""
    since_us: int | None = None
    """Of the time a memory was true; half-open with `until_us`."""
    until_us: int | None = None
    as_of_us: int | None = None
    """Only what was recorded by then, and relationships that were true at it."""
    session_id: str | None = None
    """The session whose messages are asked; None means the three sessions that were used last."""
    exclude_ids: frozenset[str] = frozenset()
    exclude_session: str | None = None
    min_score: float = 0.0
    token_budget: int | None = None
    """Tokens that the results may take together; there are no more than `top_k` of them."""
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
    if not len(token_ids) or len(text) > _CHARACTERS_MAX:
        return 0.0
    word_count = len(_WORD.findall(_UNPARTED.sub(" x ", text)))
    unknown = 0.0 if unknown_token_id is None else float(np.mean(token_ids == unknown_token_id))
    pieces_a_word = len(token_ids) / max(word_count, 1)
    return max(_ramp(pieces_a_word, *PIECES_A_WORD), _ramp(unknown, *UNKNOWN_SHARE))


def _ramp(value: float, start: float, end: float) -> float:
    return min(max((value - start) / (end - start), 0.0), 1.0)
