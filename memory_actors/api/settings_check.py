"""The rules of all settings, checked once, before anything is opened.

A wrong one would otherwise show where it is used: with files on disk already, in a task that dies
in silence, or as a limit that refuses, or deletes, what nobody meant. So every field of `Settings`
has its rule in `RULES`, and what several must be together follows below.
"""

import sys
from collections.abc import Callable, Mapping, Set
from math import inf
from typing import Any, get_args

from memory_actors.base.errors import InvalidInputError
from memory_actors.base.quota import SET_BY_TIER, GlobalLimits, Limits, Plan, Prices
from memory_actors.base.records import MemoryType, OnDuplicate, Tier
from memory_actors.base.settings import Settings
from memory_actors.base.tokens import ESTIMATES
from memory_actors.base.validation import check_choice
from memory_actors.compaction.schedule import check_expression

Rule = Callable[[str, Any], None]
"""Raises InvalidInputError for the value of the setting of this name, if it is not what it must."""

FINITE = sys.float_info.max
DEADLINE_S_MIN = 0.001
LATENCY_MS_MIN = 0.001
CACHE_TEXTS_MIN = 1_000  # what is added at once is embedded, and then written to disk from there
RECALL_MODES = ("hashed", "plain")
DAYS_MAX = 100_000  # 270 years: arithmetic with times holds it, and nobody means more


def check(settings: Settings) -> None:
    """Refuse settings that are not what they must be.

    :raises InvalidInputError: one is not; the message names it.
    """
    for name in settings.__struct_fields__:
        RULES[name](name, getattr(settings, name))
    _not_above(settings, "context_soft_tokens", "context_hard_tokens")
    _not_above(settings, "memory_soft_bytes", "memory_hard_bytes")
    _not_above(settings, "compaction_min_samples", "compaction_batch")


def _not_above(settings: Settings, name: str, other: str) -> None:
    low, high = getattr(settings, name), getattr(settings, other)
    if low is not None and high is not None and low > high:
        raise InvalidInputError(
            f"{name} is {low:,}, more than {other}, {high:,}: lower the one or raise the other"
        )


# --- rules


def _whole(least: int) -> Rule:
    def rule(name: str, value: Any) -> None:
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            raise InvalidInputError(f"{name} must be a whole number from {least}, not {_of(value)}")

    return rule


def _number(least: float, most: float = FINITE) -> Rule:
    """Return a rule for a number; `inf` is one only where `most` is."""
    upto = f" to {most:,}" if most < FINITE else ""

    def rule(name: str, value: Any) -> None:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if is_number and value > FINITE:  # of whole numbers, those that no float holds
            is_number = value == inf
        if not is_number or not least <= value <= most:
            raise InvalidInputError(
                f"{name} must be a number from {least:g}{upto}, not {_of(value)}"
            )

    return rule


def _or_none(rule: Rule) -> Rule:
    return lambda name, value: None if value is None else rule(name, value)


def _is(kind: type, said: str) -> Rule:
    def rule(name: str, value: Any) -> None:
        if not isinstance(value, kind):
            raise InvalidInputError(f"{name} must be {said}, not {_of(value)}")

    return rule


def _each(kind: type, rule: Rule) -> Rule:
    """Return a rule for a struct whose numbers all keep to one."""
    is_kind = _is(kind, f"{kind.__name__}(...)")

    def all_(name: str, value: Any) -> None:
        is_kind(name, value)
        for field in value.__struct_fields__:
            if field not in SET_BY_TIER:
                rule(f"{field} of {name}", getattr(value, field))

    return all_


def _by_tier(rule: Rule) -> Rule:
    def each(name: str, value: Any) -> None:
        _is(Mapping, "a mapping by tier")(name, value)
        for tier, one in value.items():
            _tier(f"a tier of {name}", tier)
            rule(f"{name}[{tier!s}]", one)

    return each


