"""The fast half of the fault matrix: each row with small counts, by `python -m bench faults`.

Kills have tests of their own beside this one, the model in `tests/properties`.
"""

import pytest

from bench.faults import ROWS, run
from bench.faults.commands import COMMANDS, ELSEWHERE, PRIVATE
from memory_actors.api.operations import OPERATIONS

SEED = 7
WITH_TESTS_OF_THEIR_OWN = {"kills", "model"}
MARKS = {
    **dict.fromkeys(("formats", "surroundings"), pytest.mark.user),
    # Ten seconds or more each with their smallest counts, and other tests touch what they prove.
    **dict.fromkeys(("erasing", "models", "server", "strangers"), pytest.mark.slow),
}
NAMES = [
    pytest.param(name, marks=MARKS.get(name, ()))
    for name in sorted(set(ROWS) - WITH_TESTS_OF_THEIR_OWN)
]


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", NAMES)
def test_a_row_of_the_matrix_holds(name: str) -> None:
    (row,) = run([name], "quick", SEED)
    if row.skipped:
        pytest.skip(row.skipped)

    assert row.failures == []
    assert row.tried == row.survived > 0


def test_every_operation_is_among_those_that_are_cancelled() -> None:
    """One that needs arguments and has none in bench/faults/commands.py cannot even be imported."""
    called = {name.split(" ")[0] for name in COMMANDS.keys() - PRIVATE.keys()}
    assert called | ELSEWHERE == OPERATIONS.keys()
