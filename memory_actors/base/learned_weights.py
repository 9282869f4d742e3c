"""Learned numbers of the ranking: written by `python -m bench learn`; see weights.py."""

from typing import Final

# fmt: off
LEARNED: Final = (
    # late, session, words, own_words, meaning, date, speaker, asks, echo, reply, next_turn, bare
    (4.384, 3.313, 6.851, -2.373, 1.718, 3.124, 0.783, -1.513, -3.491, -0.19, 0.311, -2.4),  # any
    (1.118, -4.203, -2.87, -1.48, 3.047, -0.855, 0.0, -0.458, -2.954, -1.304, 3.178, 0.0),  # chat
    (1.459, 2.177, 3.162, -1.454, -0.255, 1.863, 0.783, -1.707, -0.54, 0.0, 0.038, 0.0),  # people
    (1.817, -0.383, -1.807, 5.179, -0.574, -0.484, -0.444, 2.094, -1.974, 0.278, 2.031, 0.0),  # long
    (0.395, 2.771, 0.474, -2.602, 4.006, 2.851, 0.0, 0.0, 0.0, 0.0, 2.243, 0.0),  # facts
    (0.186, -0.544, -5.728, -3.341, 1.224, 0.681, 0.029, -0.341, -0.101, -0.202, -0.357, 0.0),  # few
    (-0.741, -0.889, 5.026, 2.565, -3.025, -0.065, 0.0, -1.845, -0.636, -1.332, -2.214, 0.0),  # foreign
    (-1.364, -0.636, -2.284, -2.906, 3.668, -1.51, 0.0, 0.744, -0.135, 0.0, -0.2, 0.0),  # statement
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
