"""The owners' tests pass, those that are quick; the rest runs by `scripts/contracts`."""

import pytest

from suites.declared import Suite, suites
from suites.obtaining import NotObtainedError
from suites.running import run


@pytest.mark.parametrize("suite", [one for one in suites().values() if one.quick], ids=str)
def test_the_owners_tests_pass(suite: Suite) -> None:
    try:
        result = run(suite, quick=True)
    except NotObtainedError as error:
        pytest.skip(f"{suite.sdist} cannot be had: {error}")
    assert result.problems == []
    assert result.passed == result.run > 0


@pytest.mark.parametrize("suite", suites().values(), ids=str)
def test_what_is_quick_is_a_part(suite: Suite) -> None:
    assert set(suite.quick) <= set(suite.files)
