"""Origins: the sources of what a memory says, in the log and as callers give them.

A write carries the origin of its words in the meta of its events, beside who asked. Restored
memories and summaries name their origins in their own events, because a caller who restores or
creates one is not its source.

Origins are bounded: beyond `ORIGINS_MAX` they become one, which any source may be a part of. So
they may name a source too many, but never too few; the log knows it exactly.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import cache, lru_cache
from typing import TypeAlias

import msgspec

from eventlog.core.records import AnyRecorded, decode_meta
from memory_actors.base.errors import InvalidInputError
from memory_actors.base.records import LEVELS, UNSAID, Origin, Trust, least
from memory_actors.base.validation import check_member, check_names, check_optional_name

ORIGINS_MAX = 64  # of one memory: an entity that many web pages tell of has as many
ORIGINS_BYTES_MAX = 2_000  # as meta, which ends at 4096 bytes
MANY = "*"
"""The source of those that were too many to be named."""

Origins: TypeAlias = tuple[Origin, ...]
Wanted: TypeAlias = Callable[[Origins], bool]
"""Says whether memories of some origins may be found."""


def meta_of(origins: Origins) -> dict[str, str]:
    """Return origins as they stand in the meta of an event."""
    if not origins or origins == (UNSAID,):
        return {}
    if len(origins) == 1:
        (one,) = origins
        named = {} if one.source is None else {"source": one.source}
        return {**named, "trust": one.trust.value}
    packed = msgspec.json.encode(origins)
    if len(packed) > ORIGINS_BYTES_MAX:
        packed = msgspec.json.encode((_many(origins),))
    return {"origins": packed.decode()}


def origins_of(recorded: AnyRecorded) -> Origins:
    """Return the origins of an event's words; () if nobody said."""
    event = recorded.data
    if _names_origins(event.__class__) and event.origins:
        given: Origins = event.origins
        return given
    raw = recorded.raw_meta
    return _in_meta(raw) if raw and b"trust" in raw else ()


@cache  # asking an event for a field that it has not takes three times as long
def _names_origins(event_type: type) -> bool:
    return hasattr(event_type, "origins")


decoded = lru_cache(maxsize=4096)(decode_meta)
"""Return the meta of an event, not to be changed: one caller makes many events."""


@lru_cache(maxsize=4096)  # one source says many things: its origin is one object
def _in_meta(raw: bytes) -> Origins:
    meta = decode_meta(raw)
    if "origins" in meta:
        return msgspec.json.decode(meta["origins"], type=Origins)
    return (Origin(meta.get("source"), Trust(meta["trust"])),) if "trust" in meta else ()


def merged(origins: Iterable[Origin]) -> Origins:
    """Return each origin once; one that stands for all if they are too many."""
    found = tuple(dict.fromkeys(origins))
    return found if len(found) <= ORIGINS_MAX else (_many(found),)


def _many(origins: Origins) -> Origin:
    return Origin(MANY, least(origins))


def matches(one: Origin, source: str | None, trust: Trust | None) -> bool:
    """Say whether an origin is one of a source, and of a trust; None is any.

    Words of which nobody said where they come from are of no source, not of one of unknown trust:
    they have no origin, unless they are told of beside others that have.
    """
    if one == UNSAID:
        return False
    of_source = source is None or one.source in (source, MANY)
    return of_source and (trust is None or one.trust == trust or one.source == MANY)


# --- as callers give them


def origin(source: str | None, trust: Trust | str | None) -> Origins:
    """Return the origins from a source and its trust: () if neither is given.

    :raises InvalidInputError: a source that is empty, over 512 bytes, or `*`; an unknown trust.
    """
    named = check_optional_name(source, "source")
    if named == MANY:
        raise InvalidInputError(f"{MANY!r} stands for any source: name one")
    checked = Trust.UNKNOWN if trust is None else check_member(Trust, trust, "trust")
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
    """Return the test that a read's sources and least trust make; or None if all may be found.

    All sources of a memory have to be among `sources`; a memory without any is not.

    :raises InvalidInputError: one of them is not what it must be.
    """
    among = None if sources is None else check_names(sources, "sources")
    level = None if min_trust is None else LEVELS.index(check_member(Trust, min_trust, "trust"))
    if among is None and not level:
        return None

    def passes(origins: Origins) -> bool:
        named = among is None or (bool(origins) and all(one.source in among for one in origins))
        return named and (level is None or LEVELS.index(least(origins)) >= level)

    return passes
