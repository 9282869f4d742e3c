"""How much each signal of the ranking counts, as callers say it."""

from collections.abc import Mapping
from typing import Final

import msgspec

from memory_actors.base.errors import InvalidInputError

WEIGHT_MAX: Final = 1_000_000  # beyond it float32 has no digits left for the other signals


class Weights(msgspec.Struct, frozen=True, kw_only=True):
    """How much each signal counts, as a multiple of its learned weight: 0 switches it off."""

    late: float = 1.0
    words: float = 1.0
    meaning: float = 1.0
    date: float = 1.0
    speaker: float = 1.0
    asks: float = 1.0
    echo: float = 1.0
    reply: float = 1.0
    next_turn: float = 1.0
    bare: float = 1.0


SIGNALS: Final = Weights.__struct_fields__


def check_weights(weights: object) -> Weights:
    """Return weights.

    :raises InvalidInputError: they are not `Weights`, or one is no number of a size that counts.
    """
    if not isinstance(weights, Weights):
        raise InvalidInputError(f"weights must be Weights(late=…), not {type(weights).__name__}")
    for name in SIGNALS:
        value = getattr(weights, name)
        if not isinstance(value, int | float) or not -WEIGHT_MAX <= value <= WEIGHT_MAX:
            raise InvalidInputError(
                f"the weight {name} must be a number from -{WEIGHT_MAX:,} to {WEIGHT_MAX:,}"
            )
    return weights


def weights_of(given: Mapping[str, object]) -> Weights:
    """Return weights from those that are given by the names of their signals; any size will do.

    :raises InvalidInputError: there is no signal of a name, or a weight is no number.
    """
    if unknown := given.keys() - set(SIGNALS):
        raise InvalidInputError(
            f"unknown weight {min(unknown)!r:.80}: use some of {', '.join(SIGNALS)}"
        )
    try:
        return msgspec.convert(given, Weights)
    except msgspec.ValidationError as error:
        raise InvalidInputError(f"a weight must be a number: {error}") from error
