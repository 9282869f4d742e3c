"""Checks of input, made once, before anything is done with it."""

import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, date, datetime
from enum import StrEnum
from typing import Any, TypeVar
from urllib.parse import urlsplit

import msgspec

from eventlog.core.records import TIME_US_MAX, TIME_US_MIN, to_us
from memory_actors.base.errors import InvalidInputError
from memory_actors.base.records import IS_COMPRESSED, Time

T = TypeVar("T")
E = TypeVar("E", bound=StrEnum)

CONTENT_BYTES_MAX = 256 * 1024  # a memory, not a book: it fits one event and one prompt
LONG_BYTES_MAX = 15 << 20  # a fact or a document: one event of 16 MiB, beside its metadata
METADATA_BYTES_MAX = 16 * 1024  # held in memory for filtering, so small
NAME_BYTES_MAX = 512  # user, session, agent, key, memory id
QUERY_BYTES_MAX = 64 * 1024
JSON_DEPTH_MAX = 32
JSON_INT_MAX = 1 << 63
MAKER_CHARACTERS_MAX = 100
TOP_K_MAX = 10_000
TTL_S_MAX = 100 * 365 * 86_400.0  # a time that is later than any is not needed


def text_bytes(value: object, what: str, bytes_max: int) -> int:
    """Return the length in UTF-8 of a text that is not blank.

    :raises InvalidInputError: it is not one, or longer than `bytes_max`.
    """
    if not isinstance(value, str):
        raise InvalidInputError(f"{what} must be a string, not {type(value).__name__}")
    if not value.strip():
        raise InvalidInputError(f"{what} is empty: give it some text")
    try:
        size = len(value.encode())
    except UnicodeEncodeError as error:
        raise InvalidInputError(f"{what} is not valid Unicode: {error.reason}") from error
    if size > bytes_max:
        raise InvalidInputError(f"{what} takes {size:,} bytes (max: {bytes_max:,}): shorten it")
    return size


def content_bytes(content: object, bytes_max: int = CONTENT_BYTES_MAX) -> int:
    """Return the length in UTF-8 of a memory's content. See `text_bytes`."""
    return text_bytes(content, "content", bytes_max)


def plain(text: str) -> str:
    """Return a text as an exact `str`: one of a subclass would be another after a replay."""
    return str.__str__(text)


def check_text(value: object, what: str) -> str:
    """Return a text of any length, which may be empty.

    :raises InvalidInputError: it is no string, or not Unicode.
    """
    if not isinstance(value, str):
        raise InvalidInputError(f"{what} must be a string, not {type(value).__name__}")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise InvalidInputError(f"{what} is not valid Unicode: {error.reason}") from error
    return plain(value)


def check_name(value: object, what: str) -> str:
    """Return a name of something (user, session, key, id).

    :raises InvalidInputError: it is not a string of 1 to 512 bytes.
    """
    text_bytes(value, what, NAME_BYTES_MAX)
    assert isinstance(value, str)
    return plain(value)


def check_ttl(value: object) -> float:
    """Return a time to live in seconds; infinity means for ever.

    :raises InvalidInputError: it is no number above 0.
    """
    if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
        raise InvalidInputError(f"ttl_s must be a number of seconds above 0, not {value!r:.80}")
    return math.inf if value == math.inf else float(min(value, TTL_S_MAX))


def check_maker(name: object, maker: str) -> str:
    """Return the name of an extractor or a summariser.

    :raises InvalidInputError: it cannot stand in an event.
    """
    if not (isinstance(name, str) and 0 < len(name) <= MAKER_CHARACTERS_MAX and name.isprintable()):
        raise InvalidInputError(
            f"{maker} needs a name of 1 to {MAKER_CHARACTERS_MAX} printable characters"
        )
    return name


def check_names(values: object, what: str) -> tuple[str, ...]:
    """Return the names of some things, each once.

    :raises InvalidInputError: they are no list, or one is no name.
    """
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise InvalidInputError(f"{what} must be a list, not {values!r:.80}")
    return tuple(dict.fromkeys(check_name(one, f"one of {what}") for one in values))


SUBJECTS = ("person:", "agent:", "key:")
SCOPES_MAX = 16  # that one search asks: each is made live for it


