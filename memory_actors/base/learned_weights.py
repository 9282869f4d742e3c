"""Learned numbers of the ranking: written by `python -m bench learn`; see weights.py."""

from typing import Final

# fmt: off
LEARNED: Final = (
    # late, session, words, own_words, meaning, date, speaker, asks, echo, reply, next_turn, bare
    # any
    (4.38, 3.31, 6.85, -2.37, 1.72, 3.12, 0.78, -1.51, -3.49, -0.19, 0.31, -4.40),
    # chat
    (1.12, -4.20, -2.87, -1.48, 3.05, -0.85, 0.00, -0.46, -2.95, -1.30, 3.18, 0.00),
    # people
    (1.46, 2.18, 3.16, -1.45, -0.26, 1.86, 0.78, -1.71, -0.54, 0.00, 0.04, 0.00),
    # long
    (1.82, -0.38, -1.81, 5.18, -0.57, -0.48, -0.44, 2.09, -1.97, 0.28, 2.03, 0.00),
    # facts
    (0.40, 2.77, 0.47, -2.60, 4.01, 2.85, 0.00, 0.00, 0.00, 0.00, 2.24, 0.00),
    # few
    (0.19, -0.54, -5.73, -3.34, 1.22, 0.68, 0.03, -0.34, -0.10, -0.20, -0.36, 0.00),
    # foreign
    (-0.74, -0.89, 5.03, 2.56, -3.02, -0.07, 0.00, -1.84, -0.64, -1.33, -2.21, 0.00),
    # statement
    (-1.36, -0.64, -2.28, -2.91, 3.67, -1.51, -0.00, 0.74, -0.14, 0.00, -0.20, 0.00),
)
"""The weight of each signal: of any store first, then what each kind of a `Mixture` adds."""
CHANCE: Final = (
    (-8.0, 0.8),  # any
    (0.0, 0.0),  # chat
    (0.0, 0.0),  # people
    (0.0, 0.0),  # long
    (0.0, 0.0),  # facts
    (0.0, 0.0),  # few
    (0.0, 0.0),  # foreign
    (0.0, 0.0),  # statement
)
"""Constant and slope of the logit that a passage answers, by its score."""
ANSWERED: Final = (
    (-5.0, 1.0, 1.0, 1.0, 1.0, 1.0),  # any
    (0.0, 0.0, 0.0, 0.0, 0.0, 0.0),  # chat
    (0.0, 0.0, 0.0, 0.0, 0.0, 0.0),  # people
    (0.0, 0.0, 0.0, 0.0, 0.0, 0.0),  # long
    (0.0, 0.0, 0.0, 0.0, 0.0, 0.0),  # facts
    (0.0, 0.0, 0.0, 0.0, 0.0, 0.0),  # few
    (0.0, 0.0, 0.0, 0.0, 0.0, 0.0),  # foreign
    (0.0, 0.0, 0.0, 0.0, 0.0, 0.0),  # statement
)
"""Constant and weights of the logit that anything answers: see `ranking.answer_signals`."""
# fmt: on
