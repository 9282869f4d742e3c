"""Events to bytes and back: a registry of types, msgpack payloads, compression, upcasters.

The storage contract of an event is its tag, its schema version and its fields. A new field needs a
default. Anything else needs a new schema version and an upcaster from the old one: a function from
the old fields (a dict) to the new. Upcasting happens when reading; what is stored never changes.

A payload is `u16 meta length | meta | data`, both msgpack maps. It is compressed with zlib if its
text, or its other content, is longer than 1 KiB and compression makes it shorter.
"""

import os
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import msgspec

from eventlog.core.errors import CorruptLog, InvalidAppend, UnknownEvent
from eventlog.core.records import META_BYTES_MAX, Prepared, decode_meta

COMPRESS_ABOVE_BYTES = 1024
PAYLOAD_BYTES_MAX = 16 * 1024 * 1024  # one event; it bounds what a reader ever decompresses
TAG_BYTES_MAX = 255  # its length is one byte in the frame
SALT_BYTES = 16
SALTS_AT_ONCE = 256
SCHEMA_MAX = 65_535  # two bytes in the frame

E = TypeVar("E", bound=type)
Fields = dict[str, Any]
Upcaster = Callable[[Fields], Fields]
KeysOf = Callable[[Any], Iterable[str]]
"""Returns the keys of an event: what it is about."""


class _Salts:
    """Random bytes, asked of the system for many events at once.

    A call for each would cost as much as encoding an event.
    """

    def __init__(self) -> None:
        self._bytes = b""
        self._at = 0

    def take(self, count: int) -> bytes:
        if self._at + count > len(self._bytes):
            self._bytes, self._at = os.urandom(SALTS_AT_ONCE * count), 0
        self._at += count
        return self._bytes[self._at - count : self._at]


@dataclass(slots=True)
class EventType:
    """A registered type of events."""

    cls: type
    tag: str
    schema: int
    keys: KeysOf
    decode: Callable[[bytes], object]
    """Returns the event in data of today's schema."""
    upcasters: dict[int, Upcaster] = field(default_factory=dict)

    def keys_in(self, data: bytes) -> tuple[str, ...]:
        """Return the keys that an event names. It may raise anything on damaged data.

        `EventRegistry.keys_in` raises the error that says what is wrong.
        """
        return _keys(self, self.decode(data))


