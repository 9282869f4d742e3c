"""Import from files of JSON lines. The format of a line is in `records`; exporting.py writes them.

Lines are read and added in batches, so memory does not grow with the file. A bad line is left out,
and the report names it. An id that the user has used before adds nothing, so an import that was cut
off is simply run again.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Final

import anyio.to_thread
import msgspec

from memory_actors.base.errors import InvalidInputError
from memory_actors.base.reports import ForgottenFact
from memory_actors.interchange import records
from memory_actors.interchange.adding import Adder
from memory_actors.interchange.files import open_file
from memory_actors.interchange.importing import nothing_understood
from memory_actors.interchange.noting import ImportReport
from memory_actors.interchange.sources.port import SourceReading
from memory_actors.sharing.system import UserMemory

BATCH_LINES: Final = 200  # embedded together, one commit: 0.7 s of the default model
BATCH_BYTES_MAX: Final = 8 << 20  # read and not yet added, beside the line that passes it
LINE_BYTES_MAX: Final = 128 << 20  # an episode of 50 steps of 256 KiB, every character escaped
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"


async def import_jsonl(
    user: UserMemory, path: str | Path, *, progress: records.Progress | None = None
) -> ImportReport:
    """Add the memories of a file to a user's; `progress` hears bytes.

    A line that cannot be added is left out: the report says why.

    :raises InvalidInputError: no line of the file is understood, or it cannot be read.
    :raises QuotaExceededError: no room for what a line says; what came before it is kept.
    """
    reading, forgotten = SourceReading(), list[ForgottenFact]()
    adder = Adder(user, reading.leave_out)
    with open_file(Path(path)) as file:
        total_bytes = os.fstat(file.fileno()).st_size  # 0 of a pipe
        batches = records.in_batches(
            _entries(file, str(path), reading, forgotten), lambda entry: entry[1],
            count_max=BATCH_LINES, size_max=BATCH_BYTES_MAX,
        )  # fmt: skip
        while batch := await anyio.to_thread.run_sync(next, batches, None):
            await adder.add([line for line, _, _ in batch])
            if progress is not None:
                progress(batch[-1][2], total_bytes)
    if forgotten:  # last: a memory that was kept says such a fact, and more
        await user._put_forgotten(forgotten)  # noqa: SLF001 - for imports
    report = adder.report(reading.notes())
    if reading.left_out and not report.added + report.unchanged:
        raise nothing_understood(Path(path), "our own JSON lines", reading)
    return msgspec.structs.replace(report, left_out=reading.left_out)


def _entries(
    file: IO[bytes], name: str, reading: SourceReading, forgotten: list[ForgottenFact]
) -> Iterator[tuple[records.ReadLine, int, int]]:
    """Yield each line that is a memory, its size and the place of its end, both in bytes.

    Lines that say a forgotten fact are added to `forgotten`.
    """
    reader, done_bytes, number = records.LineReader(reading), 0, 0
    while data := file.readline(LINE_BYTES_MAX + 1):
        number, done_bytes = number + 1, done_bytes + len(data)
        place = f"{name}, line {number}"
        if len(data) > LINE_BYTES_MAX:
            raise InvalidInputError(
                f"{place} is longer than {LINE_BYTES_MAX:,} bytes: is this a file of JSON lines?"
            )
        if number == 1:
            data = data.removeprefix(_BYTE_ORDER_MARK)
        if data.strip():
            try:
                if data.startswith(records.ForgottenLine.START):
                    forgotten.append(records.ForgottenLine.read(data))
                    continue
                entry = reader.read(data, place)
            except InvalidInputError as error:
                reading.leave_out(place, error)
            else:
                reading.understood += 1
                yield entry, len(data), done_bytes
