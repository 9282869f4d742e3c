"""The check of all settings, once, before anything is opened.

A wrong one would otherwise show where it is used: with files on disk already, in a task that dies
in silence, or as a limit that refuses, or deletes, what nobody meant. The types of the fields say
what is allowed; what no type says follows below.
"""

from collections.abc import Callable, Mapping
from enum import Enum
from functools import cache
from typing import Annotated, Any, Final, Literal, get_args, get_origin

import msgspec
from msgspec import Meta

from memory_actors.base.errors import InvalidInputError
from memory_actors.base.records import MemoryType
from memory_actors.base.redaction import Redactor
from memory_actors.base.settings import Settings
from memory_actors.base.tokens import ESTIMATES
from memory_actors.compaction.schedule import check_expression

_fields = cache(msgspec.structs.fields)  # they take a millisecond
ORDERED: Final = (
    ("context_soft_tokens", "context_hard_tokens"),
    ("memory_soft_bytes", "memory_hard_bytes"),
    ("compaction_min_samples", "compaction_batch"),
)
"""Settings of which the first is not above the second."""
_TARGETS: Final = Mapping[MemoryType, Annotated[float, Meta(ge=0.001)]]
_WORDS: Final[Mapping[str, str]] = {
    "Expected": "it must be",
    "`int`": "a whole number",
    "`float`": "a number",
    "`str`": "a text",
    "`bool`": "True or False",
    "`object`": "a mapping",
    "`array`": "a set",
    "`null`": "None",
    "`": "",
}
"""The words of msgspec in plain ones."""


def check(settings: Settings) -> None:
    """Refuse settings that are not what they must be.

    :raises InvalidInputError: one is not; the message names it.
    """
    _check_fields(settings, "")
    for name, other in ORDERED:
        low, high = getattr(settings, name), getattr(settings, other)
        if low is not None and high is not None and low > high:
            raise InvalidInputError(
                f"{name} is {low:,}, more than {other}, {high:,}: lower the one or raise the other"
            )


def _check_fields(struct: msgspec.Struct, whose: str) -> None:
    """Hold the fields of a struct, and of the structs in them, to their types."""
    for field in _fields(type(struct)):
        name, value = f"{whose}{field.name}", getattr(struct, field.name)
        if field.name in _OTHERWISE:
            _OTHERWISE[field.name](value)
            continue
        if isinstance(field.default, msgspec.Struct):
            _check_struct(name, value, type(field.default))
            continue
        meant = _convert(name, value, field.type)
        if isinstance(meant, tuple):
            meant, value = dict(enumerate(meant)), dict(enumerate(value))
        if isinstance(meant, Mapping):
            for key, one in meant.items():
                if isinstance(one, msgspec.Struct):
                    _check_struct(f"{name}[{key!s}]", value[key], type(one))


def _check_struct(name: str, value: object, kind: type[msgspec.Struct]) -> None:
    if not isinstance(value, kind):
        raise InvalidInputError(f"{name} must be {kind.__name__}(...), not {value!r:.40}")
    _check_fields(value, f"{name}.")


def _convert(name: str, value: object, kind: object) -> object:
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        said, _, _ = str(error).partition(" - at ")
        for word, plain in _WORDS.items():
            said = said.replace(word, plain)
        if "enum" in said:
            said = f"use one of {', '.join(_choices(kind))}"
        raise InvalidInputError(f"{name} is {value!r:.40}: {said}") from error


def _choices(kind: object) -> list[str]:
    if isinstance(kind, type) and issubclass(kind, Enum):
        return [member.value for member in kind]
    if get_origin(kind) is Literal:
        return list(get_args(kind))
    return [choice for part in get_args(kind) for choice in _choices(part)]


def _check_counter(value: Any) -> None:
    known = value in ESTIMATES if isinstance(value, str) else hasattr(value, "count")
    if not known or not callable(value.count):
        raise InvalidInputError(
            f"token_counter must be {', '.join(ESTIMATES)} or a TokenCounter, not {value!r:.40}: "
            "TokenizerCounter(), or any object with name and count(text)"
        )


def _check_schedule(value: object) -> None:
    if isinstance(value, str):
        check_expression(value)
    elif value is not None:
        raise InvalidInputError(f"compaction_schedule must be a cron expression, not {value!r:.40}")


_OTHERWISE: Mapping[str, Callable[[Any], object]] = {
    "token_counter": _check_counter,
    "compaction_schedule": _check_schedule,
    "latency_targets_ms": lambda value: _convert("latency_targets_ms", value, _TARGETS),
    "redact": lambda value: value is None or Redactor(value),
}
"""Checks of settings whose types do not say enough."""
