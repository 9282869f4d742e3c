"""The default: rules about the form of facts, no model. See `rules`."""

from collections.abc import Sequence
from typing import Final

from memory_actors.search.superseding.needed import needed
from memory_actors.search.superseding.protocol import NEAR_MAX, Reach, Statement, Verdict
from memory_actors.search.superseding.rules import evidence, read

UNNAMED_MAX: Final = 4
"""Facts that one without a known attribute is compared with: what it changes is nearly the same."""
SIMILARITY_MIN: Final = 0.1
"""Of claims that name the same attribute: "I am dating Lukas" and "I am seeing Amir" have 0.16."""
UNNAMED_SIMILARITY_MIN: Final = 0.45
"""Of a fact without a known attribute: it is nearly the same as what it changes."""
WEAK_SIMILARITY_MIN: Final = 0.45
"""Of what is meant only by being near: a Pixel 6 and "switched to an iPhone" have 0.57."""


class ByRules:
    """Compares the forms of two facts."""

    def reach(self, text: str) -> Reach:
        """Return which facts near a text are worth a look, by what can be read of it."""
        said = read(text)
        if not said.says_anything:
            return Reach(0)
        words = needed(said.clauses, said.claims)
        if said.claims:
            return Reach(NEAR_MAX, words, SIMILARITY_MIN)
        return Reach(UNNAMED_MAX, words, UNNAMED_SIMILARITY_MIN)

    async def superseded(self, newer: Statement, older: Sequence[Statement]) -> Sequence[Verdict]:
        """Return which of the older ones, nearest first, the newer one says otherwise than."""
        said = read(newer.text)
        verdicts: list[Verdict] = []
        for one in older:
            found = evidence(read(one.text), said)
            if found is None or one.similarity < SIMILARITY_MIN:
                continue
            if found.weak and (verdicts or one.similarity < WEAK_SIMILARITY_MIN):
                continue
            verdicts.append(Verdict(one.memory_id, found.form))
        return verdicts
