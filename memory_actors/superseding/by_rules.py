"""The default: rules about the form of facts, no model. See `rules`."""

from collections.abc import Sequence
from typing import Final

from memory_actors.superseding.protocol import Statement, Verdict
from memory_actors.superseding.rules import evidence, read

SIMILARITY_MIN: Final = 0.1
"""Of claims that name the same attribute: "I am dating Lukas" and "I am seeing Amir" have 0.16."""
WEAK_SIMILARITY_MIN: Final = 0.45
"""Of what is meant only by being near: a Pixel 6 and "switched to an iPhone" have 0.57."""


class ByRules:
    """Compares the forms of two facts."""

    def concerns(self, text: str) -> bool:
        """Say whether a text is a fact of a form that may change another one."""
        return read(text).says_anything

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
