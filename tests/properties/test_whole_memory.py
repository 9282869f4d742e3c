"""Model = live = replay, over everything a memory system does.

    pytest -m slow tests/properties/test_whole_memory.py --hypothesis-seed=1 -s

takes 100,000 steps; a seed repeats its run. `python -m bench faults --rows model` does so, too.
"""

import pytest
from hypothesis import HealthCheck, settings
from support.whole_machine import WholeMachine, many_steps

STEPS = 100_000

TestWholeMemory = WholeMachine.TestCase
TestWholeMemory.settings = settings(
    max_examples=4,
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)


@pytest.mark.slow
@pytest.mark.timeout(4 * 3_600)
def test_a_hundred_thousand_steps_are_clean(request: pytest.FixtureRequest) -> None:
    seed = request.config.getoption("--hypothesis-seed")
    steps = examples = 0
    for more, of_examples in many_steps(STEPS, seed=int(seed or 0)):
        steps, examples = steps + more, examples + of_examples

    print(f"{steps:,} steps, {examples:,} examples, seed {seed or 0}")
    assert steps >= STEPS
