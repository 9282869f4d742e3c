"""Properties of the limits over all users: stored and claimed amounts never exceed them."""

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_actors import GlobalLimits, GlobalQuotaExceededError
from memory_actors.users.totals import Totals

NAMES = ("long_term.size_bytes", "entity.count", "entity.relationships")
AMOUNTS = st.integers(-6, 6)
CHANGES = st.fixed_dictionaries({}, optional=dict.fromkeys((*NAMES, "working.count"), AMOUNTS))
STEPS = st.lists(st.tuples(st.sampled_from(["claim", "claim", "commit", "fail"]), CHANGES))


class Counted:
    """The totals of a log."""

    def __init__(self) -> None:
        self.held: Counter[str] = Counter()

    def totals_nowait(self) -> dict[str, int]:
        return dict(self.held)


FEW = st.tuples(*[st.integers(0, 15)] * 3)


@given(limits=FEW, held=FEW, steps=STEPS)
def test_a_claim_is_refused_exactly_where_it_would_pass_a_limit(
    limits: tuple[int, ...], held: tuple[int, ...], steps: list[tuple[str, dict[str, int]]]
) -> None:
    """Above a limit that was lowered, only what asks for more of it is refused."""
    log: Any = Counted()
    log.held.update(dict(zip(NAMES, held, strict=True)))
    fields = dict(zip(("long_term_bytes", "entities", "relationships"), limits, strict=True))
    totals, caps = Totals(log, GlobalLimits(**fields)), dict(zip(NAMES, limits, strict=True))
    assert totals.caps() == caps
    claims: list[dict[str, int]] = []
    for does, changes in steps:
        if does == "claim":
            used = {
                name: log.held[name] + sum(max(0, one.get(name, 0)) for one in claims)
                for name in NAMES
            }
            more = {name: changes.get(name, 0) for name in NAMES}
            over = [name for name in NAMES if more[name] > max(0, caps[name] - used[name])]
            if over:
                with pytest.raises(GlobalQuotaExceededError) as refusal:
                    totals.claim(changes)
                told = (refusal.value.kind, refusal.value.used, refusal.value.limit)
                assert told == (over[0].partition(".")[0], used[over[0]], caps[over[0]])
                assert ("never fit" in str(refusal.value)) == (more[over[0]] > caps[over[0]])
            else:
                totals.claim(changes)
                claims.append(changes)
        elif claims:
            if does == "commit":
                log.held.update(claims[0])
            totals.release(claims.pop(0))
        assert [(one.used, one.limit) for one in totals.quotas()] == [
            (log.held[name], caps[name]) for name in NAMES
        ]
