"""From the files of another program to memories. The readers are in `sources`.

A file is read twice: first all of it, which adds nothing, so that a damaged file is refused, and a
dry run ends; then in batches, as the lines of our own files are (see `adding`). Memory use does not
grow with the file.

A record's id follows from its content; a record keeps an id that is one in all the world. A second
import of a file adds nothing, and one of a newer export adds only new records. One whose text has
changed is another memory: which of them holds is for `supersedes` to say. A record with a name of
its own (an entity, a relationship, a document) stays the same memory instead.

The origin of each memory is the program, and its trust is unknown unless the caller says otherwise.
Origins and trust that a file claims for itself are kept as metadata.
"""

import hashlib
from codecs import BOM_UTF8
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

import anyio.to_thread
import msgspec

from memory_actors.base.errors import InvalidInputError
from memory_actors.base.origins import origin
from memory_actors.base.records import Trust
from memory_actors.base.validation import check_choice, check_name
from memory_actors.interchange.adding import Adder
from memory_actors.interchange.files import open_file
from memory_actors.interchange.noting import ImportReport, time_of_others
from memory_actors.interchange.records import SAME_AS, LineReader, Progress, ReadLine, in_batches
from memory_actors.interchange.sources import OF_MARKDOWN, SOURCES
from memory_actors.interchange.sources.markdown import ENDINGS
from memory_actors.interchange.sources.port import SourceReading, SourceRecord
from memory_actors.sharing.system import MemorySystem

BATCH_RECORDS: Final = 200  # as of lines: embedded together, one commit
BATCH_BYTES_MAX: Final = 8 << 20
NOTES_SHOWN_MAX: Final = 3
NAMES_MAX: Final = 40  # of fields, that an error names
NAME_CHARACTERS_MAX: Final = 60
OURS: Final[Mapping[str, str]] = {
    "user": "user",
    "user_id": "user",
    **{name: SAME_AS.get(name, name) for name in (
        "content", "text", "occurred_at", "timestamp", "session", "session_id", "role",
    )},
}  # fmt: skip
"""The fields that a field of another program may be said to be, and their names in a line."""


class UnderstoodRecord(NamedTuple):
    """A record that was understood."""

    user: str | None
    line: ReadLine


