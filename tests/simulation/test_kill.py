"""kill -9 at random moments: ten rounds here, hundreds with `python -m bench kill`."""

import pytest

from bench.kill import run


@pytest.mark.timeout(300)
def test_nothing_acknowledged_is_lost_to_kill_9() -> None:
    report = run(rounds=10, seed=7)
    assert report.acknowledged > 500
    assert (report.lost, report.damaged_logs, report.diverged_states) == (0, 0, 0)


@pytest.mark.timeout(300)
def test_nothing_is_lost_when_it_dies_compacting() -> None:
    report = run(rounds=6, seed=11, beside="compacting")
    assert report.acknowledged > 200
    assert report.compressed > 10
    assert (report.lost, report.damaged_logs, report.diverged_states) == (0, 0, 0)


@pytest.mark.timeout(300)
def test_nothing_is_lost_when_it_dies_backing_up_or_erasing_others() -> None:
    report = run(rounds=5, seed=13, beside="keeping")
    assert report.acknowledged > 200
    assert (report.lost, report.damaged_logs, report.diverged_states) == (0, 0, 0)


@pytest.mark.timeout(300)
def test_nothing_is_lost_when_it_dies_making_or_deleting_keys() -> None:
    report = run(rounds=5, seed=17, beside="encrypting")
    assert report.acknowledged > 200
    assert (report.lost, report.damaged_logs, report.diverged_states) == (0, 0, 0)
