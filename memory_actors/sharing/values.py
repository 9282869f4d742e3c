"""Arguments, results and errors as bytes, between processes that run the same library.

A result has a declared type, and msgspec writes and reads it as such. An argument may be anything
that a caller gives, also what the operation will refuse: it says itself what it is. An argument
that cannot be transferred arrives as a `Foreign` object, which every check refuses as it would have
the original.

Functions and asyncio events stay where they are: a number stands for them.
"""

import builtins
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import date, datetime, timedelta
from enum import Enum
from functools import cache
from pathlib import PurePath
from typing import Any, Final

import msgspec

from eventlog.core import errors as log_errors
from eventlog.core import records as log_records
from memory_actors.base import context_documents, errors, records, reports, statistics, weights
from memory_actors.base.errors import InvalidInputError, MemoryActorsError
from memory_actors.base.records import JsonObject

MODULES: Final = (
    records, reports, context_documents, statistics, weights, errors, log_records,
    log_errors,
)  # fmt: skip
"""The modules whose types cross, by their names."""
DEPTH_MAX = 64
_INT = range(-(1 << 63), 1 << 64)
TUPLE, STRUCT, DATETIME, TIMEDELTA, BIG, SURROGATES, FOREIGN, FUNCTION, EVENT, PAIRS, SET, DATE = (
    range(1, 13)
)


class Foreign:
    """Something of another process that cannot be brought here."""

    def __init__(self, said: str):
        self._said = said

    def __repr__(self) -> str:
        return self._said


Kept = Callable[[Any], int]
"""Keeps a function or an event, and returns the number that stands for it."""
Found = Callable[[int, bool], Any]
"""Returns what a number stands for: an event, or (False) a function."""


def packed(value: object, kept: Kept) -> bytes:
    """Return arguments as bytes."""
    return _encode(_plain(value, kept, 0))