class ImportPlan:
    """Files of another program that were read, and can be added."""

    def __init__(
        self,
        program: str,
        path: Path,
        fields: Mapping[str, str],
        origins: Mapping[str, Any],
    ):
        self._program, self._path, self._fields, self._origins = program, path, fields, origins
        self.records = self.nobodys = 0
        """The number of records that are memories, and of those that name no user."""
        self.users: Counter[str] = Counter()
        self._found: set[str] = set()
        self._names: set[str] = set()
        self._reading = self._new_reading()

    def report(self, user_id: str | None = None) -> ImportReport:
        """Report a dry run: an import into an empty store that refuses no record.

        Records that name nobody go to `user_id`.
        """
        nobodys = {user_id} if self.nobodys and user_id is not None else set()
        return ImportReport(
            users=sorted(self.users.keys() | nobodys),
            added=self.records,
            unchanged=0,
            notes=self._reading.notes(),
            left_out=self._reading.left_out,
            dry_run=True,
        )

    def _new_reading(self) -> SourceReading:
        named = (theirs for theirs, ours in self._fields.items() if ours == "user")
        return SourceReading(next(named, None))

    async def read(self, progress: Progress | None = None) -> None:
        """Read all there is; `progress` hears records, of a number that is not known."""
        batches = self._batches(self._reading)
        try:
            while batch := await anyio.to_thread.run_sync(next, batches, None):
                self.records += len(batch)
                for entry in batch:
                    if entry.user is None:
                        self.nobodys += 1
                    else:
                        self.users[entry.user] += 1
                if progress is not None:
                    progress(self.records, 0)
        except InvalidInputError as error:
            if self.records or not (options := fitting(self._path)):
                raise
            raise InvalidInputError(f"{error}. It reads with {options}") from error
        if not self.records and self._reading.notes():
            raise nothing_understood(self._path, self._program, self._reading)
        named = {theirs for theirs, ours in self._fields.items() if ours != "user"}
        unknown = sorted(named - self._found)
        if unknown and self.records:
            raise InvalidInputError(
                f"no record of {self._path} has a field {unknown[0]!r:.80}. They have "
                f"{', '.join(sorted(self._names))}: say which of them it is"
            )

    async def add(
        self,
        memory: MemorySystem,
        *,
        user_id: str | None = None,
        progress: Progress | None = None,
    ) -> ImportReport:
        """Add what was read; `progress` hears records.

        :raises InvalidInputError: a record names no user, and `user_id` none, either.
        :raises QuotaExceededError: no room for one; what came before it is kept.
        """
        if self.nobodys and user_id is None:
            raise InvalidInputError(
                f"{self.nobodys:,} of {self.records:,} records of {self._path} name no user: say "
                "whose they are with user_id (--user), or which field says it with user_field"
            )
        reading, count = self._new_reading(), 0
        batches, adders = self._batches(reading), dict[str, Adder]()
        while batch := await anyio.to_thread.run_sync(next, batches, None):
            whose: dict[str, list[ReadLine]] = {}
            for entry in batch:
                whose.setdefault(str(entry.user or user_id), []).append(entry.line)
            for user, lines in whose.items():
                if user not in adders:
                    adders[user] = Adder(memory.user(user), reading.leave_out)
                await adders[user].add(lines)
            count += len(batch)
            if progress is not None:
                progress(count, self.records)
        reports = [adders[user].report() for user in sorted(adders)]
        return ImportReport(
            users=[user_id for one in reports for user_id in one.users],
            added=sum(one.added for one in reports),
            unchanged=sum(one.unchanged for one in reports),
            unindexed=sum(one.unindexed for one in reports),
            notes=(*reading.notes(), *(note for one in reports for note in one.notes)),
            left_out=reading.left_out,
        )

    def _batches(self, reading: SourceReading) -> Iterator[list[UnderstoodRecord]]:
        return in_batches(
            self.entries(reading),
            lambda entry: len(msgspec.json.encode([entry.line.item.content, entry.line.parts])),
            count_max=BATCH_RECORDS, size_max=BATCH_BYTES_MAX,
        )  # fmt: skip

    def entries(self, reading: SourceReading) -> Iterator[UnderstoodRecord]:
        """Yield the records that are memories; the others are left out."""
        lines, seen = LineReader(), Counter[bytes]()
        for found in SOURCES[self._program](self._path, reading):
            try:
                entry = self._entry(found, lines, seen)
            except InvalidInputError as error:
                reading.leave_out(found.place, error)
            else:
                reading.understood += 1
                yield entry

    def _entry(
        self, found: SourceRecord, lines: LineReader, seen: Counter[bytes]
    ) -> UnderstoodRecord:
        fields = {**found.fields, **self._origins}
        user = found.user
        if len(self._names) < NAMES_MAX:
            self._names.update(name[:NAME_CHARACTERS_MAX] for name in found.raw)
        for theirs, ours in self._fields.items():
            value = looked_up(found.raw, theirs)
            if value is None:
                continue
            self._found.add(theirs)
            if ours == "user":
                user = str(value) if isinstance(value, int) else value
            else:
                fields[ours] = value
        if "content" in self._fields.values() and "content" in fields:
            fields = {k: v for k, v in fields.items() if k not in ("data", "memory_type")}
        if "timestamp" in fields:
            fields["timestamp"] = time_of_others(fields["timestamp"])
        made_id = _made_id(self._program, found, fields, seen)
        fields["id"] = made_id if found.own_id is None else found.own_id
        for end, key in zip(("source_id", "target_id"), found.ends, strict=True):
            if key is not None and "data" in fields:
                digest = hashlib.sha256(_encoded([key])).digest()
                fields["data"] = {**fields["data"], end: _id_of_digest(self._program, digest)}
        line = lines.entry(fields, found.place)
        if found.own_id is not None:
            line = line._replace(other_id=made_id)
        return UnderstoodRecord(None if user is None else check_name(user, "user"), line)


def _made_id(
    program: str, found: SourceRecord, fields: Mapping[str, Any], seen: Counter[bytes]
) -> str:
    said = [] if found.replaces else [fields.get("content"), fields.get("data")]
    if found.key is None:
        said += [fields.get(name) for name in ("timestamp", "session", "role")]
    digest = hashlib.sha256(_encoded([found.key, *said])).digest()
    ordinal = seen[digest] if found.key is None else 0
    if found.key is None:
        seen[digest] += 1
    return _id_of_digest(program, digest, ordinal)


def _id_of_digest(program: str, digest: bytes, ordinal: int = 0) -> str:
    whole = hashlib.sha256(digest + ordinal.to_bytes(8, "big")).hexdigest()[:32]
    return f"{program}_{whole}"


def _encoded(value: object) -> bytes:
    try:
        return msgspec.json.encode(value, order="sorted")
    except (ValueError, OverflowError, RecursionError) as error:
        raise InvalidInputError(f"it holds what is not Unicode, or no JSON: {error}") from error


