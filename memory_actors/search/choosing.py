"""Which of many to choose, so that what is chosen is good and not all alike (MMR)."""

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.float32]
ALIKE = 0.8  # cosine of two texts about the same thing, most often; more is no more alike
_LEAST_SPREAD = 1e-6


def diverse(scores: Numbers, vectors: Numbers, diversity: float, count: int) -> list[int]:
    """Choose one place after another, by its score less its likeness to those chosen before it.

    `vectors` are of length 1, one a row. Scores and likenesses are both brought to [0, 1] over what
    there is to choose from: as they are, the scores of one query lie close together, and the
    vectors of short texts, too. So with a diversity of one half, what is as like a chosen one as
    can be gives way to whatever is like none.
    """
    if not len(scores):
        return []
    scores = _spread(scores, float(scores.min()), float(scores.max()))
    least = float((vectors @ vectors[int(np.argmax(scores))]).min())
    likeness = np.zeros(len(scores), np.float32)
    left = np.ones(len(scores), np.bool_)
    chosen: list[int] = []
    while left.any() and len(chosen) < count:
        gain = np.where(left, (1 - diversity) * scores - diversity * likeness, -np.inf)
        place = int(np.argmax(gain))
        left[place] = False
        chosen.append(place)
        alike = _spread(vectors @ vectors[place], least, ALIKE)
        likeness = np.maximum(likeness, alike * alike)  # to be a little alike costs little
    return chosen


def _spread(numbers: Numbers, least: float, most: float) -> Numbers:
    """Return numbers brought to [0, 1]: `least` and less to 0, `most` to 1."""
    spread = (numbers - least) / max(most - least, _LEAST_SPREAD)
    return np.asarray(np.clip(spread, 0, 1), np.float32)
