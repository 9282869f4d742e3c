"""The owners' tests pass; `scripts/contracts` runs them, too. They install packages for minutes."""

import pytest

from suites.declared import Suite, suites
from suites.obtaining import NotObtainedError
from suites.running import RUN_S_MAX, run


@pytest.mark.slow
@pytest.mark.timeout(RUN_S_MAX)
@pytest.mark.parametrize("suite", suites().values(), ids=str)
def test_the_owners_tests_pass(suite: Suite) -> None:
    try:
        result = run(suite)
    except NotObtainedError as error:
        pytest.skip(f"{suite.sdist} cannot be had: {error}")
    assert result.problems == []
    assert result.passed == result.run > 0
