"""Events to bytes and back."""

import os
import zlib
from typing import Any

import msgspec
import pytest

from eventlog import CorruptLog, EventRegistry, InvalidAppend, UnknownEvent
from eventlog.core.codec import decompress


class Noted(msgspec.Struct, frozen=True):
    text: str
    detail: Any = None


class Renamed(msgspec.Struct, frozen=True):
    """The later form of `Noted`: in schema 2 `text` is `content`, schema 3 adds a length."""

    content: str
    length: int


def noting(salt=os.urandom) -> EventRegistry:
    registry = EventRegistry(salt=salt)
    registry.event("noted")(Noted)
    return registry


def renaming() -> EventRegistry:
    registry = EventRegistry()
    registry.event("noted", schema=3)(Renamed)
    return registry


# --- encoding


class Moved(msgspec.Struct, frozen=True):
    place: str


def test_each_event_gets_a_salt_of_its_own():
    registry = noting()
    salts = {registry.prepare(Noted("a")).salt for _ in range(20)}

    assert len(salts) == 20
    assert noting(salt=lambda size: b"s" * size).prepare(Noted("a")).salt == b"s" * 16


def test_content_over_1_kib_is_compressed_where_that_pays():
    registry = noting()
    small = registry.prepare(Noted("x" * 1000))
    large = registry.prepare(Noted("x" * 2000))
    noise = registry.prepare(Noted("", os.urandom(2000)))

    assert (small.compressed, small.body) == (False, small.raw)
    assert large.compressed
    assert large.stored_bytes == len(large.body) < 100
    assert (noise.compressed, noise.body) == (False, noise.raw)


def test_a_type_whose_keys_fail_is_refused():
    registry = EventRegistry()
    registry.event("noted", keys=lambda event: event.detail["key"])(Noted)

    with pytest.raises(InvalidAppend):
        registry.prepare(Noted("a", {}))


# --- registering


def test_a_tag_is_taken_once():
    registry = noting()

    with pytest.raises(ValueError, match="taken"):
        registry.event("noted")(Renamed)


@pytest.mark.parametrize("tag", ["", "x" * 256, "é" * 128, "\ud800"])
def test_a_tag_that_does_not_fit_the_frame_is_refused(tag: str):
    with pytest.raises(ValueError, match="tag"):
        EventRegistry().event(tag)(Noted)


@pytest.mark.parametrize("schema", [0, -1, 65_536])
def test_a_schema_that_does_not_fit_the_frame_is_refused(schema: int):
    with pytest.raises(ValueError, match="schema"):
        EventRegistry().event("noted", schema=schema)(Noted)


def test_registries_can_be_joined():
    registry = EventRegistry()
    registry.event("renamed", schema=3)(Renamed)
    registry.include(noting())

    assert registry.tags() == {"noted": 1, "renamed": 3}
    assert registry.prepare(Noted("a")).tag == "noted"
    with pytest.raises(ValueError, match="taken"):
        registry.include(noting())


# --- decoding


def test_a_newer_schema_is_refused_with_what_is_known():
    with pytest.raises(UnknownEvent, match=r"schema 2.*up to 1"):
        noting().decode("noted", 2, noting().prepare(Noted("a")).raw)


def test_old_events_pass_through_each_upcaster_in_turn():
    registry = renaming()

    @registry.upcaster("noted", from_schema=2)
    def measure(fields: dict[str, Any]) -> dict[str, Any]:
        return {**fields, "length": len(fields["content"])}

    @registry.upcaster("noted", from_schema=1)
    def rename(fields: dict[str, Any]) -> dict[str, Any]:
        return {"content": fields["text"]}

    old = noting().prepare(Noted("four"), noting().packed_meta({"by": "me"})).raw
    newer = (0).to_bytes(2, "big") + msgspec.msgpack.encode({"content": "three"})

    assert registry.decode("noted", 1, old)[0] == Renamed("four", 4)
    assert msgspec.msgpack.decode(registry.decode("noted", 1, old)[1]) == {"by": "me"}
    assert registry.decode("noted", 2, newer)[0] == Renamed("three", 5)


def test_an_old_event_without_an_upcaster_is_refused():
    registry = renaming()
    registry.upcaster("noted", from_schema=1)(lambda fields: {"content": fields["text"]})

    with pytest.raises(UnknownEvent, match="no upcaster from schema 2"):
        registry.decode("noted", 1, noting().prepare(Noted("a")).raw)


def test_an_upcast_must_make_an_event_of_the_type():
    """An upcast that makes no event of the type is refused."""
    registry = renaming()
    for schema in (1, 2):
        registry.upcaster("noted", from_schema=schema)(lambda fields: fields)

    with pytest.raises(CorruptLog):
        registry.decode("noted", 1, noting().prepare(Noted("a")).raw)


@pytest.mark.parametrize("fields", [7, ["a", "list"], {"other": "fields"}])
def test_an_old_event_that_its_upcaster_cannot_take_is_damage(fields: Any):
    """An upcaster may rely on the fields that its schema had."""
    events = EventRegistry()
    events.event("test.moved", schema=2)(Moved)
    events.upcaster("test.moved", from_schema=1)(lambda old: {"place": old["where"]})

    with pytest.raises(CorruptLog, match="does not"):
        events.decode("test.moved", 1, b"\0\0" + msgspec.msgpack.encode(fields))


def test_an_added_field_with_a_default_needs_no_upcaster():
    registry = EventRegistry()
    registry.event("noted")(msgspec.defstruct("Wider", [("text", str), ("extra", int, 7)]))

    event, _ = registry.decode("noted", 1, noting().prepare(Noted("a")).raw)

    assert (event.text, event.extra) == ("a", 7)


# --- decompression


def test_a_zlib_bomb_is_refused_at_the_size_it_claims():
    bomb = zlib.compress(b"\0" * (64 << 20))

    with pytest.raises(CorruptLog):
        decompress(bomb, 1000)
    with pytest.raises(CorruptLog):
        decompress(bomb, 64 << 20)