def looked_up(record: object, name: str) -> Any:
    """Return a field of a record by its name, with dots between names inside of each other.

    A whole name with dots in it comes first; a number is a place in a list. None: there is none.
    """
    if isinstance(record, Mapping) and name in record:
        return record[name]
    first, dot, rest = name.partition(".")
    if isinstance(record, Sequence) and not isinstance(record, str) and first.isdecimal():
        inner = record[int(first)] if len(first) < 10 and int(first) < len(record) else None
    else:
        inner = record.get(first) if isinstance(record, Mapping) else None
    return looked_up(inner, rest) if dot else inner


# --- what is not understood


def nothing_understood(path: Path, name: str, reading: SourceReading) -> InvalidInputError:
    """Return the error of a file that has nothing which the reader of a program understands."""
    said = "; ".join(one.says for one in reading.notes()[:NOTES_SHOWN_MAX])
    options = fitting(path)
    advice = (
        f"It reads with {options}"
        if options
        else f"No other format fits, of {', '.join(SOURCES)}: is this the right file?"
    )
    return InvalidInputError(f"nothing in {path} is understood as {name}: {said}. {advice}")


def fitting(path: Path) -> str:
    """Return the options with which a file reads, "" if there are none."""
    options = [f"--from {program}" for program in SOURCES if _fits(program, path)]
    return " or ".join([*options, *(["no --from"] if _is_ours(path) else [])])


def _fits(program: str, path: Path) -> bool:
    """Say whether a program's reader understands a record of a file; any text would be Markdown."""
    if program in OF_MARKDOWN and path.is_file() and path.suffix.casefold() not in ENDINGS:
        return False
    with suppress(InvalidInputError):
        return next(ImportPlan(program, path, {}, {}).entries(SourceReading()), None) is not None
    return False


def _is_ours(path: Path) -> bool:
    with suppress(InvalidInputError), open_file(path) as file:
        line = file.readline(BATCH_BYTES_MAX).removeprefix(BOM_UTF8)
        return bool(LineReader().read(line, str(path)))
    return False


# --- the API


async def plan_import(
    program: str,
    path: str | Path,
    *,
    user_field: str | None = None,
    fields: Mapping[str, str] | None = None,
    source: str | None = None,
    trust: Trust | str | None = None,
    progress: Progress | None = None,
) -> ImportPlan:
    """Read the files of another program, and add nothing. The arguments are those of `import_from`.

    :raises InvalidInputError: they cannot be read, or are not that program's.
    """
    check_choice(program, tuple(SOURCES), "program")
    (one,) = origin(check_name(program if source is None else source, "source"), trust)
    origins = {"source": one.source, "trust": one.trust.value}
    wanted = dict(fields or {}) | ({user_field: "user"} if user_field is not None else {})
    checked = {}
    for theirs, ours in wanted.items():
        check_choice(ours, tuple(OURS), f"the field that {theirs!r:.60} is")
        checked[check_name(theirs, "the name of a field")] = OURS[ours]
    plan = ImportPlan(program, Path(path), checked, origins)
    await plan.read(progress)
    return plan


async def import_from(
    memory: MemorySystem,
    program: str,
    path: str | Path,
    *,
    user_id: str | None = None,
    user_field: str | None = None,
    fields: Mapping[str, str] | None = None,
    source: str | None = None,
    trust: Trust | str | None = None,
    dry_run: bool = False,
    progress: Progress | None = None,
) -> ImportReport:
    """Add the memories in the files of another program; run again, it adds what is new.

    `program` is one of `SOURCES`, `path` what it takes. Each record goes to the user that it names;
    `user_field` names the field that says so, where another than usual does (`metadata.owner`;
    `namespace.1` is the second part of a list), and `user_id` has the records that name nobody.
    `fields` says which field of theirs is one of ours: content, occurred_at, session_id, role or
    user_id. `source` and `trust` are of all that is added: by default the program's name, unknown.
    Records that are no memory are left out, and the report says why. `dry_run` adds nothing, and
    counts the records of the files.

    :raises InvalidInputError: the files are damaged, or not that program's: nothing was added.
    :raises QuotaExceededError: no room for a record; what came before it is kept.
    """
    plan = await plan_import(
        program,
        path,
        user_field=user_field,
        fields=fields,
        source=source,
        trust=trust,
        progress=progress,
    )
    return (
        plan.report(user_id)
        if dry_run
        else await plan.add(memory, user_id=user_id, progress=progress)
    )