class EventRegistry:
    """The event types a log may hold, by explicit tag."""

    def __init__(
        self,
        salt: Callable[[int], bytes] | None = None,
        text_bytes: Callable[[Any], int | None] = lambda _event: None,
    ):
        """`text_bytes` says how long the text of an event is, where it is about one."""
        self._by_tag: dict[str, EventType] = {}
        self._by_tag_bytes: dict[bytes, EventType] = {}
        self._by_class: dict[type, EventType] = {}
        self._encoder = msgspec.msgpack.Encoder()
        self._salt = salt or _Salts().take
        self._text_bytes = text_bytes

    def event(
        self,
        tag: str,
        *,
        schema: int = 1,
        keys: KeysOf = lambda _event: (),
    ) -> Callable[[E], E]:
        """Return a class decorator that registers a msgspec Struct under `tag`.

        `keys` names what an event is about: the log finds the events of a stream by key.
        """

        def register(cls: E) -> E:
            self._add(EventType(cls, tag, schema, keys, msgspec.msgpack.Decoder(cls).decode))
            return cls

        return register

    def upcaster(self, tag: str, *, from_schema: int) -> Callable[[Upcaster], Upcaster]:
        """Return a decorator for the function from schema `from_schema` to the next one."""

        def register(function: Upcaster) -> Upcaster:
            self._by_tag[tag].upcasters[from_schema] = function
            return function

        return register

    def include(self, other: "EventRegistry") -> None:
        """Add every event type of `other`."""
        for event_type in other._by_tag.values():  # noqa: SLF001 - its own class
            self._add(event_type)

    def classes(self) -> list[type]:
        """Return the registered classes."""
        return list(self._by_class)

    def tags(self) -> dict[str, int]:
        """Return the schema version of each tag."""
        return {tag: event_type.schema for tag, event_type in sorted(self._by_tag.items())}

    def keys(self, event: object) -> tuple[str, ...]:
        """Return the keys that an event of a registered type names."""
        return _keys(self._by_class[type(event)], event)

    def keys_in(self, tag: bytes, schema: int, raw: bytes) -> tuple[str, ...]:
        """Return the keys that the event in `raw` names. See `decode_tagged`."""
        _, event, _ = self.decode_tagged(tag, schema, raw)
        return _keys(self._by_tag_bytes[tag], event)

    def types(self) -> dict[tuple[bytes, int], EventType]:
        """Return the registered types by tag and today's schema."""
        return {(tag, each.schema): each for tag, each in self._by_tag_bytes.items()}

    def _add(self, event_type: EventType) -> None:
        tag, cls = event_type.tag, event_type.cls
        try:
            tag_bytes = len(tag.encode())
        except UnicodeEncodeError as error:
            raise ValueError(f"event tag {tag!r} is not valid Unicode") from error
        if tag in self._by_tag or not 0 < tag_bytes <= TAG_BYTES_MAX:
            raise ValueError(f"event tag {tag!r} is taken, empty or over {TAG_BYTES_MAX} bytes")
        if cls in self._by_class:
            raise ValueError(f"{cls.__name__} has a tag already, {self._by_class[cls].tag!r}")
        if not 0 < event_type.schema <= SCHEMA_MAX:
            raise ValueError(f"schema {event_type.schema} of {tag!r} is not in 1..{SCHEMA_MAX}")
        self._by_tag[tag] = self._by_tag_bytes[tag.encode()] = event_type
        self._by_class[cls] = event_type

    def prepare(self, event: object, meta: bytes = b"") -> Prepared:
        """Encode one event, compressed where that pays; `meta` is what `packed_meta` returned.

        :raises InvalidAppend: a type that is not registered, or a payload too long.
        """
        event_type = self._by_class.get(type(event))
        if event_type is None:
            raise InvalidAppend(f"{type(event).__name__} is not a registered event type")
        try:
            data = self._encoder.encode(event)
            event_type.decode(data)  # what cannot be read back must not be stored
        except Exception as error:  # msgspec raises many kinds, and fields may raise their own
            name = type(event).__name__
            raise InvalidAppend(f"{name} is no valid event: {error}") from error
        raw = body = b"".join((len(meta).to_bytes(2, "big"), meta, data))
        if len(raw) > COMPRESS_ABOVE_BYTES:
            body = self._compressed(event, raw)
        return Prepared(
            event, event_type.tag, event_type.schema, self._salt(SALT_BYTES), raw, body,
            len(body) < len(raw), _keys(event_type, event),
        )  # fmt: skip

    def _compressed(self, event: object, raw: bytes) -> bytes:
        if len(raw) > PAYLOAD_BYTES_MAX:
            raise InvalidAppend(f"event takes {len(raw)} bytes (max: {PAYLOAD_BYTES_MAX})")
        text_bytes = self._text_bytes(event) or 0
        if max(text_bytes, len(raw) - text_bytes) <= COMPRESS_ABOVE_BYTES:
            return raw
        return min(raw, zlib.compress(raw), key=len)

    def packed_meta(self, meta: Mapping[str, str] | None) -> bytes:
        """Return meta as payloads have it.

        :raises InvalidAppend: it does not map strings to strings, or is too long.
        """
        if meta is None:
            return b""
        try:
            if not isinstance(meta, Mapping):
                raise TypeError(f"not {type(meta).__name__}")
            packed = self._encoder.encode(dict(meta)) if meta else b""
            if packed:
                decode_meta(packed)
        except Exception as error:
            raise InvalidAppend(f"meta must map strings to strings: {error}") from error
        if len(packed) > META_BYTES_MAX:
            raise InvalidAppend(f"meta takes {len(packed)} bytes (max: {META_BYTES_MAX})")
        return packed

    def decode(self, tag: str, schema: int, raw: bytes) -> tuple[Any, bytes]:
        """Return the event in `raw`, upcast to today's schema, and its meta still packed.

        :raises UnknownEvent: a tag or a newer schema that this program does not know.
        :raises CorruptLog: bytes that are no event of that type.
        """
        _, data, meta = self.decode_tagged(tag.encode(), schema, raw)
        return data, meta

    def decode_tagged(self, tag: bytes, schema: int, raw: bytes) -> tuple[str, Any, bytes]:
        """Return tag, event and meta, by the tag's bytes as they lie in a frame. See `decode`."""
        event_type = self._by_tag_bytes.get(tag)
        if event_type is None:
            raise UnknownEvent(f"event type {tag!r} is unknown: register it, or upgrade")
        if len(raw) < 2:
            raise CorruptLog(f"{event_type.tag!r} does not decode: {len(raw)} bytes")
        data_at = 2 + (raw[0] << 8) + raw[1]
        try:
            if schema == event_type.schema:
                event = event_type.decode(raw[data_at:])
            else:
                event = self._upcast(event_type, schema, raw[data_at:])
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise CorruptLog(f"{event_type.tag!r} does not decode: {error}") from error
        return event_type.tag, event, raw[2:data_at]

    def _upcast(self, event_type: EventType, schema: int, data: bytes) -> Any:
        if schema > event_type.schema:
            raise UnknownEvent(
                f"event {event_type.tag!r} has schema {schema}, this program knows up to "
                f"{event_type.schema}: upgrade"
            )
        fields = msgspec.msgpack.decode(data, type=Fields)
        for version in range(schema, event_type.schema):
            upcaster = event_type.upcasters.get(version)
            if upcaster is None:
                raise UnknownEvent(f"{event_type.tag!r} has no upcaster from schema {version}")
            try:
                fields = upcaster(fields)
            except Exception as error:  # fields that were never those of this schema
                raise CorruptLog(
                    f"{event_type.tag!r} of schema {version} does not upcast: {error!r}"
                ) from error
        return msgspec.convert(fields, event_type.cls)