def check_subject(value: object) -> str:
    """Return a subject of grants, such as "person:ada"; a name alone is a person's.

    :raises InvalidInputError: it is no name, or none behind the colon.
    """
    text_bytes(value, "subject", len(SUBJECTS[0]) + NAME_BYTES_MAX)
    assert isinstance(value, str)
    named = plain(value)
    if named in SUBJECTS:
        raise InvalidInputError(f"{named!r} names nobody: write for example '{named}ada'")
    return named if named.startswith(SUBJECTS) else f"{SUBJECTS[0]}{named}"


def check_subjects(value: object) -> tuple[str, ...]:
    """Return the subjects from one, from several, or from None.

    :raises InvalidInputError: one is none.
    """
    given = () if value is None else (value,) if isinstance(value, str) else value
    if not isinstance(given, Sequence):
        raise InvalidInputError(f"by must be a subject, or a list of some, not {value!r:.80}")
    return tuple(map(check_subject, given))


def check_scopes(values: Sequence[str]) -> tuple[str, ...]:
    """Return the names of scopes, each once.

    :raises InvalidInputError: one is no name, or there are too many.
    """
    names = tuple(dict.fromkeys(check_name(one, "scope") for one in values))
    if len(names) > SCOPES_MAX:
        raise InvalidInputError(f"a search asks at most {SCOPES_MAX} scopes, not {len(names)}")
    return names


def check_optional_name(value: object, what: str) -> str | None:
    """Return a name, or None for None."""
    return None if value is None else check_name(value, what)


def check_member(of: type[E], value: str, what: str) -> E:
    """Return a member of an enumeration from itself or its string.

    :raises InvalidInputError: there is no such member.
    """
    try:
        return of(value)
    except ValueError as error:
        known = ", ".join(of)
        raise InvalidInputError(f"unknown {what} {value!r:.80}: use one of {known}") from error


def metadata_copy(metadata: object) -> dict[str, object]:
    """Return a deep copy of metadata; `{}` for None.

    :raises InvalidInputError: it is not a JSON object, or over 16 KB.
    """
    if metadata is None:
        return {}
    if not isinstance(metadata, Mapping):
        raise InvalidInputError(f"metadata must be a dict, not {type(metadata).__name__}")
    copy = json_copy(metadata, "metadata")
    size = len(msgspec.json.encode(copy))
    if size > METADATA_BYTES_MAX:
        raise InvalidInputError(
            f"metadata takes {size:,} bytes (max: {METADATA_BYTES_MAX:,}): keep less of it there"
        )
    assert isinstance(copy, dict)
    return copy


def own_metadata(metadata: object, *, shown: bool = False) -> dict[str, object]:
    """Return the caller's own part of metadata.

    `shown` says that reading has added to it that the content is stored compressed: it is removed,
    so that a caller can write back metadata that was read.

    :raises InvalidInputError: it is not a JSON object, or over 16 KB, or says otherwise of that.
    """
    copy = metadata_copy(metadata)
    if shown and copy.get(IS_COMPRESSED) is True:
        del copy[IS_COMPRESSED]
    if IS_COMPRESSED in copy:
        raise InvalidInputError(
            f"metadata has {IS_COMPRESSED!r}, which reading adds where the log stores a content "
            "compressed: leave it out, or give it another name"
        )
    return copy


def json_copy(value: object, what: str, depth: int = 0) -> Any:
    """Return a deep copy of a JSON value: what goes in can no longer be changed from outside.

    Text and numbers in it are exact ones: a member of an enumeration is kept as its value.

    :raises InvalidInputError: something in it is not JSON.
    """
    if depth > JSON_DEPTH_MAX:
        raise InvalidInputError(
            f"{what} is nested deeper than {JSON_DEPTH_MAX} levels: make it flatter"
        )
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str):
                raise InvalidInputError(f"{what} has the key {key!r}: keys must be strings")
        return {check_text(key, what): json_copy(v, what, depth + 1) for key, v in value.items()}
    if isinstance(value, list | tuple):
        return [json_copy(item, what, depth + 1) for item in value]
    return _json_scalar(value, what)


