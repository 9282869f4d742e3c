"""Learned numbers of the ranking, by `python -m bench learn`: see mixtures.py."""

from typing import Final

# fmt: off
# late, words, meaning, date, speaker, asks, echo, reply, next_turn, bare
LEARNED: Final = (
    # any
    (4.80, 3.54, 3.55, 3.57, 1.43, -2.27, -10.12, -2.24, 5.50, -8.00),
    # chat
    (-1.15, -1.73, 2.59, -1.53, 1.00, 2.35, -2.79, -0.60, 1.18, 0.00),
    # people
    (6.39, 5.23, -1.99, 1.92, -0.63, 0.51, 0.01, -0.66, -2.57, 0.00),
    # notes
    (-0.16, -1.70, -1.46, 2.05, 0.00, 2.29, -0.66, 0.49, 4.79, 0.00),
    # documents
    (2.31, 3.85, -1.37, -2.76, 1.06, -4.24, -5.67, 1.11, -3.09, 0.00),
    # facts
    (-3.19, -2.10, 5.79, 3.89, 0.00, -3.18, -1.02, -2.58, -0.12, 0.00),
    # few
    (-0.57, -0.36, -0.04, -0.56, 0.17, -1.91, -1.73, 1.07, -0.17, 0.00),
    # foreign
    (-3.99, 10.29, -1.61, 0.00, 0.00, -2.74, -0.91, -2.10, -2.30, 0.00),
    # statement
    (-3.12, -5.53, 0.03, -0.25, 1.28, -0.03, -1.33, 0.07, 4.17, 0.00),
)
"""The weight of each signal in any store, then what each genre adds."""
# constant, slope
CHANCE: Final = (
    # any
    (-4.69, 0.34),
    # chat
    (-0.37, 0.05),
    # people
    (-1.41, 0.06),
    # notes
    (-0.05, -0.04),
    # documents
    (-4.37, 0.48),
    # facts
    (1.51, -0.21),
    # few
    (1.05, 0.35),
    # foreign
    (2.25, -0.29),
    # statement
    (1.80, -0.23),
)
"""Constant and slope of the logit that a passage answers."""
# constant, score, gap, late, words, meaning
ANSWERED: Final = (
    # any
    (-4.92, 0.27, 0.02, 2.14, -0.00, 4.21),
    # chat
    (-2.16, 0.20, 0.07, 0.22, 1.83, 0.45),
    # people
    (-4.65, 0.36, -0.04, 1.04, -2.08, 1.89),
    # notes
    (0.21, -0.17, 0.02, 1.41, 0.96, 0.17),
    # documents
    (-0.27, 0.02, -0.09, -0.11, -0.82, 1.68),
    # facts
    (1.96, -0.15, 0.07, -0.43, 0.10, 0.02),
    # few
    (2.23, -0.04, -0.02, -0.24, -2.03, -1.54),
    # foreign
    (-0.13, -0.05, 0.01, 0.72, -0.52, 0.92),
    # statement
    (2.26, -0.16, 0.19, -0.63, 1.60, -1.42),
)
"""Weights of `ranking.answer_signals` for the logit that anything answers."""
# fmt: on
