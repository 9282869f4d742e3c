"""A count of the steps that the examples of a state machine took."""

from typing import Any

from hypothesis.stateful import invariant


def counted(machine: type[Any]) -> type[Any]:
    """Return a machine that counts its examples and, from below, the steps of all of them."""

    class Counted(machine):
        examples = 0
        checks = 0

        def __init__(self) -> None:
            type(self).examples += 1
            super().__init__()

        @invariant()
        def a_step_was_taken(self) -> None:
            type(self).checks += 1  # once before the first step, too

        @classmethod
        def steps(cls) -> int:
            return cls.checks - cls.examples

    return Counted
