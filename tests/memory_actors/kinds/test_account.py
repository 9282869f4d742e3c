"""A user's tier and alerts: thresholds are passed once, and again only after a real fall."""

from hypothesis import given
from hypothesis import strategies as st
from support.given import recorded

from memory_actors.base.records import QuotaUse
from memory_actors.kinds import account


@given(st.lists(st.floats(0, 120), max_size=40))
def test_two_warnings_never_come_without_a_fall_of_five_points(percents: list[float]) -> None:
    percents = [round(percent, 1) for percent in percents]
    state, low = account.PART.initial, 0.0
    for percent in percents:
        use = QuotaUse("memories", "count", round(percent * 10), 1_000)
        low = min(low, percent)
        for event in account.alerts(state, "long_term", [use]):
            if event.raised:
                threshold = {"warning": 80, "critical": 95}[event.level or ""]
                assert percent >= threshold
                assert low < threshold - 5 or event.was is None or event.level != event.was
                low = percent
            state = account.PART.fold(state, [recorded(event)])


def test_a_limit_of_nothing_is_full_when_there_is_anything() -> None:
    assert account.alerts(account.PART.initial, "working", [QuotaUse("keys", "count", 0, 0)]) == []
    (alert,) = account.alerts(account.PART.initial, "working", [QuotaUse("keys", "count", 1, 0)])
    assert alert.level == "critical"