def _keys(event_type: EventType, event: object) -> tuple[str, ...]:
    try:
        found = event_type.keys(event)
        if type(found) is str:
            raise TypeError("one string, not several")
        keys = tuple(found)
        if len(keys) > 1:
            keys = tuple(dict.fromkeys(keys))
        for key in keys:
            str.encode(key)
    except Exception as error:
        raise InvalidAppend(f"keys of {type(event).__name__}: {error}") from error
    return keys


def decompress(body: bytes, raw_bytes: int) -> bytes:
    """Return `body` decompressed to exactly `raw_bytes`; never more memory than that.

    :raises CorruptLog: it is not that long, or not zlib.
    """
    if not 0 < raw_bytes <= PAYLOAD_BYTES_MAX:
        raise CorruptLog(f"payload says it has {raw_bytes} bytes (max: {PAYLOAD_BYTES_MAX})")
    return inflate(body, raw_bytes)


def inflate(data: bytes, size: int) -> bytes:
    """Return `data` decompressed to exactly `size` bytes, more than 0; take no more memory.

    :raises CorruptLog: it is not that long, or not zlib.
    """
    stream = zlib.decompressobj()
    try:
        raw = stream.decompress(data, size + 1)
    except zlib.error as error:
        raise CorruptLog(f"payload does not decompress: {error}") from error
    if len(raw) != size or not stream.eof or stream.unused_data:
        raise CorruptLog(f"payload does not decompress to the {size} bytes it should have")
    return raw
