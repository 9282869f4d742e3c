"""Sources and trust as callers give them, and which memories a read of them wants."""

from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

from memory_actors.base.errors import InvalidInputError
from memory_actors.base.origins import MANY, Origins, merged
from memory_actors.base.records import LEVELS, UNSAID, Origin, Trust, least
from memory_actors.base.validation import check_name, check_optional_name

Wanted: TypeAlias = Callable[[Origins], bool]
"""Says whether memories of some origins may be found."""


def check_trust(value: Trust | str) -> Trust:
    """Return a trust from itself or its string.

    :raises InvalidInputError: there is no such trust.
    """
    try:
        return Trust(value)
    except ValueError as error:
        known = ", ".join(Trust)
        raise InvalidInputError(f"unknown trust {value!r:.80}: use one of {known}") from error


def check_optional_trust(value: Trust | str | None) -> Trust | None:
    """Return a trust, or None for None."""
    return None if value is None else check_trust(value)


def origin(source: str | None, trust: Trust | str | None) -> Origins:
    """Return what a source and its trust make: () if neither is given.

    :raises InvalidInputError: a source that is empty, over 512 bytes, or `*`; an unknown trust.
    """
    named = check_optional_name(source, "source")
    if named == MANY:
        raise InvalidInputError(f"{MANY!r} stands for any source: name one")
    checked = Trust.UNKNOWN if trust is None else check_trust(trust)
    one = Origin(named, checked)
    return () if one == UNSAID else (one,)


def checked(origins: Iterable[Origin]) -> Origins:
    """Return origins as another store has them.

    :raises InvalidInputError: a source that is empty, or over 512 bytes.
    """
    for one in origins:
        check_optional_name(one.source, "source")
    return merged(origins)


def wanted(sources: Sequence[str] | None, min_trust: Trust | str | None) -> Wanted | None:
    """Return the test that a read's sources and least trust make; None if all may be found.

    Of sources all that were named have to be among these; a memory without any is not.

    :raises InvalidInputError: one of them is not what it must be.
    """
    if sources is not None and (isinstance(sources, str) or not isinstance(sources, Sequence)):
        raise InvalidInputError("sources must be a list of names")
    among = None if sources is None else {check_name(one, "source") for one in sources}
    level = None if min_trust is None else LEVELS.index(check_trust(min_trust))
    if among is None and not level:
        return None

    def passes(origins: Origins) -> bool:
        named = among is None or (bool(origins) and all(one.source in among for one in origins))
        return named and (level is None or LEVELS.index(least(origins)) >= level)

    return passes
