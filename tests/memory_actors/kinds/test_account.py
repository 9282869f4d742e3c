"""A user's tier and alerts: thresholds are passed once, and again only after a real fall."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.given import recorded

from memory_actors.base.quota import Limits
from memory_actors.base.records import QuotaUse, Tier
from memory_actors.kinds import account
from memory_actors.kinds.account import AlertChanged, SetTier, TierSet


def levels(*percents: float) -> list[tuple[str | None, bool]]:
    """Return (level, raised) of each change as use goes through these percents."""
    state, seen = account.PART.initial, []
    for percent in percents:
        use = QuotaUse("memories", "count", round(percent * 10), 1_000)
        changed = account.alerts(state, "long_term", [use])
        seen += [(event.level, event.raised) for event in changed]
        state = account.PART.fold(state, map(recorded, changed))
    return seen


@pytest.mark.parametrize(
    ("percents", "expected"),
    [
        ((10, 79.9), []),
        ((80,), [("warning", True)]),
        ((80, 85, 94.9), [("warning", True)]),
        ((95,), [("critical", True)]),
        ((80, 95), [("warning", True), ("critical", True)]),
        ((80, 79, 80, 76, 80), [("warning", True)]),
        ((80, 74.9, 80), [("warning", True), (None, False), ("warning", True)]),
        ((95, 91, 95), [("critical", True)]),
        ((95, 89, 95), [("critical", True), ("warning", False), ("critical", True)]),
        ((95, 10), [("critical", True), (None, False)]),
        ((150,), [("critical", True)]),
    ],
)
def test_an_alert_is_raised_once_for_each_crossing(percents, expected) -> None:
    assert levels(*percents) == expected


def test_the_percent_of_a_quota_is_no_whole_number() -> None:
    assert QuotaUse("memories", "count", 1, 3).percent == pytest.approx(33.333333)
    assert QuotaUse("memories", "count", 9_996, 10_000).percent == pytest.approx(99.96)


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


def test_an_evicting_bound_raises_no_alert() -> None:
    """A bound that evicts raises no alert, and takes back the one it had raised."""
    full = QuotaUse("messages", "count", 100, 100, evicts=True)
    assert account.alerts(account.PART.initial, "short_term", [full]) == []
    raised = AlertChanged(
        quota="short_term.messages", level="critical", was=None, used=95, limit=100, unit="count"
    )  # as an earlier version did
    state = account.PART.fold(account.PART.initial, [recorded(raised)])
    (back,) = account.alerts(state, "short_term", [full])
    assert (back.level, back.raised) == (None, False)


def test_setting_the_same_tier_again_is_satisfied() -> None:
    command = SetTier(now_us=1, tier=Tier.FREE)
    events = account.decide(command, account.PART.initial, Limits())
    assert events == [TierSet(tier="free")]
    state = account.PART.fold(account.PART.initial, map(recorded, events))
    assert account.decide(command, state, Limits()) == []


def test_a_dump_loads_back_to_the_same_state() -> None:
    alert = AlertChanged(quota="x.y", level="warning", was=None, used=8, limit=10, unit="count")
    state = account.PART.fold(account.PART.initial, map(recorded, [TierSet(tier="free"), alert]))
    assert account.PART.load(account.PART.dump(state)) == state
    assert state.levels == {"x.y": "warning"}
