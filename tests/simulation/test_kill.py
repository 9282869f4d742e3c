"""kill -9 at random moments: a few rounds here, hundreds with `python -m bench faults`."""

import pytest

from bench.kill import KillReport, run
from bench.kill_child import Beside
from bench.kill_closed import Closed
from bench.kill_closed import run as run_closed


def harm(report: KillReport) -> tuple[int, int, int]:
    return report.lost, report.damaged_logs, report.diverged_states


@pytest.mark.timeout(300)
def test_nothing_acknowledged_is_lost_to_kill_9() -> None:
    report = run(rounds=4, seed=7)
    assert report.acknowledged > 100
    assert harm(report) == (0, 0, 0)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("beside", ["compacting", "episodes"])
def test_nothing_is_lost_when_it_dies_compacting(beside: Beside) -> None:
    report = run(rounds=2, seed=11, beside=beside)
    assert report.acknowledged > 20
    assert report.compressed > 0
    assert harm(report) == (0, 0, 0)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("beside", ["keeping", "encrypting", "erasing", "purging"])
def test_nothing_is_lost_when_it_dies_keeping_a_store(beside: Beside) -> None:
    """Nor is anything left of who was erased."""
    report = run(rounds=1, seed=13, beside=beside)
    assert report.acknowledged > 20
    assert harm(report) == (0, 0, 0)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("during", ["repairing", "restoring"])
def test_work_on_a_closed_store_is_all_or_nothing(during: Closed) -> None:
    """Work on a closed store is done or not when it dies."""
    assert harm(run_closed(during, rounds=1, seed=17)) == (0, 0, 0)
