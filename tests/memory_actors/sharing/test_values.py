"""What crosses between processes arrives as it was, or as something that is refused alike."""

import asyncio
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventlog import EventLogError
from memory_actors import (
    GlobalQuotaExceededError,
    Hit,
    InvalidInputError,
    LogLocked,
    Memory,
    MemoryActorsError,
    NotFoundError,
    QuotaExceededError,
)
from memory_actors.sharing.values import (
    DEPTH_MAX,
    Foreign,
    _made,
    decoder,
    error_bytes,
    error_of,
    packed,
    result,
    unpacked,
)


def none(*_: Any) -> Any:
    raise AssertionError


def crossed(value: Any) -> Any:
    return unpacked(packed(value, none), none)


plain = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(st.characters())
    | st.binary()
    | st.datetimes(timezones=st.none() | st.just(UTC) | st.just(timezone(timedelta(hours=2))))
    | st.timedeltas()
    | st.dates(),
    lambda inner: (
        st.lists(inner)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text(), inner)
        | st.dictionaries(st.integers(), inner)
        | st.frozensets(st.integers() | st.text())
    ),
    max_leaves=12,
)


@given(plain)
def test_an_argument_arrives_as_it_was(value: Any) -> None:
    assert crossed(value) == value
    assert type(crossed(value)) is type(value)


def test_what_cannot_cross_arrives_as_something_that_nothing_accepts() -> None:
    arrived = crossed({"x": object})
    assert isinstance(arrived["x"], Foreign)
    assert repr(arrived["x"]) == repr(object)


def test_what_contains_itself_is_refused() -> None:
    circle: list[Any] = []
    circle += [circle, circle]
    with pytest.raises(InvalidInputError, match=str(DEPTH_MAX)):
        packed(circle, none)


def test_functions_and_events_stay_where_they_are() -> None:
    kept: list[Any] = []

    def keep(one: Any) -> int:
        kept.append(one)
        return len(kept) - 1

    event = asyncio.Event()
    said = packed({"progress": print, "stop": event}, keep)
    assert unpacked(said, lambda number, is_event: (number, is_event)) == {
        "progress": (0, False), "stop": (1, True),
    }  # fmt: skip
    assert kept == [print, event]


@given(st.binary())
def test_junk_is_refused(junk: bytes) -> None:
    try:
        unpacked(junk, none)
    except InvalidInputError:
        pass
    except AssertionError:  # a number for a function: fine
        pass


def test_a_result_arrives_as_the_type_that_is_declared() -> None:
    now = datetime.now(UTC)
    memory = Memory(
        memory_id="m", content="tea", memory_type="long_term", metadata={"n": [1, {"a": None}]},
        created_at=now, occurred_at=now,
    )  # fmt: skip
    assert decoder(list[Memory])(result([memory])) == [memory]
    hit = Hit(**{**msgspec.structs.asdict(memory), "score": 0.5})
    assert decoder(Hit)(result(hit)) == hit


@pytest.mark.parametrize(
    "error",
    [
        NotFoundError("no memory 'x'"),
        QuotaExceededError("full", kind="long_term", used=1, limit=1, unit="items", tier="pro"),
        GlobalQuotaExceededError("all", kind="x", used=1, limit=1, unit="bytes", tier="pro"),
        LogLocked("it is open"),
        TypeError("add() got an unexpected keyword argument 'x'"),
        KeyError("x"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_arrives_as_its_class_with_all_it_says(error: Exception) -> None:
    arrived = error_of(error_bytes(error))
    assert type(arrived) is type(error)
    assert str(arrived) == str(error)
    assert vars(arrived) == vars(error)


def test_an_error_of_a_class_that_is_not_ours_arrives_as_its_nearest_known_one() -> None:
    class Odd(NotFoundError):
        pass

    assert type(error_of(error_bytes(Odd("x")))) is NotFoundError
    assert issubclass(type(error_of(error_bytes(asyncio.CancelledError()))), BaseException)


def test_every_error_of_the_package_crosses() -> None:
    import memory_actors

    classes = [getattr(memory_actors, name) for name in memory_actors.__all__]
    errors = [
        one
        for one in classes
        if isinstance(one, type)
        and issubclass(one, MemoryActorsError | EventLogError)
        and one is not memory_actors.MemoryToolError  # of a tool, which no operation is
    ]
    assert len(errors) > 30
    for kind in errors:
        error = _made(kind)
        error.args = ("said",)
        assert type(error_of(error_bytes(error))) is kind
