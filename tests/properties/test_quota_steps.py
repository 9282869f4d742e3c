"""Ten thousand steps of each stateful property test of memory and its quotas.

    pytest -m slow tests/properties/test_quota_steps.py --hypothesis-seed=1 -s

The machines are those of the short runs; nothing is kept of a run, so a seed repeats it.
"""

import time

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test
from properties.test_kinds import EntityMachine, EpisodicMachine, StructuredMachine
from properties.test_user_decider import UserMachine
from support.counting import counted
from support.system_machine import SystemMachine

STEPS = 10_000
EXAMPLE_STEPS = 50
EXAMPLES = 2 * STEPS // EXAMPLE_STEPS  # many end early: their draws are at a limit of Hypothesis
MACHINES = {
    UserMachine: EXAMPLES,
    SystemMachine: EXAMPLES * 5 // 8,  # few end early, and they take the longest
    EntityMachine: EXAMPLES,
    EpisodicMachine: EXAMPLES,
    StructuredMachine: EXAMPLES,
}


@pytest.mark.slow
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: machine.__name__)
def test_ten_thousand_steps_are_clean(machine: type[RuleBasedStateMachine]) -> None:
    started_s, it = time.perf_counter(), counted(machine)
    many = settings(
        max_examples=MACHINES[machine],
        stateful_step_count=EXAMPLE_STEPS,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(it, settings=many)
    seconds = time.perf_counter() - started_s
    print(f"{machine.__name__}: {it.steps():,} steps, {it.examples} examples, {seconds:.0f} s")
    assert it.steps() >= STEPS
