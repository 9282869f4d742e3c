"""A user's tier and alerts: thresholds are passed once, and again only after a real fall."""

from memory_actors import QuotaUse
from memory_actors.kinds import account


def test_a_limit_of_nothing_is_full_when_there_is_anything() -> None:
    assert account.alerts(account.PART.initial, "working", [QuotaUse("keys", "count", 0, 0)]) == []
    (alert,) = account.alerts(account.PART.initial, "working", [QuotaUse("keys", "count", 1, 0)])
    assert alert.level == "critical"
