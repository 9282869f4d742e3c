"""The chance that a passage answers a question, from its score."""

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.float32]


class Chance(NamedTuple):
    """The chance that a passage answers, by logistic regression; what each thing adds to its logit.

    Fitted on all development sets of `python -m bench recall`, each of the same weight, and on
    questions that nothing in the store answers, a quarter as many. The score counts, and how far it
    is behind the best one: where something fits well, little else answers. Fitted without a set, it
    is off by 0.02 in the mean on the results of that set and all others (its expected calibration
    error); in a store that is all about one thing more answers than it says.
    """

    constant: float = -0.96
    score: float = 1.63
    score_of_turns: float = 1.02
    behind: float = -10.2
    turns: float = -2.86
    foreign: float = -0.12

    def at(self, scores: Numbers, best: float, turns: float, foreign: float) -> Numbers:
        """Return the chance of scores, beside the best one of all kinds."""
        logits = (
            self.constant
            + (self.score + self.score_of_turns * turns) * scores
            + self.behind * np.maximum(best - scores, 0)
            + self.turns * turns
            + self.foreign * foreign
        )
        return np.asarray(1 / (1 + np.exp(-logits)), np.float32)


CHANCE: Final = Chance()
