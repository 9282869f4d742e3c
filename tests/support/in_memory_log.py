"""The port over plain dictionaries: for tests, and the shortest statement of what a store does.

It can count, archive, erase, keep derived data and settings, and measure (capabilities.py); there
is no file of it to back up, export, shrink or verify.

Events still go through the registry, so what does not serialise here does not serialise on disk.
Nothing is durable; everything else holds.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from eventlog import (
    Appended,
    Archived,
    Checkpoint,
    CorruptLog,
    Dropped,
    DroppedPayloads,
    Erased,
    EventRegistry,
    Fenced,
    LogClosed,
    LogStatistics,
    OnDropped,
    Recorded,
    Snapshot,
    StreamHead,
    stream_id,
    system_clock_us,
)
from eventlog.core.frame import erased_name
from eventlog.core.records import SNAPSHOTS_KEPT
from eventlog.core.requests import (
    I64_MAX,
    AppendRequest,
    TakesAppends,
    check_checkpoint,
    check_derived,
    check_entry,
    check_int,
    check_setting,
    check_snapshot,
    check_stream_name,
    check_text,
    checked_clock,
    given_digest,
)
from eventlog.core.rules import FirstAppend, check_end, check_wanted, count, without
from eventlog.core.waiting import LogEnd


@dataclass(slots=True)
class _HeldStream:
    events: list[Recorded[Any]] = field(default_factory=list)
    epoch: int = 0
    stored_bytes: int = 0
    keys: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    requests: dict[str, FirstAppend] = field(default_factory=dict)
    archived: dict[int, int] = field(default_factory=dict)
    """The time at which the payload of a version was archived."""
    erased_version: int = 0
    derived: dict[bytes, bytes] = field(default_factory=dict)


class InMemoryLog(TakesAppends):
    """An `EventStore` that forgets everything when it goes."""

    def __init__(self, registry: EventRegistry, *, clock: Callable[[], int] = system_clock_us):
        super().__init__(registry, checked_clock(clock))
        self._log: list[Recorded[Any]] = []
        self._streams: dict[str, _HeldStream] = {}
        self._checkpoints: dict[str, int] = {}
        self._entries: dict[tuple[str, bytes], bytes] = {}
        self._snapshots: defaultdict[str, dict[int, tuple[str, Snapshot]]] = defaultdict(dict)
        self._totals: dict[str, int] = {}
        self._settings: dict[str, bytes] = {}
        self._end = LogEnd()
        self._closed = False

    def _check_open(self) -> None:
        if self._closed:
            raise LogClosed("the log is closed: open it again")

    def _held(self, stream: str) -> _HeldStream:
        """Return the data of a stream: of one that never was, an empty one to be kept or not."""
        check_stream_name(stream)
        return self._streams.get(stream) or _HeldStream()

    def close(self) -> None:
        """End every subscription."""
        self._closed = True
        self._end.close()

    async def _append(self, request: AppendRequest) -> Appended:
        self._check_open()
        stream, key = request.stream, request.idempotency_key
        held = self._held(stream)
        if key is not None and (earlier := held.requests.get(key)):
            return earlier.repeated(stream, key, request.digest)
        check_end(request, len(held.events), held.epoch)
        self._totals = count(self._totals, request.counters)
        request.counted()
        self._streams[stream] = held
        held.epoch = max(held.epoch, request.epoch)
        first = len(held.events) + 1
        for version, event in enumerate(request.events, first):
            data, raw_meta = self.registry.decode(event.tag, event.schema, event.raw)
            recorded = Recorded(
                stream, version, len(self._log) + 1, request.recorded_at_us, event.tag, data,
                len(event.raw), len(event.body), raw_meta,
            )  # fmt: skip
            held.events.append(recorded)
            held.stored_bytes += len(event.body)
            self._log.append(recorded)
            for about in event.keys:
                held.keys[about].append(version)
        position = 0 if request.durability == "relaxed" else len(self._log)
        result = Appended(stream, first, len(held.events), position)
        if key is not None:
            held.requests[key] = FirstAppend(request.digest, first, len(held.events), position)
        if request.checkpoint is not None:
            await self.save_checkpoint(request.checkpoint)
        self._end.advance(len(self._log))
        return result

    async def acquire(self, stream: str, epoch: int) -> StreamHead:
        """Raise the stream's epoch. See `EventStore.acquire`."""
        held = self._held(stream)
        check_int("epoch", epoch, 0, I64_MAX)
        self._check_open()
        if epoch < held.epoch:
            raise Fenced(stream, epoch, held.epoch)
        held.epoch = epoch
        self._streams[stream] = held
        return await self.head(stream)

    async def head(self, stream: str) -> StreamHead:
        """Return the end of a stream; version 0 if it never was."""
        held = self._held(stream)
        return StreamHead(
            len(held.events), held.epoch, held.stored_bytes, erased_version=held.erased_version
        )

    async def streams(self) -> list[str]:
        """Return the name of every stream that has one."""
        there = self._streams.items()
        return [name for name, held in there if not 0 < held.erased_version == len(held.events)]

    async def read_stream(
        self, stream: str, after: int = 0, limit: int = 512, *, dropped: OnDropped = "raise"
    ) -> list[Recorded[Any]]:
        """Return up to `limit` events of a stream behind version `after`."""
        held = self._held(stream)
        after = max(after, 0)
        return _readable(held.events[after : max(after, after + limit)], dropped)

    async def read_all(
        self, after: int = 0, limit: int = 512, *, dropped: OnDropped = "raise"
    ) -> list[Recorded[Any]]:
        """Return up to `limit` events of the log behind position `after`."""
        after = max(after, 0)
        return _readable(self._log[after : max(after, after + limit)], dropped)

    async def read_event(
        self, position: int, *, dropped: OnDropped = "raise"
    ) -> Recorded[Any] | None:
        """Return the event at a position, None if there is none."""
        if not 0 < position <= len(self._log):
            return None
        return _readable([self._log[position - 1]], dropped)[0]

    async def read_versions(
        self, stream: str, versions: Sequence[int], *, dropped: OnDropped = "raise"
    ) -> list[Recorded[Any]]:
        """Return these events of a stream, in the order asked for."""
        events = self._held(stream).events
        if not all(0 < version <= len(events) for version in versions):
            raise CorruptLog(f"an event of stream {stream!r} is missing")
        return _readable([events[version - 1] for version in versions], dropped)

    async def versions_about(self, stream: str, key: str) -> list[int]:
        """Return the versions of a stream's events about `key`."""
        held = self._held(stream)
        check_text("key", key)
        return list(held.keys.get(key, ()))

    async def find_request(
        self, stream: str, idempotency_key: str, request: bytes
    ) -> Appended | None:
        """Return the first result of this request's idempotency key, or None if it is new."""
        held = self._held(stream)
        check_text("idempotency key", idempotency_key)
        digest, earlier = given_digest(request), held.requests.get(idempotency_key)
        return None if earlier is None else earlier.repeated(stream, idempotency_key, digest)

    async def save_snapshot(self, stream: str, snapshot: Snapshot, fingerprint: str) -> None:
        """Keep a snapshot and the newest one before it; not one ahead of its stream."""
        check_snapshot(stream, snapshot, fingerprint)
        if snapshot.version > (await self.head(stream)).version:
            return
        snapshots = self._snapshots[stream]
        snapshots[snapshot.version] = fingerprint, snapshot
        for version in sorted(snapshots)[:-SNAPSHOTS_KEPT]:
            del snapshots[version]

    async def load_snapshot(
        self, stream: str, fingerprint: str, *, until: int | None = None
    ) -> Snapshot | None:
        """Return the newest snapshot of this schema, not beyond `until`, if any."""
        held = self._held(stream)
        check_text("snapshot's fingerprint", fingerprint)
        if len(held.events) == held.erased_version:
            return None
        version = len(held.events) if until is None else min(len(held.events), until)
        usable = [s for f, s in self._snapshots[stream].values() if f == fingerprint]
        usable = [snapshot for snapshot in usable if snapshot.version <= version]
        return max(usable, key=lambda snapshot: snapshot.version, default=None)

    async def save_checkpoint(self, checkpoint: Checkpoint) -> None:
        """Store a subscriber's position and entries."""
        check_checkpoint(checkpoint)
        self._checkpoints[checkpoint.name] = checkpoint.position
        for key, value in checkpoint.writes.items():
            if value is None:
                self._entries.pop((checkpoint.name, key), None)
            else:
                self._entries[checkpoint.name, key] = value

    async def load_checkpoint(self, name: str) -> int:
        """Return a subscriber's position, 0 if it has none."""
        check_text("checkpoint's name", name)
        return self._checkpoints.get(name, 0)

    async def load_entry(self, name: str, key: bytes) -> bytes | None:
        """Return one entry that a subscriber stored."""
        check_entry(name, key)
        return self._entries.get((name, key))

    async def archive(self, stream: str, versions: Sequence[int]) -> Archived:
        """Take note that these payloads are archived: there is nowhere else to put them."""
        held = self._held(stream)
        for version in versions:
            check_int(f"version of stream {stream!r}", version, 1, len(held.events))
        self._check_open()
        there = {version for version in versions if version > held.erased_version}
        moved = dict.fromkeys(there - held.archived.keys(), self._clock())
        held.archived |= moved
        return Archived(events=len(moved))

    async def drop_archived(self, before_us: int, stream: str | None = None) -> DroppedPayloads:
        """Replace the payloads that were archived before a time."""
        check_int("time", before_us, None, None)
        if stream is not None:
            check_stream_name(stream)
        self._check_open()
        now_us, events = self._clock(), 0
        for name, held in self._streams.items():
            for version, archived_at_us in held.archived.items():
                kept = not isinstance(held.events[version - 1].data, Dropped)
                if kept and archived_at_us < before_us and stream in (None, name):
                    self._drop(held, version, name, Dropped(now_us))
                    events += 1
        return DroppedPayloads(events=events)

    def _drop(self, held: _HeldStream, version: int, name: str, instead: Dropped) -> None:
        event = held.events[version - 1]
        gone = msgspec.structs.replace(event, stream=name, data=instead, raw_meta=b"")
        held.events[version - 1] = self._log[event.position - 1] = gone

    async def erase(
        self,
        stream: str,
        *,
        counted: Mapping[str, int] | None = None,
        projections: Sequence[str] = (),
        epoch: int | None = None,
    ) -> Erased:
        """Erase a stream. See `ErasingStore`."""
        held = self._held(stream)
        self._check_open()
        if epoch not in (None, held.epoch):
            raise Fenced(stream, epoch or 0, held.epoch)
        events = len(held.events) - held.erased_version
        if not events:
            return Erased()
        erased = Erased(events, self._clock())
        instead, name = Dropped(erased.erased_at_us, erased=True), erased_name(stream_id(stream))
        for version in range(held.erased_version + 1, len(held.events) + 1):
            self._drop(held, version, name, instead)
        held.erased_version = len(held.events)
        snapshots = self._snapshots[stream]
        for gone in (held.keys, held.requests, held.archived, held.derived, snapshots):
            gone.clear()
        for projection in projections:
            self._checkpoints.pop(projection, None)
            for entry in [entry for entry in self._entries if entry[0] == projection]:
                del self._entries[entry]
        self._totals = without(self._totals, counted or {})
        return erased

    async def save_derived(
        self, stream: str, pieces: Mapping[bytes, bytes | None], *, epoch: int
    ) -> bool:
        """Keep pieces beside a stream. See `DerivingStore`."""
        check_derived(stream, pieces, epoch)
        self._check_open()
        held = self._held(stream)
        if held.epoch != epoch or len(held.events) == held.erased_version:
            return False
        for name, piece in pieces.items():
            if piece is None:
                held.derived.pop(name, None)
            else:
                held.derived[name] = piece
        return True

    async def load_derived(
        self, stream: str, names: Sequence[bytes] | None = None
    ) -> dict[bytes, bytes]:
        """Return pieces that are kept beside a stream."""
        derived = self._held(stream).derived
        sought = derived if names is None else set(names)
        return {name: derived[name] for name in sought if name in derived}

    async def load_setting(self, name: str) -> bytes | None:
        """Return the value under a name."""
        check_setting(name)
        return self._settings.get(name)

    async def save_setting(self, name: str, value: bytes, *, expected: bytes | None) -> bool:
        """Save a value over the expected one. See `SettingStore`."""
        check_setting(name, value)
        self._check_open()
        if self._settings.get(name) == expected:
            self._settings[name] = value
        return self._settings.get(name) == value

    async def totals(self) -> dict[str, int]:
        """Return the totals."""
        return self.totals_nowait()

    def totals_nowait(self) -> dict[str, int]:
        """Return the totals: an append counts when it is accepted, as it is final then."""
        return dict(self._totals)

    def statistics(self) -> LogStatistics:
        """Return how many events there are, and the bytes of their payloads."""
        return LogStatistics(
            last_position=len(self._log),
            queued_events=0,
            events_appended=len(self._log),
            batches=len(self._log),
            relaxed_lost=0,
            used_bytes=sum(held.stored_bytes for held in self._streams.values()),
        )

    async def wait_beyond(self, position: int) -> int:
        """Wait for an event behind `position`; return that of the last one, 0 at the close."""
        return await self._end.wait_beyond(position)

    async def flush(self) -> None:
        """Return at once: nothing here ever becomes more durable."""


def _readable(events: list[Recorded[Any]], dropped: OnDropped) -> list[Recorded[Any]]:
    for event in events:
        if isinstance(event.data, Dropped):
            check_wanted(event.stream, event.version, event.data, dropped)
    return events