def unpacked(said: bytes, found: Found) -> Any:
    """Return arguments that were packed.

    :raises InvalidInputError: they were not.
    """

    def known(code: int, data: memoryview) -> object:
        if code in (FUNCTION, EVENT):
            return found(_decode(data), code == EVENT)
        return _READ[code](_read(bytes(data)))

    def _read(data: bytes) -> object:
        return msgspec.msgpack.decode(data, ext_hook=known)

    try:
        return _read(said)
    except (msgspec.DecodeError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise InvalidInputError(f"arguments that cannot be read: {error}") from error


def _plain(value: Any, kept: Kept, depth: int) -> object:
    """Return a value in terms of what msgpack has, and of extensions."""
    kind = type(value)
    if kind in (str, bool, float, bytes, type(None)):
        return value if kind is not str or value.isascii() else _text(value)
    if kind is int:
        return value if value in _INT else _extension(BIG, str(value))
    if depth > DEPTH_MAX:
        raise InvalidInputError(f"an argument is nested more than {DEPTH_MAX} deep")
    if kind is list:
        return [_plain(one, kept, depth + 1) for one in value]
    if kind is tuple:
        return _extension(TUPLE, [_plain(one, kept, depth + 1) for one in value])
    if kind in (set, frozenset):
        return _extension(SET, [_plain(one, kept, depth + 1) for one in value])
    if isinstance(value, Mapping):
        return _mapping(value, kept, depth + 1)
    if isinstance(value, msgspec.Struct) and _type(kind.__name__) is kind:
        fields = {name: getattr(value, name) for name in kind.__struct_fields__}
        return _extension(STRUCT, [kind.__name__, _mapping(fields, kept, depth + 1)])
    return _other(value, kept)


def _other(value: object, kept: Kept) -> object:
    if isinstance(value, Enum):
        return _plain(value.value, kept, 0)
    if isinstance(value, str):
        return _text(str.__str__(value))
    if isinstance(value, PurePath):
        return str(value)
    if isinstance(value, datetime):
        return _extension(DATETIME, value.isoformat())
    if isinstance(value, date):
        return _extension(DATE, value.isoformat())
    if isinstance(value, timedelta):
        return _extension(TIMEDELTA, [value.days, value.seconds, value.microseconds])
    if _is_event(value):
        return _extension(EVENT, kept(value))
    if callable(value) and not isinstance(value, type):
        return _extension(FUNCTION, kept(value))
    return _extension(FOREIGN, f"{value!r:.200}")


def _is_event(value: object) -> bool:
    """Tell events of asyncio, which a process that has not loaded it cannot have."""
    loaded = sys.modules.get("asyncio")
    return loaded is not None and isinstance(value, loaded.Event)


def _mapping(value: Mapping[Any, object], kept: Kept, depth: int) -> object:
    if all(type(key) is str for key in value):
        return {_text(key): _plain(one, kept, depth) for key, one in value.items()}
    pairs = [[_plain(key, kept, depth), _plain(one, kept, depth)] for key, one in value.items()]
    return _extension(PAIRS, pairs)


def _text(value: str) -> object:
    """Return a text; one that is not Unicode crosses all the same, to be refused there."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return _extension(SURROGATES, value.encode("utf-8", "surrogatepass"))
    return value


def _extension(code: int, value: object) -> msgspec.msgpack.Ext:
    return msgspec.msgpack.Ext(code, _encode(value))


def _struct(said: list[Any]) -> object:
    name, fields = said
    kind = _type(name)
    if kind is None or not issubclass(kind, msgspec.Struct):
        raise ValueError(f"{name} is no type that crosses")
    return kind(**fields)


_READ: Final[Mapping[int, Callable[[Any], object]]] = {
    TUPLE: tuple,
    STRUCT: _struct,
    DATETIME: datetime.fromisoformat,
    DATE: date.fromisoformat,
    TIMEDELTA: lambda said: timedelta(*said),
    BIG: int,
    SURROGATES: lambda said: said.decode("utf-8", "surrogatepass"),
    FOREIGN: Foreign,
    PAIRS: dict,
    SET: frozenset,
}

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder().decode


# --- results


def result(value: object) -> bytes:
    """Return a result as bytes."""
    return _encode_result(value)


def _unusual(value: object) -> object:
    if isinstance(value, PurePath):
        return str(value)
    raise NotImplementedError(f"a {type(value).__name__} is no part of a result")


_encode_result = msgspec.msgpack.Encoder(enc_hook=_unusual).encode


@cache
def decoder(kind: object) -> Callable[[bytes], Any]:
    """Return a decoder for results of a type."""
    return msgspec.msgpack.Decoder(kind, dec_hook=lambda wanted, said: wanted(said)).decode


# --- errors


class Error(msgspec.Struct, array_like=True):
    """An error as it crosses."""

    name: str
    message: str
    attributes: JsonObject


def error_bytes(error: BaseException) -> bytes:
    """Return an error as bytes; what it keeps of the process stays there."""
    kept = {name: value for name, value in vars(error).items() if _is_plain(value)}
    known = (kind.__name__ for kind in type(error).__mro__ if _error(kind.__name__) is kind)
    name = next(known, "Exception")
    said = str(error.args[0]) if len(error.args) == 1 else str(error)
    return _encode(Error(name, said.encode("utf-8", "backslashreplace").decode(), kept))


def _is_plain(value: object) -> bool:
    if isinstance(value, str):
        return isinstance(_text(value), str)
    is_number = isinstance(value, float) or (isinstance(value, int) and value in _INT)
    return value is None or is_number


def error_of(said: bytes) -> BaseException:
    """Return the error that crossed: of the same class, with the same message and attributes."""
    crossed = msgspec.msgpack.decode(said, type=Error)
    kind = _error(crossed.name) or MemoryActorsError
    return error_named(kind, crossed.message, crossed.attributes)


def error_named(
    kind: type[BaseException], message: str, attributes: Mapping[str, object]
) -> BaseException:
    """Return an error of a class, with a message and attributes, however the class makes them."""
    error = _made(kind)
    error.args = (message,)
    vars(error).update(attributes)
    return error


def _made(kind: type[BaseException]) -> BaseException:
    """Return an error without calling its `__init__`, which may want more than there is."""
    for base in kind.__mro__:
        new: Any = base.__new__
        with suppress(TypeError):  # of two built-in ones that it is based on, one makes it
            made: BaseException = new(kind)
            return made
    raise TypeError(kind)


@cache
def _type(name: str) -> Any:
    return next((getattr(one, name) for one in MODULES if hasattr(one, name)), None)


@cache
def _error(name: str) -> type[BaseException] | None:
    kind = _type(name) or getattr(builtins, name, None)
    return kind if isinstance(kind, type) and issubclass(kind, Exception) else None