def _json_scalar(value: object, what: str) -> object:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return check_text(value, what)
    if isinstance(value, int) and -JSON_INT_MAX <= value < JSON_INT_MAX:
        return int.__int__(value)  # as `plain`: a subclass has a say in what `int(value)` is
    if isinstance(value, float) and math.isfinite(value):
        return float.__float__(value)
    raise InvalidInputError(
        f"{what} holds {value!r:.80} of type {type(value).__name__}, which is not JSON: "
        "use str, int (64 bit), finite float, bool, None, list or dict"
    )


def time_us(value: Time | None, what: str) -> int | None:
    """Return a time in microseconds since 1970. See `Time`.

    :raises InvalidInputError: it is none, or outside the years 1 to 9999.
    """
    if value is None:
        return None
    if isinstance(value, int | float) and not isinstance(value, bool):
        time = value * 1_000_000
        if not TIME_US_MIN <= time <= TIME_US_MAX:  # NaN is not, either
            raise InvalidInputError(
                f"{what} {value!r:.80} is outside the years 1 to 9999: a number is seconds since "
                "1970"
            )
        return round(time)
    if isinstance(value, str):
        try:
            value = iso_datetime(value)
        except ValueError as error:
            raise InvalidInputError(
                f"{what} {value!r:.80} is not ISO 8601: write for example 2024-05-01T12:00:00Z"
            ) from error
    if isinstance(value, date) and not isinstance(value, datetime):
        value = datetime(value.year, value.month, value.day, tzinfo=UTC)
    if not isinstance(value, datetime):
        raise InvalidInputError(
            f"{what} must be a datetime, a date, ISO 8601 or seconds since 1970, not {value!r:.80}"
        )
    aware = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
    return check_time_us(to_us(aware), what)


def iso_datetime(text: str) -> datetime:
    """Return the time that ISO 8601 says; RFC 3339 has `t` and `z` for `T` and `Z`, too.

    :raises ValueError: it says none.
    """
    return datetime.fromisoformat(text.upper())


def check_time_us(value: object, what: str) -> int:
    """Return a time in microseconds since 1970.

    :raises InvalidInputError: it is no whole number, or outside the years 1 to 9999.
    """
    if not isinstance(value, int) or isinstance(value, bool):
        raise InvalidInputError(f"{what} must be microseconds since 1970, not {value!r:.80}")
    if not TIME_US_MIN <= value <= TIME_US_MAX:
        raise InvalidInputError(f"{what} {value!r:.80} is outside the years 1 to 9999 in UTC")
    return value


def check_choice(value: T, choices: Sequence[str], what: str) -> T:
    """Return one of some words.

    :raises InvalidInputError: it is none of them.
    """
    if value not in choices:
        raise InvalidInputError(f"{what} must be one of {', '.join(choices)}, not {value!r:.80}")
    return value


def check_flag(value: object, what: str) -> bool:
    """Return a yes or no.

    :raises InvalidInputError: it is neither True nor False; "no", say, would count as yes.
    """
    if not isinstance(value, bool):
        raise InvalidInputError(f"{what} must be True or False, not {value!r:.80}")
    return value


def check_count(value: object, what: str, least: int = 0) -> int:
    """Return a number of things.

    :raises InvalidInputError: it is not a whole number from `least`, of 64 bits.
    """
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value < JSON_INT_MAX:
        raise InvalidInputError(f"{what} must be a whole number from {least}, not {value!r:.80}")
    return value


def check_share(value: object, what: str) -> float:
    """Return a number from 0 to 1.

    :raises InvalidInputError: it is none.
    """
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value <= 1:
        raise InvalidInputError(f"{what} must be a number from 0 to 1, not {value!r:.80}")
    return float(value)


def check_top_k(top_k: object) -> int:
    """Return a number of results.

    :raises InvalidInputError: it is not a whole number from 1 to 10,000.
    """
    if not isinstance(top_k, int) or isinstance(top_k, bool) or not 0 < top_k <= TOP_K_MAX:
        raise InvalidInputError(f"top_k must be from 1 to {TOP_K_MAX:,}, not {top_k!r:.80}")
    return top_k


def checked_host(url: str, wanted: str) -> str:
    """Return the host of an http or https URL; `wanted` says what to give instead.

    :raises InvalidInputError: it is none.
    """
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port  # a bad port raises here
    except ValueError:
        host = None
    if not host or parts.scheme not in ("http", "https"):
        raise InvalidInputError(wanted)
    return host
