"""What may be set about compaction: a wrong number would compress, or drop, what nobody meant."""

from collections.abc import Mapping
from math import isfinite
from typing import Any

from memory_actors.compaction.schedule import check_expression
from memory_actors.errors import InvalidInputError
from memory_actors.settings import Settings


def check_options(settings: Settings) -> None:
    """Refuse settings of compaction that are not what they must be.

    :raises InvalidInputError: one is not; the message names it.
    """
    days = settings.compaction_after_days
    for each in days.values() if isinstance(days, Mapping) else (days,):
        _number("compaction_after_days", each, least=0)
    if settings.archive_retention_days is not None:
        _number("archive_retention_days", settings.archive_retention_days, least=0)
    _number("summarizer_deadline_s", settings.summarizer_deadline_s, least=0.001)
    _number("compaction_min_samples", settings.compaction_min_samples, least=2)
    _number("compaction_batch", settings.compaction_batch, settings.compaction_min_samples)
    if not isinstance(settings.compaction_episodes, bool):
        raise InvalidInputError("compaction_episodes must be True or False")
    if not 0 < _number("compaction_eps", settings.compaction_eps, least=0) < 1:
        raise InvalidInputError("compaction_eps must be between 0 and 1: 0.3 is the default")
    if settings.compaction_schedule is not None:
        check_expression(settings.compaction_schedule)


def _number(name: str, value: Any, least: float) -> float:
    if not isinstance(value, int | float) or not isfinite(value) or value < least:
        raise InvalidInputError(f"{name} must be a number from {least:g}, not {value!r:.40}")
    return value
