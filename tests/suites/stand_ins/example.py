"""The shortest stand-in: of `thing.store`, for the tests of the runner."""

from suites.stand_ins import replace


class Store:
    """Ours, in the place of theirs."""

    maker = "ours"


def install() -> None:
    """Put it there."""
    replace("thing")
    replace("thing.store", Store=Store)
