"""The settings and parts that a store is opened with, so that two processes can compare theirs.

Functions and objects cannot be compared across processes; their types can. A choice that was not
made is not there, and agrees with all.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from memory_actors.base.errors import InvalidInputError
from memory_actors.base.settings import Settings

Choices = dict[str, str]


def described(parts: Mapping[str, Any]) -> Choices:
    """Return the choices that were made, each as a text that says what it is.

    None and False are none; `reindex` is about this opening alone.
    """
    said = {
        name: _settings(value) if isinstance(value, Settings) else _said(value)
        for name, value in parts.items()
        if value is not None and value is not False and name != "reindex"
    }
    return {name: text for name, text in said.items() if text}


def _settings(settings: Settings) -> str:
    fields = {
        name: getattr(settings, name)
        for name in Settings.__struct_fields__
        if getattr(settings, name) != getattr(Settings(), name)
    }
    return ", ".join(f"{name}={_said(value)}" for name, value in fields.items())


def _said(value: Any) -> str:
    """Say what a value is, without what differs from process to process."""
    if isinstance(value, str | int | float | bool | None):
        return repr(value)
    try:
        plain = msgspec.to_builtins(value, order="sorted", str_keys=True)
        return msgspec.json.encode(plain, order="sorted").decode()
    except (TypeError, ValueError):
        kind = value if hasattr(value, "__qualname__") else type(value)
        return f"{kind.__module__}.{kind.__qualname__}"


def check(ours: Choices, owners: Choices, pid: int) -> None:
    """Refuse choices that the owner of a store has not made.

    :raises InvalidInputError: there is one.
    """
    other = [name for name, said in ours.items() if owners.get(name) != said]
    if other:
        raise InvalidInputError(
            f"process {pid} has the store open with another {' and another '.join(other)}: leave "
            "that out here, or give the same there; or close it there, and open it with share=False"
        )
