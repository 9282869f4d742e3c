"""Every read, kept at some moments, is what a replay of them answers, whatever came since."""

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test
from support.replay_machine import ReplayMachine


def test_the_past_answers_as_it_did() -> None:
    run_state_machine_as_test(  # type: ignore[no-untyped-call]
        ReplayMachine,
        settings=settings(max_examples=4, stateful_step_count=25, deadline=None),
    )


@pytest.mark.slow
@pytest.mark.timeout(3_600)
def test_the_past_answers_as_it_did_for_long() -> None:
    run_state_machine_as_test(  # type: ignore[no-untyped-call]
        ReplayMachine,
        settings=settings(
            max_examples=200, stateful_step_count=60, deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )  # fmt: skip
