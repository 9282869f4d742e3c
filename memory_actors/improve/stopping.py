"""When a run ends.

Without `stop` a run ends by itself: when the critic finds nothing, when the reviser leaves the text
as it was, when the best score is `patience` rounds old, and after `max_iterations` revisions. A
number is a target score beside these. A function decides alone, but for `max_iterations`.
"""

from collections.abc import Callable
from inspect import iscoroutinefunction
from typing import TypeAlias

from memory_actors.base.errors import InvalidInputError
from memory_actors.base.validation import check_share
from memory_actors.improve.records import State, StoppedBecause

Stop: TypeAlias = Callable[[State], bool] | float | None


class Ends:
    """Says after each critique and each revision whether a run is over.

    :raises InvalidInputError: a target that is no score, a function that is async, or a patience
        that is not positive.
    """

    def __init__(self, stop: Stop, patience: int, max_iterations: int):
        if not isinstance(patience, int) or isinstance(patience, bool) or patience < 1:
            raise InvalidInputError(f"patience must be a whole number from 1, not {patience!r:.80}")
        if callable(stop) and _is_async(stop):
            raise InvalidInputError("stop must be a plain function: nobody awaits its answer")
        self._asked = stop if callable(stop) else None
        self._target = None if stop is None or callable(stop) else check_share(stop, "stop")
        self._patience = patience
        self._max_iterations = max_iterations

    def after_critique(self, state: State) -> StoppedBecause | None:
        """Return why a run is over; None: it goes on."""
        if self._asked is not None:
            because: StoppedBecause | None = "stop" if self._asked(state) else None
        else:
            because = self._by_itself(state)
        if because is None and state.round > self._max_iterations:
            return "max_iterations"
        return because

    def _by_itself(self, state: State) -> StoppedBecause | None:
        if state.critique.found_nothing:
            return "nothing_found"
        if self._target is not None and state.score >= self._target:
            return "target_reached"
        return "no_rise" if state.round - state.best_round >= self._patience else None

    def after_revision(self, *, changed: bool) -> StoppedBecause | None:
        """Return why a run is over; None: it goes on."""
        return "unchanged" if not changed and self._asked is None else None


def _is_async(function: Callable[..., object]) -> bool:
    """Tell whether the answer of a function, or of an object that is called, is to be awaited."""
    return iscoroutinefunction(function) or iscoroutinefunction(type(function).__call__)