def _by_kind(rule: Rule) -> Rule:
    def each(name: str, value: Any) -> None:
        _is(Mapping, "a mapping by kind of memory")(name, value)
        for kind, one in value.items():
            if kind not in list(MemoryType):
                known = ", ".join(MemoryType)
                raise InvalidInputError(f"a kind of {name} must be one of {known}, not {_of(kind)}")
            rule(f"{name}[{kind!s}]", one)

    return each


def _tier(name: str, value: Any) -> None:
    if value not in list(Tier):
        raise InvalidInputError(f"{name} must be one of {', '.join(Tier)}, not {_of(value)}")


def _plan(name: str, value: Any) -> None:
    _is(Plan, "a Plan(...)")(name, value)
    _each(Limits, _whole(0))(f"limits of {name}", value.limits)
    _number(0)(f"price_usd of {name}", value.price_usd)


def _relations(name: str, value: Any) -> None:
    if not isinstance(value, Set) or not all(isinstance(one, str) for one in value):
        raise InvalidInputError(f"{name} must be a set of names of relations, not {_of(value)}")


def _counter(name: str, value: Any) -> None:
    known = value in ESTIMATES if isinstance(value, str) else hasattr(value, "count")
    if not known or not callable(value.count):
        raise InvalidInputError(
            f"{name} must be {', '.join(ESTIMATES)} or a TokenCounter, not {_of(value)}: "
            "TokenizerCounter(), or any object with name and count(text)"
        )


def _age(name: str, value: Any) -> None:
    (_by_tier(_days) if isinstance(value, Mapping) else _days)(name, value)


def _distance(name: str, value: Any) -> None:
    _number(0)(name, value)
    if not 0 < value < 1:
        raise InvalidInputError(f"{name} must be between 0 and 1: 0.3 is the default")


def _cron(name: str, value: Any) -> None:
    _is(str, "a cron expression")(name, value)
    check_expression(value)


def _mode(name: str, value: Any) -> None:
    if value not in (None, *RECALL_MODES):
        raise InvalidInputError(f"{name} must be None, hashed or plain, not {_of(value)}")


def _duplicates(name: str, value: Any) -> None:
    check_choice(value, get_args(OnDuplicate), name)


def _of(value: Any) -> str:
    return f"{value!r:.40}"


_flag = _is(bool, "True or False")
_deadline = _number(DEADLINE_S_MIN, inf)
_days = _number(0, DAYS_MAX)

RULES: Mapping[str, Rule] = {
    "tiers": _by_tier(_plan),
    "default_tier": _tier,
    "global_limits": _each(GlobalLimits, _whole(0)),
    "exclusive_relations": _relations,
    "prices": _each(Prices, _number(0)),
    "context_soft_tokens": _whole(1),
    "context_hard_tokens": _whole(1),
    "token_counter": _counter,
    "live_bytes_max": _whole(0),
    "memory_soft_bytes": _or_none(_whole(1)),
    "memory_hard_bytes": _or_none(_whole(1)),
    "idle_s": _number(0, inf),
    "on_duplicate": _duplicates,
    "deadline_s": _deadline,
    "embedder_deadline_s": _deadline,
    "embedding_cache_texts": _whole(CACHE_TEXTS_MIN),
    "latency_targets_ms": _by_kind(_number(LATENCY_MS_MIN, inf)),
    "shutdown_s": _number(0, inf),
    "log_bytes_max": _whole(1),
    "checked_bytes_max": _whole(0),
    "compaction_after_days": _age,
    "compaction_episodes": _flag,
    "compaction_eps": _distance,
    "compaction_min_samples": _whole(2),
    "compaction_batch": _whole(2),
    "compaction_schedule": _or_none(_cron),
    "summarizer_deadline_s": _number(DEADLINE_S_MIN),
    "archive_retention_days": _or_none(_days),
    "recall_audit": _mode,
    "recall_audit_days": _days,
    "check_replay": _flag,
}
"""By the name of the setting: every one has a rule."""
